/** Text of agents and models in chat answers. */

import { escapeMarkdown } from "../base/markdown.ts";
import { escapeMarkup, sanitize } from "../base/untrustedText.ts";
import { oneLine } from "../state/formatting.ts";

/** WORD JOINER: invisible, and allows no line break. */
const JOINER = "\u2060";
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** A line of untrusted text in Markdown. */
export function quoted(text: string, most = 200): string {
  return escapeMarkdown(sanitize(oneLine(text, most)));
}

/**
 * Markdown of a model without images and links: an image would send what its address contains to a server as soon as
 * it is shown. Code in fences stays as it is.
 */
export function answerText(markdown: string): string {
  let fence = "";
  return sanitize(markdown)
    .split("\n")
    .map((line) => {
      const mark = FENCE.exec(line)?.[1] ?? "";
      if (fence !== "") {
        if (mark.startsWith(fence) && line.trim() === mark) fence = "";
        return line;
      }
      if (mark !== "") {
        fence = mark;
        return line;
      }
      return escapeMarkup(line)
        .replace(/!(?=\[)/g, `!${JOINER}`)
        .replace(/^(\s*\[[^\]]*\]):/, `$1${JOINER}:`)
        .replace(/<(?=[a-z!/?])/gi, "&lt;");
    })
    .join("\n");
}
