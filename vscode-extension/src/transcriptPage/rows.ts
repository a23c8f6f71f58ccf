/** Blocks of a transcript as elements. */

import { t } from "../base/l10n.ts";
import { isAlways, orderedOptions, rememberedAnswer } from "../state/wording.ts";
import { MAX_MESSAGE_LENGTH, type Block } from "../transcript/transcriptBlocks.ts";
import type { Line, Mark } from "../transcript/transcriptLines.ts";
import type { PermissionOption, PermissionRequest } from "../protocol.ts";
import { button, details, element, icon } from "./dom.ts";
import { codeBlock, fillMarkdown } from "./renderMarkdown.ts";

export interface RowActions {
  readonly answer: (requestId: string, option: string, remember?: boolean) => Promise<void>;
  /** Absent: paths are plain text. */
  readonly openFile?: (path: string) => void;
}

/** Show the current lines of a block in its row. `asks`: whether its question can be answered now. */
export function fillRow(row: HTMLElement, block: Block, asks: boolean, actions: RowActions): void {
  const lines = block.lines();
  row.hidden = lines.length === 0;
  if (block.kind === "text") {
    fillMarkdown(row, shortened(joined(lines)));
    return;
  }
  const open = [...row.querySelectorAll("details")].map((one) => one.open);
  const focused = row.contains(document.activeElement);
  // Paths in the input of tools are what an agent says.
  const openFile = block.kind === "tool" ? undefined : actions.openFile;
  row.replaceChildren(...elements(lines, block.kind, openFile));
  if (block.question && asks) row.append(answers(block.question, actions));
  for (const [index, one] of [...row.querySelectorAll("details")].entries()) {
    if (open[index] ?? (block.kind === "check" && lines[0]?.mark === "✗")) one.open = true;
  }
  if (focused && !row.contains(document.activeElement)) {
    row.tabIndex = -1;
    (row.querySelector("summary") ?? row).focus();
  }
}

function elements(lines: readonly Line[], kind: string, openFile: RowActions["openFile"]): Node[] {
  const made: Node[] = [];
  const whole = kind === "permission"; // the user must see the complete request
  for (let index = 0; index < lines.length;) {
    const line = lines[index];
    if (!line) break;
    index += 1;
    if (line.folds) {
      const body = lines.slice(index, index + line.folds);
      made.push(details(content(line, undefined), () => elements(body, kind, openFile)));
      index += line.folds;
      continue;
    }
    let end = index;
    while (end < lines.length && joins(line, lines[end])) end += 1;
    const group = lines.slice(index - 1, end);
    index = end;
    const text = joined(group);
    switch (line.style) {
      case "heading":
        made.push(element("h2", {}, text));
        break;
      case "code":
        made.push(codeBlock(whole ? text : shortened(text)));
        break;
      case "said": {
        const message = element("div", { class: "said" });
        fillMarkdown(message, shortened(text));
        made.push(message);
        break;
      }
      case "quote":
        made.push(element("blockquote", {}, shortened(text)));
        break;
      case "item":
      case "todo":
      case "done":
        made.push(element("ul", {}, ...group.map((one) => element("li", {}, ...content(one, openFile)))));
        break;
      default:
        if (text.trim() === "") break;
        made.push(
          group.length === 1
            ? element("p", { class: line.style }, ...content(line, openFile))
            : element("p", { class: line.style }, (whole ? text : shortened(text)).replaceAll(/^\n+|\n+$/g, "")),
        );
    }
  }
  return made;
}

/** Whether two lines belong to one element. */
function joins(line: Line, next: Line | undefined): boolean {
  if (!next || next.folds || line.style === "heading") return false;
  const list = ["item", "todo", "done"];
  if (line.style !== undefined && list.includes(line.style))
    return next.style !== undefined && list.includes(next.style);
  return next.style === line.style && line.mark === undefined && next.mark === undefined && !line.links && !next.links;
}

function content(line: Line, openFile: RowActions["openFile"]): (Node | string)[] {
  const parts: (Node | string)[] = [];
  const mark = line.style === "done" ? "✓" : line.style === "todo" ? "○" : line.mark;
  if (mark !== undefined) {
    const name = { class: "mark", "data-mark": mark, role: "img", "aria-label": markName(mark) };
    parts.push(element("span", name, icon(mark)), " ");
  }
  if (line.tool) {
    const { name, target, outcome } = line.tool;
    parts.push(element("span", { class: "tool" }, name), " ");
    if (target !== "") parts.push(element("code", {}, shortened(target)), " ");
    return [...parts, element("span", { class: "outcome" }, outcome)];
  }
  let rest = line.text;
  for (const link of openFile ? (line.links ?? []) : []) {
    const start = rest.indexOf(link.text);
    if (start < 0) continue;
    parts.push(
      rest.slice(0, start),
      button(link.text, "link", () => openFile?.(link.path)),
    );
    rest = rest.slice(start + link.text.length);
  }
  return [...parts, shortened(rest)];
}

function markName(mark: Mark): string {
  switch (mark) {
    case "✓":
      return t("succeeded");
    case "✗":
      return t("failed");
    case "○":
      return t("not finished");
    case "⚠":
      return t("warning");
    case "•":
      return t("note");
    case "→":
      return t("answer");
  }
}

/** A button for each answer: those that also apply to later requests come last and say so. */
function answers(request: PermissionRequest, { answer }: RowActions): HTMLElement {
  const made = element("div", { class: "answers", role: "group", "aria-label": t("Answer") });
  const one = (option: PermissionOption, title: string, remember = false): HTMLButtonElement => {
    const allows = option.kind.startsWith("allow");
    const pressed = (): void => {
      for (const other of all) other.disabled = true;
      void answer(request.requestId, option.id, remember).finally(() => {
        for (const other of all) other.disabled = false;
      });
    };
    return button(title, allows && !remember ? "primary" : "secondary", pressed, allows ? "✓" : "✗");
  };
  const all = orderedOptions(request).map((option) =>
    one(option, isAlways(option) ? `${option.title} (${t("without asking again")})` : option.title),
  );
  const remembered = rememberedAnswer(request);
  if (remembered) all.push(one(remembered.option, remembered.title, true));
  made.append(...all);
  return made;
}

const joined = (lines: readonly Line[]): string => lines.map(({ text }) => text).join("\n");

function shortened(text: string): string {
  if (text.length <= MAX_MESSAGE_LENGTH) return text;
  const half = MAX_MESSAGE_LENGTH / 2;
  return `${text.slice(0, half)}${t("… {0} characters …", text.length - 2 * half)}${text.slice(-half)}`;
}
