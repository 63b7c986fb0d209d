// A panel: a heading, a legend and a plot over the axis of time that all panels share. What is
// drawn lies on one canvas, the cursor and the selection on a second one above it, so that moving
// the mouse never redraws a million counts.

/// The part of the run that is shown, the cursor and the selection, all in nanoseconds.
const view = { from: 0, to: Math.max(run.end_ns, run.width_ns), cursor: null, select: null };
const allPanels = [];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// A button that stays pressed; `changed` is told its new state.
function toggle(label, pressed, changed, className = "") {
  const button = element("button", { type: "button", className });
  button.append(...[label].flat());
  button.setAttribute("aria-pressed", pressed);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", now);
    changed(now);
  });
  return button;
}

/// One of several buttons is pressed, at first that of the value `chosen`; `changed` is told its
/// value.
function choice(options, changed, chosen = options[0][0]) {
  const buttons = options.map(([value, label]) => {
    const button = element("button", { type: "button", className: "choice", textContent: label });
    button.addEventListener("click", () => { press(button); changed(value); });
    return button;
  });
  const press = (pressed) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button === pressed);
  };
  press(buttons[options.findIndex(([value]) => value === chosen)]);
  return buttons;
}

function swatch(colourName, thin = false, dashed = false) {
  const made = element("span", { className: thin ? "swatch thin" : "swatch" });
  const colour = `var(${colourName})`;
  made.style.background = dashed
    ? `repeating-linear-gradient(90deg, ${colour} 0 4px, transparent 4px 7px)` : colour;
  return made;
}

