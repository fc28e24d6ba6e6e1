// The page as a whole: the selection, the keys, and the address.

import { chart } from "./charts.js";
import { detail } from "./detail.js";
import { Diagram } from "./diagram.js";
import { button, copyButton, el, save } from "./dom.js";
import { mermaid } from "./mermaid.js";
import { Execution } from "./model.js";
import { search } from "./query.js";
import { facts, header, property, rememberedTheme, showHelp, table } from "./sections.js";
import { Strip } from "./strip.js";

/** @typedef {import("./sections.js").PageData} PageData */
/** @typedef {import("./charts.js").Link} Link */

export const VERSION = 1;

class App {
  /** @param {PageData} data */
  constructor(data) {
    this.data = data;
    this.executions = data.executions.map((execution) => new Execution(execution));
    this.current = 0;
    this.selected = -1;
    /** @type {number[]} */
    this.hits = [];
    /** @type {"past" | "future" | undefined} */
    this.cone = undefined;
    this.hiddenNodes = this.executions.map(() => /** @type {Set<number>} */ (new Set()));
    /** @type {Set<string>} */
    this.hiddenKinds = new Set();
    this.collapse = false;
    /** Whether two executions are shown beside each other. */
    this.both = data.kind === "slow" && data.executions.length === 2;
    /** Whether only the critical path is shown. */
    this.critical = false;
    /** Waiting is visible only on an axis of time. @type {"steps" | "time"} */
    this.axis = data.kind === "slow" ? "time" : "steps";
    this.aside = el("aside", { class: "detail", "aria-label": "the selected event" });
    this.status = el("span", { class: "muted", role: "status" });
    this.live = el("p", { class: "unseen", "aria-live": "polite" });
    this.diagrams = this.executions.map((execution, number) => new Diagram(execution, {
      id: `x${number}`,
      narrow: this.both,
      select: (at) => this.select(number, at),
      scrolled: (top) => this.#align(number, top),
    }));
    // The verdicts belong to the first execution.
    this.strips = this.executions.map((execution, number) => new Strip(execution, number === 0 ? data.properties : [], (at) => this.select(number, at)));
  }

  get execution() {
    return this.executions[this.current];
  }

  get diagram() {
    return this.diagrams[this.current];
  }

  build() {
    const open = (/** @type {Link} */ link) => this.#open(link);
    const { data } = this;
    const charts = data.charts.length > 0 ? el("section", { class: "charts" }, ...data.charts.map((one) => chart(one, open))) : undefined;
    const stage = this.executions.length > 0 ? this.#stage() : undefined;
    // For slow executions and almost-invariants the charts are the overview; otherwise the
    // execution is.
    const overview = data.kind === "slow" || data.kind === "almost";
    const main = el("main", {}, facts(data),
      el("section", { class: "properties" }, ...data.properties.map((one) => property(one, open))),
      ...(overview ? [charts, stage] : [stage, charts]),
      ...data.tables.map((one) => table(one, open)));
    document.body.replaceChildren(header(data), main, this.live,
      el("footer", { class: "muted" }, `${data.program} · this page is one file and asks for nothing from outside`));
    document.title = `${data.headline} · Everhold`;
    if (this.executions.length === 0) return;
    this.#choose();
    document.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("hashchange", () => this.#follow());
    this.#follow();
  }

  #stage() {
    this.frames = this.diagrams.map((diagram, number) => el("div", { class: "frame" },
      this.executions.length > 1 ? el("h3", {}, this.executions[number].data.title) : undefined, this.strips[number].element, diagram.element));
    const cut = this.executions.map(({ data }) => this.#window(data)).filter((text) => text !== "");
    this.stage = el("section", { class: "stage" }, this.#controls(),
      ...[...new Set(cut)].map((text) => el("p", { class: "notice" }, text)),
      el("div", { class: this.both ? "pair" : "single" }, ...this.frames, this.aside));
    return this.stage;
  }

  /** Opens an event; a link names it by its number in the whole execution. @param {Link} link */
  #open({ execution, event }) {
    const { first, events } = this.data.executions[execution];
    if (event < first || event >= first + events.length) {
      this.live.textContent = this.status.textContent = `event ${event} is not on this page`;
      return;
    }
    this.select(execution, event - first);
    this.stage?.scrollIntoView({ block: "nearest" });
  }

