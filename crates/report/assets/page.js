// The page comes alive: the panels in their order, and what makes all of them draw again.

/// Makes every panel anew from the figures.
function build() {
  const focused = allPanels.findIndex((panel) => panel.plot === document.activeElement);
  for (const panel of allPanels) panel.figure.remove();
  allPanels.length = 0;
  if (run.buckets === 0) return;
  const hasSonar = data.kind !== "load" || sonarLayers.some((layer) => layer.total > 0);
  if (hasSonar) new Sonar(true);
  new Throughput(true);
  if (hasSonar) new Sonar();
  // Where nothing was due, nothing can be late.
  if (data.kind !== "load" && data.has_due_instants) new Lateness();
  new Throughput();
  if (data.files) new Files();
  if (data.kind !== "load" || run.recorded_mean) new InFlight();
  const unpacked = (chart) => {
    for (const layer of chart.layers) if (layer.shape === "grid") layer.cells = unpackGrid(layer);
    return chart;
  };
  const places = [["witness", "witness"], ["charts", "charts"], ["expert", "expert"]];
  for (const [name, place] of places) {
    for (const chart of data[name] ?? []) {
      unpacked(chart);
      if (chart.x.spacing === "time" && name === "charts") new TimeChart(chart);
      else if (chart.x.spacing === "time") new TimeChart(chart, place);
      else new OwnChart(chart, document.getElementById(place));
    }
  }
  if (data.curves.length > 0) new Curves();
  for (const panel of allPanels) {
    if (!panel.small) panel.figure.firstChild.append(saver(panel));
  }
  listMoments();
  allPanels[focused]?.plot.focus();
}

/// The texts that were last put in, by name.
const put = {};

/// Shows new figures in place of the old ones, where the reader is and with what was switched. A
/// page that is served while a run goes on calls it with what `ioecho_report::update` answers.
window.ioechoUpdate = (update) => {
  const figures = typeof update === "string" ? JSON.parse(update) : update;
  const whole = wholeShown();
  // Texts were escaped where they were made; only what stands between marks is replaced.
  for (const [name, html] of Object.entries(figures.texts ?? {})) {
    const place = document.querySelector(`[data-text="${name}"]`);
    if (place && put[name] !== html) place.innerHTML = put[name] = html;
  }
  take(figures.data);
  if (whole) [view.from, view.to] = [0, Math.max(run.end_ns, run.width_ns)];
  document.getElementById("bar").hidden = run.buckets === 0;
  build();
  drawNow();
};

document.getElementById("reset")?.addEventListener("click", wholeRun);
build();
// Only the width matters: drawing itself may change the height.
let wide = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === wide) return;
  wide = document.body.clientWidth;
  drawAll();
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
// What is folded away has no width to draw in.
for (const folded of document.querySelectorAll("details")) {
  folded.addEventListener("toggle", () => drawAll());
}
// The address keeps the part that is shown, so a link of the index does not go into it.
for (const link of document.querySelectorAll("nav a")) {
  link.addEventListener("click", (event) => {
    const place = document.querySelector(link.hash);
    event.preventDefault();
    if (place.matches("details")) place.open = true;
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
    place.scrollIntoView();
  });
}
document.getElementById("copy")?.addEventListener("click", (event) => {
  const button = event.currentTarget, text = document.getElementById("command");
  const done = (word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  };
  const select = () => {
    getSelection().selectAllChildren(text);
    done(document.execCommand("copy") ? "copied" : "press Ctrl+C");
  };
  // A page from a file may not be allowed to write to the clipboard; then it is selected.
  if (!navigator.clipboard) return select();
  navigator.clipboard.writeText(text.textContent).then(() => done("copied"), select);
});
// Paper is white, and nothing on it can be unfolded: what is drawn in the colours of a dark screen
// is drawn again for it.
const unfolded = [];
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details:not([open])")) {
    unfolded.push(folded);
    folded.open = true;
  }
  document.documentElement.classList.add("printing");
  view.cursor = null;
  drawEverything();
});
addEventListener("afterprint", () => {
  while (unfolded.length > 0) unfolded.pop().open = false;
  document.documentElement.classList.remove("printing");
  drawNow();
});
readAddress();
drawNow();
document.documentElement.dataset.ready = "yes";
