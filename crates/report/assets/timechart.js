// A chart over time: a panel among the others, zoomed with them.

class TimeChart extends Panel {
  constructor(chart, place) {
    const map = chart.layers.some((layer) => layer.shape === "grid");
    super({ title: chart.title, note: chart.note, height: map ? 260 : 190, label: () => "", place });
    // On paper the four panels of every run are enough.
    this.figure.classList.add("more");
    this.chart = chart;
    this.values = layerButtons(this, chart);
    this.log = kept(`${chart.name}.log`, chart.y.spacing === "logarithmic");
    if (!map) {
      this.controls.append(...choice([[false, "linear"], [true, "log"]], (log) => {
        this.log = chosen[`${chart.name}.log`] = log;
        drawAll();
      }, this.log));
    }
    this.readout = element("div", { className: "readout" });
    if (map) this.figure.append(this.readout);
  }

  shown() {
    return this.chart.layers.filter((layer) => !layer.hidden);
  }

  draw(pen) {
    const chart = { ...this.chart, layers: this.shown() };
    const map = chart.layers.some((layer) => layer.shape === "grid");
    if (!map) chart.y = { ...chart.y, spacing: this.log ? "logarithmic" : "linear" };
    const axis = axisOf(chart.y, ...extentOf(chart, false));
    this.axis = axis;
    this.label = () => axis.label;
    const toX = (ns) => this.x(ns);
    const toY = (value) => {
      const share = axis.share(value);
      return this.area.y + (1 - Math.max(-0.01, share ?? 0)) * this.area.h;
    };
    this.valueAxis(pen, axis.marks, axis.small, toY, axis.text);
    pen.save();
    pen.beginPath();
    pen.rect(this.area.x, this.area.y - 1, this.area.w, this.area.h + 2);
    pen.clip();
    drawGrids(this, pen, chart.layers.filter((layer) => layer.shape === "grid"), toX, toY);
    for (const layer of chart.layers) if (layer.shape === "series") this.line(pen, layer, toY);
    drawLimits(this, pen, chart, toX, toY);
    pen.restore();
    if (this.area.right > 60) this.margin(pen);
  }

  /// How many steps of a series make a point.
  join(layer) {
    const steps = (view.to - view.from) / layer.step_ns;
    return Math.max(1, Math.ceil(steps / (this.area.w / 2)));
  }

  /// The first and last step of a series that are shown, and one more on either side.
  stepsOf(layer) {
    const at = (ns) => Math.floor((ns - layer.start_ns) / layer.step_ns);
    return [Math.max(0, at(view.from) - 1), Math.min(layer.values.length, at(view.to) + 2)];
  }

  line(pen, layer, toY) {
    const join = this.join(layer);
    const [from, to] = this.stepsOf(layer);
    const end = Math.max(run.end_ns, run.width_ns);
    pen.beginPath();
    let drawing = false;
    for (let i = from - from % join; i < to; i += join) {
      const value = joinedValue(layer, i, i + join);
      if (value === null || (this.log && value < 0)) { drawing = false; continue; }
      const at = (step) => this.x(Math.min(end, layer.start_ns + step * layer.step_ns));
      const left = at(i), right = at(Math.min(i + join, layer.values.length)), y = toY(value);
      if (drawing) pen.lineTo(left, y); else pen.moveTo(left, y);
      pen.lineTo(Math.max(right, left + 1.5), y);
      drawing = true;
    }
    pen.strokeStyle = colour(layer.ink);
    pen.lineWidth = 1.4;
    pen.setLineDash(dashOf(layer));
    pen.lineJoin = "round";
    pen.stroke();
    pen.setLineDash([]);
  }

  /// What a layer holds over the part shown.
  told(layer) {
    if (layer.shape === "grid") {
      let total = 0;
      const [from, to] = [view.from, view.to].map((ns) => cellOf(layer.x, ns));
      layer.cells.n.forEach((n, i) => {
        if (layer.cells.x[i] >= from && layer.cells.x[i] <= to) total += n;
      });
      return countText(total);
    }
    const [from, to] = this.stepsOf(layer);
    // Steps that are means of several do not show their largest.
    const values = layer.peaks ?? layer.values;
    const peak = joinedValue({ ...layer, values, stroke: "peaks" }, from, to);
    if (peak === null) return "none here";
    const mean = joinedValue({ ...layer, stroke: "steps" }, from, to);
    const text = (value) => valueText(value, this.chart.y.unit);
    return layer.stroke === "peaks" ? `max ${text(peak)}` : `mean ${text(mean)}, max ${text(peak)}`;
  }

  describe() {
    return this.shown().map((layer) => `${layer.name}: ${this.told(layer)}`).join(", ");
  }

  margin(pen) {
    const left = this.area.x + this.area.w + 10;
    pen.textAlign = "left";
    pen.textBaseline = "top";
    let y = this.area.y;
    for (const layer of this.shown().slice(0, Math.floor(this.area.h / 44))) {
      pen.fillStyle = colour(layer.ink);
      pen.fillText(layer.name, left, y, this.area.right - 12);
      pen.fillStyle = colour("--soft");
      for (const part of this.told(layer).split(", ")) {
        pen.fillText(part, left, y += 13, this.area.right - 12);
      }
      y += 18;
    }
  }

  hover(pen, inside) {
    this.chart.layers.forEach((layer, i) => {
      let text = "";
      if (inside && layer.shape === "series" && !layer.hidden) {
        const join = this.join(layer);
        const step = Math.floor((view.cursor - layer.start_ns) / layer.step_ns);
        const first = step - step % join;
        const value = step < 0 ? null : joinedValue(layer, first, first + join);
        text = value === null ? "" : valueText(value, this.chart.y.unit);
      }
      this.values[i].textContent = text;
    });
    const grids = this.shown().filter((layer) => layer.shape === "grid");
    if (grids.length === 0) return;
    this.readout.textContent = "point at the map for the requests of a cell";
    const y = this.pointer;
    if (!inside || y === null || y === undefined || y < this.area.y
      || y >= this.area.y + this.area.h) return;
    const { x: across, y: up } = grids[0];
    const share = 1 - (y - this.area.y) / this.area.h;
    const logarithmic = this.chart.y.spacing === "logarithmic";
    const { from, to } = this.axis;
    const value = logarithmic ? from * (to / from) ** share : from + share * (to - from);
    const column = cellOf(across, view.cursor), row = cellOf(up, value);
    const counts = grids.map((layer) => {
      let n = 0;
      for (let i = 0; i < layer.cells.n.length; i++) {
        if (layer.cells.x[i] === column && layer.cells.y[i] === row) n += layer.cells.n[i];
      }
      return n > 0 ? `${layer.name}: ${countText(n)}` : "";
    }).filter((text) => text).join(", ");
    const instant = (cell) => instantText(Math.max(0, cellEdge(across, cell)), run.width_ns / 2);
    const unit = this.chart.y.unit;
    this.readout.textContent = `${instant(column)} to ${instant(column + 1)}, `
      + `${valueText(cellEdge(up, row), unit)} to ${valueText(cellEdge(up, row + 1), unit)}: `
      + (counts || "none");
  }
}
