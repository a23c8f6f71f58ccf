/**
 * A delegation's events as a text that reads well while it grows and afterwards: Markdown, with what tools said folded
 * away. Knows nothing of editors: lines, folds and links are data.
 */

import { t } from "../base/l10n.ts";
import {
  checkWords,
  cost,
  duration,
  isLive,
  oneLine,
  orderedOptions,
  reservationMeaning,
  sentence,
  spent,
  stateName,
  tokens,
  toolName,
  verdictMeaning,
  verdictName,
  verdictWords,
} from "../model/words.ts";
import type { Delegation, Event, FileStat } from "../protocol.ts";

/** Lines of what a tool got or said that are shown; the middle is left out. */
export const MOST_LINES = 200;
/** Characters of one line of it. */
const MOST_OF_A_LINE = 2_000;
/** Characters of one thing that an agent says; the middle is left out. */
export const MOST_SAID = 400_000;
/** Characters of all of it: an editor reads a document whole whenever it has grown. What is between beginning and end is left out. */
export const MOST_OF_ALL = 4_000_000;
/** Blocks at the beginning that stay, unless they are large. */
const BEGINNING = 20;
/** Blocks of one kind that follow each other without an empty line. */
const LISTS = new Set(["file", "tool", "check", "note", "applied", "decided"]);

/** A part of the text; `lines` is made when it is needed and kept while nothing is added. */
interface Block {
  kind: string;
  lines: () => Line[];
  made?: Line[];
  /** Characters of `made`. */
  size?: number;
}

/** One line; with what it links to. */
interface Line {
  readonly text: string;
  readonly links?: readonly { readonly text: string; readonly path: string }[];
  /** This many lines from here on are folded under this one. */
  readonly folds?: number;
}

/** What a file link stands for: a path as the agent, or the contract, wrote it. */
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
  /** The line of the question that waits for an answer. */
  readonly question?: number;
}

type Of<T extends Event["type"]> = Extract<Event, { type: T }>;

interface Tool {
  readonly call: Of<"tool_call">;
  result?: Of<"tool_result">;
}

/** Collects events and makes the text of them. */
export class TranscriptText {
  readonly #blocks: Block[] = [];
  readonly #tools = new Map<string, { tool: Tool; block: Block }>();
  readonly #checks = new Map<string, Block>();
  #plan: { entries: readonly unknown[]; block: Block } | undefined;
  #text: { said: Said; block: Block } | undefined;
  /** What the agent said last: a result that says it again is not shown twice. */
  #said: Said | undefined;
  #question: { event: Of<"permission">; answer?: Of<"permission_answered">; block: Block } | undefined;
  #decisions: { event: Of<"decided">; hunks: number; block: Block } | undefined;

