// What the page carries: counts packed as text, unpacked here into columns of numbers.

let data, run, sonarLayers, latenessLayer, volumes;

/// What a reader switched, by name: kept when new figures come.
const chosen = {};
function kept(name, otherwise) {
  return name in chosen ? chosen[name] : otherwise;
}

/// Reads packed numbers (LEB128 in base64) one after the other.
function numbers(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  let at = 0;
  const number = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  };
  return { number, more: () => at < bytes.length };
}

/// The cells of a raster bucket by bucket: those of bucket b are start[b] to start[b + 1].
function unpack(text, buckets, rows) {
  const { number, more } = numbers(text);
  const start = new Uint32Array(buckets + 1);
  const row = [], count = [];
  let cell = 0, total = 0, low = rows, high = 0;
  while (more()) {
    cell += number();
    const r = cell % rows, n = number();
    start[Math.floor(cell / rows) + 1] += 1;
    row.push(r);
    count.push(n);
    total += n;
    low = Math.min(low, r);
    high = Math.max(high, r);
    cell += 1;
  }
  for (let b = 0; b < buckets; b++) start[b + 1] += start[b];
  return { start, row: Uint16Array.from(row), count: Float64Array.from(count), total, low, high };
}

/// The cells of a raster's buckets from `from` up to but not including `to`, all that lie in part
/// between them where the raster is coarser than the others: from which place to which.
function cellsOf(layer, from, to) {
  const wide = layer.wide ?? 1;
  const last = layer.start.length - 1;
  return [layer.start[Math.min(last, Math.floor(from / wide))],
    layer.start[Math.min(last, Math.ceil(to / wide))]];
}

/// The sum of some volumes' rasters of one class, under the name and colour of the class.
function summed(layer, rasters, wide) {
  const buckets = rasters[0].start.length - 1;
  const start = new Uint32Array(buckets + 1), row = [], count = [];
  const rows = new Float64Array(data.rows);
  let total = 0;
  for (let b = 0; b < buckets; b++) {
    const filled = new Set();
    for (const raster of rasters) {
      for (let i = raster.start[b]; i < raster.start[b + 1]; i++) {
        rows[raster.row[i]] += raster.count[i];
        filled.add(raster.row[i]);
      }
    }
    for (const r of filled) {
      row.push(r);
      count.push(rows[r]);
      total += rows[r];
      rows[r] = 0;
    }
    start[b + 1] = row.length;
  }
  // What was largest is known of all volumes together only: here the upper edge of a row.
  return { ...layer, start, row, count, total, wide, part: true };
}

/// The layers of the sonar diagram with those volumes alone that are switched on.
let partLayers = { key: "", layers: [] };
function layersShown() {
  const on = volumes.map((volume) => volume.shown);
  if (on.every((shown) => shown)) return sonarLayers;
  const key = on.join();
  if (partLayers.key !== key) {
    const wide = 2 ** data.volumes.doublings, buckets = Math.ceil(run.buckets / wide);
    const shown = volumes.filter((volume) => volume.shown);
    for (const volume of shown) {
      volume.layers ??= volume.cells.map((cells) => unpack(cells, buckets, data.rows));
    }
    const none = { start: new Uint32Array(buckets + 1), row: [], count: [] };
    partLayers = { key, layers: sonarLayers.map((layer, i) => {
      const rasters = shown.map((volume) => volume.layers[i]);
      return summed(layer, rasters.length > 0 ? rasters : [none], wide);
    }) };
  }
  partLayers.layers.forEach((layer, i) => { layer.shown = sonarLayers[i].shown; });
  return partLayers.layers;
}

/// Takes the figures that everything is drawn from.
function take(figures) {
  data = figures;
  run = data.panels;
  partLayers = { key: "", layers: [] };
  volumes = (data.volumes?.list ?? []).map(({ name, cells }, i) => ({
    name, cells, shown: kept(`volume.${i}`, true), layers: null,
  }));
  sonarLayers = data.sonar.map((packed, i) => ({
    name: packed.name, colour: packed.colour, shown: kept(`sonar.${packed.name}`, true),
    most: packed.most, exact: data.exact.sonar[i],
    ...unpack(packed.cells, run.buckets, data.rows),
  }));
  latenessLayer = {
    name: "lateness", colour: "--cloud", shown: true,
    most: run.lateness_max_ns, exact: data.exact.lateness,
    ...unpack(data.lateness.cells, run.buckets, data.rows),
  };
}
take(JSON.parse(document.getElementById("data").textContent));

/// Largest values in a column of numbers or null over the buckets [from, to).
function largest(column, [from, to]) {
  let most = null;
  for (let b = from; b < to; b++) {
    if (column[b] !== null && (most === null || column[b] > most)) most = column[b];
  }
  return most;
}

/// The span in nanoseconds that the share q of the counts does not exceed; null where there are
/// none. Right to a row, whose upper edge may lie above the exact maximum: that is told apart.
function quantileNs(rows, q, most) {
  const row = quantileRow(rows, q);
  if (row < 0 || most === null) return null;
  return row + 1 < data.rows ? Math.min(edge(row + 1), most) : most;
}

/// The counts by row of a raster's buckets from `from` up to but not including `to`.
function rowsBetween(layer, from, to) {
  const rows = new Float64Array(data.rows);
  const [first, end] = cellsOf(layer, from, to);
  for (let i = first; i < end; i++) rows[layer.row[i]] += layer.count[i];
  return rows;
}

/// The lower edge of a row in nanoseconds.
function edge(row) {
  return data.lowest_ns * 10 ** (row / data.rows_per_decade);
}

/// How many rows up a span lies, as a fraction.
function rowOf(ns) {
  return Math.log10(Math.max(1, ns) / data.lowest_ns) * data.rows_per_decade;
}

/// The row where the share q of the counts is reached; -1 where there are none.
function quantileRow(rows, q) {
  let total = 0;
  for (const n of rows) total += n;
  if (total === 0) return -1;
  const rank = Math.max(1, Math.ceil(q * total));
  let seen = 0;
  for (let r = 0; r < rows.length; r++) {
    seen += rows[r];
    if (seen >= rank) return r;
  }
  return rows.length - 1;
}
