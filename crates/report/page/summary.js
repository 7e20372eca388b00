// The head of the page: what was tuned, and what came of it.

function drawHead(report) {
  const view = chosen(report);
  const run = report.runs[report.runs.length - 1];
  byId("title").textContent = report.title;
  const parts = [
    report.machine.cpu || report.machine.fingerprint,
    plural(report.threads, "thread"),
    plural(report.tasks.length, "task"),
    plural(report.runs.length, "run"),
    run ? when(run.started) : null,
  ];
  byId("subtitle").textContent = parts.filter(Boolean).join("  ·  ");
  byId("kind").textContent = report.live ? "tuning live" : "tuning report";
  put("summary", facts(report, view));
  byId("footer").textContent = `Made by talweg ${report.tool}, ${when(report.made)}. This page holds all its data and needs no network.`;
}

function fact(name, value, note, first) {
  return el("div", { class: first ? "fact first" : "fact" }, el("span", null, name), el("b", null, value), el("em", null, note));
}

function facts(report, view) {
  const best = total(report, view.tasks, (t) => t.best_us);
  const before = total(report, view.tasks, (t) => t.default_us);
  const out = [];
  const name = view.together ? "Best latency, all tasks" : "Best latency";
  const gain = best && before ? before / best : null;
  const note = gain ? [el("span", { class: gain >= 1 ? "gain" : "loss", style: "display:inline" }, times(gain)), ` the default's speed (${time(before)})`] : "nothing measured yet";
  out.push(fact(name, time(best), note, true));
  const peer = peersOf(report, view).sort((a, b) => a.us - b.us)[0];
  if (peer && best) {
    const ratio = peer.us / best;
    out.push(fact("Against the best peer", times(ratio), `${peer.name} takes ${time(peer.us)}`));
  }
  const flops = total(report, view.tasks, (t) => t.flops);
  if (best && flops) {
    const rate = flops / best / 1e3;
    const peak = report.roofs?.peak_gflops;
    out.push(fact("Throughput", [digits(rate), el("small", null, " GFLOP/s")], peak ? `${percent(rate / peak)} of the peak, ${digits(peak)}` : "peak not known"));
  }
  const trials = report.runs.reduce((sum, run) => sum + run.trials, 0);
  const failed = report.runs.reduce((sum, run) => sum + run.failed, 0);
  out.push(fact("Candidates measured", count(trials), failed ? `${count(failed)} failed (${percent(failed / trials)})` : "none failed"));
  const seconds = report.runs.reduce((sum, run) => sum + run.seconds, 0);
  out.push(fact("Tuning time", duration(seconds), seconds > 0 ? `${digits(trials / seconds)} candidates a second` : "just begun"));
  if (report.accuracy) {
    out.push(fact("Cost model", percent(report.accuracy.pairs), `of pairs ranked rightly; ${plural(report.accuracy.samples, "prediction")}`));
  }
  return out;
}
