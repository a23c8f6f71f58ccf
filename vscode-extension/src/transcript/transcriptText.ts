/**
 * Render the blocks of a transcript as Markdown that can grow, with folded tool output. Independent of the editor:
 * folds and links are data.
 */

import { t } from "../base/l10n.ts";
import { orderedOptions } from "../state/wording.ts";
import type { Delegation, Event } from "../protocol.ts";
import { TranscriptBlocks, type Block } from "./transcriptBlocks.ts";
import { transcriptHead, type EventOf, type Line } from "./transcriptLines.ts";

/** Characters of the whole text: the editor reads a document again whenever it grows. The middle is omitted. */
export const MAX_LENGTH = 4_000_000;

/** Blocks at the beginning that are kept, unless they are large. */
const KEPT_FIRST_BLOCKS = 20;

/** Kinds of blocks that are not separated by empty lines. */
const LIST_KINDS = new Set(["file", "tool", "check", "note", "applied", "decided"]);

/** A link to a file; `path` is as the agent or the contract wrote it. */
export interface FileLink {
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly path: string;
}

export interface Rendered {
  readonly text: string;
  readonly folds: readonly { readonly start: number; readonly end: number }[];
  readonly links: readonly FileLink[];
  /** The line of the unanswered question. */
  readonly question?: number;
}

/** A line of Markdown; `folds` counts lines of Markdown. */
type Marked = Pick<Line, "text" | "links" | "folds">;

/** The Markdown of one version of a block. */
interface Made {
  readonly version: number;
  readonly lines: readonly Marked[];
  readonly size: number;
}

/** Collects events and renders their text. */
export class TranscriptText {
  readonly #blocks = new TranscriptBlocks();
  readonly #made = new WeakMap<Block, Made>();

  /** Add events, in order. */
  add(events: readonly Event[]): void {
    this.#blocks.add(events);
  }

  render(delegation: Delegation | undefined, now: number): Rendered {
    const lines: string[] = [];
    const folds: { start: number; end: number }[] = [];
    const links: FileLink[] = [];
    let question: number | undefined;
    const put = (block: readonly Marked[]): void => {
      for (const line of block) {
        const number = lines.length;
        lines.push(line.text);
        if (line.folds) folds.push({ start: number, end: number + line.folds });
        for (const link of line.links ?? []) {
          const start = line.text.indexOf(link.text);
          if (start >= 0) links.push({ line: number, start, end: start + link.text.length, path: link.path });
        }
      }
      lines.push("");
    };
    if (delegation) put(headLines(delegation, now));
    let before = "";
    const [from, to] = this.#leftOut();
    for (const [index, block] of this.#blocks.all.entries()) {
      if (index === from && to > from) {
        put([{ text: `*${t("… {0} events omitted …", to - from)}*` }]);
        before = "";
      }
      const { lines: made } = this.#madeOf(block);
      if ((from <= index && index < to) || made.length === 0) continue;
      if (block.kind === before && LIST_KINDS.has(block.kind)) lines.pop();
      before = block.kind;
      if (block.question && delegation?.waitingFor) question = lines.length;
      put(made);
    }
    const text = lines.join("\n");
    return question === undefined ? { text, folds, links } : { text, folds, links, question };
  }

  /** The blocks to omit: from the first index up to, but not including, the second. */
  #leftOut(): readonly [number, number] {
    const { all } = this.#blocks;
    const size = (index: number): number => (all[index] ? this.#madeOf(all[index]).size : 0);
    let from = 0;
    let room = MAX_LENGTH;
    while (from < Math.min(KEPT_FIRST_BLOCKS, all.length) && room - size(from) > (MAX_LENGTH / 4) * 3) {
      room -= size(from);
      from += 1;
    }
    for (let index = all.length - 1; index >= from; index -= 1) {
      room -= size(index);
      if (room < 0 && index < all.length - 1) return [from, index + 1];
    }
    return [0, 0];
  }

  #madeOf(block: Block): Made {
    let made = this.#made.get(block);
    if (made?.version !== block.version) {
      const lines = markdown(block.question ? [...block.lines(), answerHint(block.question)] : block.lines());
      made = { version: block.version, lines, size: lines.reduce((all, { text }) => all + text.length + 1, 0) };
      this.#made.set(block, made);
    }
    return made;
  }
}

function headLines(delegation: Delegation, now: number): Marked[] {
  const { title, state, facts, workspace } = transcriptHead(delegation, now);
  return [`# ${title}`, "", `**${state}**`, "", facts.join(" · "), workspace].map((text) => ({ text }));
}

function answerHint(event: EventOf<"permission">): Line {
  const choices = orderedOptions(event).map((option) => option.title);
  const text = t(
    "Answer above the question, in the Delegations view, or with “Answer Question…”: {0}.",
    choices.join(t(" or ")),
  );
  return { text };
}

/** Add the marks of Markdown. */
function markdown(lines: readonly Line[]): Marked[] {
  const made: Marked[] = [];
  /** The fold that is open: its first line, and the number of lines it still takes. */
  let fold: { start: number; left: number } | undefined;
  for (let index = 0; index < lines.length;) {
    const line = lines[index];
    if (!line) break;
    let taken = 1;
    if (line.style === "code") {
      const most = fold?.left ?? lines.length;
      while (taken < most && lines[index + taken]?.style === "code") taken += 1;
      made.push(...fenced(lines.slice(index, index + taken).map(({ text }) => text)));
    } else made.push({ text: markdownLine(line), ...(line.links ? { links: line.links } : {}) });
    index += taken;
    if (fold && (fold.left -= taken) <= 0) {
      const start = made[fold.start];
      if (start) made[fold.start] = { ...start, folds: made.length - 1 - fold.start };
      fold = undefined;
    }
    if (line.folds) fold = { start: made.length - 1, left: line.folds };
  }
  return made;
}

function markdownLine({ text, style, mark }: Line): string {
  const marked = mark === undefined ? text : `${mark} ${text}`;
  switch (style) {
    case "heading":
      return `## ${marked}`;
    case "strong":
      return `**${marked}**`;
    case "quiet":
      return `*${marked}*`;
    case "thought":
      return `> *${marked}*`;
    case "quote":
      return `> ${marked}`;
    case "item":
      return `- ${marked}`;
    case "todo":
      return `- [ ] ${marked}`;
    case "done":
      return `- [x] ${marked}`;
    default:
      return marked;
  }
}

/** Choose a fence that the text cannot close. */
function fenced(lines: readonly string[]): Marked[] {
  const longest = lines.reduce((most, line) => Math.max(most, /^\s*(`{3,})/.exec(line)?.[1]?.length ?? 0), 2);
  const ticks = "`".repeat(longest + 1);
  return [ticks, ...lines, ticks].map((text) => ({ text }));
}
