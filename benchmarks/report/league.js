"use strict";
/* The league: credits against truths, environments beside each other or the players of one, and what groups have. */
(() => {
  const view = { measure: "within", size: DATA.sizes.length - 1, columns: "" };
  const order = { credits: { column: -1, down: true }, groups: { column: -1, down: true } };
  const share = () => DATA.measures[view.measure].share;

  function show(value) {
    return (share() ? (100 * value).toFixed(0) : value.toFixed(2)).replace(/^-(0\.?0*)$/, "$1");
  }

  /* [estimate, low, high] of a credit, null where there is nothing to measure. */
  const found = (standing, credit) => standing.measures[view.measure][view.size][credit];

  function mean(standings, credit) {
    const all = standings.filter((standing) => standing.counts).map((standing) => found(standing, credit)).filter((v) => v);
    return all.length ? [all.reduce((sum, v) => sum + v[0], 0) / all.length] : null;
  }

  function columns() {
    if (!view.columns) {
      return DATA.envs.map((env) => {
        const standings = DATA.standings.filter((standing) => standing.env === env);
        return { words: env, value: (credit) => mean(standings, credit) };
      });
    }
    return DATA.standings.filter((standing) => standing.env === view.columns).map((standing) => ({
      words: `${standing.player}, ${Math.round(100 * standing.success)} % won`, value: (credit) => found(standing, credit),
    }));
  }

  function cell(value, top) {
    if (!value) return { text: "-", value: null };
    const [estimate, low, high] = value;
    return {
      text: show(estimate), value: estimate, best: estimate === top, shade: Math.round(60 * Math.max(0, estimate)),
      range: low === undefined ? "" : `[${show(low)}, ${show(high)}]`,
    };
  }

  function credits() {
    const shown = columns();
    const values = shown.map((column) => DATA.credits.map((_, credit) => column.value(credit)));
    const tops = values.map((list) => Math.max(...list.filter((v) => v).map((v) => v[0])));
    const rows = DATA.credits.map((credit, k) => [
      { text: credit.name, value: credit.name, dot: credit.colour }, { text: credit.part, value: credit.part },
      ...shown.map((_, column) => cell(values[column][k], tops[column])),
    ]);
    sortedTable(document.getElementById("values"), ["credit", "part", ...shown.map((column) => column.words)], rows, order.credits);
    document.getElementById("words").textContent = DATA.measures[view.measure].words;
  }

  function groups() {
    const rows = DATA.standings.map((standing) => {
      const now = standing.groups[view.size];
      return [{ text: `${standing.env}, ${standing.player}`, value: `${standing.env}, ${standing.player}` },
        ...now.map((value, k) => ({ text: value === null ? "-" : DATA.group_heads[k][1] ? `${(100 * value).toFixed(0)} %` : value.toFixed(2), value }))];
    });
    sortedTable(document.getElementById("groups"), ["episodes", ...DATA.group_heads.map(([words]) => words)], rows, order.groups);
  }

  const select = (id, change) => document.getElementById(id).addEventListener("change", (event) => { change(event.target.value); credits(); groups(); });
  select("measure", (value) => { view.measure = value; });
  select("size", (value) => { view.size = Number(value); });
  select("columns", (value) => { view.columns = value; Object.assign(order.credits, { column: -1, down: true }); });
  credits();
  groups();
})();
