/**
 * What this window knows: delegators, model servers, recipes, delegations. Read once when a sidecar greets, then kept
 * by its notifications; nothing polls. Everything is synchronous to read, and changes are told gathered, so that twenty
 * delegations at thirty events a second cost one redraw per `GATHER_MS`.
 */

import { Bag, Emitter, type Disposable } from "../base/emitter.ts";
import { errorInfo, type Asker, type Hearer } from "../client/wire.ts";
import type {
  ChangedNotification,
  Delegation,
  DelegatorEntry,
  Event,
  ModelServerEntry,
  Problem,
  Recipe,
} from "../protocol.ts";
import { fold } from "./fold.ts";

export const GATHER_MS = 100;
/** Past delegations that are read at first; older ones when somebody asks (`readMore`). */
export const PAGE = 500;
/** Events that are asked for at once where some were missed. */
const EVENTS_PAGE = 1_000;

export type Collection = ChangedNotification["collections"][number];
/** What is read anew as a whole when it changes. */
type Listed = "delegators" | "modelServers" | "recipes";

export interface Change {
  /** Ids of delegations that are new, different or gone. */
  readonly delegations: ReadonlySet<string>;
  /** Some came or went, or stand elsewhere in the order: lists have to be made anew. */
  readonly delegationList: boolean;
  readonly delegators: boolean;
  readonly modelServers: boolean;
  readonly recipes: boolean;
  readonly trust: boolean;
}

export interface StoreParts {
  readonly asker: Asker;
  readonly hearer: Hearer;
  /** URIs of the window's folders: the configuration is what is seen from any of them; none: the person's own alone. */
  readonly workspaces: () => readonly string[];
  readonly log: (line: string) => void;
  readonly gatherMs?: number;
}

export class Store implements Disposable {
  readonly #parts: StoreParts;
  readonly #bag = new Bag();
  readonly #changed = new Emitter<Change>();
  readonly #events = new Emitter<{ readonly id: string; readonly events: readonly Event[] }>();
  readonly #delegations = new Map<string, Delegation>();
  /**
   * `seq` of the last event that was told to listeners. A delegation that was read may be ahead of it: its events still
   * come, and are told, but no longer folded.
   */
  readonly #heard = new Map<string, number>();
  #order: string[] | undefined;
  #cursor: string | undefined;
  #delegators: readonly DelegatorEntry[] = [];
  #delegatorProblems: readonly Problem[] = [];
  #modelServers: readonly ModelServerEntry[] = [];
  #serverProblems: readonly Problem[] = [];
  #recipes: readonly Recipe[] = [];
  /** Delegations whose events came before they could be placed: they are read first. */
  readonly #waiting = new Map<string, Event[]>();
  readonly #stale = new Set<string>();
  readonly #reading = new Set<string>();
  /** Collections that are being read, and the reading that follows when one changed meanwhile. */
  readonly #listing = new Map<Listed, { now: Promise<void>; next?: Promise<void> }>();
  #pending: { -readonly [K in keyof Change]: Change[K] } & { delegations: Set<string> } = nothing();
  #timer: NodeJS.Timeout | undefined;
  #loaded = false;
  #attached = false;
  /** Counts sidecars: an answer of an earlier one is not taken for news. */
  #turn = 0;

