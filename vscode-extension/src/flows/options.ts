/**
 * What can be set for a delegator in the steps of Add Delegator, by what drives it. What a tool does not honour, as
 * `understudy/tools/list` says, is not offered: the sidecar would refuse it. Everything else is for the file itself.
 */

import { t } from "../base/l10n.ts";
import type { Delegator, Honoured, Launch, Limits, ToolsResult } from "../protocol.ts";

export interface Option {
  readonly id: string;
  readonly label: string;
  readonly detail: string;
  /** Must be answered before one can go on. */
  readonly required?: boolean;
  /** Fixed answers; without them it is a text. */
  readonly choices?: readonly { readonly value: string; readonly label: string; readonly detail?: string }[];
  readonly placeholder?: string;
  /** As it is now, as text; "" when it is not set. */
  get(delegator: Delegator): string;
  /** With another value; "" unsets it. `check` has found the text right. */
  set(delegator: Delegator, value: string): Delegator;
  check?(value: string): string | undefined;
}

/** Every option that the steps know, in the order in which they are offered. */
const OPTIONS: readonly (() => Option)[] = [
  command,
  output,
  permissionMode,
  temperature,
  totalSeconds,
  maxTurns,
  maxTokens,
  maxOutputTokens,
  maxUsd,
  prefix,
  suffix,
];
/** Options that a program which prints plain text cannot honour: it does not say what it has used. */
const COUNTED = new Set(["maxTurns", "maxTokens", "maxOutputTokens", "maxUsd"]);

/** The options that have an effect on a delegator, by what the sidecar says that its tool honours. */
export function optionsFor(delegator: Delegator, honours: Honoured | undefined): readonly Option[] {
  if (!honours) return [];
  const known = new Set([...honours.launch, ...honours.limits, ...(honours.properties ? ["temperature"] : [])]);
  const silent = known.has("output") && delegator.launch?.output !== "events";
  return OPTIONS.map((make) => make()).filter(({ id }) => known.has(id) && !(silent && COUNTED.has(id)));
}

/** What the sidecar says of a delegator's tool, or of none. */
export function honoursOf(delegator: Delegator, known: ToolsResult): Honoured | undefined {
  return delegator.tool ? known.tools.find(({ name }) => name === delegator.tool)?.honours : known.own;
}

function command(): Option {
  return {
    id: "command",
    label: t("Command"),
    detail: t(
      "The program and its arguments. Placeholders: {0}",
      "{model} {prompt} {promptFile} {worktree} {sessionId}",
    ),
    placeholder: 'my-agent --cd {worktree} --prompt-file "{promptFile}"',
    required: true,
    get: (delegator) => joinWords(delegator.launch?.command ?? []),
    set: (delegator, value) => launch(delegator, { command: value === "" ? null : (splitWords(value) ?? null) }),
    check: (value) => {
      const words = splitWords(value);
      if (!words) return t("A quotation mark is not closed.");
      if (words.length === 0) return t("Name the program to run.");
      return undefined;
    },
  };
}

function output(): Option {
  return {
    id: "output",
    label: t("Output"),
    detail: t("What the program prints."),
    choices: [
      { value: "text", label: t("Plain text"), detail: t("Its end is its exit.") },
      { value: "events", label: t("Events"), detail: t("One JSON event a line, the last one is its result.") },
    ],
    get: (delegator) => delegator.launch?.output ?? "",
    set: (delegator, value) => launch(delegator, { output: value === "text" || value === "events" ? value : null }),
  };
}

function permissionMode(): Option {
  return {
    id: "permissionMode",
    label: t("Permissions"),
    detail: t("What the agent may do without asking."),
    choices: [
      { value: "acceptEdits", label: t("Edit files"), detail: t("It edits files and asks for everything else.") },
      { value: "default", label: t("Ask"), detail: t("It asks before it edits or runs anything.") },
      { value: "dontAsk", label: t("Never ask"), detail: t("What is not allowed beforehand is turned down.") },
      { value: "plan", label: t("Plan only"), detail: t("It reads and plans, and changes nothing.") },
    ],
    get: (delegator) => delegator.launch?.permissionMode ?? "",
    set: (delegator, value) => launch(delegator, { permissionMode: value || null }),
  };
}

