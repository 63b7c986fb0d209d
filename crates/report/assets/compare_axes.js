// Numbers, axes and the canvas that all pictures of a comparison stand on.

const pairs = JSON.parse(document.getElementById("data").textContent);
const pictures = [];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Red, green and blue of a colour written as #rrggbb.
function parts(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function spanText(ns) {
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= scale * 0.9995) return `${digits3(ns / scale)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function digits3(value) {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

function shortText(value) {
  for (const [scale, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= scale) return `${+(value / scale).toPrecision(3)}${unit}`;
  }
  return `${+value.toPrecision(3)}`;
}

function percentText(ratio) {
  if (ratio >= 3) return `×${shortText(+ratio.toPrecision(2))}`;
  if (ratio > 0 && ratio < 0.001) return `÷${shortText(+(1 / ratio).toPrecision(2))}`;
  const change = Math.abs(ratio - 1) * 100;
  if (change < 0.05) return "0 %";
  const text = change < 1 || (change > 99 && change < 100) ? change.toFixed(1)
    : +change.toPrecision(2);
  return `${ratio >= 1 ? "+" : "−"}${text} %`;
}

function linearMarks(low, high, most) {
  const decade = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => (high - low) / s <= most);
  const marks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    marks.push(i * step);
  }
  return marks;
}

/// Marks of a ratio, whose axis is logarithmic: powers of ten where it spans several.
function ratioMarks(least, most, count) {
  if (most / least < 100) return linearMarks(least, most, count);
  const all = decades(least, most).filter((mark) => Number.isInteger(Math.round(1e6 * Math.log10(mark)) / 1e6));
  const every = Math.ceil(all.length / count);
  const one = all.findIndex((mark) => Math.abs(Math.log10(mark)) < 1e-6);
  return all.filter((_, i) => (i - one) % every === 0);
}

function decades(low, high) {
  const marks = [];
  for (let e = Math.floor(Math.log10(low)); 10 ** e <= high * 1.0001; e++) {
    for (const m of high / low < 1000 ? [1, 2, 5] : [1]) {
      const value = m * 10 ** e;
      if (value >= low * 0.9999 && value <= high * 1.0001) marks.push(value);
    }
  }
  return marks;
}

/// Ratios that an axis shows: at least 5 % to either side of 1, and what lies beyond few blocks is
/// cut.
function ratioRange(ratios) {
  const logs = ratios.filter((r) => r > 0).map(Math.log).sort((a, b) => a - b);
  const at = (share) => logs[Math.min(logs.length - 1, Math.floor(share * logs.length))] ?? 0;
  const most = Math.max(Math.log(1.05), -at(0.02), at(0.98)) * 1.15;
  return [Math.exp(-most), Math.exp(most)];
}

/// A heading, a legend and a canvas; `draw(pen, area)` fills it, `tell(x, y)` says what is there.
class Picture {
  constructor(home, { title, note, height, label }) {
    this.height = height;
    this.label = label;
    this.legend = element("div", { className: "legend" });
    this.canvas = element("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", title);
    this.readout = element("div", { className: "readout" });
    this.plot = element("div", { className: "plot" }, this.canvas);
    const heading = element("h2", { textContent: title });
    if (note) heading.append(element("small", { textContent: note }));
    home.append(element("section", { className: "panel" },
      element("header", {}, heading, this.legend), this.plot, this.readout));
    this.plot.addEventListener("pointermove", (event) => {
      const box = this.plot.getBoundingClientRect();
      this.readout.textContent = this.tell(event.clientX - box.left, event.clientY - box.top) ?? "";
    });
    this.plot.addEventListener("pointerleave", () => { this.readout.textContent = ""; });
    pictures.push(this);
  }

  sign(name, colourName) {
    const swatch = element("span", { className: "swatch thin" });
    swatch.style.background = `var(${colourName})`;
    this.legend.append(element("span", { className: "item" }, swatch, name));
  }

  choices(options, changed) {
    const buttons = options.map(([value, label], i) => {
      const button = element("button", { type: "button", className: "choice", textContent: label });
      button.setAttribute("aria-pressed", i === 0);
      button.addEventListener("click", () => {
        for (const other of buttons) other.setAttribute("aria-pressed", other === button);
        changed(value);
        this.redraw();
      });
      return button;
    });
    if (buttons.length > 1) this.legend.append(...buttons);
  }

  redraw() {
    const wide = this.plot.clientWidth, dense = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(wide * dense));
    this.canvas.height = Math.round(this.height * dense);
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
    this.area = { x: 78, y: 8, w: Math.max(40, wide - 78 - 28), h: this.height - 8 - 24 };
    pen.fillStyle = colour("--plot");
    pen.fillRect(this.area.x, this.area.y, this.area.w, this.area.h);
    this.draw(pen, this.area);
    pen.strokeStyle = colour("--line");
    pen.strokeRect(this.area.x - 0.5, this.area.y - 0.5, this.area.w + 1, this.area.h + 1);
  }

  /// Horizontal lines with labels.
  across(pen, marks, toY, toText, area = this.area, label = this.label) {
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const mark of marks) {
      const y = Math.round(toY(mark)) + 0.5;
      if (y < area.y - 1 || y > area.y + area.h + 1) continue;
      pen.strokeStyle = colour("--faint");
      pen.beginPath();
      pen.moveTo(area.x, y);
      pen.lineTo(area.x + area.w, y);
      pen.stroke();
      pen.fillStyle = colour("--soft");
      pen.fillText(toText(mark), area.x - 6, y);
    }
    pen.save();
    pen.translate(9, area.y + area.h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillStyle = colour("--soft");
    pen.fillText(label, 0, 0);
    pen.restore();
  }

  /// Labels below.
  below(pen, marks, toX, toText) {
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const bottom = this.area.y + this.area.h;
    for (const mark of marks) {
      const x = Math.round(toX(mark)) + 0.5;
      pen.strokeStyle = colour("--soft");
      pen.beginPath();
      pen.moveTo(x, bottom);
      pen.lineTo(x, bottom + 4);
      pen.stroke();
      pen.fillStyle = colour("--soft");
      pen.fillText(toText(mark), x, bottom + 7);
    }
  }

  /// Steps or a line through points [x, y]; a null ends it.
  line(pen, points, colourName, wide = 1.5, dash = []) {
    pen.beginPath();
    let down = false;
    for (const point of points) {
      if (point === null) { down = false; continue; }
      if (down) pen.lineTo(...point); else pen.moveTo(...point);
      down = true;
    }
    pen.strokeStyle = colour(colourName);
    pen.lineWidth = wide;
    pen.lineJoin = "round";
    pen.setLineDash(dash);
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
  }
}
