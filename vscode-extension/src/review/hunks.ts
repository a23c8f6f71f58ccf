/** Order, position and label of hunks. Pure functions. */

import type { FileDiff, Hunk } from "../protocol.ts";
import { displayPath } from "../state/formatting.ts";

/** A hunk with its file: all that a row, bar or lens needs. */
export interface HunkRef {
  readonly id: string;
  readonly file: FileDiff;
  readonly hunk: Hunk;
}

/** Row ID of a hunk, which also identifies its bar and lenses. IDs of delegations and hunks contain no colons. */
export const hunkRow = (id: string, path: string, hunk: string): string => `hunk:${id}:${path}:${hunk}`;
export const fileRow = (id: string, path: string): string => `file:${id}:${path}`;

export type ReviewTarget =
  | { readonly kind: "hunk"; readonly id: string; readonly path: string; readonly hunk: string }
  | { readonly kind: "file"; readonly id: string; readonly path: string };

/** What a row ID refers to; undefined for other rows. */
export function parseRowId(row: unknown): ReviewTarget | undefined {
  if (typeof row !== "string") return undefined;
  const [, kind, id, rest] = /^(hunk|file):([^:]*):(.*)$/su.exec(row) ?? [];
  if (id === undefined || rest === undefined) return undefined;
  if (kind === "file") return { kind, id, path: rest };
  const colon = rest.lastIndexOf(":");
  return { kind: "hunk", id, path: rest.slice(0, colon), hunk: rest.slice(colon + 1) };
}

/** Every hunk in review order: file by file, top to bottom. */
export function hunkRefs(id: string, files: readonly FileDiff[]): readonly HunkRef[] {
  return files.flatMap((file) => file.hunks.map((hunk) => ({ id, file, hunk })));
}

export const isPending = ({ state }: Pick<Hunk, "state">): boolean => state === "pending";

export function isSameHunk(a: HunkRef | undefined, b: HunkRef | undefined): boolean {
  if (!a || !b) return false;
  return a.id === b.id && a.file.path === b.file.path && a.hunk.id === b.hunk.id;
}

/**
 * The next or previous hunk. Without `from`, start before the first or after the last. If there are pending hunks,
 * only those count. Wraps around; undefined if there are no hunks.
 */
export function adjacentHunk(all: readonly HunkRef[], from: HunkRef | undefined, step: 1 | -1): HunkRef | undefined {
  const onlyPending = all.some(({ hunk }) => isPending(hunk));
  const start = all.findIndex((hunkRef) => isSameHunk(hunkRef, from));
  const first = start < 0 && step < 0 ? all.length : start;
  const ahead = all.map((_, index) => all[(((first + step * (index + 1)) % all.length) + all.length) % all.length]);
  return ahead.find((hunkRef) => hunkRef !== undefined && (!onlyPending || isPending(hunkRef.hunk)));
}

/**
 * Lines of the result (`old`: base) that a hunk covers, zero-based, `end` inclusive. A hunk without lines is after
 * line `start`.
 */
export function linesOf(hunk: Hunk, side: "new" | "old" = "new"): { readonly start: number; readonly end: number } {
  const [first, count] = side === "new" ? [hunk.newStart, hunk.newLines] : [hunk.oldStart, hunk.oldLines];
  const start = Math.max(first - 1, 0);
  return { start, end: start + Math.max(count, 1) - 1 };
}

/**
 * The hunk at a line of one side: the one that covers it, otherwise the last one above, otherwise the first. A mode
 * change is at the first line, where another hunk may be; `last`, the hunk visited last, then decides.
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

/** Apply only these hunks of the result to the base. */
export function applyHunks(base: string, result: string, hunks: readonly Hunk[]): string {
  const old = splitLines(base);
  const now = splitLines(result);
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

/** Split into lines, line ends included. */
function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/gu) ?? [];
}

/** The new text file that is all of a result: there is nothing to compare it with. */
export function onlyNewFile(files: readonly FileDiff[]): FileDiff | undefined {
  const [only, ...others] = files;
  return others.length === 0 && only?.status === "added" && !only.binary ? only : undefined;
}

/** The pending changes of which every place is tested, as a decision names them. */
export function verifiedChanges(files: readonly FileDiff[]): readonly { path: string; hunk: string }[] {
  return files.flatMap(({ path, hunks }) =>
    hunks.filter((hunk) => isPending(hunk) && hunk.tested === true).map(({ id }) => ({ path, hunk: id })),
  );
}

/** The first meaningful line of a hunk, used as its label. Empty if the text is unknown. */
export function firstLine(hunk: Hunk, base: string | undefined, result: string | undefined): string {
  const [text, first, count] =
    hunk.newLines > 0 ? [result, hunk.newStart, hunk.newLines] : [base, hunk.oldStart, hunk.oldLines];
  const own = text?.split("\n").slice(first - 1, first - 1 + count) ?? [];
  return own.map((line) => line.trim()).find((line) => /\w/u.test(line)) ?? "";
}

/** Reasons of rejected hunks, each once with the places it applies to. */
export function rejectionReasons(
  all: readonly HunkRef[],
): readonly { readonly reason: string; readonly places: readonly string[] }[] {
  const found = new Map<string, string[]>();
  for (const { file, hunk } of all) {
    if (hunk.state !== "rejected" || !hunk.reason) continue;
    const place =
      hunk.newLines > 0 && file.status === "modified"
        ? `${displayPath(file.path)}:${hunk.newStart}`
        : displayPath(file.path);
    found.set(hunk.reason, [...(found.get(hunk.reason) ?? []), place]);
  }
  return [...found].map(([reason, places]) => ({ reason, places }));
}
