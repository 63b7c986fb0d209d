// Every diagram over time by keyboard: what a mouse does, keys do.

function keys(panel, event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const wide = view.to - view.from;
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const upwards = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const pages = { PageUp: -1, PageDown: 1 }[event.key];
  if (sideways) {
    const before = view.cursor ?? (view.from + view.to) / 2;
    const step = Math.max(run.width_ns, wide / 100);
    view.cursor = Math.min(view.to, Math.max(view.from, before + sideways * step));
    panel.pointer ??= panel.area.y + panel.area.h / 2;
    view.select = event.shiftKey ? [view.select ? view.select[0] : before, view.cursor] : null;
    drawCursors();
  } else if (upwards) {
    // A diagram with rows has cells to look at one by one; others are followed in twenty steps.
    const rows = panel.high > panel.low ? panel.high - panel.low : 20;
    const y = (panel.pointer ?? panel.area.y + panel.area.h / 2) + upwards * panel.area.h / rows;
    panel.pointer = Math.min(panel.area.y + panel.area.h - 1, Math.max(panel.area.y, y));
    view.cursor ??= (view.from + view.to) / 2;
    drawCursors();
  } else if (pages) {
    zoom(view.from + pages * wide / 2, view.to + pages * wide / 2);
  } else if (event.key === "Home" || event.key === "End") {
    view.cursor = event.key === "Home" ? view.from : view.to;
    drawCursors();
  } else if (event.key === "Enter" && view.select) {
    const [from, to] = [...view.select].sort((a, b) => a - b);
    view.select = null;
    zoom(from, to);
  } else if (event.key === "+" || event.key === "-") {
    const middle = view.cursor ?? (view.from + view.to) / 2;
    const half = wide * (event.key === "+" ? 0.25 : 1);
    zoom(middle - half, middle + half);
  } else if (event.key === "Escape") {
    view.cursor = null;
    wholeRun();
  } else {
    return;
  }
  event.preventDefault();
}
