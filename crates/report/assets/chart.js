// Charts of figures in the four shapes (series, bins, curve, grid), as the page carries them. Over
// time they are panels on the axis that all share; others have axes of their own and stand below.

/// The smallest and largest value along one side of a chart: [low, high].
function extentOf(chart, along) {
  const side = along ? chart.x : chart.y;
  const logarithmic = side.spacing === "logarithmic";
  let low = Infinity, high = -Infinity;
  const take = (value) => {
    if (value === null || !Number.isFinite(value) || (logarithmic && value <= 0)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const layer of chart.layers) {
    if (layer.shape === "series") layer.values.forEach(take);
    if (layer.shape === "curve") layer.points.forEach((point) => take(point[along ? 0 : 1]));
    if (layer.shape === "bins") {
      if (!along) layer.counts.forEach(take);
      else layer.counts.forEach((n, i) => { if (n) layer.edges.slice(i, i + 2).forEach(take); });
    }
    if (layer.shape === "grid") {
      const axis = along ? layer.x : layer.y;
      const [first, last] = along ? layer.cells.across : layer.cells.up;
      take(cellEdge(axis, first));
      take(cellEdge(axis, last + 1));
    }
  }
  for (const limit of chart.limits) if (limit.along === along) take(limit.at);
  take(side.from);
  take(side.to);
  return low <= high ? [low, high] : [1, 10];
}

/// Where a cell of a grid's axis begins.
function cellEdge(axis, cell) {
  return axis.scale === "linear" ? axis.from + cell * axis.step
    : axis.lowest * 10 ** (cell / axis.per_decade);
}

/// The cell of a grid's axis that a value lies in.
function cellOf(axis, value) {
  const cell = axis.scale === "linear" ? (value - axis.from) / axis.step
    : value > 0 ? Math.log10(value / axis.lowest) * axis.per_decade : 0;
  return Math.min(axis.cells - 1, Math.max(0, Math.floor(cell + 1e-9)));
}

/// Unpacks a grid's cells: columns x[] and rows y[] with their counts n[], and where they lie.
function unpackGrid(layer) {
  const { number, more } = numbers(layer.packed);
  const x = [], y = [], n = [];
  const across = [Infinity, 0], up = [Infinity, 0];
  let cell = 0;
  while (more()) {
    cell += number();
    const column = Math.floor(cell / layer.y.cells), row = cell % layer.y.cells;
    x.push(column);
    y.push(row);
    n.push(number());
    across[0] = Math.min(across[0], column);
    across[1] = Math.max(across[1], column);
    up[0] = Math.min(up[0], row);
    up[1] = Math.max(up[1], row);
    cell += 1;
  }
  return { x, y, n, across, up };
}

/// The pixels that cells of an axis take, neighbours within one pixel joined: of cell `first + i`
/// the place of[i] in `bands`, which are { low, high } in pixels along the axis.
function bandsOf(first, last, toPixel, pixels) {
  const bands = [], of = [];
  for (let cell = first; cell <= last; cell++) {
    const ends = [toPixel(cell), toPixel(cell + 1)].sort((a, b) => a - b);
    const low = Math.round(ends[0]), high = Math.max(low + 1, Math.round(ends[1]));
    const before = bands.at(-1);
    if (high <= 0 || low >= pixels) of.push(-1);
    else if (before && (before.low === low || (low < before.high && high > before.low))) {
      before.low = Math.min(before.low, low);
      before.high = Math.max(before.high, high);
      of.push(bands.length - 1);
    } else {
      bands.push({ low: Math.max(0, low), high: Math.min(pixels, high) });
      of.push(bands.length - 1);
    }
  }
  return { bands, of };
}

/// Draws the grids of a chart as density. `toX` and `toY` give the place of a value on the canvas.
function drawGrids(panel, pen, layers, toX, toY) {
  if (layers.length === 0) return;
  const wide = Math.round(panel.area.w * panel.dense);
  const tall = Math.round(panel.area.h * panel.dense);
  const { x: axisX, y: axisY } = layers[0];
  const ends = (side) => [Math.min(...layers.map((layer) => layer.cells[side][0])),
    Math.max(...layers.map((layer) => layer.cells[side][1]))];
  const [left, right] = ends("across"), [low, high] = ends("up");
  const across = bandsOf(left, right,
    (cell) => (toX(cellEdge(axisX, cell)) - panel.area.x) * panel.dense, wide);
  const up = bandsOf(low, high,
    (cell) => (toY(cellEdge(axisY, cell)) - panel.area.y) * panel.dense, tall);
  const stride = up.bands.length;
  let filled = 0;
  const sums = layers.map((layer) => {
    const counts = new Float32Array(across.bands.length * stride);
    const { x, y, n } = layer.cells;
    for (let i = 0; i < n.length; i++) {
      const column = across.of[x[i] - left], row = up.of[y[i] - low];
      if (column < 0 || row < 0) continue;
      const cell = column * stride + row;
      if (counts[cell] === 0) filled += 1;
      counts[cell] += n[i];
    }
    let most = 0;
    for (const count of counts) if (count > most) most = count;
    return { counts, most, colour: layer.ink };
  });
  const columns = across.bands.map(({ low: a, high: b }) => ({ left: a, right: b }));
  const bands = up.bands.map(({ low: a, high: b }) => ({ above: a, below: b }));
  paint(panel, pen, { columns, bands, stride, filled }, sums);
}

/// How the points of a layer are joined, as a dash.
function dashOf(layer) {
  return layer.stroke === "dashed" ? [5, 3] : [];
}

/// The value of a series over some of its steps: their mean, or the largest where peaks are shown.
function joinedValue(layer, from, to) {
  let total = 0, known = 0, most = null;
  for (let i = Math.max(0, from); i < Math.min(layer.values.length, to); i++) {
    const value = layer.values[i];
    if (value === null) continue;
    total += value;
    known += 1;
    most = most === null ? value : Math.max(most, value);
  }
  return known === 0 ? null : layer.stroke === "peaks" ? most : total / known;
}

/// Buttons that show and hide the layers of a chart; answers the places of their values.
function layerButtons(panel, chart) {
  return chart.layers.map((layer, i) => {
    const name = `${chart.name}.${i}`;
    const value = element("span", { className: "value" });
    layer.hidden = !kept(name, true);
    const sign = swatch(layer.ink, layer.shape !== "grid", layer.stroke === "dashed");
    panel.controls.append(toggle([sign, `${layer.name} `, value], !layer.hidden, (on) => {
      chosen[name] = on;
      layer.hidden = !on;
      drawAll();
    }));
    return value;
  });
}

/// Lines across at marked values.
function drawLimits(panel, pen, chart, toX, toY) {
  const { x, y, w, h } = panel.area;
  pen.strokeStyle = colour("--invalid");
  pen.fillStyle = colour("--invalid");
  pen.setLineDash([2, 3]);
  pen.textBaseline = "bottom";
  for (const limit of chart.limits) {
    const at = limit.along ? toX(limit.at) : toY(limit.at);
    if (at === null) continue;
    pen.beginPath();
    if (limit.along) { pen.moveTo(at, y); pen.lineTo(at, y + h); }
    else { pen.moveTo(x, at); pen.lineTo(x + w, at); }
    pen.stroke();
    pen.textAlign = limit.along ? "left" : "right";
    if (limit.along) pen.fillText(limit.label, at + 3, y + h - 3);
    else pen.fillText(limit.label, x + w - 3, at - 2);
  }
  pen.setLineDash([]);
}
