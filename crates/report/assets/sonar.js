// The sonar diagram: when requests were submitted and how long they took, one layer of density for
// each class.

class Sonar extends Panel {
  /// `small`: an overview beside others, without buttons and figures.
  constructor(small = false) {
    const recorded = data.kind === "load";
    super({
      small, place: small ? "overview" : "panels",
      title: recorded ? "Recorded latency" : "Service time",
      note: small ? "" : recorded ? "sonar diagram: each request at the instant of its issue"
        : "sonar diagram: each request at the instant of its submission",
      height: small ? 190 : 400, label: () => recorded ? "latency" : "service time",
    });
    [this.low, this.high] = rowsOf(sonarLayers);
    this.lines = kept("sonar.lines", false);
    this.values = sonarLayers.map((layer) => {
      const value = element("span", { className: "value" });
      const name = ` ${layer.name} `;
      const button = toggle([swatch(layer.colour), name, value], layer.shown, (on) => {
        layer.shown = chosen[`sonar.${layer.name}`] = on;
        drawAll();
      });
      button.disabled = layer.total === 0;
      this.controls.append(button);
      if (small && layer.total > 0) {
        this.legend.append(element("span", { className: "item" }, swatch(layer.colour), layer.name));
      }
      return value;
    });
    const failed = run.failed.reduce((sum, n) => sum + n, 0);
    if (failed > 0) {
      this.legend.append(element("span", { className: "item" }, swatch("--failed"),
        `${countText(failed)} failed (upper edge)`));
    }
    if (volumes.length > 0 && !small) this.volumes();
    const lines = element("span", { textContent: "median and 99 % lines" });
    this.controls.append(toggle([lines], this.lines, (on) => {
      this.lines = chosen["sonar.lines"] = on;
      drawAll();
    }, "choice"));
    this.readout = element("div", { className: "readout" });
    this.readout.setAttribute("aria-live", "polite");
    this.summary = element("div", { className: "readout" });
    if (!small) this.figure.append(this.readout, this.summary);
  }

  /// A button for each volume, and one for all of them.
  volumes() {
    const row = element("div", { className: "legend volumes" });
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Volumes in this diagram");
    const buttons = volumes.map((volume, i) => {
      const label = element("span", { textContent: volume.name, className: "name" });
      const button = toggle([label], volume.shown, (on) => {
        volume.shown = chosen[`volume.${i}`] = on;
        tellAll();
        drawAll();
      });
      button.title = volume.name;
      return button;
    });
    const all = element("button", { type: "button", textContent: "all", className: "every" });
    const isWhole = () => volumes.every((volume) => volume.shown);
    // Pressed when all are shown, it shows none: then one of many is switched on alone.
    const tellAll = () => { all.textContent = isWhole() ? "none" : "all"; };
    all.addEventListener("click", () => {
      const on = !isWhole();
      volumes.forEach((volume, i) => {
        volume.shown = chosen[`volume.${i}`] = on;
        buttons[i].setAttribute("aria-pressed", on);
      });
      tellAll();
      drawAll();
    });
    tellAll();
    row.append(element("span", { textContent: "volumes:" }), all, ...buttons);
    this.figure.querySelector("header").append(row);
  }

  describe() {
    return this.summed();
  }

  toY(row) {
    return this.area.y + (this.high - row) / (this.high - this.low) * this.area.h;
  }

  shown() {
    return layersShown().filter((layer) => layer.shown && layer.total > 0);
  }

  draw(pen) {
    const { marks, small } = logMarks(edge(this.low), edge(this.high));
    this.valueAxis(pen, marks, small, (ns) => this.toY(rowOf(ns)), decadeText);
    const shown = this.shown();
    drawDensity(this, pen, shown, this.low, this.high);
    this.failures(pen);
    if (this.lines) this.percentileLines(pen, shown);
    const [from, to] = this.buckets();
    this.rows = shown.map((layer) => rowsBetween(layer, from, to));
    this.totals = layersShown().map((layer) => {
      let n = 0;
      const [first, end] = cellsOf(layer, from, to);
      for (let i = first; i < end; i++) n += layer.count[i];
      return n;
    });
    this.summary.textContent = this.summed();
    if (this.area.right > 60) this.margin(pen, shown);
  }

