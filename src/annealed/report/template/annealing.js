// The course of the annealing: the tree and the curves over one axis of temperature. Plotly draws
// them once; the cut, the cursor and the dots on it lie over them and move.

const annealing = byId("annealing");
const over = byId("annealing-over");
const ANNEALING_MARGIN = { l: 52, r: 14, t: 26, b: 44 };
const temperatures = levels.map((level) => level.temperature);
const leaves = levels[levels.length - 1].nodes.length;
const GAP = 0.075;

const annealingRange = (() => {
  const hot = Math.log10(temperatures[0]);
  const cold = Math.log10(temperatures[temperatures.length - 1]);
  const pad = 0.02 * (hot - cold) || 0.1;
  return [hot + pad, cold - pad];
})();

// Round numbers 1, 2, 5, 10, ... between two positive ones; only powers of ten if there are many.
function roundNumbers(low, high, most) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of [1, 2, 5]) found.push(Number((digit * 10 ** power).toPrecision(1)));
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const tens = inside.filter((value) => Number.isInteger(Math.log10(value)) || /^1(e|0*$)|^0\.0*1$/.test(String(value)));
  return inside.length <= most || tens.length < 2 ? inside : tens;
}

function curve(name, values, dash) {
  return { name, values, dash };
}

function panels() {
  const K = levels.map((level) => level.n_codevectors);
  const made = [{ title: "Tree of splits", tree: true, share: 2.1 }];
  if (data.score_name) {
    made.push({ title: `Score: ${data.score_name}`, share: 1, curves: [curve("score", levels.map((level) => level.score), "solid")] });
  }
  made.push({
    title: "Distortion D (solid) and free energy F (dashed)", share: 1,
    curves: [
      curve("distortion", levels.map((level) => level.distortion), "solid"),
      curve("free_energy", levels.map((level) => level.free_energy), "dash"),
    ],
  });
  made.push({ title: "Number of codevectors K", share: 1, log: Math.max(...K) >= 10, steps: true, curves: [curve("n_codevectors", K, "solid")] });
  const unit = (1 - GAP * (made.length - 1)) / made.reduce((sum, one) => sum + one.share, 0);
  let top = 1;
  made.forEach((panel, i) => {
    panel.domain = [Math.max(0, top - unit * panel.share), top];
    top = panel.domain[0] - GAP;
    panel.axis = i === 0 ? "yaxis" : `yaxis${i + 1}`;
    panel.id = i === 0 ? "y" : `y${i + 1}`;
    panel.range = panelRange(panel);
  });
  return made;
}

function panelRange(panel) {
  if (panel.tree) return [leaves - 1 + 0.8, -0.8];
  const values = panel.curves.flatMap((one) => one.values).filter((value) => value !== null);
  if (panel.log) return [Math.log10(Math.min(...values)) - 0.08, Math.log10(Math.max(...values)) + 0.08];
  const [low, high] = paddedRange(values);
  return [low, high + 0.03 * (high - low)];
}

const annealingPanels = panels();

function treeTraces() {
  const groups = new Map();
  for (const segment of data.lines) {
    const node = nodes[segment.node];
    if (!groups.has(node.branch)) groups.set(node.branch, { x: [], y: [] });
    const line = groups.get(node.branch);
    const from = segment.origin === null ? node.height : nodes[segment.origin].height;
    line.x.push(segment.start, segment.start, segment.end, null);
    line.y.push(from, node.height, node.height, null);
  }
  const width = leaves > 100 ? 1 : leaves > 40 ? 1.4 : 2;
  return [...groups].map(([branch, line]) => ({
    ...line, type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, yaxis: "y",
    line: { color: colour(branch), width }, connectgaps: false,
  }));
}

function curveTraces() {
  return annealingPanels.filter((panel) => panel.curves).flatMap((panel) =>
    panel.curves.map((one) => ({
      x: temperatures, y: one.values, type: "scatter", mode: "lines", hoverinfo: "skip",
      showlegend: false, yaxis: panel.id,
      line: { color: css("--ink"), width: 1.8, dash: one.dash, shape: panel.steps ? "hv" : "linear" },
    }))
  );
}

