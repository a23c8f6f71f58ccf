/**
 * A review in the editor: actions at each change. Diff editors show code lenses only if `diffEditor.codeLens` is on;
 * otherwise an action bar is shown at each change. A result that is one new file is not shown as a diff.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { escapeMarkup } from "../base/untrustedText.ts";
import { t } from "../base/l10n.ts";
import type { GreyedLines, Host, Lens, Thread } from "../host/host.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { Store } from "../state/store.ts";
import type { Delegation, FileDiff, Hunk, Range } from "../protocol.ts";
import type { OpenResult, OpenResults } from "./openResults.ts";
import { hunkRow, isPending, linesOf, onlyNewFile, verifiedChanges, type HunkRef } from "./hunks.ts";
import { displayPath, shortenMiddle, toSentence } from "../state/formatting.ts";
import { BASE, EMPTY, EVIDENCE, parseReviewUri, RESULT, reviewUri } from "./reviewUris.ts";
import {
  decisionText,
  decisionWithReason,
  fileChange,
  headline,
  hunkLabel,
  hunkSize,
  noticedExplained,
  noticedFacts,
  rejectedBefore,
  untestedPlaces,
  verdictReasons,
  wholeFile,
} from "./reviewWording.ts";

/** With these settings, diffs and other editors show code lenses. */
export const LENS_SETTING = "diffEditor.codeLens";
const EDITOR_LENS_SETTING = "editor.codeLens";

/** The bar of a hunk with at least this many lines more is above it: the user sees it without scrolling. */
const LONG_HUNK_LINES = 20;

type BarContent = Parameters<Thread["set"]>[0];

export interface ReviewEditorDeps {
  readonly host: Pick<Host, "documents" | "review" | "workspace" | "commands" | "environment">;
  readonly store: Pick<Store, "delegation" | "read" | "onDidChange">;
  readonly openResults: OpenResults;
  readonly requester: Requester;
}

export class ReviewEditor implements Disposable {
  readonly #deps: ReviewEditorDeps;
  readonly #disposables = new DisposableStore();
  readonly #drawn = this.#disposables.add(new Emitter<void>());
  readonly #evidenceChanged = this.#disposables.add(new Emitter<string>());
  readonly #bars = new Map<string, { readonly thread: Thread; readonly uri: string; told: string }>();

