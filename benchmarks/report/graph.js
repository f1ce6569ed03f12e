"use strict";
/* The state graph of a group: nodes coloured by distance to success, edges by gain or advantage. */
(() => {
  const get = (name) => document.getElementById(`graph-${name}`);
  const view = { method: DATA.graphs.at(-1).method, stage: DATA.graphs[0].stage, colour: "gain" };
  const COLUMN = 62, ROW = 40, MARGIN = 34;
  const RAMP = [[22, 140, 84], [32, 146, 150], [52, 110, 180], [84, 70, 150], [96, 44, 110]];
  let nodes = [], edges = [];

  function distanceColour(distance, most) {
    if (distance === null) return "var(--dead)";
    const at = (most ? distance / most : 0) * (RAMP.length - 1), i = Math.min(Math.floor(at), RAMP.length - 2);
    return `rgb(${RAMP[i].map((v, c) => Math.round(v + (RAMP[i + 1][c] - v) * (at - i))).join(",")})`;
  }

  function edgeColour(value) {
    if (value === null) return "var(--zero)";
    return Math.abs(value) < 5e-4 ? "var(--zero)" : value > 0 ? "var(--good)" : "var(--bad)";
  }

  function signed(value) {
    if (value === null) return "–";
    return Math.abs(value) < 5e-4 ? "0.000" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
  }

  /* A curve that bends to the right of its direction, so that the way there and the way back stay apart. */
  function edgePath(a, b, radius) {
    if (a === b) return `M${a.x - 5} ${a.y - a.r}C${a.x - 16} ${a.y - a.r - 20} ${a.x + 16} ${a.y - a.r - 20} ${a.x + 5} ${a.y - a.r - 3}`;
    const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy);
    const bend = a.x === b.x ? 0.32 * length : Math.min(26, 0.13 * length);
    const cx = (a.x + b.x) / 2 - (dy / length) * bend, cy = (a.y + b.y) / 2 + (dx / length) * bend;
    const near = Math.hypot(b.x - cx, b.y - cy), off = b.r + radius;
    const ex = b.x - ((b.x - cx) / near) * off, ey = b.y - ((b.y - cy) / near) * off;
    return `M${a.x} ${a.y}Q${cx} ${cy} ${ex} ${ey}`;
  }

  function draw() {
    const graph = view.graph;
    const perLayer = {};
    for (const node of graph.nodes) perLayer[node.depth] = (perLayer[node.depth] || 0) + 1;
    const layers = Math.max(...graph.nodes.map((n) => n.depth)) + 1, tallest = Math.max(...Object.values(perLayer));
    // Steps go to the right; where there is no room for them, as on a phone, they go down.
    const room = get("picture").clientWidth - 2, down = room < 560;
    const [width, height] = down ? [room, layers * COLUMN + 2 * MARGIN]
      : [Math.max(room, layers * 44 + 2 * MARGIN), Math.max(400, tallest * ROW) + 2 * MARGIN];
    const place_of = (n) => down ? [n.y, n.x] : [n.x, n.y];
    const most = Math.max(1, ...graph.nodes.map((n) => n.distance || 0));
    const place = graph.nodes.map((n) => ({
      x: MARGIN + place_of(n)[0] * (width - 2 * MARGIN), y: MARGIN + place_of(n)[1] * (height - 2 * MARGIN), r: 7 + Math.min(7, 1.3 * Math.sqrt(n.visits)),
    }));
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "state graph" });
    const heads = svg("defs", {}, picture);
    for (const name of ["good", "bad", "zero"]) {
      const marker = svg("marker", { id: `head-${name}`, viewBox: "0 0 6 6", refX: 4, refY: 3, markerWidth: 7, markerHeight: 7,
        markerUnits: "userSpaceOnUse", orient: "auto" }, heads);
      svg("path", { d: "M0 0L6 3L0 6Z", fill: `var(--${name})` }, marker);
    }
    const strongest = Math.max(1e-9, ...graph.edges.map((e) => Math.abs(e[view.colour] || 0)));
    edges = graph.edges.map((edge) => {
      const value = edge[view.colour], colour = edgeColour(value);
      const strength = Math.abs(value || 0) / strongest;
      return svg("path", { class: colour === "var(--bad)" ? "edge below" : "edge", d: edgePath(place[edge.source], place[edge.target], 3), stroke: colour,
        "stroke-width": 1 + Math.min(3.5, 0.55 * edge.count ** 0.7), "stroke-opacity": 0.45 + 0.55 * Math.sqrt(strength),
        "marker-end": `url(#head-${colour.slice(6, -1)})` }, picture);
    });
    nodes = graph.nodes.map((node, i) => {
      const { x, y, r } = place[i];
      const words = node.success ? "solved" : node.distance === null ? "no success seen from here" : `${node.distance} to success`;
      const item = svg("g", { class: "node", transform: `translate(${x} ${y})`, tabindex: 0, role: "button",
        "aria-label": `state ${i}: ${words}`, "data-node": i }, picture);
      svg("circle", { r, fill: distanceColour(node.distance, most) }, item);
      if (node.success) svg("circle", { r: r + 3.5, fill: "none", style: "stroke: var(--good); stroke-width: 2" }, item);
      svg("text", {}, item).textContent = node.success ? "★" : node.distance === null ? "" : String(node.distance);
      if (node.start) svg("text", { class: "name", y: r + 9 }, item).textContent = "start";
      item.addEventListener("click", () => choose_node(i));
      item.addEventListener("mouseenter", () => drawDetail(i));
      item.addEventListener("mouseleave", () => drawDetail(view.node));
      item.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose_node(i);
      });
      return item;
    });
    get("picture").replaceChildren(picture);
    get("summary").textContent = `${graph.task_id} · seed ${graph.seed} · ${graph.won} of ${graph.episodes} ${DATA.played || "episodes"} solved · ` +
      `${graph.nodes.length} states, ${graph.edges.length} edges`;
    drawKey(graph, most);
    choose_node(view.node);
  }

  /* Names every colour of the picture, and no other. */
  function drawKey(graph, most) {
    const key = get("key");
    key.replaceChildren();
    const add = (shape, colour, words) => {
      const item = html("span", undefined, key);
      const sign = html(shape, "", item);
      sign.style.background = colour === "var(--bad)" ? `repeating-linear-gradient(90deg, ${colour} 0 6px, transparent 6px 10px)` : colour;
      item.append(words);
    };
    const seen = new Set(graph.nodes.map((node) => node.distance));
    const steps = [...seen].filter((d) => d > 0).sort((a, b) => a - b);
    if (seen.has(0)) add("i", distanceColour(0, most), "★ solved");
    for (const d of steps) add("i", distanceColour(d, most), d === steps[0] ? `${d} to success` : String(d));
    if (seen.has(null)) add("i", "var(--dead)", "no success seen from here");
    add("b", "var(--good)", `${view.colour} above 0`);
    add("b", "var(--bad)", `${view.colour} below 0`);
    add("b", "var(--zero)", view.colour === "gain" ? "gain 0" : "advantage 0 or none");
    html("span", "stronger line: larger value · wider: taken more often", key);
  }

  function choose_node(i) {
    view.node = i;
    nodes.forEach((item, n) => item.classList.toggle("chosen", n === i));
    drawDetail(i);
  }

  function drawDetail(i) {
    const graph = view.graph, node = graph.nodes[i];
    drawBoard(get("board"), node.text);
    edges.forEach((path, e) => path.classList.toggle("dim", i !== view.start && graph.edges[e].source !== i && graph.edges[e].target !== i));
    const value = node.distance === null ? 0 : graph.gamma ** node.distance;
    get("text").textContent = `state ${i}${node.start ? " (start)" : ""}: ` +
      `${node.success ? "solved" : node.distance === null ? "no success seen from here" : `${node.distance} to success`}, ` +
      `potential ${value.toFixed(3)}, ${node.visits} step${node.visits === 1 ? "" : "s"} taken here`;
    const body = get("out").tBodies[0];
    body.replaceChildren();
    const out = graph.edges.filter((edge) => edge.source === i);
    if (!out.length) return;
    const head = html("tr", undefined, body);
    for (const name of ["action", "times", "gain", "adv."]) html("th", name, head);
    for (const edge of out.sort((a, b) => b.gain - a.gain)) {
      const row = html("tr", undefined, body), cell = html("td", undefined, row);
      const button = html("button", edge.action, cell);
      button.type = "button";
      button.title = `go to state ${edge.target}`;
      button.addEventListener("click", () => choose_node(edge.target));
      html("td", String(edge.count), row);
      for (const name of ["gain", "advantage"]) {
        const shown = html("td", signed(edge[name]), row);
        shown.style.color = edgeColour(edge[name]).replace("--zero", "--soft");
      }
    }
  }

  function open(method, stage) {
    Object.assign(view, { method, stage });
    view.graph = DATA.graphs.find((graph) => graph.method === method && graph.stage === stage);
    view.start = view.node = Math.max(0, view.graph.nodes.findIndex((node) => node.start));
    draw();
  }

  for (const method of new Set(DATA.graphs.map((graph) => graph.method))) {
    const button = html("button", method, get("method"));
    button.type = "button";
    button.dataset.value = method;
    button.setAttribute("aria-pressed", String(method === view.method));
  }
  choose("graph-method", (value) => open(value, view.stage));
  choose("graph-stage", (value) => open(view.method, value));
  choose("graph-edges", (value) => { view.colour = value; draw(); });
  matchMedia("(max-width: 760px)").addEventListener("change", draw);
  open(view.method, view.stage);
})();
