"use strict";
/* Episodes: choose a policy and a task, step through the boards. */
(() => {
  const get = (name) => document.getElementById(`episode-${name}`);
  let episode = null, step = 0, timer = null;

  function show(at) {
    step = Math.max(0, Math.min(at, episode.frames.length - 1));
    const frame = episode.frames[step], last = step === episode.frames.length - 1;
    drawBoard(get("board"), frame.text);
    get("slider").value = String(step);
    const sum = episode.frames.slice(0, step).reduce((total, f) => total + f.reward, 0);
    const done = last ? (episode.won ? "solved" : "not solved") : `next: ${frame.action || "(nothing)"}${frame.valid ? "" : " (refused)"}`;
    get("status").textContent = `step ${step} of ${episode.frames.length - 1} · return so far ${sum.toFixed(1)} · ${done}`;
    [...get("actions").children].forEach((item, i) => item.classList.toggle("now", i === step));
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    get("play").textContent = "play";
  }

  function load() {
    stop();
    episode = DATA.episodes[get("policy").value][Number(get("task").value)];
    get("slider").max = String(episode.frames.length - 1);
    get("result").textContent = episode.won ? "solved" : "not solved";
    get("result").className = `tag ${episode.won ? "won" : "lost"}`;
    get("actions").replaceChildren();
    episode.frames.slice(0, -1).forEach((frame, i) => {
      const item = html("li", undefined, get("actions"));
      if (!frame.valid) item.className = "refused";
      const button = html("button", frame.action || "(nothing)", item);
      button.type = "button";
      button.addEventListener("click", () => { stop(); show(i); });
    });
    show(0);
  }

  function policyChanged() {
    const kept = get("task").value;
    get("task").replaceChildren();
    DATA.episodes[get("policy").value].forEach((e, i) => {
      html("option", `${e.index}${e.won ? " (solved)" : ""}`, get("task")).value = String(i);
    });
    if (kept && Number(kept) < get("task").length) get("task").value = kept;
    load();
  }

  for (const policy of Object.keys(DATA.episodes)) html("option", policy, get("policy")).value = policy;
  get("policy").addEventListener("change", policyChanged);
  get("task").addEventListener("change", load);
  get("slider").addEventListener("input", (event) => { stop(); show(Number(event.target.value)); });
  get("first").addEventListener("click", () => { stop(); show(0); });
  get("back").addEventListener("click", () => { stop(); show(step - 1); });
  get("next").addEventListener("click", () => { stop(); show(step + 1); });
  get("play").addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (step === episode.frames.length - 1) show(0);
    get("play").textContent = "pause";
    timer = setInterval(() => { show(step + 1); if (step === episode.frames.length - 1) stop(); }, 450);
  });
  get("policy").value = Object.keys(DATA.episodes).at(-1);
  policyChanged();
})();
