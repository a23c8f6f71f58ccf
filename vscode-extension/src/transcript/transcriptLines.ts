/** Render one event of a delegation as lines of plain text with a style, for the text document and the page. */

import { t } from "../base/l10n.ts";
import {
  RESERVATION_REASONS,
  VERDICT_MEANINGS,
  type Delegation,
  type Event,
  type FileStat,
  type Reservation,
} from "../protocol.ts";
import {
  answeredBy,
  changedTest,
  checkText,
  earlierTests,
  isLive,
  reservationReason,
  stateName,
  verdictName,
  verdictSummary,
} from "../state/wording.ts";
import {
  duration,
  elapsed,
  timeOfDay,
  tokensText,
  costText,
  errorText,
  oneLine,
  toSentence,
} from "../state/formatting.ts";
import { mutantDiff, mutantPlace, noticedChanges, survivors } from "../state/mutationWording.ts";
import { questionText } from "../state/questions.ts";

/** Lines of a tool's input or output that are shown; the middle is omitted. */
export const MAX_LINES = 200;

/** Characters of one line that are shown. */
export const MAX_LINE_LENGTH = 2_000;

export type LineStyle =
  /** The beginning of an attempt, of the result, of the verdict. */
  | "heading"
  | "strong"
  /** What Understudy does, in contrast to what the agent says. */
  | "quiet"
  /** The beginning of a thought, which folds, and its lines. */
  | "thought"
  | "quote"
  /** What an agent says, as Markdown. */
  | "said"
  /** What programs get and print. */
  | "code"
  | "item"
  /** An entry of a plan. */
  | "todo"
  | "done";

/** How something goes, shown before a line. */
export type Mark = "○" | "✓" | "✗" | "⚠" | "•" | "→";

/** One line, with the paths it links to. */
export interface Line {
  /** May contain any character: it comes from agents. */
  readonly text: string;
  readonly style?: LineStyle;
  readonly mark?: Mark;
  readonly links?: readonly { readonly text: string; readonly path: string }[];
  /** The number of following lines that fold under this one. */
  readonly folds?: number;
  /** The parts of the text, for the call of a tool. */
  readonly tool?: { readonly name: string; readonly target: string; readonly outcome: string };
}

export type EventOf<T extends Event["type"]> = Extract<Event, { type: T }>;

export interface ToolCall {
  readonly call: EventOf<"tool_call">;
  result?: EventOf<"tool_result">;
}

/** The head of a transcript: the title, the state, and who did it when, in which folder. */
export interface Head {
  readonly title: string;
  /** In a word. */
  readonly name: string;
  /** With the reasons, if it is finished. */
  readonly state: string;
  readonly facts: readonly string[];
  readonly workspace: string;
}

export function transcriptHead(delegation: Delegation, now: number): Head {
  const { title, recipe, delegator, workspace, startedAt, verdict } = delegation;
  const amounts = [duration(elapsed(delegation, now)), tokensText(delegation), costText(delegation)];
  const state = !isLive(delegation) && verdict ? `${verdictSummary(delegation)}.` : stateName(delegation);
  const when = new Date(startedAt).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return {
    title: oneLine(removeEscapes(title), 200),
    name: stateName(delegation),
    state,
    // Show amounts only at the end: a line that keeps changing is distracting.
    facts: [
      t("{0} by {1}", recipe, delegator),
      when,
      ...(isLive(delegation) ? [] : amounts.filter((amount) => amount !== undefined && amount !== "")),
    ].map(String),
    workspace,
  };
}

/** The tool of a delegator that runs a command of the user: its name says nothing. */
const CUSTOM_COMMAND = "generic";

export function startedLines(event: EventOf<"started">): Line[] {
  const tool = event.tool === CUSTOM_COMMAND ? undefined : event.tool;
  const who = [tool ?? event.modelServer, event.model].filter((part) => part && part !== event.delegator);
  const name = who.length > 0 ? `${event.delegator} (${who.join(", ")})` : event.delegator;
  return [
    { text: t("Attempt {0}: {1}", event.attempt, name), style: "heading" },
    { text: "" },
    ...textLines(toSentence(t("Why {0}: {1}", event.delegator, event.reason))),
  ];
}

