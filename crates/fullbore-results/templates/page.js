// Tables sort by a click on a heading, or Enter or Space there. Without this, they are in the order
// of the run. No less-than sign and no ampersand here: the page is well-formed as XML, too.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = Array.from(table.tHead.rows[0].cells);
  const order = new Intl.Collator("en", { numeric: true });
  headings.forEach((heading, column) => {
    const words = heading.querySelector("span");
    if (body.rows.length === 1 || words.textContent === "") return;
    const button = document.createElement("button");
    button.type = "button";
    heading.replaceChild(button, words);
    button.append(words);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      // Numbers begin with the largest, words with A; another click turns that round.
      const numeric = heading.classList.contains("number");
      const now = heading.getAttribute("aria-sort");
      const down = now === "none" ? numeric : now === "ascending";
      for (const other of headings) {
        if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      }
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const keyed = Array.from(body.rows).map((row) => {
        const cell = row.cells[column];
        const text = cell.textContent.trim();
        const key = cell.hasAttribute("data-key") ? Number(cell.dataset.key) : NaN;
        return { row, text, key, empty: numeric ? Number.isNaN(key) : text === "" };
      });
      keyed.sort((a, b) => {
        // What is not there comes last both ways.
        if (a.empty || b.empty) return Number(a.empty) - Number(b.empty);
        return sign * (numeric ? a.key - b.key : order.compare(a.text, b.text));
      });
      body.append(...keyed.map((entry) => entry.row));
      document.getElementById("sorted").textContent =
        table.caption.textContent + ": sorted by " + words.textContent + ", " +
        (down ? "descending" : "ascending");
    });
  });
}
