// The page that follows a running watch, which it asks every second for new data.

import { chart } from "./charts.js";
import { button, el } from "./dom.js";

/**
 * @typedef {object} Rule
 * @property {string} name
 * @property {string} [text]
 * @property {string} verdict
 * @property {string | null} [reason]
 * @property {string | null} [sampled] which part of the keys and moments is judged
 * @property {number} [firing]
 * @property {number} [violations]
 * @property {number} [possible]
 * @property {number} [evaluations]
 * @property {number} [unknown]
 * @property {number} [seconds]
 */

/**
 * @typedef {object} Violation
 * @property {number} number
 * @property {string} id
 * @property {string} rule
 * @property {any} key
 * @property {number} at nanoseconds since 1970
 * @property {number | null} resolved
 * @property {string} reason
 * @property {{[name: string]: any}} witness
 * @property {string} certainty
 */

/**
 * @typedef {object} Node
 * @property {number} id
 * @property {string} name
 * @property {string} kind
 * @property {boolean} up
 * @property {boolean} known
 * @property {number | null} clock_ahead_ms
 * @property {number | null} clock_error_ms
 * @property {boolean} clock_strays
 */

/**
 * @typedef {object} Status
 * @property {number} version
 * @property {number} now
 * @property {number} number
 * @property {string} verdict the verdict on all rules together
 * @property {string[]} failing the functions that do not work at present
 * @property {Rule[]} rules
 * @property {Node[]} nodes
 * @property {boolean} own_clock_strays
 * @property {number} lag_ms
 * @property {number} records
 * @property {number} late
 * @property {number} dropped
 * @property {number} keys
 * @property {number} waiting
 * @property {number | null} connections
 * @property {Violation[]} violations
 * @property {{number: number, event: string, at?: number, name?: string, rule?: string, reason?: string, names?: string[], refused?: string[]}[]} notices
 */

const LIVE_VERSION = 1;
const PERIOD = 1000;
/** The length of the history in the charts, in seconds. */
const HISTORY = 180;
/** The largest number of violations and notices in the lists. */
const LISTED = 100;

/** @param {Status} status */
function whyUnknown(status) {
  const reasons = status.rules.map((rule) => rule.reason ?? "").filter((reason) => reason !== "");
  return status.failing[0] ?? reasons[0] ?? "there are no rules";
}

/** @type {{[verdict: string]: [string, string]}} */
const WORDS = {
  holds: ["✓", "good"], violated: ["✗", "bad"], unknown: ["?", "turn"], disabled: ["–", "turn"], "not watched": ["–", "muted"],
};

class Live {
  constructor() {
    this.number = 0;
    /** @type {Map<string, Violation>} */
    this.violations = new Map();
    /** @type {Status["notices"]} */
    this.notices = [];
    /** The measurements of each answer. @type {{at: number, lag: number, records: number}[]} */
    this.past = [];
    /** @type {Status | undefined} */
    this.status = undefined;
    this.trouble = "";
    /** @type {Set<string>} */
    this.opened = new Set();
    this.head = el("header", { class: "page-head" });
    this.tiles = el("section", { class: "tiles", "aria-label": "counts" });
    this.rules = el("section", {});
    this.nodes = el("section", {});
    this.found = el("section", { "aria-live": "polite" });
    this.charts = el("section", { class: "charts" });
    this.told = el("section", {});
  }

  start() {
    const main = el("main", {}, this.tiles, this.rules, this.found, this.nodes, this.charts, this.told);
    document.body.replaceChildren(this.head, main,
      el("footer", { class: "muted" }, "asks /status.json once a second, and nothing from elsewhere"));
    this.#again();
  }

  async #again() {
    await this.#ask();
    this.#draw();
    setTimeout(() => this.#again(), PERIOD);
  }

