// The map: samples on a canvas (there may be thousands, recoloured at every step), codevectors drawn
// by Plotly over it.

const map = byId("map");
const canvas = byId("points");
const MAP_MARGIN = { l: 52, r: 12, t: 8, b: 44 };
const CODEVECTORS = 0; // the first of the traces

function decodeCells(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

const cellsOf = stops.map(() => null);

// For each sample shown the codevector of the level that it belongs to.
function cells(level) {
  if (cellsOf[level] === null) cellsOf[level] = decodeCells(stops[level].cells);
  return cellsOf[level];
}

function paddedRange(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const pad = 0.05 * (high - low) || Math.max(Math.abs(high) * 0.05, 0.5);
  return [low - pad, high + pad];
}

function everything(axis) {
  const parts = stops.map((level) => level[axis]);
  if (data.rows) parts.push(data.rows[axis]);
  return parts.flat();
}

const flat = data.axes[1] === "" && !data.projected;
const mapRange = { x: paddedRange(everything("x")), y: flat ? [-1.3, 1.3] : paddedRange(everything("y")) };
// What part of the map is seen: all of it, until the user zooms.
let mapView = { x: mapRange.x.slice(), y: mapRange.y.slice() };

function markerSizes(level) {
  const share = Math.max(1, data.classes.length);
  return level.weights.map((weight) => 6 + 30 * Math.sqrt(weight / share));
}

function hoverText(level, i) {
  const name = forPlotly(shortened(nodes[level.nodes[i]].name, 60));
  return `${name}<br>weight ${percent(level.weights[i])}`;
}

function mapTraces() {
  const level = stops[state.level];
  const branch = level.nodes.map((node) => nodes[node].branch);
  const i = selected();
  const sizes = markerSizes(level);
  const near = i >= 0 && data.rows ? level.cards[i].nearest.map((one) => one.row) : [];
  const still = { type: "scatter", mode: "markers", hoverinfo: "skip", showlegend: false };
  return [
    {
      ...still, x: level.x, y: level.y, hoverinfo: "text",
      hovertext: level.nodes.map((_, j) => hoverText(level, j)),
      marker: {
        size: sizes, symbol: branch.map(symbol), color: branch.map(colour), opacity: 0.92,
        line: { color: css("--panel"), width: 1.5 },
      },
    },
    {
      ...still, x: near.map((row) => data.rows.x[row]), y: near.map((row) => data.rows.y[row]),
      marker: { symbol: "circle-open", size: 9, color: css("--ink"), line: { width: 1.5 } },
    },
    {
      ...still, x: i < 0 ? [] : [level.x[i]], y: i < 0 ? [] : [level.y[i]],
      marker: {
        symbol: "circle-open", size: i < 0 ? 10 : sizes[i] + 9, color: css("--ink"),
        line: { width: 3 },
      },
    },
    ...(state.level === IN_USE ? outlines() : []),
  ];
}

// Around the samples of each cluster of the model in use, where clusters may have any shape.
function outlines() {
  return inUse.outlines.map(({ cluster, size, x, y, values, contour }) => {
    const bytes = Uint8Array.from(atob(values), (letter) => letter.charCodeAt(0));
    const along = ([first, last]) => Array.from({ length: size }, (_, i) => first + ((last - first) * i) / (size - 1));
    return {
      type: "contour", x: along(x), y: along(y), z: Array.from({ length: size }, (_, i) => Array.from(bytes.subarray(i * size, (i + 1) * size))),
      contours: { coloring: "none", start: contour, end: contour, size: 1 }, line: { color: colour(cluster), width: 2, smoothing: 1 },
      showscale: false, hoverinfo: "skip", showlegend: false, name: `outline of cluster ${cluster}`,
    };
  });
}

// A title takes some six pixels a letter; what has no room is cut short.
function axis(title, range, pixels, extra) {
  return {
    title: { text: forPlotly(shortened(title, Math.max(8, Math.floor(pixels / 6.2)))), font: { size: 12 }, standoff: 6 },
    range: range.slice(), zeroline: false, gridcolor: css("--grid"), linecolor: css("--line"),
    tickfont: { size: 11 }, exponentformat: "power", automargin: false, nticks: 6, ...extra,
  };
}


function mapLayout() {
  const { l, r, t, b } = MAP_MARGIN;
  return {
    width: map.clientWidth, height: map.clientHeight, margin: MAP_MARGIN, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--soft"), family: getComputedStyle(document.body).fontFamily },
    xaxis: axis(data.axes[0], mapView.x, map.clientWidth - l - r),
    yaxis: axis(flat ? "(samples spread to be seen)" : data.axes[1], mapView.y, map.clientHeight - t - b, flat ? { showticklabels: false } : {}),
    hovermode: "closest", hoverdistance: 12, dragmode: matchMedia("(pointer: coarse)").matches ? false : "pan",
    hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--ink"), size: 12 }, align: "left" },
    showlegend: false,
  };
}

const MAP_CONFIG = {
  displaylogo: false, responsive: false, doubleClick: "reset", scrollZoom: false,
  // Named one by one: what else Plotly offers would leave out the samples or ask for a network.
  modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]],
};

