/**
 * A review in the editor: both sides of each file as documents, and actions at each change. Diff editors show code
 * lenses only if `diffEditor.codeLens` is on; otherwise an action bar is shown below each change. Saving the result
 * side amends the result.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { escapeMarkup } from "../base/untrustedText.ts";
import { t } from "../base/l10n.ts";
import { SidecarError } from "../sidecar/connection.ts";
import type { Host, Lens, Thread } from "../host/host.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { Store } from "../state/store.ts";
import { stateName } from "../state/wording.ts";
import type { FileDiff, Range } from "../protocol.ts";
import type { FileContent, OpenResults, OpenResult } from "./openResults.ts";
import { hunkRow, isPending, linesOf, rangeOf, shiftLine, type HunkRef } from "./hunks.ts";
import { displayPath } from "../state/formatting.ts";
import { BASE, EVIDENCE, parseReviewUri, RESULT, reviewUri, type Side } from "./reviewUris.ts";
import { EVIDENCE_COMMAND } from "./reviewTree.ts";
import { fileChange, hunkLabel, verdictLine, wholeFile } from "./reviewWording.ts";

export interface ReviewEditorDeps {
  readonly host: Pick<Host, "documents" | "review" | "workspace" | "commands">;
  readonly store: Pick<Store, "delegation" | "read" | "onDidChange">;
  readonly openResults: OpenResults;
  readonly requester: Requester;
}

export class ReviewEditor implements Disposable {
  readonly #deps: ReviewEditorDeps;
  readonly #disposables = new DisposableStore();
  readonly #resultChanged = this.#disposables.add(new Emitter<readonly string[]>());
  readonly #lensesChanged = this.#disposables.add(new Emitter<void>());
  readonly #evidenceChanged = this.#disposables.add(new Emitter<string>());
  /** The content read last, on which an edit is based: by file. */
  readonly #base = new Map<string, FileContent>();
  readonly #versions = new Map<string, number>();
  readonly #bars = new Map<string, { readonly thread: Thread; readonly uri: string; told: string }>();

  constructor(deps: ReviewEditorDeps) {
    this.#deps = deps;
    const { documents, review, workspace } = deps.host;
    const never = new Emitter<readonly string[]>();
    this.#disposables.add(
      documents.provideFiles(BASE, { read: (uri) => this.#read(uri, "base"), onDidChange: never.subscribe }),
    );
    this.#disposables.add(
      documents.provideFiles(RESULT, {
        read: (uri) => this.#read(uri, "result"),
        stat: (uri) => this.#stat(uri),
        write: (uri, content) => this.#write(uri, content),
        onDidChange: this.#resultChanged.subscribe,
      }),
    );
    this.#disposables.add(
      documents.provide(EVIDENCE, { text: (uri) => this.#evidence(uri), onDidChange: this.#evidenceChanged.subscribe }),
    );
    this.#disposables.add(
      review.lenses(RESULT, { lenses: (uri) => this.lenses(uri), onDidChange: this.#lensesChanged.subscribe }),
    );
    this.#disposables.add(
      deps.openResults.onDidChange(({ id, paths, begun }) => {
        if (begun) this.#removeBars(); // show collapsed bars again
        for (const path of paths) this.#bump(id, path);
        this.#resultChanged.fire(paths.map((path) => reviewUri(RESULT, id, displayPath(path))));
        this.draw();
      }),
    );
    this.#disposables.add(
      deps.openResults.onDidForget((id) => {
        for (const seen of this.#base.keys()) if (seen.startsWith(key(id, ""))) this.#base.delete(seen);
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
    this.#disposables.add(
      documents.onDidChangeOwn((uri) => parseReviewUri(uri)?.scheme === RESULT && this.#lensesChanged.fire()),
    );
  }

  /** Show bars at pending changes, and refresh the lenses. */
  draw(): void {
    const { openResults, store } = this.#deps;
    const wanted = new Set<string>();
    const { current } = openResults;
    const delegation = current && store.delegation(current.id);
    if (current && !this.#lensesEnabled()) {
      const all = current.hunks;
      const said = new Set<string>();
      all.forEach((hunkRef, index) => {
        if (hunkRef.file.binary || !isPending(hunkRef.hunk)) return;
        const id = hunkRow(hunkRef.id, hunkRef.file.path, hunkRef.hunk.id);
        wanted.add(id);
        const label = barLabel(hunkRef, index, all.length, current.knownMode(hunkRef.file.path, "result"));
        // Show the reservations in full once per file.
        const whole = !said.has(hunkRef.file.path);
        said.add(hunkRef.file.path);
        const verdict = delegation && (whole ? verdictLine(delegation) : stateName(delegation));
        const note = [hunkRef.file.flagReason, verdict].filter((part) => part !== undefined).join(" · ");
        this.#showBar(id, hunkRef, { label, note });
      });
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

  /** Lenses of the result side: the verdict at the top, then the actions of each change. */
  lenses(uri: string): readonly Lens[] {
    const { openResults, host, store } = this.#deps;
    const place = parseReviewUri(uri);
    const { current } = openResults;
    const file = place && current?.id === place.id ? current.fileByDisplayPath(place.path, "result") : undefined;
    if (!current || !file) return [];
    const delegation = store.delegation(current.id);
    const read = current.knownText(file.path, "result") ?? "";
    const shown = host.documents.open([uri])[0]?.text ?? read;
    const found: Lens[] = [];
    if (delegation) {
      const top: Range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
      const word = verdictLine(delegation);
      found.push({ range: top, command: { id: EVIDENCE_COMMAND, title: escapeMarkup(word), arguments: [current.id] } });
    }
    for (const hunk of file.hunks) {
      const range = rangeOf(hunk, "new", read, shown);
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

  #showBar(id: string, hunkRef: HunkRef, said: { readonly label: string; readonly note: string }): void {
    const { review } = this.#deps.host;
    const uri = documentUri(hunkRef.id, hunkRef.file);
    const { end } = hunkRange(hunkRef);
    const range = { start: end, end }; // a comment tints its lines over the colors of the diff
    let bar = this.#bars.get(id);
    if (bar && bar.uri !== uri) {
      bar.thread.dispose();
      bar = undefined;
    }
    if (!bar) this.#bars.set(id, (bar = { thread: review.thread(id, uri, range), uri, told: "" }));
    const { hunk } = hunkRef;
    const content = { ...said, context: hunk.conflict ? "conflict" : "pending", range };
    const told = JSON.stringify(content);
    if (told === bar.told) return;
    bar.told = told;
    bar.thread.set(content);
  }

  async #read(uri: string, side: Side): Promise<Uint8Array> {
    const { result, file, place } = await this.#find(uri, side);
    const content = await result.content(file.path, side);
    if (!content.bytes) throw new Error(t("{0} is not in the result.", place.path));
    if (side === "result") this.#base.set(key(result.id, file.path), content);
    return content.bytes;
  }

  async #stat(uri: string): Promise<{ size: number; changed: number }> {
    const { result, file, place } = await this.#find(uri, "result");
    const { bytes } = await result.content(file.path, "result");
    if (!bytes) throw new Error(t("{0} is not in the result.", place.path));
    return { size: bytes.byteLength, changed: this.#versions.get(key(result.id, file.path)) ?? 1 };
  }

  async #write(uri: string, bytes: Uint8Array): Promise<void> {
    const { result, file, place } = await this.#find(uri, "result");
    const seen = this.#base.get(key(result.id, file.path)) ?? (await result.content(file.path, "result"));
    if (seen.text === undefined) {
      throw new SidecarError({ kind: "invalid_params", message: t("{0} is not UTF-8 text.", place.path) });
    }
    const text = Buffer.from(bytes).toString("utf8");
    if (text !== seen.text) {
      this.#base.set(key(result.id, file.path), await result.amend(file.path, text, seen));
      this.#bump(result.id, file.path);
    }
  }

  async #find(uri: string, side: Side): Promise<{ result: OpenResult; file: FileDiff; place: { path: string } }> {
    const place = parseReviewUri(uri);
    if (!place) throw new Error(t("{0} is not a file of a result.", uri));
    const result = await this.#deps.openResults.result(place.id);
    const file = result.fileByDisplayPath(place.path, side);
    if (!file) throw new Error(t("{0} is not in the result.", place.path));
    return { result, file, place };
  }

  async #evidence(uri: string): Promise<string> {
    const id = /^[\w-]+:\/\/([^/]+)\//u.exec(uri)?.[1] ?? "";
    const page = await this.#deps.requester.request("understudy/delegations/evidence", { id });
    return page.markdown;
  }

  #bump(id: string, path: string): void {
    this.#versions.set(key(id, path), (this.#versions.get(key(id, path)) ?? 1) + 1);
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
export function hunkRange({ file, hunk }: HunkRef): Range {
  const { start, end } = linesOf(hunk, file.status === "deleted" ? "old" : "new");
  return { start: { line: start, character: 0 }, end: { line: end, character: 0 } };
}

/** The line in the text that was read for a line in the text that is shown. */
export const lineBeforeEdits = (line: number, read: string, shown: string): number => shiftLine(line, shown, read);

function barLabel({ file, hunk }: HunkRef, index: number, count: number, mode: string | undefined): string {
  const facts = [t("Change {0} of {1}", index + 1, count)];
  // What the lines of the diff do not show.
  const what =
    hunk.newLines + hunk.oldLines === 0 && file.status === "modified" ? wholeFile(file, mode) : fileChange(file, mode);
  if (what !== "") facts.push(what);
  facts.push(hunkLabel(hunk).text);
  if (hunk.edited) facts.push(t("edited by you"));
  return facts.join(" · ");
}

const key = (id: string, path: string): string => `${id}:${path}`;
