// Density: counts as colour. All layers of a diagram share one scale from one request to the
// densest cell, so that a colour is as strong as its requests are many, and where layers meet their
// colours mix. No cell is so faint that it is not seen, and the slowest requests of a layer, which
// are few, are as strong as the densest cell: they are what a reader looks for.

/// The share of a layer's requests that are its tail.
const TAIL = 0.001;
/// How opaque a lonely request is, and one of the tail.
const FAINTEST = 0.4, TAIL_ALPHA = 0.9;

/// The row from which on the slowest requests of a layer lie: at most a thousandth of them.
function tailOf(layer) {
  if (layer.tail !== undefined) return layer.tail;
  const rows = new Float64Array(data.rows);
  for (let i = 0; i < layer.row.length; i++) rows[layer.row[i]] += layer.count[i];
  let row = data.rows, beyond = 0;
  while (row > 0 && beyond + rows[row - 1] <= Math.max(1, TAIL * layer.total)) {
    row -= 1;
    beyond += rows[row];
  }
  layer.tail = row;
  return row;
}

/// The parts of a colour written #rrggbb.
function parts(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/// Sums the shown layers into columns of the screen: as many as buckets, or as pixels if fewer.
function gather(panel, layers, wide) {
  const [from, to] = panel.buckets();
  const { x } = panel.area;
  const pixel = (bucket) => Math.round((panel.x(bucket * run.width_ns) - x) * panel.dense);
  // Behind the end of the run the last bucket is not drawn wider than it is on the axis.
  const columns = [];
  let column = null;
  for (let b = from; b < to; b++) {
    const left = Math.max(0, pixel(b)), right = Math.min(wide, Math.max(left + 1, pixel(b + 1)));
    if (column && left < column.right) {
      column.to = b + 1;
      column.right = Math.max(column.right, right);
    } else if (left < wide) {
      column = { from: b, to: b + 1, left, right };
      columns.push(column);
    }
  }
  let filled = 0;
  const sums = layers.map((layer) => {
    const counts = new Float32Array(columns.length * data.rows);
    columns.forEach((c, i) => {
      const [first, end] = cellsOf(layer, c.from, c.to);
      for (let k = first; k < end; k++) {
        const cell = i * data.rows + layer.row[k];
        if (counts[cell] === 0) filled += 1;
        counts[cell] += layer.count[k];
      }
    });
    let most = 0;
    for (const n of counts) if (n > most) most = n;
    return { counts, most, layer };
  });
  return { columns, sums, filled };
}

/// Draws layers of density into the panel between two rows (`low` included, `high` not).
function drawDensity(panel, pen, layers, low, high, strength = 1) {
  const wide = Math.round(panel.area.w * panel.dense);
  const tall = Math.round(panel.area.h * panel.dense);
  const { columns, sums, filled } = gather(panel, layers, wide);
  const top = (row) => Math.round((high - row) / (high - low) * tall);
  const bands = [];
  for (let row = low; row < high; row++) {
    bands[row] = { above: top(row + 1), below: Math.max(top(row + 1) + 1, top(row)) };
  }
  const shown = sums.map(({ counts, most, layer }) => (
    { counts, most, colour: layer.colour, tail: tailOf(layer) }));
  paint(panel, pen, { columns, bands, stride: data.rows, filled }, shown, strength);
  return columns;
}

/// Paints counts as colour. `columns` are { left, right } and `bands` are { above, below }, both in
/// pixels of the screen; the count of column i and band b stands at i * stride + b. Bands from
/// `tail` on are the tail of a sum.
function paint(panel, pen, { columns, bands, stride, filled }, sums, strength = 1) {
  const wide = Math.round(panel.area.w * panel.dense);
  const tall = Math.round(panel.area.h * panel.dense);
  const dark = parts(colour("--plot"))[0] < 128;
  // A few lonely requests would be invisible as single pixels; many cells need no help.
  const least = filled < 4000 ? 3 * panel.dense : filled < 20000 ? 2 * panel.dense : 1;
  panel.least = least > 1 ? least / panel.dense : 0;
  const size = wide * tall;
  const red = new Float32Array(size), green = new Float32Array(size);
  const blue = new Float32Array(size), weight = new Float32Array(size);
  const clear = new Float32Array(size).fill(1);
  const level = new Float32Array(size);
  const most = Math.max(0, ...sums.map((sum) => sum.most));
  panel.densest = most;
  for (const sum of sums) {
    const { counts } = sum;
    if (sum.most === 0) continue;
    const tail = sum.tail ?? Infinity;
    const scale = 1 / Math.log1p(most);
    // Where the densest cell holds a few, it is no reason to lose the colour.
    const depth = 1.6 * Math.min(1, Math.log1p(most) / Math.log(60)) ** 2;
    level.fill(0);
    columns.forEach((column, i) => {
      const grow = Math.max(0, least - (column.right - column.left)) / 2;
      const left = Math.max(0, Math.floor(column.left - grow));
      const right = Math.min(wide, Math.max(left + 1, Math.ceil(column.right + grow)));
      bands.forEach((band, b) => {
        const n = counts[i * stride + b];
        if (n === 0) return;
        const size = b >= tail ? Math.max(least, 2.5 * panel.dense) : least;
        const taller = Math.max(0, size - (band.below - band.above)) / 2;
        const wider = Math.max(0, size - (right - left)) / 2;
        const above = Math.max(0, Math.floor(band.above - taller));
        const below = Math.min(tall, Math.ceil(band.below + taller));
        const density = b >= tail ? 1 : Math.log1p(n) * scale;
        const first = Math.max(0, Math.floor(left - wider));
        const end = Math.min(wide, Math.ceil(right + wider));
        for (let y = above; y < below; y++) {
          for (let p = y * wide + first; p < y * wide + end; p++) {
            if (density > level[p]) level[p] = density;
          }
        }
      });
    });
    const [r, g, b] = parts(colour(sum.colour));
    for (let p = 0; p < size; p++) {
      const d = level[p];
      if (d === 0) continue;
      // First more opaque, then, above two thirds, further away from the background.
      const alpha = strength * Math.min(TAIL_ALPHA, FAINTEST + (1 - FAINTEST) * d);
      const deep = Math.max(0, d - 0.7) * depth;
      const far = dark ? 255 * deep : 0;
      weight[p] += alpha;
      red[p] += alpha * (r * (1 - deep) + far);
      green[p] += alpha * (g * (1 - deep) + far);
      blue[p] += alpha * (b * (1 - deep) + far);
      clear[p] *= 1 - alpha;
    }
  }
  const image = new ImageData(wide, tall);
  for (let p = 0; p < size; p++) {
    if (weight[p] === 0) continue;
    image.data[4 * p] = red[p] / weight[p];
    image.data[4 * p + 1] = green[p] / weight[p];
    image.data[4 * p + 2] = blue[p] / weight[p];
    image.data[4 * p + 3] = 255 * (1 - clear[p]);
  }
  const sheet = element("canvas", { width: wide, height: tall });
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.drawImage(sheet, panel.area.x, panel.area.y, panel.area.w, panel.area.h);
}

/// The rows to show: what is filled and a little more, at least two decades.
function rowsOf(layers) {
  const filled = layers.filter((layer) => layer.total > 0);
  let low = Math.min(...filled.map((layer) => layer.low), data.rows);
  let high = Math.max(...filled.map((layer) => layer.high + 1), 0);
  if (filled.length === 0) [low, high] = [24, 120];
  const missing = Math.max(0, 2 * data.rows_per_decade - (high - low));
  low = Math.max(0, low - 4 - Math.floor(missing / 2));
  high = Math.min(data.rows, high + 4 + Math.ceil(missing / 2));
  return [low, high];
}