  /** A sentence about the part of a long execution that is here. @param {import("./model.js").ExecutionData} data */
  #window(data) {
    if (data.first === 0 && data.left === 0) return "";
    const last = data.first + data.events.length - 1;
    return `This page holds the events ${data.first} to ${last}: the execution is too long to keep whole. ${data.left} ${data.left === 1 ? "event follows" : "events follow"}.`;
  }

  #controls() {
    this.searchBox = el("input", { type: "search", placeholder: "search: text or property   ( / )", "aria-label": "search events", input: () => this.#search() });
    const choose = this.executions.length > 1 && !this.both
      ? el("select", { "aria-label": "execution", change: (/** @type {any} */ event) => this.select(Number(event.target.value), -1) },
        ...this.executions.map((execution, number) => el("option", { value: number }, execution.data.title)))
      : undefined;
    this.chooser = choose;
    this.chips = el("span", { class: "chips" });
    const timed = this.executions.some((execution) => execution.data.unit !== undefined && execution.data.unit !== "ticks");
    return el("div", { class: "controls" }, choose, this.searchBox, this.status,
      button("‹", () => this.#jump(-1), { "aria-label": "previous violation or hit" }),
      button("›", () => this.#jump(1), { "aria-label": "next violation or hit" }),
      timed ? this.#toggle("time axis", this.axis === "time", (on) => (this.axis = on ? "time" : "steps")) : undefined,
      this.data.executions.some((one) => one.path?.length) ? this.#toggle("critical path only", false, (on) => (this.critical = on)) : undefined,
      this.#toggle("collapse local", false, (on) => (this.collapse = on)),
      this.chips,
      copyButton("copy as Mermaid", () => mermaid(this.execution, this.selected)),
      button("save SVG", () => save("execution.svg", "image/svg+xml", this.diagram.toSvg())));
  }

  /** @param {string} label @param {boolean} on @param {(on: boolean) => void} set */
  #toggle(label, on, set) {
    const box = el("input", { type: "checkbox", checked: on, change: () => {
      set(box.checked);
      this.#choose();
    } });
    return el("label", { class: "chip" }, box, label);
  }

  /** Chips for the nodes and the kinds of events that can be hidden. */
  #drawChips() {
    const hidden = this.hiddenNodes[this.current];
    const kinds = [...new Set(this.execution.data.events.map((event) => event.k))].sort();
    const nodes = this.execution.names.slice(0, 24);
    this.chips?.replaceChildren(
      ...nodes.map((name, node) => this.#chip(name, !hidden.has(node), (on) => (on ? hidden.delete(node) : hidden.add(node)))),
      ...kinds.map((kind) => this.#chip(kind, !this.hiddenKinds.has(kind), (on) => (on ? this.hiddenKinds.delete(kind) : this.hiddenKinds.add(kind)))));
  }

  /** @param {string} label @param {boolean} on @param {(on: boolean) => void} set */
  #chip(label, on, set) {
    const made = button(label, () => {
      const now = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", String(now));
      set(now);
      this.#choose();
      this.#address();
    }, { class: "chip", "aria-pressed": String(on) });
    return made;
  }

  #choose() {
    this.diagrams.forEach((diagram, number) => diagram.choose({
      hiddenNodes: this.hiddenNodes[number], hiddenKinds: this.hiddenKinds, only: this.#only(number),
      collapse: this.collapse, axis: this.axis,
    }));
    this.diagram.reveal(this.selected);
  }

  /** The events to show, or undefined for all. @param {number} number */
  #only(number) {
    const { path, turning } = this.data.executions[number];
    return this.critical && path?.length ? new Set([...path, turning ?? path[0]]) : undefined;
  }

  /** Aligns two executions at the event at which they part. @param {number} number @param {number} top */
  #align(number, top) {
    if (!this.both) return;
    const other = 1 - number;
    const [one, two] = [this.diagrams[number], this.diagrams[other]];
    const turn = (/** @type {Diagram} */ diagram) => diagram.rows.before(diagram.execution.data.turning ?? 0);
    const wanted = Math.max(0, top + turn(two) - turn(one));
    if (Math.abs(two.element.scrollTop - wanted) > 1) two.element.scrollTop = wanted;
  }

  /** @param {number} number @param {number} at */
  select(number, at) {
    const moved = number !== this.current;
    this.current = Math.min(Math.max(0, number), this.executions.length - 1);
    const { data, length } = this.execution;
    const wanted = at >= 0 ? at : data.violating ?? data.turning ?? 0;
    this.selected = Math.min(Math.max(0, wanted), length - 1);
    if (moved || this.chips?.children.length === 0) this.#show(moved);
    if (length === 0) return;
    this.cone = undefined;
    this.#draw();
    this.diagram.reveal(this.selected);
    this.live.textContent = `step ${this.execution.step(this.selected)}, ${this.execution.names[this.execution.event(this.selected).n]}, ${this.execution.words(this.selected)}`;
    this.#address();
  }

  /** @param {boolean} moved */
  #show(moved) {
    this.frames?.forEach((frame, at) => frame.toggleAttribute("hidden", !this.both && at !== this.current));
    if (this.chooser) this.chooser.value = String(this.current);
    this.#drawChips();
    if (moved) this.#search();
    this.diagram.layout();
  }

  #draw() {
    const lit = this.cone === undefined ? undefined : this.execution[this.cone](this.selected);
    this.diagrams.forEach((diagram, number) => {
      diagram.lit = number === this.current ? lit : undefined;
      diagram.hits = number === this.current ? new Set(this.hits) : new Set();
      diagram.select(number === this.current ? this.selected : -1);
      this.strips[number].draw(number === this.current ? this.selected : -1, number === this.current ? this.hits : []);
    });
    // The verdicts belong to the first execution.
    this.aside.replaceChildren(...detail(this.execution, this.selected, this.current === 0 ? this.data.properties : [], {
      select: (at) => this.select(this.current, at),
      light: (cone) => this.#light(cone),
      cut: this.data.kind === "almost",
    }));
  }

  /** @param {"past" | "future" | undefined} cone */
  #light(cone) {
    this.cone = cone;
    this.#draw();
  }

  #search() {
    const text = this.searchBox?.value ?? "";
    const found = search(this.execution, text);
    this.hits = found.hits;
    const kind = found.how === "property" ? "property" : "text";
    const events = found.hits.length === 1 ? "event" : "events";
    this.status.textContent = text === "" ? "" : `${found.hits.length} ${events} (${kind}${found.problem ? `: ${found.problem}` : ""})`;
    if (this.selected >= 0) this.#draw();
    this.#address();
  }

  /** The events to jump to: the hits of the search, or else the violations. */
  #goals() {
    if (this.hits.length > 0) return this.hits;
    const { violating, turning, first } = this.execution.data;
    const bad = this.data.properties.flatMap((one) => [
      ...(one.changes ?? []).filter(([, verdict]) => verdict === "violated").map(([at]) => ({ execution: 0, event: at })),
      ...(one.links ?? []).map(([, link]) => link),
    ]).filter((link) => link.execution === this.current).map((link) => link.event - first).filter((at) => at >= 0 && at < this.execution.length);
    const all = [...bad, violating, turning].filter((at) => at !== undefined);
    return [...new Set(all)].sort((a, b) => a - b);
  }

  /** @param {1 | -1} way */
  #jump(way) {
    const goals = this.#goals();
    const ahead = way === 1 ? goals.find((at) => at > this.selected) : goals.findLast((at) => at < this.selected);
    const next = ahead ?? (way === 1 ? goals[0] : goals[goals.length - 1]);
    if (next !== undefined) this.select(this.current, next);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
    const typing = event.target instanceof HTMLElement && event.target.matches("input[type=search], select, textarea");
    if (event.key === "Escape" && this.searchBox) {
      this.searchBox.value = "";
      this.searchBox.blur();
      this.#search();
    } else if (event.key === "Enter" && typing) {
      this.#jump(1);
    } else if (!typing && this.#keys(event.key)) {
      event.preventDefault();
    }
  }

  /** @param {string} key */
  #keys(key) {
    const own = this.execution.byNode[this.execution.event(this.selected)?.n ?? 0] ?? [];
    const place = this.execution.place[this.selected] ?? 0;
    const go = (/** @type {number | undefined} */ at) => at !== undefined && this.select(this.current, at);
    switch (key) {
      case "ArrowDown": case "j": go(this.diagram.neighbour(this.selected, 1)); return true;
      case "ArrowUp": case "k": go(this.diagram.neighbour(this.selected, -1)); return true;
      case "ArrowRight": go(own[place + 1]); return true;
      case "ArrowLeft": go(own[place - 1]); return true;
      case "n": this.#jump(1); return true;
      case "p": this.#jump(-1); return true;
      case "Home": go(this.diagram.end(-1)); return true;
      case "End": go(this.diagram.end(1)); return true;
      case "v": go(this.execution.data.violating); return true;
      case "c": this.#light(this.cone === undefined ? "past" : this.cone === "past" ? "future" : undefined); return true;
      case "[": this.select(this.current - 1, -1); return true;
      case "]": this.select(this.current + 1, -1); return true;
      case "/": this.searchBox?.focus(); return true;
      case "?": showHelp(); return true;
      default: return false;
    }
  }

  /** Writes the current view into the address, so that a link opens the same view. */
  #address() {
    if (this.selected < 0) return;
    const said = new URLSearchParams();
    if (this.current > 0) said.set("x", String(this.current));
    said.set("step", String(this.execution.step(this.selected)));
    if (this.searchBox?.value) said.set("q", this.searchBox.value);
    const hidden = this.hiddenNodes[this.current];
    if (hidden.size > 0) said.set("hide", [...hidden].join(" "));
    if (this.hiddenKinds.size > 0) said.set("without", [...this.hiddenKinds].join(" "));
    history.replaceState(null, "", `#${said}`);
  }

  /** Restores the view from the address. */
  #follow() {
    const said = new URLSearchParams(location.hash.slice(1));
    const number = Number(said.get("x") ?? 0);
    this.current = Math.min(Math.max(0, number || 0), this.executions.length - 1);
    const listed = (/** @type {string} */ name) => (said.get(name) ?? "").split(" ").filter((word) => word !== "");
    this.hiddenNodes[this.current] = new Set(listed("hide").map(Number).filter((node) => node < this.execution.names.length));
    this.hiddenKinds = new Set(listed("without"));
    this.#choose();
    this.#show(false);
    const step = said.get("step");
    this.select(this.current, step === null ? -1 : this.execution.atStep(Number(step)));
    if (this.searchBox && said.get("q")) {
      this.searchBox.value = said.get("q") ?? "";
      this.#search();
    }
  }
}

/** Reads the page's data, plain or compressed. @returns {Promise<PageData>} */
async function read() {
  const holder = document.getElementById("data");
  const text = holder?.textContent ?? "";
  if (holder?.dataset.form !== "gzip") return JSON.parse(text);
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot decompress (no DecompressionStream); use one from 2023 or later");
  }
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function main() {
  rememberedTheme();
  try {
    const data = await read();
    if (data.version !== VERSION) throw new Error(`this page is of version ${VERSION}, its data of version ${data.version}; write the report again`);
    new App(data).build();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    document.body.replaceChildren(el("p", { class: "notice", role: "alert" }, `The report cannot be shown: ${text}`));
    throw error;
  }
}

main();
