// Charts as SVG: lines with bands, steps, points, bars.

import { el, svg } from "./dom.js";
import { duration } from "./model.js";

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {"line" | "steps" | "points" | "bars"} form
 * @property {[number, number][]} points
 * @property {[number, number][]} [band] the lower and upper end at each point
 * @property {(Link | null)[]} [links]
 * @typedef {{execution: number, event: number}} Link
 */

/**
 * @typedef {object} Axis
 * @property {string} name
 * @property {"number" | "ns" | "share"} [unit]
 * @property {boolean} [log]
 * @property {string[]} [names] the names of the positions 0, 1 and so on
 */

/**
 * @typedef {object} ChartData
 * @property {string} title
 * @property {string} [text]
 * @property {Axis} x
 * @property {Axis} y
 * @property {Series[]} series
 * @property {{at: number, label: string}[]} [lines]
 */

const WIDTH = 560;
const HEIGHT = 260;
const LEFT = 62;
const RIGHT = 30;
const TOP = 24;
const BOTTOM = 44;
/** The largest number of names along an axis; of more names, some are omitted. */
const NAMES_MAX = 12;

class Scale {
  /**
   * @param {number[]} values
   * @param {Axis} axis
   * @param {[number, number]} range
   */
  constructor(values, axis, range) {
    this.axis = axis;
    const usable = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
    this.low = usable.length ? usable.reduce((a, b) => Math.min(a, b)) : axis.log ? 1 : 0;
    this.high = usable.length ? usable.reduce((a, b) => Math.max(a, b)) : 1;
    if (!axis.log && (axis.unit === "share" || this.low > 0 && this.low < this.high / 2)) this.low = 0;
    if (axis.unit === "share") this.high = 1;
    if (axis.names) [this.low, this.high] = [-0.5, axis.names.length - 0.5];
    if (this.low === this.high) this.high = axis.log ? this.low * 10 : this.low + 1;
    this.range = range;
  }

  /** @param {number} value */
  at(value) {
    const [from, to] = this.range;
    const place = (/** @type {number} */ number) => (this.axis.log ? Math.log(Math.max(number, this.low)) : number);
    const share = (place(value) - place(this.low)) / (place(this.high) - place(this.low));
    return from + (to - from) * share;
  }

  ticks() {
    if (this.axis.names) {
      const every = Math.ceil(this.axis.names.length / NAMES_MAX);
      return this.axis.names.map((_, at) => at).filter((at) => at % every === 0);
    }
    if (this.axis.log) {
      const found = [];
      for (let power = Math.floor(Math.log10(this.low)); power <= Math.ceil(Math.log10(this.high)); power++) {
        const value = 10 ** power;
        if (value >= this.low * 0.999 && value <= this.high * 1.001) found.push(value);
      }
      return found.length > 1 ? found : [this.low, this.high];
    }
    const rough = (this.high - this.low) / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((by) => by * unit).find((by) => by >= rough) ?? unit;
    const found = [];
    for (let value = Math.ceil(this.low / step) * step; value <= this.high * 1.0001; value += step) found.push(value);
    return found;
  }

  /** @param {number} value */
  label(value) {
    if (this.axis.names) return short(this.axis.names[value] ?? "");
    switch (this.axis.unit) {
      case "ns": return duration(value);
      case "share": return `${Math.round(value * 100)} %`;
      default: return Math.abs(value) >= 1e5 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
    }
  }
}

/**
 * @param {ChartData} data
 * @param {(link: Link) => void} open
 */
export function chart(data, open) {
  const all = data.series.flatMap((series) => series.points);
  const bands = data.series.flatMap((series) => (series.band ?? []).flat());
  const lines = data.lines ?? [];
  const x = new Scale([...all.map(([value]) => value), ...lines.map((line) => line.at)], data.x, [LEFT, WIDTH - RIGHT]);
  const y = new Scale([...all.map(([, value]) => value), ...bands], data.y, [HEIGHT - BOTTOM, TOP]);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": `${data.title}: ${data.x.name} against ${data.y.name}` },
    ...axes(x, y), ...lines.map((line, at) => marker(line, x, at)),
    ...data.series.flatMap((series, number) => draw(series, number, x, y, open)));
  const legend = data.series.length > 1
    ? el("p", { class: "legend" }, ...data.series.map((series, number) => el("span", { class: `series-${number % 6}` }, `${["●", "■", "▲", "◆", "▼", "○"][number % 6]} ${series.name}`)))
    : undefined;
  return el("figure", {}, el("figcaption", {}, data.title), picture, legend, data.text ? el("p", { class: "muted" }, data.text) : undefined);
}

