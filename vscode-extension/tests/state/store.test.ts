import { afterEach, describe, expect, it, vi } from "vitest";
import { BATCH_MS, PAGE_SIZE, Store, type Change } from "../../src/state/store.ts";
import type { Delegation, Event } from "../../src/protocol.ts";
import { golden, GoldenSidecar, result } from "../support/golden.ts";

function delegation(id: string, change: Partial<Delegation> = {}): Delegation {
  return { ...result("understudy/delegations/get", "delegations-get.valid"), id, ...change };
}

function text(seq: number): Event {
  return { type: "phase", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, text: `step ${seq}` };
}

/** An event of a newer version. */
function unknown(seq: number): Event {
  return { type: "unknown", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, original: '{"type":"celebrated"}' };
}

function sidecar(delegations: Delegation[]): GoldenSidecar {
  return new GoldenSidecar()
    .answer("understudy/delegators/list", result("understudy/delegators/list", "delegators-list.valid"))
    .answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"))
    .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
    .answer("understudy/delegations/list", { delegations })
    .answer("understudy/delegations/subscribe", {});
}

async function attached(peer: GoldenSidecar): Promise<{ store: Store; changes: Change[]; events: Event[] }> {
  vi.useFakeTimers();
  const store = new Store({ requester: peer, subscriber: peer, workspaces: () => [], log: () => {} });
  const changes: Change[] = [];
  const events: Event[] = [];
  store.onDidChange((change) => changes.push(change));
  store.onEvents((batch) => events.push(...batch.events));
  await store.attach();
  await vi.advanceTimersByTimeAsync(BATCH_MS);
  changes.length = 0;
  return { store, changes, events };
}

afterEach(() => void vi.useRealTimers());