function annealingLayout() {
  const width = annealing.clientWidth;
  const hot = 10 ** annealingRange[0];
  const cold = 10 ** annealingRange[1];
  const ticks = roundNumbers(cold, hot, width < 480 ? 6 : 10);
  const layout = {
    width, height: annealing.clientHeight, margin: ANNEALING_MARGIN, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--soft"), family: getComputedStyle(document.body).fontFamily, size: 11 },
    dragmode: false, hovermode: false, showlegend: false,
    xaxis: {
      type: "log", range: annealingRange.slice(), anchor: annealingPanels[annealingPanels.length - 1].id,
      title: { text: "temperature T, from hot to cold", font: { size: 12 }, standoff: 6 },
      tickvals: ticks, ticktext: ticks.map((tick) => number(tick)), gridcolor: css("--grid"), fixedrange: true, zeroline: false,
    },
    annotations: annealingPanels.map((panel) => ({
      text: forPlotly(shortened(panel.title, 52)), xref: "paper", yref: "paper", x: 0, y: panel.domain[1], xanchor: "left",
      yanchor: "bottom", yshift: 3, showarrow: false, font: { size: 12, color: css("--ink") },
    })),
  };
  for (const panel of annealingPanels) {
    const values = panel.curves ? panel.curves[0].values : [];
    layout[panel.axis] = {
      domain: panel.domain, range: panel.range.slice(), fixedrange: true, zeroline: false,
      gridcolor: css("--grid"), nticks: 5, exponentformat: "power", type: panel.log ? "log" : "linear", automargin: false,
      ...(panel.tree ? { showticklabels: false, showgrid: false } : {}),
      ...(panel.log ? { tickvals: roundNumbers(Math.min(...values), Math.max(...values), 8) } : {}),
      ...(panel.steps && !panel.log ? { tickformat: "d", dtick: 1 + Math.floor(Math.max(...values) / 6) } : {}),
    };
  }
  return layout;
}

function drawAnnealing() {
  Plotly.react(annealing, [...treeTraces(), ...curveTraces()], annealingLayout(), { displayModeBar: false, responsive: false });
  drawCut();
}

// -- what moves ---------------------------------------------------------------------------------

function atX(T) {
  const { l, r } = ANNEALING_MARGIN;
  const part = (Math.log10(T) - annealingRange[0]) / (annealingRange[1] - annealingRange[0]);
  return l + part * (annealing.clientWidth - l - r);
}

function atY(panel, value) {
  const { t, b } = ANNEALING_MARGIN;
  const height = annealing.clientHeight - t - b;
  const [bottom, top] = panel.range;
  const part = ((panel.log ? Math.log10(value) : value) - bottom) / (top - bottom);
  return t + height * (1 - panel.domain[0] - part * (panel.domain[1] - panel.domain[0]));
}

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A line through every panel, but not through their titles.
function verticalLines(T, style) {
  const x = atX(T);
  return annealingPanels.map((panel) => {
    const [from, to] = panel.range.map((end) => atY(panel, panel.log ? 10 ** end : end));
    return shape("line", { x1: x, x2: x, y1: from, y2: to, ...style });
  });
}

// Dots show weight as far as there is room between neighbours.
function dotRadii(level) {
  const share = Math.max(1, data.classes.length);
  const places = level.nodes.map((node) => atY(annealingPanels[0], nodes[node].height));
  const order = places.map((_, i) => i).sort((i, j) => places[i] - places[j]);
  const radii = [];
  order.forEach((i, at) => {
    const beside = [order[at - 1], order[at + 1]].filter((j) => j !== undefined);
    const room = 0.45 * Math.min(20, ...beside.map((j) => Math.abs(places[j] - places[i])));
    radii[i] = Math.max(2.5, Math.min(room, 3 + 9 * Math.sqrt(level.weights[i] / share)));
  });
  return radii;
}

