// The slider, the play button, the way to the model in use, and the line of figures.

const slider = byId("slider");
let playing = null;

function stop() {
  if (playing === null) return;
  clearInterval(playing);
  playing = null;
  byId("play-word").textContent = "Play";
  byId("play").firstElementChild.textContent = "▶";
  byId("play").setAttribute("aria-label", "Play the annealing");
}

function play() {
  if (state.level >= levels.length - 1) show(0);
  byId("play-word").textContent = "Pause";
  byId("play").firstElementChild.textContent = "❚❚";
  byId("play").setAttribute("aria-label", "Pause the annealing");
  // The whole path in about twelve seconds, whatever its length.
  const pause = Math.max(80, Math.min(600, 12000 / levels.length));
  playing = setInterval(() => (state.level === levels.length - 1 ? stop() : show(state.level + 1)), pause);
}

function writeFigures() {
  const level = stops[state.level];
  for (const name of ["temperature", "n_codevectors", "score", "distortion", "entropy", "free_energy"]) {
    const place = byId(`f-${name}`);
    if (place) place.textContent = number(level[name]);
  }
  byId("f-samples").textContent = count(level.samples);
  byId("f-level").textContent = state.level < levels.length ? `${state.level + 1} of ${levels.length}` : "in use";
  slider.value = onLadder();
  slider.setAttribute("aria-valuetext", `T = ${number(level.temperature)}, K = ${level.n_codevectors}`);
  byId("words").textContent = !inUse ? "" : state.level === IN_USE ? inUse.words
    : `The model in use (K = ${inUse.n_codevectors}) ${inUse.codevectors ? "comes from" : "is"} level ${inUse.level + 1}, marked ◆.`;
  byId("chosen").setAttribute("aria-pressed", String(state.level === IN_USE));
}

function startControls() {
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  byId("play").addEventListener("click", () => (playing === null ? play() : stop()));
  if (inUse) {
    byId("chosen").hidden = false;
    byId("chosen").addEventListener("click", () => {
      stop();
      show(IN_USE);
    });
    const mark = byId("mark");
    mark.hidden = false;
    // The thumb of a range is 16 pixels wide and stays within the track.
    const part = levels.length > 1 ? inUse.level / (levels.length - 1) : 0;
    mark.style.left = `calc(8px + ${part} * (100% - 16px))`;
  }
  onChange(writeFigures);
}

// -- starting -----------------------------------------------------------------------------------

// Reading Plotly takes most of the time this page takes to open: the rest is shown before.
function loadPlotly(then) {
  requestAnimationFrame(() => setTimeout(() => {
    const script = document.createElement("script");
    script.nonce = byId("page-script").nonce;
    script.textContent = byId("plotly-source").textContent;
    document.head.append(script);
    then();
  }));
}

// Open where there is something to see: at the model in use, or at the finest level one can survey.
const surveyed = levels.map((level) => level.n_codevectors <= 12).lastIndexOf(true);
state.level = inUse ? IN_USE : Math.max(0, surveyed);
startControls();
startCard();
writeFigures();
drawLegend();
writeMapNote();
drawPoints();
loadPlotly(() => {
  startMap();
  startAnnealing();
  drawPlateaus();
  if (data.plateaus) onResize(byId("plateaus"), drawPlateaus);
  dark.addEventListener("change", () => {
    drawMap();
    drawLegend();
    drawAnnealing();
    drawPlateaus();
    drawCard();
  });
  document.documentElement.dataset.ready = "true";
});
