// An execution as the page sees it: states, order and faults.

import { changed, differences } from "./values.js";

/** @typedef {import("./values.js").Value} Value */
/** @typedef {import("./values.js").Step} Step */
/** @typedef {import("./values.js").Difference} Difference */

/**
 * An event as Rust writes it: node, kind, label, time, messages received and sent, the state
 * or its changes, a line for people.
 * @typedef {object} EventData
 * @property {number} n
 * @property {string} k
 * @property {string} [l]
 * @property {number} [t]
 * @property {number[]} [r]
 * @property {number[]} [s]
 * @property {Value} [o]
 * @property {[Step[], Value?][]} [c]
 * @property {string} [x]
 */

/**
 * A message as Rust writes it: label, sender, receiver, payload, the events at its ends, fate.
 * @typedef {object} MessageData
 * @property {string} l
 * @property {number} f
 * @property {number} [to]
 * @property {Value} [p]
 * @property {number} [s]
 * @property {number[]} d
 * @property {boolean} [lost]
 */

/**
 * @typedef {object} MarkData
 * @property {number} after
 * @property {"partition" | "heal" | "fault"} kind
 * @property {string} text
 * @property {number} [node]
 */

/**
 * @typedef {object} ExecutionData
 * @property {string} title
 * @property {{name: string, kind: string}[]} nodes
 * @property {EventData[]} events
 * @property {MessageData[]} messages
 * @property {MarkData[]} marks
 * @property {number} first the number of the first event in the data
 * @property {number} left the number of events after the last one in the data
 * @property {number} [violating]
 * @property {number} [turning]
 * @property {string} [turned]
 * @property {number[]} [path] the critical path
 * @property {"ns" | "ticks" | "steps" | "wall"} [unit]
 */

/** The number of events between two whole states that are kept of a node. */
const KEYFRAME = 32;

export class Execution {
  /** @param {ExecutionData} data */
  constructor(data) {
    this.data = data;
    this.names = data.nodes.map((node) => node.name);
    /** The events of each node. @type {number[][]} */
    this.byNode = data.nodes.map(() => []);
    /** The place of each event among those of its node. */
    this.place = new Int32Array(data.events.length);
    data.events.forEach((event, at) => {
      this.place[at] = this.byNode[event.n].length;
      this.byNode[event.n].push(at);
    });
    /** @type {Map<number, Value>} */
    this.keyframes = new Map();
    this.lives = data.nodes.map((_, node) => this.#lives(node));
    this.bands = this.#bands();
  }

  get length() {
    return this.data.events.length;
  }

  /** @param {number} at */
  event(at) {
    return this.data.events[at];
  }

  /** @param {number} at */
  number(at) {
    return this.data.first + at;
  }

  /**
   * The number under which people know an event: that of its step where a test numbers steps.
   * @param {number} at
   */
  step(at) {
    const { t } = this.data.events[at];
    return this.data.unit === "steps" && t !== undefined ? t : this.number(at);
  }

  /** The first event with this step's number; -1 if there is none. @param {number} step */
  atStep(step) {
    return this.data.events.findIndex((_, at) => this.step(at) === step);
  }

  /**
   * A node's state after its event number `place`; undefined before its first event and after a
   * crash.
   * @param {number} node
   * @param {number} place
   * @returns {Value | undefined}
   */
  #state(node, place) {
    const own = this.byNode[node];
    let from = place;
    /** @type {Value | undefined} */
    let state;
    for (; from >= 0; from--) {
      const event = this.data.events[own[from]];
      if (event.o !== undefined || event.k === "crash") break;
      if (from % KEYFRAME === 0 && this.keyframes.has(own[from])) break;
    }
    if (from >= 0) {
      const event = this.data.events[own[from]];
      state = event.o ?? (event.k === "crash" ? undefined : this.keyframes.get(own[from]));
    }
    for (let at = from + 1; at <= place; at++) {
      for (const [steps, now] of this.data.events[own[at]].c ?? []) state = changed(state, steps, now);
      if (at % KEYFRAME === 0 && state !== undefined) this.keyframes.set(own[at], state);
    }
    return state;
  }

  /**
   * A node's state after the first `at + 1` events of the execution.
   * @param {number} node
   * @param {number} at
   */
  stateAt(node, at) {
    return this.#state(node, this.placeBefore(node, at));
  }

