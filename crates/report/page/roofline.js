// Arithmetic intensity against throughput, below the roofs of the machine.

function drawRoofline(report) {
  const host = byId("roofline");
  const note = byId("roofline-note");
  const points = [];
  report.tasks.forEach((task, at) => {
    if (!(task.bytes > 0 && task.flops > 0 && task.best_us > 0)) return;
    const rate = (us) => task.flops / us / 1e3;
    points.push({ at, task, x: task.flops / task.bytes, y: rate(task.best_us), before: task.default_us ? rate(task.default_us) : null });
  });
  if (!points.length) {
    note.textContent = "";
    host.replaceChildren(empty("No point yet", report.tasks.length ? "No task has both a measured time and a known number of operations and bytes." : "Nothing has been measured."));
    onHover("roofline", () => {});
    return;
  }
  const roofs = report.roofs;
  const levels = (roofs?.levels ?? []).filter(([, gbs]) => gbs > 0);
  note.textContent = roofs
    ? `Each task by the bytes it must move at least. Filled: the best; hollow: the default schedule. Roofs ${roofs.source}.`
    : "Each task by the bytes it must move at least. Filled: the best; hollow: the default schedule. The roofs of this machine are not known.";
  const [least, most] = extent(points.map((p) => p.x));
  const knee = roofs && levels.length ? roofs.peak_gflops / levels[levels.length - 1][1] : most;
  const [lowX, highX] = [Math.min(least, knee) / 2.5, Math.max(most, knee) * 2.5];
  const rates = points.flatMap((p) => (p.before ? [p.y, p.before] : [p.y]));
  const [lowY, highY] = [Math.min(...rates) / 2, Math.max(...rates, roofs?.peak_gflops ?? 0) * 1.5];
  const text = (x) => tickText(Number(x.toPrecision(2)));
  const chart = frame(host, {
    height: 330,
    x: { kind: "log", low: lowX, high: highX, name: "arithmetic intensity (FLOP per byte)", text },
    y: { kind: "log", low: lowY, high: highY, name: "GFLOP/s", text },
  });
  const { sx, sy, plot, over } = chart;
  if (roofs) drawRoofs(roofs, levels, chart, [lowX, highX, lowY]);
  for (const p of points) {
    const isChosen = state.scope === String(p.at);
    const dim = !state.scope?.startsWith("all:") && report.tasks.length > 1 && !isChosen ? 0.4 : 1;
    const x = sx.at(p.x);
    const group = svg("g", { opacity: dim });
    if (p.before) {
      group.append(svg("line", { x1: x, x2: x, y1: sy.at(p.before), y2: sy.at(p.y), stroke: colour(0), "stroke-width": 1.5, opacity: 0.6 }));
      group.append(svg("circle", { cx: x, cy: sy.at(p.before), r: 4, fill: "var(--card)", stroke: colour(0), "stroke-width": 1.6 }));
    }
    group.append(svg("circle", { class: "task-point", cx: x, cy: sy.at(p.y), r: isChosen ? 7 : 5.5, fill: colour(0), stroke: "var(--card)", "stroke-width": 1.5 }));
    plot.append(group);
  }
  const mark = svg("g", null);
  over.append(mark);
  onHover(
    "roofline",
    (event, px, py) => {
      let [best, near] = [null, 34 * 34];
      for (const p of points) {
        const d = Math.min((sx.at(p.x) - px) ** 2 + (sy.at(p.y) - py) ** 2, p.before ? (sx.at(p.x) - px) ** 2 + (sy.at(p.before) - py) ** 2 : Infinity);
        if (d < near) [best, near] = [p, d];
      }
      if (!best) {
        mark.replaceChildren();
        hideTip();
        return;
      }
      mark.replaceChildren(svg("circle", { cx: sx.at(best.x), cy: sy.at(best.y), r: 9, fill: "none", stroke: "var(--ink)", "stroke-width": 1.4 }));
      const rows = [["best", `${digits(best.y)} GFLOP/s`]];
      if (best.before) rows.push(["default", `${digits(best.before)} GFLOP/s`]);
      rows.push(["intensity", `${digits(best.x)} FLOP/byte`]);
      if (roofs) rows.push(["of the peak", percent(best.y / roofs.peak_gflops)]);
      showTip(event, best.task.name, rows);
    },
    () => mark.replaceChildren(),
  );
}

function drawRoofs(roofs, levels, chart, [lowX, highX, lowY]) {
  const { sx, sy, plot, over, margin } = chart;
  const peak = roofs.peak_gflops;
  const first = levels.length ? peak / levels[0][1] : lowX;
  plot.append(svg("line", { class: "roof", x1: sx.at(Math.max(first, lowX)), x2: sx.at(highX), y1: sy.at(peak), y2: sy.at(peak) }));
  over.append(svg("text", { class: "level-name", x: chart.width - margin.right - 4, y: sy.at(peak) - 7, "text-anchor": "end", fill: "var(--soft)" }, `peak ${digits(peak)} GFLOP/s`));
  levels.forEach(([name, gbs], at) => {
    const end = Math.min(peak / gbs, highX);
    plot.append(svg("line", { class: "roof memory", x1: sx.at(lowX), y1: sy.at(lowX * gbs), x2: sx.at(end), y2: sy.at(end * gbs) }));
    const from = Math.max(lowX, lowY / gbs);
    if (from >= end) return;
    const middle = from * (end / from) ** (0.42 + 0.1 * (at % 2));
    const [x, y] = [sx.at(middle), sy.at(middle * gbs)];
    const slope = (Math.atan2(sy.at(end * gbs) - sy.at(from * gbs), sx.at(end) - sx.at(from)) * 180) / Math.PI;
    if (sx.at(end) - sx.at(from) > 60) {
      over.append(svg("text", { class: "level-name", x, y: y - 5, "text-anchor": "middle", fill: "var(--faint)", transform: `rotate(${slope.toFixed(1)} ${x} ${y})` }, `${name} ${digits(gbs)} GB/s`));
    }
  });
}
