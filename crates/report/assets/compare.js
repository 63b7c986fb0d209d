// The pictures of a comparison: percentile curves with their ratio, the map of differences, the
// ratio and the throughput over time.

const nineMarks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999];

/// Two areas of one canvas: the curves above, their ratio below.
function halves(area) {
  const above = { ...area, h: Math.round(area.h * 0.62) };
  const top = above.y + above.h + 14;
  return [above, { ...area, y: top, h: area.y + area.h - top }];
}

class Curves extends Picture {
  constructor(home, pair) {
    super(home, {
      title: "Percentiles", note: "the share of requests that took no longer; below, the ratio",
      height: 430, label: "time",
    });
    this.sign(pair.baseline, "--a");
    this.sign(pair.other, "--b");
    this.sign("other / baseline", "--ratio");
    this.all = pair.distributions;
    this.shown = this.all.find((one) => one.span === "response" && one.kind === "all")
      ?? this.all[0];
    const order = [this.shown, ...this.all.filter((one) => one !== this.shown)];
    this.choices(order.map((one) => [one, `${one.span} ${one.kind}`]), (one) => {
      this.shown = one;
    });
  }

  draw(pen, area) {
    const points = this.shown.quantiles;
    const [above, under] = halves(area);
    const times = points.flatMap((point) => [point[1], point[2]]).filter((ns) => ns > 0);
    const low = Math.min(...times) * 0.8;
    const high = Math.max(low * 10, ...times) * 1.25;
    this.nines = Math.max(1, points.at(-1)[0]);
    const toX = (nines) => area.x + nines / this.nines * area.w;
    const toY = (ns) => above.y
      + Math.log(high / Math.max(low, ns)) / Math.log(high / low) * above.h;
    this.across(pen, decades(low, high), toY, spanText, above);
    const ratios = points.filter((point) => point[1] > 0).map((point) => point[2] / point[1]);
    const [least, most] = ratioRange(ratios);
    const toRatio = (ratio) => under.y + Math.log(most / Math.min(most, Math.max(least, ratio)))
      / Math.log(most / least) * under.h;
    const marks = ratioMarks(least, most, 5);
    this.across(pen, marks, toRatio, percentText, under, "ratio");
    const marksBelow = nineMarks.map((q) => -Math.log10(1 - q)).filter((n) => n <= this.nines);
    this.below(pen, marksBelow, toX, (n) => `${+((1 - 10 ** -n) * 100).toFixed(5)} %`);
    this.line(pen, [[area.x, toRatio(1)], [area.x + area.w, toRatio(1)]], "--soft", 1, [4, 3]);
    this.line(pen, points.map(([n, a]) => [toX(n), toY(a)]), "--a", 1.8);
    this.line(pen, points.map(([n, , b]) => [toX(n), toY(b)]), "--b", 1.8);
    this.line(pen, points.map(([n, a, b]) => a > 0 ? [toX(n), toRatio(b / a)] : null), "--ratio");
    pen.strokeStyle = colour("--line");
    pen.strokeRect(under.x - 0.5, under.y - 0.5, under.w + 1, under.h + 1);
  }

  tell(x) {
    const nines = (x - this.area.x) / this.area.w * this.nines;
    const point = this.shown.quantiles.find((one) => one[0] >= nines);
    if (!point) return "";
    const [at, a, b] = point;
    const percent = ((1 - 10 ** -at) * 100).toFixed(Math.min(6, 1 + Math.floor(at)));
    return `${percent} %: ${spanText(a)} and ${spanText(b)}, ${percentText(b / a)}; largest distance `
      + `of the distributions ${(this.shown.kolmogorov_smirnov * 100).toFixed(2)} % at `
      + spanText(this.shown.at_ns);
  }
}

/// The axis of blocks: time, or requests where there is no schedule.
function blockText(axis, block) {
  const at = axis.from + block * axis.step;
  return axis.quantity.unit === "ns" ? `${+(at / 1e9).toPrecision(4)} s` : shortText(at);
}

