// What the page knows and shows. Every number is in `data`; here they are only looked up.

const data = JSON.parse(document.getElementById("data").textContent);
const levels = data.levels;
const inUse = data.in_use;
// Where one can be: on a level, or at the codevectors of the model in use, if they are no level's.
const stops = inUse && inUse.codevectors ? [...levels, inUse.codevectors] : levels;
const IN_USE = !inUse ? -1 : inUse.codevectors ? levels.length : inUse.level;
const nodes = data.nodes;
const dark = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);

const state = {
  // An index of `stops`.
  level: 0,
  // The codevector that was asked for; on other levels its ancestor or heaviest descendant stands
  // for it.
  wanted: null,
};

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children); // strings become text, never markup
  return made;
}

// Four digits unless told otherwise.
function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return rounded.toExponential();
  return String(rounded);
}

function count(value) {
  return value.toLocaleString("en-US");
}

function percent(value) {
  return `${number(100 * value, 3)} %`;
}

// Plotly reads a little HTML in the texts it draws: names are to be read as they are.
function forPlotly(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// A value of a feature: a number in its own units, or the share of a category.
function valueOf(feature, value) {
  return data.shares[feature] ? percent(Math.min(1, Math.max(0, value))) : number(value);
}

function shortened(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
}

// -- colours ------------------------------------------------------------------------------------

function colour(branch) {
  const known = data.colours[dark.matches ? "dark" : "light"];
  const grey = known.length - 1;
  return known[branch < 0 ? grey : branch % grey];
}

// Colours come round; the shape of the marker then tells branches apart.
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "star"];
const GLYPHS = ["●", "■", "◆", "▲", "★"];

function shapeOf(branch) {
  const colours = data.colours.light.length - 1;
  return branch < 0 ? 0 : Math.floor(branch / colours) % SYMBOLS.length;
}

function symbol(branch) {
  return SYMBOLS[shapeOf(branch)];
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// -- who stands for whom ------------------------------------------------------------------------

const placeOn = stops.map((level) => new Map(level.nodes.map((node, i) => [node, i])));

function isBelow(node, ancestor) {
  for (let up = node; up !== null; up = nodes[up].parent) if (up === ancestor) return true;
  return false;
}

// Index on a level of the codevector that stands for a node: itself, its nearest ancestor, or the
// heaviest of its descendants; -1 if there is none.
function standIn(node, level) {
  const here = placeOn[level];
  for (let up = node; up !== null; up = nodes[up].parent) if (here.has(up)) return here.get(up);
  let best = -1;
  stops[level].nodes.forEach((other, i) => {
    if (isBelow(other, node) && (best < 0 || stops[level].weights[i] > stops[level].weights[best])) best = i;
  });
  return best;
}

// The level of the ladder one is at, or from which the model in use comes.
function onLadder() {
  return state.level < levels.length ? state.level : inUse.level;
}

function selected() {
  return state.wanted === null ? -1 : standIn(state.wanted, state.level);
}

// The level nearest to another on which a node stands itself.
function levelOf(node, from) {
  let best = -1;
  placeOn.forEach((here, k) => {
    if (here.has(node) && (best < 0 || Math.abs(k - from) < Math.abs(best - from))) best = k;
  });
  return best;
}

const listeners = [];

function onChange(listener) {
  listeners.push(listener);
}

function show(level, wanted) {
  const before = { ...state };
  state.level = Math.max(0, Math.min(stops.length - 1, level));
  if (wanted !== undefined) state.wanted = wanted;
  if (before.level !== state.level || before.wanted !== state.wanted) listeners.forEach((tell) => tell(before));
}

function select(node) {
  show(state.level, node);
}

// Tell when a frame has another size than it had when it was drawn first.
function onResize(frame, redraw) {
  let drawn = `${frame.clientWidth} ${frame.clientHeight}`;
  new ResizeObserver(() => {
    const now = `${frame.clientWidth} ${frame.clientHeight}`;
    if (now !== drawn) redraw();
    drawn = now;
  }).observe(frame);
}
