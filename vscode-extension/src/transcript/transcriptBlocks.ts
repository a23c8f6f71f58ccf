/** Collect the events of a delegation as blocks of lines, for the text document and the page. */

import { t } from "../base/l10n.ts";
import { oneLine } from "../state/formatting.ts";
import { placesText, roundText } from "../state/mutationWording.ts";
import type { Event } from "../protocol.ts";
import {
  type EventOf,
  type Line,
  type ToolCall,
  agentMessageLines,
  attemptFailedLines,
  changeName,
  checkLines,
  decisionLines,
  fileLine,
  finishedLines,
  messageLines,
  pathLinks,
  permissionLines,
  planLines,
  quietLine,
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

/** What belongs together: a message, a tool call with its output, a question with its answer. */
export interface Block {
  readonly kind: string;
  /** Called only when the block is shown. */
  lines: () => Line[];
  /** Incremented when the lines change. */
  version: number;
  /** The question, until it is answered. */
  question?: EventOf<"permission">;
}

/** Collects events, in order. Blocks never move and are never removed. */
export class TranscriptBlocks {
  readonly #blocks: Block[] = [];
  readonly #tools = new Map<string, { tool: ToolCall; block: Block }>();
  readonly #checks = new Map<string, Block>();
  /** What the user said, until the agent got it. */
  readonly #messages = new Map<string, { event: EventOf<"user_message">; block: Block }>();
  #plan: { entries: readonly unknown[]; block: Block } | undefined;
  #text: { message: BoundedText; block: Block } | undefined;
  /** The last message of the agent, so that the result does not repeat it. */
  #lastMessage: BoundedText | undefined;
  /** The failure of the last attempt, so that the verdict does not repeat it. */
  #failure: string | undefined;
  #question: { event: EventOf<"permission">; answer?: EventOf<"permission_answered">; block: Block } | undefined;
  /** Whether the result is discarded: another worktree restores it. */
  #discarded = false;
  /** The last activity, if it is counted. */
  #counted: { readonly what: string; readonly block: Block } | undefined;
  #decisions: { event: EventOf<"decided">; hunks: number; block: Block } | undefined;

  get all(): readonly Block[] {
    return this.#blocks;
  }

  add(events: readonly Event[]): void {
    for (const event of events) this.#take(event);
  }

  #take(event: Event): void {
    if (event.type !== "text" && event.type !== "thinking") this.#text = undefined;
    if (event.type !== "decided") this.#decisions = undefined;
    switch (event.type) {
      case "started":
        this.#plan = undefined;
        this.#lastMessage = undefined;
        this.#failure = undefined;
        this.#put("started", () => startedLines(event));
        return;
      case "queued":
        this.#put("queued", () => quietLine(t("Number {0} in the queue.", event.position)));
        return;
      case "phase":
        this.#phase(event);
        return;
      case "prompt":
        this.#put("prompt", () => quietLine(t("Prompt sent (about {0} tokens).", event.tokens.toLocaleString())));
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
        const question: { event: EventOf<"permission">; answer?: EventOf<"permission_answered">; block: Block } = {
          event,
          block: this.#put("permission", () => permissionLines(event, question.answer)),
        };
        question.block.question = event;
        this.#question = question;
        return;
      }
      case "permission_answered":
        if (this.#question?.event.requestId === event.requestId) {
          this.#question.answer = event;
          delete this.#question.block.question;
          this.#renew(this.#question.block);
        }
        return;
      case "user_message": {
        const block = this.#put("message", () => messageLines(event, ""));
        this.#messages.set(event.messageId, { event, block });
        return;
      }
      case "agent_message":
        this.#put("message", () => agentMessageLines(event));
        return;
      case "message_delivered":
        this.#settleMessage(event.messageId, "delivered");
        return;
      case "attempt_failed":
        this.#failure = event.error.message;
        this.#put("failed", () => attemptFailedLines(event));
        return;
      case "check_started": {
        this.#counted = undefined;
        const block = this.#put("check", () => singleLine(t("{0} is running…", event.name), "○"));
        this.#checks.set(event.name, block);
        return;
      }
      case "check_finished": {
        const known = this.#checks.get(event.name);
        this.#checks.delete(event.name);
        const block = known ?? this.#put("check", () => []);
        this.#renew(block, () => checkLines(event));
        return;
      }
      case "places_judged":
        this.#put("places", () => quietLine(removeEscapes(placesText(event))));
        return;
      case "round_judged":
        for (const [name, block] of this.#checks) {
          this.#renew(block, () => singleLine(t("{0} ran on a result that was not kept", name), "○"));
        }
        this.#checks.clear();
        this.#put("round", () => singleLine(removeEscapes(roundText(event)), event.kept ? "✓" : "✗"));
        return;
      case "result": {
        const lastMessage = this.#lastMessage?.text.trim() ?? "";
        this.#put("result", () => resultLines(event, lastMessage));
        return;
      }
      case "note":
        this.#put("note", () => singleLine(removeEscapes(event.text), event.level === "info" ? "•" : "⚠"));
        return;
      case "finished": {
        const failure = this.#failure;
        for (const id of this.#messages.keys()) this.#settleMessage(id, "ended");
        this.#put("finished", () => finishedLines(event, failure));
        return;
      }
      case "decided":
        this.#decide(event);
        return;
      case "confirmed":
        this.#put("note", () => [
          {
            text:
              event.tests > 0
                ? t("You confirmed the changed tests ({0}).", event.tests)
                : t("The changed tests need your confirmation again."),
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
        this.#discarded = true;
        this.#put("discarded", () => singleLine(t("The result was discarded. It can be restored.")));
        return;
      case "worktree":
        if (this.#discarded) this.#put("restored", () => singleLine(t("The result was restored.")));
        this.#discarded = false;
        return;
      case "unknown":
        this.#put("unknown", () => quietLine(t("An event that this version does not recognize.")));
        return;
      default:
        // base, usage, session, checkpoint: shown in the head, or not at all
        return;
    }
  }

  /** What is counted is one block, which changes with the count. */
  #phase({ text, count }: EventOf<"phase">): void {
    const lines = (): Line[] => quietLine(oneLine(removeEscapes(text), 200));
    const what = count && `${count.of} ${count.total} ${count.run ?? ""}`;
    if (what !== undefined && this.#counted?.what === what) this.#renew(this.#counted.block, lines);
    else {
      const block = this.#put("phase", lines);
      this.#counted = what === undefined ? undefined : { what, block };
    }
  }

  #put(kind: string, lines: () => Line[]): Block {
    const block = { kind, lines, version: 0 };
    this.#blocks.push(block);
    return block;
  }

  /** The lines of a block changed. */
  #renew(block: Block, lines = block.lines): void {
    block.lines = lines;
    block.version += 1;
  }

  #talk(event: EventOf<"text"> | EventOf<"thinking">): void {
    if (this.#text?.block.kind === event.type) {
      this.#text.message.add(event.text);
      this.#renew(this.#text.block);
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
    this.#renew(known.block);
  }

  #settleMessage(id: string, done: "delivered" | "ended"): void {
    const known = this.#messages.get(id);
    if (!known) return;
    if (done === "delivered") this.#messages.delete(id);
    this.#renew(known.block, () => messageLines(known.event, done));
  }

  #setPlan(entries: readonly unknown[]): void {
    if (this.#plan) {
      this.#plan.entries = entries;
      this.#renew(this.#plan.block);
      return;
    }
    const plan: { entries: readonly unknown[]; block: Block } = {
      entries,
      block: this.#put("plan", () => planLines(plan.entries)),
    };
    this.#plan = plan;
  }

  #decide(event: EventOf<"decided">): void {
    const last = this.#decisions;
    if (last?.event.path === event.path && last.event.decision === event.decision && !event.reason) {
      last.hunks += 1;
      this.#renew(last.block);
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