describe("Store", () => {
  it("reads everything once, and follows every delegation from there", async () => {
    const peer = sidecar([delegation("b", { lastSeq: 7 }), delegation("a", { lastSeq: 3 })]);
    const { store } = await attached(peer);
    expect(store.loaded).toBe(true);
    expect(store.delegators.map(({ delegator }) => delegator.name)).toEqual(["ghostwriter", "local-coder", "my-agent"]);
    expect(store.delegations.map(({ id }) => id)).toEqual(["b", "a"]);
    expect(peer.params("understudy/delegations/subscribe")).toEqual([{ after: { a: 3, b: 7 } }]);
  });

  it("holds a delegator that failed its test for not ready, until it passes or changes", async () => {
    const peer = sidecar([]);
    const { store, changes } = await attached(peer);
    const state = () => store.delegator("local-coder")!.state;
    const { ready, problems } = state();
    store.noteTest(store.delegator("local-coder")!, "no such model");
    expect(state()).toMatchObject({ ready: false, problems: [...problems, { message: "no such model" }] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(changes.at(-1)?.delegators).toBe(true);
    peer.notify("understudy/changed", { collections: ["delegators"] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(state().ready).toBe(false);
    store.noteTest(store.delegator("local-coder")!, undefined);
    expect(state()).toEqual({ ...state(), ready, problems });
    store.noteTest({ ...store.delegator("local-coder")!, revision: "older" }, "no such model");
    expect(state().ready).toBe(ready);
  });

  it("neither loses nor repeats an event when the sidecar restarts", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store, events } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(4), text(5)] });
    peer.answer("understudy/delegations/list", { delegations: [delegation("a", { state: "running", lastSeq: 8 })] });
    store.detach();
    await store.attach();
    // It was read up to 8, but 6 to 8 were never delivered: they are requested.
    expect(peer.params("understudy/delegations/subscribe").at(-1)).toEqual({ after: { a: 5 } });
    peer.notify("understudy/event", { id: "a", events: [text(5), text(6), text(7)] });
    expect(store.delegation("a")?.lastSeq).toBe(8); // delivered, but already part of what was read
    peer.notify("understudy/event", { id: "a", events: [text(7), text(8), text(9)] });
    expect(events.map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8, 9]);
    expect(store.delegation("a")).toMatchObject({ lastSeq: 9, activity: "step 9" });
  });

  it("reads missing events", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    peer.answer("understudy/delegations/events", { events: [text(4), text(5), text(6)], last: 6 });
    const { events } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(6)] });
    peer.notify("understudy/event", { id: "a", events: [text(7)] });
    await vi.advanceTimersByTimeAsync(0);
    expect(peer.params("understudy/delegations/events")).toEqual([{ id: "a", after: 3, limit: 1000 }]);
    expect(events.map(({ seq }) => seq)).toEqual([4, 5, 6, 7]);
  });

  it("skips a gap in the journal itself", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const asked = vi.fn(() => ({ events: [], last: 3 }));
    peer.answer("understudy/delegations/events", asked);
    const { events } = await attached(peer);
    asked
      .mockImplementationOnce(() => ({ events: [], last: 3 }))
      .mockImplementation(() => {
        throw new Error("asked again and again");
      });
    peer.notify("understudy/event", { id: "a", events: [text(6)] });
    await vi.advanceTimersByTimeAsync(0);
    expect(events.map(({ seq }) => seq)).toEqual([6]);
  });

  it("ignores responses that are outdated or from an earlier sidecar", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(4)] });
    peer.answer("understudy/delegations/get", delegation("a", { lastSeq: 2 }));
    await store.read("a");
    expect(store.delegation("a")).toMatchObject({ state: "running", lastSeq: 4 });
    let answer: ((now: Delegation) => void) | undefined;
    peer.answer("understudy/delegations/get", () => new Promise((resolve) => (answer = resolve)));
    const reading = store.read("a");
    store.detach();
    answer?.(delegation("a", { lastSeq: 99 }));
    expect(await reading).toBeUndefined();
    expect(store.delegation("a")?.lastSeq).toBe(4);
  });

  it("pages through older delegations, and keeps them when the sidecar restarts", async () => {
    const page = Array.from({ length: PAGE_SIZE }, (_, index) => delegation(`b${String(index).padStart(3, "0")}`));
    const peer = sidecar([]).answer("understudy/delegations/list", ({ cursor }) =>
      cursor === undefined ? { delegations: page, cursor: "older" } : { delegations: [delegation("a")] },
    );
    const { store } = await attached(peer);
    expect([store.hasMore, store.delegations.length]).toEqual([true, PAGE_SIZE]);
    await store.readMore();
    expect([store.hasMore, store.delegations.length]).toEqual([false, PAGE_SIZE + 1]);
    await store.attach();
    await store.readMore();
    expect(store.hasMore).toBe(false);
    expect(peer.params("understudy/delegations/list")).toEqual([
      { limit: PAGE_SIZE },
      { limit: PAGE_SIZE, cursor: "older" },
      { limit: PAGE_SIZE },
    ]);
  });

  it("fires pending changes at once when a row must be shown", async () => {
    const { store, changes } = await attached(sidecar([delegation("a", { lastSeq: 3 })]));
    store.flush();
    expect(changes).toEqual([]); // there is no such request
    const reading = store.foldersChanged();
    store.flush();
    expect(changes).toMatchObject([{ delegationList: true }]);
    await reading;
  });

  it("reads a delegation that was started elsewhere", async () => {
    const peer = sidecar([]);
    const { store, events } = await attached(peer);
    peer.answer("understudy/delegations/get", delegation("n", { state: "running", lastSeq: 2 }));
    peer.notify("understudy/event", { id: "n", events: [text(1)] });
    peer.notify("understudy/event", { id: "n", events: [text(2), text(3)] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegation("n")).toMatchObject({ lastSeq: 3 });
    expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  it("batches twenty delegations with thirty events a second", async () => {
    const ids = Array.from({ length: 20 }, (_, index) => `live-${String(index).padStart(2, "0")}`);
    const past = Array.from({ length: 480 }, (_, index) => delegation(`past-${index}`, { lastSeq: 9 }));
    const peer = sidecar([...ids.map((id) => delegation(id, { state: "running", lastSeq: 0 })), ...past]);
    const { store, changes } = await attached(peer);
    for (let tick = 1; tick <= 30; tick += 1) {
      for (const id of ids) peer.notify("understudy/event", { id, events: [text(tick)] });
      await vi.advanceTimersByTimeAsync(1_000 / 30);
    }
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(changes.length).toBeLessThanOrEqual(11);
    expect(changes.every((change) => change.delegations.size === 20 && !change.delegationList)).toBe(true);
    expect(store.delegation("live-07")).toMatchObject({ lastSeq: 30, activity: "step 30" });
  });

  it("reads a delegation once after a burst that it cannot fold", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3 })]);
    peer.answer(
      "understudy/delegations/get",
      delegation("a", { lastSeq: 33, review: { pending: 1, accepted: 2, rejected: 0 } }),
    );
    const { store } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: Array.from({ length: 30 }, (_, index) => unknown(index + 4)) });
    await vi.advanceTimersByTimeAsync(BATCH_MS * 5);
    expect(peer.params("understudy/delegations/get")).toEqual([{ id: "a" }]);
    expect(store.delegation("a")?.review).toEqual({ pending: 1, accepted: 2, rejected: 0 });
  });

  it("reads a delegation again if it changed again while being read", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3 })]);
    const { store } = await attached(peer);
    const answers: ((now: Delegation) => void)[] = [];
    peer.answer("understudy/delegations/get", () => new Promise((resolve) => void answers.push(resolve)));
    peer.notify("understudy/event", { id: "a", events: [unknown(4)] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    peer.notify("understudy/event", { id: "a", events: [unknown(5)] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(answers).toHaveLength(1);
    answers[0]?.(delegation("a", { lastSeq: 4 }));
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(answers).toHaveLength(2);
    answers[1]?.(delegation("a", { lastSeq: 5, title: "the last word" }));
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegation("a")?.title).toBe("the last word");
    expect(answers).toHaveLength(2);
  });

  it("reads again only what the sidecar reports as changed", async () => {
    const peer = sidecar([]);
    const { changes } = await attached(peer);
    peer.asked.length = 0;
    peer.notify("understudy/changed", golden("notification.changed").params as never);
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(peer.asked.map(({ method }) => method)).toEqual([
      "understudy/delegators/list",
      "understudy/modelServers/list",
    ]);
    expect(changes).toHaveLength(1);
    expect(changes[0]).toMatchObject({ delegators: true, modelServers: true, recipes: false });
  });

  it("does not read the list again because a delegation is running", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { changes } = await attached(peer);
    for (let tick = 0; tick < 10; tick += 1) {
      peer.notify("understudy/event", { id: "a", events: [text(4 + tick)] });
      peer.notify("understudy/changed", { collections: ["delegations"] });
      await vi.advanceTimersByTimeAsync(BATCH_MS);
    }
    expect(peer.params("understudy/delegations/list")).toHaveLength(1);
    expect(changes).toHaveLength(10);
    expect(changes.every(({ delegationList }) => !delegationList)).toBe(true);
  });

  it("is loaded only after the first successful response", async () => {
    const peer = sidecar([]).answer("understudy/delegations/list", () => {
      throw new Error("the disk is full");
    });
    const { store } = await attached(peer);
    expect(store.loaded).toBe(false);
    peer.answer("understudy/delegations/list", { delegations: [delegation("a")] });
    peer.notify("understudy/changed", { collections: ["delegations"] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect([store.loaded, store.delegations.length]).toEqual([true, 1]);
  });

  it("reads a list one at a time, and the latest change last", async () => {
    const peer = sidecar([]);
    const { store } = await attached(peer);
    const list = result("understudy/delegators/list", "delegators-list.valid");
    const open: ((names: number) => void)[] = [];
    peer.answer(
      "understudy/delegators/list",
      () =>
        new Promise((resolve) => {
          open.push((count) => resolve({ ...list, delegators: list.delegators.slice(0, count) }));
        }),
    );
    const asked = [1, 2, 3].map(() => store.refresh(["delegators"]));
    expect(open).toHaveLength(1);
    open[0]?.(1);
    await vi.advanceTimersByTimeAsync(0);
    expect([open.length, store.delegators.length]).toEqual([2, 1]);
    open[1]?.(3);
    await Promise.all(asked);
    expect([open.length, store.delegators.length]).toEqual([2, 3]);
  });

  it("reads the state of a delegation whose events cannot be read", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    peer.answer("understudy/delegations/get", delegation("a", { state: "finished", lastSeq: 9 }));
    const { store } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(9)] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegation("a")).toMatchObject({ state: "finished", lastSeq: 9 });
  });

  it("finishes after a restart what it was reading when the sidecar ended", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3, review: { pending: 2, accepted: 0, rejected: 0 } })]);
    const { store } = await attached(peer);
    peer.answer("understudy/delegations/get", () => new Promise(() => {}));
    peer.notify("understudy/event", { id: "a", events: [unknown(4)] });
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    store.detach();
    await store.foldersChanged();
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(peer.params("understudy/delegations/get")).toHaveLength(1);
    // By now it is older than everything on the first page.
    peer.answer("understudy/delegations/list", { delegations: [] });
    peer.answer(
      "understudy/delegations/get",
      delegation("a", { lastSeq: 4, review: { pending: 0, accepted: 0, rejected: 0 } }),
    );
    await store.attach();
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegation("a")?.review.pending).toBe(0);
  });

  it("passes the history and then live events to a follower", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store } = await attached(peer);
    peer.answer("understudy/delegations/events", () => {
      // It happens while the history is being read.
      peer.notify("understudy/event", { id: "a", events: [text(4), text(5)] });
      return { events: [text(1), text(2), text(3), text(4)], last: 4 };
    });
    const seen: number[] = [];
    const following = await store.follow("a", (events) => seen.push(...events.map(({ seq }) => seq)));
    peer.notify("understudy/event", { id: "a", events: [text(6)] });
    following.dispose();
    peer.notify("understudy/event", { id: "a", events: [text(7)] });
    expect(seen).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe("following", () => {
  it("reads a long history in pages", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 1_200 })]);
    peer.answer("understudy/delegations/events", ({ after = 0, limit }) => {
      const events = Array.from({ length: 1_200 }, (_, index) => text(index + 1)).slice(after, after + (limit ?? 0));
      return { events, last: events.at(-1)?.seq ?? after };
    });
    const { store } = await attached(peer);
    const seen: number[] = [];
    await store.follow("a", (events) => seen.push(...events.map(({ seq }) => seq)));
    expect(seen).toEqual(Array.from({ length: 1_200 }, (_, index) => index + 1));
    seen.length = 0;
    await store.follow("a", (events) => seen.push(...events.map(({ seq }) => seq)), 1_198);
    expect(seen).toEqual([1_199, 1_200]);
  });

  it("rejects if the history cannot be read, and then passes nothing on", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store } = await attached(peer);
    const seen: number[] = [];
    await expect(store.follow("a", (events) => seen.push(...events.map(({ seq }) => seq)))).rejects.toThrow();
    peer.notify("understudy/event", { id: "a", events: [text(4)] });
    expect(seen).toEqual([]);
  });
});

