"use strict";
/* Learning curves: one line with a band per method, values on hover. */
(() => {
  const view = { mode: "greedy", axis: "iteration", hidden: new Set() };
  const W = 1100, H = 400, LEFT = 58, RIGHT = 20, TOP = 14, BOTTOM = 46;
  const holder = document.getElementById("chart");
  const legend = document.getElementById("curve-legend");

  function ticks(low, high, count) {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i++) found.push(i * step);
    return found;
  }

  function shown() {
    return DATA.curves[view.mode].filter((series) => !view.hidden.has(series.method));
  }

  function draw() {
    holder.replaceChildren();
    const all = DATA.curves[view.mode];
    const xMax = Math.max(1, ...all.flatMap((s) => s[view.axis]));
    const floor = Math.min(...all.flatMap((s) => s.low)), top = Math.max(...all.flatMap((s) => s.high));
    const pad = Math.max(0.02, (top - floor) * 0.06);
    const yLow = Math.max(0, floor - pad), yHigh = Math.min(1, top + pad);
    const X = (v) => LEFT + (v / xMax) * (W - LEFT - RIGHT);
    const Y = (v) => H - BOTTOM - ((v - yLow) / (yHigh - yLow)) * (H - TOP - BOTTOM);
    const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "learning curves" }, holder);
    for (const v of ticks(yLow * 100, yHigh * 100, 6)) {
      svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: Y(v / 100), y2: Y(v / 100) }, picture);
      svg("text", { x: LEFT - 8, y: Y(v / 100) + 4, "text-anchor": "end" }, picture).textContent = String(Math.round(v * 10) / 10);
    }
    for (const v of ticks(0, xMax, 10)) {
      svg("line", { class: "grid", x1: X(v), x2: X(v), y1: H - BOTTOM, y2: H - BOTTOM + 5 }, picture);
      svg("text", { x: X(v), y: H - BOTTOM + 20, "text-anchor": "middle" }, picture).textContent = String(Math.round(v * 100) / 100);
    }
    svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, picture).textContent =
      view.axis === "iteration" ? "iteration" : "training time of one run [s]";
    svg("text", { transform: `translate(14 ${(H - BOTTOM + TOP) / 2}) rotate(-90)`, "text-anchor": "middle" }, picture)
      .textContent = `validation success [%], ${view.mode} play`;
    for (const series of shown()) {
      const x = series[view.axis].map(X);
      const up = series.high.map((v, i) => `${x[i]} ${Y(v)}`), down = series.low.map((v, i) => `${x[i]} ${Y(v)}`).reverse();
      svg("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: series.colour, opacity: Math.min(0.14, 0.6 / shown().length) }, picture);
    }
    for (const series of shown()) {
      const points = series.mean.map((v, i) => [X(series[view.axis][i]), Y(v)]);
      svg("path", { d: `M${points.map((p) => p.join(" ")).join("L")}`, fill: "none", stroke: series.colour,
        "stroke-width": 2.2, "stroke-linejoin": "round" }, picture);
      for (const [cx, cy] of points) svg("circle", { cx, cy, r: 3, fill: series.colour }, picture);
    }
    hover(picture, X, Y, xMax);
  }

  function hover(picture, X, Y, xMax) {
    const layer = svg("g", { visibility: "hidden" }, picture);
    const line = svg("line", { y1: TOP, y2: H - BOTTOM, stroke: "var(--soft)", "stroke-dasharray": "3 3" }, layer);
    const back = svg("rect", { rx: 6, fill: "var(--card)", stroke: "var(--line)", width: 236 }, layer);
    const words = svg("g", {}, layer);
    picture.addEventListener("mouseleave", () => layer.setAttribute("visibility", "hidden"));
    picture.addEventListener("mousemove", (event) => {
      const box = picture.getBoundingClientRect();
      const at = (((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT) * xMax;
      const visible = shown();
      if (!visible.length) return;
      layer.setAttribute("visibility", "visible");
      words.replaceChildren();
      const nearest = (s) => s[view.axis].reduce((b, v, i) => (Math.abs(v - at) < Math.abs(s[view.axis][b] - at) ? i : b), 0);
      const first = visible[0][view.axis][nearest(visible[0])];
      const x = X(first), left = x > W / 2 ? x - 248 : x + 12;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      back.setAttribute("x", left);
      back.setAttribute("y", TOP + 4);
      back.setAttribute("height", 16 + 19 * visible.length);
      visible.forEach((s, row) => {
        const i = nearest(s), y = TOP + 25 + 19 * row, pc = (v) => (100 * v).toFixed(1);
        svg("circle", { cx: left + 14, cy: y - 4, r: 4.5, fill: s.colour }, words);
        svg("text", { x: left + 25, y }, words).textContent = s.method;
        svg("text", { x: left + 226, y, "text-anchor": "end" }, words).textContent = `${pc(s.mean[i])} [${pc(s.low[i])}, ${pc(s.high[i])}]`;
      });
    });
  }

  for (const series of DATA.curves.greedy) {
    const button = html("button", undefined, legend);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    html("i", "", button).className = "dot";
    button.firstChild.style.background = series.colour;
    button.append(series.method);
    button.addEventListener("click", () => {
      const hide = !view.hidden.has(series.method);
      hide ? view.hidden.add(series.method) : view.hidden.delete(series.method);
      button.setAttribute("aria-pressed", String(!hide));
      draw();
    });
  }
  choose("curve-mode", (value) => { view.mode = value; draw(); });
  choose("curve-axis", (value) => { view.axis = value; draw(); });
  draw();
})();
