// Code and tables that are wider than the page scroll; the keyboard reaches them too.
addEventListener("load", () => {
  for (const region of document.querySelectorAll("pre, .table-wrapper")) {
    if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
  }
});
