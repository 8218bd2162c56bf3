// Code and tables that are wider than the page scroll; the keyboard reaches them too.
// A number stays on one line with its interval and unit; names of rows and code get room.
addEventListener("load", () => {
  for (const cell of document.querySelectorAll("table.docutils td")) {
    const text = cell.textContent.trim();
    if (/^[-+±~]?\d/.test(text) && text.length < 25 && text.split(/\s+/).length < 5) cell.classList.add("number");
    else if (cell.cellIndex === 0 && text.length > 15) cell.classList.add("name");
    else if (text.split(/\s+/).some((word) => word.length > 16)) cell.classList.add("code");
    for (const code of cell.querySelectorAll("code")) {
      code.classList.toggle("short", code.textContent.length < (cell.cellIndex === 0 ? 26 : 11));
    }
  }
  for (const region of document.querySelectorAll("pre, .table-wrapper")) {
    if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
  }
});
