// Panels of lines: lateness, throughput, in flight. Neighbouring buckets are joined until a line
// has room for its points and a rate has enough requests to be one; the window is told.

/// The number of buckets per point, a power of two.
function joined(panel, counts) {
  const [from, to] = panel.buckets();
  let total = 0;
  for (let b = from; b < to; b++) total += counts[b];
  let join = 1;
  const points = () => (to - from) / join;
  while (points() > panel.area.w / 2 || (points() > 60 && total / points() < 12)) join *= 2;
  return join;
}

/// The points shown: their first bucket and the one behind their last.
function pointsOf(panel, join) {
  const [from, to] = panel.buckets();
  const points = [];
  for (let b = from - from % join; b < to; b += join) {
    points.push([b, Math.min(run.buckets, b + join)]);
  }
  return points;
}

/// All points as one.
function whole(points) {
  return [points[0][0], points.at(-1)[1]];
}

function sum(column, [from, to]) {
  let total = 0;
  for (let b = from; b < to; b++) total += column[b];
  return total;
}

/// How much of the buckets lies before an instant, in nanoseconds.
function covered([from, to], end) {
  return Math.min(to * run.width_ns, end) - Math.min(from * run.width_ns, end);
}

/// The mean rate per second over that part of the buckets that lies before the end; null where that
/// is nothing, or too little beside a bucket. What is demanded and what is achieved end apart: over
/// the same length an overloaded device would seem to keep up. (As `Rate::mean` in ioecho-stats.)
function meanRate(column, end, point) {
  const ns = covered(point, end);
  return ns >= (point[0] === 0 ? 1 : run.width_ns / 2) ? sum(column, point) / ns * 1e9 : null;
}

/// The rate as a point of a line; a window covered by less than a half takes in the one before it.
/// (As `Rate::point` in ioecho-stats.)
function pointRate(column, end, [from, to]) {
  const wide = (to - from) * run.width_ns;
  let ns = covered([from, to], end), total = sum(column, [from, to]);
  if (total > 0 && ns < wide / 2 && from > 0) {
    const before = [Math.max(0, from - (to - from)), from];
    ns += covered(before, end);
    total += sum(column, before);
  }
  return total / (ns > 0 ? ns : wide) * 1e9;
}

/// The shortest step, in buckets, that has enough of these requests to be a rate: in a bucket of
/// 100 µs a single request is no 10,000 per second.
function shortest(panel, counts) {
  const [from, to] = panel.buckets();
  const total = sum(counts, [from, to]);
  let step = 1;
  while (step < to - from && total * step < 12 * (to - from)) step *= 2;
  return step;
}

/// The least and the most of a rate within a point, of which the point is the mean: in a second
/// where a point is longer, else in steps of so many buckets. Of the parts `column`: 0 requests
/// demanded, 1 achieved, 2 and 3 their bytes.
function extremesOf(column, counts, end, step, [from, to]) {
  const { step_ns: stretch, of } = data.extremes;
  const seconds = of[column];
  if (seconds.length > 0 && (to - from) * run.width_ns >= 2e9) {
    const first = Math.floor(from * run.width_ns / stretch);
    const last =
      Math.min(seconds.length, Math.max(first + 1, Math.floor(to * run.width_ns / stretch)));
    let least = null, most = null;
    for (let i = first; i < last; i++) {
      least = least === null ? seconds[i][0] : Math.min(least, seconds[i][0]);
      most = Math.max(most ?? 0, seconds[i][1]);
    }
    return most === null ? null : [least, most];
  }
  if (to - from < 2 * step) return null;
  let least = Infinity, most = 0;
  for (let b = from; b + step <= to; b += step) {
    // A step that the end cuts is none of this length.
    if (covered([b, b + step], end) < step * run.width_ns) continue;
    const rate = meanRate(counts, end, [b, b + step]);
    least = Math.min(least, rate);
    most = Math.max(most, rate);
  }
  return least === Infinity ? null : [least, most];
}