function prefix(): Option {
  return {
    id: "promptPrefix",
    label: t("Text before every prompt"),
    detail: t("Said to the agent before the task."),
    get: (delegator) => delegator.launch?.promptPrefix ?? "",
    set: (delegator, value) => launch(delegator, { promptPrefix: value || null }),
  };
}

function suffix(): Option {
  return {
    id: "promptSuffix",
    label: t("Text after every prompt"),
    detail: t("Said to the agent after the task."),
    get: (delegator) => delegator.launch?.promptSuffix ?? "",
    set: (delegator, value) => launch(delegator, { promptSuffix: value || null }),
  };
}

function temperature(): Option {
  return {
    id: "temperature",
    label: t("Temperature"),
    detail: t("Sent to the server with each request; empty: the server's own."),
    placeholder: "0.2",
    get: (delegator) => {
      const value = delegator.modelProperties?.["temperature"];
      return typeof value === "number" ? String(value) : "";
    },
    set: (delegator, value) => {
      const properties = { ...delegator.modelProperties, temperature: value === "" ? undefined : Number(value) };
      return { ...delegator, modelProperties: compact(properties) };
    },
    check: (value) => (number(value, 0, 2) ? undefined : t("A number from 0 to 2.")),
  };
}

function totalSeconds(): Option {
  return limit("totalSeconds", t("Time limit in seconds"), t("From the start to the end of the last attempt."), 86_400);
}

function maxTurns(): Option {
  return limit("maxTurns", t("Turn limit"), t("How often the model may answer."), 10_000);
}

function maxTokens(): Option {
  return limit("maxTokens", t("Token limit"), t("All tokens of one delegation together."), 1_000_000_000);
}

function maxOutputTokens(): Option {
  return limit("maxOutputTokens", t("Output token limit"), t("Tokens that the model writes."), 1_000_000_000);
}

function limit(
  name: "totalSeconds" | "maxTurns" | "maxTokens" | "maxOutputTokens",
  label: string,
  detail: string,
  most: number,
): Option {
  return {
    id: name,
    label,
    detail,
    get: (delegator) => String(delegator.limits?.[name] ?? ""),
    set: (delegator, value) => limits(delegator, { [name]: value === "" ? null : Number(value) }),
    check: (value) =>
      number(value, 1, most) && Number.isInteger(Number(value)) ? undefined : t("A whole number from 1 to {0}.", most),
  };
}

function maxUsd(): Option {
  return {
    id: "maxUsd",
    label: t("Money limit in US dollars"),
    detail: t("What one delegation may cost."),
    placeholder: "0.50",
    get: (delegator) => delegator.limits?.maxUsd ?? "",
    set: (delegator, value) => limits(delegator, { maxUsd: value || null }),
    check: (value) => (/^\d+(\.\d+)?$/.test(value) && Number(value) > 0 ? undefined : t("An amount such as 0.50.")),
  };
}

function launch(delegator: Delegator, change: Launch): Delegator {
  return { ...delegator, launch: compact({ ...delegator.launch, ...change }) };
}

function limits(delegator: Delegator, change: Limits): Delegator {
  return { ...delegator, limits: compact({ ...delegator.limits, ...change }) };
}

/** Without what is null; null itself when nothing is left. */
function compact<T extends object>(value: T): T | null {
  const kept = Object.entries(value).filter(([, field]) => field !== null && field !== undefined);
  return kept.length > 0 ? (Object.fromEntries(kept) as T) : null;
}

function number(value: string, least: number, most: number): boolean {
  return /^\d+(\.\d+)?$/.test(value) && Number(value) >= least && Number(value) <= most;
}

/** Words as a shell would see them, quotes only; undefined when a quotation mark is not closed. */
export function splitWords(text: string): string[] | undefined {
  const words: string[] = [];
  let word = "";
  let inside = false;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const char = text.charAt(index);
    if (quote !== "") {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"' && /["\\]/.test(text.charAt(index + 1))) word += text.charAt(++index);
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      inside = true;
    } else if (/\s/.test(char)) {
      if (inside) words.push(word);
      word = "";
      inside = false;
    } else {
      word += char;
      inside = true;
    }
  }
  if (quote !== "") return undefined;
  if (inside) words.push(word);
  return words;
}

/** The text that `splitWords` splits into these words again. */
export function joinWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[^\s"'\\]+$/.test(word) ? word : `"${word.replace(/["\\]/g, String.raw`\$&`)}"`))
    .join(" ");
}
