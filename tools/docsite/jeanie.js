// Code and tables that are wider than the page scroll; the keyboard reaches them too.
// A number stays on one line with its interval and unit; the name of a row gets room beside wide numbers.
addEventListener("load", () => {
  for (const cell of document.querySelectorAll("table.docutils td")) {
    const text = cell.textContent.trim();
    if (/^[-+±~]?\d/.test(text) && text.length < 25 && text.split(/\s+/).length < 5) cell.classList.add("number");
    else if (cell.cellIndex === 0 && text.length > 15) cell.classList.add("name");
  }
  for (const region of document.querySelectorAll("pre, .table-wrapper")) {
    if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
  }
});
