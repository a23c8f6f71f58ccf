/**
 * Render the events of a delegation as Markdown that can grow, with folded tool output. Independent of the editor:
 * lines, folds and links are data.
 */

import { roundText } from "../state/mutationWording.ts";
import { t } from "../base/l10n.ts";
import { oneLine } from "../state/formatting.ts";
import type { Delegation, Event } from "../protocol.ts";
import {
  type EventOf,
  type Line,
  type ToolCall,
  attemptFailedLines,
  changeName,
  checkLines,
  decisionLines,
  fileLine,
  finishedLines,
  headLines,
  pathLinks,
  permissionLines,
  planLines,
  removeEscapes,
  resultLines,
  singleLine,
  startedLines,
  textLines,
  thinkingLines,
  toolLines,
} from "./transcriptLines.ts";

/** Characters of one message of an agent; the middle is omitted. */
export const MAX_MESSAGE_LENGTH = 400_000;

/** Characters of the whole text: the editor reads a document again whenever it grows. The middle is omitted. */
export const MAX_LENGTH = 4_000_000;

/** Blocks at the beginning that are kept, unless they are large. */
const KEPT_FIRST_BLOCKS = 20;

/** Kinds of blocks that are not separated by empty lines. */
const LIST_KINDS = new Set(["file", "tool", "check", "note", "applied", "decided"]);

/** A part of the text. `lines` is called when needed and cached in `made`. */
interface Block {
  kind: string;
  lines: () => Line[];
  made?: Line[];
  /** Characters of `made`. */
  size?: number;
}

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

/** Collect events and render their text. */
export class TranscriptText {
  readonly #blocks: Block[] = [];
  readonly #tools = new Map<string, { tool: ToolCall; block: Block }>();
  readonly #checks = new Map<string, Block>();
  #plan: { entries: readonly unknown[]; block: Block } | undefined;
  #text: { message: BoundedText; block: Block } | undefined;
  /** The last message of the agent, so that the result does not repeat it. */
  #lastMessage: BoundedText | undefined;
  #question: { event: EventOf<"permission">; answer?: EventOf<"permission_answered">; block: Block } | undefined;
  #decisions: { event: EventOf<"decided">; hunks: number; block: Block } | undefined;

  /** Add events, in order. */
  add(events: readonly Event[]): void {
    for (const event of events) this.#take(event);
  }

