// How much each knob explains of the measured time.

function drawKnobs(report) {
  const view = chosen(report);
  const busiest = () => view.tasks.reduce((a, b) => (report.tasks[b].trials > report.tasks[a].trials ? b : a), view.tasks[0]);
  const at = state.knobsTask ?? (view.together ? busiest() : view.tasks[0]);
  const select = byId("knobs-task");
  const names = report.tasks.map((task) => task.name);
  if (select.dataset.names !== names.join("\n")) {
    select.dataset.names = names.join("\n");
    select.replaceChildren(...names.map((name, value) => el("option", { value }, name)));
  }
  const task = report.tasks[at];
  const note = byId("knobs-note");
  if (!task) {
    note.textContent = "";
    put("knobs", empty("No knobs yet", "Nothing has been measured."));
    return;
  }
  select.value = String(at);
  const { knobs, explained, samples, missing } = task.importance;
  if (missing !== null || !knobs.length) {
    note.textContent = "";
    put("knobs", empty("Not known", `${task.name}: ${missing ?? "nothing has been measured yet"}.`));
    return;
  }
  note.textContent = `Permutation importance: boosted trees fitted to the log time of ${plural(samples, "sample")} explain ${percent(explained)} of its variance on samples held back; a knob's share is its part of that, by what is lost when its values are shuffled.`;
  if (explained < 0.1) note.textContent += " That is next to nothing: here, other things than knobs decide, such as a disturbed machine.";
  const most = Math.max(...knobs.map((k) => k.share), 1e-9);
  const title = el("div", { class: "knob title" }, el("span", null, "knob"), el("span", null, ""), el("b", null, "share"), el("span", null, "fastest"));
  const rows = knobs.filter((k, at) => at < 5 || k.share >= 0.001).map((k) =>
    el(
      "div",
      { class: "knob", title: `${k.name}: ${percent(k.share)} of the variance of the log time` },
      el("span", { class: "mono" }, k.name),
      el("span", { class: "track" }, el("i", { style: `width:${((100 * k.share) / most).toFixed(1)}%` })),
      el("b", null, percent(k.share)),
      el("span", null, k.best === null ? "–" : String(k.best)),
    ),
  );
  put("knobs", title, rows);
}