  /** Take events, in order. */
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
    if (delegation) put(head(delegation, now));
    let before = "";
    const [from, to] = this.#leftOut();
    for (const [index, block] of this.#blocks.entries()) {
      if (index === from && to > from) {
        put(one(t("*… {0} things that happened are left out here …*", to - from)));
        before = "";
      }
      const made = linesOf(block);
      if ((from <= index && index < to) || made.length === 0) continue;
      if (block.kind === before && LISTS.has(block.kind)) lines.pop();
      before = block.kind;
      const open = this.#question;
      if (open?.block === block && open.answer === undefined && delegation?.waitingFor) question = lines.length;
      put(made);
    }
    const text = lines.join("\n");
    return question === undefined ? { text, folds, links } : { text, folds, links, question };
  }

  /** Which blocks have no room: from the first of them to the first one after them. */
  #leftOut(): readonly [number, number] {
    const all = this.#blocks;
    const size = (index: number): number => (all[index] ? sizeOf(all[index]) : 0);
    let from = 0;
    let room = MOST_OF_ALL;
    while (from < Math.min(BEGINNING, all.length) && room - size(from) > (MOST_OF_ALL / 4) * 3) {
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
        this.#said = undefined;
        this.#put("started", () => started(event));
        return;
      case "queued":
        this.#put("queued", () => one(t("*Waits for a free slot, at position {0}.*", event.position)));
        return;
      case "phase":
        this.#put("phase", () => one(`*${oneLine(clean(event.text), 200)}*`));
        return;
      case "prompt":
        this.#put("prompt", () =>
          one(t("*The task was handed over, about {0} tokens.*", event.tokens.toLocaleString())),
        );
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
        this.#put("file", () => [changed(event.path, changeName(event.change))]);
        return;
      case "plan":
        this.#setPlan(event.entries);
        return;
      case "permission": {
        const block = this.#put("permission", () => asked(event, this.#answerOf(event)));
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
        this.#put("failed", () => failed(event));
        return;
      case "check_started": {
        const block = this.#put("check", () => one(t("○ {0} runs …", event.name)));
        this.#checks.set(event.name, block);
        return;
      }
      case "check_finished": {
        const known = this.#checks.get(event.name);
        this.#checks.delete(event.name);
        const block = known ?? this.#put("check", () => []);
        block.lines = () => checked(event);
        delete block.made;
        return;
      }
      case "result": {
        const said = this.#said?.text.trim() ?? "";
        this.#put("result", () => result(event, said));
        return;
      }
      case "note":
        this.#put("note", () => one(`${event.level === "info" ? "ⓘ" : "⚠"} ${clean(event.text)}`));
        return;
      case "finished":
        this.#put("finished", () => finished(event));
        return;
      case "decided":
        this.#decide(event);
        return;
      case "applied":
        this.#put("applied", () => [
          { text: t("Accepted changes are in your files: {0}", event.paths.join(", ")), links: paths(event.paths) },
        ]);
        return;
      case "undone":
        this.#put("undone", () => one(t("The accept was taken back.")));
        return;
      case "amended":
        this.#put("amended", () => [{ text: t("{0} was edited by hand.", event.path), links: paths([event.path]) }]);
        return;
      case "superseded":
        this.#put("superseded", () => one(t("A follow-up took over what was undecided: {0}", event.by)));
        return;
      case "discarded":
        this.#put("discarded", () => one(t("The result was discarded. It can be restored.")));
        return;
      case "unknown":
        this.#put("unknown", () => one(t("*Something that only a newer version understands.*")));
        return;
      default:
        // base, worktree, usage, session, checkpoint: in the head, or nothing to read
        return;
    }
  }

  #put(kind: string, lines: () => Line[]): Block {
    const block = { kind, lines };
    this.#blocks.push(block);
    return block;
  }

  #talk(event: Of<"text"> | Of<"thinking">): void {
    if (this.#text?.block.kind === event.type) {
      this.#text.said.add(event.text);
      delete this.#text.block.made;
      return;
    }
    const words = new Said();
    words.add(event.text);
    if (event.type === "text") this.#said = words;
    const lines = (): Line[] => (event.type === "text" ? said(words.text) : thought(words.text));
    this.#text = { said: words, block: this.#put(event.type, lines) };
  }

  #call(call: Of<"tool_call">): void {
    const tool: Tool = { call };
    const block = this.#put("tool", () => toolLines(tool));
    this.#tools.set(`${call.attempt} ${call.callId}`, { tool, block });
  }

  #answer(event: Of<"tool_result">): void {
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

  #answerOf(event: Of<"permission">): Of<"permission_answered"> | undefined {
    return this.#question?.event === event ? this.#question.answer : undefined;
  }

  #decide(event: Of<"decided">): void {
    const last = this.#decisions;
    if (last?.event.path === event.path && last.event.decision === event.decision && !event.reason) {
      last.hunks += 1;
      delete last.block.made;
      return;
    }
    const decisions: { event: Of<"decided">; hunks: number; block: Block } = {
      event,
      hunks: 1,
      block: this.#put("decided", () => decided(event, decisions.hunks)),
    };
    this.#decisions = decisions;
  }
}

/** What somebody says, piece by piece: its beginning and its end. */
class Said {
  #beginning = "";
  #end: string[] = [];
  #endSize = 0;
  #left = 0;

