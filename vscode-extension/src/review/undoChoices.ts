/** What can be undone in a result: each decision, each accept of several changes, each edit. */

import { t } from "../base/l10n.ts";
import type { PickItem } from "../host/host.ts";
import { displayPath } from "../state/formatting.ts";
import { firstLine, hunkRow, type HunkRef } from "./hunks.ts";
import type { OpenResult } from "./openResults.ts";

export interface UndoChoice {
  readonly item: PickItem;
  readonly undo: () => Promise<void>;
}

/** The delegation of an undo token (`<id>.<digits>`); undefined for other values. */
export function undoTokenId(value: unknown): string | undefined {
  return typeof value === "string" ? /^(\d{8}-\d{6}-[a-z0-9]+)\.[0-9a-f]+$/iu.exec(value)?.[1] : undefined;
}

/** The latest accept first, then each accepted and rejected change in review order, then edits. */
export function undoChoices(result: OpenResult): readonly UndoChoice[] {
  const { hunks } = result;
  const accepts = result.undoable.flatMap(({ undoToken, paths }): UndoChoice[] => {
    const of = hunks.filter(({ hunk }) => hunk.undoToken === undoToken).length;
    if (of === 1) return []; // the same as undoing that change
    const names = paths.map(displayPath).join(", ");
    const label = of === 0 ? t("Earlier accept") : t("Accepted {0} changes", of);
    const item = { id: undoToken, label, description: names, icon: "check-all" };
    return [{ item, undo: () => result.undo(undoToken) }];
  });
  const decisions = hunks.flatMap((hunkRef): UndoChoice[] => {
    const { file, hunk } = hunkRef;
    const { undoToken } = hunk;
    const id = hunkRow(result.id, file.path, hunk.id);
    const place = `${displayPath(file.path)}:${Math.max(hunk.newStart, 1)}`;
    const label = lineOf(result, hunkRef) || place;
    if (undoToken !== undefined) {
      const item = { id, label, description: t("accepted · {0}", place), icon: "pass-filled" };
      return [{ item, undo: () => result.undo(undoToken, [hunk.id]) }];
    }
    if (hunk.state !== "rejected") return [];
    const item = { id, label, description: t("rejected · {0}", place), icon: "circle-slash" };
    const back = { path: file.path, hunk: hunk.id, decision: "pending" as const };
    return [{ item, undo: () => result.decide([back], false).then(() => {}) }];
  });
  const edits = result.edited
    .filter(({ undoable }) => undoable)
    .map(({ path }): UndoChoice => {
      const item = { id: `edit:${path}`, label: t("Edit of {0}", displayPath(path)), icon: "edit" };
      return { item, undo: () => result.undoEdit(path) };
    });
  return [...accepts, ...decisions, ...edits];
}

function lineOf(result: OpenResult, { file, hunk }: HunkRef): string {
  return firstLine(hunk, result.knownText(file.path, "base"), result.knownText(file.path, "result"));
}