function drawMap() {
  Plotly.react(map, mapTraces(), mapLayout(), MAP_CONFIG);
  drawPoints();
}

// Samples, by colour: those of the selected codevector stand out.
function drawPoints() {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const rows = data.rows;
  if (!rows || !width) return;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const [x0, x1] = mapView.x;
  const [y0, y1] = mapView.y;
  const { l, r, t, b } = MAP_MARGIN;
  pen.beginPath();
  pen.rect(l, t, width - l - r, height - t - b);
  pen.clip();
  const member = cells(state.level);
  const own = selected();
  const radius = rows.x.length > 2000 ? 1.7 : rows.x.length > 400 ? 2.3 : 3;
  const groups = new Map();
  for (let i = 0; i < rows.x.length; i++) {
    const node = nodes[stops[state.level].nodes[member[i]]];
    const branch = rows.classes ? rows.classes[i] : node.branch;
    const loud = own < 0 || member[i] === own;
    const key = 2 * branch + (loud ? 1 : 0); // branch -1 gives -2 and -1
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(i);
  }
  for (const [key, members] of [...groups].sort((a, b) => Math.abs(a[0] % 2) - Math.abs(b[0] % 2))) {
    pen.fillStyle = colour(Math.floor(key / 2));
    pen.globalAlpha = key % 2 === 0 ? (dark.matches ? 0.26 : 0.16) : own < 0 ? 0.5 : 0.85;
    pen.beginPath();
    for (const i of members) {
      const x = l + ((rows.x[i] - x0) / (x1 - x0)) * (width - l - r);
      const y = height - b - ((rows.y[i] - y0) / (y1 - y0)) * (height - t - b);
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 7);
    }
    pen.fill();
  }
}

// The nearest codevector in the direction of an arrow key.
function stepTowards(key) {
  const level = stops[state.level];
  const i = selected();
  if (i < 0) return level.weights.indexOf(Math.max(...level.weights));
  const sign = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
  const scale = [mapRange.x[1] - mapRange.x[0], mapRange.y[1] - mapRange.y[0]];
  let best = i;
  let least = Infinity;
  level.nodes.forEach((_, j) => {
    const dx = (level.x[j] - level.x[i]) / scale[0];
    const dy = (level.y[j] - level.y[i]) / scale[1];
    const along = dx * sign[0] + dy * sign[1];
    const aside = Math.abs(dx * sign[1]) + Math.abs(dy * sign[0]);
    if (j !== i && along > 1e-9 && along + 2 * aside < least) [best, least] = [j, along + 2 * aside];
  });
  return best;
}

function drawLegend() {
  const shown = data.branches.map((name, branch) => ({ name, branch }));
  if (nodes.some((node) => node.branch < 0)) shown.push({ name: "not yet split", branch: -1 });
  byId("legend").replaceChildren(
    ...shown.map(({ name, branch }) => element("li", {}, swatch(branch), element("bdi", {}, name)))
  );
}

function swatch(branch) {
  const mark = element("span", { class: "swatch", "aria-hidden": "true" }, GLYPHS[shapeOf(branch)]);
  mark.style.color = colour(branch);
  return mark;
}

function writeMapNote() {
  const words = [];
  if (data.rows) {
    const shown = data.rows.x.length;
    words.push(
      shown < data.rows.total
        ? `A random sample of ${count(shown)} of the ${count(data.rows.total)} rows is shown.`
        : `All ${count(shown)} rows are shown.`
    );
    words.push(
      data.rows.classes ? "A sample has the colour of its class." : "A sample has the colour of the codevector it belongs to."
    );
  }
  if (inUse && inUse.outlines.length) words.push("At the model in use a line is drawn around most samples of each cluster.");
  if (data.projected) words.push("Seen along the two directions in which they differ most: what looks close may be apart in others.");
  byId("map-note").textContent = words.join(" ");
}

function startMap() {
  drawMap();
  map.on("plotly_click", (event) => {
    const point = event.points.find((one) => one.curveNumber === CODEVECTORS);
    if (point) select(stops[state.level].nodes[point.pointNumber]);
  });
  map.on("plotly_relayouting", (event) => {
    for (const axis of ["x", "y"]) {
      const ends = [0, 1].map((end) => event[`${axis}axis.range[${end}]`]);
      if (ends.every(Number.isFinite)) mapView[axis] = ends;
    }
    drawPoints();
  });
  map.on("plotly_relayout", () => {
    mapView = { x: map.layout.xaxis.range.slice(), y: map.layout.yaxis.range.slice() };
    drawPoints();
  });
  byId("map-frame").addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) select(stops[state.level].nodes[stepTowards(event.key)]);
    else if (event.key === "Enter" && selected() >= 0) byId("card-panel").focus();
    else if (event.key === "Escape") select(null);
    else return;
    event.preventDefault();
  });
  onChange(drawMap);
  onResize(byId("map-frame"), drawMap);
}
