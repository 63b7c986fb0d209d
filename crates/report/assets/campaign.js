// The runs of a campaign: a map of any two axes, curves over one, and how results changed while the
// campaign went on. Everything is a table or SVG, so it prints. A row of data is
// [value of each axis, repeat, tone, path of the run, instant in hours, figures…].

const data = JSON.parse(document.getElementById("data").textContent);
const { axes, figures, rows, tones } = data;
const at = { repeat: axes.length, tone: axes.length + 1, run: axes.length + 2, hours: axes.length + 3,
  figure: axes.length + 4 };
const several = axes.map((axis, i) => i).filter((i) => axes[i].values.length > 1);

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function drawn(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/// A figure in words, with three significant digits.
function words(value, unit) {
  if (value === null || value === undefined) return "";
  const three = (number) => Number(number.toPrecision(3)).toLocaleString("en");
  if (unit === "ns") {
    const [size, name] = value >= 1e9 ? [1e9, "s"] : value >= 1e6 ? [1e6, "ms"]
      : value >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return `${three(value / size)} ${name}`;
  }
  if (unit === "B/s") return `${three(value / 1e6)} MB/s`;
  return three(value) + (unit === "%" ? " %" : "");
}

/// A list to choose from; `changed` is called with the chosen value.
function choice(label, entries, chosen, changed) {
  const list = make("select", {}, ...entries.map(([value, text]) => make("option", { value }, text)));
  list.value = chosen;
  list.addEventListener("change", () => changed(list.value));
  return make("label", {}, `${label} `, list);
}

function median(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length === 0 ? null
    : sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const names = () => several.map((axis) => [String(axis), axes[axis].name]);
const figureNames = figures.map((figure, i) => [String(i), figure.name]);
const state = { columns: data.columns, rows: -1, figure: data.figure, over: data.over, by: data.by,
  curve: data.figure, onMap: {}, onCurves: {} };

/// The runs that the lists of the other axes leave.
function chosenRuns(free, fixed) {
  return rows.filter((row) => several.every((axis) => free.includes(axis)
    || fixed[axis] === undefined || row[axis] === fixed[axis]));
}

/// Lists for the values of the axes that are not shown.
function fixing(free, fixed, all, redraw) {
  return several.filter((axis) => !free.includes(axis)).map((axis) => {
    const values = axes[axis].values.map((value, i) => [String(i), value]);
    const entries = all ? [["all", "all"], ...values] : values;
    const chosen = fixed[axis] === undefined ? "all" : String(fixed[axis]);
    return choice(axes[axis].name, entries, chosen, (value) => {
      fixed[axis] = value === "all" ? undefined : Number(value);
      redraw();
    });
  });
}

function drawMap() {
  const { columns, figure } = state;
  const lines = state.rows < 0 ? several.filter((axis) => axis !== columns) : [state.rows];
  const free = [columns, ...lines];
  const runs = chosenRuns(free, state.onMap);
  const squares = new Map();
  const known = new Set();
  for (const row of runs) {
    const line = lines.map((axis) => row[axis]).join(" ");
    known.add(line);
    const place = `${line}|${row[columns]}`;
    if (!squares.has(place)) squares.set(place, []);
    squares.get(place).push(row);
  }
  const value = (place) => median((squares.get(place) ?? []).map((row) => row[at.figure + figure]));
  const medians = [...squares.keys()].map(value).filter((it) => it !== null && it > 0);
  const low = Math.min(...medians), high = Math.max(...medians);
  const shade = (it) => it === null || it <= 0 ? 0
    : 1 + Math.round(8 * (high > low ? Math.log(it / low) / Math.log(high / low) : 0));
  const head = make("tr", {}, make("th", { scope: "col" }, axes[columns]?.name ?? ""),
    ...(axes[columns]?.values ?? [""]).map((text) => make("th", { scope: "col" }, text)));
  const body = [...known].map((line) => {
    const name = line === "" ? data.name : line.split(" ")
      .map((at, i) => `${axes[lines[i]].name} ${axes[lines[i]].values[at]}`).join(", ");
    const cells = (axes[columns]?.values ?? [""]).map((_, column) => {
      const place = `${line}|${columns < 0 ? undefined : column}`;
      const those = squares.get(place) ?? [];
      if (those.length === 0) return make("td", { className: "s0" });
      const worst = tones[Math.max(...those.map((row) => row[at.tone]))];
      const it = value(place);
      const links = those.filter((row) => row[at.run]).map((row) =>
        make("a", { href: `${row[at.run]}/report.html` }, String(row[at.repeat])));
      return make("td", { className: `s${shade(it)} ${worst.class}`, title: worst.word },
        make("b", {}, worst.sign), ` ${words(it, figures[figure].unit)} `,
        make("span", { className: "runs" }, ...links.slice(0, 12).flatMap((link) => [link, " "])));
    });
    return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  });
  document.querySelector(".map thead").replaceChildren(head);
  document.querySelector(".map tbody").replaceChildren(...body);
  document.getElementById("map-figure").textContent =
    `${figures[figure].name}, the median of the repeats; a stronger colour is more`;
  const redraw = () => { drawMap(); controls(); };
  const controls = () => document.getElementById("map-controls").replaceChildren(
    choice("figure", figureNames, String(figure), (it) => { state.figure = Number(it); redraw(); }),
    choice("columns", names(), String(columns), (it) => {
      state.columns = Number(it);
      if (state.rows === state.columns) state.rows = -1;
      redraw();
    }),
    choice("rows", [["-1", "all other axes"], ...names().filter(([it]) => it !== String(columns))],
      String(state.rows), (it) => { state.rows = Number(it); redraw(); }),
    ...fixing(free, state.onMap, true, redraw));
  controls();
}

/// Round values across a range, on a linear or a logarithmic scale.
function ticks(low, high, isLog) {
  if (isLog) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const step of [1, 2, 5]) all.push(step * 10 ** power);
    }
    const inside = all.filter((it) => it >= low * 0.999 && it <= high * 1.001);
    return inside.length > 7 ? inside.filter((it) => /^1(e|0*$|\.)/.test(String(it))) : inside;
  }
  const rough = (high - low) / 5 || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((it) => it * size >= rough) * size;
  const all = [];
  for (let it = Math.ceil(low / step) * step; it <= high + step / 1e6; it += step) all.push(it);
  return all;
}

