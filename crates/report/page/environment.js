// The machine, and the runs with everything that may explain their results.

function drawEnvironment(report) {
  const m = report.machine;
  const facts = [["Processor", m.cpu || "unknown"], ["Instructions", m.isa || "unknown"], ...m.facts.map(([k, v]) => [k === "cores" ? "Cores" : `${k} cache`, v]), ["Threads used", String(report.threads)]];
  if (report.roofs) facts.push(["Peak", `${digits(report.roofs.peak_gflops)} GFLOP/s`]);
  put("machine", facts.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
  byId("environment-note").textContent = `Target ${m.fingerprint}`;
  const heads = ["Run", "Strategy", "Seed", "Started", "Time", "Samples", "Failed", "talweg", "Settings and command"];
  const lefts = new Set([1, 3, 8]);
  const head = heads.map((name, at) => el("th", { class: lefts.has(at) ? "plain left" : "plain", scope: "col" }, name));
  const rows = report.runs.map((run, at) => {
    const settings = run.environment.map(([name, value]) => `${name} ${value}`).join(", ");
    return el(
      "tr",
      null,
      el("td", null, run.id ? `#${run.id}` : "–"),
      el("td", { class: "left" }, el("span", { style: `color:${colour(at)}` }, "● "), run.strategy),
      el("td", null, String(run.seed)),
      el("td", { class: "left" }, when(run.started)),
      el("td", null, duration(run.seconds)),
      el("td", null, count(run.trials)),
      el("td", null, count(run.failed)),
      el("td", null, run.version || "–"),
      el("td", { class: "command" }, settings ? `${settings}. ` : null, el("code", null, run.command ? `talweg ${run.command}` : "")),
    );
  });
  put("runs", el("thead", null, el("tr", null, head)), el("tbody", null, rows));
}