function drawCut() {
  const level = stops[state.level];
  const tree = annealingPanels[0];
  const T = levels[onLadder()].temperature;
  const x = atX(T);
  const end = annealing.clientWidth - ANNEALING_MARGIN.r;
  const drawn = [
    shape("rect", {
      x: x + 1, y: atY(tree, tree.range[1]), width: Math.max(0, end - x - 1),
      height: atY(tree, tree.range[0]) - atY(tree, tree.range[1]), fill: css("--veil"),
    }),
  ];
  if (inUse) {
    drawn.push(...verticalLines(levels[inUse.level].temperature, { stroke: css("--accent"), "stroke-width": 1.2, "stroke-dasharray": "4 4" }));
  }
  drawn.push(...verticalLines(T, { stroke: css("--ink"), "stroke-width": 1.6 }));
  const chosen = selected();
  const radii = dotRadii(level);
  const first = drawn.length;
  level.nodes.forEach((node, i) => {
    const dot = shape("circle", {
      class: "live", cx: x, cy: atY(tree, nodes[node].height), r: radii[i],
      fill: colour(nodes[node].branch), stroke: css(i === chosen ? "--ink" : "--panel"), "stroke-width": i === chosen ? 3 : 1,
    });
    dot.dataset.node = node;
    drawn.splice(i === chosen ? drawn.length : first, 0, dot); // the selected one over the others
  });
  for (const panel of annealingPanels.filter((one) => one.curves)) {
    for (const one of panel.curves) {
      const value = one.values[onLadder()];
      if (value !== null) drawn.push(shape("circle", { cx: x, cy: atY(panel, value), r: 4, fill: css("--ink"), stroke: css("--panel"), "stroke-width": 1.5 }));
    }
  }
  over.replaceChildren(...drawn);
}

function nearestLevel(x) {
  let best = 0;
  temperatures.forEach((T, k) => {
    if (Math.abs(atX(T) - x) < Math.abs(atX(temperatures[best]) - x)) best = k;
  });
  return best;
}

function startAnnealing() {
  drawAnnealing();
  let dragging = false;
  const follow = (event) => show(nearestLevel(event.clientX - over.getBoundingClientRect().left));
  over.addEventListener("pointerdown", (event) => {
    stop();
    if (event.target.dataset.node !== undefined) {
      select(Number(event.target.dataset.node));
      return;
    }
    dragging = true;
    over.setPointerCapture(event.pointerId);
    follow(event);
  });
  over.addEventListener("pointermove", (event) => dragging && follow(event));
  for (const end of ["pointerup", "pointercancel"]) over.addEventListener(end, () => (dragging = false));
  onChange(drawCut);
  onResize(byId("annealing-frame"), drawAnnealing);
}

// -- how long each K lasts ----------------------------------------------------------------------

function drawPlateaus() {
  const frame = byId("plateaus");
  if (!frame) return;
  const { lasts, required, n_clusters } = data.plateaus;
  const K = lasts.map((_, i) => i + 1);
  const bars = {
    type: "bar", x: K, y: lasts, hoverinfo: "skip", showlegend: false,
    marker: { color: K.map((k) => (k === n_clusters ? css("--accent") : css("--other"))) },
  };
  const bar = {
    type: "scatter", mode: "lines", x: K, y: required, hoverinfo: "skip", showlegend: false,
    line: { color: css("--ink"), width: 1.5, shape: "hvh" },
  };
  const layout = {
    width: frame.clientWidth, height: frame.clientHeight, margin: { l: 52, r: 14, t: 8, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--soft"), family: getComputedStyle(document.body).fontFamily, size: 11 }, bargap: 0.25,
    xaxis: { title: { text: "number of codevectors K", font: { size: 12 }, standoff: 6 }, fixedrange: true, showgrid: false, dtick: Math.ceil(K.length / 15) },
    yaxis: { title: { text: "lasts, in log T", font: { size: 12 }, standoff: 6 }, fixedrange: true, gridcolor: css("--grid"), zeroline: false, nticks: 5, rangemode: "tozero" },
    dragmode: false, hovermode: false,
  };
  Plotly.react(frame, [bars, bar], layout, { displayModeBar: false, responsive: false });
}