function blockMarks(axis, wide) {
  const scale = axis.quantity.unit === "ns" ? 1e9 : 1;
  const end = axis.cells * axis.step / scale;
  return linearMarks(0, end, Math.max(2, wide / 90)).map((mark) => mark * scale / axis.step);
}

class HeatMap extends Picture {
  constructor(home, pair) {
    super(home, {
      title: "Where they differ", height: 300, label: "latency",
      note: "share of a block's requests with this latency, the other's less the baseline's",
    });
    this.maps = pair.heat;
    this.map = this.maps.find((one) => one.span === "response") ?? this.maps[0];
    const ramp = element("span", { className: "ramp" });
    this.legend.append(element("span", { className: "item" },
      `more in ${pair.baseline}`, ramp, `more in ${pair.other}`));
    const order = [this.map, ...this.maps.filter((one) => one !== this.map)];
    this.choices(order.map((one) => [one, one.span]), (one) => { this.map = one; });
  }

  draw(pen, area) {
    const { x, y, cells } = this.map;
    const rows = cells.map((cell) => cell[1]);
    this.low = Math.max(0, Math.min(...rows, y.cells - 1) - 1);
    this.high = Math.max(this.low + 8, Math.max(...rows, 0) + 2);
    const toX = (block) => area.x + block / x.cells * area.w;
    const toY = (row) => area.y + (this.high - row) / (this.high - this.low) * area.h;
    const edge = (row) => y.lowest * 10 ** (row / y.per_decade);
    const marks = decades(edge(this.low), edge(this.high));
    this.across(pen, marks, (ns) => toY(Math.log10(ns / y.lowest) * y.per_decade), spanText);
    this.below(pen, blockMarks(x, area.w), toX, (block) => blockText(x, block));
    const sizes = cells.map((cell) => Math.abs(cell[2])).sort((a, b) => a - b);
    const most = Math.max(0.02, sizes[Math.floor(sizes.length * 0.995)] ?? 0);
    const [a, b] = [parts(colour("--a")), parts(colour("--b"))];
    for (const [block, row, share] of cells) {
      const [red, green, blue] = share > 0 ? b : a;
      const strength = Math.min(1, Math.sqrt(Math.abs(share) / most));
      pen.fillStyle = `rgba(${red}, ${green}, ${blue}, ${strength.toFixed(3)})`;
      const left = Math.round(toX(block)), top = Math.round(toY(row + 1));
      pen.fillRect(left, top, Math.max(1, Math.round(toX(block + 1)) - left),
        Math.max(1, Math.round(toY(row)) - top));
    }
  }

  tell(atX, atY) {
    const { x, y, cells } = this.map;
    const block = Math.floor((atX - this.area.x) / this.area.w * x.cells);
    const row = Math.floor(this.high - (atY - this.area.y) / this.area.h * (this.high - this.low));
    const cell = cells.find((one) => one[0] === block && one[1] === row);
    const edge = (at) => spanText(y.lowest * 10 ** (at / y.per_decade));
    const share = cell ? `${cell[2] > 0 ? "+" : "−"}${Math.abs(cell[2] * 100).toFixed(2)} %` : "0";
    return `from ${blockText(x, block)}, ${edge(row)} to ${edge(row + 1)}: ${share}`;
  }
}

class Ratio extends Picture {
  constructor(home, pair) {
    super(home, {
      title: "Ratio over time", height: 220, label: "other / baseline",
      note: "response time block by block; the level between change points",
    });
    this.blocks = pair.over_time;
    this.track = this.blocks.tracks[0];
    this.sign("ratio", "--ratio");
    this.sign("level", "--level");
    this.choices(this.blocks.tracks.map((track) => [track, track.metric]), (track) => {
      this.track = track;
    });
  }

  ratio(block) {
    const [a, b] = [this.track.baseline[block], this.track.other[block]];
    return a === null || b === null || a === undefined || !(a > 0) ? null : b / a;
  }

