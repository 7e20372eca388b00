// The best so far of every run over time, with the default schedule and peers as levels.

function drawScopes(report) {
  const select = byId("scope");
  const options = [];
  groups(report).forEach((group, at) => {
    if (group.tasks.length > 1) options.push([`all:${at}`, `all ${group.tasks.length} tasks together`]);
  });
  report.tasks.forEach((task, at) => options.push([String(at), task.name]));
  const text = JSON.stringify(options);
  if (select.dataset.options !== text) {
    select.dataset.options = text;
    select.replaceChildren(...options.map(([value, name]) => el("option", { value }, name)));
  }
  select.value = state.scope ?? "";
}

/** The lines of the chart: runs with their curves, and levels. */
function latencyLines(report, view) {
  const runs = view.runs.map((at) => ({ kind: "run", key: `run ${report.runs[at].id} ${at}`, at, name: report.runs[at].label, colour: colour(at), points: curveOf(report, at, view.tasks) }));
  const levels = [];
  const before = total(report, view.tasks, (t) => t.default_us);
  if (before !== null) levels.push({ kind: "level", key: "default", name: "default schedule", colour: "var(--faint)", us: before });
  peersOf(report, view).forEach((peer, at) => levels.push({ kind: "level", key: `peer ${peer.name}`, name: peer.name, colour: colour(6 - at), us: peer.us }));
  return { runs: runs.filter((run) => run.points.length), levels };
}

function drawLatency(report) {
  const view = chosen(report);
  drawScopes(report);
  const { runs, levels } = latencyLines(report, view);
  drawScaleSwitch();
  const isShown = (line) => !state.hidden.has(line.key);
  put("latency-legend", [...runs, ...levels].map((line) => legendEntry(line, isShown(line))));
  const counted = view.together ? " Each task counts as often as it runs." : " Dots are single candidates; the slowest are outside of the picture.";
  byId("latency-note").textContent = !view.title ? "" : `${view.title}: the fastest program found until each moment, by strategy.${counted}`;
  const host = byId("latency");
  const seen = runs.filter(isShown);
  if (!runs.length) {
    host.replaceChildren(empty("No curve yet", report.live ? "The first default schedules are being measured." : "The chosen runs have measured no good candidate of this task."));
    onHover("latency", () => {});
    return;
  }
  const longest = Math.max(...view.runs.map((at) => report.runs[at].seconds), 0.1);
  const end = report.live && !report.live.ended ? Math.max(longest, report.live.elapsed) : longest;
  const values = [...seen.flatMap((run) => run.points.map((p) => p[1])), ...levels.filter(isShown).map((l) => l.us)];
  if (!values.length) values.push(...runs.flatMap((run) => run.points.map((p) => p[1])));
  const single = view.together ? [] : report.samples.filter((s) => s[0] === view.tasks[0] && seen.some((run) => run.at === s[1]));
  const [low, most] = extent(values);
  const high = Math.max(most, Math.min(3 * most, quantile(single.map((s) => s[3]), 0.8)));
  const range = state.scale === "log" ? logRange([low, high], Math.max(1.06, (high / low) ** 0.06)) : [0, high * 1.06];
  const unit = high >= 1e6 ? ["s", 1e6] : high >= 1e4 ? ["ms", 1e3] : ["µs", 1];
  const start = Math.min(...runs.map((run) => run.points[0][0]));
  const from = start > end * 0.25 ? Math.floor(start) : 0;
  const chart = frame(host, {
    height: 370,
    x: { kind: "linear", low: from, high: end * 1.005, name: "seconds since the start of the run", text: tickText },
    y: { kind: state.scale, low: range[0], high: range[1], name: `latency (${unit[0]})`, text: (us) => tickText(us / unit[1]) },
  });
  const { sx, sy, plot, over } = chart;
  for (const run of seen) {
    const own = single.filter((s) => s[1] === run.at && s[3] <= range[1]);
    if (own.length) plot.append(svg("path", { class: "dots", d: dots(own.map((s) => [sx.at(s[2]), sy.at(s[3])])), stroke: run.colour, "stroke-width": own.length > 800 ? 3.2 : 4.4, opacity: 0.3 }));
  }
  const taken = [];
  for (const level of levels.filter(isShown)) {
    const y = sy.at(level.us);
    plot.append(svg("line", { class: "level", x1: chart.margin.left, x2: chart.width - chart.margin.right, y1: y, y2: y, stroke: level.colour }));
    let at = y - 6;
    while (taken.some((other) => Math.abs(other - at) < 13)) at += 13;
    taken.push(at);
    over.append(svg("text", { class: "level-name", x: chart.width - chart.margin.right - 4, y: at, "text-anchor": "end", fill: level.colour }, `${level.name}  ${time(level.us)}`));
  }
  for (const run of seen) {
    const last = run.points[run.points.length - 1];
    const until = Math.max(report.live && !report.live.ended ? end : report.runs[run.at].seconds, last[0]);
    plot.append(svg("path", { class: "curve", "data-run": run.name, d: steps(run.points, sx, sy, until), stroke: run.colour }));
    plot.append(svg("circle", { class: "mark", cx: sx.at(until), cy: sy.at(last[1]), r: 4.5, fill: run.colour }));
  }
  const cross = svg("g", null);
  over.append(cross);
  onHover(
    "latency",
    (event, px) => {
      const at = Math.min(Math.max(sx.back(px), from), end);
      const rows = [];
      cross.replaceChildren(svg("line", { class: "cross", x1: sx.at(at), x2: sx.at(at), y1: chart.margin.top, y2: chart.bottom }));
      for (const run of seen) {
        const us = at > report.runs[run.at].seconds + 1 && !report.live ? run.points[run.points.length - 1][1] : valueAt(run.points, at);
        if (us === null) continue;
        rows.push([run.name, time(us), run.colour]);
        cross.append(svg("circle", { class: "mark", cx: sx.at(at), cy: sy.at(us), r: 4.5, fill: run.colour }));
      }
      levels.filter(isShown).forEach((level) => rows.push([level.name, time(level.us), level.colour]));
      showTip(event, `after ${duration(at)}`, rows);
    },
    () => cross.replaceChildren(),
  );
}

/** The value that a share of the numbers does not exceed; 0 if there are none. */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
}

const tickText = (x) => (x >= 1000 ? count(Math.round(x)) : String(Number(x.toPrecision(4))));

function legendEntry(line, shown) {
  const flip = () => {
    if (shown) state.hidden.add(line.key);
    else state.hidden.delete(line.key);
    draw();
  };
  const last = line.kind === "run" ? line.points[line.points.length - 1][1] : line.us;
  return el(
    "button",
    { type: "button", "aria-pressed": String(shown), onclick: flip, style: `color:${line.colour}`, title: shown ? "Hide this line" : "Show this line" },
    el("i", { class: line.kind === "level" ? "dashed" : null }),
    el("span", null, line.name, " ", el("b", null, time(last))),
  );
}

function drawScaleSwitch() {
  const button = (name, text) =>
    el("button", { type: "button", "aria-pressed": String(state.scale === name), onclick: () => { state.scale = name; draw(); } }, text);
  put("latency-scale", button("log", "log"), button("linear", "linear"));
}