  /// Ticks along the upper edge where requests failed: they have no service time to show.
  failures(pen) {
    const [from, to] = this.buckets();
    pen.fillStyle = colour("--failed");
    for (let b = from; b < to; b++) {
      if (run.failed[b] === 0) continue;
      pen.fillRect(Math.round(this.x((b + 0.5) * run.width_ns)) - 1, this.area.y, 2, 9);
    }
  }

  percentileLines(pen, shown) {
    const [from, to] = this.buckets();
    const step = Math.max(1, Math.ceil((to - from) / (this.area.w / 6)));
    pen.save();
    pen.beginPath();
    pen.rect(this.area.x, this.area.y, this.area.w, this.area.h);
    pen.clip();
    for (const [q, dash] of [[0.5, []], [0.99, [4, 3]]]) {
      pen.beginPath();
      pen.setLineDash(dash);
      let drawing = false;
      for (let b = from - from % step; b < to; b += step) {
        const rows = new Float64Array(data.rows);
        const upTo = Math.min(run.buckets, b + step);
        for (const layer of shown) rowsBetween(layer, b, upTo).forEach((n, r) => { rows[r] += n; });
        const most = Math.max(...shown.map((layer) => this.most(layer, [b, upTo]) ?? 0));
        const ns = quantileNs(rows, q, most);
        if (ns === null) { drawing = false; continue; }
        const x = this.x((b + upTo) / 2 * run.width_ns), y = this.toY(Math.max(0, rowOf(ns)));
        if (drawing) pen.lineTo(x, y); else pen.moveTo(x, y);
        drawing = true;
      }
      pen.strokeStyle = colour("--page");
      pen.lineWidth = 3.5;
      pen.stroke();
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1.4;
      pen.stroke();
    }
    pen.restore();
  }

  /// On the right: how many requests of each class took how long in the part shown.
  margin(pen, shown) {
    const left = this.area.x + this.area.w + 10, wide = this.area.right - 14;
    const most = Math.max(1, ...this.rows.map((rows) => Math.max(...rows)));
    const long = (n) => n > 0 ? (0.04 + 0.96 * Math.log1p(n) / Math.log1p(most)) * wide : 0;
    shown.forEach((layer, i) => {
      pen.beginPath();
      pen.moveTo(left, this.toY(this.low));
      for (let row = this.low; row < this.high; row++) {
        // Where there are none the outline is left out: it would paint the axis.
        const n = this.rows[i][row], x = left + long(n);
        if (n > 0) pen.lineTo(x, this.toY(row)); else pen.moveTo(left, this.toY(row));
        if (n > 0) pen.lineTo(x, this.toY(row + 1)); else pen.moveTo(left, this.toY(row + 1));
      }
      pen.strokeStyle = colour(layer.colour);
      pen.lineWidth = 1;
      pen.stroke();
      pen.fillStyle = colour(layer.colour);
      pen.globalAlpha = 0.2;
      for (let row = this.low; row < this.high; row++) {
        const top = this.toY(row + 1);
        pen.fillRect(left, top, long(this.rows[i][row]), this.toY(row) - top);
      }
      pen.globalAlpha = 1;
    });
    pen.fillStyle = colour("--soft");
    pen.textAlign = "right";
    pen.textBaseline = "top";
    pen.fillText("requests (log)", left + wide, this.area.y + this.area.h + 7);
  }

