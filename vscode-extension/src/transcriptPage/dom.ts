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

export function button(title: string, kind: "primary" | "secondary" | "link", press: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", class: kind }, title);
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