/// Across a picture: that its figures are none of a storage, or none at all.
function stampOn(pen, { x, y, w, h }) {
  if (!data.stamp) return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.translate(x + w / 2, y + h / 2);
  pen.rotate(-Math.min(0.35, Math.atan2(h, w)));
  const size = Math.min(h * 0.5, w * 1.3 / data.stamp.length, 96);
  pen.font = `700 ${size}px system-ui, "Liberation Sans", Arial, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillStyle = colour("--failed");
  pen.globalAlpha = 0.11;
  pen.fillText(data.stamp, 0, 0);
  pen.restore();
}

class Panel {
  constructor({ title, note, height, label, place = "panels", small = false }) {
    this.small = small;
    this.height = height;
    this.label = label;
    this.legend = element("div", { className: "legend" });
    this.controls = element("div", { className: "legend" });
    this.plot = element("div", { className: "plot" });
    this.base = element("canvas");
    this.over = element("canvas");
    this.plot.append(this.base, this.over);
    // What is not drawn yet has its place already.
    this.base.style.height = this.over.style.height = `${this.height}px`;
    const heading = element("h2", { textContent: title });
    if (note) heading.append(element("small", { textContent: note }));
    this.figure = element("section", { className: "panel" },
      element("header", {}, heading, ...(small ? [] : [this.controls]), this.legend), this.plot);
    this.title = title;
    this.base.setAttribute("role", "img");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-roledescription", "diagram over time");
    this.plot.setAttribute("aria-label", `${title}. Arrow keys move the cursor, with Shift they `
      + "select, Enter zooms into the selection, plus and minus zoom, Page Up and Page Down move "
      + "the part shown, Escape shows everything.");
    this.plot.addEventListener("keydown", (event) => keys(this, event));
    document.getElementById(place).append(this.figure);
    allPanels.push(this);
    listen(this);
  }

  /// What the diagram shows, in words, for those who cannot see it.
  describe() {
    return "";
  }

  /// Fits both canvases to the page and to the pixels of the screen.
  fit() {
    const wide = this.plot.clientWidth, dense = window.devicePixelRatio || 1;
    // On paper all of them fit on two sheets.
    const printing = document.documentElement.classList.contains("printing");
    this.tall ??= this.height;
    this.height = Math.round(this.tall * (printing ? 0.68 : 1));
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.max(1, Math.round(wide * dense));
      canvas.height = Math.round(this.height * dense);
      canvas.style.height = `${this.height}px`;
    }
    this.dense = dense;
    const left = 70, right = wide > 760 && !this.small ? 124 : 18;
    this.area = { x: left, y: 8, w: Math.max(20, wide - left - right), h: this.height - 8 - 24, right };
    // Whole pixels: a raster that starts between two pixels is blurred.
    this.area.w = Math.floor(this.area.w);
  }

  x(ns) {
    return this.area.x + (ns - view.from) / (view.to - view.from) * this.area.w;
  }

  ns(x) {
    const share = (x - this.area.x) / this.area.w;
    return view.from + Math.min(1, Math.max(0, share)) * (view.to - view.from);
  }

  /// The buckets that are at least partly shown.
  buckets() {
    const from = Math.max(0, Math.floor(view.from / run.width_ns));
    const to = Math.min(run.buckets, Math.max(from + 1, Math.ceil(view.to / run.width_ns)));
    return [Math.min(from, run.buckets - 1), to];
  }

  redraw() {
    this.fit();
    const pen = this.base.getContext("2d");
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    pen.fillStyle = colour("--plot");
    pen.fillRect(this.area.x, this.area.y, this.area.w, this.area.h);
    this.draw(pen);
    this.timeAxis(pen);
    stampOn(pen, this.area);
    this.base.setAttribute("aria-label", `${this.title}. ${this.describe()}`);
    this.drawOver();
  }

  timeAxis(pen) {
    const { x, y, w, h } = this.area;
    const { step, marks } = timeMarks(view.from, view.to, Math.max(2, Math.floor(w / 90)));
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--soft");
    pen.lineWidth = 1;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.beginPath();
    for (const ns of marks) {
      const at = Math.round(this.x(ns)) + 0.5;
      pen.moveTo(at, y + h);
      pen.lineTo(at, y + h + 4);
      pen.fillText(instantText(ns, step), at, y + h + 7);
    }
    pen.stroke();
    pen.textAlign = "left";
    pen.fillText(run.end_ns < 120e9 ? "time" : "h:m:s", 0, y + h + 7);
    pen.strokeStyle = colour("--line");
    pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
  }

  /// Horizontal lines and labels at marks of the other axis.
  valueAxis(pen, marks, small, toY, toText) {
    const { x, y, w, h } = this.area;
    pen.lineWidth = 1;
    pen.strokeStyle = colour("--faint");
    pen.beginPath();
    for (const value of marks) {
      const at = Math.round(toY(value)) + 0.5;
      pen.moveTo(x, at);
      pen.lineTo(x + w, at);
    }
    pen.stroke();
    pen.strokeStyle = colour("--line");
    pen.beginPath();
    for (const value of small) {
      const at = Math.round(toY(value)) + 0.5;
      pen.moveTo(x - 3, at);
      pen.lineTo(x, at);
    }
    pen.stroke();
    pen.fillStyle = colour("--soft");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of marks) {
      const at = toY(value);
      if (at > y - 4 && at < y + h + 4) pen.fillText(toText(value), x - 6, at);
    }
    pen.save();
    pen.translate(7, y + h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(this.label(), 0, 0);
    pen.restore();
  }

  drawOver() {
    const pen = this.over.getContext("2d");
    const { x, y, w, h } = this.area;
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    if (view.select) {
      const [a, b] = view.select.map((ns) => Math.min(x + w, Math.max(x, this.x(ns))));
      pen.fillStyle = colour("--soft");
      pen.globalAlpha = 0.25;
      pen.fillRect(Math.min(a, b), y, Math.abs(b - a), h);
      pen.globalAlpha = 1;
    }
    const inside = view.cursor !== null && view.cursor >= view.from && view.cursor <= view.to;
    if (inside) {
      const at = Math.round(this.x(view.cursor)) + 0.5;
      pen.strokeStyle = colour("--soft");
      pen.beginPath();
      pen.moveTo(at, y);
      pen.lineTo(at, y + h);
      pen.stroke();
    }
    this.hover?.(pen, inside);
  }
}

/// Mouse and touch: the cursor, and dragging a part of the run to zoom into.
function listen(panel) {
  const at = (event) => panel.ns(event.clientX - panel.plot.getBoundingClientRect().left);
  let dragged = null;
  panel.plot.addEventListener("pointermove", (event) => {
    const box = panel.plot.getBoundingClientRect();
    for (const other of allPanels) other.pointer = null;
    panel.pointer = event.clientY - box.top;
    view.cursor = at(event);
    if (dragged !== null) view.select = [dragged, view.cursor];
    drawCursors();
  });
  panel.plot.addEventListener("pointerleave", () => {
    if (dragged !== null) return;
    panel.pointer = null;
    view.cursor = null;
    drawCursors();
  });
  panel.plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    panel.plot.setPointerCapture(event.pointerId);
    dragged = at(event);
  });
  const drop = (event) => {
    if (dragged === null) return;
    const [from, to] = [dragged, at(event)].sort((a, b) => a - b);
    const wide = (to - from) / (view.to - view.from) * panel.area.w;
    dragged = null;
    view.select = null;
    // A hand is never quite still: what is narrower than this was a click.
    if (event.type === "pointerup" && wide > 4) zoom(from, to);
    else drawCursors();
  };
  panel.plot.addEventListener("pointerup", drop);
  panel.plot.addEventListener("pointercancel", drop);
  panel.plot.addEventListener("dblclick", wholeRun);
}

let cursorsWanted = false;
function drawCursors() {
  if (cursorsWanted) return;
  cursorsWanted = true;
  requestAnimationFrame(() => {
    cursorsWanted = false;
    for (const panel of allPanels) if (panel.area) panel.drawOver();
  });
}

let drawWanted = false, everythingWanted = false;

/// Has the panels drawn in the next frame: all of them, or those over time alone.
function drawAll(timeOnly = false) {
  everythingWanted ||= timeOnly !== true;
  if (drawWanted) return;
  drawWanted = true;
  requestAnimationFrame(() => {
    drawWanted = false;
    drawNow(!everythingWanted);
  });
}

/// Panels that still have to be drawn, and the task that does it.
let undrawn = new Set(), drawing = null;

/// Draws what is on the screen at once and the rest one by one behind it, so that a reader never
/// waits for what is not seen.
function drawNow(timeOnly = false) {
  const began = performance.now();
  everythingWanted = false;
  for (const panel of allPanels) if (!timeOnly || !panel.own) undrawn.add(panel);
  for (const panel of [...undrawn]) {
    // What is folded away has no room to be drawn in, and what was removed no place.
    if (!panel.plot.isConnected || panel.plot.clientWidth === 0) undrawn.delete(panel);
    const box = panel.plot.getBoundingClientRect();
    if (box.bottom > -100 && box.top < innerHeight + 100) drawOne(panel);
  }
  document.documentElement.dataset.drawMs = (performance.now() - began).toFixed(1);
  showWindow();
  drawRest();
}

function drawOne(panel) {
  if (undrawn.delete(panel)) panel.redraw();
}

function drawRest() {
  document.documentElement.dataset.drawn = undrawn.size === 0 ? "yes" : "no";
  if (drawing !== null || undrawn.size === 0) return;
  drawing = setTimeout(() => {
    drawing = null;
    const [next] = undrawn;
    if (next && next.plot.isConnected) drawOne(next);
    else undrawn.delete(next);
    drawRest();
  });
}

/// Draws everything, seen or not: for paper.
function drawEverything() {
  for (const panel of allPanels) if (panel.plot.clientWidth > 0) panel.redraw();
  undrawn.clear();
}

/// Shows the run from one instant to another, never less than a few buckets.
function zoom(from, to) {
  const end = Math.max(run.end_ns, run.width_ns);
  const wide = Math.min(end, Math.max(to - from, Math.min(8 * run.width_ns, end)));
  const middle = (from + to) / 2;
  view.from = Math.min(end - wide, Math.max(0, middle - wide / 2));
  view.to = view.from + wide;
  writeAddress();
  drawAll(true);
}

function wholeRun() {
  view.select = null;
  zoom(0, Infinity);
}

function wholeShown() {
  return view.from <= 0 && view.to >= run.end_ns;
}

function showWindow() {
  if (run.buckets === 0) return;
  const whole = wholeShown();
  const step = Math.max(1, (view.to - view.from) / 1000);
  const text = `${instantText(view.from, step)} to ${instantText(view.to, step)}`;
  document.getElementById("window").textContent = whole ? `whole ${data.kind}, ${text}` : text;
  document.getElementById("reset").disabled = whole;
  document.documentElement.dataset.view = `${Math.round(view.from)} ${Math.round(view.to)}`;
}
