// A chart with axes of its own: distributions, correlations, percentile curves.

class OwnChart {
  constructor(chart, place) {
    this.own = true;
    this.title = chart.title;
    this.chart = chart;
    this.height = 280;
    this.legend = element("div", { className: "legend" });
    this.controls = this.legend;
    this.plot = element("div", { className: "plot" });
    this.base = element("canvas");
    this.over = element("canvas");
    this.plot.append(this.base, this.over);
    // What is not drawn yet has its place already.
    this.base.style.height = this.over.style.height = `${this.height}px`;
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-roledescription", "diagram");
    this.plot.setAttribute("aria-label", `${chart.title}. Arrow keys move the cursor.`);
    this.readout = element("div", { className: "readout" });
    this.readout.setAttribute("aria-live", "polite");
    const heading = element("h3", { textContent: chart.title });
    if (chart.note) heading.append(element("small", { textContent: chart.note }));
    this.values = layerButtons(this, chart);
    this.figure = element("section", { className: "panel own" },
      element("header", {}, heading, this.legend), this.plot, this.readout);
    this.base.setAttribute("role", "img");
    place.append(this.figure);
    const at = (event) => {
      const box = this.plot.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.plot.addEventListener("pointermove", (event) => {
      this.cursor = at(event);
      this.drawOver();
    });
    this.plot.addEventListener("pointerleave", () => { this.cursor = null; this.drawOver(); });
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const moved = step[event.key];
      if (!moved || event.ctrlKey || event.altKey || event.metaKey) return;
      const { x, y, w, h } = this.area;
      const [a, b] = this.cursor ?? [x + w / 2, y + h / 2];
      this.cursor = [Math.min(x + w, Math.max(x, a + moved[0] * w / 50)),
        Math.min(y + h - 1, Math.max(y, b + moved[1] * h / 40))];
      this.drawOver();
      event.preventDefault();
    });
    allPanels.push(this);
  }

  shown() {
    return this.chart.layers.filter((layer) => !layer.hidden);
  }

  redraw() {
    Panel.prototype.fit.call(this);
    this.area.w += this.area.right - 24;
    this.area.x += 8;
    this.area.w -= 8;
    this.area.h -= 14;
    const pen = this.base.getContext("2d");
    const { x, y, w, h } = this.area;
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    pen.fillStyle = colour("--plot");
    pen.fillRect(x, y, w, h);
    const chart = { ...this.chart, layers: this.shown() };
    const across = axisOf(chart.x, ...extentOf(chart, true));
    const up = axisOf(chart.y, ...extentOf(chart, false));
    Object.assign(this, { across, up });
    const held = (share) => Math.min(1, Math.max(0, share ?? 0));
    this.toX = (value) => x + held(across.share(value)) * w;
    this.toY = (value) => y + (1 - held(up.share(value))) * h;
    this.label = () => up.label;
    Panel.prototype.valueAxis.call(this, pen, up.marks, up.small, this.toY, up.text);
    this.lowerAxis(pen);
    pen.save();
    pen.beginPath();
    pen.rect(x, y - 1, w, h + 2);
    pen.clip();
    drawGrids(this, pen, chart.layers.filter((layer) => layer.shape === "grid"),
      this.toX, this.toY);
    for (const layer of chart.layers) this.line(pen, layer);
    drawLimits(this, pen, chart, this.toX, this.toY);
    pen.restore();
    pen.strokeStyle = colour("--line");
    pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    stampOn(pen, this.area);
    this.base.setAttribute("aria-label", `${chart.title}. ${this.describe()}`);
    this.drawOver();
  }

  describe() {
    const layers = this.shown().map((layer) => layer.name).join(", ");
    return `${this.up.label} over ${this.across.label}: ${layers}. ${this.chart.note}`;
  }

  lowerAxis(pen) {
    const { x, y, w, h } = this.area;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    let free = -Infinity;
    for (const value of this.across.marks) {
      const at = Math.round(this.toX(value)) + 0.5;
      pen.strokeStyle = colour("--faint");
      pen.beginPath();
      pen.moveTo(at, y);
      pen.lineTo(at, y + h + 4);
      pen.stroke();
      const text = this.across.text(value), half = pen.measureText(text).width / 2;
      if (at - half < free) continue;
      pen.fillStyle = colour("--soft");
      pen.fillText(text, at, y + h + 7);
      free = at + half + 6;
    }
    pen.fillStyle = colour("--soft");
    pen.fillText(this.across.label, x + w / 2, y + h + 22);
  }

  line(pen, layer) {
    pen.beginPath();
    let drawing = false;
    const place = (a, b) => { if (drawing) pen.lineTo(a, b); else pen.moveTo(a, b); drawing = true; };
    if (layer.shape === "bins") {
      layer.counts.forEach((n, i) => {
        const y = n > 0 ? this.toY(n) : this.area.y + this.area.h;
        place(this.toX(layer.edges[i]), y);
        place(this.toX(layer.edges[i + 1]), y);
      });
    } else if (layer.shape === "curve") {
      let before = null;
      for (const [a, b] of layer.points) {
        if (this.across.share(a) === null || this.up.share(b) === null) { drawing = false; continue; }
        const y = this.toY(b);
        if (drawing && (layer.stroke === "steps" || layer.stroke === "peaks")) {
          pen.lineTo(this.toX(a), before);
        }
        place(this.toX(a), y);
        before = y;
      }
    }
    pen.strokeStyle = colour(layer.ink);
    pen.lineWidth = 1.5;
    pen.setLineDash(dashOf(layer));
    pen.stroke();
    pen.setLineDash([]);
  }

  /// The value at a place of the canvas along an axis.
  valueAt(axis, side, share) {
    return side.spacing === "logarithmic" ? axis.from * (axis.to / axis.from) ** share
      : axis.from + share * (axis.to - axis.from);
  }

  drawOver() {
    const pen = this.over.getContext("2d");
    const { x, y, w, h } = this.area;
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    const chart = this.chart;
    if (!this.cursor || this.cursor[0] < x || this.cursor[0] > x + w) {
      this.readout.textContent = "";
      return;
    }
    const [at, high] = this.cursor;
    pen.strokeStyle = colour("--soft");
    pen.beginPath();
    pen.moveTo(Math.round(at) + 0.5, y);
    pen.lineTo(Math.round(at) + 0.5, y + h);
    pen.stroke();
    const along = this.valueAt(this.across, chart.x, (at - x) / w);
    const upward = this.valueAt(this.up, chart.y, 1 - Math.min(1, Math.max(0, (high - y) / h)));
    const unitX = chart.x.unit, unitY = chart.y.unit;
    let where = chart.x.spacing === "nines"
      ? `${((1 - 10 ** -along) * 100).toFixed(Math.min(6, 1 + Math.floor(along)))} %`
      : valueText(along, unitX);
    const texts = this.shown().map((layer) => {
      if (layer.shape === "bins") {
        const i = layer.edges.findIndex((edge, k) => along >= edge && along < layer.edges[k + 1]);
        if (i < 0) return null;
        where = `${valueText(layer.edges[i], unitX)} to ${valueText(layer.edges[i + 1], unitX)}`;
        return `${layer.name}: ${countText(layer.counts[i])}`;
      }
      if (layer.shape === "curve") {
        const point = layer.points.find((p) => p[0] >= along);
        return point ? `${layer.name}: ${valueText(point[1], unitY)}` : null;
      }
      const column = cellOf(layer.x, along), row = cellOf(layer.y, upward);
      const { x: columns, y: rows, n } = layer.cells;
      let count = 0;
      for (let i = 0; i < n.length; i++) {
        if (columns[i] === column && rows[i] === row) count += n[i];
      }
      where = `${valueText(along, unitX)}, ${valueText(upward, unitY)}`;
      return `${layer.name}: ${countText(count)}`;
    }).filter((text) => text);
    this.readout.textContent = `${where}: ${texts.join(" · ") || "none"}`;
  }
}
