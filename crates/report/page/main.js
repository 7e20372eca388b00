// Puts the page together, keeps it at the width of the window, and follows a run that is still going on.

function draw() {
  const report = state.report;
  drawHead(report);
  drawLatency(report);
  drawTasks(report);
  drawScatter(report);
  drawKnobs(report);
  drawRoofline(report);
  drawErrors(report);
  drawEnvironment(report);
  drawLive(report);
}

/** The themes in the order of the button: what the system says, and the two that can be chosen. */
const THEMES = ["auto", "light", "dark"];

function applyTheme() {
  const dark = state.theme === "dark" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = { auto: "◐ auto", light: "○ light", dark: "● dark" }[state.theme];
}

/** Storage may be forbidden, as it is for some pages that are opened as files. */
function remembered(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function drawLive(report) {
  const pill = byId("live");
  const live = report.live;
  pill.hidden = !live;
  byId("bar").hidden = !live;
  if (!live) return;
  const lost = state.connection === "lost" && !live.ended;
  pill.className = `pill ${live.ended ? "" : lost ? "lost" : "on"}`;
  const trials = report.runs.reduce((sum, run) => sum + run.trials, 0);
  const done = live.budget ? live.elapsed / live.budget : live.wanted ? trials / live.wanted : 0;
  const gain = live.to_gain !== null && report.tasks.length > 1 ? `, ${percent(live.to_gain)} to gain` : "";
  const left = live.budget ? `, ${duration(Math.max(live.budget - live.elapsed, 0))} left` : "";
  pill.textContent = live.ended ? `finished: ${live.ended}` : lost ? "connection lost, trying again" : `live: ${plural(trials, "sample")}${gain}${left}`;
  byId("bar").firstElementChild.style.width = `${(100 * Math.min(live.ended ? 1 : done, 1)).toFixed(1)}%`;
}

/** More samples than this are thinned while a run goes on; the report afterwards is thinned by the same number. */
const MOST_SAMPLES = 6000;

/** Takes in what has changed: everything, or all but the samples that are known. */
function take(update) {
  const known = state.report;
  const next = update.report;
  if (!update.whole) {
    next.samples = known.samples.concat(next.samples);
    if (next.samples.length > MOST_SAMPLES) next.samples = next.samples.filter((_, at) => at % 2 === 1 || at > MOST_SAMPLES * 0.75);
    next.tasks.forEach((task, at) => {
      if (!task.trace && known.tasks[at]) task.trace = known.tasks[at].trace;
    });
  }
  state.report = next;
  schedule();
}

let scheduled = false;
/** Draws once before the next picture, however much has changed. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

/** Listens to the run that serves this page. */
function follow() {
  const source = new EventSource("events");
  source.addEventListener("open", () => {
    state.connection = "open";
  });
  source.addEventListener("update", (event) => {
    state.connection = "open";
    take(JSON.parse(event.data));
  });
  source.addEventListener("end", (event) => {
    source.close();
    take(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    state.connection = "lost";
    drawLive(state.report);
  });
  const clock = setInterval(() => {
    const live = state.report.live;
    if (live?.ended) clearInterval(clock);
    else if (live && state.connection === "open") {
      live.elapsed += 1;
      drawLive(state.report);
    }
  }, 1000);
}

state.report = JSON.parse(byId("data").textContent);
state.theme = THEMES.includes(remembered("talweg-theme")) ? remembered("talweg-theme") : "auto";
applyTheme();
byId("theme").addEventListener("click", () => {
  state.theme = THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length];
  remembered("talweg-theme", state.theme);
  applyTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
byId("scope").addEventListener("change", (event) => {
  state.scope = event.target.value;
  state.knobsTask = null;
  draw();
});
byId("knobs-task").addEventListener("change", (event) => {
  state.knobsTask = Number(event.target.value);
  drawKnobs(state.report);
});
new ResizeObserver(schedule).observe(document.querySelector("main"));
draw();
if (state.report.live && !state.report.live.ended && location.protocol.startsWith("http")) follow();