export function textLines(text: string): Line[] {
  return removeEscapes(text)
    .replace(/^\n+|\s+$/g, "")
    .split("\n")
    .map((line) => ({ text: line }));
}

/** What an agent says. */
export function saidLines(text: string): Line[] {
  return textLines(text).map((line): Line => ({ ...line, style: "said" }));
}

export function thinkingLines(text: string): Line[] {
  const lines = removeEscapes(text).trim().split("\n");
  return [
    { text: t("Thinking"), style: "thought", folds: lines.length },
    ...lines.map((text): Line => ({ text, style: "quote" })),
  ];
}

export function toolLines({ call, result }: ToolCall): Line[] {
  const title = oneLine(removeEscapes(call.title || call.name), 200);
  const mark = result === undefined ? "○" : result.ok ? "✓" : "✗";
  const path = pathArgument(call.input);
  const links = path !== undefined && title.includes(path) ? [{ text: path, path }] : [];
  const input = editLines(call.input) ?? inputLines(call.input, title);
  const output = result === undefined ? [] : outputLines(result.output, result.truncatedBytes ?? 0);
  const body = [...code(input), ...(input.length > 0 && output.length > 0 ? [{ text: "" }] : []), ...code(output)];
  const name = oneLine(removeEscapes(call.name), 40) || title;
  const rest = title.toLowerCase().startsWith(name.toLowerCase()) ? title.slice(name.length) : title;
  const outcome = result === undefined ? t("running…") : result.ok ? t("done") : t("failed");
  const bare = rest.replace(/^[\s:]+/, "");
  const tool = { name, target: bare.replace(/^\((.*)\)$/, "$1"), outcome };
  return [{ text: title, mark, links, tool, ...(body.length > 0 ? { folds: body.length } : {}) }, ...body];
}

/** The input of a tool that replaces a text in a file, as a diff; undefined for other tools. */
function editLines(input: unknown): string[] | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  const fields = input as Readonly<Record<string, unknown>>;
  const value = (...names: readonly string[]): unknown => names.map((name) => fields[name]).find((one) => one !== undefined); // prettier-ignore
  const [old, now] = [value("old_string", "oldString", "old_str", "oldText"), value("new_string", "newString", "new_str", "newText")]; // prettier-ignore
  if (typeof old !== "string" || typeof now !== "string") return undefined;
  const marked = (mark: string, text: string): string[] => (text === "" ? [] : text.split("\n").map((line) => mark + line)); // prettier-ignore
  return outputLines([...marked("-", old), ...marked("+", now)].join("\n"), 0);
}

const code = (lines: readonly string[]): Line[] => lines.map((text) => ({ text, style: "code" }));

/** The input of a tool, unless its title shows it already. */
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
  const trimmed = removeEscapes(text).replace(/\s+$/, "");
  const lines = trimmed === "" ? [] : trimmed.split("\n").map(truncateLine);
  const half = MAX_LINES / 2;
  const shown =
    lines.length <= MAX_LINES
      ? lines
      : [...lines.slice(0, half), t("… {0} lines …", lines.length - MAX_LINES), ...lines.slice(-half)];
  return truncated > 0 ? [...shown, t("… {0} bytes omitted", truncated)] : shown;
}

/** Split a line: editors do not draw very long ones completely. */
function splitLongLine(line: string): string[] {
  return line.length <= MAX_LINE_LENGTH ? [line] : (line.match(/[^]{1,2000}/gu) ?? []);
}

function truncateLine(line: string): string {
  return line.length <= MAX_LINE_LENGTH
    ? line
    : `${line.slice(0, MAX_LINE_LENGTH)}${t("… {0} characters …", line.length - MAX_LINE_LENGTH)}`;
}

export function planLines(entries: readonly unknown[]): Line[] {
  const lines = entries.map((entry): Line => {
    const { content, status } = (typeof entry === "object" && entry !== null ? entry : { content: entry }) as {
      content?: unknown;
      status?: unknown;
    };
    const words = typeof content === "string" ? content : JSON.stringify(content ?? entry);
    const text = `${oneLine(removeEscapes(words), 200)}${status === "in_progress" ? " …" : ""}`;
    return { text, style: status === "completed" ? "done" : "todo" };
  });
  return [{ text: t("Plan"), style: "strong" }, ...lines];
}