  /** Gathered changes, at most one every `GATHER_MS`. */
  readonly onDidChange = this.#changed.signal;
  /** Every event, once, in order, as it comes: for transcripts. */
  readonly onEvents = this.#events.signal;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#bag.add(parts.hearer.on("understudy/event", ({ id, events }) => this.#receive(id, events)));
    this.#bag.add(parts.hearer.on("understudy/changed", ({ collections }) => void this.refresh(collections)));
  }

  /** False until the first answer of a sidecar: views show that they wait, not that there is nothing. */
  get loaded(): boolean {
    return this.#loaded;
  }

  get delegators(): readonly DelegatorEntry[] {
    return this.#delegators;
  }

  /** What is wrong with the configuration as a whole. */
  get problems(): readonly Problem[] {
    // The same file is read for both lists: what is wrong with it is told once.
    return firsts([...this.#delegatorProblems, ...this.#serverProblems], JSON.stringify);
  }

  get modelServers(): readonly ModelServerEntry[] {
    return this.#modelServers;
  }

  get recipes(): readonly Recipe[] {
    return this.#recipes;
  }

  delegator(name: string): DelegatorEntry | undefined {
    return this.#delegators.find((entry) => entry.delegator.name === name);
  }

  delegation(id: string): Delegation | undefined {
    return this.#delegations.get(id);
  }

  /** Newest first. */
  get delegations(): readonly Delegation[] {
    this.#order ??= [...this.#delegations.keys()].sort().reverse();
    return this.#order.flatMap((id) => this.#delegations.get(id) ?? []);
  }

  /** Whether the sidecar has older ones that were not read. */
  get hasMore(): boolean {
    return this.#cursor !== undefined;
  }

  /** A sidecar greeted: read everything, then have every event after what was read. */
  async attach(): Promise<void> {
    this.detach();
    this.#attached = true;
    const turn = this.#turn;
    await this.refresh(["delegators", "modelServers", "recipes"]);
    if (turn !== this.#turn) return;
    await this.#readFirst();
    if (turn !== this.#turn) return;
    const after: Record<string, number> = {};
    for (const [id, seq] of this.#heard) after[id] = seq;
    await this.#try("delegations/subscribe", this.#parts.asker.ask("understudy/delegations/subscribe", { after }));
  }

  /** No sidecar any more. What was known stays on display. */
  detach(): void {
    this.#attached = false;
    this.#turn += 1;
    this.#waiting.clear();
    for (const id of this.#reading) this.#stale.add(id); // its answer does not count any more
    this.#reading.clear();
    this.#listing.clear();
  }

  /** The window has other folders: other configuration counts, and other delegations are its own. */
  async foldersChanged(): Promise<void> {
    this.#mark({ delegationList: true });
    if (this.#attached) await this.refresh(["delegators", "modelServers", "recipes"]);
  }

  async readMore(): Promise<void> {
    if (this.#cursor !== undefined) await this.#readDelegations(this.#cursor);
  }

  /**
   * Read collections again. Delegations are not: events tell of every one of them, of new ones, too, and while one runs
   * the sidecar says at each of its events that they changed.
   */
  async refresh(collections: readonly Collection[]): Promise<void> {
    const listed = (["delegators", "modelServers", "recipes"] as const).filter((name) => collections.includes(name));
    if (collections.includes("trust")) this.#mark({ trust: true });
    await Promise.all([
      ...listed.map((name) => this.#list(name)),
      // They could not be read when the sidecar greeted.
      collections.includes("delegations") && this.#attached && !this.#loaded && this.#readFirst(),
    ]);
  }

  /** One delegation as the sidecar has it now; it takes the place of what is known unless that is newer. */
  async read(id: string): Promise<Delegation | undefined> {
    return this.#try("delegations/get", this.#parts.asker.ask("understudy/delegations/get", { id }), (delegation) =>
      this.#put(delegation),
    );
  }

  /**
   * Every event of a delegation from its first one, then live ones, none twice and none lost, to `listener`.
   * Rejects when the history cannot be read.
   */
  async follow(id: string, listener: (events: readonly Event[]) => void, after = 0): Promise<Disposable> {
    let last = after;
    let caughtUp = false;
    let closed = false;
    const held: Event[] = [];
    const tell = (events: readonly Event[]): void => {
      const fresh = events.filter((event) => event.seq > last);
      const end = fresh.at(-1);
      if (closed || !end) return;
      last = end.seq;
      listener(fresh);
    };
    const live = this.onEvents((batch) => {
      if (batch.id !== id) return;
      if (caughtUp) tell(batch.events);
      else held.push(...batch.events);
    });
    const stop = (): void => {
      closed = true;
      live.dispose();
    };
    try {
      for (;;) {
        const page = await this.#parts.asker.ask("understudy/delegations/events", {
          id,
          after: last,
          limit: EVENTS_PAGE,
        });
        if (page.events.length === 0) break;
        tell(page.events);
        if (page.events.length < EVENTS_PAGE) break;
      }
    } catch (error) {
      stop();
      throw error;
    }
    caughtUp = true;
    tell(held);
    return { dispose: stop };
  }

  /** Tell at once what has gathered, so that trees know a row before it is revealed. */
  flush(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#tell();
  }

  dispose(): void {
    this.detach();
    clearTimeout(this.#timer);
    this.#bag.dispose();
    this.#changed.dispose();
    this.#events.dispose();
  }

  #receive(id: string, events: readonly Event[]): void {
    const waiting = this.#waiting.get(id);
    if (waiting) {
      waiting.push(...events);
      return;
    }
    const heard = this.#heard.get(id);
    const fresh = heard === undefined ? events : events.filter((event) => event.seq > heard);
    const first = fresh[0];
    if (!first) return;
    if (heard === undefined) {
      // Someone else started it, or we did a moment ago.
      this.#waiting.set(id, [...fresh]);
      void this.#introduce(id, first.seq - 1);
    } else if (first.seq !== heard + 1) {
      this.#waiting.set(id, [...fresh]);
      void this.#fill(id, heard);
    } else {
      this.#take(id, fresh);
    }
  }

  #take(id: string, events: readonly Event[]): void {
    const last = events.at(-1);
    const known = this.#delegations.get(id);
    if (!last || !known) return;
    this.#heard.set(id, last.seq);
    const news = events.filter((event) => event.seq > known.lastSeq);
    if (news.length > 0) {
      const { delegation, stale } = fold(known, news);
      this.#delegations.set(id, delegation);
      this.#mark({ delegation: id });
      if (stale) this.#stale.add(id);
    }
    this.#events.fire({ id, events });
  }

  /** Read a delegation that is not known yet, then take the events that came meanwhile. */
  async #introduce(id: string, heard: number): Promise<void> {
    const turn = this.#turn;
    await this.read(id);
    if (turn !== this.#turn) return;
    const held = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    if (!this.#delegations.has(id)) return; // it is gone already, or cannot be read: the next event tries again
    this.#heard.set(id, heard);
    this.#receive(id, held);
  }

  /** Events between the last known one and those that came are missing: read them. */
  async #fill(id: string, after: number): Promise<void> {
    const turn = this.#turn;
    const asked = this.#parts.asker.ask("understudy/delegations/events", { id, after, limit: EVENTS_PAGE });
    const page = await this.#try("delegations/events", asked);
    if (turn !== this.#turn) return;
    const held = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    if (!page) {
      // The next event fills the gap; should this have been the last one, how it stands is read all the same.
      this.#stale.add(id);
      this.#mark({ delegation: id });
      return;
    }
    this.#take(id, page.events);
    const first = held.find((event) => event.seq > (this.#heard.get(id) ?? 0));
    // A gap that the journal itself has is no reason to stand still.
    if (first && page.events.length === 0) this.#heard.set(id, first.seq - 1);
    this.#receive(id, held);
  }

  /** One reading at a time: an older answer never takes the place of a newer one, and a burst of changes costs two. */
  #list(name: Listed): Promise<void> {
    const turn = this.#turn;
    const known = this.#listing.get(name);
    if (known) return (known.next ??= known.now.then(() => (turn === this.#turn ? this.#list(name) : undefined)));
    const listing = { now: Promise.resolve() };
    this.#listing.set(name, listing);
    listing.now = this.#readListed(name).finally(() => {
      if (this.#listing.get(name) === listing) this.#listing.delete(name);
    });
    return listing.now;
  }

  async #readListed(name: Listed): Promise<void> {
    const { asker } = this.#parts;
    const places = this.#parts.workspaces().map((workspace) => ({ workspace }));
    const from = places.length > 0 ? places : [{}];
    switch (name) {
      case "delegators":
        await this.#try(
          "delegators/list",
          Promise.all(from.map((where) => asker.ask("understudy/delegators/list", where))),
          (results) => {
            this.#delegators = firsts(
              results.flatMap((each) => each.delegators),
              (entry) => entry.delegator.name,
            );
            this.#delegatorProblems = results.flatMap((each) => each.problems);
            this.#mark({ delegators: true });
          },
        );
        return;
      case "modelServers":
        await this.#try(
          "modelServers/list",
          Promise.all(from.map((where) => asker.ask("understudy/modelServers/list", where))),
          (results) => {
            this.#modelServers = firsts(
              results.flatMap((each) => each.modelServers),
              (entry) => entry.modelServer.name,
            );
            this.#serverProblems = results.flatMap((each) => each.problems);
            this.#mark({ modelServers: true });
          },
        );
        return;
      case "recipes":
        await this.#try("recipes/list", asker.ask("understudy/recipes/list", {}), ({ recipes }) => {
          this.#recipes = recipes;
          this.#mark({ recipes: true });
        });
    }
  }

  /** The newest ones. Until that has worked, nobody takes an empty list for an answer. */
  async #readFirst(): Promise<void> {
    if (!(await this.#readDelegations(undefined))) return;
    this.#loaded = true;
    this.#mark({ delegationList: true });
  }

  /** True: they were read. */
  async #readDelegations(cursor: string | undefined): Promise<boolean> {
    const params = cursor === undefined ? { limit: PAGE } : { limit: PAGE, cursor };
    const asked = this.#parts.asker.ask("understudy/delegations/list", params);
    const result = await this.#try("delegations/list", asked, ({ delegations, cursor: more }) => {
      for (const delegation of delegations) this.#put(delegation);
      if (cursor !== undefined || this.#delegations.size <= PAGE) this.#cursor = more;
    });
    return result !== undefined;
  }

  #put(delegation: Delegation): void {
    const known = this.#delegations.get(delegation.id);
    if (known && known.lastSeq > delegation.lastSeq) return;
    this.#delegations.set(delegation.id, delegation);
    if (!known && !this.#waiting.has(delegation.id)) this.#heard.set(delegation.id, delegation.lastSeq);
    this.#mark({ delegation: delegation.id, delegationList: !known });
  }

  async #try<T>(what: string, answer: Promise<T>, take?: (result: T) => void): Promise<T | undefined> {
    const turn = this.#turn;
    try {
      const result = await answer;
      if (turn !== this.#turn) return undefined;
      take?.(result);
      return result;
    } catch (error) {
      this.#parts.log(`${what}: ${errorInfo(error).message}`);
      return undefined;
    }
  }

  #mark(what: Partial<Omit<Change, "delegations">> & { delegation?: string }): void {
    const pending = this.#pending;
    if (what.delegation !== undefined) pending.delegations.add(what.delegation);
    if (what.delegationList) {
      pending.delegationList = true;
      this.#order = undefined;
    }
    pending.delegators ||= what.delegators ?? false;
    pending.modelServers ||= what.modelServers ?? false;
    pending.recipes ||= what.recipes ?? false;
    pending.trust ||= what.trust ?? false;
    this.#timer ??= setTimeout(() => this.#tell(), this.#parts.gatherMs ?? GATHER_MS);
  }

  #tell(): void {
    this.#timer = undefined;
    const change = this.#pending;
    this.#pending = nothing();
    this.#changed.fire(change);
    if (!this.#attached) return; // what is stale is read when a sidecar has greeted
    for (const id of this.#stale) {
      if (this.#reading.has(id)) continue;
      this.#stale.delete(id);
      this.#reading.add(id);
      void this.read(id).finally(() => {
        this.#reading.delete(id);
        // What became stale meanwhile is read with the next change, which is due now.
        if (this.#stale.has(id)) this.#mark({ delegation: id });
      });
    }
  }
}

/** The first of each name: the window's first folder counts. */
function firsts<T>(things: readonly T[], nameOf: (thing: T) => string): T[] {
  const named = new Map<string, T>();
  for (const thing of things) if (!named.has(nameOf(thing))) named.set(nameOf(thing), thing);
  return [...named.values()];
}

function nothing(): Change & { delegations: Set<string> } {
  return {
    delegations: new Set<string>(),
    delegationList: false,
    delegators: false,
    modelServers: false,
    recipes: false,
    trust: false,
  };
}
