// Numbers as people read them, and where an axis has its marks.

/// Three significant digits with a unit of time: 12.3 µs, 1.50 s.
function spanText(ns) {
  if (ns >= 3600e9) {
    const seconds = Math.floor(ns / 1e9);
    const two = (part) => String(part % 60).padStart(2, "0");
    return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60))}:${two(seconds)}`;
  }
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= scale * 0.9995) return `${digits3(ns / scale)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function digits3(value) {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/// A count or a rate: groups of three digits; three significant digits below a hundred, two
/// below one.
function countText(value) {
  if (value < 1) return `${+value.toPrecision(2)}`;
  if (value < 100 && !Number.isInteger(value)) return digits3(value);
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/// An instant of the run: seconds below two minutes, else hours, minutes and seconds.
function instantText(ns, step) {
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / 1e9) + 1e-9)));
  if (run.end_ns < 120e9) return `${(ns / 1e9).toFixed(decimals)} s`;
  // Rounded before it is split, so that no 59.99 turns into 60 seconds.
  const unit = 10 ** decimals;
  const all = Math.round(ns / 1e9 * unit);
  const secs = (all % (60 * unit)) / unit;
  const minutes = Math.floor(all / (60 * unit));
  const tail = secs.toFixed(decimals).padStart(decimals ? 3 + decimals : 2, "0");
  if (minutes < 60) return `${minutes}:${tail}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${tail}`;
}

/// Marks of a time axis: at most `most` whole multiples of a round step.
function timeMarks(from, to, most) {
  const range = to - from;
  let step = 1000;
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600,
    43200, 86400].map((secs) => secs * 1e9);
  if (range / most < 0.5e9) {
    const decade = 10 ** Math.floor(Math.log10(range / most));
    step = [1, 2, 5, 10].map((m) => m * decade).find((s) => range / s <= most);
  } else {
    step = steps.find((s) => range / s <= most) ?? 86400e9 * Math.ceil(range / most / 86400e9);
  }
  const marks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) {
    marks.push(i * step);
  }
  return { step, marks };
}

/// Marks of a linear axis from zero: a round top and the marks below it.
function linearMarks(highest, most) {
  if (!(highest > 0)) return { top: 1, marks: [0, 0.5, 1] };
  const decade = 10 ** Math.floor(Math.log10(highest / most));
  const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => highest / s <= most);
  const top = Math.ceil(highest / step - 1e-9) * step;
  const marks = [];
  for (let i = 0; i * step <= top * (1 + 1e-9); i++) marks.push(i * step);
  return { top, marks };
}

/// Marks of a logarithmic axis: every power of ten, and 2 to 9 times as small marks. Where powers of
/// ten are fewer than three, 2 and 5 times are marks as well.
function logMarks(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const large = last - first + 1 < 3 ? [1, 2, 5] : [1];
  const marks = [], small = [];
  for (let e = Math.floor(Math.log10(low)) ; 10 ** e <= high * (1 + 1e-9); e++) {
    for (let m = 1; m < 10; m++) {
      const value = m * 10 ** e;
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      (large.includes(m) ? marks : small).push(value);
    }
  }
  return { marks, small };
}

/// A power of ten, or 2 or 5 times that, as a short label of an axis of time: 100 µs, 1 s.
function decadeText(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [scale, unit] = units.find(([s]) => ns >= s * 0.999) ?? units[3];
  return `${Math.round(ns / scale)} ${unit}`;
}

/// A linear axis's label: k, M, G above a thousand.
function shortText(value) {
  for (const [scale, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= scale) return `${+(value / scale).toPrecision(4)}${unit}`;
  }
  return `${+value.toPrecision(4)}`;
}

/// Binary sizes in three digits: 4.00 KiB, 1.21 GiB.
function sizeText(bytes) {
  for (const [scale, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"],
    [2 ** 10, "KiB"]]) {
    if (bytes >= scale) return `${digits3(bytes / scale)} ${unit}`;
  }
  return `${countText(bytes)} bytes`;
}