export function permissionLines(
  event: EventOf<"permission">,
  answer: EventOf<"permission_answered"> | undefined,
): Line[] {
  // Never truncated: the user must be able to read the complete request before allowing it.
  const question = removeEscapes(questionText(event)).trimEnd();
  const detail = question.trim() === "" ? [] : [{ text: "" }, ...code(question.split("\n").flatMap(splitLongLine))];
  const title = (id: string): string => event.options.find((option) => option.id === id)?.title ?? id;
  const lines: Line[] = [
    { text: t("Question: {0}", oneLine(removeEscapes(event.title), Infinity)), style: "strong" },
    ...detail,
    { text: "" },
  ];
  if (answer !== undefined) lines.push({ text: `${title(answer.option)}, ${answeredBy(answer.by)}`, mark: "→" });
  else if (event.deadline !== undefined) {
    lines.push({
      text: t("If you do not answer by {0}: {1}.", timeOfDay(event.deadline), title(event.deadlineAction)),
    });
  }
  return lines;
}

/** What the user said; `done` says whether the agent got it, or whether the run ended without that. */
export function messageLines({ text, delivery }: EventOf<"user_message">, done: "delivered" | "ended" | ""): Line[] {
  const outcome: Line =
    done === "delivered"
      ? { text: t("The agent got it."), mark: "✓" }
      : delivery === "kept" || done === "ended"
        ? { text: t("The agent did not get it. Your next reply will include it."), mark: "⚠" }
        : delivery === "sent"
          ? { text: t("Sent to the agent."), mark: "○" }
          : { text: t("The agent gets it when it starts, or at the end of its turn."), mark: "○" };
  const said = textLines(text).map((line): Line => ({ ...line, style: "quote" }));
  return [{ text: t("You"), style: "strong" }, ...said, outcome];
}

/** What the agent of another delegation of the group said. */
export function agentMessageLines({ text, sender }: EventOf<"agent_message">): Line[] {
  const said = textLines(text).map((line): Line => ({ ...line, style: "quote" }));
  return [{ text: t("Message from the agent of {0}", sender), style: "strong" }, ...said];
}

export function attemptFailedLines(event: EventOf<"attempt_failed">): Line[] {
  const next =
    event.nextDelegator !== undefined
      ? event.continues === true
        ? t("{0} continues its work.", event.nextDelegator)
        : t("{0} begins again in a fresh worktree.", event.nextDelegator)
      : event.willRetry
        ? t("Retrying.")
        : "";
  const wait = event.waitSeconds === undefined ? "" : t("Waiting {0} s.", event.waitSeconds);
  const parts = [removeEscapes(errorText(event.error)), next, wait];
  return [{ text: parts.filter((part) => part !== "").join(" "), mark: "✗" }];
}

export function checkLines(event: EventOf<"check_finished">): Line[] {
  const body = code([`$ ${event.argv.join(" ")}`, ...outputLines(event.outputTail, 0)]);
  const lines: Line[] = [
    { text: `${event.name}: ${checkText(event)}`, mark: event.ok ? "✓" : "✗", folds: body.length },
    ...body,
  ];
  const warn = (reservation: Reservation, what = ""): void =>
    void lines.push({ text: `${RESERVATION_REASONS[reservation].reason}${what}`, mark: "⚠" });
  if (event.mutation) {
    lines.push({ text: noticedChanges(event.mutation) });
    const why = t("Small changes break the code on purpose, one at a time: good tests fail then.");
    lines.push({ text: why, style: "quiet" });
    for (const one of survivors(event.mutation)) {
      lines.push({ text: t("not noticed: {0}", mutantPlace(one)), style: "item" }, ...code(mutantDiff(one)));
    }
    for (const test of event.mutation.idle ?? []) lines.push({ text: t("notices nothing: {0}", test), style: "item" });
  }
  if (event.base) {
    lines.push({ text: earlierTests(event.base) });
    for (const one of event.base.tests) lines.push({ text: changedTest(one), style: "item" });
  }
  if (event.flaky) warn("flaky", event.flakyTests?.length ? `: ${event.flakyTests.join(", ")}` : "");
  if (event.failsOnBase) warn("fails_on_base");
  if (event.checkoutFiles?.length) warn("loaded_checkout", `: ${event.checkoutFiles.join(", ")}`);
  if (event.changedFiles?.length) warn("tree_changed", `: ${event.changedFiles.join(", ")}`);
  if (event.tampered?.length) warn("tampered", `: ${event.tampered.join(" ")}`);
  return lines;
}

