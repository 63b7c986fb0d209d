// What a panel shows, as a file: its picture as PNG or SVG, with its title and the stamp, and its
// figures as CSV. A picture is described by the panel alone: for SVG it draws with another pen.

const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

/// A pen that writes SVG: that part of a canvas's pen with which panels draw.
class SvgPen {
  constructor() {
    Object.assign(this, { parts: [], kept: [], path: "", moved: "", open: 0, clips: 0, dash: [],
      fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineJoin: "miter", globalAlpha: 1,
      font: "10px sans-serif", textAlign: "start", textBaseline: "alphabetic" });
    this.ruler = element("canvas").getContext("2d");
  }

  put(name, attributes, text = "") {
    const all = { ...attributes, opacity: this.globalAlpha, transform: this.moved || null };
    const written = Object.entries(all).filter(([, value]) => value !== null && value !== undefined)
      .map(([key, value]) => ` ${key}="${escaped(value)}"`);
    this.parts.push(`<${name}${written.join("")}>${escaped(text)}</${name}>`);
  }

  setTransform() { this.moved = ""; }
  translate(x, y) { this.moved += `translate(${x} ${y})`; }
  rotate(angle) { this.moved += `rotate(${angle * 180 / Math.PI})`; }
  setLineDash(dash) { this.dash = dash; }
  clearRect() {}
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${+x.toFixed(2)} ${+y.toFixed(2)}`; }
  lineTo(x, y) { this.path += `L${+x.toFixed(2)} ${+y.toFixed(2)}`; }
  rect(x, y, w, h) { this.path += `M${x} ${y}h${w}v${h}h${-w}z`; }
  arc(x, y, r) { this.path += `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }
  fill() { this.put("path", { d: this.path, fill: this.fillStyle }); }
  fillRect(x, y, width, height) { this.put("rect", { x, y, width, height, fill: this.fillStyle }); }

  line(d) {
    this.put("path", { d, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth,
      "stroke-linejoin": this.lineJoin, "stroke-dasharray": this.dash.join(" ") || null });
  }

  stroke() { this.line(this.path); }
  strokeRect(x, y, w, h) { this.line(`M${x} ${y}h${w}v${h}h${-w}z`); }

  save() {
    const { fillStyle, strokeStyle, lineWidth, lineJoin, globalAlpha, font, textAlign, textBaseline,
      dash, moved, open } = this;
    this.kept.push({ fillStyle, strokeStyle, lineWidth, lineJoin, globalAlpha, font, textAlign,
      textBaseline, dash, moved, open });
    this.open = 0;
  }

  restore() {
    this.parts.push("</g>".repeat(this.open));
    Object.assign(this, this.kept.pop());
  }

  clip() {
    this.clips += 1;
    this.open += 1;
    this.parts.push(`<clipPath id="clip${this.clips}"><path d="${this.path}"/></clipPath>`
      + `<g clip-path="url(#clip${this.clips})">`);
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  fillText(text, x, y, most = Infinity) {
    const narrow = this.measureText(text).width > most;
    const [, weight, size, family] = /^(\d+ )?([\d.]+)px (.*)$/.exec(this.font);
    this.put("text", {
      x, y, fill: this.fillStyle, "font-family": family, "font-size": size,
      "font-weight": weight?.trim(),
      dy: { top: "0.86em", middle: "0.35em" }[this.textBaseline],
      "text-anchor": { center: "middle", right: "end" }[this.textAlign],
      textLength: narrow ? most : null, lengthAdjust: narrow ? "spacingAndGlyphs" : null,
    }, text);
  }

  drawImage(sheet, x, y, width, height) {
    this.put("image", { x, y, width, height, href: sheet.toDataURL(), preserveAspectRatio: "none",
      "image-rendering": "pixelated" });
  }
}

/// The height above a saved picture that its title takes, in pixels of the page.
const ABOVE = 26;

const titleOf = (panel) => `${panel.title} · ${document.querySelector("h1").textContent}`;

