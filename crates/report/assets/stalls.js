// Where the device stood still, as rows to jump to: the moments whose slowest request took far
// longer than nearly all others. They are few dots in a diagram of millions.

/// Rows at most.
const STALLS_SHOWN = 6;
/// So many times the 99th percentile of its class is a stall, and never less than 10 ms.
const STALL_FACTOR = 10;
const STALL_LEAST_NS = 10e6;

/// Buckets next to each other whose slowest request is a stall, the slowest first.
function stalls() {
  const found = [];
  sonarLayers.forEach((layer, i) => {
    if (layer.total === 0 || !layer.exact) return;
    const limit = Math.max(STALL_LEAST_NS, STALL_FACTOR * layer.exact.p99);
    let last = null;
    layer.most.forEach((ns, bucket) => {
      if (ns === null || ns < limit) return;
      if (last && bucket - last.to <= 1) {
        last.to = bucket;
        last.most = Math.max(last.most, ns);
      } else {
        last = { layer, from: bucket, to: bucket, most: ns };
        found.push(last);
      }
    });
  });
  return found.sort((a, b) => b.most - a.most);
}

function listStalls() {
  const place = document.getElementById("stalls");
  if (!place) return;
  const all = run.buckets > 0 && data.kind !== "load" ? stalls() : [];
  place.hidden = all.length === 0;
  place.replaceChildren();
  if (all.length === 0) return;
  const shown = all.slice(0, STALLS_SHOWN);
  const note = `moments whose slowest request took over ${STALL_FACTOR} times the 99 % of its kind`
    + (all.length > shown.length ? `; the ${shown.length} longest of ${all.length}` : "");
  const heading = element("h2", { textContent: "Stalls" }, element("small", { textContent: note }));
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
  const body = shown.map((stall) => {
    const from = stall.from * run.width_ns, to = (stall.to + 1) * run.width_ns;
    const jump = element("button", { type: "button", textContent: "show" });
    const when = instantText(from, run.width_ns);
    jump.setAttribute("aria-label", `show the stall at ${when}`);
    jump.addEventListener("click", () => {
      const around = Math.max(to - from, stall.most) * 2;
      zoom(from - around, Math.min(run.end_ns, to + around));
      document.getElementById("panels").scrollIntoView();
    });
    return row([when, spanText(stall.most), stall.layer.name, jump]);
  });
  const table = element("table", {}, element("thead", {},
    row(["submitted at", "slowest request", "of", "in the diagrams"], "th")),
  element("tbody", {}, ...body));
  place.append(heading, element("div", { className: "scroll" }, table));
}
