/**
 * A review in the editor: the two sides of every file as documents, and what can be done about a change beside it.
 * Diffs show code lenses only to who has switched them on (`diffEditor.codeLens`); for everybody else a bar hangs below
 * each change. Saving the result side amends the result.
 */

import { Bag, Emitter, type Disposable } from "../base/emitter.ts";
import { inert } from "../base/inert.ts";
import { t } from "../base/l10n.ts";
import { SidecarError } from "../client/wire.ts";
import type { Host, Lens, Thread } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { stateName } from "../model/words.ts";
import type { FileDiff, Range } from "../protocol.ts";
import type { Content, Desk, Result } from "./desk.ts";
import { hunkRow, isOpen, linesOf, rangeOf, shifted, shownPath, type Spot } from "./hunks.ts";
import { BASE, EVIDENCE, placeOf, RESULT, uriOf, type Side } from "./places.ts";
import { EVIDENCE_COMMAND } from "./rows.ts";
import { evidence, fileWord, stateWord, verdictLine, wholeFile } from "./words.ts";

export interface SurfaceParts {
  readonly host: Pick<Host, "documents" | "review" | "workspace" | "commands">;
  readonly store: Pick<Store, "delegation" | "read" | "onDidChange">;
  readonly desk: Desk;
}

export class Surface implements Disposable {
  readonly #parts: SurfaceParts;
  readonly #bag = new Bag();
  readonly #resultChanged = this.#bag.add(new Emitter<readonly string[]>());
  readonly #lensesChanged = this.#bag.add(new Emitter<void>());
  readonly #evidenceChanged = this.#bag.add(new Emitter<string>());
  /** What was read last, and so what an edit is made on: by place. */
  readonly #seen = new Map<string, Content>();
  readonly #versions = new Map<string, number>();
  readonly #bars = new Map<string, { readonly thread: Thread; readonly uri: string; told: string }>();

