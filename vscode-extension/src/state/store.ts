/**
 * Everything this window knows: delegators, model servers, recipes, delegations. Read once when the sidecar has
 * started, then updated by its notifications, without polling. Reading is synchronous. Changes are batched, so that
 * 20 delegations with 30 events a second cause one redraw per `BATCH_MS`.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { toErrorInfo, type Requester, type Subscriber } from "../sidecar/connection.ts";
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
import { isSameFolder } from "./workspaceFolders.ts";

export const BATCH_MS = 100;
/** Delegations that are read at first; `readMore` reads older ones. */
export const PAGE_SIZE = 500;
/** Page size when reading missed events. */
const EVENTS_PAGE_SIZE = 1_000;

export type Collection = ChangedNotification["collections"][number];
/** Lists that are read again as a whole when they change. */
type ListName = "delegators" | "modelServers" | "recipes";

export interface Change {
  /** IDs of added, changed and removed delegations. */
  readonly delegations: ReadonlySet<string>;
  /** Delegations were added, removed or reordered: rebuild lists. */
  readonly delegationList: boolean;
  readonly delegators: boolean;
  readonly modelServers: boolean;
  readonly recipes: boolean;
  readonly trust: boolean;
}

interface FolderDefaults {
  /** URI; empty: no folder is open. */
  readonly workspace: string;
  readonly defaults: Readonly<Record<string, string>>;
}

export interface StoreDeps {
  readonly requester: Requester;
  readonly subscriber: Subscriber;
  /** URIs of the workspace folders, whose configurations are merged. Empty: the user configuration only. */
  readonly workspaces: () => readonly string[];
  readonly log: (line: string) => void;
  readonly batchMs?: number;
}

export class Store implements Disposable {
  readonly #deps: StoreDeps;
  readonly #disposables = new DisposableStore();
  readonly #changed = new Emitter<Change>();
  readonly #events = new Emitter<{ readonly id: string; readonly events: readonly Event[] }>();
  readonly #delegations = new Map<string, Delegation>();
  /**
   * `seq` of the last event passed to listeners. A delegation that was read may be ahead of it: its events are still
   * passed on, but no longer folded.
   */
  readonly #lastSeq = new Map<string, number>();
  #order: string[] | undefined;
  #cursor: string | undefined;
  #listed: readonly DelegatorEntry[] = [];
  #delegators: readonly DelegatorEntry[] = [];
  readonly #failedTests = new Map<string, { readonly revision: string; readonly message: string }>();
  #delegatorProblems: readonly Problem[] = [];
  /** The default delegators by recipe, of each folder. */
  #defaults: readonly FolderDefaults[] = [];
  #modelServers: readonly ModelServerEntry[] = [];
  #serverProblems: readonly Problem[] = [];
  #recipes: readonly Recipe[] = [];
  /** Events of delegations that must be read first. */
  readonly #waiting = new Map<string, Event[]>();
  readonly #stale = new Set<string>();
  readonly #reading = new Set<string>();
  /** Reads in progress, and the read that follows if the list changed meanwhile. */
  readonly #listsInFlight = new Map<ListName, { now: Promise<void>; next?: Promise<void> }>();
  #pending: { -readonly [K in keyof Change]: Change[K] } & { delegations: Set<string> } = noChange();
  #timer: NodeJS.Timeout | undefined;
  #loaded = false;
  #attached = false;
  /** Incremented for each sidecar; responses to an earlier one are ignored. */
  #generation = 0;

  /** Batched changes, at most one per `BATCH_MS`. */
  readonly onDidChange = this.#changed.subscribe;
  /** Every event, once and in order, unbatched: for transcripts. */
  readonly onEvents = this.#events.subscribe;