  /**
   * The place of the node's last event up to `at`, or -1.
   * @param {number} node
   * @param {number} at
   */
  placeBefore(node, at) {
    const own = this.byNode[node];
    let low = 0;
    let high = own.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (own[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /**
   * The changes that an event made at its node.
   * @param {number} at
   * @returns {Difference[]}
   */
  changes(at) {
    const { n, k } = this.data.events[at];
    if (k === "crash") return [];
    const place = this.place[at];
    const old = place > 0 ? this.#state(n, place - 1) : undefined;
    const now = this.#state(n, place);
    // A node that shows null shows nothing, such as after a panic.
    if (old === undefined || now === undefined || now === null) return [];
    return differences(old, now, this.names);
  }

  /**
   * The events that an event depends on, itself included.
   * @param {number} start
   */
  past(start) {
    return this.#reach(start, (at) => {
      const event = this.data.events[at];
      const before = this.place[at] > 0 ? [this.byNode[event.n][this.place[at] - 1]] : [];
      for (const message of event.r ?? []) {
        const sent = this.data.messages[message].s;
        if (sent !== undefined) before.push(sent);
      }
      return before;
    });
  }

  /**
   * The events that depend on an event, itself included.
   * @param {number} start
   */
  future(start) {
    return this.#reach(start, (at) => {
      const event = this.data.events[at];
      const next = this.byNode[event.n][this.place[at] + 1];
      const after = next === undefined ? [] : [next];
      for (const message of event.s ?? []) after.push(...this.data.messages[message].d);
      return after;
    });
  }

  /**
   * @param {number} start
   * @param {(at: number) => number[]} next
   */
  #reach(start, next) {
    const seen = new Set([start]);
    const open = [start];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const other of next(at)) {
        if (!seen.has(other)) {
          seen.add(other);
          open.push(other);
        }
      }
    }
    return seen;
  }

  /**
   * The stretches in which a node is up, each from one event to another by their numbers in the
   * execution.
   * @param {number} node
   * @returns {[number, number][]}
   */
  #lives(node) {
    /** @type {[number, number][]} */
    const lives = [];
    let since = 0;
    let up = true;
    for (const at of this.byNode[node]) {
      const kind = this.data.events[at].k;
      if (kind === "crash" && up) {
        lives.push([since, at]);
        up = false;
      } else if (kind === "restart") {
        since = at;
        up = true;
      }
    }
    if (up) lives.push([since, this.length]);
    return lives;
  }

  /** The stretches in which the network is partitioned. */
  #bands() {
    /** @type {{from: number, to: number, text: string}[]} */
    const bands = [];
    for (const mark of this.data.marks) {
      const open = bands[bands.length - 1];
      if (mark.kind !== "fault" && open && open.to < 0) open.to = mark.after;
      if (mark.kind === "partition") bands.push({ from: mark.after, to: -1, text: mark.text });
    }
    for (const band of bands) if (band.to < 0) band.to = this.length;
    return bands;
  }

  /**
   * An event in a few words.
   * @param {number} at
   */
  words(at) {
    const event = this.data.events[at];
    if (event.k === "deliver" && event.r?.length) {
      const message = this.data.messages[event.r[0]];
      return `${message.l || "message"} ← ${this.names[message.f] ?? "?"}`;
    }
    return event.l ? `${event.k} ${event.l}` : event.k;
  }

  /**
   * The time of an event, in words.
   * @param {number} at
   */
  time(at) {
    const { t } = this.data.events[at];
    if (t === undefined) return "";
    switch (this.data.unit) {
      case "ns": return duration(t);
      case "steps": return "";
      case "wall": return new Date(t / 1e6).toISOString().slice(11, 23);
      default: return String(t);
    }
  }
}

/**
 * Nanoseconds in words.
 * @param {number} ns
 */
export function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${trim(ns / 1e9)} s`;
  if (size >= 1e6) return `${trim(ns / 1e6)} ms`;
  if (size >= 1e3) return `${trim(ns / 1e3)} µs`;
  return `${trim(ns)} ns`;
}

/** @param {number} number */
function trim(number) {
  return String(Number(number.toPrecision(4)));
}
