/** Format durations, amounts, paths and lines of text. */

import { t } from "../base/l10n.ts";
import type { Delegation, ErrorInfo, LedgerTotals } from "../protocol.ts";
import { editorHint } from "../sidecar/connection.ts";

/**
 * Milliseconds from start to end, or to `now`. Checks that run again count from their own start, and not in the time of
 * the delegation.
 */
export function elapsed(
  {
    startedAt,
    finishedAt,
    recheckedAt,
    attempts,
  }: Pick<Delegation, "startedAt" | "finishedAt" | "recheckedAt"> & Partial<Pick<Delegation, "attempts">>,
  now: number,
): number {
  const isLive = finishedAt === undefined;
  const start = isLive ? (recheckedAt ?? startedAt) : startedAt;
  const own = recheckedAt === undefined ? undefined : attempts?.at(-1)?.finishedAt;
  return Math.max(0, (isLive ? now : Date.parse(own ?? finishedAt)) - Date.parse(start));
}

/** `0:42`, `12:03`, `1:02:03`. */
export function duration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** For a screen reader: `less than a minute`, `1 minute`, `12 minutes`. */
export function spokenDuration(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes === 0) return t("less than a minute");
  return minutes === 1 ? t("1 minute") : t("{0} minutes", minutes);
}

/** Time since, or the date: `just now`, `5 min ago`, `3 h ago`, `21 Nov`. */
export function relativeTime(time: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(time)) / 60_000);
  if (minutes < 1) return t("just now");
  if (minutes < 60) return t("{0} min ago", minutes);
  if (minutes < 24 * 60) return t("{0} h ago", Math.floor(minutes / 60));
  return new Date(time).toLocaleDateString([], { day: "numeric", month: "short" });
}

/** `812`, `4.8k`, `1.2M`. */
export function compactNumber(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 999_500) return `${short(value / 1_000)}k`;
  return `${short(value / 1_000_000)}M`;
}

function short(value: number): string {
  return value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0);
}

/** Input and output tokens together; undefined if unknown. */
export function tokensText(delegation: Pick<Delegation, "usage">): string | undefined {
  const all = delegation.usage.inputTokens + delegation.usage.outputTokens;
  return all > 0 ? t("{0} tokens used", compactNumber(all)) : undefined;
}

/** Where the cost is from, of all attempts that have one; undefined if none has. */
export function costOrigin({ attempts }: Pick<Delegation, "attempts">): string | undefined {
  const words = attempts
    .filter(({ costUsd }) => costUsd !== undefined)
    .map(({ costSource, priceDate }) => {
      switch (costSource) {
        case "configured":
          return t("computed from configured prices");
        case "table":
          return t("computed from the price table of {0}", priceDate ?? "?");
        case "local":
          return t("local server");
        case "reported":
          return t("reported");
        case "unknown":
        case undefined:
          return undefined;
      }
    })
    .filter((word) => word !== undefined);
  return words.length === 0 ? undefined : [...new Set(words)].join(", ");
}

/** What an attempt of some has cost on average, as what the next one may cost. */
export function usualCost({ attempts, costsUnknown, costUsd }: LedgerTotals): string {
  const known = attempts - costsUnknown;
  if (known === 0) return t("cost unknown");
  const each = Number(costUsd) / known;
  return each > 0 ? t("~{0}, as before", dollars(each)) : t("no cost so far");
}

/** `$0.0184`, `$12.50`. */
export function dollars(value: number): string {
  return `$${value < 0.1 ? value.toFixed(4).replace(/0{1,2}$/, "") : value.toFixed(2)}`;
}

/** The cost; undefined if unknown or zero. */
export function costText(delegation: Pick<Delegation, "costUsd" | "attempts">): string | undefined {
  const amounts = delegation.attempts.flatMap(({ costUsd }) => (costUsd === undefined ? [] : [Number(costUsd)]));
  const value = delegation.costUsd === undefined ? sum(amounts) : Number(delegation.costUsd);
  if (value === undefined || !(value > 0)) return undefined;
  const about = delegation.attempts.some(({ costEstimated }) => costEstimated) ? "~" : "";
  return about + dollars(value);
}

function sum(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((all, value) => all + value, 0);
}

