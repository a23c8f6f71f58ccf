/** Hunks as a person goes through them: where they are, in which order, what they say. Pure. */

import type { FileDiff, Hunk, Range } from "../protocol.ts";

/** A hunk with its file: everything that a row, a bar or a lens needs to know. */
export interface Spot {
  readonly id: string;
  readonly file: FileDiff;
  readonly hunk: Hunk;
}

/** The id of a hunk's row, which names its bar and lenses, too. Neither delegation nor hunk ids have colons. */
export const hunkRow = (id: string, path: string, hunk: string): string => `hunk:${id}:${path}:${hunk}`;
export const fileRow = (id: string, path: string): string => `file:${id}:${path}`;

export type Named =
  | { readonly kind: "hunk"; readonly id: string; readonly path: string; readonly hunk: string }
  | { readonly kind: "file"; readonly id: string; readonly path: string };

/** What a row's id names; undefined for anything else. */
export function named(row: unknown): Named | undefined {
  if (typeof row !== "string") return undefined;
  const [, kind, id, rest] = /^(hunk|file):([^:]*):(.*)$/su.exec(row) ?? [];
  if (id === undefined || rest === undefined) return undefined;
  if (kind === "file") return { kind, id, path: rest };
  const colon = rest.lastIndexOf(":");
  return { kind: "hunk", id, path: rest.slice(0, colon), hunk: rest.slice(colon + 1) };
}

/** Every hunk in the order in which they are gone through: file by file, from top to bottom. */
export function spots(id: string, files: readonly FileDiff[]): readonly Spot[] {
  return files.flatMap((file) => file.hunks.map((hunk) => ({ id, file, hunk })));
}

export const isOpen = ({ hunk }: Spot): boolean => hunk.state === "pending";

export function sameSpot(a: Spot | undefined, b: Spot | undefined): boolean {
  if (!a || !b) return false;
  return a.id === b.id && a.file.path === b.file.path && a.hunk.id === b.hunk.id;
}

/**
 * Where to go from `from` (undefined: from before the first, or after the last). What is undecided comes first; once
 * nothing is, every hunk does. Goes round; undefined when there is none.
 */
export function neighbour(all: readonly Spot[], from: Spot | undefined, step: 1 | -1): Spot | undefined {
  const wanted = all.some(isOpen) ? isOpen : () => true;
  const start = all.findIndex((spot) => sameSpot(spot, from));
  const first = start < 0 && step < 0 ? all.length : start;
  const ahead = all.map((_, index) => all[(((first + step * (index + 1)) % all.length) + all.length) % all.length]);
  return ahead.find((spot) => spot !== undefined && wanted(spot));
}

/** Lines of the result (base, for `old`) that a hunk covers, zero-based, `end` included; where it covers none: the line after which it stands. */
export function linesOf(hunk: Hunk, side: "new" | "old" = "new"): { readonly start: number; readonly end: number } {
  const [first, count] = side === "new" ? [hunk.newStart, hunk.newLines] : [hunk.oldStart, hunk.oldLines];
  const start = Math.max(first - 1, 0);
  return { start, end: start + Math.max(count, 1) - 1 };
}

/**
 * The hunk at a line of one side of a file: the one that covers it, else the last one above, else the first. A change of
 * mode is at the first line, where another hunk may be: `last`, where the person was last, says which is meant.
 */
export function hunkAt(file: FileDiff, line: number, side: "new" | "old", last?: Hunk): Hunk | undefined {
  const covering = file.hunks.filter((hunk) => {
    const { start, end } = linesOf(hunk, side);
    return start <= line && line <= end;
  });
  const covers =
    covering.find(({ id }) => id === last?.id) ??
    covering.find(({ oldLines, newLines }) => oldLines + newLines > 0) ??
    covering[0];
  return covers ?? file.hunks.findLast((hunk) => linesOf(hunk, side).start <= line) ?? file.hunks[0];
}

/**
 * Where a line of a text is after the text was edited: above the edit it stays, below it moves along, inside it is at
 * the edit's beginning.
 */
export function shifted(line: number, before: string, after: string): number {
  if (before === after) return line;
  const old = before.split("\n");
  const now = after.split("\n");
  const most = Math.min(old.length, now.length);
  let head = 0;
  while (head < most && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  if (line < head) return line;
  if (line >= old.length - tail) return line + now.length - old.length;
  return Math.min(head, now.length - 1);
}

/** The range at which a hunk's bar hangs, and above which its lenses stand. */
export function rangeOf(hunk: Hunk, side: "new" | "old", read: string, shown: string): Range {
  const { start, end } = linesOf(hunk, side);
  return {
    start: { line: shifted(start, read, shown), character: 0 },
    end: { line: shifted(end, read, shown), character: 0 },
  };
}

/** The base with only these hunks of the result in it: what a conflict is about, and nothing else. */
export function compose(base: string, result: string, hunks: readonly Hunk[]): string {
  const old = lines(base);
  const now = lines(result);
  const out: string[] = [];
  let at = 0;
  for (const hunk of [...hunks].sort((a, b) => a.oldStart - b.oldStart)) {
    // For an empty side, `…Start` is the line before.
    const from = hunk.oldLines > 0 ? hunk.oldStart - 1 : hunk.oldStart;
    out.push(...old.slice(at, from));
    const first = hunk.newLines > 0 ? hunk.newStart - 1 : hunk.newStart;
    out.push(...now.slice(first, first + hunk.newLines));
    at = from + hunk.oldLines;
  }
  return [...out, ...old.slice(at)].join("");
}

/** Lines with their ends. */
function lines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/gu) ?? [];
}

/** The first line of a hunk that says something: what a row is called by. Empty when the text is not known. */
export function firstLine(hunk: Hunk, base: string | undefined, result: string | undefined): string {
  const [text, first, count] =
    hunk.newLines > 0 ? [result, hunk.newStart, hunk.newLines] : [base, hunk.oldStart, hunk.oldLines];
  const own = text?.split("\n").slice(first - 1, first - 1 + count) ?? [];
  return own.map((line) => line.trim()).find((line) => /\w/u.test(line)) ?? "";
}

/** What was rejected, in words for whoever does it again: each reason once, with the places that it is about. */
export function reasons(
  all: readonly Spot[],
): readonly { readonly reason: string; readonly places: readonly string[] }[] {
  const found = new Map<string, string[]>();
  for (const { file, hunk } of all) {
    if (hunk.state !== "rejected" || !hunk.reason) continue;
    const place =
      hunk.newLines > 0 && file.status === "modified"
        ? `${shownPath(file.path)}:${hunk.newStart}`
        : shownPath(file.path);
    found.set(hunk.reason, [...(found.get(hunk.reason) ?? []), place]);
  }
  return [...found].map(([reason, places]) => ({ reason, places }));
}

/** A path of the wire as people write it: git's quoted form is undone. Bytes that are no UTF-8 become U+FFFD. */
export function shownPath(path: string): string {
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
      bytes.push(...Buffer.from(whole));
      index += whole.length;
    }
  }
  return Buffer.from(bytes).toString("utf8");
}
