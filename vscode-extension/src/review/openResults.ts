/**
 * The results that are open in this window; at most one is under review. Results are read from the sidecar, and read
 * again when events report a change. Nothing is decided here.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { toErrorInfo, SidecarError, type Requester } from "../sidecar/connection.ts";
import type { Store } from "../state/store.ts";
import type {
  Conflict,
  Decision,
  DecideResult,
  DiffResult,
  EditedFile,
  Event,
  FileDiff,
  Hunk,
  UndoableAccept,
} from "../protocol.ts";
import { hunkRefs, type HunkRef } from "./hunks.ts";
import { displayPath } from "../state/formatting.ts";
import type { Side } from "./reviewUris.ts";

/** Files whose text is prefetched for the labels of their hunks. */
const MAX_PREFETCH = 60;

/** Events that change the diff. */
const CHANGES_DIFF = new Set<Event["type"]>([
  "finished",
  "decided",
  "amended",
  "superseded",
  "discarded",
  "undone",
  "applied",
]);

/** Events within this time lead to one reload. */
const RELOAD_DELAY_MS = 30;

export interface FileContent {
  /** Undefined: the file does not exist on this side. */
  readonly bytes: Uint8Array | undefined;
  /** Undefined: not UTF-8 text. */
  readonly text: string | undefined;
  /** Git's mode: `100755` is executable, `120000` is a link. */
  readonly mode: string | undefined;
  /** The result commit that it was read from. */
  readonly head: string;
}

/** One result: its files, hunks and texts, and the accepts and edits that can be undone. */
export class OpenResult implements Disposable {
  readonly id: string;
  readonly #requester: Requester;
  readonly #disposables = new DisposableStore();
  readonly #changed = new Emitter<readonly string[]>();
  readonly #contents = new Map<string, Promise<FileContent>>();
  /** What was read last, also while it is read again. */
  readonly #known = new Map<string, FileContent>();
  /** Conflicts by hunk, as reported by the last accept. */
  readonly #conflicts = new Map<string, Conflict>();
  #diff: DiffResult | undefined;
  #reading: Promise<DiffResult> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Paths (as on the wire) whose content on the result side changed. The states of hunks may have changed, too. */
  readonly onDidChange = this.#changed.subscribe;

  constructor(id: string, requester: Requester) {
    this.id = id;
    this.#requester = requester;
  }

  /** Read the result and follow its events. Rejects if it cannot be read. */
  async open(store: Pick<Store, "follow">): Promise<void> {
    await this.read();
    this.#disposables.add(await store.follow(this.id, (events) => this.#onEvents(events)));
  }

  get files(): readonly FileDiff[] {
    return this.#diff?.files ?? [];
  }

  get head(): string | undefined {
    return this.#diff?.head;
  }

  get hunks(): readonly HunkRef[] {
    return hunkRefs(this.id, this.files);
  }

  /** The accepts that can be undone, the latest first. */
  get undoable(): readonly UndoableAccept[] {
    return this.#diff?.undoable ?? [];
  }

  /** The files that the user edited, the latest first. A file without a difference is not in `files`. */
  get edited(): readonly EditedFile[] {
    return this.#diff?.edited ?? [];
  }

  /** When it was started, in milliseconds since 1970. */
  get startedAt(): number {
    const [, date = "", time = ""] = /^(\d{8})-(\d{6})/u.exec(this.id) ?? [];
    const [, year, month, day] = /^(....)(..)(..)/u.exec(date) ?? [];
    const clock = time.replace(/(..)(?=.)/gu, "$1:");
    return Date.parse(`${year}-${month}-${day}T${clock}Z`) || 0;
  }

  /** When the result's version of a file changed, in milliseconds since 1970. */
  changedAt(path: string): number {
    const edited = this.edited.find((file) => file.path === path);
    return (edited && Date.parse(edited.at)) ?? this.startedAt;
  }

  file(path: string): FileDiff | undefined {
    return this.files.find((file) => file.path === path);
  }

  /** Find a file by its display path; a renamed file has one on each side. */
  fileByDisplayPath(path: string, side: Side): FileDiff | undefined {
    const name = (file: FileDiff): string => displayPath(side === "base" ? (file.from ?? file.path) : file.path);
    return this.files.find((file) => name(file) === path);
  }

  /** The path on the wire of a changed or edited file. */
  wirePath(path: string, side: Side): string | undefined {
    return (
      this.fileByDisplayPath(path, side)?.path ?? this.edited.find((file) => displayPath(file.path) === path)?.path
    );
  }

  hunk(path: string, hunk: string): HunkRef | undefined {
    return this.hunks.find((hunkRef) => hunkRef.file.path === path && hunkRef.hunk.id === hunk);
  }

  conflict(hunk: string): Conflict | undefined {
    return this.#conflicts.get(hunk);
  }

  /** A text that was already read; undefined if not yet, or if it is not text. */
  knownText(path: string, side: Side): string | undefined {
    return this.#known.get(contentKey(path, side))?.text;
  }

