"use strict";
/* Learning curves: which play, over which axis; Bokeh draws them, shows values on hover and hides what is clicked. */
(() => {
  const view = { mode: "greedy", axis: "iteration" };
  const holder = document.getElementById("chart");
  let shown = Promise.resolve(null);

  function draw() {
    const item = DATA.curves[`${view.mode} ${view.axis}`];
    shown = shown.then((before) => {
      before?.clear();
      holder.replaceChildren();
      return Bokeh.embed.embed_item(item, holder);
    });
  }

  choose("curve-mode", (value) => { view.mode = value; draw(); });
  choose("curve-axis", (value) => { view.axis = value; draw(); });
  draw();
})();
