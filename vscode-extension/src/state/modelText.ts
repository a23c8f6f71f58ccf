/** Text of agents and models as Markdown that the editor renders. */

import { escapeMarkdown } from "../base/markdown.ts";
import { escapeMarkup, sanitize } from "../base/untrustedText.ts";
import { oneLine } from "./formatting.ts";

/** WORD JOINER: invisible, and allows no line break. */
const JOINER = "\u2060";
/** What opens a block of code, also in a list: after backticks, the rest of the line has none. */
const FENCE = /^(\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*)(`{3,}(?=[^`]*$)|~{3,})/;
const MARKS = /^\s*(`{3,}|~{3,})/;
/** A line that begins or ends a formula. */
const FORMULA = /^\s*\${1,2}\s*$/;

/** A line of untrusted text in Markdown. */
export function quoted(text: string, most = 200): string {
  return escapeMarkdown(sanitize(oneLine(text, most)));
}

/**
 * Markdown of a model without images and links: an image would send what its address contains to a server as soon as
 * it is shown. Code in fences stays as it is, so where it ends must be certain: every fence begins its line, because an
 * indented one ends with the list that it is in, and a line of code that a reader could take for the end is broken.
 */
export function answerText(markdown: string): string {
  let fence = "";
  return sanitize(markdown)
    .split("\n")
    .map((line) => {
      if (fence !== "") {
        const mark = MARKS.exec(line)?.[1] ?? "";
        if (!mark.startsWith(fence)) return line;
        if (!/^ {0,3}(?:`+|~+) *$/.test(line)) return `${JOINER}${line}`;
        fence = "";
        return mark;
      }
      const [, before = "", mark = ""] = FENCE.exec(line) ?? [];
      if (mark !== "") {
        fence = mark;
        const opening = line.slice(before.length);
        return before.trim() === "" ? opening : `${before.trim()}\n${opening}`;
      }
      if (FORMULA.test(line)) return `${line}${JOINER}`;
      return escapeMarkup(line)
        .replace(/!(?=\[)/g, `!${JOINER}`)
        .replace(/^(\s*\[[^\]]*\]):/, `$1${JOINER}:`)
        .replace(/<(?=[a-z!/?])/gi, "&lt;");
    })
    .join("\n");
}
