// The part of the run that is shown stands in the page's address, so that a link to the page leads
// to it: #from=12.5s&to=13s, in seconds of the run.

function writeAddress() {
  const whole = wholeShown();
  const text = (ns) => `${+(ns / 1e9).toFixed(6)}s`;
  const hash = whole ? "" : `#from=${text(view.from)}&to=${text(view.to)}`;
  if (hash === location.hash) return;
  // A page without an address of its own (in a frame of a mail) keeps what it has.
  try {
    history.replaceState(null, "", hash || location.pathname + location.search);
  } catch {
    return;
  }
}

function readAddress() {
  const found = /^#from=([\d.]+)s&to=([\d.]+)s$/.exec(location.hash);
  if (!found) return;
  const [from, to] = found.slice(1).map((secs) => Number(secs) * 1e9);
  if (Number.isFinite(from) && to > from && from < run.end_ns) zoom(from, to);
}

addEventListener("hashchange", readAddress);