  add(text: string): void {
    const room = Math.max(0, MOST_SAID / 2 - this.#beginning.length);
    this.#beginning += text.slice(0, room);
    if (text.length <= room) return;
    this.#end.push(text.slice(room));
    this.#endSize += text.length - room;
    if (this.#endSize <= MOST_SAID) return;
    const end = this.#end.join("").slice(-MOST_SAID / 2);
    this.#left += this.#endSize - end.length;
    this.#end = [end];
    this.#endSize = end.length;
  }

  get text(): string {
    const end = this.#end.join("");
    const left = this.#left + Math.max(0, end.length - MOST_SAID / 2);
    if (left === 0) return this.#beginning + end;
    return `${this.#beginning}\n\n${t("… {0} characters …", left)}\n\n${end.slice(-MOST_SAID / 2)}`;
  }
}

function linesOf(block: Block): readonly Line[] {
  if (!block.made) {
    block.made = block.lines();
    block.size = block.made.reduce((all, { text }) => all + text.length + 1, 0);
  }
  return block.made;
}

function sizeOf(block: Block): number {
  linesOf(block);
  return block.size ?? 0;
}

function head(delegation: Delegation, now: number): Line[] {
  const { title, recipe, delegator, workspace, startedAt, verdict, reservations } = delegation;
  const amounts = [duration(spent(delegation, now)), tokens(delegation), cost(delegation)];
  const state = isLive(delegation)
    ? stateName(delegation)
    : verdict
      ? `${verdictWords(verdict, reservations)}.`
      : stateName(delegation);
  const when = new Date(startedAt).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return [
    { text: `# ${oneLine(clean(title), 200)}` },
    { text: "" },
    { text: `**${state}**` },
    { text: "" },
    // While it runs, no figure here changes by itself: a line that moves is in a reader's way.
    {
      text: [t("{0} by {1}", recipe, delegator), when, ...(isLive(delegation) ? [] : amounts.filter(Boolean))].join(
        " · ",
      ),
    },
    { text: workspace },
  ];
}

function started(event: Of<"started">): Line[] {
  const who = [event.tool ? toolName(event.tool) : event.modelServer, event.model].filter(
    (part) => part !== undefined && part !== "",
  );
  const name = who.length > 0 ? `${event.delegator} (${who.join(", ")})` : event.delegator;
  return [{ text: t("## Attempt {0}: {1}", event.attempt, name) }, { text: "" }, ...said(sentence(event.why))];
}

function said(text: string): Line[] {
  return clean(text)
    .replace(/^\n+|\s+$/g, "")
    .split("\n")
    .map((line) => ({ text: line }));
}

function thought(text: string): Line[] {
  const lines = clean(text).trim().split("\n");
  return [{ text: t("> *Thinking*"), folds: lines.length }, ...lines.map((line) => ({ text: `> ${line}` }))];
}

function toolLines({ call, result }: Tool): Line[] {
  const title = oneLine(clean(call.title || call.name), 200);
  const mark = result === undefined ? "○" : result.ok ? "✓" : "✗";
  const path = pathOf(call.input);
  const links = path !== undefined && title.includes(path) ? [{ text: path, path }] : [];
  const input = inputLines(call.input, title);
  const output = result === undefined ? [] : outputLines(result.output, result.truncatedBytes ?? 0);
  const body = [...fence(input), ...(input.length > 0 && output.length > 0 ? [""] : []), ...fence(output)];
  return [
    { text: `${mark} ${title}`, links, ...(body.length > 0 ? { folds: body.length } : {}) },
    ...body.map((text) => ({ text })),
  ];
}

/** What a tool got, unless its title says it already. */
function inputLines(input: unknown, title: string): string[] {
  if (input === null || input === undefined) return [];
  if (typeof input === "string") return title.includes(input.trim()) ? [] : outputLines(input, 0);
  if (typeof input !== "object" || Object.keys(input).length === 0) return [];
  const values = Object.entries(input);
  if (values.every(([, value]) => typeof value === "string" && title.includes(value))) return [];
  const lines = values.flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    const own = text.split("\n");
    return own.length === 1 ? [`${name}: ${text}`] : [`${name}:`, ...own.map((line) => `  ${line}`)];
  });
  return outputLines(lines.join("\n"), 0);
}

