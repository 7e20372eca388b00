// The table of tasks, sorted by the column whose header was clicked.

/** Columns: name, title, the value that is sorted by, and the cell. */
function taskColumns(report, sum) {
  const peak = report.roofs?.peak_gflops;
  const gflops = (t) => (t.best_us ? t.flops / t.best_us / 1e3 : null);
  const share = (t) => (t.best_us && sum ? (t.best_us * t.weight) / sum : null);
  const gain = (t) => (t.best_us && t.default_us ? t.default_us / t.best_us : null);
  const number = (value, text) => (value === null || value === undefined ? el("span", { class: "zero" }, "–") : text(value));
  const bar = (part) => el("span", { class: "bar" }, el("i", { style: `width:${Math.min(100 * part, 100).toFixed(1)}%` }));
  const columns = [
    ["name", "Task", (t) => t.name, (t) => [t.name, el("small", null, t.shapes)], "left name"],
    ["progress", "Progress", (t) => gain(t), (t) => spark(report, t), "left"],
    ["weight", "Uses", (t) => t.weight, (t) => tickText(t.weight)],
    ["default", "Default", (t) => t.default_us, (t) => number(t.default_us, time)],
    ["best", "Best", (t) => t.best_us, (t) => [number(t.best_us, time), t.best_us && !t.proven ? el("span", { class: "unproven", title: "Not yet compared with the default in alternating runs" }, " ?") : null]],
    ["gain", "Gain", gain, (t) => number(gain(t), (g) => el("span", { class: g >= 1.005 ? "gain" : g < 0.995 ? "loss" : null }, times(g)))],
    ["share", "Share", share, (t) => number(share(t), (s) => [percent(s), bar(s)])],
    ["gflops", "GFLOP/s", gflops, (t) => number(gflops(t), digits)],
    ["peak", "Of peak", (t) => (peak && gflops(t) !== null ? gflops(t) / peak : null), (t) => number(peak && gflops(t) !== null ? gflops(t) / peak : null, (p) => [percent(p), bar(p)])],
    ["trials", "Samples", (t) => t.trials, (t) => count(t.trials)],
    ["failed", "Failed", (t) => t.failed, (t) => el("span", { class: t.failed ? "loss" : "zero" }, count(t.failed))],
  ];
  return columns.map(([key, title, value, cell, kind]) => ({ key, title, value, cell, kind: kind ?? null }));
}

/** The course of a task's best, as a small picture. */
function spark(report, task) {
  const curve = task.curves.find((c) => c.run === report.runs.length - 1) ?? task.curves[task.curves.length - 1];
  if (!curve || curve.points.length < 1) return el("span", { class: "zero" }, "–");
  const end = Math.max(report.runs[curve.run].seconds, 0.1);
  const [low, high] = extent(curve.points.map((p) => p[1]));
  const sx = scaleOf("linear", curve.points[0][0], end, 2, 88);
  const sy = scaleOf("log", low, high > low ? high : low * 1.01, 20, 3);
  const last = curve.points[curve.points.length - 1];
  return svg(
    "svg",
    { class: "spark", width: 92, height: 23, role: "img", "aria-label": `from ${time(curve.points[0][1])} to ${time(last[1])}` },
    svg("path", { d: steps(curve.points, sx, sy, end) }),
    svg("circle", { cx: 88, cy: sy.at(last[1]), r: 2.4 }),
  );
}

function drawTasks(report) {
  const table = byId("tasks");
  const sum = report.tasks.reduce((all, t) => all + (t.best_us ?? 0) * t.weight, 0);
  const proven = report.tasks.filter((t) => t.proven).length;
  byId("tasks-note").textContent = report.tasks.length
    ? `${proven} of ${plural(report.tasks.length, "task")} have a winner that was checked against the reference and compared with the default in alternating runs. Click a row to look at one task.`
    : "";
  if (!report.tasks.length) {
    table.replaceChildren(el("tbody", null, el("tr", null, el("td", { class: "left" }, empty("No task yet", "The search is being prepared.")))));
    byId("winner").hidden = true;
    return;
  }
  const columns = taskColumns(report, sum);
  const by = columns.find((c) => c.key === state.sort.column) ?? columns[0];
  const order = report.tasks.map((_, at) => at).sort((a, b) => compare(by.value(report.tasks[a]), by.value(report.tasks[b])) * (state.sort.down ? -1 : 1) || a - b);
  const head = columns.map((c) => {
    const now = c.key === state.sort.column ? (state.sort.down ? "descending" : "ascending") : "none";
    const sort = () => {
      state.sort = { column: c.key, down: c.key === state.sort.column ? !state.sort.down : c.key !== "name" };
      drawTasks(state.report);
      byId("tasks").querySelector(`button[data-column="${c.key}"]`).focus();
    };
    return el("th", { class: c.kind, scope: "col", "aria-sort": now }, el("button", { type: "button", "data-column": c.key, onclick: sort }, c.title));
  });
  const current = report.live?.ended ? null : report.live?.current;
  const rows = order.map((at) => {
    const task = report.tasks[at];
    const choose = () => {
      state.scope = String(at);
      state.knobsTask = null;
      draw();
    };
    const row = el("tr", { "data-task": at, class: state.scope === String(at) ? "chosen" : null, onclick: choose, title: at === current ? "Being tuned now" : null });
    row.append(...columns.map((c) => el("td", { class: c.kind }, c.cell(task))));
    return row;
  });
  table.replaceChildren(el("thead", null, el("tr", null, head)), el("tbody", null, rows));
  drawWinner(report);
}

/** Unknown values come first, texts in the order of the alphabet. */
function compare(a, b) {
  if (typeof a === "string") return a.localeCompare(b);
  return (a ?? -Infinity) - (b ?? -Infinity) || 0;
}

function drawWinner(report) {
  const view = chosen(report);
  const details = byId("winner");
  details.hidden = view.tasks.length !== 1 || !report.tasks[view.tasks[0]].trace;
  if (details.hidden) return;
  const task = report.tasks[view.tasks[0]];
  const error = task.error === null ? "" : `, largest relative error ${task.error.toExponential(1)}`;
  details.querySelector("summary").textContent = `Winning schedule of ${task.name}, found by ${task.strategy || "an unknown strategy"}${error}`;
  details.querySelector("pre").textContent = task.trace;
}
