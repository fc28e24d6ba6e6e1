// The overview above the diagram: a line for each judged property, and one for faults, hits and the
// selection, over all steps of an execution.

import { el } from "./dom.js";
import { SIGNS } from "./detail.js";

/** @typedef {import("./model.js").Execution} Execution */
/** @typedef {import("./detail.js").PropertyData} PropertyData */

/** The largest number of lines for properties, and of marks in the last line. */
const LINES_MAX = 6;
const MARKS_MAX = 400;

export class Strip {
  /**
   * @param {Execution} execution
   * @param {PropertyData[]} properties those that were judged on this execution
   * @param {(at: number) => void} select
   */
  constructor(execution, properties, select) {
    this.execution = execution;
    this.marks = el("div", { class: "strip-line marks" });
    const judged = properties.filter((property) => property.changes?.length).slice(0, LINES_MAX);
    const lines = judged.map((property) => this.#line(property));
    this.element = el("div", {
      class: "strip", role: "img", "aria-label": "the verdicts of properties over all steps; click to go to a step",
      click: (/** @type {any} */ event) => {
        const box = this.marks.getBoundingClientRect();
        const share = (event.clientX - box.left) / Math.max(1, box.width);
        select(Math.min(execution.length - 1, Math.max(0, Math.floor(share * execution.length))));
      },
    }, ...lines, this.marks);
  }

  /** The left edge of an event, in per cent. @param {number} at */
  #left(at) {
    return (100 * Math.min(Math.max(0, at), this.execution.length)) / Math.max(1, this.execution.length);
  }

  /** @param {PropertyData} property */
  #line(property) {
    const changes = property.changes ?? [];
    const { first } = this.execution.data;
    const parts = changes.map(([from, verdict], number) => {
      const [left, right] = [from - first, (changes[number + 1]?.[0] ?? first + this.execution.length) - first].map((at) => this.#left(at));
      const style = `left:${left}%;width:${Math.max(0, right - left)}%`;
      return el("span", { class: `part part-${verdict}`, style, title: `${SIGNS[verdict] ?? "?"} ${property.name}` });
    });
    return el("div", { class: "strip-line" }, ...parts);
  }

  /** @param {number} selected @param {number[]} hits */
  draw(selected, hits) {
    const { marks, violating } = this.execution.data;
    const mark = (/** @type {number} */ at, /** @type {string} */ kind, /** @type {string} */ title) =>
      el("span", { class: `tick tick-${kind}`, style: `left:${this.#left(at + 0.5)}%`, title });
    const faults = marks.slice(0, MARKS_MAX).map(({ after, text }) => mark(after - 0.5, "fault", text));
    const found = hits.slice(0, MARKS_MAX).map((at) => mark(at, "hit", "found"));
    const bad = violating === undefined ? [] : [mark(violating, "bad", "violated here")];
    this.marks.replaceChildren(...faults, ...found, ...bad, mark(selected, "now", "selected"));
  }
}