/** Collapse white space and truncate to `most` characters. */
export function oneLine(text: string, most = 120): string {
  const line = text.split(/\s+/).join(" ").trim();
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
}

/** One line of at most `most` characters, without its middle: titles of delegations begin and end with what differs. */
export function shortenMiddle(text: string, most: number): string {
  const line = oneLine(text, Infinity);
  if (line.length <= most) return line;
  const end = Math.floor((most - 1) / 2);
  return `${line.slice(0, most - 1 - end).trimEnd()}…${line.slice(-end).trimStart()}`;
}

/** Capitalize the first letter and add a missing full stop. */
export function toSentence(text: string): string {
  const ended = withStop(text);
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}

function withStop(text: string): string {
  const trimmed = text.trim();
  return trimmed === "" || /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** The message of an error, then what to do: on a line of its own below the output of a program. */
export function errorText({
  message,
  hint: given = "",
  remedy,
}: Pick<ErrorInfo, "message" | "hint" | "remedy">): string {
  const hint = editorHint({ hint: given, ...(remedy ? { remedy } : {}) });
  const quotes = message.trim().includes("\n");
  return [quotes ? message.trimEnd() : withStop(message), hint].filter((part) => part !== "").join(quotes ? "\n" : " ");
}

/**
 * The text of an error for a notification. Of the output of a program, which a log shows, only its last line: it says
 * what went wrong.
 */
export function shortErrorText({ message, ...rest }: Pick<ErrorInfo, "message" | "hint" | "remedy">): string {
  const [first = "", ...more] = message.split("\n").filter((line) => /[\p{L}\p{N}]/u.test(line));
  const last = more.at(-1);
  if (last === undefined) return errorText({ message, ...rest });
  const what = /^(.*?: )/u.exec(first)?.[1] ?? `${first} `;
  return errorText({ message: `${what}${oneLine(last, 200)}`, ...rest });
}

/**
 * Why a run failed, for the end of a row, where only its beginning may be visible: what a crashed program printed last
 * comes before how it ended, and neither repeats its name, which the row has. `names`: the delegators and tools of the
 * delegation. A message about another program is kept as it is.
 */
export function failureFacts(
  { message }: Pick<ErrorInfo, "message">,
  names: readonly (string | undefined)[],
): readonly string[] {
  const text = oneLine(shortErrorText({ message }), Infinity).replace(/\.$/u, "");
  const crash = /^(.*?) (?:exited with code (-?\d+)|was killed by signal (\w+))([^:]*)(?:: (.+))?$/u.exec(text);
  const [, subject = "", code, signal = "", after = "", printed] = crash ?? [];
  if (!crash || !names.includes(/^Delegator '(.*)'$/u.exec(subject)?.[1] ?? subject)) return [oneLine(text)];
  const how = `${code === undefined ? t("killed by signal {0}", signal) : t("exit code {0}", code)}${after}`;
  return printed === undefined ? [how] : [oneLine(printed), how];
}

/** Join lines with a separator. */
export function joinLines(text: string, most = 200): string {
  const lines = text.split("\n").map((line) => line.trim());
  return oneLine(lines.filter((line) => line !== "").join(" · "), most);
}

/** Undo git's quoting of a path for display. Bytes that are not UTF-8 become U+FFFD. */
export function displayPath(path: string): string {
  if (!path.startsWith('"')) return path;
  const bytes: number[] = [];
  const inner = path.slice(1, -1);
  const plain: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, "\\": 92 };
  for (let index = 0; index < inner.length;) {
    const octal = /^\\([0-3][0-7]{2})/u.exec(inner.slice(index, index + 4))?.[1];
    const char = inner[index] ?? "";
    if (octal !== undefined) {
      bytes.push(parseInt(octal, 8));
      index += 4;
    } else if (char === "\\") {
      bytes.push(plain[inner[index + 1] ?? ""] ?? 63);
      index += 2;
    } else {
      const whole = String.fromCodePoint(inner.codePointAt(index) ?? 63);
      bytes.push(...new TextEncoder().encode(whole));
      index += whole.length;
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** The time of day in the locale of the editor, as in the dates of transcripts: `14:05`, `9:05 AM`. */
export function timeOfDay(time: string): string {
  return new Date(time).toLocaleTimeString([], { timeStyle: "short" });
}