  /** The mode of a file that was already read; undefined if not yet, or if it does not exist. */
  knownMode(path: string, side: Side): string | undefined {
    return this.#known.get(contentKey(path, side))?.mode;
  }

  /** Read files and hunks again. */
  read(): Promise<DiffResult> {
    return (this.#reading ??= this.#read().finally(() => (this.#reading = undefined)));
  }

  async content(path: string, side: Side): Promise<FileContent> {
    const name = contentKey(path, side);
    let reading = this.#contents.get(name);
    if (!reading) {
      reading = this.#content(path, side);
      this.#contents.set(name, reading);
      reading.catch(() => this.#contents.delete(name));
    }
    return reading;
  }

  /** Read the texts for the labels of the hunks. */
  async prefetch(): Promise<void> {
    const wanted = this.files.filter(({ binary }) => !binary).slice(0, MAX_PREFETCH);
    await Promise.allSettled(
      wanted.map((file) => this.content(file.path, file.status === "deleted" ? "base" : "result")),
    );
  }

  async decide(decisions: readonly Decision[], flagged: boolean): Promise<DecideResult> {
    const done = await this.#requester.request("understudy/delegations/decide", {
      id: this.id,
      decisions: [...decisions],
      ...(flagged ? { includeFlagged: true } : {}),
    });
    for (const conflict of done.conflicts) this.#conflicts.set(conflict.hunk, conflict);
    for (const hunk of done.decided) this.#conflicts.delete(hunk);
    const states = new Map(done.hunks.map((hunk) => [hunk.id, hunk]));
    this.#replaceHunks(states);
    this.#changed.fire([]);
    return done;
  }

  /** Undo an accept, or only some of its hunks. */
  async undo(token: string, hunks?: readonly string[]): Promise<void> {
    const only = hunks === undefined ? {} : { hunks: [...hunks] };
    await this.#requester.request("understudy/delegations/undo", { undoToken: token, ...only });
    await this.read();
    this.#changed.fire([]);
  }

  /** Undo the last edit of a file of the result. */
  async undoEdit(path: string): Promise<void> {
    const { head } = await this.read();
    await this.#requester.request("understudy/delegations/undoAmend", { id: this.id, path, head });
    await this.#refresh();
  }

  /**
   * Save the user's edit of a file of the result, based on the text they read. If the result changed elsewhere, the edit
   * is still saved as long as this file did not change; otherwise it is refused.
   */
  async amend(path: string, text: string, seen: FileContent): Promise<FileContent> {
    const send = async (head: string): Promise<FileContent> => {
      const done = await this.#requester.request("understudy/delegations/amend", { id: this.id, path, text, head });
      const content = { bytes: Buffer.from(text), text, mode: seen.mode, head: done.head };
      this.#contents.set(contentKey(path, "result"), Promise.resolve(content));
      this.#known.set(contentKey(path, "result"), content);
      const { head: now } = await this.read();
      // Reading a new result commit forgets the texts; this one is known.
      if (now === done.head) this.#contents.set(contentKey(path, "result"), Promise.resolve(content));
      this.#changed.fire([path]);
      return content;
    };
    try {
      return await send(seen.head);
    } catch (error) {
      if (toErrorInfo(error).kind !== "conflict") throw error;
      const { head } = await this.read();
      if (head === seen.head) throw error;
      const now = await this.#content(path, "result");
      if (now.text !== seen.text) {
        throw new SidecarError({
          kind: "conflict",
          message: t("{0} was changed in the result while you edited it.", displayPath(path)),
          hint: t("Copy your edit, revert the file, and edit it again."),
        });
      }
      return send(now.head);
    }
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#disposables.dispose();
    this.#changed.dispose();
  }

  async #read(): Promise<DiffResult> {
    const diff = await this.#requester.request("understudy/delegations/diff", { id: this.id });
    const before = this.#diff;
    this.#diff = diff;
    if (before && before.head !== diff.head) {
      // The base never changes; only the result side must be read again.
      for (const name of [...this.#contents.keys()]) if (name.startsWith("result:")) this.#contents.delete(name);
    }
    return diff;
  }

  async #content(path: string, side: Side): Promise<FileContent> {
    const content = await this.#requestContent(path, side);
    this.#known.set(contentKey(path, side), content);
    return content;
  }