class Series extends Panel {
  /// `series` are { name, colour, dash, fill, at(point) → number or null, envelope(point) → least
  /// and most, or null }.
  constructor(options) {
    super(options);
    this.series = options.series;
    this.counts = options.counts;
    this.text = options.text;
    this.items = this.series.map((series) => {
      const value = element("span", { className: "value" });
      const sign = swatch(series.colour, true, series.dash?.length > 0);
      this.legend.append(element("span", { className: "item" }, sign, `${series.name} `, value));
      return value;
    });
    this.every = element("span", { className: "every" });
    this.legend.append(this.every);
  }

  draw(pen) {
    const join = joined(this, this.counts);
    this.join = join;
    this.every.textContent = `per ${spanText(join * run.width_ns)}`;
    const points = pointsOf(this, join);
    const drawn = this.series.map((series) => points.map((point) => series.at(point)));
    const envelopes = this.series.map((series) =>
      points.map((point) => series.envelope?.(point) ?? null));
    this.drawn = { points, values: drawn, envelopes };
    const toY = this.axis(pen, [...drawn, ...envelopes.map((all) => all.flatMap((of) => of ?? []))]);
    pen.save();
    pen.beginPath();
    pen.rect(this.area.x, this.area.y - 1, this.area.w, this.area.h + 2);
    pen.clip();
    this.background?.(pen);
    envelopes.forEach((all, i) => this.band(pen, this.series[i], points, all, toY));
    drawn.forEach((values, i) => this.line(pen, this.series[i], points, values, toY));
    pen.restore();
    if (this.area.right > 60) this.margin(pen, points, drawn);
  }

  /// From the least to the most behind a mean, which alone would hide both.
  band(pen, series, points, all, toY) {
    pen.fillStyle = colour(series.colour);
    pen.globalAlpha = 0.22;
    all.forEach((of, i) => {
      if (of === null) return;
      const left = this.x(points[i][0] * run.width_ns);
      const right = this.x(Math.min(points[i][1] * run.width_ns, run.end_ns));
      const top = toY(of[1]);
      pen.fillRect(left, top, Math.max(1, right - left), Math.max(1, toY(of[0]) - top));
    });
    pen.globalAlpha = 1;
  }

  /// Steps: a value holds for its whole window.
  line(pen, series, points, values, toY) {
    pen.beginPath();
    let before = null;
    points.forEach(([from, to], i) => {
      if (values[i] === null) { before = null; return; }
      const left = this.x(from * run.width_ns);
      const right = this.x(Math.min(to * run.width_ns, run.end_ns));
      const y = toY(values[i]);
      if (before === null) pen.moveTo(left, y); else pen.lineTo(left, y);
      // A lone point in a gap must still be seen.
      pen.lineTo(Math.max(right, left + 1.5), y);
      before = y;
    });
    pen.strokeStyle = colour(series.colour);
    pen.lineWidth = series.wide ?? 1.4;
    pen.setLineDash(series.dash ?? []);
    pen.lineJoin = "round";
    pen.stroke();
    pen.setLineDash([]);
  }

  /// On the right: each series over the part shown.
  margin(pen, points, drawn) {
    const left = this.area.x + this.area.w + 10;
    pen.textAlign = "left";
    pen.textBaseline = "top";
    let y = this.area.y;
    this.series.forEach((series, i) => {
      const known = drawn[i].filter((value) => value !== null);
      if (known.length === 0) return;
      pen.fillStyle = colour(series.colour);
      pen.fillText(series.name, left, y);
      pen.fillStyle = colour("--soft");
      for (const part of series.over(points, known, series, i).split(", ")) {
        pen.fillText(part, left, y += 13, this.area.right - 12);
      }
      y += 19;
    });
  }

  describe() {
    if (!this.drawn) return "";
    const over = this.series.map((series, i) => {
      const known = this.drawn.values[i].filter((value) => value !== null);
      return known.length
        ? `${series.name}: ${series.over(this.drawn.points, known, series, i)}` : "";
    });
    return over.filter((text) => text).join(", ");
  }

  hover(pen, inside) {
    const bucket = inside ? Math.min(run.buckets - 1, Math.floor(view.cursor / run.width_ns)) : 0;
    const first = bucket - bucket % this.join;
    const point = [first, Math.min(run.buckets, first + this.join)];
    this.series.forEach((series, i) => {
      const value = inside ? series.at(point) : null;
      this.items[i].textContent = value === null ? "" : `${series.sign ?? ""}${this.text(value)}`;
    });
  }

