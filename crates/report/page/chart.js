// Axes, the tooltip, and charts that follow the width of their card.

/** A scale from values to pixels, linear or logarithmic, with its ticks. */
function scaleOf(kind, low, high, from, to) {
  const f = kind === "log" ? Math.log : (x) => x;
  const [a, b] = [f(low), f(high)];
  const at = (x) => from + ((f(x) - a) / (b - a || 1)) * (to - from);
  const back = (p) => {
    const x = a + ((p - from) / (to - from || 1)) * (b - a);
    return kind === "log" ? Math.exp(x) : x;
  };
  return { at, back, low, high, ticks: kind === "log" ? logTicks(low, high) : linearTicks(low, high) };
}

function linearTicks(low, high, wanted = 6) {
  const raw = (high - low) / wanted || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw) ?? raw;
  const ticks = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step) ticks.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return ticks;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return linearTicks(low, high, 5).filter((x) => x > 0);
  const steps = decades < 1.6 ? [1, 2, 3, 5, 7] : decades < 4 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    for (const m of steps) {
      const x = Number((m * 10 ** e).toPrecision(12));
      if (x >= low * 0.999 && x <= high * 1.001) ticks.push(x);
    }
  }
  return ticks;
}

/** A chart's frame: grid, ticks and names of both axes. Returns the scales and the group to draw into. */
function frame(host, { height, x, y }) {
  const width = Math.max(host.clientWidth, 260);
  const margin = { left: 66, right: 16, top: 10, bottom: 42 };
  const sx = scaleOf(x.kind, x.low, x.high, margin.left, width - margin.right);
  const sy = scaleOf(y.kind, y.low, y.high, height - margin.bottom, margin.top);
  const axis = svg("g", { class: "axis" });
  const bottom = height - margin.bottom;
  let last = -1e9;
  for (const tick of sx.ticks) {
    const p = sx.at(tick);
    axis.append(svg("line", { class: "grid", x1: p, x2: p, y1: margin.top, y2: bottom }));
    const text = x.text(tick);
    if (p - last < 10 + 7 * text.length) continue;
    last = p;
    axis.append(svg("text", { x: p, y: bottom + 18, "text-anchor": "middle" }, text));
  }
  last = 1e9;
  for (const tick of sy.ticks) {
    const p = sy.at(tick);
    axis.append(svg("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: p, y2: p }));
    if (last - p < 17) continue;
    last = p;
    axis.append(svg("text", { x: margin.left - 9, y: p + 4, "text-anchor": "end" }, y.text(tick)));
  }
  axis.append(svg("line", { class: "base", x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom }));
  axis.append(svg("text", { class: "name", x: (margin.left + width - margin.right) / 2, y: height - 5, "text-anchor": "middle" }, x.name));
  const middle = (margin.top + bottom) / 2;
  axis.append(svg("text", { class: "name", x: 0, y: 0, "text-anchor": "middle", transform: `translate(13 ${middle}) rotate(-90)` }, y.name));
  const clip = `clip-${host.id}`;
  const area = { x: margin.left, y: margin.top - 4, width: width - margin.left - margin.right, height: bottom - margin.top + 8 };
  const plot = svg("g", { "clip-path": `url(#${clip})` });
  const over = svg("g", null);
  const picture = svg(
    "svg",
    { height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${y.name} against ${x.name}` },
    svg("defs", null, svg("clipPath", { id: clip }, svg("rect", area))),
    axis,
    plot,
    over,
  );
  host.replaceChildren(picture);
  return { sx, sy, plot, over, width, height, margin, bottom };
}

/** Many points as one path: a dot each. */
const dots = (points) => points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");

/** A curve of steps through points. */
function steps(points, sx, sy, end) {
  let d = "";
  points.forEach(([x, y], at) => {
    d += at === 0 ? `M${sx.at(x).toFixed(1)} ${sy.at(y).toFixed(1)}` : `H${sx.at(x).toFixed(1)}V${sy.at(y).toFixed(1)}`;
  });
  return end === undefined ? d : `${d}H${sx.at(end).toFixed(1)}`;
}

/** The ends of a logarithmic axis around values, with some room. */
function logRange(values, room = 1.12) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  return [low / room, high * room];
}

/** Smallest and largest of many numbers, which may be too many for the arguments of a call. */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return [low, high];
}

/** Shows the tooltip beside a place of the window. */
function showTip(event, title, rows) {
  const tip = byId("tip");
  const row = ([name, value, colour]) =>
    el("div", null, colour ? el("i", { style: `background:${colour}` }) : null, el("span", null, name), el("b", null, value));
  tip.replaceChildren(el("h4", null, title), ...rows.map(row));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 16 + box.width > window.innerWidth - 8;
  const x = right ? event.clientX - box.width - 16 : event.clientX + 16;
  const y = Math.min(Math.max(event.clientY - box.height / 2, 8), window.innerHeight - box.height - 8);
  tip.style.left = `${Math.max(x, 8)}px`;
  tip.style.top = `${y}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** Calls a chart's own function when the pointer moves over it; the chart may be drawn anew in between. */
const hovers = new Map();
function onHover(id, move, leave) {
  const host = byId(id);
  if (!hovers.has(id)) {
    host.addEventListener("pointermove", (event) => {
      const box = host.getBoundingClientRect();
      hovers.get(id).move(event, event.clientX - box.left, event.clientY - box.top);
    });
    host.addEventListener("pointerleave", () => {
      hideTip();
      hovers.get(id).leave();
    });
  }
  hovers.set(id, { move, leave: leave ?? (() => {}) });
}
