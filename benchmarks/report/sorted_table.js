"use strict";
/* A table whose rows are sorted by any column: its heads are buttons, and say what it is sorted by. */

/* heads: { words, left }; rows: lists of { text, range, value, dot, shade, best }, value null: always last. */
function sortedTable(table, heads, rows, state) {
  if (state.column >= heads.length) Object.assign(state, { column: -1, down: true });
  const head = html("tr");
  table.tHead.replaceChildren(head);
  heads.forEach((words, column) => {
    const cell = html("th", undefined, head);
    cell.scope = "col";
    if (column === state.column) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    const button = html("button", words, cell);
    button.type = "button";
    button.className = "sort";
    html("span", column === state.column ? (state.down ? " ▼" : " ▲") : "", button).setAttribute("aria-hidden", "true");
    button.addEventListener("click", () => {
      const again = state.column === column;
      Object.assign(state, { column, down: again ? !state.down : column > 0 });
      sortedTable(table, heads, rows, state);
      table.tHead.querySelectorAll("button")[column].focus();
    });
  });
  const body = table.tBodies[0];
  body.replaceChildren();
  for (const row of ordered(rows, state)) {
    const line = html("tr", undefined, body);
    row.forEach((cell, column) => {
      const shown = html(column ? "td" : "th", undefined, line);
      if (!column) shown.scope = "row";
      if (cell.dot) html("i", "", shown).className = "dot";
      if (cell.dot) shown.firstChild.style.background = cell.dot;
      if (cell.shade) shown.style.background = `color-mix(in srgb, var(--accent) ${cell.shade}%, transparent)`;
      const words = html(cell.best ? "b" : "span", "", shown);
      // On a narrow screen a name such as gated_bepo:lam=0.0 is broken between its parts.
      cell.text.split(/(?<=[:_])/).forEach((part, k) => words.append(...(k ? [document.createElement("wbr")] : []), part));
      if (cell.range) html("span", ` ${cell.range}`, shown).className = "range";
    });
  }
}

function ordered(rows, state) {
  if (state.column < 0) return rows;
  const sign = state.down ? -1 : 1;
  const compared = (a, b) => {
    const [x, y] = [a[state.column].value, b[state.column].value];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  };
  return [...rows].sort(compared);
}
