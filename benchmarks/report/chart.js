"use strict";
/* Panels of lines, drawn by Bokeh; values show on hover.

A panel is {names, x, lines, from, to, height, places}: names above it (each with a colour where it has one), words under
it, the ends of its vertical axis, and names of 0, 1, ... where the horizontal axis has names. A line is {name, colour, x, mean, low, high, words, dash,
interval, style}; curves that lie on each other are told apart by their style, 0, 1, ...: the first is the widest, later
ones are narrower, dashed and with another sign, so that all colours show. Its interval is drawn as "band", as "bars" or not at all. A line without words only stands behind others. */

/* An estimate with its interval, in words. */
function estimate(show, mean, low, high) {
  return `${show(mean)} [${show(low)}, ${show(high)}]`;
}

const DASHES = [[], [9, 5], [3, 4], [12, 4, 3, 4]], SIGNS = ["circle", "square", "triangle", "diamond"];
const strokeOf = (style) => Math.max(1.8, 6 - 1.5 * style);

/* A line and its sign, as they are drawn. */
function sample(colour, style, parent) {
  const picture = svg("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" }, parent), at = style % SIGNS.length;
  svg("path", { d: "M0 6H34", stroke: colour, "stroke-width": strokeOf(style), "stroke-dasharray": DASHES[at].join(" ") }, picture);
  const signs = ["M17 1a5 5 0 1 0 .1 0", "M12.5 1.5h9v9h-9z", "M17 1L22.5 11h-11z", "M17 0L23 6L17 12L11 6z"];
  svg("path", { d: signs[at], fill: colour }, picture);
}

/* Returns a function that draws panels into the element, in the place of those before. */
function panelsIn(holder) {
  let shown = Promise.resolve(null), last = [], GREY = "";

  function axis(one) {
    Object.assign(one, {
      axis_label_text_color: GREY, axis_label_text_font_style: "normal", axis_label_text_font_size: "13px",
      axis_label_standoff: 4, axis_line_color: GREY, major_label_text_color: GREY, major_label_text_font_size: "12px",
      major_tick_line_color: GREY, minor_tick_line_color: null,
    });
  }

  function line(plot, one) {
    const { name, colour: color, x, mean, low, high, words, dash, interval, style } = one;
    const source = new Bokeh.ColumnDataSource({ data: { x, mean, low, high, words: words ?? mean } });
    const at = (field) => ({ field });
    if (interval === "band") {
      plot.varea({ x: at("x"), y1: at("low"), y2: at("high"), source, fill_color: color, fill_alpha: 0.2 });
    } else if (interval === "bars") {
      plot.segment({ x0: at("x"), y0: at("low"), x1: at("x"), y1: at("high"), source, line_color: color, line_width: 1.5 });
    }
    const width = !words ? 1 : style === undefined ? 2.2 : strokeOf(style), sign = (style ?? 0) % SIGNS.length;
    const drawn = plot.line({ x: at("x"), y: at("mean"), source, line_color: color, line_width: width, line_dash: dash ?? (words && style !== undefined ? DASHES[sign] : []), name });
    if (!words) return [];
    plot.scatter({ x: at("x"), y: at("mean"), source, fill_color: color, line_color: color, marker: SIGNS[sign], size: style === undefined ? 5 : Math.max(5, 11 - 2 * style) });
    return [drawn];
  }

  function figure(panel) {
    const plot = Bokeh.Plotting.figure({
      height: panel.height, sizing_mode: "stretch_width", tools: [], toolbar_location: null,
      y_range: [panel.from, panel.to], x_axis_label: panel.x,
      background_fill_color: null, border_fill_color: null, outline_line_color: null,
    });
    const renderers = panel.lines.flatMap((one) => line(plot, one));
    plot.add_tools(new Bokeh.HoverTool({ renderers, mode: "vline", tooltips: [["$name", "@words"]] }));
    [...plot.xaxes, ...plot.yaxes].forEach(axis);
    for (const grid of [...plot.xgrids, ...plot.ygrids]) Object.assign(grid, { grid_line_color: GREY, grid_line_alpha: 0.25 });
    if (panel.places) {
      plot.xaxis.ticker = new Bokeh.FixedTicker({ ticks: panel.places.map((_, i) => i) });
      plot.xaxis.major_label_overrides = new Map(panel.places.map((name, i) => [i, name]));
    }
    return plot;
  }

  async function embed(before, panels) {
    before?.views.clear();
    before?.drawn.clear();
    holder.replaceChildren();
    const drawn = new Bokeh.Document();
    const places = panels.map((panel) => {
      drawn.add_root(figure(panel));
      const cell = html("figure", undefined, holder);
      const caption = html("figcaption", undefined, cell);
      for (const { name, colour, style } of panel.names) {
        const word = html("span", undefined, caption);
        if (colour) sample(colour, style ?? 0, word);
        word.append(name);
      }
      const place = html("div", undefined, cell);
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", panel.names.map(({ name, words }) => `${name}: from ${words?.[0]} to ${words?.at(-1)}`).join("; "));
      return place;
    });
    return { drawn, views: await Bokeh.embed.add_document_standalone(drawn, holder, places) };
  }

  /* The grey of the page's words: one that reads on light pages is too dark for dark ones. */
  function draw(panels) {
    GREY = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
    last = panels;
    shown = shown.then((before) => embed(before, panels));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(last));
  return draw;
}
