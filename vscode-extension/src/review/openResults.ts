/**
 * The results that are looked at in this window, at most one of them under review. Everything is read from the sidecar
 * and read again when its events say that it changed, whoever changed it; nothing is decided here.
 */

import { Bag, Emitter, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { errorInfo, SidecarError, type Asker } from "../client/wire.ts";
import type { Store } from "../model/store.ts";
import type { Conflict, Decision, DecideResult, DiffResult, Event, FileDiff, Hunk } from "../protocol.ts";
import { shownPath, spots, type Spot } from "./hunks.ts";
import type { Side } from "./places.ts";

/** Files whose text is read ahead, for the names of their hunks. */
const READ_AHEAD = 60;
/** Events after which the diff is another one. */
const CHANGING = new Set<Event["type"]>([
  "finished",
  "decided",
  "amended",
  "superseded",
  "discarded",
  "undone",
  "applied",
]);
/** Events that come within this time are answered by one reading. */
const SETTLE_MS = 30;

export interface Content {
  /** Undefined: no such file on this side. */
  readonly bytes: Uint8Array | undefined;
  /** Undefined: not text, or not UTF-8. */
  readonly text: string | undefined;
  /** As git has it: `100755` can be executed, `120000` is a link. */
  readonly mode: string | undefined;
  /** The result that it was read from. */
  readonly head: string;
}

export interface Read {
  readonly diff: DiffResult;
  /** Accepts that can be taken back, the last one at the end. */
  readonly tokens: readonly string[];
}

/** One result: its files and hunks, its texts, and the accepts that can be taken back. */
export class Result implements Disposable {
  readonly id: string;
  readonly #asker: Asker;
  readonly #bag = new Bag();
  readonly #changed = new Emitter<readonly string[]>();
  readonly #contents = new Map<string, Promise<Content>>();
  readonly #texts = new Map<string, string>();
  readonly #modes = new Map<string, string>();
  readonly #tokens: string[] = [];
  readonly #gone = new Set<string>();
  /** What did not merge, by hunk, as the accept that found it said. */
  readonly #conflicts = new Map<string, Conflict>();
  #diff: DiffResult | undefined;
  /** The result became another one, and its texts were not read since. */
  #other = false;
  #reading: Promise<DiffResult> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Paths (of the wire) whose text on the result side is another one; states of hunks may have changed, too. */
  readonly onDidChange = this.#changed.signal;

  constructor(id: string, asker: Asker) {
    this.id = id;
    this.#asker = asker;
  }

  /** Read it, and keep it read. Rejects when it cannot be read. */
  async open(store: Pick<Store, "follow">): Promise<void> {
    await this.read();
    this.#bag.add(await store.follow(this.id, (events) => this.#take(events)));
  }

  get files(): readonly FileDiff[] {
    return this.#diff?.files ?? [];
  }

  get head(): string | undefined {
    return this.#diff?.head;
  }

  get spots(): readonly Spot[] {
    return spots(this.id, this.files);
  }

  /** The last accept that can still be taken back. */
  get undoToken(): string | undefined {
    return this.#tokens.findLast((token) => !this.#gone.has(token));
  }

  file(path: string): FileDiff | undefined {
    return this.files.find((file) => file.path === path);
  }

  /** By the path as people write it; a renamed file has two. */
  fileShown(path: string, side: Side): FileDiff | undefined {
    const name = (file: FileDiff): string => shownPath(side === "base" ? (file.from ?? file.path) : file.path);
    return this.files.find((file) => name(file) === path);
  }

  spot(path: string, hunk: string): Spot | undefined {
    return this.spots.find((spot) => spot.file.path === path && spot.hunk.id === hunk);
  }

  conflict(hunk: string): Conflict | undefined {
    return this.#conflicts.get(hunk);
  }

  /** A text that was read already; undefined: not yet, or no text. */
  known(path: string, side: Side): string | undefined {
    return this.#texts.get(key(path, side));
  }

  /** The mode of a file that was read already; undefined: not yet, or no such file. */
  mode(path: string, side: Side): string | undefined {
    return this.#modes.get(key(path, side));
  }

  /** Read files and hunks anew. */
  read(): Promise<DiffResult> {
    return (this.#reading ??= this.#read().finally(() => (this.#reading = undefined)));
  }

  async content(path: string, side: Side): Promise<Content> {
    const name = key(path, side);
    let reading = this.#contents.get(name);
    if (!reading) {
      reading = this.#content(path, side);
      this.#contents.set(name, reading);
      reading.catch(() => this.#contents.delete(name));
    }
    return reading;
  }

  /** Read the texts that name the hunks. */
  async readAhead(): Promise<void> {
    const wanted = this.files.filter(({ binary }) => !binary).slice(0, READ_AHEAD);
    await Promise.allSettled(
      wanted.map((file) => this.content(file.path, file.status === "deleted" ? "base" : "result")),
    );
  }

  async decide(decisions: readonly Decision[], flagged: boolean): Promise<DecideResult> {
    const done = await this.#asker.ask("understudy/delegations/decide", {
      id: this.id,
      decisions: [...decisions],
      ...(flagged ? { flagged } : {}),
    });
    for (const conflict of done.conflicts) this.#conflicts.set(conflict.hunk, conflict);
    for (const hunk of done.moved) this.#conflicts.delete(hunk);
    if (done.undoToken !== undefined && !this.#tokens.includes(done.undoToken)) this.#tokens.push(done.undoToken);
    const states = new Map(done.hunks.map((hunk) => [hunk.id, hunk]));
    this.#put(states);
    this.#changed.fire([]);
    return done;
  }

  async undo(token: string): Promise<void> {
    await this.#asker.ask("understudy/delegations/undo", { undoToken: token });
    this.#gone.add(token);
    await this.read();
    this.#changed.fire([]);
  }

  /**
   * Keep a text that a person wrote on the result side, on top of what they read. A result that became another one
   * elsewhere is no obstacle as long as this file did not; else it is told.
   */
  async amend(path: string, text: string, seen: Content): Promise<Content> {
    const send = async (head: string): Promise<Content> => {
      const done = await this.#asker.ask("understudy/delegations/amend", { id: this.id, path, text, head });
      const content = { bytes: Buffer.from(text), text, mode: seen.mode, head: done.head };
      this.#contents.set(key(path, "result"), Promise.resolve(content));
      this.#texts.set(key(path, "result"), text);
      await this.read();
      this.#changed.fire([]);
      return content;
    };
    try {
      return await send(seen.head);
    } catch (error) {
      if (errorInfo(error).kind !== "conflict") throw error;
      const { head } = await this.read();
      if (head === seen.head) throw error;
      const now = await this.#content(path, "result");
      if (now.text !== seen.text) {
        throw new SidecarError({
          kind: "conflict",
          message: t("{0} was changed in the result while you edited it.", shownPath(path)),
          hint: t("Copy your edit, revert the file, and edit it again."),
        });
      }
      return send(now.head);
    }
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#bag.dispose();
    this.#changed.dispose();
  }

  async #read(): Promise<DiffResult> {
    const diff = await this.#asker.ask("understudy/delegations/diff", { id: this.id });
    const before = this.#diff;
    this.#diff = diff;
    if (before && before.head !== diff.head) {
      // The base is for ever; on the result side, whatever is read again and is the same changes nothing.
      this.#other = true;
      for (const name of [...this.#contents.keys()]) if (name.startsWith("result:")) this.#contents.delete(name);
    }
    return diff;
  }

  async #content(path: string, side: Side): Promise<Content> {
    const head = this.#diff?.head ?? (await this.read()).head;
    const file = this.file(path);
    if (file && ((side === "base" && file.status === "added") || (side === "result" && file.status === "deleted"))) {
      return { bytes: undefined, text: undefined, mode: undefined, head };
    }
    const name = side === "base" ? (file?.from ?? path) : path;
    const found = await this.#asker.ask("understudy/delegations/file", { id: this.id, path: name, side });
    if (found.text !== undefined) this.#texts.set(key(path, side), found.text);
    else this.#texts.delete(key(path, side));
    this.#modes.set(key(path, side), found.mode);
    return {
      bytes: Buffer.from(found.text ?? found.base64 ?? "", found.text === undefined ? "base64" : "utf8"),
      text: found.text,
      mode: found.mode,
      head,
    };
  }

  /** States that an answer told, before the diff is read again. */
  #put(states: ReadonlyMap<string, Hunk>): void {
    if (!this.#diff) return;
    const files = this.#diff.files.map((file) => ({
      ...file,
      hunks: file.hunks.map((hunk) => states.get(hunk.id) ?? hunk),
    }));
    this.#diff = { ...this.#diff, files };
  }

  #take(events: readonly Event[]): void {
    for (const event of events) {
      if (event.type === "applied" && !this.#tokens.includes(event.undoToken)) this.#tokens.push(event.undoToken);
      if (event.type === "undone") this.#gone.add(event.undoToken);
    }
    if (!events.some(({ type }) => CHANGING.has(type))) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#again(), SETTLE_MS);
  }

  async #again(): Promise<void> {
    const before = new Map(this.#texts);
    try {
      await this.read();
      if (this.#other) await this.readAhead();
      this.#other = false;
    } catch {
      return; // it is gone, or no sidecar runs; what was known stays on display
    }
    const paths = this.files
      .map(({ path }) => path)
      .filter(
        (path) => before.has(key(path, "result")) && before.get(key(path, "result")) !== this.known(path, "result"),
      );
    this.#changed.fire(paths);
  }
}

