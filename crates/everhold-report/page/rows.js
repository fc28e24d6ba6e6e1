// The selection of the events that a diagram shows, and their vertical positions.

/** @typedef {import("./model.js").Execution} Execution */

/**
 * The events to leave out, and the spacing of the rest.
 * @typedef {object} Choice
 * @property {Set<number>} hiddenNodes
 * @property {Set<string>} hiddenKinds
 * @property {Set<number> | undefined} only the events to show; undefined for all
 * @property {boolean} collapse whether runs of local events share one row
 * @property {"steps" | "time"} axis
 */

export const ROW = 26;
/** The largest gap on the time axis, in pixels. */
const GAP_MAX = 110;
const BLOCK = 64;

export class Rows {
  /**
   * @param {Execution} execution
   * @param {Choice} choice
   */
  constructor(execution, choice) {
    this.execution = execution;
    /** The events of each row; more than one where a run is collapsed. @type {number[][]} */
    this.rows = [];
    /** The row of each event, or -1. */
    this.rowOf = new Int32Array(execution.length).fill(-1);
    this.#choose(choice);
    this.tops = this.#space(choice.axis);
    /** @type {{message: number, from: number, to: number}[][]} */
    this.blocks = this.#arrows(choice);
  }

  get height() {
    return this.tops[this.rows.length] ?? 0;
  }

  /** @param {Choice} choice */
  #choose(choice) {
    let local = -1;
    this.execution.data.events.forEach((event, at) => {
      if (choice.hiddenNodes.has(event.n) || choice.hiddenKinds.has(event.k)) return;
      if (choice.only && !choice.only.has(at)) return;
      const alone = event.r?.length || event.s?.length || event.k === "crash" || event.k === "restart";
      const special = at === this.execution.data.violating || at === this.execution.data.turning;
      const joins = choice.collapse && !alone && !special;
      if (joins && local === event.n) {
        this.rows[this.rows.length - 1].push(at);
      } else {
        this.rows.push([at]);
      }
      local = joins ? event.n : -1;
      this.rowOf[at] = this.rows.length - 1;
    });
  }

  /** @param {"steps" | "time"} axis */
  #space(axis) {
    const tops = new Float64Array(this.rows.length + 1);
    const time = (/** @type {number} */ row) => this.execution.event(this.rows[row][0]).t ?? 0;
    const gaps = [];
    if (axis === "time") for (let row = 1; row < this.rows.length; row++) gaps.push(Math.max(0, time(row) - time(row - 1)));
    const sorted = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
    const usual = sorted[sorted.length >> 1] || 1;
    for (let row = 0; row < this.rows.length; row++) {
      const gap = gaps[row] ?? 0;
      const extra = gap > usual ? Math.min(GAP_MAX, 12 * Math.log2(gap / usual)) : 0;
      tops[row + 1] = tops[row] + ROW + extra;
    }
    return tops;
  }

  /** Messages, grouped by the blocks of rows that they cross. @param {Choice} choice */
  #arrows(choice) {
    /** @type {{message: number, from: number, to: number}[][]} */
    const blocks = Array.from({ length: Math.ceil(this.rows.length / BLOCK) + 1 }, () => []);
    this.execution.data.messages.forEach((message, number) => {
      if (message.to !== undefined && choice.hiddenNodes.has(message.to)) return;
      const from = message.s === undefined ? -1 : this.rowOf[message.s];
      const ends = message.d.map((at) => this.rowOf[at]).filter((row) => row >= 0);
      if (ends.length === 0 && from >= 0) ends.push(-1);
      for (const to of ends) {
        if (from < 0) continue;
        const last = to < 0 ? from : to;
        for (let block = Math.floor(from / BLOCK); block <= Math.floor(last / BLOCK); block++) {
          blocks[block].push({ message: number, from, to });
        }
      }
    });
    return blocks;
  }

  /**
   * The row at a height.
   * @param {number} y
   */
  at(y) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The middle of a row. @param {number} row */
  middle(row) {
    return this.tops[row] + ROW / 2;
  }

  /**
   * The vertical position of the boundary before an event, even if the event itself is hidden.
   * @param {number} at
   */
  before(at) {
    for (let event = at; event < this.rowOf.length; event++) {
      if (this.rowOf[event] >= 0) return this.tops[this.rowOf[event]];
    }
    return this.height;
  }

  /**
   * The messages that cross some rows, each once.
   * @param {number} first
   * @param {number} last
   */
  crossing(first, last) {
    /** @type {Set<{message: number, from: number, to: number}>} */
    const found = new Set();
    /** @type {Set<string>} */
    const seen = new Set();
    for (let block = Math.floor(first / BLOCK); block <= Math.floor(last / BLOCK); block++) {
      for (const arrow of this.blocks[block] ?? []) {
        const end = arrow.to < 0 ? arrow.from : arrow.to;
        const key = `${arrow.message} ${arrow.to}`;
        if (arrow.from <= last && end >= first && !seen.has(key)) {
          seen.add(key);
          found.add(arrow);
        }
      }
    }
    return found;
  }
}