  /// A linear axis from zero; the largest value of all decides.
  linear(pen, drawn, toText) {
    const highest = Math.max(0, ...drawn.flat().filter((value) => value !== null));
    const { top, marks } = linearMarks(highest * 1.02, Math.max(2, Math.floor(this.area.h / 34)));
    const toY = (value) => this.area.y + (1 - value / top) * this.area.h;
    this.valueAxis(pen, marks, [], toY, toText);
    return toY;
  }
}

class Lateness extends Series {
  constructor() {
    const quantile = (q) => (point) =>
      quantileNs(rowsBetween(latenessLayer, ...point), q, largest(latenessLayer.most, point));
    const most = (_, known) => `max ${spanText(Math.max(...known))}`;
    // Of the whole run the percentile is known exactly.
    const total = (q, name) => (points) => wholeShown()
      ? (data.exact.lateness[`${name}_known`] === false
        ? "" : `all: ${spanText(data.exact.lateness[name])}`)
      : `shown ≤ ${spanText(quantile(q)(whole(points)))}`;
    super({
      title: "Lateness", note: "submitted − scheduled, at the instant each request was due",
      height: 210, label: () => "lateness",
      counts: run.demanded_requests, text: spanText,
      series: [
        {
          name: "max", colour: "--max", wide: 1, over: most,
          at: (point) => largest(run.lateness_max_ns, point),
        },
        {
          name: "99 %", colour: "--p99", wide: 1.8, sign: "≤ ", at: quantile(0.99),
          over: total(0.99, "p99"),
        },
        {
          name: "median", colour: "--p50", dash: [5, 3], sign: "≤ ", at: quantile(0.5),
          over: total(0.5, "p50"),
        },
      ],
    });
    [this.low, this.high] = rowsOf([latenessLayer]);
  }

  axis(pen) {
    const held = (ns) => Math.min(this.high, Math.max(this.low, rowOf(ns)));
    const toY = (ns) => this.area.y
      + (this.high - held(ns)) / (this.high - this.low) * this.area.h;
    const { marks, small } = logMarks(edge(this.low), edge(this.high));
    const text = (ns) => ns <= data.lowest_ns * 1.001 ? `≤ ${decadeText(ns)}` : decadeText(ns);
    this.valueAxis(pen, marks, small, toY, text);
    return toY;
  }

  background(pen) {
    drawDensity(this, pen, [latenessLayer], this.low, this.high, 0.55);
  }
}

class Throughput extends Series {
  constructor(small = false) {
    const per = (rate, of) => (point) => {
      const column = this.unit === "bytes" ? run[`${of}_bytes`] : run[`${of}_requests`];
      const value = rate(column, run[`${of}_end_ns`], point);
      return value === null ? null : value / (this.unit === "bytes" ? 1048576 : 1);
    };
    const rate = (of) => per(pointRate, of);
    const mean = (of) => (points, known, series, i) => {
      const value = per(meanRate, of)(whole(points));
      if (value === null) return "none here";
      const peaks = this.drawn.envelopes[i].filter((one) => one !== null).map((one) => one[1]);
      const most = Math.max(...known, ...peaks);
      return `mean ${this.text(value)}, max ${this.text(most)}`;
    };
    const envelope = (of) => (point) => {
      const bytes = this.unit === "bytes", column = (bytes ? 2 : 0) + (of === "achieved" ? 1 : 0);
      const counts = run[`${of}_${bytes ? "bytes" : "requests"}`];
      const step = this.steps[of] ??= shortest(this, run[`${of}_requests`]);
      const found = extremesOf(column, counts, run[`${of}_end_ns`], step, point);
      return found && found.map((rate) => rate / (bytes ? 1048576 : 1));
    };
    const text = (value) => `${countText(value)} ${this.unit === "bytes" ? "MiB/s" : "IOPS"}`;
    const load = data.kind === "load";
    // Where both are alike the demand is still seen, as the rim of the line on it.
    const series = [{
      name: "demanded", colour: "--demanded", wide: load ? 1.4 : 3.2, at: rate("demanded"),
      over: mean("demanded"), envelope: envelope("demanded"),
    }];
    // What had no schedule was not demanded at any rate.
    if (!load && !data.has_schedule) series.pop();
    if (!load) {
      series.push({
        name: "achieved", colour: "--achieved", wide: 1.4, at: rate("achieved"),
        over: mean("achieved"), envelope: envelope("achieved"),
      });
    }
    super({
      title: load ? "Demanded throughput" : "Throughput",
      note: small ? "" : load ? "reads and writes; discards move no data"
        : "pale: the least and the most in a second, or in steps of a dozen requests in the mean",
      height: 190, label: () => this.unit === "bytes" ? "MiB/s" : "requests/s",
      counts: run.demanded_requests, text, series, small, place: small ? "overview" : "panels",
    });
    this.unit = kept("throughput.unit", "requests");
    this.controls.append(...choice([["requests", "IOPS"], ["bytes", "MiB/s"]], (unit) => {
      this.unit = chosen["throughput.unit"] = unit;
      drawAll();
    }, this.unit));
  }

