// The panel beside the diagram, with everything that is known of one event.

import { button, el } from "./dom.js";
import { fieldsOf, show } from "./values.js";

/** @typedef {import("./model.js").Execution} Execution */
/** @typedef {import("./values.js").Value} Value */

/**
 * @typedef {object} PropertyData
 * @property {string} name
 * @property {string} text
 * @property {"holds" | "almost" | "violated" | "unknown"} verdict
 * @property {[number, string][]} [changes] the verdict from each event on at which it changes
 * @property {[string, string][]} [witness] parts of the text with their values
 * @property {string} [message]
 * @property {[string, import("./charts.js").Link][]} [links] exceptions and violations to open
 */

/**
 * @typedef {object} Actions
 * @property {(at: number) => void} select
 * @property {(cone: "past" | "future" | undefined) => void} light
 * @property {boolean} cut whether the states of all nodes matter
 */

/**
 * @param {Execution} execution
 * @param {number} at
 * @param {PropertyData[]} properties
 * @param {Actions} actions
 * @returns {HTMLElement[]}
 */
export function detail(execution, at, properties, actions) {
  const { data, names } = execution;
  const event = data.events[at];
  const time = execution.time(at);
  const heading = el("h2", {}, `Step ${execution.step(at)} · ${names[event.n]} · ${execution.words(at)}`);
  const facts = [data.nodes[event.n].kind && `kind ${data.nodes[event.n].kind}`, time && `time ${time}`].filter(Boolean).join(" · ");
  return [
    heading,
    el("p", { class: "muted" }, facts),
    moves(execution, at, actions),
    ...(event.x ? [el("pre", { class: "note" }, event.x)] : []),
    ...changes(execution, at),
    ...messages(execution, at, actions),
    ...statuses(properties, execution.number(at)),
    ...(actions.cut ? [others(execution, at, true), state(execution, event.n, at)] : [state(execution, event.n, at), others(execution, at, false)]),
  ];
}

/**
 * @param {Execution} execution
 * @param {number} at
 * @param {Actions} actions
 */
function moves(execution, at, actions) {
  const own = execution.byNode[execution.event(at).n];
  const place = execution.place[at];
  const go = (/** @type {string} */ label, /** @type {number | undefined} */ to) =>
    button(label, () => to !== undefined && actions.select(to), { disabled: to === undefined });
  return el("p", { class: "moves" },
    go("← earlier here", own[place - 1]),
    go("later here →", own[place + 1]),
    button("its past", () => actions.light("past"), { title: "show what this event depends on" }),
    button("its future", () => actions.light("future"), { title: "show what depends on this event" }),
    button("all", () => actions.light(undefined), { title: "show all events" }));
}

/** @param {Execution} execution @param {number} at */
function changes(execution, at) {
  const found = execution.changes(at);
  if (found.length === 0) return [el("p", { class: "muted" }, "no change of state")];
  const rows = found.map(({ path, old, now }) => el("tr", {},
    el("th", { scope: "row" }, path),
    el("td", { class: "old" }, old === undefined ? "" : show(old, execution.names)),
    el("td", {}, "→"),
    el("td", { class: "now" }, now === undefined ? "(gone)" : show(now, execution.names))));
  return [el("h3", {}, "Changes"), el("table", { class: "diff" }, ...rows)];
}

/**
 * @param {Execution} execution
 * @param {number} at
 * @param {Actions} actions
 */
function messages(execution, at, actions) {
  const event = execution.event(at);
  const { names, data } = execution;
  const part = (/** @type {number} */ number, /** @type {boolean} */ received) => {
    const message = data.messages[number];
    const other = received ? message.s : message.d[0];
    const who = received ? `from ${names[message.f] ?? "?"}` : `to ${message.to === undefined ? "all" : names[message.to]}`;
    const fate = received || message.d.length > 0 ? "" : message.lost ? " · lost" : " · never arrived";
    const again = message.d.length > 1 ? ` · delivered ${message.d.length} times` : "";
    return el("div", { class: "message" },
      el("b", {}, message.l || "message"), ` ${who}${fate}${again} `,
      other === undefined ? undefined : button(received ? "sent at" : "arrives at", () => actions.select(other)),
      other === undefined ? undefined : ` ${execution.step(other)}`,
      message.p === undefined ? undefined : tree(message.p, names));
  };
  return [
    ...(event.r?.length ? [el("h3", {}, "Received"), ...event.r.map((number) => part(number, true))] : []),
    ...(event.s?.length ? [el("h3", {}, "Sent"), ...event.s.map((number) => part(number, false))] : []),
  ];
}