export interface DeskChange {
  readonly id: string;
  /** See `Result.onDidChange`. */
  readonly paths: readonly string[];
  /** Its review begins, perhaps anew. */
  readonly begun?: boolean;
}

/** Results that are kept read. Each holds its texts and follows its delegation; who asks for an older one has it read anew. */
const MOST_RESULTS = 8;

/** The results that this window has read last, and which one is under review. */
export class Desk implements Disposable {
  readonly #parts: { readonly asker: Asker; readonly store: Pick<Store, "follow"> };
  /** The one that was asked for last comes last. */
  readonly #results = new Map<string, Promise<Result>>();
  readonly #ends = new Map<string, Disposable>();
  readonly #changed = new Emitter<DeskChange>();
  readonly #forgotten = new Emitter<string>();
  #current: Result | undefined;

  readonly onDidChange = this.#changed.signal;
  /** The id of a result that is not kept any more. */
  readonly onDidForget = this.#forgotten.signal;

  constructor(parts: { readonly asker: Asker; readonly store: Pick<Store, "follow"> }) {
    this.#parts = parts;
  }

  get current(): Result | undefined {
    return this.#current;
  }

  /** A result, read when it is not known yet: a tab of an earlier window may ask for any. */
  async result(id: string): Promise<Result> {
    let opening = this.#results.get(id);
    if (opening) this.#results.delete(id);
    else {
      opening = this.#open(id);
      opening.catch(() => this.#results.delete(id));
    }
    this.#results.set(id, opening);
    this.#keepFew();
    return opening;
  }

  async review(id: string): Promise<Result> {
    const result = await this.result(id);
    await result.read();
    this.#current = result;
    this.#changed.fire({ id, paths: [], begun: true });
    void result.readAhead().then(() => this.#changed.fire({ id, paths: [] }));
    return result;
  }

  close(): void {
    const id = this.#current?.id;
    this.#current = undefined;
    if (id !== undefined) this.#changed.fire({ id, paths: [] });
  }

  dispose(): void {
    for (const end of this.#ends.values()) end.dispose();
    this.#ends.clear();
    this.#changed.dispose();
    this.#forgotten.dispose();
  }

  async #open(id: string): Promise<Result> {
    const result = new Result(id, this.#parts.asker);
    try {
      await result.open(this.#parts.store);
    } catch (error) {
      result.dispose();
      throw error;
    }
    const bag = new Bag();
    bag.add(result);
    bag.add(result.onDidChange((paths) => this.#changed.fire({ id, paths })));
    this.#ends.set(id, bag);
    return result;
  }

  #keepFew(): void {
    for (const id of this.#results.keys()) {
      if (this.#results.size <= MOST_RESULTS) return;
      // One that is being opened, or reviewed, is in use.
      if (id === this.#current?.id || !this.#ends.has(id)) continue;
      this.#ends.get(id)?.dispose();
      this.#ends.delete(id);
      this.#results.delete(id);
      this.#forgotten.fire(id);
    }
  }
}

const key = (path: string, side: Side): string => `${side}:${path}`;