/// A chart with marks [x, y, low, high, title, link] in lines, each with a class.
function chart(target, lines, x, y) {
  const [wide, tall, left, bottom, top, right] = [860, 300, 76, 42, 10, 14];
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) {
    target.replaceChildren(make("p", { className: "hint" }, "No run has this figure."));
    return;
  }
  const span = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low === high ? [low * 0.9 || -1, high * 1.1 || 1] : [low, high];
  };
  const [lowY, highY] = span(points.flatMap((it) => [it[2], it[3]]));
  const isLogY = lowY > 0 && highY / lowY > 8;
  const [lowX, highX] = x.values ? [-0.5, x.values.length - 0.5] : span(points.map((it) => it[0]));
  const isLogX = !x.values && x.mayBeLog && lowX > 0 && highX / lowX > 8;
  const share = (it, low, high, isLog) => isLog ? Math.log(it / low) / Math.log(high / low)
    : (it - low) / (high - low);
  const toX = (it) => left + (wide - left - right) * share(it, lowX, highX, isLogX);
  const toY = (it) => tall - bottom - (tall - bottom - top) * share(it, lowY, highY, isLogY);
  const parts = [];
  for (const it of ticks(lowY, highY, isLogY)) {
    parts.push(drawn("line", { class: "grid", x1: left, x2: wide - right, y1: toY(it), y2: toY(it) }));
    parts.push(drawn("text", { x: left - 6, y: toY(it) + 4, "text-anchor": "end" }, words(it, y.unit)));
  }
  const marks = x.values ? x.values.map((text, i) => [i, text])
    : ticks(lowX, highX, isLogX).map((it) => [it, String(Number(it.toPrecision(3)))]);
  for (const [place, text] of marks) {
    parts.push(drawn("text", { x: toX(place), y: tall - bottom + 16, "text-anchor": "middle" }, text));
  }
  parts.push(drawn("text", { x: (left + wide - right) / 2, y: tall - 6, "text-anchor": "middle",
    class: "name" }, x.name));
  lines.forEach((line, i) => {
    const kind = `n${i % 6}${i >= 6 ? " dashed" : ""}`;
    const nodes = line.points.map((it) => drawn("circle",
      { class: kind, cx: toX(it[0]), cy: toY(it[1]), r: line.joined ? 3.5 : 2.5 },
      drawn("title", {}, it[4])));
    if (line.joined) {
      const path = line.points.map((it, n) => `${n ? "L" : "M"}${toX(it[0])} ${toY(it[1])}`).join("");
      parts.push(drawn("path", { class: kind, d: path }));
      for (const it of line.points.filter((it) => it[3] > it[2])) {
        parts.push(drawn("line", { class: kind, x1: toX(it[0]), x2: toX(it[0]), y1: toY(it[2]),
          y2: toY(it[3]) }));
      }
    }
    parts.push(...nodes);
  });
  const legend = lines.length < 2 ? [] : lines.map((line, i) => make("span", { className: "item" },
    make("span", { className: `swatch m${i % 6}` }), line.name));
  target.replaceChildren(make("div", { className: "legend" }, ...legend),
    drawn("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", class: "curve" }, ...parts));
}