  constructor(parts: SurfaceParts) {
    this.#parts = parts;
    const { documents, review, workspace } = parts.host;
    const never = new Emitter<readonly string[]>();
    this.#bag.add(documents.provideFiles(BASE, { read: (uri) => this.#read(uri, "base"), onDidChange: never.signal }));
    this.#bag.add(
      documents.provideFiles(RESULT, {
        read: (uri) => this.#read(uri, "result"),
        stat: (uri) => this.#stat(uri),
        write: (uri, content) => this.#write(uri, content),
        onDidChange: this.#resultChanged.signal,
      }),
    );
    this.#bag.add(
      documents.provide(EVIDENCE, { text: (uri) => this.#evidence(uri), onDidChange: this.#evidenceChanged.signal }),
    );
    this.#bag.add(
      review.lenses(RESULT, { lenses: (uri) => this.lenses(uri), onDidChange: this.#lensesChanged.signal }),
    );
    this.#bag.add(
      parts.desk.onDidChange(({ id, paths, begun }) => {
        if (begun) this.#takeDown(); // those that were folded in come back
        for (const path of paths) this.#bump(id, path);
        this.#resultChanged.fire(paths.map((path) => uriOf(RESULT, id, shownPath(path))));
        this.draw();
      }),
    );
    this.#bag.add(
      parts.desk.onDidForget((id) => {
        for (const seen of this.#seen.keys()) if (seen.startsWith(key(id, ""))) this.#seen.delete(seen);
      }),
    );
    this.#bag.add(
      parts.store.onDidChange(({ delegations }) => {
        const { current } = parts.desk;
        if (!current || !delegations.has(current.id)) return;
        this.#evidenceChanged.fire(evidenceUri(current.id));
        this.draw();
      }),
    );
    this.#bag.add(workspace.onDidChangeSettings(() => this.draw()));
    this.#bag.add(documents.onDidChangeOwn((uri) => placeOf(uri)?.scheme === RESULT && this.#lensesChanged.fire()));
  }

  /** Hang up bars where something is undecided, and have lenses asked for anew. */
  draw(): void {
    const { desk, store } = this.#parts;
    const wanted = new Set<string>();
    const { current } = desk;
    const delegation = current && store.delegation(current.id);
    if (current && !this.#lensesShown()) {
      const all = current.spots;
      const said = new Set<string>();
      all.forEach((spot, index) => {
        if (spot.file.binary || !isOpen(spot)) return;
        const id = hunkRow(spot.id, spot.file.path, spot.hunk.id);
        wanted.add(id);
        const label = barLabel(spot, index, all.length, current.mode(spot.file.path, "result"));
        // What stands against the result is said in full once a file.
        const whole = !said.has(spot.file.path);
        said.add(spot.file.path);
        const verdict = delegation && (whole ? verdictLine(delegation) : stateName(delegation));
        const note = [spot.file.flagged, verdict].filter((part) => part !== undefined).join(" · ");
        this.#hang(id, spot, { label, note });
      });
    }
    for (const [id, { thread }] of this.#bars) {
      if (wanted.has(id)) continue;
      thread.dispose();
      this.#bars.delete(id);
    }
    this.#lensesChanged.fire();
  }

  /** Hang the bar of a change anew: who goes to a change that was folded in wants to see what can be done about it. */
  renew(spot: Spot): void {
    const id = hunkRow(spot.id, spot.file.path, spot.hunk.id);
    this.#bars.get(id)?.thread.dispose();
    if (this.#bars.delete(id)) this.draw();
  }

  /** Lenses of the result side: what it came to at the top, then what can be done about each change. */
  lenses(uri: string): readonly Lens[] {
    const { desk, host, store } = this.#parts;
    const place = placeOf(uri);
    const { current } = desk;
    const file = place && current?.id === place.id ? current.fileShown(place.path, "result") : undefined;
    if (!current || !file) return [];
    const delegation = store.delegation(current.id);
    const read = current.known(file.path, "result") ?? "";
    const shown = host.documents.open([uri])[0]?.text ?? read;
    const found: Lens[] = [];
    if (delegation) {
      const top: Range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
      const word = verdictLine(delegation);
      found.push({ range: top, command: { id: EVIDENCE_COMMAND, title: inert(word), arguments: [current.id] } });
    }
    for (const hunk of file.hunks) {
      const range = rangeOf(hunk, "new", read, shown);
      const id = hunkRow(current.id, file.path, hunk.id);
      const lens = (title: string, command: string): void =>
        void found.push({ range, command: { id: `understudy.review.${command}`, title, arguments: [id] } });
      const word = stateWord(hunk);
      if (hunk.state === "pending") {
        lens(`$(check) ${t("Accept")}`, "acceptHunk");
        lens(`$(close) ${t("Reject")}`, "rejectHunk");
        lens(t("Reject with a Reason…"), "rejectHunkWithReason");
        if (hunk.conflict) {
          lens(`$(git-merge) ${t("Resolve…")}`, "openConflict");
          lens(t("Merged by Hand"), "mergedByHand");
        }
      } else {
        lens(`$(${word.icon}) ${inert(hunk.reason ? `${word.text}: ${hunk.reason}` : word.text)}`, "show");
        if (hunk.state === "rejected") lens(t("Accept after All"), "acceptHunk");
      }
    }
    return found;
  }

  dispose(): void {
    this.#takeDown();
    this.#bag.dispose();
  }

  #takeDown(): void {
    for (const { thread } of this.#bars.values()) thread.dispose();
    this.#bars.clear();
  }

  #lensesShown(): boolean {
    return this.#parts.host.workspace.editorSetting("diffEditor.codeLens", false);
  }

  #hang(id: string, spot: Spot, said: { readonly label: string; readonly note: string }): void {
    const { review } = this.#parts.host;
    const uri = sideUri(spot.id, spot.file);
    const { end } = spotRange(spot);
    const range = { start: end, end }; // the lines of a comment are tinted, over the colours of the diff
    let bar = this.#bars.get(id);
    if (bar && bar.uri !== uri) {
      bar.thread.dispose();
      bar = undefined;
    }
    if (!bar) this.#bars.set(id, (bar = { thread: review.thread(id, uri, range), uri, told: "" }));
    const { hunk } = spot;
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
    if (side === "result") this.#seen.set(key(result.id, file.path), content);
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
    const seen = this.#seen.get(key(result.id, file.path)) ?? (await result.content(file.path, "result"));
    if (seen.text === undefined) {
      throw new SidecarError({ kind: "invalid_params", message: t("{0} is no text in UTF-8.", place.path) });
    }
    const text = Buffer.from(bytes).toString("utf8");
    if (text !== seen.text) {
      this.#seen.set(key(result.id, file.path), await result.amend(file.path, text, seen));
      this.#bump(result.id, file.path);
    }
  }

  async #find(uri: string, side: Side): Promise<{ result: Result; file: FileDiff; place: { path: string } }> {
    const place = placeOf(uri);
    if (!place) throw new Error(t("{0} is no file of a result.", uri));
    const result = await this.#parts.desk.result(place.id);
    const file = result.fileShown(place.path, side);
    if (!file) throw new Error(t("{0} is not in the result.", place.path));
    return { result, file, place };
  }

  async #evidence(uri: string): Promise<string> {
    const id = /^[\w-]+:\/\/([^/]+)\//u.exec(uri)?.[1] ?? "";
    const delegation = this.#parts.store.delegation(id) ?? (await this.#parts.store.read(id));
    return delegation ? evidence(delegation) : t("Nothing is known about {0}.", id);
  }

  #bump(id: string, path: string): void {
    this.#versions.set(key(id, path), (this.#versions.get(key(id, path)) ?? 1) + 1);
  }
}

/** The name is what the tab of its preview reads. */
export const evidenceUri = (id: string): string => `${EVIDENCE}://${id}/${encodeURIComponent(evidenceName())}`;
export const evidenceName = (): string => `${t("Evidence")}.md`;

/** The document on which a change is seen: the result, or the base of a file that is deleted. */
export function sideUri(id: string, file: FileDiff): string {
  return file.status === "deleted" ? uriOf(BASE, id, shownPath(file.path)) : uriOf(RESULT, id, shownPath(file.path));
}

/** Where a change is on the side on which it is seen. */
export function spotRange({ file, hunk }: Spot): Range {
  const { start, end } = linesOf(hunk, file.status === "deleted" ? "old" : "new");
  return { start: { line: start, character: 0 }, end: { line: end, character: 0 } };
}

/** The line of the text that was read, for a line of the text that is shown. */
export const readLine = (line: number, read: string, shown: string): number => shifted(line, shown, read);

function barLabel({ file, hunk }: Spot, index: number, count: number, mode: string | undefined): string {
  const facts = [t("Change {0} of {1}", index + 1, count)];
  // What the lines beside it do not show.
  const what =
    hunk.newLines + hunk.oldLines === 0 && file.status === "modified" ? wholeFile(file, mode) : fileWord(file, mode);
  if (what !== "") facts.push(what);
  facts.push(stateWord(hunk).text);
  if (hunk.edited) facts.push(t("edited by you"));
  return facts.join(" · ");
}

const key = (id: string, path: string): string => `${id}:${path}`;
