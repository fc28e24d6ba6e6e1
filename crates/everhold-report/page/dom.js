// Small helpers for elements. Text is only ever set as text: recorded data never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{[name: string]: string | number | boolean | undefined | ((event: any) => void)}} Attributes */
/** @typedef {(Node | string | undefined)[]} Children */

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Children} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== undefined));
}

/**
 * An HTML element. Attributes that are functions are event listeners.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string | undefined)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string | undefined)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/**
 * A button.
 * @param {string} label
 * @param {() => void} click
 * @param {Attributes} [attributes]
 */
export function button(label, click, attributes = {}) {
  return el("button", { type: "button", click, ...attributes }, label);
}

/**
 * Copies a text. This also works on `file://` pages, where scripts may have no access to the
 * clipboard.
 * @param {string} text
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "hidden-copy", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/**
 * A button that copies a text and confirms it.
 * @param {string} label
 * @param {() => string} text
 */
export function copyButton(label, text) {
  const made = button(label, () => {
    copy(text());
    made.textContent = "copied";
    setTimeout(() => (made.textContent = label), 1200);
  });
  return made;
}

/**
 * Offers a text as a file.
 * @param {string} name
 * @param {string} type
 * @param {string} text
 */
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
