// Failures grouped by their cause.

function drawErrors(report) {
  const trials = report.runs.reduce((sum, run) => sum + run.trials, 0);
  const failed = report.errors.reduce((sum, group) => sum + group.count, 0);
  byId("errors-note").textContent = failed ? `${count(failed)} of ${count(trials)} candidates failed. Open a cause for the text of its first failure.` : "";
  if (!failed) {
    put("errors", empty(trials ? "No candidate failed" : "No errors", trials ? `All ${count(trials)} candidates were compiled, checked against the reference and timed.` : "Nothing has been measured yet."));
    return;
  }
  const open = new Set([...document.querySelectorAll("#errors details[open]")].map((d) => d.dataset.cause));
  put("errors", report.errors.map((group) => cause(report, group, failed, open.has(group.cause))));
}

function cause(report, group, failed, isOpen) {
  const where = [...group.tasks].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([task, n]) => `${report.tasks[task]?.name ?? "?"} (${n})`);
  const more = group.tasks.length > 5 ? ` and ${group.tasks.length - 5} more` : "";
  return el(
    "details",
    { class: "cause", "data-cause": group.cause, open: isOpen },
    el("summary", null, el("b", null, group.cause), el("em", null, group.text.split("\n")[0]), el("span", null, `${count(group.count)} · ${percent(group.count / failed)}`), el("div", { class: "track" }, el("i", { style: `width:${((100 * group.count) / failed).toFixed(1)}%` }))),
    el("p", null, `In ${where.join(", ")}${more}`),
    el("pre", null, group.text || "no text was kept"),
  );
}
