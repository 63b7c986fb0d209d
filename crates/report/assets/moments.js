// The moments at which the device was far slower than it mostly was, as rows to jump to. They are
// few dots in a diagram of millions. The first sentence counts the same moments.

function listMoments() {
  const place = document.getElementById("moments");
  if (!place) return;
  const { shown, all } = data.slow_moments;
  place.hidden = shown.length === 0;
  place.replaceChildren();
  if (shown.length === 0) return;
  const note = "with a request of more than 100 times the median service time"
    + (all > shown.length ? `; the ${shown.length} slowest of ${all}` : "");
  const heading = element("h2", { textContent: "Slow moments" },
    element("small", { textContent: note }));
  const row = (cells, kind) => {
    const made = cells.map((cell, i) => {
      const name = kind === "th" || i === 0 ? "th" : "td";
      const one = element(name);
      if (name === "th") one.setAttribute("scope", kind === "th" ? "col" : "row");
      one.append(cell);
      return one;
    });
    const line = element("tr", {}, ...made);
    if (kind === "th") line.className = "head";
    return line;
  };
  const body = shown.map((moment) => {
    const from = moment.from * run.width_ns, to = (moment.to + 1) * run.width_ns;
    const jump = element("button", { type: "button", textContent: "show" });
    const when = instantText(from, run.width_ns);
    jump.setAttribute("aria-label", `show the moment at ${when}`);
    jump.addEventListener("click", () => {
      const around = Math.max(to - from, moment.slowest_ns) * 2;
      zoom(from - around, Math.min(run.end_ns, to + around));
      document.getElementById("panels").scrollIntoView();
    });
    return row([when, spanText(moment.slowest_ns), sonarLayers[moment.class].name, jump]);
  });
  const table = element("table", {}, element("thead", {},
    row(["submitted at", "slowest request", "of", "in the diagrams"], "th")),
  element("tbody", {}, ...body));
  place.append(heading, element("div", { className: "scroll" }, table));
}
