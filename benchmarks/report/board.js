"use strict";
/* Data of the page, small helpers of the DOM, and boards: Sokoban as tiles, any other text as it is. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, text, parent) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

/* A row of buttons of which one is pressed; calls back with its value. */
function choose(id, onChange) {
  const group = document.getElementById(id);
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
    onChange(button.dataset.value);
  });
}

function isTiled(text) {
  return DATA.tiles !== null && [...text].every((symbol) => symbol === "\n" || symbol in DATA.tiles);
}

function tile(parent, kind, x, y) {
  const at = (name, attributes) => svg(name, attributes, parent);
  if (kind === "wall") {
    at("rect", { x, y, width: 10.05, height: 10.05, fill: "var(--wall)" });
    at("path", { d: `M${x} ${y + 5}h10M${x + 5} ${y}v5M${x + 2.5} ${y + 5}v5M${x + 7.5} ${y + 5}v5M${x} ${y + 10}h10`,
      stroke: "var(--wall-edge)", "stroke-width": 0.6, fill: "none" });
    return;
  }
  at("rect", { x, y, width: 10.05, height: 10.05, fill: "var(--floor)" });
  if (kind === "target" || kind === "player_on_target") {
    at("circle", { cx: x + 5, cy: y + 5, r: 3.6, fill: "none", stroke: "var(--target)", "stroke-width": 1 });
    if (kind === "target") at("circle", { cx: x + 5, cy: y + 5, r: 1.3, fill: "var(--target)" });
  }
  if (kind === "box" || kind === "box_on_target") {
    const done = kind === "box_on_target";
    at("rect", { x: x + 1.3, y: y + 1.3, width: 7.4, height: 7.4, rx: 0.9, "stroke-width": 0.8,
      fill: done ? "var(--done)" : "var(--box)", stroke: done ? "var(--done-edge)" : "var(--box-edge)" });
    at("path", done ? { d: `M${x + 3} ${y + 5.2}l1.5 1.6l2.7 -3.4`, fill: "none", stroke: "#fff", "stroke-width": 1 }
      : { d: `M${x + 2.4} ${y + 2.4}l5.2 5.2m0 -5.2l-5.2 5.2`, stroke: "var(--box-edge)", "stroke-width": 0.7 });
  }
  if (kind === "player" || kind === "player_on_target") {
    at("circle", { cx: x + 5, cy: y + 5, r: 2.7, fill: "var(--player)" });
    at("circle", { cx: x + 4, cy: y + 4.4, r: 0.5, fill: "#fff" });
    at("circle", { cx: x + 6, cy: y + 4.4, r: 0.5, fill: "#fff" });
    at("path", { d: `M${x + 3.9} ${y + 6}q1.1 .9 2.2 0`, fill: "none", stroke: "#fff", "stroke-width": 0.5 });
  }
}

/* Draws an observation into an element: a picture (its address, line break, text), tiles, or the text as it is. */
function drawBoard(element, text) {
  element.replaceChildren();
  if (text.startsWith("data:image/png;base64,")) {
    const end = text.indexOf("\n"), picture = html("img", undefined, element);
    picture.src = text.slice(0, end);
    picture.alt = text.slice(end + 1);
    html("pre", text.slice(end + 1), element);
    return;
  }
  if (!isTiled(text)) {
    html("pre", text, element);
    return;
  }
  const rows = text.split("\n").map((row) => [...row]);
  const width = Math.max(...rows.map((row) => row.length));
  const picture = svg("svg", { viewBox: `0 0 ${width * 10} ${rows.length * 10}`, role: "img", "aria-label": text }, element);
  rows.forEach((row, r) => row.forEach((symbol, c) => tile(picture, DATA.tiles[symbol], c * 10, r * 10)));
}