  constructor(deps: StoreDeps) {
    this.#deps = deps;
    this.#disposables.add(deps.subscriber.on("understudy/event", ({ id, events }) => this.#receive(id, events)));
    this.#disposables.add(
      deps.subscriber.on("understudy/changed", ({ collections }) => void this.refresh(collections)),
    );
  }

  /** False until the first response: views then show that they are loading, not that there is nothing. */
  get loaded(): boolean {
    return this.#loaded;
  }

  get delegators(): readonly DelegatorEntry[] {
    return this.#delegators;
  }

  /** Problems of the configuration as a whole. */
  get problems(): readonly Problem[] {
    // Both lists read the same files; report each problem once.
    return uniqueBy([...this.#delegatorProblems, ...this.#serverProblems], JSON.stringify);
  }

  get modelServers(): readonly ModelServerEntry[] {
    return this.#modelServers;
  }

  get recipes(): readonly Recipe[] {
    return this.#recipes;
  }

  /** Remember why the last test of a delegator failed: it is not ready until that works or the delegator changes. */
  noteTest({ delegator: { name }, revision }: DelegatorEntry, failure: string | undefined): void {
    if (failure === undefined) this.#failedTests.delete(name);
    else this.#failedTests.set(name, { revision, message: failure });
    this.#judgeDelegators();
  }

  delegator(name: string): DelegatorEntry | undefined {
    return this.#delegators.find((entry) => entry.delegator.name === name);
  }

  /**
   * Name of the delegator that a start of a recipe in a folder takes if it names none; undefined if it would be refused.
   * `folder` is a URI; if it is not one of the window, the default that all folders agree on.
   */
  defaultDelegator(recipe: string, folder: string | undefined): string | undefined {
    const own = folder === undefined ? undefined : this.#defaults.find((one) => isSameFolder(one.workspace, folder));
    const names = new Set((own ? [own] : this.#defaults).map(({ defaults }) => defaults[recipe]));
    return names.size === 1 ? [...names][0] : undefined;
  }

  delegation(id: string): Delegation | undefined {
    return this.#delegations.get(id);
  }

  /** Newest first. */
  get delegations(): readonly Delegation[] {
    this.#order ??= [...this.#delegations.keys()].sort().reverse();
    return this.#order.flatMap((id) => this.#delegations.get(id) ?? []);
  }

  /** Whether there are older delegations that were not read. */
  get hasMore(): boolean {
    return this.#cursor !== undefined;
  }

  /** The sidecar has started: read everything, then subscribe to the events that follow. */
  async attach(): Promise<void> {
    this.detach();
    this.#attached = true;
    const generation = this.#generation;
    await this.refresh(["delegators", "modelServers", "recipes"]);
    if (generation !== this.#generation) return;
    await this.#readFirst();
    if (generation !== this.#generation) return;
    const after: Record<string, number> = {};
    for (const [id, seq] of this.#lastSeq) after[id] = seq;
    await this.#try(
      "delegations/subscribe",
      this.#deps.requester.request("understudy/delegations/subscribe", { after }),
    );
  }

  /** The sidecar has ended. Keep what is known on display. */
  detach(): void {
    this.#attached = false;
    this.#generation += 1;
    this.#waiting.clear();
    for (const id of this.#reading) this.#stale.add(id); // its response no longer counts
    this.#reading.clear();
    this.#listsInFlight.clear();
  }

  /** The folders of the window changed, and with them its configuration and delegations. */
  async foldersChanged(): Promise<void> {
    this.#mark({ delegationList: true });
    if (this.#attached) await this.refresh(["delegators", "modelServers", "recipes"]);
  }

  async readMore(): Promise<void> {
    if (this.#cursor !== undefined) await this.#readDelegations(this.#cursor);
  }

  /**
   * Read lists again. Delegations are not read again: events report every change to them, and while one is running
   * the sidecar reports `changed` for each of its events.
   */
  async refresh(collections: readonly Collection[]): Promise<void> {
    const listed = (["delegators", "modelServers", "recipes"] as const).filter((name) => collections.includes(name));
    if (collections.includes("trust")) this.#mark({ trust: true });
    await Promise.all([
      ...listed.map((name) => this.#list(name)),
      // They could not be read when the sidecar started.
      collections.includes("delegations") && this.#attached && !this.#loaded && this.#readFirst(),
    ]);
  }

  /** Read one delegation. It replaces the known one unless that is newer. */
  async read(id: string): Promise<Delegation | undefined> {
    return this.#try(
      "delegations/get",
      this.#deps.requester.request("understudy/delegations/get", { id }),
      (delegation) => this.#update(delegation),
    );
  }

  /**
   * Pass every event of a delegation to `listener`, from the first one, then live events, without gaps or duplicates.
   * Rejects if the history cannot be read.
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
        const page = await this.#deps.requester.request("understudy/delegations/events", {
          id,
          after: last,
          limit: EVENTS_PAGE_SIZE,
        });
        if (page.events.length === 0) break;
        tell(page.events);
        if (page.events.length < EVENTS_PAGE_SIZE) break;
      }
    } catch (error) {
      stop();
      throw error;
    }
    caughtUp = true;
    tell(held);
    return { dispose: stop };
  }

  /** Fire pending changes now, so that trees know a row before it is revealed. */
  flush(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#fireChange();
  }

  dispose(): void {
    this.detach();
    clearTimeout(this.#timer);
    this.#disposables.dispose();
    this.#changed.dispose();
    this.#events.dispose();
  }

  #receive(id: string, events: readonly Event[]): void {
    const waiting = this.#waiting.get(id);
    if (waiting) {
      waiting.push(...events);
      return;
    }
    const heard = this.#lastSeq.get(id);
    const fresh = heard === undefined ? events : events.filter((event) => event.seq > heard);
    const first = fresh[0];
    if (!first) return;
    if (heard === undefined) {
      // It was started elsewhere, or here a moment ago.
      this.#waiting.set(id, [...fresh]);
      void this.#readNew(id, first.seq - 1);
    } else if (first.seq !== heard + 1) {
      this.#waiting.set(id, [...fresh]);
      void this.#fillGap(id, heard);
    } else {
      this.#applyEvents(id, fresh);
    }
  }

  #applyEvents(id: string, events: readonly Event[]): void {
    const last = events.at(-1);
    const known = this.#delegations.get(id);
    if (!last || !known) return;
    this.#lastSeq.set(id, last.seq);
    const news = events.filter((event) => event.seq > known.lastSeq);
    if (news.length > 0) {
      const { delegation, stale } = fold(known, news);
      this.#delegations.set(id, delegation);
      this.#mark({ delegation: id });
      if (stale) this.#stale.add(id);
    }
    this.#events.fire({ id, events });
  }

  /** Read an unknown delegation, then apply the events that arrived meanwhile. */
  async #readNew(id: string, heard: number): Promise<void> {
    const generation = this.#generation;
    await this.read(id);
    if (generation !== this.#generation) return;
    const held = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    if (!this.#delegations.has(id)) return; // it was removed or cannot be read: the next event tries again
    this.#lastSeq.set(id, heard);
    this.#receive(id, held);
  }

  /** Read the events between the last known one and those that arrived. */
  async #fillGap(id: string, after: number): Promise<void> {
    const generation = this.#generation;
    const asked = this.#deps.requester.request("understudy/delegations/events", { id, after, limit: EVENTS_PAGE_SIZE });
    const page = await this.#try("delegations/events", asked);
    if (generation !== this.#generation) return;
    const held = this.#waiting.get(id) ?? [];
    this.#waiting.delete(id);
    if (!page) {
      // The next event tries again. In case there is none, read the current state.
      this.#stale.add(id);
      this.#mark({ delegation: id });
      return;
    }
    this.#applyEvents(id, page.events);
    const first = held.find((event) => event.seq > (this.#lastSeq.get(id) ?? 0));
    // Skip a gap in the journal itself.
    if (first && page.events.length === 0) this.#lastSeq.set(id, first.seq - 1);
    this.#receive(id, held);
  }

  /** One read at a time: an older response never replaces a newer one, and a burst of changes costs two reads. */
  #list(name: ListName): Promise<void> {
    const generation = this.#generation;
    const known = this.#listsInFlight.get(name);
    if (known)
      return (known.next ??= known.now.then(() => (generation === this.#generation ? this.#list(name) : undefined)));
    const listing = { now: Promise.resolve() };
    this.#listsInFlight.set(name, listing);
    listing.now = this.#readListed(name).finally(() => {
      if (this.#listsInFlight.get(name) === listing) this.#listsInFlight.delete(name);
    });
    return listing.now;
  }

  async #readListed(name: ListName): Promise<void> {
    const { requester } = this.#deps;
    const workspaces = this.#deps.workspaces();
    const places = workspaces.map((workspace) => ({ workspace }));
    const from = places.length > 0 ? places : [{}];
    switch (name) {
      case "delegators":
        await this.#try(
          "delegators/list",
          Promise.all(from.map((where) => requester.request("understudy/delegators/list", where))),
          (results) => {
            this.#listed = uniqueBy(
              results.flatMap((each) => each.delegators),
              (entry) => entry.delegator.name,
            );
            this.#delegatorProblems = results.flatMap((each) => each.problems);
            this.#defaults = results.map(({ defaults = {} }, index) => ({
              defaults,
              workspace: workspaces[index] ?? "",
            }));
            this.#judgeDelegators();
          },
        );
        return;
      case "modelServers":
        await this.#try(
          "modelServers/list",
          Promise.all(from.map((where) => requester.request("understudy/modelServers/list", where))),
          (results) => {
            this.#modelServers = uniqueBy(
              results.flatMap((each) => each.modelServers),
              (entry) => entry.modelServer.name,
            );
            this.#serverProblems = results.flatMap((each) => each.problems);
            this.#mark({ modelServers: true });
          },
        );
        return;
      case "recipes":
        await this.#try("recipes/list", requester.request("understudy/recipes/list", {}), ({ recipes }) => {
          this.#recipes = recipes;
          this.#mark({ recipes: true });
        });
    }
  }

  /** Read the newest page. Until that succeeds, `loaded` stays false. */
  async #readFirst(): Promise<void> {
    if (!(await this.#readDelegations(undefined))) return;
    this.#loaded = true;
    this.#mark({ delegationList: true });
  }

  /** Returns whether they were read. */
  async #readDelegations(cursor: string | undefined): Promise<boolean> {
    const params = cursor === undefined ? { limit: PAGE_SIZE } : { limit: PAGE_SIZE, cursor };
    const asked = this.#deps.requester.request("understudy/delegations/list", params);
    const result = await this.#try("delegations/list", asked, ({ delegations, cursor: more }) => {
      for (const delegation of delegations) this.#update(delegation);
      if (cursor !== undefined || this.#delegations.size <= PAGE_SIZE) this.#cursor = more;
    });
    return result !== undefined;
  }

  #update(delegation: Delegation): void {
    const known = this.#delegations.get(delegation.id);
    if (known && known.lastSeq > delegation.lastSeq) return;
    this.#delegations.set(delegation.id, delegation);
    if (!known && !this.#waiting.has(delegation.id)) this.#lastSeq.set(delegation.id, delegation.lastSeq);
    this.#mark({ delegation: delegation.id, delegationList: !known });
  }

  async #try<T>(what: string, answer: Promise<T>, take?: (result: T) => void): Promise<T | undefined> {
    const generation = this.#generation;
    try {
      const result = await answer;
      if (generation !== this.#generation) return undefined;
      take?.(result);
      return result;
    } catch (error) {
      this.#deps.log(`${what}: ${toErrorInfo(error).message}`);
      return undefined;
    }
  }

  /** The delegators as listed, without those that failed their last test being ready. */
  #judgeDelegators(): void {
    this.#delegators = this.#listed.map((entry) => {
      const failed = this.#failedTests.get(entry.delegator.name);
      if (failed?.revision !== entry.revision) return entry;
      const problems: Problem[] = [...entry.state.problems, { severity: "warning", message: failed.message }];
      return { ...entry, state: { ...entry.state, ready: false, problems } };
    });
    this.#mark({ delegators: true });
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
    this.#timer ??= setTimeout(() => this.#fireChange(), this.#deps.batchMs ?? BATCH_MS);
  }

  #fireChange(): void {
    this.#timer = undefined;
    const change = this.#pending;
    this.#pending = noChange();
    this.#changed.fire(change);
    if (!this.#attached) return; // stale ones are read when a sidecar has started
    for (const id of this.#stale) {
      if (this.#reading.has(id)) continue;
      this.#stale.delete(id);
      this.#reading.add(id);
      void this.read(id).finally(() => {
        this.#reading.delete(id);
        // If it became stale meanwhile, read it with the next change, which is due now.
        if (this.#stale.has(id)) this.#mark({ delegation: id });
      });
    }
  }
}

/** Keep the first of each name: the first folder wins. */
function uniqueBy<T>(things: readonly T[], nameOf: (thing: T) => string): T[] {
  const named = new Map<string, T>();
  for (const thing of things) if (!named.has(nameOf(thing))) named.set(nameOf(thing), thing);
  return [...named.values()];
}

function noChange(): Change & { delegations: Set<string> } {
  return {
    delegations: new Set<string>(),
    delegationList: false,
    delegators: false,
    modelServers: false,
    recipes: false,
    trust: false,
  };
}
