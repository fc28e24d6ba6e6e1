// The search for events, by plain text or by an expression of the property language.
//
// An expression is judged at every event, in the state after it. Names refer to the fields of the
// event's node; `node`, `kind`, `event`, `message` and `step` describe the event itself; `forall`,
// `exists`, `count` and `sum` range over `nodes`.

import { fieldsOf, same, show, tagOf } from "./values.js";

/** @typedef {import("./values.js").Value} Value */
/** @typedef {import("./model.js").Execution} Execution */
/** @typedef {{locals: Map<string, any>, states: (Value | undefined)[], event: Map<string, Value>, names: string[], kinds: string[]}} Scope */
/** @typedef {(scope: Scope) => any} Code */

const WORD = /^[A-Za-z_][A-Za-z0-9_]*/;
const TOKEN = /^(?:[0-9]+(?:\.[0-9]+)?|"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*|==|!=|<=|>=|[-+*/%<>().,:{}[\]])/;

/** @param {string} text */
function tokens(text) {
  /** @type {string[]} */
  const found = [];
  for (let rest = text.trim(); rest !== ""; rest = rest.trimStart()) {
    const token = TOKEN.exec(rest);
    if (!token) throw new Error(`what is ${JSON.stringify(rest.slice(0, 12))}?`);
    found.push(token[0]);
    rest = rest.slice(token[0].length);
  }
  return found;
}

class Parser {
  /** @param {string} text */
  constructor(text) {
    this.tokens = tokens(text);
    this.at = 0;
  }

  get next() {
    return this.tokens[this.at];
  }

  take() {
    return this.tokens[this.at++];
  }

  /** @param {string} token */
  accept(token) {
    if (this.next !== token) return false;
    this.at++;
    return true;
  }

  /** @param {string} token */
  expect(token) {
    if (!this.accept(token)) throw new Error(`expected ${token}, found ${this.next ?? "the end"}`);
  }

  /** @returns {Code} */
  whole() {
    const code = this.implies();
    if (this.next !== undefined) throw new Error(`did not expect ${this.next}`);
    return code;
  }

  /** @returns {Code} */
  implies() {
    const left = this.or();
    if (!this.accept("implies")) return left;
    const right = this.implies();
    return (scope) => !left(scope) || Boolean(right(scope));
  }

  /** @returns {Code} */
  or() {
    let left = this.and();
    while (this.accept("or")) {
      const [first, second] = [left, this.and()];
      left = (scope) => Boolean(first(scope)) || Boolean(second(scope));
    }
    return left;
  }

  /** @returns {Code} */
  and() {
    let left = this.not();
    while (this.accept("and")) {
      const [first, second] = [left, this.not()];
      left = (scope) => Boolean(first(scope)) && Boolean(second(scope));
    }
    return left;
  }

  /** @returns {Code} */
  not() {
    if (!this.accept("not")) return this.comparison();
    const inner = this.not();
    return (scope) => !inner(scope);
  }

  /** @returns {Code} */
  comparison() {
    const left = this.sum();
    const token = this.next;
    if (token === "not" && this.tokens[this.at + 1] === "in") {
      this.at += 2;
      const right = this.sum();
      return (scope) => !holds(right(scope), left(scope));
    }
    if (token === "in") {
      this.take();
      const right = this.sum();
      return (scope) => holds(right(scope), left(scope));
    }
    const compare = token === undefined ? undefined : COMPARISONS[token];
    if (!compare) return left;
    this.take();
    const right = this.sum();
    return (scope) => compare(left(scope), right(scope));
  }

  /** @returns {Code} */
  sum() {
    return this.binary(() => this.product(), ["+", "-"]);
  }

  /** @returns {Code} */
  product() {
    return this.binary(() => this.unary(), ["*", "/", "%"]);
  }

  /**
   * @param {() => Code} inner
   * @param {string[]} operators
   * @returns {Code}
   */
  binary(inner, operators) {
    let left = inner();
    while (this.next !== undefined && operators.includes(this.next)) {
      const operator = this.take();
      const [first, second] = [left, inner()];
      left = (scope) => ARITHMETIC[operator](first(scope), second(scope));
    }
    return left;
  }

  /** @returns {Code} */
  unary() {
    if (!this.accept("-")) return this.postfix();
    const inner = this.unary();
    return (scope) => -inner(scope);
  }

  /** @returns {Code} */
  postfix() {
    let code = this.primary();
    for (;;) {
      const held = code;
      if (this.accept(".")) {
        const field = this.take();
        code = (scope) => fieldOf(held(scope), field, scope);
      } else if (this.accept("[")) {
        const index = this.implies();
        this.expect("]");
        code = (scope) => element(held(scope), index(scope));
      } else {
        return code;
      }
    }
  }

  /** @returns {Code} */
  primary() {
    const token = this.take();
    if (token === undefined) throw new Error("the expression ends too early");
    if (token === "(") {
      const inner = this.implies();
      this.expect(")");
      return inner;
    }
    if (token === "{" || token === "[") return this.elements(token);
    if (/^[0-9]/.test(token)) return () => Number(token);
    if (token.startsWith('"')) return () => JSON.parse(token);
    if (token === "true" || token === "false") return () => token === "true";
    if (token === "null") return () => null;
    if (token === "forall" || token === "exists") return this.quantifier(token);
    if (!WORD.test(token)) throw new Error(`did not expect ${token}`);
    if (this.next === "(") return this.call(token);
    return (scope) => named(token, scope);
  }

  /**
   * @param {string} open
   * @returns {Code}
   */
  elements(open) {
    /** @type {Code[]} */
    const items = [];
    const close = open === "{" ? "}" : "]";
    while (!this.accept(close)) {
      items.push(this.implies());
      if (this.next !== close) this.expect(",");
    }
    return (scope) => items.map((item) => item(scope));
  }

  /** `n in nodes`, `a, b in server nodes where a != b`. */
  binder() {
    const names = [this.take()];
    while (this.accept(",")) names.push(this.take());
    this.expect("in");
    const kind = this.next === "nodes" ? undefined : this.take();
    this.expect("nodes");
    const where = this.accept("where") ? this.implies() : undefined;
    this.expect(":");
    return { names, kind, where };
  }

  /**
   * @param {string} word
   * @returns {Code}
   */
  quantifier(word) {
    const binder = this.binder();
    const body = this.implies();
    return (scope) => {
      const results = bindings(binder, scope).map((inner) => Boolean(body(inner)));
      return word === "forall" ? results.every(Boolean) : results.some(Boolean);
    };
  }

  /**
   * @param {string} name
   * @returns {Code}
   */
  call(name) {
    this.expect("(");
    if ((name === "count" || name === "sum") && this.tokens[this.at + 1] === "in") {
      const binder = this.binder();
      const body = this.implies();
      this.expect(")");
      return (scope) => {
        const results = bindings(binder, scope).map((inner) => Number(body(inner)));
        return results.reduce((total, result) => total + result, 0);
      };
    }
    const inner = this.implies();
    this.expect(")");
    const run = FUNCTIONS[name];
    if (!run) throw new Error(`the search does not know ${name}(); it knows len, min, max, abs`);
    return (scope) => run(inner(scope));
  }
}

/** @type {{[operator: string]: (a: any, b: any) => boolean}} */
const COMPARISONS = {
  "==": (a, b) => same(a, b),
  "!=": (a, b) => !same(a, b),
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

/** @type {{[operator: string]: (a: any, b: any) => number}} */
const ARITHMETIC = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => Math.trunc(a / b),
  "%": (a, b) => a % b,
};

/** @type {{[name: string]: (value: Value) => any}} */
const FUNCTIONS = {
  len: (value) => (typeof value === "string" ? value.length : elements(value).length),
  min: (value) => Math.min(...elements(value)),
  max: (value) => Math.max(...elements(value)),
  abs: (value) => Math.abs(value),
};

/** @param {Value} value @returns {Value[]} */
function elements(value) {
  if (Array.isArray(value)) return value;
  if (tagOf(value) === "$set") return value.$set;
  if (tagOf(value) === "$map") return value.$map.map((/** @type {[Value, Value]} */ [key]) => key);
  return [];
}

/** @param {Value} container @param {Value} value */
function holds(container, value) {
  if (typeof container === "string") return container.includes(String(value));
  return elements(container).some((item) => same(item, value));
}

/** @param {Value} value @param {Value} index */
function element(value, index) {
  if (tagOf(value) !== "$map") return Array.isArray(value) ? value[index] : undefined;
  return value.$map.find((/** @type {[Value, Value]} */ [key]) => same(key, index))?.[1];
}

/** @param {Value} value @param {string} field @param {Scope} scope */
function fieldOf(value, field, scope) {
  const state = tagOf(value) === "$node" ? scope.states[value.$node] : value;
  if (tagOf(state) === "$variant") return fieldsOf(state.$variant[1])?.[field];
  return fieldsOf(state)?.[field];
}

/** @param {string} name @param {Scope} scope */
function named(name, scope) {
  if (scope.locals.has(name)) return scope.locals.get(name);
  const own = fieldsOf(scope.locals.get("$self"))?.[name];
  if (own !== undefined) return own;
  if (scope.event.has(name)) return scope.event.get(name);
  const node = scope.names.indexOf(name);
  return node >= 0 ? { $node: node } : undefined;
}

/**
 * @param {{names: string[], kind: string | undefined, where: Code | undefined}} binder
 * @param {Scope} scope
 * @returns {Scope[]}
 */
function bindings(binder, scope) {
  const fits = (/** @type {number} */ node) =>
    scope.states[node] !== undefined && (binder.kind === undefined || scope.kinds[node] === binder.kind);
  const nodes = scope.states.map((_, node) => node).filter(fits);
  let found = [scope];
  for (const name of binder.names) {
    found = found.flatMap((outer) =>
      nodes.map((node) => ({ ...outer, locals: new Map(outer.locals).set(name, { $node: node }) })));
  }
  const { where } = binder;
  return where ? found.filter((inner) => where(inner)) : found;
}

/** Whether a text should be read as an expression. @param {string} text */
function isExpression(text) {
  return /[=<>]|\b(?:in|not|and|or|forall|exists|implies)\b/.test(text);
}

/**
 * The events that a search finds, and how its text was read.
 * @param {Execution} execution
 * @param {string} text
 * @returns {{hits: number[], how: "text" | "property", problem?: string}}
 */
export function search(execution, text) {
  if (text.trim() === "") return { hits: [], how: "text" };
  if (!isExpression(text)) return { hits: plain(execution, text), how: "text" };
  try {
    return { hits: judged(execution, new Parser(text).whole()), how: "property" };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    return { hits: plain(execution, text), how: "text", problem };
  }
}

/** @param {Execution} execution @param {string} text */
function plain(execution, text) {
  const wanted = text.toLowerCase();
  const { events, messages } = execution.data;
  const says = (/** @type {number} */ at) => {
    const event = events[at];
    const held = (event.r ?? []).map((message) => show(messages[message].p ?? null, execution.names));
    const sent = (event.s ?? []).map((message) => messages[message].l);
    const words = [execution.names[event.n], execution.words(at), event.x ?? "", ...held, ...sent];
    if (event.c) words.push(JSON.stringify(event.c));
    return words.join("\n").toLowerCase().includes(wanted);
  };
  return events.map((_, at) => at).filter(says);
}

/** @param {Execution} execution @param {Code} code */
function judged(execution, code) {
  const { nodes, events, messages } = execution.data;
  const kinds = nodes.map((node) => node.kind);
  /** @type {(Value | undefined)[]} */
  const states = nodes.map(() => undefined);
  return events.map((_, at) => at).filter((at) => {
    const event = events[at];
    states[event.n] = execution.stateAt(event.n, at);
    const message = event.r?.length ? messages[event.r[0]].l : null;
    const about = new Map(Object.entries({
      node: execution.names[event.n], kind: kinds[event.n], event: event.k, message, step: execution.step(at),
    }));
    const locals = new Map([["$self", states[event.n]]]);
    try {
      return code({ locals, states, event: about, names: execution.names, kinds }) === true;
    } catch {
      return false;
    }
  });
}