  draw(pen, area) {
    const axis = this.blocks.x;
    const toX = (block) => area.x + block / axis.cells * area.w;
    const ratios = [...Array(axis.cells).keys()].map((block) => this.ratio(block));
    const [least, most] = ratioRange(ratios.filter((ratio) => ratio !== null));
    const toY = (ratio) => area.y + Math.log(most / Math.min(most, Math.max(least, ratio)))
      / Math.log(most / least) * area.h;
    this.across(pen, ratioMarks(least, most, 6), toY, percentText);
    this.below(pen, blockMarks(axis, area.w), toX, (block) => blockText(axis, block));
    this.line(pen, [[area.x, toY(1)], [area.x + area.w, toY(1)]], "--soft", 1, [4, 3]);
    const steps = ratios.flatMap((ratio, block) => ratio === null ? [null]
      : [[toX(block), toY(ratio)], [toX(block + 1), toY(ratio)]]);
    this.line(pen, steps, "--ratio", 1.2);
    const from = [0, ...this.track.changes], to = [...this.track.changes, axis.cells];
    this.track.levels.forEach((level, i) => {
      this.line(pen, [[toX(from[i]), toY(level)], [toX(to[i]), toY(level)]], "--level", 2.2);
      if (i > 0) {
        const x = Math.round(toX(from[i])) + 0.5;
        this.line(pen, [[x, area.y], [x, area.y + area.h]], "--level", 1, [2, 3]);
      }
    });
  }

  tell(x) {
    const block = Math.floor((x - this.area.x) / this.area.w * this.blocks.x.cells);
    const ratio = this.ratio(block);
    if (ratio === null) return "too few requests here";
    const [a, b] = [this.track.baseline[block], this.track.other[block]];
    return `from ${blockText(this.blocks.x, block)}: ${spanText(a)} and ${spanText(b)}, `
      + percentText(ratio);
  }
}

class Flow extends Picture {
  constructor(home, pair) {
    super(home, {
      title: "Throughput", note: "completed, block by block", height: 190, label: "per second",
    });
    this.blocks = pair.over_time;
    this.of = "iops";
    this.sign(pair.baseline, "--a");
    this.sign(pair.other, "--b");
    this.choices([["iops", "IOPS"], ["bytes", "bytes"]], (of) => { this.of = of; });
  }

  draw(pen, area) {
    const axis = this.blocks.x;
    const [one, two] = this.blocks[this.of];
    const top = Math.max(1e-9, ...one, ...two) * 1.05;
    const toX = (block) => area.x + block / axis.cells * area.w;
    const toY = (value) => area.y + (1 - value / top) * area.h;
    this.across(pen, linearMarks(0, top, 5), toY, shortText);
    this.below(pen, blockMarks(axis, area.w), toX, (block) => blockText(axis, block));
    const steps = (values) => values.flatMap((value, block) =>
      [[toX(block), toY(value)], [toX(block + 1), toY(value)]]);
    this.line(pen, steps(one), "--a", 2.2);
    this.line(pen, steps(two), "--b", 1.2);
  }

  tell(x) {
    const block = Math.floor((x - this.area.x) / this.area.w * this.blocks.x.cells);
    const [a, b] = this.blocks[this.of].map((values) => values[block]);
    if (a === undefined) return "";
    return `from ${blockText(this.blocks.x, block)}: ${shortText(a)} and ${shortText(b)} per second`;
  }
}

function drawAll() {
  for (const picture of pictures) picture.redraw();
}

for (const home of document.querySelectorAll(".drawn")) {
  const pair = pairs[Number(home.dataset.pair)];
  if (pair.distributions.length === 0) continue;
  new Curves(home, pair);
  if (pair.heat.length > 0) new HeatMap(home, pair);
  new Ratio(home, pair);
  new Flow(home, pair);
}
drawAll();
let wide = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === wide) return;
  wide = document.body.clientWidth;
  drawAll();
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
const facts = document.querySelector("details.facts");
// Paper is white, and nothing can be unfolded on it.
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  facts.open = true;
  drawAll();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  drawAll();
});
document.documentElement.dataset.ready = "yes";
