"use strict";
/* Learning curves: the means of all methods together, then one panel each with its band before the others. */
(() => {
  const view = { mode: "greedy", axis: "iteration" };
  const show = panelsIn(document.getElementById("chart")), words = document.getElementById("chart-words");
  const percent = (values) => values.map((value) => 100 * value);

  function draw() {
    const curves = DATA.curves[view.mode].map((curve, i) => ({
      name: curve.method, style: i, colour: curve.colour, x: curve[view.axis],
      mean: percent(curve.mean), low: percent(curve.low), high: percent(curve.high),
      words: curve.mean.map((mean, k) => estimate((v) => (100 * v).toFixed(1), mean, curve.low[k], curve.high[k])),
    }));
    const above = (values) => Math.min(102, 10 * Math.ceil(Math.max(...values) / 10 + 0.2));
    const to = above(curves.flatMap((curve) => curve.high));
    const x = view.axis === "iteration" ? "iteration" : "training time of one run [s]";
    const alone = curves.length === 1;
    const panels = alone ? [] : [{ names: curves, x, lines: curves, from: 0, to: above(curves.flatMap((curve) => curve.mean)), height: 320 }];
    for (const curve of curves) {
      const others = curves.filter((other) => other !== curve).map(({ words: _, ...other }) => ({ ...other, colour: "#b4bac3" }));
      panels.push({ names: [curve], x, lines: [...others, { ...curve, interval: "band" }], from: 0, to, height: alone ? 320 : 220 });
    }
    words.textContent = `validation success [%], ${view.mode} play`;
    show(panels);
  }

  choose("curve-mode", (value) => { view.mode = value; draw(); });
  choose("curve-axis", (value) => { view.axis = value; draw(); });
  draw();
})();