describe("a window with several folders", () => {
  it("merges their configurations; the first folder wins", async () => {
    const { delegators, problems } = result("understudy/delegators/list", "delegators-list.valid");
    const [one, two] = delegators;
    if (!one || !two) throw new Error("the example has two delegators");
    const elsewhere = { ...one, delegator: { ...one.delegator, displayName: "Another" } };
    const peer = sidecar([]).answer("understudy/delegators/list", ({ workspace }) =>
      workspace === "file:///a" ? { delegators: [one], problems } : { delegators: [elsewhere, two], problems },
    );
    const workspaces = (): string[] => ["file:///a", "file:///b"];
    const store = new Store({ requester: peer, subscriber: peer, workspaces, log: () => {} });
    await store.attach();
    expect(store.delegators).toEqual([one, two]);
    expect(store.problems).toEqual(problems);
    expect(peer.params("understudy/modelServers/list")).toEqual(workspaces().map((workspace) => ({ workspace })));
    store.dispose();
  });

  it("knows the default delegators of each folder, and of no folder only if all agree", async () => {
    const defaults: Record<string, Record<string, string>> = {
      "file:///a": { ask: "one" },
      "file:///b%20c": { ask: "one", tests: "two" },
    };
    const peer = sidecar([]).answer("understudy/delegators/list", ({ workspace }) => ({
      delegators: [],
      problems: [],
      defaults: defaults[workspace ?? ""] ?? {},
    }));
    const workspaces = (): string[] => ["file:///a", "file:///b%20c"];
    const store = new Store({ requester: peer, subscriber: peer, workspaces, log: () => {} });
    await store.attach();
    expect(store.defaultDelegator("tests", "file:///a")).toBeUndefined();
    expect(store.defaultDelegator("tests", "file:///b c/")).toBe("two");
    expect(store.defaultDelegator("tests", undefined)).toBeUndefined();
    expect(store.defaultDelegator("tests", "file:///elsewhere")).toBeUndefined();
    expect(store.defaultDelegator("ask", undefined)).toBe("one");
    store.dispose();
  });

  it("reads the configuration of an added folder", async () => {
    const { delegators } = result("understudy/delegators/list", "delegators-list.valid");
    const peer = sidecar([]).answer("understudy/delegators/list", ({ workspace }) => ({
      delegators: workspace === "file:///b" ? delegators : [],
      problems: [],
    }));
    const folders = ["file:///a"];
    vi.useFakeTimers();
    const store = new Store({ requester: peer, subscriber: peer, workspaces: () => folders, log: () => {} });
    const changes: Change[] = [];
    store.onDidChange((change) => changes.push(change));
    await store.attach();
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegators).toEqual([]);
    folders.push("file:///b");
    await store.foldersChanged();
    await vi.advanceTimersByTimeAsync(BATCH_MS);
    expect(store.delegators).toEqual(delegators);
    expect(changes.at(-1)).toMatchObject({ delegators: true, delegationList: true });
    store.dispose();
  });
});