  constructor(deps: ReviewEditorDeps) {
    this.#deps = deps;
    const { documents, review, workspace } = deps.host;
    this.#disposables.add(
      documents.provide(EVIDENCE, { text: (uri) => this.#evidence(uri), onDidChange: this.#evidenceChanged.subscribe }),
    );
    const onDidChange = this.#drawn.subscribe;
    for (const scheme of [RESULT, EMPTY]) {
      this.#disposables.add(review.lenses(scheme, { lenses: (uri) => this.lenses(uri), onDidChange }));
    }
    for (const scheme of [BASE, RESULT, EMPTY]) {
      this.#disposables.add(review.grey(scheme, { lines: (uri) => this.decidedLines(uri), onDidChange }));
    }
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
        const delegation = deps.store.delegation(current.id);
        if (delegation) this.#evidenceChanged.fire(evidenceUri(delegation));
        this.draw();
      }),
    );
    this.#disposables.add(workspace.onDidChangeSettings(() => this.draw()));
  }

  /** Show a bar at each change, collapsed where it is decided, the verdict at the top, and refresh what is drawn. */
  draw(): void {
    const { openResults, store } = this.#deps;
    const wanted = new Set<string>();
    const show = (id: string, uri: string, content: BarContent): void => {
      wanted.add(id);
      this.#showBar(id, uri, content);
    };
    const { current } = openResults;
    if (current && !this.#lensesEnabled(current)) {
      const all = current.hunks;
      const hunks = hunksOf(current);
      const shown = all.filter(({ file, hunk }) => !file.binary && hunk.state !== "superseded");
      const [first] = shown;
      const delegation = store.delegation(current.id);
      if (first && delegation)
        show(`verdict:${current.id}`, documentUri(current.id, first.file), this.#verdict(delegation));
      for (const hunkRef of shown) {
        const { id, file, hunk } = hunkRef;
        const place = t("Change {0} of {1}", all.indexOf(hunkRef) + 1, all.length);
        const mode = current.knownMode(file.path, "result");
        const content = isPending(hunk) ? pendingBar(hunkRef, place, mode) : decidedBar(hunkRef, place, hunks);
        show(hunkRow(id, file.path, hunk.id), documentUri(id, file), content);
      }
    }
    for (const [id, { thread }] of this.#bars) {
      if (wanted.has(id)) continue;
      thread.dispose();
      this.#bars.delete(id);
    }
    this.#drawn.fire();
  }

  /** The verdict with its evidence and reasons. */
  #verdict(delegation: Delegation): BarContent {
    const [label = "", ...facts] = headline(delegation, Date.now());
    const explained = noticedExplained(delegation);
    const note = [
      // What the sentence explains is not said twice: the bar is one half of a window wide.
      facts.filter((fact) => explained === undefined || !noticedFacts(delegation).includes(fact)).join(" · "),
      verdictReasons(delegation).join("; "),
      explained ?? "",
    ];
    return {
      label,
      note: note
        .filter((part) => part !== "")
        .map(toSentence)
        .join(" "),
      context: delegation.reservations.includes("no_checks") ? "verdictWithoutChecks" : "verdict",
      range: undefined,
    };
  }

  /** The keys of `package.json`. */
  get #keys(): { readonly accept: string; readonly reject: string } {
    const mac = this.#deps.host.environment.platform === "darwin";
    return mac ? { accept: "⌃⌥Y", reject: "⌃⌥N" } : { accept: "Alt+Y", reject: "Alt+N" };
  }

  /** Show the bar of a change again: a user who goes to a collapsed change wants its actions. */
  resetBar(hunkRef: HunkRef): void {
    const id = hunkRow(hunkRef.id, hunkRef.file.path, hunkRef.hunk.id);
    this.#bars.get(id)?.thread.dispose();
    if (this.#bars.delete(id)) this.draw();
  }

  /** Lenses of the result side: the verdict with its actions at the top of the first file, then those of each change. */
  lenses(uri: string): readonly Lens[] {
    const { openResults, store } = this.#deps;
    const place = parseReviewUri(uri);
    const { current } = openResults;
    const file = place && current?.id === place.id ? current.fileByDisplayPath(place.path, "result") : undefined;
    if (!current || !file) return [];
    const delegation = store.delegation(current.id);
    const found: Lens[] = [];
    const keys = this.#keys;
    const all = hunksOf(current);
    for (const hunk of file.hunks) {
      const range = hunkRange({ file, hunk });
      const id = hunkRow(current.id, file.path, hunk.id);
      const lens = (title: string, command: string): void =>
        void found.push({ range, command: { id: `understudy.review.${command}`, title, arguments: [id] } });
      if (hunk.state === "pending") {
        lens(`$(check) ${t("Accept ({0})", keys.accept)}`, "acceptHunk");
        lens(`$(close) ${t("Reject ({0})", keys.reject)}`, "rejectHunk");
        lens(t("Reject with Reason…"), "rejectHunkWithReason");
        if (hunk.conflict) {
          lens(`$(git-merge) ${t("Resolve…")}`, "openConflict");
          lens(t("Mark as Resolved"), "markResolved");
        }
        const notes = notesOf({ file, hunk }).map(escapeMarkup).join(" · ");
        if (notes !== "") lens(`$(warning) ${notes}`, "show");
      } else {
        lens(`$(${hunkLabel(hunk).icon}) ${escapeMarkup(decisionWithReason(hunk, all))}`, "show");
        if (hunk.state === "rejected") lens(t("Accept Anyway"), "acceptHunk");
        if (hunk.state === "rejected" || hunk.undoToken !== undefined) lens(t("Undo"), "undoChange");
      }
    }
    const first = current.files.find(({ binary }) => !binary);
    if (delegation && file === first) {
      // After those of a change at the first line: the end of a long line is cut off.
      const range = lineRange(0);
      const lens = (title: string, command: string): void =>
        void found.push({ range, command: { id: `understudy.review.${command}`, title, arguments: [current.id] } });
      const [word = "", ...facts] = headline(delegation, Date.now());
      lens(escapeMarkup([word, ...facts, ...verdictReasons(delegation)].join(" · ")), "evidence");
      const pending = hunksOf(current).filter(isPending).length;
      const verified = verifiedChanges(current.files).length;
      if (verified > 0 && verified < pending) lens(t("Accept All Verified"), "acceptVerified");
      if (pending > 1) {
        lens(t("Accept All"), "acceptAll");
        lens(t("Reject All…"), "rejectAll");
      }
    }
    return found;
  }

  /** Lines of decided changes on one side, with who decided after the first line. */
  decidedLines(uri: string): readonly GreyedLines[] {
    const place = parseReviewUri(uri);
    const { current } = this.#deps.openResults;
    if (!current || place?.id !== current.id) return [];
    const side = place.scheme === BASE ? "base" : "result";
    const file = current.fileByDisplayPath(place.path, side);
    const all = hunksOf(current);
    return (file?.hunks ?? [])
      .filter((hunk) => !isPending(hunk))
      .map((hunk) => ({
        line: linesOf(hunk, side === "base" ? "old" : "new").start,
        count: side === "base" ? hunk.oldLines : hunk.newLines,
        struck: hunk.state === "rejected" && side === "result",
        note: side === "base" ? "" : decisionWithReason(hunk, all),
      }));
  }

  dispose(): void {
    this.#removeBars();
    this.#disposables.dispose();
  }

  #removeBars(): void {
    for (const { thread } of this.#bars.values()) thread.dispose();
    this.#bars.clear();
  }

  #lensesEnabled({ files }: OpenResult): boolean {
    const { workspace } = this.#deps.host;
    return onlyNewFile(files)
      ? workspace.editorSetting(EDITOR_LENS_SETTING, true)
      : workspace.editorSetting(LENS_SETTING, false);
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

/** The name becomes the title of the tab. */
export function evidenceUri({ id, title }: Pick<Delegation, "id" | "title">): string {
  const name = t("Evidence: {0}", shortenMiddle(title, 40).replaceAll("/", "∕"));
  return `${EVIDENCE}://${id}/${encodeURIComponent(name)}`;
}

/** The document that shows a change in every layout: the result, or what is left of a deleted file. */
export function documentUri(id: string, file: FileDiff): string {
  return reviewUri(file.status === "deleted" ? EMPTY : RESULT, id, displayPath(file.path));
}

/** The range of a change in the document that shows it. */
export function hunkRange({ hunk }: Pick<HunkRef, "file" | "hunk">): Range {
  const { start, end } = linesOf(hunk);
  return { start: { line: start, character: 0 }, end: { line: end, character: 0 } };
}

/** What the user should know before they accept a change. */
function notesOf({ file, hunk }: Pick<HunkRef, "file" | "hunk">): readonly string[] {
  return [
    file.flagReason ?? "",
    rejectedBefore(hunk) ?? "",
    ...untestedPlaces(hunk).map((place) => t("not tested: {0}", place)),
  ].filter((part) => part !== "");
}

function decidedBar(hunkRef: HunkRef, place: string, all: readonly Hunk[]): BarContent {
  const { hunk } = hunkRef;
  return {
    label: decisionText(hunk, all),
    // The editor wraps the note, and cuts the label off.
    note: hunk.reason === undefined ? place : `${place}: ${hunk.reason}`,
    context: hunk.state,
    range: lineRange(hunkRange(hunkRef).end.line),
    collapsed: true,
  };
}

function pendingBar(hunkRef: HunkRef, place: string, mode: string | undefined): BarContent {
  const { file, hunk } = hunkRef;
  const { start, end } = hunkRange(hunkRef);
  const facts = [place];
  // What the lines of the diff do not show.
  const what =
    hunk.newLines + hunk.oldLines === 0 && file.status === "modified" ? wholeFile(file, mode) : fileChange(file, mode);
  facts.push(...[what, hunkSize(hunk)].filter((fact) => fact !== ""));
  if (hunk.conflict) facts.push(hunkLabel(hunk).text);
  if (hunk.edited) facts.push(t("edited by you"));
  const long = end.line - start.line >= LONG_HUNK_LINES;
  return {
    label: facts.join(" · "),
    // Without a note, the bar is a line lower.
    note: notesOf(hunkRef).join(" · "),
    context: hunk.conflict ? "conflict" : "pending",
    // A bar is shown below its line; a comment tints its lines over the colors of the diff, so it gets only one.
    range: lineRange(long ? Math.max(start.line - 1, 0) : end.line),
  };
}

const hunksOf = ({ hunks }: Pick<OpenResult, "hunks">): readonly Hunk[] => hunks.map(({ hunk }) => hunk);

function lineRange(line: number): Range {
  return { start: { line, character: 0 }, end: { line, character: 0 } };
}