  async #ask() {
    try {
      const answer = await fetch(`/status.json?since=${this.number}`, { cache: "no-store" });
      /** @type {Status} */
      const status = await answer.json();
      if (status.version !== LIVE_VERSION) throw new Error(`this page is of version ${LIVE_VERSION}, the watch of version ${status.version}; load it again`);
      this.#take(status);
      this.trouble = "";
    } catch (error) {
      this.trouble = error instanceof TypeError ? "the watch does not answer" : String(error instanceof Error ? error.message : error);
    }
  }

  /** @param {Status} status */
  #take(status) {
    // The numbers start from zero when the process restarts.
    if (status.number < this.number) {
      this.number = 0;
      this.violations.clear();
      this.notices = [];
      return;
    }
    this.number = status.number;
    for (const violation of status.violations) this.violations.set(violation.id, violation);
    this.notices.push(...status.notices);
    this.notices = this.notices.slice(-LISTED);
    this.past.push({ at: status.now / 1e9, lag: status.lag_ms, records: status.records });
    const since = status.now / 1e9 - HISTORY;
    this.past = this.past.filter(({ at }) => at >= since);
    this.status = status;
  }

  #draw() {
    const { status } = this;
    const [badge, kind] = this.trouble !== "" || !status ? ["… NOT CONNECTED", "slow"]
      : status.verdict === "violated" ? ["✗ VIOLATED", "violation"]
      : status.verdict === "holds" ? [status.rules.some((rule) => rule.sampled) ? "✓ ALL HOLD (some sampled)" : "✓ ALL HOLD", "clean"] : ["? UNKNOWN", "slow"];
    const why = status && status.verdict === "unknown" ? ` · ${whyUnknown(status)}` : "";
    this.head.className = `page-head is-${kind}`;
    this.head.replaceChildren(el("div", { class: "title" },
      el("span", { class: "badge" }, badge), el("h1", {}, "Everhold watch"),
      el("span", { class: "muted", role: "status" }, this.trouble || (status ? `as of ${clock(status.now)}${why}` : "asking"))));
    document.title = `${badge.slice(0, 1)} Everhold watch`;
    if (!status) return;
    this.tiles.replaceChildren(...this.#counts(status));
    this.rules.replaceChildren(...this.#ruleTable(status));
    this.nodes.replaceChildren(el("h2", {}, "Nodes"), ...nodeList(status));
    this.found.replaceChildren(...this.#violationList());
    this.charts.replaceChildren(...this.#curves());
    this.told.replaceChildren(...this.#noticeList());
  }

  /** @param {Status} status */
  #counts(status) {
    const up = status.nodes.filter((node) => node.up).length;
    const first = this.past[0];
    const last = this.past[this.past.length - 1];
    const rate = last.at > first.at ? (last.records - first.records) / (last.at - first.at) : 0;
    const firing = [...this.violations.values()].filter((one) => one.resolved === null).length;
    return [
      tile("ongoing violations", String(firing), firing > 0 ? "bad" : "good"),
      tile("nodes up", `${up} of ${status.nodes.length}`, up < status.nodes.length ? "turn" : ""),
      tile("lag", `${Math.round(status.lag_ms)} ms`, status.lag_ms > 1000 ? "turn" : ""),
      tile("records per second", grouped(Math.round(rate)), ""),
      tile("records", grouped(status.records), ""),
      tile("lost, late", `${grouped(status.dropped)}, ${grouped(status.late)}`, status.dropped + status.late > 0 ? "turn" : ""),
      tile("keys", grouped(status.keys), ""),
    ];
  }

  /** @param {Status} status */
  #ruleTable(status) {
    const rows = status.rules.map((rule) => {
      const [sign, kind] = WORDS[rule.verdict] ?? ["?", "turn"];
      const text = rule.text ?? rule.reason ?? "";
      const shown = this.opened.has(rule.name);
      const name = button(rule.name, () => {
        this.opened[shown ? "delete" : "add"](rule.name);
        this.#draw();
      }, { class: "plain-button", "aria-expanded": String(shown) });
      const part = rule.sampled ? ` (${rule.sampled})` : "";
      return [el("tr", {}, el("td", { class: kind }, `${sign} ${rule.verdict}${part}`), el("td", {}, name),
        ...[rule.firing, rule.violations, rule.possible, rule.evaluations, rule.unknown].map((count) => el("td", { class: "count" }, count === undefined ? "" : grouped(count))),
        el("td", { class: "count" }, cost(rule))),
      shown ? el("tr", {}, el("td", {}), el("td", { colspan: 7 }, el("pre", {}, text))) : undefined];
    });
    const columns = ["verdict", "property", "ongoing", "violations", "possible", "judged", "unknown", "µs each"];
    return [el("h2", {}, "Properties"), el("div", { class: "wide" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...columns.map((column, at) => el("th", { scope: "col", class: at > 1 ? "count" : "" }, column)))),
      el("tbody", {}, ...rows.flat())))];
  }

  #violationList() {
    const newest = [...this.violations.values()].sort((a, b) => b.at - a.at);
    const shown = newest.slice(0, LISTED).map((one) => el("article", { class: `property verdict-${one.resolved === null ? "violated" : "holds"}` },
      el("h3", {}, `${one.resolved === null ? "✗" : "✓"} ${one.certainty === "possible" ? "possibly: " : ""}${one.rule}${one.key === null || one.key === undefined ? "" : ` for ${plain(one.key)}`}`),
      el("p", { class: "muted" }, one.resolved === null ? `since ${clock(one.at)}` : `from ${clock(one.at)}, for ${span(one.resolved - one.at)}`, ` · ${one.reason}`),
      el("table", { class: "diff" }, ...Object.entries(one.witness ?? {}).map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "now" }, plain(value))))),
      el("p", { class: "moves" }, el("a", { href: `/violations/${encodeURIComponent(one.id)}.html` }, "open the events that led to it"), " ",
        el("a", { href: `/violations/${encodeURIComponent(one.id)}.trace`, download: `${one.id}.trace` }, "save the trace"))));
    return [el("h2", {}, "Violations"), ...(shown.length > 0 ? shown : [el("p", { class: "muted" }, "none so far")])];
  }

  #curves() {
    const end = this.past[this.past.length - 1]?.at ?? 0;
    if (this.past.length < 3) return [];
    const rates = this.past.slice(1).map((now, at) => {
      const before = this.past[at];
      return /** @type {[number, number]} */ ([now.at - end, (now.records - before.records) / Math.max(1e-3, now.at - before.at)]);
    });
    const x = { name: "seconds ago" };
    const line = (/** @type {string} */ title, /** @type {string} */ unit, /** @type {[number, number][]} */ points) =>
      chart({ title, x, y: { name: unit }, series: [{ name: title, form: "line", points }] }, () => {});
    return [
      line("Lag", "milliseconds from arrival to judgement", this.past.map(({ at, lag }) => [at - end, lag])),
      line("Records", "per second", rates),
    ];
  }

  #noticeList() {
    const rows = this.notices.slice().reverse().map((notice) => {
      const parts = [notice.name ?? notice.rule ?? notice.names?.join(", "), notice.reason, notice.refused?.join("; ")];
      return el("tr", {}, el("td", { class: "muted" }, notice.at === undefined ? "" : clock(notice.at)), el("td", {}, notice.event), el("td", {}, parts.filter(Boolean).join(": ")));
    });
    if (rows.length === 0) return [];
    return [el("h2", {}, "Other notices"), el("div", { class: "wide" }, el("table", { class: "plain" }, el("tbody", {}, ...rows)))];
  }
}

