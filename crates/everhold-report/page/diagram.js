// The space-time diagram: one lane for each node, time downwards. Only the visible part is drawn,
// so the cost does not depend on the length of the execution.

import { el, svg } from "./dom.js";
import { duration } from "./model.js";
import { ROW, Rows } from "./rows.js";
import { show } from "./values.js";

/** @typedef {import("./model.js").Execution} Execution */
/** @typedef {import("./rows.js").Choice} Choice */

const EDGE = 8;
/** The position of the first lane, the smallest gap between lanes, and the width of the text after them. */
const WIDE = { lanes: 276, gap: 72, text: 280 };
/** The same where two diagrams are side by side. */
const NARROW = { lanes: 256, gap: 46, text: 150 };
const EXPORT_ROWS = 2000;
const MARKS = { partition: "network parted: ", heal: "network whole again", fault: "" };

/** A text with its middle left out where it has more than some characters. @param {string} text @param {number} most */
function middle(text, most) {
  if (text.length <= most) return text;
  const kept = Math.max(2, most - 1);
  return `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
}

/** The places of a label along its arrow, in the order in which they are tried. */
const ALONG = [0.5, 0.3, 0.7, 0.4, 0.6, 0.2, 0.8];

/** @typedef {{left: number, right: number, y: number}} Box */

/**
 * The first place at which a label overlaps no other one, or the first place of all.
 * @param {string} label
 * @param {number[][]} places
 * @param {Box[]} labels
 */
function free(label, places, labels) {
  // Labels are centred, and their letters are about this wide.
  const half = (label.length * 7) / 2 + 2;
  const box = (/** @type {number[]} */ [x, y]) => ({ left: x - half, right: x + half, y });
  const meets = (/** @type {Box} */ one) => labels.some((other) => one.left < other.right && other.left < one.right && Math.abs(one.y - other.y) < 11);
  const place = places.find((place) => !meets(box(place))) ?? places[0];
  labels.push(box(place));
  return place;
}

export class Diagram {
  /**
   * @param {Execution} execution
   * @param {{id: string, narrow: boolean, select: (at: number) => void, scrolled: (top: number) => void}} host
   */
  constructor(execution, host) {
    this.execution = execution;
    this.host = host;
    this.size = host.narrow ? NARROW : WIDE;
    this.selected = -1;
    /** @type {Set<number> | undefined} */
    this.lit = undefined;
    /** @type {Set<number>} */
    this.hits = new Set();
    this.heads = el("div", { class: "heads", "aria-hidden": "true" });
    this.lanes = svg("svg", { class: "lanes", "aria-hidden": "true" });
    this.list = el("div", { class: "events", role: "listbox", "aria-label": "events", tabindex: "0" });
    this.body = el("div", { class: "body" }, this.lanes, this.list);
    this.element = el("div", { class: "diagram", "aria-label": execution.data.title }, this.heads, this.body);
    this.element.addEventListener("scroll", () => {
      this.#later();
      host.scrolled(this.element.scrollTop);
    });
    new ResizeObserver(() => this.layout()).observe(this.element);
    this.pending = false;
    /** @type {number[]} */
    this.columns = [];
    this.gap = 100;
    this.textAt = 0;
    /** @type {Choice} */
    this.choice = { hiddenNodes: new Set(), hiddenKinds: new Set(), only: undefined, collapse: false, axis: "steps" };
    this.rows = new Rows(execution, this.choice);
    this.choose(this.choice);
  }

  /** @param {Choice} choice */
  choose(choice) {
    this.choice = choice;
    this.rows = new Rows(this.execution, choice);
    this.body.style.height = `${this.rows.height + ROW}px`;
    this.layout();
  }

  layout() {
    const nodes = this.execution.data.nodes.map((_, node) => node).filter((node) => !this.choice.hiddenNodes.has(node));
    const room = Math.max(0, this.element.clientWidth - this.size.lanes - this.size.text);
    this.gap = Math.max(this.size.gap, Math.min(150, nodes.length > 1 ? room / nodes.length : 150));
    this.columns = this.execution.data.nodes.map(() => -1);
    nodes.forEach((node, at) => (this.columns[node] = this.size.lanes + at * this.gap));
    this.textAt = this.size.lanes + Math.max(0, nodes.length - 1) * this.gap + 40;
    this.body.style.width = `max(100%, ${this.textAt + this.size.text}px)`;
    this.heads.style.width = this.body.style.width;
    this.heads.replaceChildren(...nodes.map((node) => this.#head(node)));
    this.#later();
  }

  /** @param {number} node */
  #head(node) {
    const { name, kind } = this.execution.data.nodes[node];
    const title = kind && kind !== name ? `${name} (${kind})` : name;
    const style = `left:${this.columns[node]}px;max-width:${this.gap - 6}px`;
    return el("span", { class: "head", style, title }, middle(name, Math.floor((this.gap - 6) / 7.5)));
  }

  #later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, this.rows.at(scrollTop - 4 * ROW) - 2);
    const last = Math.min(this.rows.rows.length - 1, this.rows.at(scrollTop + clientHeight + 4 * ROW) + 2);
    const top = this.rows.tops[first] ?? 0;
    const height = (this.rows.tops[last + 1] ?? 0) - top + ROW;
    this.lanes.style.top = `${top}px`;
    this.lanes.setAttribute("width", String(Math.max(this.textAt + this.size.text, this.element.clientWidth)));
    this.lanes.setAttribute("height", String(height));
    this.lanes.setAttribute("viewBox", `0 ${top} ${this.lanes.getAttribute("width")} ${height}`);
    this.lanes.replaceChildren(...this.#picture(first, last));
    const rows = [];
    for (let row = first; row <= last; row++) rows.push(this.#row(row));
    this.list.replaceChildren(...rows);
    const chosen = this.rows.rowOf[this.selected] ?? -1;
    if (chosen >= 0) this.list.setAttribute("aria-activedescendant", this.#id(this.selected));
  }

  /** @param {number} at */
  #id(at) {
    return `${this.host.id}-event-${at}`;
  }

  /** Whether an event is outside of the highlighted ones. @param {number[]} events */
  #isDim(events) {
    const { lit } = this;
    return lit !== undefined && !events.some((at) => lit.has(at));
  }

  /** @param {number} row */
  #row(row) {
    const events = this.rows.rows[row];
    const at = events[events.length - 1];
    const { data, names } = this.execution;
    const event = data.events[at];
    const words = events.length > 1 ? `${events.length} local steps` : this.execution.words(at);
    const classes = ["event", `kind-${event.k}`];
    const chosen = events.includes(this.selected);
    if (chosen) classes.push("selected");
    if (this.#isDim(events)) classes.push("dim");
    if (events.some((one) => this.hits.has(one))) classes.push("hit");
    if (data.violating !== undefined && events.includes(data.violating)) classes.push("violating");
    if (data.turning !== undefined && events.includes(data.turning)) classes.push("turning");
    const line = el("span", { class: "what" },
      el("span", { class: "number" }, this.choice.axis === "time" ? this.execution.time(at) || String(this.execution.step(at)) : String(this.execution.step(at))),
      el("span", { class: "who" }, names[event.n]), words);
    const then = this.#then(events, at);
    const title = then.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
    const text = el("span", { class: "then", style: `left:${this.textAt}px`, title }, ...then);
    const style = `top:${this.rows.tops[row]}px`;
    return el("div", {
      id: this.#id(at), role: "option", class: classes.join(" "), style, "aria-selected": chosen ? "true" : "false",
      click: () => this.host.select(at),
    }, line, text);
  }

  /**
   * The text on the right of a row: verdicts that became false, changes, and the note.
   * @param {number[]} events
   * @param {number} at
   */
  #then(events, at) {
    const { data, names } = this.execution;
    const parts = [];
    if (events.includes(data.violating ?? -1)) parts.push(el("b", { class: "bad" }, "✗ violated here "));
    if (events.includes(data.turning ?? -1)) parts.push(el("b", { class: "turn" }, `◆ ${data.turned ?? "turns bad here"} `));
    for (const mark of data.marks) {
      const row = Math.min(mark.after, this.execution.length - 1);
      if (events.includes(row)) parts.push(el("b", { class: "fault" }, `⚡ ${MARKS[mark.kind]}${mark.text} `));
    }
    const changes = events.length > 1 ? [] : this.execution.changes(at);
    const shown = changes.slice(0, 4).map(({ path, old, now }) => {
      if (old === undefined) return `${path} + ${show(now, names)}`;
      return now === undefined ? `${path} − ${show(old, names)}` : `${path} ${show(old, names)} → ${show(now, names)}`;
    });
    if (changes.length > 4) shown.push(`${changes.length - 4} more`);
    return [...parts, shown.join(" · ")];
  }

  /**
   * @param {number} first
   * @param {number} last
   * @returns {SVGElement[]}
   */
  #picture(first, last) {
    return [...this.#bands(first, last), ...this.#lines(first, last), ...this.#gaps(first, last), ...this.#arrows(first, last), ...this.#dots(first, last)];
  }

  /** @param {number} first @param {number} last */
  #bands(first, last) {
    const left = this.size.lanes - 24;
    const width = this.textAt - this.size.lanes + 16;
    return this.execution.bands.flatMap((band) => {
      const top = Math.max(this.rows.before(band.from), this.rows.tops[first]);
      const bottom = Math.min(this.rows.before(band.to), this.rows.tops[last + 1]);
      if (bottom <= top) return [];
      return [svg("g", { class: "band" }, svg("rect", { x: left, y: top, width, height: bottom - top }))];
    });
  }

  /** @param {number} first @param {number} last */
  #lines(first, last) {
    const [top, bottom] = [this.rows.tops[first], this.rows.tops[last + 1]];
    return this.columns.flatMap((x, node) => {
      if (x < 0) return [];
      const down = svg("line", { class: "down", x1: x, x2: x, y1: top, y2: bottom });
      const up = this.execution.lives[node].flatMap(([from, to]) => {
        const y1 = Math.max(top, from === 0 ? top : this.#middleOf(from));
        const y2 = Math.min(bottom, to >= this.execution.length ? bottom : this.#middleOf(to));
        return y2 > y1 ? [svg("line", { class: "up", x1: x, x2: x, y1, y2 })] : [];
      });
      return [down, ...up];
    });
  }

  /** @param {number} at */
  #middleOf(at) {
    const row = this.rows.rowOf[at];
    return row >= 0 ? this.rows.middle(row) : this.rows.before(at);
  }

  /** Long waits on the time axis. @param {number} first @param {number} last */
  #gaps(first, last) {
    const found = [];
    for (let row = first; row < last; row++) {
      const [top, next] = [this.rows.tops[row] + ROW, this.rows.tops[row + 1]];
      if (next - top < 20) continue;
      const [from, to] = [row, row + 1].map((one) => this.execution.event(this.rows.rows[one][0]).t ?? 0);
      const wait = this.execution.data.unit === "ticks" ? String(to - from) : duration(to - from);
      found.push(svg("text", { class: "gap", x: this.size.lanes - 14, y: (top + next) / 2 + 4 }, `⋮ ${wait}`));
    }
    return found;
  }

  /** @param {number} first @param {number} last */
  #arrows(first, last) {
    const arrows = [];
    /** @type {Box[]} */
    const labels = [];
    for (const { message, from, to } of this.rows.crossing(first, last)) {
      const { l, f, to: target, lost, d } = this.execution.data.messages[message];
      const [x1, y1] = [this.columns[f], this.rows.middle(from)];
      const node = to >= 0 ? this.execution.event(this.rows.rows[to][0]).n : target;
      if (x1 < 0 || node === undefined || this.columns[node] < 0) continue;
      const ends = this.rows.rows[from].concat(to >= 0 ? this.rows.rows[to] : []);
      const classes = ["arrow"];
      if (to < 0) classes.push(lost ? "lost" : "flying");
      if (to >= 0 && d.length > 1 && this.rows.rowOf[d[0]] !== to) classes.push("again");
      if (this.#isDim(ends.slice(-1))) classes.push("dim");
      if (ends.includes(this.selected)) classes.push("touched");
      const whole = { x1, y1, x2: this.columns[node], y2: to >= 0 ? this.rows.middle(to) : y1 + ROW * 0.9 };
      arrows.push(this.#arrow(l, classes, whole, to >= 0 ? 1 : 0.6, lost === true && to < 0, labels));
    }
    return arrows;
  }

  /**
   * @param {string} label
   * @param {string[]} classes
   * @param {{x1: number, y1: number, x2: number, y2: number}} ends
   * @param {number} share the part of the way that the message covers
   * @param {boolean} lost
   * @param {Box[]} labels the places that other labels take
   */
  #arrow(label, classes, { x1, y1, x2, y2 }, share, lost, labels) {
    const toSelf = x1 === x2;
    const [endX, endY] = [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
    const length = Math.hypot(endX - x1, endY - y1) || 1;
    const [ux, uy] = toSelf ? [-1, 0] : [(endX - x1) / length, (endY - y1) / length];
    const stop = share === 1 ? EDGE : 0;
    const [tipX, tipY] = toSelf ? [x1 + EDGE, y2] : [endX - ux * stop, endY - uy * stop];
    const path = toSelf
      ? `M${x1 + 5} ${y1} C${x1 + 40} ${y1} ${x1 + 40} ${y2} ${tipX} ${tipY}`
      : `M${x1 + ux * 5} ${y1 + uy * 5} L${tipX} ${tipY}`;
    const wing = (/** @type {number} */ side) => `${tipX - ux * 8 - uy * side * 4} ${tipY - uy * 8 + ux * side * 4}`;
    // A message that arrives has its label half-way; one that does not has it at its end, away from
    // others on the same way.
    const at = (/** @type {number} */ along) => [x1 + (tipX - x1) * along, y1 + (tipY - y1) * along - (share === 1 ? 4 : 8)];
    const places = toSelf ? [[x1 + 34, (y1 + y2) / 2]] : share === 1 ? ALONG.map(at) : [at(1)];
    const [midX, midY] = free(label, places, labels);
    return svg("g", { class: classes.join(" ") },
      svg("path", { class: "line", d: path }),
      lost ? svg("text", { class: "cross", x: tipX, y: tipY + 5 }, "✕") : svg("path", { class: "tip", d: `M${tipX} ${tipY} L${wing(1)} L${wing(-1)} Z` }),
      svg("text", { class: "label", x: midX, y: midY }, label));
  }

  /** @param {number} first @param {number} last */
  #dots(first, last) {
    const dots = [];
    for (let row = first; row <= last; row++) {
      const events = this.rows.rows[row];
      const event = this.execution.event(events[events.length - 1]);
      const x = this.columns[event.n];
      if (x < 0) continue;
      const classes = ["dot", `kind-${event.k}`];
      if (events.includes(this.selected)) classes.push("selected");
      if (this.#isDim(events)) classes.push("dim");
      if (events.includes(this.execution.data.violating ?? -1)) classes.push("violating");
      dots.push(svg("g", { class: classes.join(" ") }, dot(event.k, x, this.rows.middle(row))));
    }
    return dots;
  }

  /** @param {number} at */
  select(at) {
    this.selected = at;
    this.#later();
  }

  /** Brings an event into view. @param {number} at */
  reveal(at) {
    const row = this.rows.rowOf[at];
    if (!(row >= 0)) return;
    const { scrollTop, clientHeight } = this.element;
    const top = this.rows.tops[row];
    if (top < scrollTop + 2 * ROW || top > scrollTop + clientHeight - 4 * ROW) {
      this.element.scrollTop = Math.max(0, top - clientHeight / 3);
    }
    this.#revealLane(this.columns[this.execution.event(at).n]);
  }

  /** Brings a lane into view, where there are more than fit. @param {number} x */
  #revealLane(x) {
    const { scrollLeft, clientWidth } = this.element;
    if (x < scrollLeft + 20 || x > scrollLeft + clientWidth - 20) {
      this.element.scrollLeft = Math.max(0, x < clientWidth - this.size.gap ? 0 : x - clientWidth / 2);
    }
  }

  /** The first or the last visible event. @param {1 | -1} way */
  end(way) {
    return this.rows.rows.at(way === 1 ? -1 : 0)?.at(-1);
  }

  /** The next visible event in a direction. @param {number} at @param {1 | -1} way */
  neighbour(at, way) {
    const row = this.rows.rowOf[at];
    if (row >= 0) {
      const events = this.rows.rows[row + way];
      return events ? events[events.length - 1] : at;
    }
    for (let other = at + way; other >= 0 && other < this.rows.rowOf.length; other += way) {
      if (this.rows.rowOf[other] >= 0) return other;
    }
    return at;
  }

  /** The whole diagram as a file, up to a bound on its size. */
  toSvg() {
    const last = Math.min(this.rows.rows.length, EXPORT_ROWS) - 1;
    if (last < 0) return "";
    const height = this.rows.tops[last + 1] + 40;
    const width = this.textAt + this.size.text + 200;
    const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 -30 ${width} ${height}` });
    const style = svg("style", {}, document.querySelector("style")?.textContent ?? "");
    const heads = this.columns.flatMap((x, node) => (x < 0 ? [] : [svg("text", { class: "label", x, y: -12 }, this.execution.names[node])]));
    const texts = [];
    for (let row = 0; row <= last; row++) {
      const at = this.rows.rows[row][0];
      const y = this.rows.middle(row) + 4;
      const what = `${this.execution.step(at)}  ${this.execution.names[this.execution.event(at).n]}  ${this.execution.words(at)}`;
      texts.push(svg("text", { class: "text", x: 4, y }, what));
      const then = this.#then(this.rows.rows[row], at).map((part) => (typeof part === "string" ? part : part.textContent ?? "")).join("");
      texts.push(svg("text", { class: "text", x: this.textAt, y }, then.slice(0, 120)));
    }
    root.append(style, ...heads, ...this.#picture(0, last), ...texts);
    return new XMLSerializer().serializeToString(root);
  }
}

/**
 * An event's mark; kinds differ in form, not only in colour.
 * @param {string} kind
 * @param {number} x
 * @param {number} y
 */
function dot(kind, x, y) {
  switch (kind) {
    case "timer": return svg("rect", { x: x - 4.5, y: y - 4.5, width: 9, height: 9 });
    case "input": return svg("path", { d: `M${x} ${y - 6} L${x + 6} ${y} L${x} ${y + 6} L${x - 6} ${y} Z` });
    case "start": return svg("path", { d: `M${x - 5} ${y - 4} L${x + 5} ${y - 4} L${x} ${y + 5} Z` });
    case "crash": return svg("path", { class: "stroke", d: `M${x - 5} ${y - 5} L${x + 5} ${y + 5} M${x + 5} ${y - 5} L${x - 5} ${y + 5}` });
    case "restart": return svg("circle", { class: "hollow", cx: x, cy: y, r: 5 });
    case "local": return svg("circle", { cx: x, cy: y, r: 3 });
    default: return svg("circle", { cx: x, cy: y, r: 5 });
  }
}
