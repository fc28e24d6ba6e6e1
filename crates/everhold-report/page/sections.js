// The parts of the page above and below the diagram.

import { button, copyButton, el } from "./dom.js";
import { SIGNS } from "./detail.js";

/** @typedef {import("./detail.js").PropertyData} PropertyData */
/** @typedef {import("./charts.js").Link} Link */

/**
 * @typedef {object} TableData
 * @property {string} title
 * @property {string} [text]
 * @property {string[]} columns
 * @property {{cells: string[], link?: Link}[]} rows
 */

/**
 * @typedef {object} PageData
 * @property {number} version
 * @property {"violation" | "clean" | "slow" | "almost" | "trace"} kind
 * @property {string} title
 * @property {string} headline
 * @property {string} [message]
 * @property {[string, string][]} facts
 * @property {[string, string][]} commands
 * @property {string[]} notes
 * @property {PropertyData[]} properties
 * @property {import("./model.js").ExecutionData[]} executions
 * @property {import("./charts.js").ChartData[]} charts
 * @property {TableData[]} tables
 * @property {string} program
 */

const BADGES = { violation: "✗ VIOLATED", clean: "✓ NO VIOLATION", slow: "◷ SLOW", almost: "≈ ALMOST", trace: "TRACE" };

/** @param {PageData} data */
export function header(data) {
  const replay = data.commands[0];
  return el("header", { class: `page-head is-${data.kind}` },
    el("div", { class: "title" },
      el("span", { class: "badge" }, BADGES[data.kind] ?? data.kind),
      el("h1", {}, data.headline),
      el("span", { class: "muted" }, data.title)),
    data.message ? el("pre", { class: "message-text" }, data.message) : undefined,
    el("div", { class: "tools" },
      replay ? copyButton(`copy ${replay[0]} line`, () => replay[1]) : undefined,
      copyButton("copy link", () => location.href),
      button("light / dark", toggleTheme),
      button("keys: ?", () => showHelp())));
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(THEME, next);
  } catch {
    // A page from a file may not be allowed to remember anything.
  }
}

const THEME = "everhold-theme";

/** Takes on the colours that were chosen last. */
export function rememberedTheme() {
  try {
    const theme = localStorage.getItem(THEME);
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // As above.
  }
}

/** @param {PageData} data */
export function facts(data) {
  const list = data.facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  const commands = data.commands.map(([name, command]) => el("div", { class: "command" },
    el("span", { class: "muted" }, name), el("code", {}, command), copyButton("copy", () => command)));
  const notes = data.notes.map((note) => el("p", { class: "notice" }, note));
  return el("section", { class: "facts" }, ...notes, el("dl", {}, ...list), ...commands);
}

/**
 * A property with the values that decide it, each beside its part of the text.
 * @param {PropertyData} property
 * @param {(link: Link) => void} open
 */
export function property(property, open) {
  const first = property.changes?.find(([, verdict]) => verdict === "violated");
  return el("article", { class: `property verdict-${property.verdict}` },
    el("h3", {}, `${SIGNS[property.verdict] ?? "?"} ${property.name}`),
    property.text ? el("pre", {}, ...annotated(property.text, property.witness ?? [])) : undefined,
    property.message ? el("p", { class: "muted" }, property.message) : undefined,
    property.links?.length ? el("p", { class: "moves" }, ...property.links.map(([words, link]) => button(words, () => open(link)))) : undefined,
    first ? button("go to the first violation", () => open({ execution: 0, event: first[0] })) : undefined);
}

/**
 * The text, with each part that has a value followed by it. The longest parts come first, so that
 * `n.log` does not cut `n.log[3]` in two.
 * @param {string} text
 * @param {[string, string][]} witness
 * @returns {(string | HTMLElement)[]}
 */
function annotated(text, witness) {
  const parts = witness.filter(([part]) => part !== "").sort((a, b) => b[0].length - a[0].length);
  const isWord = (/** @type {string | undefined} */ c) => c !== undefined && /[\w.]/.test(c);
  /** @type {(string | HTMLElement)[]} */
  const found = [];
  let plain = "";
  let quoted = false;
  for (let at = 0; at < text.length; ) {
    // Names and texts in quotes are no expressions.
    if (text[at] === '"') quoted = !quoted;
    const hit = quoted ? undefined : parts.find(([part]) => text.startsWith(part, at) && !isWord(text[at - 1]) && !isWord(text[at + part.length]));
    if (hit) {
      found.push(plain, el("mark", {}, hit[0], el("span", { class: "is" }, ` ${hit[1]}`)));
      plain = "";
      at += hit[0].length;
    } else {
      plain += text[at];
      at += 1;
    }
  }
  return [...found, plain];
}

/**
 * @param {TableData} data
 * @param {(link: Link) => void} open
 */
export function table(data, open) {
  const rows = data.rows.map(({ cells, link }) => el("tr", {},
    ...cells.map((cell) => el("td", {}, cell)),
    link ? el("td", {}, button("open", () => open(link))) : undefined));
  return el("section", {}, el("h2", {}, data.title), data.text ? el("p", { class: "muted" }, data.text) : undefined,
    el("div", { class: "wide" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...data.columns.map((column) => el("th", { scope: "col" }, column)))),
      el("tbody", {}, ...rows))));
}

const KEYS = [
  ["↓ ↑  or  j k", "next and previous event"],
  ["→ ←", "next and previous event of the same node"],
  ["n  p", "next and previous violation or search hit"],
  ["Home  End", "first and last event"],
  ["v", "the violating event"],
  ["c", "past of the event, its future, all"],
  ["/", "search: text, or an expression such as  role == \"leader\" and term > 2"],
  ["[  ]", "previous and next execution"],
  ["Esc", "clear the search"],
  ["?", "this list"],
];

/** Opens the list of keys. */
export function showHelp() {
  const rows = KEYS.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, what)));
  const box = el("dialog", { "aria-label": "keys" }, el("h2", {}, "Keys"), el("table", {}, ...rows),
    el("form", { method: "dialog" }, el("button", {}, "close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
