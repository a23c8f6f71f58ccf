/** Create elements. Text only ever becomes a text node. */

import { sanitize } from "../base/untrustedText.ts";

type Attributes = Readonly<Record<string, string | boolean | undefined>>;

/** Create an element. Strings become sanitized text; an attribute that is true is empty, one that is false is absent. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.map((child) => (typeof child === "string" ? sanitize(child) : child)));
  return made;
}

const ICONS = {
  "✓": "M3 8.5l3.3 3.3L13 4.7",
  "✗": "M4 4l8 8M12 4l-8 8",
  "○": "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3",
  "⚠": "M8 2.5l6 11H2zM8 6.5v3.3M8 11.5v.2",
  "•": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.3v3.5M8 5v.2",
  "→": "M2.5 8h10.5M9 4.2L13 8l-4 3.8",
} as const;
export type Icon = keyof typeof ICONS;

/** An icon in the color of the text, as lines: no font has to have it, and nothing is loaded. Named by what is beside it. */
export function icon(name: Icon): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const made = document.createElementNS(space, "svg");
  made.setAttribute("viewBox", "0 0 16 16");
  made.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  made.append(path);
  return made;
}

export function button(
  title: string,
  kind: "primary" | "secondary" | "link",
  press: () => void,
  before?: Icon,
): HTMLButtonElement {
  const made = element("button", { type: "button", class: kind }, ...(before ? [icon(before)] : []), title);
  made.addEventListener("click", press);
  return made;
}

/** A part that the user can open; its content is created when they do. */
export function details(summary: readonly (Node | string)[], content: () => readonly Node[]): HTMLDetailsElement {
  const made = element("details", {}, element("summary", {}, ...summary));
  let filled = false;
  made.addEventListener("toggle", () => {
    if (!made.open || filled) return;
    filled = true;
    made.append(...content());
  });
  return made;
}
