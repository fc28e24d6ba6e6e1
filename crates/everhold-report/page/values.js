// Recorded values: plain JSON, or an object with one key that begins with `$`.

/** @typedef {any} Value */
/** @typedef {string | number | {key: Value} | {payload: true}} Step */
/** @typedef {{path: string, old: Value | undefined, now: Value | undefined}} Difference */

const TAGS = ["$set", "$map", "$node", "$bytes", "$variant", "$float", "$record"];

/**
 * The tag of a value that is not plain JSON.
 * @param {Value} value
 * @returns {string | undefined}
 */
export function tagOf(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  const keys = Object.keys(value);
  return keys.length === 1 && TAGS.includes(keys[0]) ? keys[0] : undefined;
}

/**
 * The fields of a record, or nothing.
 * @param {Value} value
 * @returns {{[name: string]: Value} | undefined}
 */
export function fieldsOf(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  const tag = tagOf(value);
  if (tag === "$record") return value.$record;
  return tag === undefined ? value : undefined;
}

/**
 * A value as text, in the notation that Everhold uses elsewhere.
 * @param {Value} value
 * @param {string[]} names of the nodes
 * @returns {string}
 */
export function show(value, names) {
  if (value === undefined) return "nothing";
  if (value === null || typeof value === "boolean" || typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  const list = (/** @type {Value[]} */ items) => items.map((item) => show(item, names)).join(", ");
  if (Array.isArray(value)) return `[${list(value)}]`;
  switch (tagOf(value)) {
    case "$set": return `{${list(value.$set)}}`;
    case "$map": {
      const entry = (/** @type {[Value, Value]} */ [key, held]) => `${show(key, names)}: ${show(held, names)}`;
      return `{${value.$map.map(entry).join(", ")}}`;
    }
    case "$node": return names[value.$node] ?? `node ${value.$node}`;
    case "$bytes": return `bytes ${value.$bytes}`;
    case "$float": return String(value.$float);
    case "$variant": {
      const [name, payload] = value.$variant;
      const inner = show(payload, names);
      return Array.isArray(payload) ? `${name}(${inner.slice(1, -1)})` : fieldsOf(payload) ? `${name} ${inner}` : `${name}(${inner})`;
    }
    default: {
      const fields = Object.entries(fieldsOf(value) ?? {});
      return `{${fields.map(([name, held]) => `${name}: ${show(held, names)}`).join(", ")}}`;
    }
  }
}

/**
 * Whether two values are the same.
 * @param {Value} a
 * @param {Value} b
 */
export function same(a, b) {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/**
 * The parts of a value that can change on their own, by the text of the path to them.
 * @param {Value} value
 * @param {string[]} names
 * @returns {[string, Value][] | undefined}
 */
function parts(value, names) {
  const fields = fieldsOf(value);
  if (fields) return Object.entries(fields).map(([name, held]) => [`.${name}`, held]);
  if (Array.isArray(value)) return value.map((held, at) => [`[${at}]`, held]);
  if (tagOf(value) === "$map") {
    return value.$map.map((/** @type {[Value, Value]} */ [key, held]) => [`[${show(key, names)}]`, held]);
  }
  return undefined;
}

/** The largest number of changed items of a list that are compared with each other. */
const EDITS_MAX = 64;

/**
 * The items that were taken out of a set or a list and put into it, each as a pair of the item
 * before and after; undefined where that is not shorter than the changes of positions.
 * @param {Value | undefined} old
 * @param {Value | undefined} now
 * @returns {[Value | undefined, Value | undefined][] | undefined}
 */
function edits(old, now) {
  if (tagOf(old) === "$set" && tagOf(now) === "$set") return moved(old.$set, now.$set);
  if (!Array.isArray(old) || !Array.isArray(now)) return undefined;
  let first = 0;
  while (first < old.length && first < now.length && same(old[first], now[first])) first += 1;
  let end = 0;
  const rest = Math.min(old.length, now.length) - first;
  while (end < rest && same(old[old.length - 1 - end], now[now.length - 1 - end])) end += 1;
  const [gone, come] = [old.slice(first, old.length - end), now.slice(first, now.length - end)];
  if (Math.max(gone.length, come.length) > EDITS_MAX || gone.length === come.length) return undefined;
  const found = moved(gone, come);
  return found.length < Math.max(old.length, now.length) - first ? found : undefined;
}

/**
 * @param {Value[]} old
 * @param {Value[]} now
 * @returns {[Value | undefined, Value | undefined][]}
 */
function moved(old, now) {
  const count = (/** @type {Value[]} */ items) => {
    /** @type {Map<string, number>} */
    const held = new Map();
    for (const item of items) held.set(JSON.stringify(item), (held.get(JSON.stringify(item)) ?? 0) + 1);
    return held;
  };
  const without = (/** @type {Value[]} */ items, /** @type {Value[]} */ others) => {
    const held = count(others);
    return items.filter((item) => {
      const left = held.get(JSON.stringify(item)) ?? 0;
      held.set(JSON.stringify(item), left - 1);
      return left <= 0;
    });
  };
  /** @type {[Value | undefined, Value | undefined][]} */
  const gone = without(old, now).map((item) => [item, undefined]);
  /** @type {[Value | undefined, Value | undefined][]} */
  const come = without(now, old).map((item) => [undefined, item]);
  return [...gone, ...come];
}

/**
 * The differences between two values, recursively; unchanged parts are omitted.
 * @param {Value | undefined} old
 * @param {Value | undefined} now
 * @param {string[]} names
 * @param {string} [path]
 * @returns {Difference[]}
 */
export function differences(old, now, names, path = "") {
  if (same(old, now)) return [];
  const items = edits(old, now);
  if (items) return items.map(([was, is]) => ({ path: path.replace(/^\./, "") || "state", old: was, now: is }));
  const before = old === undefined ? undefined : parts(old, names);
  const after = now === undefined ? undefined : parts(now, names);
  if (!before || !after || tagOf(old) !== tagOf(now) || Array.isArray(old) !== Array.isArray(now)) {
    return [{ path: path.replace(/^\./, "") || "state", old, now }];
  }
  const olds = new Map(before);
  const news = new Map(after);
  const keys = [...new Set([...olds.keys(), ...news.keys()])];
  return keys.flatMap((key) => differences(olds.get(key), news.get(key), names, path + key));
}

/**
 * Replays one recorded change. Values are shared, so the changed parts are copied.
 * @param {Value} value
 * @param {Step[]} steps
 * @param {Value | undefined} now the new value; `undefined` removes the part
 * @returns {Value}
 */
export function changed(value, steps, now) {
  if (steps.length === 0) return now === undefined ? null : now;
  const [step, ...rest] = steps;
  if (typeof step === "number") {
    const list = Array.isArray(value) ? value.slice() : [];
    if (rest.length === 0 && now === undefined) list.splice(step, 1);
    else list[step] = changed(list[step], rest, now);
    return list;
  }
  if (typeof step === "string") return changedField(value, step, rest, now);
  if ("payload" in step) {
    const [name, payload] = value.$variant;
    return { $variant: [name, changed(payload, rest, now)] };
  }
  return changedKey(value, step.key, rest, now);
}

/**
 * @param {Value} value
 * @param {string} name
 * @param {Step[]} rest
 * @param {Value | undefined} now
 */
function changedField(value, name, rest, now) {
  const fields = { ...fieldsOf(value) };
  if (rest.length === 0 && now === undefined) delete fields[name];
  else fields[name] = changed(fields[name], rest, now);
  return tagOf(value) === "$record" ? { $record: fields } : fields;
}

/**
 * @param {Value} value
 * @param {Value} key
 * @param {Step[]} rest
 * @param {Value | undefined} now
 */
function changedKey(value, key, rest, now) {
  if (tagOf(value) === "$set") {
    const others = value.$set.filter((/** @type {Value} */ item) => !same(item, key));
    const place = (/** @type {Value} */ item) => (typeof item === "number" ? item : JSON.stringify(item));
    const items = now === undefined ? others : [...others, key].sort((a, b) => (place(a) < place(b) ? -1 : 1));
    return { $set: items };
  }
  /** @type {[Value, Value][]} */
  const entries = (value?.$map ?? []).slice();
  const at = entries.findIndex(([held]) => same(held, key));
  if (rest.length === 0 && now === undefined) {
    if (at >= 0) entries.splice(at, 1);
  } else if (at >= 0) {
    entries[at] = [key, changed(entries[at][1], rest, now)];
  } else {
    entries.push([key, changed(undefined, rest, now)]);
  }
  return { $map: entries };
}
