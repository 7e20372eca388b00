// What the page knows and what the reader has chosen.

const state = {
  report: null,
  // "all:N" for the tasks of the N-th group of runs together, or the number of a task.
  scope: null,
  // The task whose knobs are shown; null follows the scope.
  knobsTask: null,
  hidden: new Set(),
  scale: "log",
  sort: { column: "share", down: true },
  theme: "auto",
};

/** Colours of the n-th run; peers take theirs from the other end. */
const colour = (n) => `var(--c${n % 7})`;

/** Groups of runs that tune the same tasks: their sums can be compared. */
function groups(report) {
  const found = new Map();
  report.runs.forEach((run, at) => {
    const key = [...run.tasks].sort((a, b) => a - b).join(",");
    if (!found.has(key)) found.set(key, { tasks: run.tasks, runs: [] });
    found.get(key).runs.push(at);
  });
  return [...found.values()];
}

/** What is shown at first: what the latest run has tuned. */
function firstScope(report) {
  const all = groups(report);
  const last = report.runs.length - 1;
  const at = all.findIndex((group) => group.runs.includes(last));
  if (at < 0) return report.tasks.length ? "0" : null;
  return all[at].tasks.length > 1 ? `all:${at}` : String(all[at].tasks[0] ?? 0);
}

/** The tasks and runs of the chosen scope, with the title they have together. */
function chosen(report) {
  const all = groups(report);
  if (state.scope === null || !scopeExists(report, all)) state.scope = firstScope(report);
  if (state.scope === null) return { tasks: [], runs: [], title: "", together: false };
  if (state.scope.startsWith("all:")) {
    const group = all[Number(state.scope.slice(4))];
    return { ...group, title: `${group.tasks.length} tasks together`, together: true };
  }
  const task = Number(state.scope);
  const runs = report.tasks[task].curves.map((curve) => curve.run);
  return { tasks: [task], runs, title: report.tasks[task].name, together: false };
}

function scopeExists(report, all) {
  if (state.scope.startsWith("all:")) return all[Number(state.scope.slice(4))]?.tasks.length > 1;
  return Number(state.scope) < report.tasks.length;
}

/** The best so far of a run over some tasks, each as often as it counts: points of seconds and microseconds. */
function curveOf(report, run, tasks) {
  const steps = [];
  for (const task of tasks) {
    const curve = report.tasks[task].curves.find((c) => c.run === run);
    if (!curve || !curve.points.length) return [];
    for (const [at, us] of curve.points) steps.push([at, task, us * (tasks.length > 1 ? report.tasks[task].weight : 1)]);
  }
  steps.sort((a, b) => a[0] - b[0]);
  const now = new Map();
  const points = [];
  for (const [at, task, us] of steps) {
    now.set(task, us);
    if (now.size < tasks.length) continue;
    const total = [...now.values()].reduce((a, b) => a + b, 0);
    if (points.length && points[points.length - 1][0] === at) points.pop();
    points.push([at, total]);
  }
  return points;
}

/** The value of a stepped curve at a moment, or null before it begins. */
function valueAt(points, at) {
  let found = null;
  for (const [t, us] of points) {
    if (t > at) break;
    found = us;
  }
  return found;
}

/** Sum over tasks, each as often as it counts; null if one of them is not known. */
function total(report, tasks, of) {
  let sum = 0;
  for (const task of tasks) {
    const value = of(report.tasks[task]);
    if (value === null || value === undefined) return null;
    sum += value * (tasks.length > 1 ? report.tasks[task].weight : 1);
  }
  return tasks.length ? sum : null;
}

/** Other runtimes that the chosen tasks can be compared with. */
function peersOf(report, view) {
  const whole = view.together || report.tasks.length === 1;
  return report.peers.filter((peer) => (peer.task === null ? whole : !view.together && peer.task === view.tasks[0]));
}

/** What the model expected of a sample, in microseconds, or null. */
function expected(report, sample) {
  const [task, run, , , score] = sample;
  if (score === null) return null;
  const scale = report.tasks[task].scales.find((s) => s[0] === run);
  return scale ? Math.exp(scale[1] + scale[2] * score) : score;
}
