// What the cost model expected of each candidate against what was measured.

function drawScatter(report) {
  const view = chosen(report);
  const host = byId("scatter");
  const points = [];
  for (const sample of report.samples) {
    if (!view.tasks.includes(sample[0]) || state.hidden.has(`run ${report.runs[sample[1]].id} ${sample[1]}`)) continue;
    const us = expected(report, sample);
    if (us > 0 && Number.isFinite(us)) points.push({ sample, x: sample[3], y: us });
  }
  const note = byId("scatter-note");
  if (points.length < 2) {
    note.textContent = "";
    host.replaceChildren(empty("No predictions", scatterReason(report, view)));
    onHover("scatter", () => {});
    return;
  }
  const scaled = view.tasks.some((task) => report.tasks[task].scales.length);
  const accuracy = view.together ? report.accuracy : report.tasks[view.tasks[0]].accuracy;
  const judged = accuracy ? `Rank correlation ${accuracy.rank.toFixed(2)}, ${percent(accuracy.pairs)} of pairs in the right order. ` : "";
  const units = scaled ? "Scores of models without a unit are fitted to the time of each task." : "On the line, predictions are exact; below it, candidates are slower than expected.";
  note.textContent = `${plural(points.length, "candidate")} of ${view.title}. ${judged}${units}`;
  const [low, high] = middle(points.map((p) => p.x));
  const [least, most] = middle(points.map((p) => p.y));
  const range = logRange([Math.min(low, Math.max(least, low / 20)), Math.max(high, Math.min(most, high * 20))], 1.25);
  const unit = range[1] >= 1e6 ? ["s", 1e6] : range[1] >= 1e4 ? ["ms", 1e3] : ["µs", 1];
  const axis = (name) => ({ kind: "log", low: range[0], high: range[1], name: `${name} (${unit[0]})`, text: (us) => tickText(us / unit[1]) });
  const chart = frame(host, { height: 330, x: axis("measured"), y: axis("predicted") });
  const { sx, sy, plot, over } = chart;
  plot.append(svg("line", { class: "diagonal", x1: sx.at(range[0]), y1: sy.at(range[0]), x2: sx.at(range[1]), y2: sy.at(range[1]) }));
  const within = (us) => us >= range[0] && us <= range[1];
  const inside = points.filter((p) => within(p.x) && within(p.y));
  if (inside.length < points.length) note.textContent += ` ${plural(points.length - inside.length, "outlier")} outside of the picture.`;
  for (const run of new Set(inside.map((p) => p.sample[1]))) {
    const own = inside.filter((p) => p.sample[1] === run).map((p) => [sx.at(p.x), sy.at(p.y)]);
    plot.append(svg("path", { class: "dots", d: dots(own), stroke: colour(run), "stroke-width": own.length > 1500 ? 3.6 : 5, opacity: own.length > 1500 ? 0.32 : 0.45 }));
  }
  const mark = svg("g", null);
  over.append(mark);
  onHover(
    "scatter",
    (event, px, py) => {
      let [best, near] = [null, 30 * 30];
      for (const p of inside) {
        const d = (sx.at(p.x) - px) ** 2 + (sy.at(p.y) - py) ** 2;
        if (d < near) [best, near] = [p, d];
      }
      if (!best) {
        mark.replaceChildren();
        hideTip();
        return;
      }
      const run = best.sample[1];
      mark.replaceChildren(svg("circle", { class: "mark", cx: sx.at(best.x), cy: sy.at(best.y), r: 5.5, fill: colour(run) }));
      const rows = [["measured", time(best.x)], ["predicted", time(best.y)], ["by", report.runs[run].label, colour(run)], ["after", duration(best.sample[2])]];
      if (best.sample[5]) rows.push(["candidate", best.sample[5]]);
      showTip(event, report.tasks[best.sample[0]].name, rows);
    },
    () => mark.replaceChildren(),
  );
}

/** The ends of numbers without the outermost hundredth at either end, so that single outliers do not set the scale. */
function middle(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const out = Math.floor(sorted.length / 100);
  return [sorted[out], sorted[sorted.length - 1 - out]];
}

/** Why nothing was predicted. */
function scatterReason(report, view) {
  if (report.live && !report.live.ended) return "A cost model predicts once it has learnt from the first batches.";
  const names = [...new Set(view.runs.map((run) => report.runs[run].strategy))].join(", ");
  const isHidden = (run) => state.hidden.has(`run ${report.runs[run].id} ${run}`);
  if (view.runs.some(isHidden)) return "Runs that are hidden in the legend above are left out here, too.";
  if (!view.runs.length) return "Nothing has been measured yet.";
  return `The search by ${names} has stored no predictions: it has no cost model, or ended before the model had learnt enough.`;
}