/** @param {Scale} x @param {Scale} y */
function axes(x, y) {
  const bottom = HEIGHT - BOTTOM;
  return [
    ...x.ticks().map((value) => svg("g", { class: "tick" },
      svg("line", { x1: x.at(value), x2: x.at(value), y1: TOP, y2: bottom }),
      svg("text", { x: x.at(value), y: bottom + 15, "text-anchor": "middle" }, x.label(value)))),
    ...y.ticks().map((value) => svg("g", { class: "tick" },
      svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(value), y2: y.at(value) }),
      svg("text", { x: LEFT - 6, y: y.at(value) + 4, "text-anchor": "end" }, y.label(value)))),
    svg("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, x.axis.name),
    svg("text", { class: "axis", x: LEFT, y: 14, "text-anchor": "start" }, y.axis.name),
  ];
}

/** @param {{at: number, label: string}} line @param {Scale} x @param {number} number */
function marker(line, x, number) {
  const at = x.at(line.at);
  const late = at > WIDTH - 120;
  return svg("g", { class: "marker" },
    svg("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }),
    svg("text", { x: late ? at - 4 : at + 4, y: TOP + 12 + (number % 4) * 13, "text-anchor": late ? "end" : "start" }, line.label));
}

/**
 * @param {Series} series
 * @param {number} number
 * @param {Scale} x
 * @param {Scale} y
 * @param {(link: Link) => void} open
 * @returns {SVGElement[]}
 */
function draw(series, number, x, y, open) {
  const cls = `series-${number % 6}`;
  const places = series.points.map(([a, b]) => /** @type {[number, number]} */ ([x.at(a), y.at(b)]));
  const found = [];
  if (series.band && series.band.length === places.length && places.length > 0) {
    const upper = series.band.map(([, high], at) => `${places[at][0]},${y.at(high)}`);
    const lower = series.band.map(([low], at) => `${places[at][0]},${y.at(low)}`).reverse();
    found.push(svg("polygon", { class: `${cls} between`, points: [...upper, ...lower].join(" ") }));
  }
  if (series.form === "line" || series.form === "steps") found.push(svg("path", { class: `${cls} stroke`, d: path(places, series.form === "steps") }));
  if (series.form === "bars") found.push(...bars(places, cls, y.at(Math.max(0, y.low))));
  if (series.form === "points" || series.links) {
    found.push(...places.map(([px, py], at) => {
      const link = series.links?.[at];
      const label = svg("title", {}, `${series.name}: ${x.label(series.points[at][0])}, ${y.label(series.points[at][1])}`);
      if (!link) return svg("circle", { class: cls, cx: px, cy: py, r: 2.5 }, label);
      return svg("circle", { class: `${cls} link`, cx: px, cy: py, r: 4, tabindex: 0, role: "button", click: () => open(link),
        keydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && open(link) }, label);
    }));
  }
  return found;
}

/** @param {string} name */
function short(name) {
  return name.length > 9 ? `${name.slice(0, 8)}…` : name;
}

/** @param {[number, number][]} places @param {boolean} steps */
function path(places, steps) {
  return places.map(([px, py], at) => (at === 0 ? `M${px} ${py}` : steps ? `H${px} V${py}` : `L${px} ${py}`)).join(" ");
}

/** @param {[number, number][]} places @param {string} cls @param {number} base */
function bars(places, cls, base) {
  const gap = places.length > 1 ? Math.abs(places[1][0] - places[0][0]) : 20;
  const width = Math.max(1, Math.min(40, gap * 0.8));
  return places.map(([px, py]) => svg("rect", { class: cls, x: px - width / 2, y: Math.min(py, base), width, height: Math.abs(base - py) }));
}