  async #requestContent(path: string, side: Side): Promise<FileContent> {
    const head = this.#diff?.head ?? (await this.read()).head;
    const file = this.file(path);
    if (file && ((side === "base" && file.status === "added") || (side === "result" && file.status === "deleted"))) {
      return { bytes: undefined, text: undefined, mode: undefined, head };
    }
    const name = side === "base" ? (file?.from ?? path) : path;
    const found = await this.#requester
      .request("understudy/delegations/file", { id: this.id, path: name, side })
      .catch((error: unknown) => {
        if (file || toErrorInfo(error).kind !== "invalid_params") throw error;
        return undefined; // the file is neither changed nor in the result
      });
    if (!found) return { bytes: undefined, text: undefined, mode: undefined, head };
    return {
      bytes: Buffer.from(found.text ?? found.base64 ?? "", found.text === undefined ? "base64" : "utf8"),
      text: found.text,
      mode: found.mode,
      head,
    };
  }

  /** Apply hunk states of a response before the diff is read again. */
  #replaceHunks(states: ReadonlyMap<string, Hunk>): void {
    if (!this.#diff) return;
    const files = this.#diff.files.map((file) => ({
      ...file,
      hunks: file.hunks.map((hunk) => states.get(hunk.id) ?? hunk),
    }));
    this.#diff = { ...this.#diff, files };
  }

  #onEvents(events: readonly Event[]): void {
    if (!events.some(({ type }) => CHANGES_DIFF.has(type))) return;
    clearTimeout(this.#timer);
    // If it was removed, or no sidecar is running, keep showing what is known.
    this.#timer = setTimeout(() => void this.#refresh().catch(() => {}), RELOAD_DELAY_MS);
  }

  /** Read everything that is shown again, and report the files whose content changed. */
  async #refresh(): Promise<void> {
    const before = new Map(this.#known);
    await this.read();
    const shown = [...before.keys()].filter((name) => name.startsWith("result:")).map((name) => name.slice(7));
    const paths = [...new Set([...shown, ...this.files.slice(0, MAX_PREFETCH).map(({ path }) => path)])];
    await Promise.allSettled(paths.map((path) => this.content(path, "result")));
    this.#changed.fire(
      shown.filter((path) => {
        const name = contentKey(path, "result");
        return !sameContent(before.get(name), this.#known.get(name));
      }),
    );
  }
}

function sameContent(one: FileContent | undefined, other: FileContent | undefined): boolean {
  if (one?.bytes === undefined || other?.bytes === undefined) return one?.bytes === other?.bytes;
  return one.mode === other.mode && Buffer.compare(one.bytes, other.bytes) === 0;
}

export interface OpenResultsChange {
  readonly id: string;
  /** See `OpenResult.onDidChange`. */
  readonly paths: readonly string[];
  /** Its review was opened, possibly again. */
  readonly begun?: boolean;
}

/** Maximum number of results in memory. Older ones are read again on demand. */
const MAX_RESULTS = 8;

/** The results that this window read last, and the one under review. */
export class OpenResults implements Disposable {
  readonly #deps: { readonly requester: Requester; readonly store: Pick<Store, "follow"> };
  /** Least recently used first. */
  readonly #results = new Map<string, Promise<OpenResult>>();
  readonly #disposables = new Map<string, Disposable>();
  readonly #changed = new Emitter<OpenResultsChange>();
  readonly #forgotten = new Emitter<string>();
  #current: OpenResult | undefined;

  readonly onDidChange = this.#changed.subscribe;
  /** Fires with the ID of a result that was dropped from memory. */
  readonly onDidForget = this.#forgotten.subscribe;

  constructor(deps: { readonly requester: Requester; readonly store: Pick<Store, "follow"> }) {
    this.#deps = deps;
  }

  get current(): OpenResult | undefined {
    return this.#current;
  }

  /** A result, read if necessary: a restored tab may request any. */
  async result(id: string): Promise<OpenResult> {
    let opening = this.#results.get(id);
    if (opening) this.#results.delete(id);
    else {
      opening = this.#open(id);
      opening.catch(() => this.#results.delete(id));
    }
    this.#results.set(id, opening);
    this.#forgetOldest();
    return opening;
  }

  async review(id: string): Promise<OpenResult> {
    const result = await this.result(id);
    await result.read();
    this.#current = result;
    this.#changed.fire({ id, paths: [], begun: true });
    void result.prefetch().then(() => this.#changed.fire({ id, paths: [] }));
    return result;
  }

  close(): void {
    const id = this.#current?.id;
    this.#current = undefined;
    if (id !== undefined) this.#changed.fire({ id, paths: [] });
  }

  dispose(): void {
    for (const end of this.#disposables.values()) end.dispose();
    this.#disposables.clear();
    this.#changed.dispose();
    this.#forgotten.dispose();
  }

  async #open(id: string): Promise<OpenResult> {
    const result = new OpenResult(id, this.#deps.requester);
    try {
      await result.open(this.#deps.store);
    } catch (error) {
      result.dispose();
      throw error;
    }
    const disposables = new DisposableStore();
    disposables.add(result);
    disposables.add(result.onDidChange((paths) => this.#changed.fire({ id, paths })));
    this.#disposables.set(id, disposables);
    return result;
  }

  #forgetOldest(): void {
    for (const id of this.#results.keys()) {
      if (this.#results.size <= MAX_RESULTS) return;
      // Results being opened or under review are in use.
      if (id === this.#current?.id || !this.#disposables.has(id)) continue;
      this.#disposables.get(id)?.dispose();
      this.#disposables.delete(id);
      this.#results.delete(id);
      this.#forgotten.fire(id);
    }
  }
}

const contentKey = (path: string, side: Side): string => `${side}:${path}`;