  draw(pen) {
    this.steps = {};
    super.draw(pen);
  }

  axis(pen, drawn) {
    return this.linear(pen, drawn, shortText);
  }
}

/// Calls on whole files per second, by operation.
class Files extends Series {
  constructor() {
    const end = run.achieved_end_ns;
    const text = (value) => `${countText(value)}/s`;
    const mean = (counts) => (points, known) => {
      const value = meanRate(counts, end, whole(points));
      return value === null ? "none here"
        : `mean ${text(value)}, max ${text(Math.max(...known))}`;
    };
    const series = data.files.map(({ name, colour, counts }) => ({
      name, colour, at: (point) => pointRate(counts, end, point), over: mean(counts),
    }));
    const all = data.files[0].counts.map((_, b) =>
      data.files.reduce((sum, { counts }) => sum + counts[b], 0));
    super({
      title: "Files per second",
      note: "calls on whole files that completed in full, when they had; a created file is open",
      height: Math.max(190, 60 + 45 * series.length), label: () => "files/s", counts: all, text,
      series,
    });
  }

  axis(pen, drawn) {
    return this.linear(pen, drawn, shortText);
  }
}

class InFlight extends Series {
  constructor() {
    const mean = (column) => (point) => sum(column, point) / (point[1] - point[0]);
    const average = (points, _, series) => `mean ${countText(series.at(whole(points)))}`;
    const most = (_, known) => `max ${countText(Math.max(...known))}`;
    const load = data.kind === "load";
    const series = load ? [] : [
      {
        name: "max", colour: "--peak", wide: 1, over: most,
        at: (point) => largest(run.in_flight_max, point),
      },
      { name: "mean", colour: "--mean", wide: 1.6, at: mean(run.in_flight_mean), over: average },
    ];
    if (run.recorded_mean) {
      series.push({
        name: "recorded mean", colour: "--recorded", dash: load ? [] : [5, 3], over: average,
        at: mean(run.recorded_mean),
      });
    }
    super({
      title: "In flight", note: "submitted, not yet completed; the mean is weighted by time",
      height: 190, label: () => "requests", counts: run.demanded_requests, text: countText, series,
    });
    // Where one burst is far above the rest, a linear axis shows nothing of the mean.
    const all = [0, run.buckets];
    const shown = load ? run.recorded_mean : run.in_flight_mean;
    this.mean = mean(shown)(all);
    this.log = kept("flight.log", largest(load ? shown : run.in_flight_max, all) > 10 * this.mean);
    this.controls.append(...choice([[false, "linear"], [true, "log"]], (log) => {
      this.log = chosen["flight.log"] = log;
      drawAll();
    }, this.log));
  }

  axis(pen, drawn) {
    if (!this.log) return this.linear(pen, drawn, shortText);
    const low = 10 ** Math.floor(Math.log10(Math.min(0.1, Math.max(1e-3, this.mean))));
    const top = 10 ** Math.ceil(Math.log10(Math.max(1.1, ...drawn.flat())));
    const toY = (value) => this.area.y
      + Math.log10(top / Math.max(low, value)) / Math.log10(top / low) * this.area.h;
    const { marks, small } = logMarks(low, top);
    const text = (value) => (value < low * 1.1 ? "≤ " : "") + shortText(value);
    this.valueAxis(pen, marks, small, toY, text);
    return toY;
  }
}
