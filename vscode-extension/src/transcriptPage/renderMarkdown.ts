/**
 * Markdown of agents as elements: what people write in messages, not all of CommonMark. Text becomes text nodes only,
 * nothing is loaded, and links lead to web pages, which the editor opens after asking.
 */

import { sanitize } from "../base/untrustedText.ts";
import { element, icon } from "./dom.ts";

/** Characters of a paragraph, list or table whose marks are shown as such; a longer one is plain text. */
const MOST_MARKED = 5_000;
/** Characters of a block of code that is coloured if it is a diff. */
const MOST_COLOURED = 200_000;
const MOST_LEVELS = 6;

const FENCE = /^\s*(`{3,}(?=[^`]*$)|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)]) +(.*)$/;
const QUOTE = /^\s*(?:> ?)+/;
const TABLE = /^\s*\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;
const TASK = /^\[([ xX])\] /;
/** Code, strong, emphasis, a link, an address. */
const INLINE =
  /(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)|\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<![\w*])([*_])(?=[^\s*_])(.+?)(?<=[^\s*_])\4(?![\w*])|\[([^\][]+)\]\(<?([^()\s<>]+)>?\)|https?:\/\/[^\s<>()"'`\]]*[^\s<>()"'`\].,;:!?*]/g; // prettier-ignore

/** The source of each element in a parent that `fillMarkdown` has filled. */
const shownIn = new WeakMap<HTMLElement, readonly string[]>();

/**
 * Show Markdown in an element. If it was shown before with a beginning of this text, as of a message that grows, only
 * what differs changes: what is selected stays selected, and only the rest is read aloud.
 */
export function fillMarkdown(parent: HTMLElement, text: string): void {
  const before = shownIn.get(parent) ?? [];
  const chunks = chunksOf(text);
  shownIn.set(parent, chunks);
  for (const [index, chunk] of chunks.entries()) {
    if (before[index] === chunk) continue;
    const shown = parent.childNodes[index];
    const made = elementOf(chunk);
    if (shown) become(shown, made);
    else parent.append(made);
  }
  while (parent.childNodes.length > chunks.length) parent.lastChild?.remove();
}

/** Split a text into what becomes one element each. */
function chunksOf(text: string): string[] {
  const chunks: string[] = [];
  let lines: string[] = [];
  let fence = "";
  const end = (): void => {
    if (lines.length > 0) chunks.push(lines.join("\n"));
    lines = [];
  };
  for (const line of text.split("\n")) {
    if (fence !== "") {
      lines.push(line);
      if (!closes(line, fence)) continue;
      fence = "";
      end();
      continue;
    }
    fence = FENCE.exec(line)?.[1] ?? "";
    const alone = HEADING.test(line) || RULE.test(line);
    const [first = ""] = lines;
    const begins = (ITEM.test(line) && !ITEM.test(first)) || (QUOTE.test(line) && !QUOTE.test(first));
    if (fence !== "" || alone || begins || line.trim() === "") end();
    if (line.trim() !== "") lines.push(line);
    if (alone) end();
  }
  end();
  return chunks;
}

function closes(line: string, fence: string): boolean {
  const mark = /^\s*(`+|~+)\s*$/.exec(line)?.[1] ?? "";
  return mark.startsWith(fence);
}

function elementOf(chunk: string): HTMLElement {
  const lines = chunk.split("\n");
  const [first = "", second = ""] = lines;
  const [, mark, language = ""] = FENCE.exec(first) ?? [];
  if (mark !== undefined) {
    const closed = lines.length > 1 && closes(lines.at(-1) ?? "", mark);
    return codeBlock(lines.slice(1, closed ? -1 : undefined).join("\n"), language);
  }
  if (chunk.length > MOST_MARKED) return element("p", {}, chunk);
  const [, level, title = ""] = HEADING.exec(first) ?? [];
  if (level !== undefined) {
    const tag = (["h3", "h4", "h5", "h6"] as const)[Math.min(level.length, 4) - 1] ?? "h6";
    return element(tag, {}, ...inline(title));
  }
  if (RULE.test(first)) return element("hr");
  if (ITEM.test(first)) return list(lines);
  if (QUOTE.test(first)) {
    return element("blockquote", {}, ...inline(lines.map((line) => line.replace(QUOTE, "")).join("\n")));
  }
  if (first.includes("|") && TABLE.test(second)) return table(lines);
  return element("p", {}, ...inline(chunk));
}

/** A list; items that are indented further are lists in the item before them. */
function list(lines: readonly string[]): HTMLElement {
  const items: { readonly indent: number; readonly number: string | undefined; text: string }[] = [];
  for (const line of lines) {
    const [all, indent = "", number, text = ""] = ITEM.exec(line) ?? [];
    const last = items.at(-1);
    if (all !== undefined) items.push({ indent: indent.length, number, text });
    else if (last) last.text += `\n${line.trim()}`;
  }
  const begin = (number: string | undefined): HTMLElement =>
    number === undefined ? element("ul") : element("ol", { start: number === "1" ? undefined : number });
  const [first] = items;
  const levels = [{ indent: first?.indent ?? 0, list: begin(first?.number) }];
  for (const { indent, number, text } of items) {
    while (levels.length > 1 && indent < (levels.at(-1)?.indent ?? 0)) levels.pop();
    const above = levels.at(-1);
    const parent = above?.list.lastElementChild;
    if (above && parent && indent > above.indent + 1 && levels.length < MOST_LEVELS) {
      const nested = begin(number);
      parent.append(nested);
      levels.push({ indent, list: nested });
    }
    const done = TASK.exec(text)?.[1];
    const box = done === undefined ? [] : [icon(done === " " ? "○" : "✓"), " "];
    levels.at(-1)?.list.append(element("li", {}, ...box, ...inline(text.replace(TASK, ""))));
  }
  return levels[0]?.list ?? element("ul");
}

function table([head = "", , ...rows]: readonly string[]): HTMLElement {
  const cells = (line: string): string[] =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split("|")
      .map((cell) => cell.trim());
  const row = (line: string, tag: "th" | "td"): HTMLElement =>
    element("tr", {}, ...cells(line).map((cell) => element(tag, {}, ...inline(cell))));
  return element(
    "table",
    {},
    element("thead", {}, row(head, "th")),
    element("tbody", {}, ...rows.map((line) => row(line, "td"))),
  );
}

function inline(text: string, depth = 0): (Node | string)[] {
  const parts: (Node | string)[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [all, , code, strong, , emphasis, title, target] = match;
    parts.push(text.slice(end, match.index));
    end = match.index + all.length;
    const within = (marked: string): (Node | string)[] => (depth < 3 ? inline(marked, depth + 1) : [marked]);
    if (code !== undefined) parts.push(element("code", {}, code.replace(/^ (.*\S.*) $/, "$1")));
    else if (strong !== undefined) parts.push(element("strong", {}, ...within(strong)));
    else if (emphasis !== undefined) parts.push(element("em", {}, ...within(emphasis)));
    else if (title === undefined || target === undefined) parts.push(link(all, [all]));
    else if (/^https?:\/\//.test(target)) parts.push(link(target, within(title)));
    else parts.push(...within(title), ...(title === target ? [] : [` (${target})`]));
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== "");
}

/** A link to a web page; its address is shown before it is opened. */
function link(address: string, content: readonly (Node | string)[]): HTMLElement {
  const href = sanitize(address);
  return element("a", { href, title: href, target: "_blank", rel: "noopener noreferrer" }, ...content);
}

/** Code, which can be focused because it may be wider than the page; the lines of a diff are coloured. */
export function codeBlock(text: string, language = ""): HTMLElement {
  const lines = text.split("\n");
  const isDiff =
    text.length <= MOST_COLOURED &&
    (["diff", "patch"].includes(language) ||
      /^@@ .*@@/m.test(text) ||
      (/^\+/m.test(text) && /^-/m.test(text) && lines.every((line) => /^[+-]|^\s*$/.test(line))));
  if (!isDiff) return element("pre", { tabindex: "0" }, text);
  const rows = lines.map((line, index) =>
    element("span", { class: diffClass(line) }, index < lines.length - 1 ? `${line}\n` : line),
  );
  return element("pre", { tabindex: "0", class: "diff" }, ...rows);
}

function diffClass(line: string): string | undefined {
  if (/^(?:@@|--- |\+\+\+ |diff |index )/.test(line)) return "place";
  return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : undefined;
}

/** Give a node the content of another one, and change nothing that is the same already. */
function become(shown: ChildNode, made: ChildNode): void {
  if (shown instanceof Text && made instanceof Text) {
    if (made.data.startsWith(shown.data)) shown.appendData(made.data.slice(shown.data.length));
    else shown.data = made.data;
    return;
  }
  if (!shown.cloneNode(false).isEqualNode(made.cloneNode(false)) || shown instanceof Text) {
    shown.replaceWith(made);
    return;
  }
  const [before, after] = [[...shown.childNodes], [...made.childNodes]];
  for (const [index, child] of after.entries()) {
    const old = before[index];
    if (old) become(old, child);
    else shown.appendChild(child);
  }
  for (const child of before.slice(after.length)) child.remove();
}
