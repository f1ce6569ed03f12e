"use strict";
/* Tables: how wide cells are, and, where they hold results, heads that sort by their column. */

/* "12.5 [1, 2]", ".85", "+2.1", "1,024" and "38 %" are numbers; "-" and nothing are none, and come last. */
function sortValue(cell) {
  const text = cell.textContent.trim();
  if (text === "" || text === "-") return null;
  const number = /^[+\-−]?(\d[\d,]*)?(\.\d+)?/.exec(text)[0].replace("−", "-").replaceAll(",", "");
  return /\d/.test(number) ? Number(number) : text.toLowerCase();
}

function sortRows(body, column, sign) {
  const order = (a, b) => {
    const [x, y] = [sortValue(a.cells[column]), sortValue(b.cells[column])];
    if (x === null || y === null) return (x === null) - (y === null);
    if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
    return sign * (typeof x === "number" ? x - y : x.localeCompare(y));
  };
  body.append(...[...body.rows].sort(order));
}

/* Numbers with their intervals stay in one line; long texts get the room of a paragraph, and the table scrolls. */
for (const cell of document.querySelectorAll("article table:not([class]) td")) {
  if (typeof sortValue(cell) === "number" && cell.textContent.length < 24) cell.classList.add("number");
  if (cell.textContent.length > 70) cell.classList.add("words");
}

for (const table of document.querySelectorAll("article table:not([class])")) {
  const [head, body] = [table.tHead, table.tBodies[0]];
  if (head && head.rows[0].cells[0].textContent === "option") table.dataset.kind = "options";
  if (!head || !body || body.rows.length < 4) continue;
  const numbers = [...body.rows].filter((row) => [...row.cells].slice(1).some((cell) => typeof sortValue(cell) === "number"));
  if (numbers.length < body.rows.length / 2) continue;
  [...head.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    button.title = "sort by this column";
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") ? cell.getAttribute("aria-sort") !== "descending" : column > 0;
      for (const other of head.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      sortRows(body, column, down ? -1 : 1);
    });
  });
}
