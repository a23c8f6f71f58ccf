/**
 * A review in the editor: actions at each change. Diff editors show code lenses only if `diffEditor.codeLens` is on;
 * otherwise an action bar is shown at each change.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { escapeMarkup } from "../base/untrustedText.ts";
import { t } from "../base/l10n.ts";
import type { Host, Lens, Thread } from "../host/host.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { Store } from "../state/store.ts";
import { stateName } from "../state/wording.ts";
import type { FileDiff, Range } from "../protocol.ts";
import type { OpenResults } from "./openResults.ts";
import { hunkRow, isPending, linesOf, type HunkRef } from "./hunks.ts";
import { displayPath } from "../state/formatting.ts";
import { BASE, EVIDENCE, parseReviewUri, RESULT, reviewUri } from "./reviewUris.ts";
import { EVIDENCE_COMMAND } from "./reviewTree.ts";
import {
  capitalized,
  capitalizedSentence,
  fileChange,
  hunkLabel,
  hunkSize,
  untestedPlaces,
  verdictLine,
  verdictReasons,
  wholeFile,
} from "./reviewWording.ts";

/** The bar of a hunk with at least this many lines more is above it: the user sees it without scrolling. */
const LONG_HUNK_LINES = 20;

/** Lines above a change that a diff shows at least, where the bar of the verdict is. */
const CONTEXT_LINES = 2;

type BarContent = Parameters<Thread["set"]>[0];

export interface ReviewEditorDeps {
  readonly host: Pick<Host, "documents" | "review" | "workspace" | "commands">;
  readonly store: Pick<Store, "delegation" | "read" | "onDidChange">;
  readonly openResults: OpenResults;
  readonly requester: Requester;
}

export class ReviewEditor implements Disposable {
  readonly #deps: ReviewEditorDeps;
  readonly #disposables = new DisposableStore();
  readonly #lensesChanged = this.#disposables.add(new Emitter<void>());
  readonly #evidenceChanged = this.#disposables.add(new Emitter<string>());
  readonly #bars = new Map<string, { readonly thread: Thread; readonly uri: string; told: string }>();

  constructor(deps: ReviewEditorDeps) {
    this.#deps = deps;
    const { documents, review, workspace } = deps.host;
    this.#disposables.add(
      documents.provide(EVIDENCE, { text: (uri) => this.#evidence(uri), onDidChange: this.#evidenceChanged.subscribe }),
    );
    this.#disposables.add(
      review.lenses(RESULT, { lenses: (uri) => this.lenses(uri), onDidChange: this.#lensesChanged.subscribe }),
    );
    this.#disposables.add(
      deps.openResults.onDidChange(({ begun }) => {
        if (begun) this.#removeBars(); // show collapsed bars again
        this.draw();
      }),
    );
    this.#disposables.add(
      deps.store.onDidChange(({ delegations }) => {
        const { current } = deps.openResults;
        if (!current || !delegations.has(current.id)) return;
        this.#evidenceChanged.fire(evidenceUri(current.id));
        this.draw();
      }),
    );
    this.#disposables.add(workspace.onDidChangeSettings(() => this.draw()));
  }

  /** Show a bar at each change, collapsed where it is decided, the verdict above the first, and refresh the lenses. */
  draw(): void {
    const { openResults, store } = this.#deps;
    const wanted = new Set<string>();
    const show = (id: string, uri: string, content: BarContent): void => {
      wanted.add(id);
      this.#showBar(id, uri, content);
    };
    const { current } = openResults;
    if (current && !this.#lensesEnabled()) {
      const all = current.hunks;
      const shown = all.filter(({ file, hunk }) => !file.binary && hunk.state !== "superseded");
      const [first] = shown;
      const delegation = store.delegation(current.id);
      if (first && delegation) {
        const range = lineRange(Math.max(hunkRange(first).start.line - CONTEXT_LINES, 0));
        const reasons = verdictReasons(delegation).join("; ");
        const note = reasons === "" ? delegation.title : capitalizedSentence(reasons);
        const context = delegation.reservations.includes("no_checks") ? "verdictWithoutChecks" : "verdict";
        const content = { label: stateName(delegation), note, context, range };
        show(`verdict:${current.id}`, documentUri(current.id, first.file), content);
      }
      for (const hunkRef of shown) {
        const { id, file, hunk } = hunkRef;
        const place = t("Change {0} of {1}", all.indexOf(hunkRef) + 1, all.length);
        const mode = current.knownMode(file.path, "result");
        show(hunkRow(id, file.path, hunk.id), documentUri(id, file), barContent(hunkRef, place, mode));
      }
    }
    for (const [id, { thread }] of this.#bars) {
      if (wanted.has(id)) continue;
      thread.dispose();
      this.#bars.delete(id);
    }
    this.#lensesChanged.fire();
  }

