// An execution as a Mermaid sequence diagram, which issue trackers can render.

/** @typedef {import("./model.js").Execution} Execution */

const MESSAGES_MAX = 60;

/**
 * The stretch of an execution that ends at an event, as Mermaid text.
 * @param {Execution} execution
 * @param {number} end
 */
export function mermaid(execution, end) {
  const { events, messages, nodes } = execution.data;
  const from = Math.max(0, end - MESSAGES_MAX + 1);
  const clean = (/** @type {string} */ text) => text.replace(/[^\p{L}\p{N} _.,:()+=<-]/gu, " ").replace(/[;#]/g, " ");
  const lines = ["sequenceDiagram", ...nodes.map((node, at) => `  participant n${at} as ${clean(node.name)}`)];
  if (from > 0) lines.push(`  Note over n0: ${execution.number(from)} ${execution.number(from) === 1 ? "event" : "events"} before`);
  for (let at = from; at <= end; at++) {
    const event = events[at];
    for (const number of event.r ?? []) {
      const message = messages[number];
      lines.push(`  n${message.f}->>n${event.n}: ${clean(message.l || "message")}`);
    }
    if (!event.r?.length && event.k !== "start") lines.push(`  Note over n${event.n}: ${clean(execution.words(at))}`);
    for (const number of event.s ?? []) {
      const message = messages[number];
      if (message.lost && message.to !== undefined) lines.push(`  n${message.f}--xn${message.to}: ${clean(message.l)} (lost)`);
    }
    if (at === execution.data.violating) lines.push(`  Note over n${event.n}: VIOLATED`);
  }
  return `${lines.join("\n")}\n`;
}