function asPng(panel) {
  const { width, height } = panel.base, dense = panel.dense, above = Math.round(ABOVE * dense);
  const sheet = element("canvas", { width, height: height + above });
  const pen = sheet.getContext("2d");
  pen.fillStyle = colour("--page");
  pen.fillRect(0, 0, width, height + above);
  pen.fillStyle = colour("--ink");
  pen.font = `600 ${13 * dense}px system-ui, "Liberation Sans", Arial, sans-serif`;
  pen.fillText(titleOf(panel), 8 * dense, 18 * dense);
  pen.drawImage(panel.base, 0, above);
  return sheet.toDataURL();
}

function asSvg(panel) {
  const pen = new SvgPen(), width = panel.plot.clientWidth, height = panel.height + ABOVE;
  pen.fillStyle = colour("--page");
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = colour("--ink");
  pen.font = '600 13px system-ui, "Liberation Sans", Arial, sans-serif';
  pen.fillText(titleOf(panel), 8, 18);
  pen.parts.push(`<g transform="translate(0 ${ABOVE})">`);
  panel.base.getContext = () => pen;
  try {
    panel.redraw();
  } finally {
    delete panel.base.getContext;
    panel.redraw();
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">`
    + `${pen.parts.join("\n")}</g></svg>\n`;
}

/// The rows of a chart: a layer, where along the chart, and what is there. A place that is a
/// point has no end.
function chartRows({ x, y, layers }) {
  const along = (value) => x.spacing === "nines" ? 100 * (1 - 10 ** -value) : value;
  const rows = [["layer", `x (${x.spacing === "nines" ? "%" : x.unit})`, "x to", `y (${y.unit})`,
    "y to", "count"]];
  for (const layer of layers.filter((layer) => !layer.hidden)) {
    const row = (...cells) => rows.push([layer.name, ...cells]);
    if (layer.shape === "series") {
      const at = (step) => layer.start_ns + step * layer.step_ns;
      layer.values.forEach((value, i) => row(at(i), at(i + 1), value, "", ""));
    } else if (layer.shape === "bins") {
      layer.counts.forEach((n, i) => row(layer.edges[i], layer.edges[i + 1], "", "", n));
    } else if (layer.shape === "curve") {
      for (const [a, b] of layer.points) row(along(a), "", b, "", "");
    } else {
      const { x: columns, y: levels, n } = layer.cells;
      n.forEach((count, i) => row(cellEdge(layer.x, columns[i]), cellEdge(layer.x, columns[i] + 1),
        cellEdge(layer.y, levels[i]), cellEdge(layer.y, levels[i] + 1), count));
    }
  }
  return rows;
}

/// The points of lines over the part shown, as they are drawn.
function seriesRows({ series, drawn, text }) {
  const unit = text === spanText ? " (ns)" : "";
  const rows = [["from (ns)", "to (ns)", ...series.map(({ name }) => name + unit)]];
  drawn.points.forEach(([from, to], i) => rows.push([from * run.width_ns, to * run.width_ns,
    ...drawn.values.map((values) => values[i])]));
  return rows;
}

/// A table as CSV. Foreign names must not become formulas of a spreadsheet.
function csvText(rows) {
  const cell = (value) => {
    if (typeof value === "number") return String(value);
    const text = String(value ?? "").replace(/^[=+\-@]/, "'$&");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/// The buttons that save a panel, as far as it has what they save.
function saver(panel) {
  const made = element("span", { className: "save" });
  const add = (name, href) => {
    const button = element("button", { type: "button", textContent: name });
    button.setAttribute("aria-label", `save ${panel.title} as ${name}`);
    button.addEventListener("click", () => {
      element("a", { href: href(), download: `${panel.title}.${name.toLowerCase()}` }).click();
    });
    made.append(button);
  };
  const file = (type, text) => URL.createObjectURL(new Blob([text], { type }));
  add("PNG", () => asPng(panel));
  add("SVG", () => file("image/svg+xml", asSvg(panel)));
  const rows = panel.chart ? () => chartRows(panel.chart)
    : panel instanceof Series ? () => seriesRows(panel) : null;
  if (rows) add("CSV", () => file("text/csv", csvText(rows())));
  return made;
}
