// The percentile curves: across, how many nines (90 %, 99 %, ...); up, how long. What a median
// hides is to the right.

const dashes = { service: [], response: [6, 3], lateness: [2, 3] };

class Curves {
  constructor() {
    this.own = true;
    this.title = "Percentile curves";
    this.height = 300;
    this.shown = kept("curves", { service: true, response: true, lateness: false });
    this.legend = element("div", { className: "legend" });
    for (const [span, name] of [["service", "service time ―"], ["response", "response time - -"],
      ["lateness", "lateness ···"]]) {
      const show = (on) => {
        this.shown[span] = on;
        chosen.curves = this.shown;
        drawAll();
      };
      if (!data.curves.some((curve) => curve.span === span)) continue;
      this.legend.append(toggle(name, this.shown[span], show));
    }
    this.colours = {};
    for (const { kind, colour } of data.curves) {
      if (kind in this.colours) continue;
      this.colours[kind] = colour;
      this.legend.append(element("span", { className: "item" }, swatch(this.colours[kind]), kind));
    }
    this.plot = element("div", { className: "plot" });
    this.base = element("canvas");
    this.over = element("canvas");
    this.plot.append(this.base, this.over);
    // What is not drawn yet has its place already.
    this.base.style.height = this.over.style.height = `${this.height}px`;
    this.readout = element("div", { className: "readout" });
    this.base.setAttribute("role", "img");
    this.base.setAttribute("aria-label", "Percentile curves; the table below has their numbers");
    this.figure = element("section", { className: "panel" },
      element("header", {}, this.legend), this.plot, this.readout);
    document.getElementById("curves").append(this.figure);
    this.plot.addEventListener("pointermove", (event) => {
      this.cursor = event.clientX - this.plot.getBoundingClientRect().left;
      this.drawOver();
    });
    this.plot.addEventListener("pointerleave", () => { this.cursor = null; this.drawOver(); });
    allPanels.push(this);
  }

  curves() {
    return data.curves.filter((curve) => this.shown[curve.span]);
  }

  redraw() {
    Panel.prototype.fit.call(this);
    this.area.w += this.area.right - 24;
    const pen = this.base.getContext("2d");
    const { x, y, w, h } = this.area;
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.font = '11px system-ui, "Liberation Sans", Arial, sans-serif';
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    pen.fillStyle = colour("--plot");
    pen.fillRect(x, y, w, h);
    const curves = this.curves();
    const spans = curves.flatMap((curve) => curve.points.map((point) => Math.max(100, point[1])));
    const low = 10 ** Math.floor(Math.log10(Math.min(1e5, ...spans) * 1.001));
    const high = 10 ** Math.ceil(Math.log10(Math.max(low * 10, ...spans) * 0.999));
    this.nines = Math.max(1, ...curves.map((curve) => curve.points.at(-1)[0]));
    const toX = (nines) => x + nines / this.nines * w;
    const toY = (ns) => y + Math.log10(high / Math.max(low, ns)) / Math.log10(high / low) * h;
    const { marks, small } = logMarks(low, high);
    this.label = () => "time";
    Panel.prototype.valueAxis.call(this, pen, marks, small, toY, decadeText);
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const quantile of [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999]) {
      const nines = -Math.log10(1 - quantile);
      if (nines > this.nines + 1e-9) continue;
      const at = Math.round(toX(nines)) + 0.5;
      pen.strokeStyle = colour("--faint");
      pen.beginPath();
      pen.moveTo(at, y);
      pen.lineTo(at, y + h);
      pen.stroke();
      pen.fillStyle = colour("--soft");
      pen.fillText(`${+(quantile * 100).toFixed(5)} %`, at, y + h + 7);
    }
    for (const curve of curves) {
      pen.beginPath();
      curve.points.forEach(([nines, ns], i) => {
        if (i === 0) pen.moveTo(toX(nines), toY(ns)); else pen.lineTo(toX(nines), toY(ns));
      });
      pen.strokeStyle = colour(this.colours[curve.kind]);
      pen.setLineDash(dashes[curve.span]);
      pen.lineWidth = 1.6;
      pen.stroke();
      pen.setLineDash([]);
      const [nines, ns] = curve.points.at(-1);
      pen.beginPath();
      pen.arc(toX(nines), toY(ns), 2.5, 0, 7);
      pen.fillStyle = colour(this.colours[curve.kind]);
      pen.fill();
    }
    pen.strokeStyle = colour("--line");
    pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    stampOn(pen, this.area);
    this.drawOver();
  }

  drawOver() {
    const pen = this.over.getContext("2d");
    const { x, y, w, h } = this.area;
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.plot.clientWidth, this.height);
    if (this.cursor === null || this.cursor === undefined) {
      this.readout.textContent = "share of requests that took no longer; "
        + "a curve ends at its maximum";
      return;
    }
    const nines = Math.min(1, Math.max(0, (this.cursor - x) / w)) * this.nines;
    const at = Math.round(x + nines / this.nines * w) + 0.5;
    pen.strokeStyle = colour("--soft");
    pen.beginPath();
    pen.moveTo(at, y);
    pen.lineTo(at, y + h);
    pen.stroke();
    const texts = this.curves().map((curve) => {
      const point = curve.points.find((p) => p[0] >= nines);
      return point ? `${curve.kind} ${curve.span} ${spanText(point[1])}` : null;
    }).filter((text) => text);
    const percent = (1 - 10 ** -nines) * 100;
    const decimals = Math.min(6, 1 + Math.floor(nines));
    this.readout.textContent = `${percent.toFixed(decimals)} %: ${texts.join(" · ")}`;
  }
}