function drawCurves() {
  const { over, by, curve } = state;
  const free = by < 0 ? [over] : [over, by];
  // A curve of several loads at once would be the curve of none.
  for (const axis of several) state.onCurves[axis] ??= 0;
  const runs = chosenRuns(free, state.onCurves).filter((row) => row[at.figure + curve] !== null);
  const numbers = axes[over].values.map(Number);
  const isNumber = numbers.every(Number.isFinite);
  const groups = new Map();
  for (const row of runs) {
    const name = by < 0 ? "" : `${axes[by].name} ${axes[by].values[row[by]]}`;
    if (!groups.has(name)) groups.set(name, new Map());
    const points = groups.get(name);
    if (!points.has(row[over])) points.set(row[over], []);
    points.get(row[over]).push(row[at.figure + curve]);
  }
  const unit = figures[curve].unit;
  const lines = [...groups].map(([name, points]) => ({ name, joined: true,
    points: [...points].sort((a, b) => a[0] - b[0]).map(([value, all]) => {
      const [low, high] = [Math.min(...all), Math.max(...all)];
      const title = `${axes[over].name} ${axes[over].values[value]}: ${words(median(all), unit)} `
        + `(${words(low, unit)} to ${words(high, unit)}, ${all.length} runs)`;
      return [isNumber ? numbers[value] : value, median(all), low, high, title];
    }).sort((a, b) => a[0] - b[0]) }));
  const held = several.filter((axis) => !free.includes(axis))
    .map((axis) => `, ${axes[axis].name} ${axes[axis].values[state.onCurves[axis]]}`);
  document.getElementById("curve-of").textContent = figures[curve].name + held.join("");
  chart(document.getElementById("curves"), lines,
    { name: axes[over].name, values: isNumber ? null : axes[over].values, mayBeLog: true }, { unit });
  const redraw = () => { drawCurves(); };
  document.getElementById("curve-controls").replaceChildren(
    choice("figure", figureNames, String(curve), (it) => { state.curve = Number(it); redraw(); }),
    choice("over", names(), String(over), (it) => {
      state.over = Number(it);
      if (state.by === state.over) state.by = several.find((axis) => axis !== state.over) ?? -1;
      redraw();
    }),
    choice("lines", [["-1", "none"], ...names().filter(([it]) => it !== String(over))], String(by),
      (it) => { state.by = Number(it); redraw(); }),
    ...fixing(free, state.onCurves, false, redraw));
}

/// Each run by the median of its point, over the time of the campaign.
function drawDrift() {
  const most = Math.max(...rows.map((row) => row[at.hours] ?? 0));
  const [scale, unit] = most > 2 ? [1, "hours"] : most > 1 / 30 ? [60, "minutes"] : [3600, "seconds"];
  const points = new Map();
  for (const row of rows) {
    const value = row[at.figure + state.figure];
    if (value === null || value <= 0 || row[at.hours] === null) continue;
    const point = row.slice(0, axes.length).join(" ");
    if (!points.has(point)) points.set(point, []);
    points.get(point).push(row);
  }
  const marks = [];
  for (const those of points.values()) {
    const middle = median(those.map((row) => row[at.figure + state.figure]));
    if (those.length < 2) continue;
    for (const row of those) {
      const percent = 100 * (row[at.figure + state.figure] / middle - 1);
      marks.push([row[at.hours] * scale, percent, percent, percent, `${percent.toFixed(1)} %`]);
    }
  }
  chart(document.getElementById("drift"), [{ name: "", joined: false, points: marks }],
    { name: `${unit} since the first run`, values: null, mayBeLog: false }, { unit: "%" });
}

if (several.length > 0) {
  drawMap();
  drawCurves();
} else for (const name of ["curve-section", "map-controls"]) document.getElementById(name).remove();
if (rows.some((row) => row[at.repeat] > 1)) drawDrift();
else document.getElementById("drift-section").remove();