  hover(pen, inside) {
    const y = this.pointer;
    const within = inside && y !== null && y !== undefined
      && y >= this.area.y && y < this.area.y + this.area.h;
    if (!within) {
      this.totals.forEach((n, i) => { this.values[i].textContent = countText(n); });
      this.readout.textContent = "point at the diagram for the requests of a cell";
      return;
    }
    // The column and the row under the cursor, and where dots are drawn larger than their cell, so
    // that lonely requests are seen, as far around as a dot reaches.
    const pixel = (view.to - view.from) / this.area.w, grow = this.least / 2;
    const bucketAt = (ns) => Math.min(run.buckets - 1, Math.max(0, Math.floor(ns / run.width_ns)));
    const from = bucketAt(view.cursor - grow * pixel);
    const to = bucketAt(view.cursor + Math.max(grow, 0.5) * pixel) + 1;
    const middle = Math.floor(this.high - (y - this.area.y) / this.area.h * (this.high - this.low));
    const around = this.least > 0 ? 1 : 0;
    const [low, high] = [Math.max(0, middle - around), Math.min(data.rows, middle + around + 1)];
    const counts = layersShown().map((layer) => {
      let n = 0;
      for (const count of rowsBetween(layer, from, to).subarray(low, high)) n += count;
      return n;
    });
    counts.forEach((n, i) => { this.values[i].textContent = countText(n); });
    const step = run.width_ns / 2;
    const found = sonarLayers
      .map((layer, i) => counts[i] > 0 ? `${layer.name}: ${countText(counts[i])}` : "")
      .filter((text) => text).join(", ");
    this.readout.textContent = `${instantText(from * run.width_ns, step)} to `
      + `${instantText(to * run.width_ns, step)}, `
      + `${spanText(edge(low))} to ${spanText(edge(high))}: ` + (found || "no request");
    pen.strokeStyle = colour("--ink");
    pen.strokeRect(Math.round(this.x(from * run.width_ns)) - 0.5, Math.round(this.toY(high)) - 0.5,
      Math.max(2, Math.round(this.x(to * run.width_ns) - this.x(from * run.width_ns))) + 1,
      Math.round(this.toY(low) - this.toY(high)) + 1);
  }

  /// The longest service time in some buckets; of some volumes the upper edge of its row.
  most(layer, [from, to]) {
    if (!layer.part) return largest(layer.most, [from, to]);
    const [first, end] = cellsOf(layer, from, to);
    let row = -1;
    for (let i = first; i < end; i++) row = Math.max(row, layer.row[i]);
    return row < 0 ? null : edge(row + 1);
  }

  /// Counts and percentiles of the part shown: of the whole run exactly, else from the raster,
  /// right to its rows of 10 %.
  summed() {
    const texts = this.shown().map((layer, i) => {
      const rows = this.rows[i];
      let total = 0;
      for (const n of rows) total += n;
      if (total === 0) return `${layer.name}: none`;
      const most = this.most(layer, this.buckets());
      const at = (q, name) => wholeShown() && !layer.part
        ? spanText(layer.exact[name]) : `≤ ${spanText(quantileNs(rows, q, most))}`;
      // A percentile beyond which hardly any request lies is the maximum by another name.
      const p99 = total * 0.01 < data.beyond - 1e-9 ? "" : `99 % ${at(0.99, "p99")}, `;
      return `${layer.name}: ${countText(total)}, 50 % ${at(0.5, "p50")}, ${p99}`
        + `max ${layer.part ? "≤ " : ""}${spanText(most)}`;
    });
    const on = volumes.filter((volume) => volume.shown).length;
    if (texts.length === 0) {
      return on < volumes.length ? "no request of these volumes" : "no request completed in full";
    }
    const which = on < volumes.length ? ` of ${on} of ${volumes.length} volumes` : "";
    const wide = 2 ** (data.volumes?.doublings ?? 0) * run.width_ns;
    const steps = which && wide > run.width_ns ? ` in steps of ${spanText(wide)}` : "";
    const densest = this.densest > 1
      ? ` · colour: from 1 request, faint, to ${countText(this.densest)} in a cell, one scale for all;`
        + " the slowest thousandth full" : "";
    return `shown${which}${steps}: ${texts.join(" · ")}${densest}`;
  }
}