export function resultLines(event: EventOf<"result">, before: string): Line[] {
  const lines: Line[] = [{ text: t("Result"), style: "heading" }, { text: "" }];
  const fresh = (text: string | undefined): text is string => text !== undefined && !["", before].includes(text.trim());
  if (fresh(event.summary)) lines.push(...saidLines(event.summary), { text: "" });
  // With files, the text repeats what the agent said.
  if (fresh(event.text) && event.files.length === 0) lines.push(...saidLines(event.text), { text: "" });
  for (const file of event.files) {
    // No lines are counted in a binary file, or if only its mode changed.
    const counted = file.additions + file.deletions > 0;
    lines.push(fileLine(file.path, statusName(file), counted ? `+${file.additions} −${file.deletions}` : undefined));
  }
  if (lines.at(-1)?.text === "") lines.pop();
  return lines.length > 1 ? lines : [];
}

/** `failure` is the failure of the last attempt, which is not repeated. */
export function finishedLines(event: EventOf<"finished">, failure: string | undefined): Line[] {
  // The answer is above, and the head shows the verdict.
  if (event.verdict === "answered" && event.reservations.length === 0 && !event.error) return [];
  const { error } = event;
  if (error !== undefined && error.message === failure && event.reservations.length === 0) return [];
  const why = error ? textLines(errorText(error)) : [{ text: toSentence(VERDICT_MEANINGS[event.verdict]) }];
  const lines: Line[] = [{ text: verdictName(event.verdict), style: "heading" }, { text: "" }];
  if (!error || error.message !== failure) lines.push(...why);
  for (const reservation of event.reservations)
    lines.push({ text: reservationReason(reservation, event.reservationFacts), style: "item" });
  return lines;
}

export function decisionLines(event: EventOf<"decided">, hunks: number): Line[] {
  const what = hunks === 1 ? t("1 change") : t("{0} changes", hunks);
  const words = event.conflict
    ? t("{0} in {1} conflicted with your file.", what, event.path)
    : event.decision === "accept"
      ? t("Accepted {0} in {1}.", what, event.path)
      : event.decision === "reject"
        ? t("Rejected {0} in {1}.", what, event.path)
        : t("{0} in {1} pending again.", what, event.path);
  return [
    {
      text: event.reason ? `${words} ${oneLine(removeEscapes(event.reason), 200)}` : words,
      links: pathLinks([event.path]),
    },
  ];
}

export function fileLine(path: string, what: string, amount = ""): Line {
  const text = `${path} ${[what, amount].filter((part) => part !== "").join(", ")}`;
  return { text, style: "item", links: pathLinks([path]) };
}

export function changeName(change: EventOf<"file">["change"]): string {
  return { added: t("added"), modified: t("changed"), deleted: t("deleted"), renamed: t("renamed") }[change];
}

function statusName({ status }: FileStat): string {
  const known: Record<string, string> = {
    added: t("added"),
    modified: t("changed"),
    deleted: t("deleted"),
    renamed: t("renamed"),
    mode: t("permissions changed"),
    type: t("type changed"),
  };
  return known[status] ?? status;
}

export function pathLinks(names: readonly string[]): { text: string; path: string }[] {
  return names.map((path) => ({ text: path, path }));
}

/** The file of a tool call, under the argument names that tools use. */
function pathArgument(input: unknown): string | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  for (const name of ["path", "file_path", "filePath", "file", "filename"]) {
    const value = (input as Record<string, unknown>)[name];
    if (typeof value === "string" && value !== "") return value;
  }
  return undefined;
}

export function singleLine(text: string, mark?: Mark): Line[] {
  return [mark === undefined ? { text } : { text, mark }];
}

export function quietLine(text: string): Line[] {
  return [{ text, style: "quiet" }];
}

/** Remove terminal escape sequences and control characters; normalize line ends. */
export function removeEscapes(text: string): string {
  return text
    .replaceAll(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "")
    .replaceAll(/\r\n?/g, "\n")
    .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "");
}