function outputLines(text: string, truncated: number): string[] {
  const trimmed = clean(text).replace(/\s+$/, "");
  const lines = trimmed === "" ? [] : trimmed.split("\n").map(cut);
  const half = MOST_LINES / 2;
  const shown =
    lines.length <= MOST_LINES
      ? lines
      : [...lines.slice(0, half), t("… {0} lines …", lines.length - MOST_LINES), ...lines.slice(-half)];
  return truncated > 0 ? [...shown, t("… {0} bytes were cut off", truncated)] : shown;
}

/** A line in pieces that an editor draws to their end. */
function pieces(line: string): string[] {
  return line.length <= MOST_OF_A_LINE ? [line] : (line.match(/[^]{1,2000}/gu) ?? []);
}

function cut(line: string): string {
  return line.length <= MOST_OF_A_LINE
    ? line
    : `${line.slice(0, MOST_OF_A_LINE)}${t("… {0} characters …", line.length - MOST_OF_A_LINE)}`;
}

/** Fenced so that nothing in it ends the fence. */
function fence(lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const longest = lines.reduce((most, line) => Math.max(most, /^\s*(`{3,})/.exec(line)?.[1]?.length ?? 0), 2);
  const ticks = "`".repeat(longest + 1);
  return [ticks, ...lines, ticks];
}

function planLines(entries: readonly unknown[]): Line[] {
  const lines = entries.map((entry): Line => {
    const { content, status } = (typeof entry === "object" && entry !== null ? entry : { content: entry }) as {
      content?: unknown;
      status?: unknown;
    };
    const words = typeof content === "string" ? content : JSON.stringify(content ?? entry);
    const box = status === "completed" ? "x" : " ";
    return { text: `- [${box}] ${oneLine(clean(words), 200)}${status === "in_progress" ? " …" : ""}` };
  });
  return [{ text: t("**Plan**") }, ...lines];
}

function asked(event: Of<"permission">, answer: Of<"permission_answered"> | undefined): Line[] {
  // Whole, whatever its length: nobody should allow what they could read only half of.
  const detail =
    event.detail.trim() === "" ? [] : ["", ...fence(clean(event.detail).trimEnd().split("\n").flatMap(pieces))];
  const lines = [`**${t("Question: {0}", oneLine(clean(event.title), Infinity))}**`, ...detail, ""];
  const title = (id: string): string => event.options.find((option) => option.id === id)?.title ?? id;
  if (answer === undefined) {
    const choices = orderedOptions(event).map((option) => option.title);
    lines.push(t("Answer above the question, in the view or with “Answer Question…”: {0}.", choices.join(t(" or "))));
    if (event.deadline !== undefined) {
      lines.push(t("Without an answer by {0}: {1}.", clock(event.deadline), title(event.onDeadline)));
    }
  } else {
    lines.push(`→ ${title(answer.option)}, ${answeredBy(answer.by)}`);
  }
  return lines.map((text) => ({ text }));
}

function answeredBy(by: string): string {
  switch (by) {
    case "deadline":
      return t("because nobody answered in time");
    case "withdrawn":
      return t("the agent took the question back");
    case "cli":
      return t("answered in a terminal");
    case "lsp":
      return t("answered in an editor");
    default:
      return t("answered by {0}", by);
  }
}

function failed(event: Of<"attempt_failed">): Line[] {
  const next =
    event.nextDelegator !== undefined
      ? t("{0} goes on.", event.nextDelegator)
      : event.willRetry
        ? t("It is tried again.")
        : "";
  const wait = event.waitSeconds === undefined ? "" : t("In {0} s.", event.waitSeconds);
  return one(["✗", clean(event.message), event.hint ?? "", next, wait].filter((part) => part !== "").join(" "));
}

function checked(event: Of<"check_finished">): Line[] {
  const body = fence([`$ ${event.argv.join(" ")}`, ...outputLines(event.outputTail, 0)]);
  const lines: Line[] = [
    { text: `${event.ok ? "✓" : "✗"} ${event.name}: ${checkWords(event)}`, folds: body.length },
    ...body.map((text) => ({ text })),
  ];
  if (event.control) {
    const { bitten, survived } = event.control;
    lines.push({
      text: t(
        "With the code under test broken on purpose, {0} of {1} new tests fail.",
        bitten,
        bitten + survived.length,
      ),
    });
    for (const test of survived) lines.push({ text: t("- passes all the same: {0}", test) });
  }
  if (event.flaky) lines.push({ text: `⚠ ${reservationMeaning("flaky")}` });
  if (event.failsOnBase) lines.push({ text: `⚠ ${reservationMeaning("fails_on_base")}` });
  if (event.wrongTree?.length)
    lines.push({ text: `⚠ ${reservationMeaning("wrong_tree")}: ${event.wrongTree.join(", ")}` });
  return lines;
}

function result(event: Of<"result">, before: string): Line[] {
  const lines: Line[] = [{ text: t("## Result") }, { text: "" }];
  const fresh = (text: string | undefined): text is string => text !== undefined && !["", before].includes(text.trim());
  if (fresh(event.summary)) lines.push(...said(event.summary), { text: "" });
  // Beside files it is what was said already.
  if (fresh(event.text) && event.files.length === 0) lines.push(...said(event.text), { text: "" });
  for (const file of event.files)
    lines.push(changed(file.path, statusName(file), `+${file.additions} −${file.deletions}`));
  if (lines.at(-1)?.text === "") lines.pop();
  return lines.length > 1 ? lines : [];
}

function finished(event: Of<"finished">): Line[] {
  // The answer has been read, and the head says so.
  if (event.verdict === "answered" && event.reservations.length === 0 && !event.error) return [];
  const lines: Line[] = [
    { text: `## ${verdictName(event.verdict)}` },
    { text: "" },
    { text: sentence(verdictMeaning(event.verdict)) },
  ];
  for (const reservation of event.reservations) lines.push({ text: `- ${reservationMeaning(reservation)}` });
  if (event.error) {
    lines.push({ text: "" }, ...said([event.error.message, event.error.hint ?? ""].join("\n").trim()));
  }
  return lines;
}

function decided(event: Of<"decided">, hunks: number): Line[] {
  const what = hunks === 1 ? t("1 change") : t("{0} changes", hunks);
  const words = event.conflict
    ? t("{0} in {1} could not be merged into your file.", what, event.path)
    : event.decision === "accept"
      ? t("Accepted {0} in {1}.", what, event.path)
      : event.decision === "reject"
        ? t("Rejected {0} in {1}.", what, event.path)
        : t("{0} in {1} undecided again.", what, event.path);
  return [{ text: event.reason ? `${words} ${oneLine(clean(event.reason), 200)}` : words, links: paths([event.path]) }];
}

function changed(path: string, what: string, amount = ""): Line {
  return { text: `- ${path} ${[what, amount].filter((part) => part !== "").join(", ")}`, links: paths([path]) };
}

function changeName(change: Of<"file">["change"]): string {
  return { added: t("added"), modified: t("changed"), deleted: t("deleted"), renamed: t("renamed") }[change];
}

function statusName({ status }: FileStat): string {
  const known: Record<string, string> = {
    added: t("added"),
    modified: t("changed"),
    deleted: t("deleted"),
    renamed: t("renamed"),
  };
  return known[status] ?? status;
}

function paths(names: readonly string[]): { text: string; path: string }[] {
  return names.map((path) => ({ text: path, path }));
}

/** The file that a tool call is about, by the names that tools use. */
function pathOf(input: unknown): string | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  for (const name of ["path", "file_path", "filePath", "file", "filename"]) {
    const value = (input as Record<string, unknown>)[name];
    if (typeof value === "string" && value !== "") return value;
  }
  return undefined;
}

function one(text: string): Line[] {
  return [{ text }];
}

function clock(time: string): string {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** Without what terminals would act on; line ends as editors have them. */
export function clean(text: string): string {
  return text
    .replaceAll(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "")
    .replaceAll(/\r\n?/g, "\n")
    .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "");
}
