/**
 * Open conflicts in the merge editor and mark them as resolved. The user resolves a conflict in their own file: in the
 * merge editor, or next to two diffs where the editor has none. *Mark as Resolved* is on the row of the conflict and in
 * the title of the editor with their file, also in the window that a reload opens.
 */

import { lstat, readFile } from "node:fs/promises";
import * as path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import type { Decision, Delegation, FileDiff, Hunk } from "../protocol.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { displayPath } from "../state/formatting.ts";
import type { Store } from "../state/store.ts";
import { userFile } from "./documentSaver.ts";
import { applyHunks, fileRow, isPending, type ReviewTarget } from "./hunks.ts";
import type { OpenResult, OpenResults } from "./openResults.ts";
import { documentUri } from "./reviewEditor.ts";
import { BASE, parseReviewUri, reviewUri, THEIRS, YOURS } from "./reviewUris.ts";
import { LINK } from "./reviewWording.ts";

/** Memory key of the conflicts that are being resolved: a reload of the window restores the merge editor. */
const MERGING_KEY = "review.merging";
/** How many of these are kept, the newest. */
export const MAX_MERGING = 20;
/** Characters of the user's files that are kept for that, in total. Of other files, the version on disk is shown. */
export const MAX_KEPT = 1_000_000;

interface Merging {
  readonly id: string;
  readonly path: string;
  /** The user's text when the conflict was opened; absent: not text, or too long. */
  readonly yours?: string;
  /** IDs of the hunks in the other side; absent: written by an older version. */
  readonly hunks?: readonly string[];
}

/** How many conflict documents are kept; the editor keeps the text of older ones that are still open. */
const MAX_SIDES = 60;

export interface ConflictDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "review" | "memory">;
  readonly openResults: OpenResults;
  readonly store: Pick<Store, "onDidChange">;
  readonly delegation: (id: string) => Promise<Delegation>;
  readonly decide: (result: OpenResult, decisions: readonly Decision[]) => Promise<void>;
}

export class Conflicts implements Disposable {
  readonly #deps: ConflictDeps;
  readonly #disposables = new DisposableStore();
  /** Both sides of conflicts, as they were when the conflict was opened: URI → text. */
  readonly #sides = new Map<string, string>();
  readonly #sidesChanged = this.#disposables.add(new Emitter<string>());
  /** The user's files in which a conflict is being resolved: path on disk → file of the result. The newest is last. */
  #merging: ReadonlyMap<string, Merging>;

