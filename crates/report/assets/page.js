// The page comes alive: the panels in their order, and what makes all of them draw again.

if (run.buckets > 0) {
  new Sonar();
  new Lateness();
  new Throughput();
  new InFlight();
  if (data.curves.length > 0) new Curves();
  document.getElementById("reset").addEventListener("click", wholeRun);
  // Only the width matters: drawing itself may change the height.
  let wide = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === wide) return;
    wide = document.body.clientWidth;
    drawAll();
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Paper is white: what is drawn in the colours of a dark screen is drawn again for it.
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    view.cursor = null;
    drawNow();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    drawNow();
  });
  drawNow();
}
// On paper nothing can be unfolded.
const facts = document.querySelector("details.facts");
let unfolded = false;
addEventListener("beforeprint", () => {
  unfolded = facts.open;
  facts.open = true;
});
addEventListener("afterprint", () => { facts.open = unfolded; });
document.documentElement.dataset.ready = "yes";