  /** Show the bar of a change again: a user who goes to a collapsed change wants its actions. */
  resetBar(hunkRef: HunkRef): void {
    const id = hunkRow(hunkRef.id, hunkRef.file.path, hunkRef.hunk.id);
    this.#bars.get(id)?.thread.dispose();
    if (this.#bars.delete(id)) this.draw();
  }

  /** Lenses of the result side: the verdict at the top of the first file, then the actions of each change. */
  lenses(uri: string): readonly Lens[] {
    const { openResults, store } = this.#deps;
    const place = parseReviewUri(uri);
    const { current } = openResults;
    const file = place && current?.id === place.id ? current.fileByDisplayPath(place.path, "result") : undefined;
    if (!current || !file) return [];
    const delegation = store.delegation(current.id);
    const found: Lens[] = [];
    const first = current.files.find(({ binary, status }) => !binary && status !== "deleted");
    if (delegation && file === first) {
      const top: Range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
      const word = verdictLine(delegation);
      found.push({ range: top, command: { id: EVIDENCE_COMMAND, title: escapeMarkup(word), arguments: [current.id] } });
    }
    for (const hunk of file.hunks) {
      const range = hunkRange({ file, hunk });
      const id = hunkRow(current.id, file.path, hunk.id);
      const lens = (title: string, command: string): void =>
        void found.push({ range, command: { id: `understudy.review.${command}`, title, arguments: [id] } });
      const word = hunkLabel(hunk);
      if (hunk.state === "pending") {
        lens(`$(check) ${t("Accept")}`, "acceptHunk");
        lens(`$(close) ${t("Reject")}`, "rejectHunk");
        lens(t("Reject with Reason…"), "rejectHunkWithReason");
        if (hunk.conflict) {
          lens(`$(git-merge) ${t("Resolve…")}`, "openConflict");
          lens(t("Mark as Resolved"), "markResolved");
        }
      } else {
        lens(`$(${word.icon}) ${escapeMarkup(hunk.reason ? `${word.text}: ${hunk.reason}` : word.text)}`, "show");
        if (hunk.state === "rejected") lens(t("Accept Anyway"), "acceptHunk");
        if (hunk.state === "rejected" || hunk.undoToken !== undefined) lens(t("Undo"), "undoChange");
      }
    }
    return found;
  }

  dispose(): void {
    this.#removeBars();
    this.#disposables.dispose();
  }

  #removeBars(): void {
    for (const { thread } of this.#bars.values()) thread.dispose();
    this.#bars.clear();
  }

  #lensesEnabled(): boolean {
    return this.#deps.host.workspace.editorSetting("diffEditor.codeLens", false);
  }

  #showBar(id: string, uri: string, content: BarContent): void {
    const { review } = this.#deps.host;
    let bar = this.#bars.get(id);
    if (bar && bar.uri !== uri) {
      bar.thread.dispose();
      bar = undefined;
    }
    if (!bar) this.#bars.set(id, (bar = { thread: review.thread(id, uri, content.range), uri, told: "" }));
    const told = JSON.stringify(content);
    if (told === bar.told) return;
    bar.told = told;
    bar.thread.set(content);
  }

  async #evidence(uri: string): Promise<string> {
    const id = /^[\w-]+:\/\/([^/]+)\//u.exec(uri)?.[1] ?? "";
    const page = await this.#deps.requester.request("understudy/delegations/evidence", { id });
    return page.markdown;
  }
}

/** The name becomes the title of the preview tab. */
export const evidenceUri = (id: string): string => `${EVIDENCE}://${id}/${encodeURIComponent(evidenceName())}`;
export const evidenceName = (): string => `${t("Evidence")}.md`;

/** The document that shows a change: the result, or the base of a deleted file. */
export function documentUri(id: string, file: FileDiff): string {
  return file.status === "deleted"
    ? reviewUri(BASE, id, displayPath(file.path))
    : reviewUri(RESULT, id, displayPath(file.path));
}

/** The range of a change in the document that shows it. */
export function hunkRange({ file, hunk }: Pick<HunkRef, "file" | "hunk">): Range {
  const { start, end } = linesOf(hunk, file.status === "deleted" ? "old" : "new");
  return { start: { line: start, character: 0 }, end: { line: end, character: 0 } };
}

function barContent(hunkRef: HunkRef, place: string, mode: string | undefined): BarContent {
  const { file, hunk } = hunkRef;
  const { start, end } = hunkRange(hunkRef);
  if (!isPending(hunk)) {
    const label = capitalized(hunkLabel(hunk).text);
    // The editor wraps the note, and cuts the label off.
    const note = hunk.reason === undefined ? place : `${place}: ${hunk.reason}`;
    return { label, note, context: hunk.state, range: lineRange(end.line), collapsed: true };
  }
  const facts = [place];
  // What the lines of the diff do not show.
  const what =
    hunk.newLines + hunk.oldLines === 0 && file.status === "modified" ? wholeFile(file, mode) : fileChange(file, mode);
  if (what !== "") facts.push(what);
  if (hunk.conflict) facts.push(hunkLabel(hunk).text);
  if (hunk.edited) facts.push(t("edited by you"));
  const long = end.line - start.line >= LONG_HUNK_LINES;
  return {
    label: facts.join(" · "),
    note: [file.flagReason, hunkSize(hunk), ...untestedPlaces(hunk).map((place) => t("not tested: {0}", place))]
      .filter((part) => part !== undefined && part !== "")
      .join(" · "),
    context: hunk.conflict ? "conflict" : "pending",
    // A bar is shown below its line; a comment tints its lines over the colors of the diff, so it gets only one.
    range: lineRange(long ? Math.max(start.line - 1, 0) : end.line),
  };
}

function lineRange(line: number): Range {
  return { start: { line, character: 0 }, end: { line, character: 0 } };
}