  constructor(deps: ConflictDeps) {
    this.#deps = deps;
    const { documents, memory } = deps.host;
    this.#merging = newest(Object.entries(memory.get<Record<string, Merging>>(MERGING_KEY, {})));
    if (this.#merging.size > 0) this.#showMerging();
    this.#disposables.add(deps.openResults.onDidChange(({ id }) => void this.#dropResolved(id)));
    this.#disposables.add(
      deps.store.onDidChange(({ delegations, delegationList }) => {
        const ids = new Set([...this.#merging.values()].map(({ id }) => id));
        for (const id of ids) if (delegationList || delegations.has(id)) void this.#dropResolved(id);
      }),
    );
    const source = {
      text: (uri: string) => this.#sides.get(sideKey(uri)) ?? this.#restoreSide(uri),
      onDidChange: this.#sidesChanged.subscribe,
    };
    for (const scheme of [YOURS, THEIRS]) this.#disposables.add(documents.provide(scheme, source));
  }

  /** The row of the conflict that is being resolved in a file of the user. */
  rowOf(uri: string): string | undefined {
    const merging = uri.startsWith("file:") ? this.#merging.get(fileURLToPath(uri)) : undefined;
    return merging && fileRow(merging.id, merging.path);
  }

  /** Forget which conflicts are being resolved: the review is closed. */
  clear(): void {
    this.#changeMerging([]);
  }

  async open(result: OpenResult, filePath: string): Promise<void> {
    const { host } = this.#deps;
    const file = result.file(filePath);
    if (!file) return;
    const delegation = await this.#deps.delegation(result.id);
    const name = displayPath(file.path);
    if (file.hunks.filter(isConflict).some((hunk) => result.conflict(hunk.id)?.blocked)) {
      await host.windows.message("warning", t("{0} is not a regular file. Move it, then accept again.", name));
      return;
    }
    const mine = userFile(delegation.workspace, file.path);
    const output = pathToFileURL(mine).toString();
    const kind = await fileKind(mine);
    const yours = kind === "other" ? undefined : (host.documents.open([output])[0]?.text ?? (await readText(mine)));
    const kept = yours === undefined || yours.length > MAX_KEPT ? {} : { yours };
    const merged = mergedHunks(file);
    const merging = { id: result.id, path: file.path, hunks: merged.map(({ id }) => id), ...kept };
    this.#changeMerging([...[...this.#merging].filter(([other]) => other !== mine), [mine, merging]]);
    const [base, theirs] = await Promise.all([result.content(file.path, "base"), result.content(file.path, "result")]);
    const isText = !file.binary && base.mode !== LINK && theirs.mode !== LINK;
    if (!isText || base.text === undefined || theirs.text === undefined || yours === undefined) {
      await this.#resolveWholeFile(result, file, kind === "file" ? output : undefined);
      return;
    }
    const baseUri = reviewUri(BASE, result.id, displayPath(file.from ?? file.path));
    const sides = { yours: reviewUri(YOURS, result.id, name), theirs: reviewUri(THEIRS, result.id, name) };
    this.#setSide(sides.yours, yours);
    this.#setSide(sides.theirs, applyHunks(base.text, theirs.text, merged));
    if (await host.review.merge({ base: baseUri, ...sides, output })) return;
    // Without a merge editor: what each side changed; the user's own file is editable.
    await host.review.diffs(t("{0}: Conflict", name), [
      { label: t("Result"), base: baseUri, result: sides.theirs },
      { label: t("Yours"), base: baseUri, result: output },
    ]);
  }

  /** Accept conflicting hunks that the user has merged: their file is saved, and nothing else is written. */
  async markResolved(result: OpenResult, target: ReviewTarget): Promise<void> {
    // Deciding may drop them.
    const merging = [...this.#merging].filter(([, { id, path: name }]) => id === result.id && name === target.path);
    const file = result.file(target.path);
    const resolved = file?.hunks.filter(
      (hunk) => isConflict(hunk) && (target.kind === "file" || target.hunk === hunk.id),
    );
    if (!file || !resolved || resolved.length === 0) {
      await this.#deps.host.windows.message("info", t("No conflicts here."));
    } else if (!(await this.#saved(result.id, file.path))) {
      const name = displayPath(file.path);
      const text = t("{0} could not be saved, so the conflict is not marked as resolved.", name);
      await this.#deps.host.windows.message("error", text);
      return;
    } else {
      await this.#deps.decide(
        result,
        resolved.map(({ id }) => ({ path: file.path, hunk: id, decision: "accept" as const, mergedManually: true })),
      );
    }
    if (result.file(target.path)?.hunks.some(isConflict)) return;
    const done = new Set(merging.map(([mine]) => mine));
    this.#changeMerging([...this.#merging].filter(([mine]) => !done.has(mine)));
    for (const mine of done) await this.#deps.host.review.closeMerge(pathToFileURL(mine).toString());
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  /** Save the user's version of a file, in the merge editor and in others; returns false if it is still unsaved. */
  async #saved(id: string, name: string): Promise<boolean> {
    const { documents, review } = this.#deps.host;
    const { workspace } = await this.#deps.delegation(id);
    const uri = pathToFileURL(userFile(workspace, name)).toString();
    if (!(await review.saveMerge(uri))) return false;
    return !documents.open([uri]).some(({ dirty }) => dirty) || documents.save(uri);
  }

  /** Nothing can be merged line by line: one side lacks the file, or it is not text. */
  async #resolveWholeFile(result: OpenResult, file: FileDiff, yours: string | undefined): Promise<void> {
    const { host } = this.#deps;
    const name = displayPath(file.path);
    await host.review.diff({
      label: t("{0}: Result ↔ Yours", path.posix.basename(name)),
      ...(file.status === "deleted" ? {} : { result: documentUri(result.id, file) }),
      ...(yours === undefined ? {} : { base: yours }),
    });
    const text = t(
      "{0} cannot be merged line by line. Merge the change yourself and choose Mark as Resolved on its row, or reject it to keep your version.",
      name,
    );
    void host.windows.message("info", text);
  }

  /** A side of a merge editor that the editor restored after a reload of the window. */
  async #restoreSide(uri: string): Promise<string> {
    const place = parseReviewUri(uri);
    const [mine, merging] =
      [...this.#merging].find(([, { id, path: name }]) => id === place?.id && displayPath(name) === place.path) ?? [];
    if (!place || mine === undefined || !merging) return "";
    if (place.scheme === YOURS) return merging.yours ?? (await readText(mine)) ?? "";
    const result = await this.#deps.openResults.result(merging.id);
    const file = result.file(merging.path);
    if (!file) return "";
    const [base, theirs] = await Promise.all([result.content(file.path, "base"), result.content(file.path, "result")]);
    const { hunks } = merging;
    const merged = hunks === undefined ? mergedHunks(file) : file.hunks.filter(({ id }) => hunks.includes(id));
    return applyHunks(base.text ?? "", theirs.text ?? "", merged);
  }

  /** Forget the conflicts of a result that are no longer pending: they were decided elsewhere, or it is gone. */
  async #dropResolved(id: string): Promise<void> {
    if (![...this.#merging.values()].some((merging) => merging.id === id)) return;
    const pending = await this.#pendingConflicts(id);
    const isPendingStill = ({ id: one, path: name }: Merging): boolean => one !== id || pending?.has(name) !== false;
    const left = [...this.#merging].filter(([, merging]) => isPendingStill(merging));
    if (left.length < this.#merging.size) this.#changeMerging(left);
  }

  /** The files of a result with a pending conflict; undefined: it cannot be read now. */
  async #pendingConflicts(id: string): Promise<ReadonlySet<string> | undefined> {
    const { delegation, openResults } = this.#deps;
    try {
      if ((await delegation(id)).rescueRef !== undefined) return new Set(); // discarded
      const { files } = await openResults.result(id);
      return new Set(files.filter(({ hunks }) => hunks.some(isConflict)).map((file) => file.path));
    } catch (error) {
      return toErrorInfo(error).kind === "unknown_delegation" ? new Set() : undefined;
    }
  }

  #changeMerging(merging: readonly (readonly [string, Merging])[]): void {
    this.#merging = newest(merging);
    this.#showMerging();
    void this.#deps.host.memory.set(MERGING_KEY, Object.fromEntries(this.#merging));
  }

  /** Let the title of an editor offer *Mark as Resolved*: VS Code compares the paths with that of the editor. */
  #showMerging(): void {
    this.#deps.host.commands.setContext("understudy.conflictFiles", [...this.#merging.keys()]);
  }

  #setSide(uri: string, text: string): void {
    this.#sides.set(sideKey(uri), text);
    for (const oldest of this.#sides.keys()) {
      if (this.#sides.size <= MAX_SIDES) break;
      this.#sides.delete(oldest);
    }
    this.#sidesChanged.fire(uri);
  }
}

/** The newest within the limits, in the same order. */
function newest(merging: readonly (readonly [string, Merging])[]): ReadonlyMap<string, Merging> {
  let left = MAX_KEPT;
  const kept = merging
    .slice(-MAX_MERGING)
    .reverse()
    .map(([mine, { yours, ...rest }]) => {
      if (yours === undefined || yours.length > left) return [mine, rest] as const;
      left -= yours.length;
      return [mine, { ...rest, yours }] as const;
    });
  return new Map<string, Merging>(kept.reverse());
}

const isConflict = (hunk: Hunk): boolean => hunk.conflict && isPending(hunk);

/** What was accepted, and what conflicts; nothing that was rejected or is still pending without a conflict. */
function mergedHunks({ hunks }: FileDiff): readonly Hunk[] {
  return hunks.filter((hunk) => hunk.state === "accepted" || isConflict(hunk));
}

function sideKey(uri: string): string {
  const parsed = parseReviewUri(uri);
  return parsed ? `${parsed.scheme} ${parsed.id} ${parsed.path}` : uri;
}

/** The text of a file; undefined if it cannot be read or is not UTF-8 text. */
async function readText(file: string): Promise<string | undefined> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(file));
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Does not follow links: writing to a link would change the file that it points to. */
async function fileKind(file: string): Promise<"file" | "other" | undefined> {
  try {
    return (await lstat(file)).isFile() ? "file" : "other";
  } catch {
    return undefined;
  }
}
