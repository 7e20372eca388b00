// Numbers, times and elements.

/** A number with about three digits. */
function digits(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1000) return Math.round(x).toLocaleString("en");
  return size >= 100 ? x.toFixed(1) : size >= 1 ? x.toFixed(2) : x.toPrecision(3);
}

/** Microseconds in the unit that fits. */
function time(us) {
  if (us === null || us === undefined || !Number.isFinite(us)) return "–";
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  if (us >= 1e4) return `${digits(us / 1e3)} ms`;
  return `${digits(us)} µs`;
}

/** Seconds of a run. */
function duration(seconds) {
  if (seconds < 100) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const count = (n) => n.toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const times = (ratio) => `${ratio >= 10 ? ratio.toFixed(1) : ratio.toFixed(2)}×`;
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? `${one}s`}`;

/** Unix seconds as the reader's local date and time. */
const when = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "unknown");

/** An element with attributes and children; texts are never taken for markup. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const byId = (id) => document.getElementById(id);
const put = (id, ...children) => byId(id).replaceChildren(...children.flat().filter(Boolean));

/** Says that there is nothing to show, and why. */
const empty = (what, why) => el("div", { class: "empty" }, el("b", null, what), why);