/// A value with its unit, as a reader is told it.
function valueText(value, unit) {
  const sign = value < 0 ? "−" : "", size = Math.abs(value);
  if (unit === "ns") return sign + spanText(size);
  if (unit === "s") return sign + spanText(size * 1e9);
  if (unit === "bytes") return sign + sizeText(size);
  if (unit === "bytes/s") return `${sign}${sizeText(size)}/s`;
  const text = sign + (size >= 1e6 ? shortText(+size.toPrecision(4)) : countText(size));
  return unit === "1" || unit === "" ? text : `${text} ${unit}`;
}

/// What values of a unit are divided by on a linear axis up to `highest`, and the unit then.
function axisUnit(unit, highest) {
  const of = (table) => table.find(([scale]) => highest >= 2 * scale) ?? table.at(-1);
  const spans = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const sizes = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"],
    [1, "bytes"]];
  if (unit === "ns") return of(spans);
  if (unit === "s") return of(spans.map(([scale, name]) => [scale / 1e9, name]));
  if (unit === "bytes") return of(sizes);
  if (unit === "bytes/s") return of(sizes).map((part, i) => i === 0 ? part : `${part}/s`);
  return [1, unit];
}

/// An axis for values from `low` to `high` that lie as `side` says: { from, to, share(value),
/// marks, small, text(mark), label }.
function axisOf(side, low, high) {
  const name = (unit) => unit === "1" || unit === "" || unit === side.name
    ? side.name : `${side.name} [${unit}]`;
  if (side.spacing === "logarithmic") {
    high = high > 0 ? high : 10;
    // Of a mean number of requests what is less is as good as none.
    low = Math.max(low > 0 ? low : high / 10, high / (side.unit === "requests" ? 1e5 : 1e14));
    const from = 10 ** Math.floor(Math.log10(low * 1.0001));
    const to = Math.max(from * 10, 10 ** Math.ceil(Math.log10(high * 0.9999)));
    const own = ["ns", "s", "bytes"].includes(side.unit);
    let { marks, small } = logMarks(from, to);
    if (side.unit === "bytes") {
      const step = Math.max(1, Math.ceil(Math.log2(to / from) / 9));
      marks = [];
      small = [];
      for (let e = Math.ceil(Math.log2(from)); 2 ** e <= to; e += step) marks.push(2 ** e);
    } else if (marks.length > 12) {
      const every = Math.ceil(marks.length / 12);
      marks = marks.filter((_, i) => i % every === 0);
      small = [];
    }
    const text = (value) => side.unit === "ns" ? decadeText(value)
      : side.unit === "s" ? decadeText(value * 1e9)
        : side.unit === "bytes" ? sizeText(value).replace(/\.0+ /, " ") : shortText(value);
    const share = (value) => value > 0 ? Math.log(value / from) / Math.log(to / from) : null;
    return { from, to, share, marks, small, text, label: own ? side.name : name(side.unit) };
  }
  if (side.spacing === "nines") {
    const marks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999]
      .map((quantile) => -Math.log10(1 - quantile)).filter((nines) => nines <= high + 1e-9);
    const text = (nines) => `${+((1 - 10 ** -nines) * 100).toFixed(5)} %`;
    const to = Math.max(1, high);
    return { from: 0, to, share: (value) => value / to, marks, small: [], text, label: side.name };
  }
  const [scale, unit] = axisUnit(side.unit, Math.max(Math.abs(low), Math.abs(high)));
  const from = side.from ?? Math.min(0, low);
  const range = Math.max(high - from, 0) / scale;
  const { top, marks } = linearMarks(range, 7);
  const step = marks[1] - marks[0];
  const first = Math.ceil(from / scale / step - 1e-9) * step;
  const shown = [];
  for (let i = 0; first + i * step <= from / scale + top + step * 1e-6; i++) {
    shown.push((first + i * step) * scale);
  }
  const to = from + top * scale;
  const text = (value) => (value < 0 ? "−" : "") + shortText(Math.abs(value / scale));
  const share = (value) => (value - from) / (to - from);
  return { from, to, share, marks: shown, small: [], text, label: name(unit) };
}