/** @param {PropertyData[]} properties @param {number} at */
function statuses(properties, at) {
  const judged = properties.filter((property) => property.changes);
  if (judged.length === 0) return [];
  const rows = judged.map((property) => {
    const past = (property.changes ?? []).filter(([from]) => from <= at);
    const verdict = past.length > 0 ? past[past.length - 1][1] : "unknown";
    return el("li", { class: `verdict-${verdict}` }, `${SIGNS[verdict] ?? "?"} ${property.name}`);
  });
  return [el("h3", {}, "Properties here"), el("ul", { class: "verdicts" }, ...rows)];
}

/** @type {{[verdict: string]: string}} */
export const SIGNS = { holds: "✓", almost: "≈", violated: "✗", unknown: "?" };

/** @param {Execution} execution @param {number} node @param {number} at */
function state(execution, node, at) {
  const value = execution.stateAt(node, at);
  const summary = el("summary", {}, `State of ${execution.names[node]}`);
  const content = value === undefined ? el("p", { class: "muted" }, "down, or not seen yet") : tree(value, execution.names);
  return el("details", { open: true }, summary, content);
}

/** The states of all nodes at this moment, as a table of nodes by variables. @param {Execution} execution @param {number} at @param {boolean} open */
function others(execution, at, open) {
  const box = el("details", { open }, el("summary", {}, "All nodes at this step"));
  const fill = () => box.children.length === 1 && box.append(stateTable(execution, at));
  if (open) fill();
  box.addEventListener("toggle", () => box.open && fill());
  return box;
}

/** @param {Execution} execution @param {number} at */
function stateTable(execution, at) {
  const states = execution.names.map((_, node) => execution.stateAt(node, at));
  const fields = [...new Set(states.flatMap((value) => Object.keys(fieldsOf(value) ?? {})))];
  const before = at > 0 ? execution.stateAt(execution.event(at).n, at - 1) : undefined;
  const rows = states.map((value, node) => el("tr", {},
    el("th", { scope: "row" }, execution.names[node]),
    ...(fields.length === 0 ? [el("td", {}, value === undefined ? "–" : show(value, execution.names))] : []),
    ...fields.map((field) => {
      const held = fieldsOf(value)?.[field];
      const text = held === undefined ? "–" : show(held, execution.names);
      const old = node === execution.event(at).n ? fieldsOf(before)?.[field] : held;
      return el("td", { class: JSON.stringify(old) === JSON.stringify(held) ? "" : "now", title: text }, text.length > 40 ? `${text.slice(0, 39)}…` : text);
    })));
  const head = el("tr", {}, el("th", {}, "node"), ...fields.map((field) => el("th", { scope: "col" }, field)));
  return el("div", { class: "wide" }, el("table", { class: "states" }, head, ...rows));
}

/**
 * A value as a tree that opens and closes.
 * @param {Value} value
 * @param {string[]} names
 * @returns {HTMLElement}
 */
export function tree(value, names) {
  const fields = fieldsOf(value);
  if (!fields) return el("code", { class: "value" }, show(value, names));
  const rows = Object.entries(fields).map(([name, held]) => {
    const text = show(held, names);
    const nested = fieldsOf(held) && text.length > 60;
    return el("div", { class: "field" }, el("span", { class: "key" }, `${name}: `), nested
      ? el("details", {}, el("summary", {}, `${text.slice(0, 40)}…`), tree(held, names))
      : el("code", { class: "value" }, text));
  });
  return el("div", { class: "record" }, ...rows);
}
