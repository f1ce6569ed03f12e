"use strict";
/* The ranking study: one panel per player over group sizes, and one table of every credit. */
(() => {
  const view = { measure: "within", kind: "measures", player: 0, shown: new Set() };
  const W = 280, H = 250, LEFT = 38, RIGHT = 10, TOP = 26, BOTTOM = 40;
  const panels = document.getElementById("panels"), legend = document.getElementById("ranking-legend");
  for (const credit of DATA.credits) if (credit.main) view.shown.add(credit.name);

  const share = () => DATA.measures[view.measure].share;
  const values = (credit, player) => credit[view.kind][view.measure][player];
  const scaled = (value) => (share() ? 100 * value : value);

  function show(value) {
    const text = (share() ? (100 * value).toFixed(1) : value.toFixed(3)).replace(/^-(0\.0+)$/, "$1");
    return view.kind === "differences" && !text.startsWith("-") ? `+${text}` : text;
  }

  function limits(credits) {
    const all = credits.flatMap((c) => c[view.kind][view.measure].flat()).filter((v) => v).flat();
    let low = Math.min(0, ...all), high = Math.max(view.kind === "measures" ? 1 : 0, ...all);
    if (view.kind === "differences") { const pad = (high - low) * 0.05 || 0.05; low -= pad; high += pad; }
    if (view.kind === "measures" && share()) low = 0;
    return [low, high];
  }

  function draw() {
    const credits = DATA.credits.filter((credit) => view.shown.has(credit.name));
    document.getElementById("words").textContent = DATA.measures[view.measure].words;
    panels.replaceChildren();
    const [low, high] = limits(credits);
    DATA.players.forEach((player, index) => panel(player, index, credits, low, high));
    table();
  }

  function panel(player, index, credits, low, high) {
    const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${player.name}` }, panels);
    const steps = Math.max(1, DATA.sizes.length - 1);
    const X = (i) => LEFT + 8 + (i / steps) * (W - LEFT - RIGHT - 16);
    const Y = (v) => H - BOTTOM - ((v - low) / (high - low || 1)) * (H - TOP - BOTTOM);
    svg("text", { class: "title", x: LEFT, y: 14 }, picture).textContent =
      `${player.name}, ${Math.round(100 * player.success)} % solved`;
    const width = high - low > 0.8 ? 0.2 : high - low > 0.3 ? 0.1 : 0.05;
    for (let k = Math.ceil(low / width - 1e-9); k * width <= high + 1e-9; k++) {
      const v = k * width;
      svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: Y(v), y2: Y(v) }, picture);
      svg("text", { x: LEFT - 6, y: Y(v) + 4, "text-anchor": "end" }, picture).textContent = String(+scaled(v).toFixed(2));
    }
    DATA.sizes.forEach((size, i) => {
      svg("text", { x: X(i), y: H - BOTTOM + 18, "text-anchor": "middle" }, picture).textContent = String(size);
    });
    svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, "text-anchor": "middle" }, picture).textContent = "episodes per group";
    for (const credit of credits) {
      const found = values(credit, index).map((v, i) => [v, X(i)]).filter(([v]) => v);
      const up = found.map(([v, x]) => `${x} ${Y(v[2])}`), down = found.map(([v, x]) => `${x} ${Y(v[1])}`).reverse();
      if (!found.length) continue;
      svg("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: credit.colour, opacity: 0.16 }, picture);
      svg("path", { d: `M${found.map(([v, x]) => `${x} ${Y(v[0])}`).join("L")}`, fill: "none", stroke: credit.colour,
        "stroke-width": 2, "stroke-dasharray": dash(credit) }, picture);
      for (const [v, x] of found) svg("circle", { cx: x, cy: Y(v[0]), r: 2.8, fill: credit.colour }, picture);
    }
    hover(picture, index, credits, X);
  }

  const dash = (credit) => (credit.part === "total" ? "7 3" : credit.part === "reference" ? "2 3" : credit.name.includes(",") ? "4 2" : "none");

  function hover(picture, index, credits, X) {
    const layer = svg("g", { visibility: "hidden", "pointer-events": "none" }, picture);
    const line = svg("line", { y1: TOP, y2: H - BOTTOM, stroke: "var(--soft)", "stroke-dasharray": "3 3" }, layer);
    const back = svg("rect", { x: LEFT + 2, y: TOP, width: W - LEFT - RIGHT - 4, rx: 5, fill: "var(--card)", stroke: "var(--line)" }, layer);
    const words = svg("g", { class: "values" }, layer);
    picture.addEventListener("mouseleave", () => layer.setAttribute("visibility", "hidden"));
    picture.addEventListener("mousemove", (event) => {
      const box = picture.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * W;
      const i = DATA.sizes.reduce((best, _, k) => (Math.abs(X(k) - at) < Math.abs(X(best) - at) ? k : best), 0);
      const rows = credits.filter((credit) => values(credit, index)[i]);
      layer.setAttribute("visibility", rows.length ? "visible" : "hidden");
      line.setAttribute("x1", X(i));
      line.setAttribute("x2", X(i));
      back.setAttribute("height", 8 + 16 * rows.length);
      words.replaceChildren();
      rows.forEach((credit, row) => {
        const y = TOP + 16 + 16 * row, [mean, low, high] = values(credit, index)[i];
        svg("circle", { cx: LEFT + 12, cy: y - 4, r: 4, fill: credit.colour }, words);
        svg("text", { x: LEFT + 20, y }, words).textContent = credit.name;
        svg("text", { x: W - RIGHT - 6, y, "text-anchor": "end" }, words).textContent = `${show(mean)} [${show(low)}, ${show(high)}]`;
      });
    });
  }

  function table() {
    const whole = document.getElementById("values"), head = whole.tHead, body = whole.tBodies[0];
    head.replaceChildren();
    body.replaceChildren();
    const names = html("tr", undefined, head);
    html("th", "credit", names);
    for (const size of DATA.sizes) html("th", `groups of ${size}`, names);
    let part = "";
    for (const credit of DATA.credits) {
      const row = html("tr", undefined, body);
      if (part && credit.part !== part) row.className = "part";
      part = credit.part;
      const name = html("th", undefined, row);
      html("i", "", name).className = "dot";
      name.firstChild.style.background = credit.colour;
      name.append(credit.name);
      for (const found of values(credit, view.player)) {
        const cell = html("td", found ? `${show(found[0])} ` : "-", row);
        if (found) html("span", `[${show(found[1])}, ${show(found[2])}]`, cell).className = "range";
      }
    }
  }

  for (const credit of DATA.credits) {
    const button = html("button", undefined, legend);
    button.type = "button";
    button.setAttribute("aria-pressed", String(view.shown.has(credit.name)));
    html("i", "", button).className = "dot";
    button.firstChild.style.background = credit.colour;
    button.append(credit.name);
    button.addEventListener("click", () => {
      const hide = view.shown.has(credit.name);
      hide ? view.shown.delete(credit.name) : view.shown.add(credit.name);
      button.setAttribute("aria-pressed", String(!hide));
      draw();
    });
  }
  document.getElementById("measure").addEventListener("change", (event) => { view.measure = event.target.value; draw(); });
  document.getElementById("player").addEventListener("change", (event) => {
    view.player = Number(event.target.value);
    document.querySelectorAll(".player-words").forEach((words, i) => { words.hidden = i !== view.player; });
    draw();
  });
  choose("kind", (value) => { view.kind = value; draw(); });
  draw();
})();