  render(delegation: Delegation | undefined, now: number): Rendered {
    const lines: string[] = [];
    const folds: { start: number; end: number }[] = [];
    const links: FileLink[] = [];
    let question: number | undefined;
    const put = (block: readonly Line[]): void => {
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
    for (const [index, block] of this.#blocks.entries()) {
      if (index === from && to > from) {
        put(singleLine(t("*… {0} events omitted …*", to - from)));
        before = "";
      }
      const made = blockLines(block);
      if ((from <= index && index < to) || made.length === 0) continue;
      if (block.kind === before && LIST_KINDS.has(block.kind)) lines.pop();
      before = block.kind;
      const open = this.#question;
      if (open?.block === block && open.answer === undefined && delegation?.waitingFor) question = lines.length;
      put(made);
    }
    const text = lines.join("\n");
    return question === undefined ? { text, folds, links } : { text, folds, links, question };
  }

  /** The blocks to omit: from the first index up to, but not including, the second. */
  #leftOut(): readonly [number, number] {
    const all = this.#blocks;
    const size = (index: number): number => (all[index] ? blockSize(all[index]) : 0);
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

  #take(event: Event): void {
    if (event.type !== "text" && event.type !== "thinking") this.#text = undefined;
    if (event.type !== "decided") this.#decisions = undefined;
    switch (event.type) {
      case "started":
        this.#plan = undefined;
        this.#lastMessage = undefined;
        this.#put("started", () => startedLines(event));
        return;
      case "queued":
        this.#put("queued", () => singleLine(t("*Waiting for a free slot (position {0}).*", event.position)));
        return;
      case "phase":
        this.#put("phase", () => singleLine(`*${oneLine(removeEscapes(event.text), 200)}*`));
        return;
      case "prompt":
        this.#put("prompt", () => singleLine(t("*Prompt sent (about {0} tokens).*", event.tokens.toLocaleString())));
        return;
      case "text":
      case "thinking":
        this.#talk(event);
        return;
      case "tool_call":
        this.#call(event);
        return;
      case "tool_result":
        this.#answer(event);
        return;
      case "file":
        this.#put("file", () => [fileLine(event.path, changeName(event.change))]);
        return;
      case "plan":
        this.#setPlan(event.entries);
        return;
      case "permission": {
        const block = this.#put("permission", () => permissionLines(event, this.#answerOf(event)));
        this.#question = { event, block };
        return;
      }
      case "permission_answered":
        if (this.#question?.event.requestId === event.requestId) {
          this.#question.answer = event;
          delete this.#question.block.made;
        }
        return;
      case "attempt_failed":
        this.#put("failed", () => attemptFailedLines(event));
        return;
      case "check_started": {
        const block = this.#put("check", () => singleLine(t("○ {0} is running…", event.name)));
        this.#checks.set(event.name, block);
        return;
      }
      case "check_finished": {
        const known = this.#checks.get(event.name);
        this.#checks.delete(event.name);
        const block = known ?? this.#put("check", () => []);
        block.lines = () => checkLines(event);
        delete block.made;
        return;
      }
      case "round_judged":
        for (const [name, block] of this.#checks) {
          block.lines = () => singleLine(t("○ {0} ran on a result that was not kept", name));
          delete block.made;
        }
        this.#checks.clear();
        this.#put("round", () => singleLine(`${event.kept ? "✓" : "✗"} ${removeEscapes(roundText(event))}`));
        return;
      case "result": {
        const lastMessage = this.#lastMessage?.text.trim() ?? "";
        this.#put("result", () => resultLines(event, lastMessage));
        return;
      }
      case "note":
        this.#put("note", () => singleLine(`${event.level === "info" ? "ⓘ" : "⚠"} ${removeEscapes(event.text)}`));
        return;
      case "finished":
        this.#put("finished", () => finishedLines(event));
        return;
      case "decided":
        this.#decide(event);
        return;
      case "confirmed":
        this.#put("note", () => [
          {
            text:
              event.tests > 0
                ? t("You confirmed the changed tests ({0}).", event.tests)
                : t("The changed tests are a question again."),
          },
        ]);
        return;
      case "applied":
        this.#put("applied", () => [
          {
            text: t("Accepted changes were written to your files: {0}", event.paths.join(", ")),
            links: pathLinks(event.paths),
          },
        ]);
        return;
      case "undone":
        this.#put("undone", () => singleLine(t("The last accept was undone.")));
        return;
      case "amended":
        this.#put("amended", () => [
          {
            text:
              event.undoes === undefined
                ? t("{0} was edited.", event.path)
                : t("The edit of {0} was undone.", event.path),
            links: pathLinks([event.path]),
          },
        ]);
        return;
      case "dismissed":
        return;
      case "superseded":
        this.#put("superseded", () => singleLine(t("A follow-up took over the pending changes: {0}", event.by)));
        return;
      case "discarded":
        this.#put("discarded", () => singleLine(t("The result was discarded. It can be restored.")));
        return;
      case "unknown":
        this.#put("unknown", () => singleLine(t("*An event that this version does not know.*")));
        return;
      default:
        // base, worktree, usage, session, checkpoint: shown in the head, or not at all
        return;
    }
  }

  #put(kind: string, lines: () => Line[]): Block {
    const block = { kind, lines };
    this.#blocks.push(block);
    return block;
  }

  #talk(event: EventOf<"text"> | EventOf<"thinking">): void {
    if (this.#text?.block.kind === event.type) {
      this.#text.message.add(event.text);
      delete this.#text.block.made;
      return;
    }
    const message = new BoundedText();
    message.add(event.text);
    if (event.type === "text") this.#lastMessage = message;
    const lines = (): Line[] => (event.type === "text" ? textLines(message.text) : thinkingLines(message.text));
    this.#text = { message, block: this.#put(event.type, lines) };
  }

  #call(call: EventOf<"tool_call">): void {
    const tool: ToolCall = { call };
    const block = this.#put("tool", () => toolLines(tool));
    this.#tools.set(`${call.attempt} ${call.callId}`, { tool, block });
  }

  #answer(event: EventOf<"tool_result">): void {
    const known = this.#tools.get(`${event.attempt} ${event.callId}`);
    if (!known) return;
    known.tool.result = event;
    delete known.block.made;
  }

  #setPlan(entries: readonly unknown[]): void {
    if (this.#plan) {
      this.#plan.entries = entries;
      delete this.#plan.block.made;
      return;
    }
    const plan: { entries: readonly unknown[]; block: Block } = {
      entries,
      block: this.#put("plan", () => planLines(plan.entries)),
    };
    this.#plan = plan;
  }

  #answerOf(event: EventOf<"permission">): EventOf<"permission_answered"> | undefined {
    return this.#question?.event === event ? this.#question.answer : undefined;
  }

  #decide(event: EventOf<"decided">): void {
    const last = this.#decisions;
    if (last?.event.path === event.path && last.event.decision === event.decision && !event.reason) {
      last.hunks += 1;
      delete last.block.made;
      return;
    }
    const decisions: { event: EventOf<"decided">; hunks: number; block: Block } = {
      event,
      hunks: 1,
      block: this.#put("decided", () => decisionLines(event, decisions.hunks)),
    };
    this.#decisions = decisions;
  }
}

/** A message that grows piece by piece; keeps its beginning and its end. */
class BoundedText {
  #beginning = "";
  #end: string[] = [];
  #endSize = 0;
  #left = 0;

  add(text: string): void {
    const room = Math.max(0, MAX_MESSAGE_LENGTH / 2 - this.#beginning.length);
    this.#beginning += text.slice(0, room);
    if (text.length <= room) return;
    this.#end.push(text.slice(room));
    this.#endSize += text.length - room;
    if (this.#endSize <= MAX_MESSAGE_LENGTH) return;
    const end = this.#end.join("").slice(-MAX_MESSAGE_LENGTH / 2);
    this.#left += this.#endSize - end.length;
    this.#end = [end];
    this.#endSize = end.length;
  }

  get text(): string {
    const end = this.#end.join("");
    const left = this.#left + Math.max(0, end.length - MAX_MESSAGE_LENGTH / 2);
    if (left === 0) return this.#beginning + end;
    return `${this.#beginning}\n\n${t("… {0} characters …", left)}\n\n${end.slice(-MAX_MESSAGE_LENGTH / 2)}`;
  }
}

function blockLines(block: Block): readonly Line[] {
  if (!block.made) {
    block.made = block.lines();
    block.size = block.made.reduce((all, { text }) => all + text.length + 1, 0);
  }
  return block.made;
}

function blockSize(block: Block): number {
  blockLines(block);
  return block.size ?? 0;
}