/** @param {string} name @param {string} value @param {string} kind */
function tile(name, value, kind) {
  return el("div", { class: "tile" }, el("b", { class: kind }, value), el("span", { class: "muted" }, name));
}

/** @param {Status} status */
function nodeList(status) {
  if (status.nodes.length === 0) return [el("p", { class: "muted" }, "no node has been heard of; probes connect to the address that --listen gives")];
  const own = status.own_clock_strays ? [el("p", { class: "turn" }, "the clock of the watch disagrees with most nodes: set it")] : [];
  return [...own, el("p", { class: "moves" }, ...status.nodes.map((node) => {
    const [sign, kind, words] = !node.up ? ["✗", "bad", "is down"] : node.known ? ["●", "good", "is up"] : ["?", "turn", "is up, and behind: what depends on it is unknown"];
    return el("span", { class: "chip node-chip", title: `${node.name} (${node.kind}) ${words}${typeof node.clock_error_ms === "number" ? `; its clock is known to ${node.clock_error_ms} ms` : ""}` }, el("span", { class: kind }, sign), ` ${node.name}`, el("span", { class: "unseen" }, ` ${words}`),
      node.clock_strays ? el("span", { class: "turn" }, ` clock ${offset(node.clock_ahead_ms ?? 0)}`) : undefined);
  }))];
}

/** The offset of a clock, in words. @param {number} ms */
function offset(ms) {
  return `${(Math.abs(ms) / 1e3).toFixed(3)} s ${ms > 0 ? "ahead" : "behind"}`;
}

/** @param {Rule} rule */
function cost(rule) {
  return rule.evaluations ? ((rule.seconds ?? 0) / rule.evaluations * 1e6).toFixed(1) : "";
}

/** @param {any} value */
function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** @param {number} number */
function grouped(number) {
  return number.toLocaleString("en-US");
}

/** The time of day. @param {number} ns */
function clock(ns) {
  return `${new Date(ns / 1e6).toISOString().slice(11, 23)} UTC`;
}

/** @param {number} ns */
function span(ns) {
  return ns >= 1e9 ? `${(ns / 1e9).toFixed(1)} s` : `${Math.round(ns / 1e6)} ms`;
}

new Live().start();
