import { afterEach, describe, expect, it, vi } from "vitest";
import { fold } from "../src/model/fold.ts";
import { GATHER_MS, Store, type Change } from "../src/model/store.ts";
import type { Delegation, Event } from "../src/protocol.ts";
import { golden, GoldenSidecar, result } from "./support/golden.ts";

const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };

function delegation(id: string, change: Partial<Delegation> = {}): Delegation {
  return { ...result("understudy/delegations/get", "delegations-get.valid"), id, ...change };
}

function fresh(id: string): Delegation {
  const now = delegation(id, { state: "preparing", attempts: [], reservations: [], checks: [], lastSeq: 0 });
  delete now.verdict;
  delete now.result;
  delete now.finishedAt;
  delete now.error;
  return now;
}

function text(seq: number): Event {
  return { type: "phase", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, text: `step ${seq}` };
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
  const store = new Store({ asker: peer, hearer: peer, workspaces: () => [], log: () => {} });
  const changes: Change[] = [];
  const events: Event[] = [];
  store.onDidChange((change) => changes.push(change));
  store.onEvents((batch) => events.push(...batch.events));
  await store.attach();
  await vi.advanceTimersByTimeAsync(GATHER_MS);
  changes.length = 0;
  return { store, changes, events };
}

afterEach(() => void vi.useRealTimers());

describe("fold", () => {
  it("follows a whole life as the contract tells it", () => {
    const states: string[] = [];
    let now = fresh(LIFE.id);
    for (const event of LIFE.events) {
      now = fold(now, [event]).delegation;
      if (states.at(-1) !== now.state) states.push(now.state);
    }
    expect(states).toEqual(["preparing", "queued", "running", "waiting", "running", "checking", "finished"]);
    expect(now).toMatchObject({
      verdict: "verified",
      lastSeq: 31,
      base: LIFE.events[0] && "4b1f6d2c9a0e8f7361524334251607f8e9dacbbc",
    });
    expect(now.attempts.map((attempt) => attempt.delegator)).toEqual(["big-coder", "my-agent"]);
    expect(now.usage).toMatchObject({ inputTokens: 5210, outputTokens: 1804 });
    expect(now.waitingFor).toBeUndefined();
  });

  it("has the question while it waits", () => {
    const until = LIFE.events.slice(0, 13);
    expect(fold(fresh(LIFE.id), until).delegation.waitingFor).toMatchObject({ requestId: "1", onDeadline: "r" });
  });

  it("does not change what it is given", () => {
    const before = fresh(LIFE.id);
    const copy = structuredClone(before);
    fold(before, LIFE.events);
    expect(before).toEqual(copy);
  });
});

describe("store", () => {
  it("reads everything once, and follows every delegation from where it was read", async () => {
    const peer = sidecar([delegation("b", { lastSeq: 7 }), delegation("a", { lastSeq: 3 })]);
    const { store } = await attached(peer);
    expect(store.loaded).toBe(true);
    expect(store.delegators.map(({ delegator }) => delegator.name)).toEqual(["ghostwriter", "local-coder", "my-agent"]);
    expect(store.delegations.map(({ id }) => id)).toEqual(["b", "a"]);
    expect(peer.params("understudy/delegations/subscribe")).toEqual([{ after: { a: 3, b: 7 } }]);
  });

  it("neither loses nor doubles an event when the sidecar is started again", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store, events } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(4), text(5)] });
    peer.answer("understudy/delegations/list", { delegations: [delegation("a", { state: "running", lastSeq: 8 })] });
    store.detach();
    await store.attach();
    // It was read up to 8, but 6 to 8 were never told: they are asked for.
    expect(peer.params("understudy/delegations/subscribe").at(-1)).toEqual({ after: { a: 5 } });
    peer.notify("understudy/event", { id: "a", events: [text(5), text(6), text(7)] });
    peer.notify("understudy/event", { id: "a", events: [text(7), text(8), text(9)] });
    expect(events.map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8, 9]);
    expect(store.delegation("a")).toMatchObject({ lastSeq: 9, activity: "step 9" });
  });

  it("reads what a gap has swallowed", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    peer.answer("understudy/delegations/events", { events: [text(4), text(5), text(6)], last: 6 });
    const { events } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(6)] });
    peer.notify("understudy/event", { id: "a", events: [text(7)] });
    await vi.advanceTimersByTimeAsync(0);
    expect(peer.params("understudy/delegations/events")).toEqual([{ id: "a", after: 3, limit: 1000 }]);
    expect(events.map(({ seq }) => seq)).toEqual([4, 5, 6, 7]);
  });

  it("learns of a delegation that somebody else started", async () => {
    const peer = sidecar([]);
    const { store, events } = await attached(peer);
    peer.answer("understudy/delegations/get", delegation("n", { state: "running", lastSeq: 2 }));
    peer.notify("understudy/event", { id: "n", events: [text(1)] });
    peer.notify("understudy/event", { id: "n", events: [text(2), text(3)] });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegation("n")).toMatchObject({ lastSeq: 3 });
    expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  it("gathers twenty delegations at thirty events a second into one change every tenth of a second", async () => {
    const ids = Array.from({ length: 20 }, (_, index) => `live-${String(index).padStart(2, "0")}`);
    const past = Array.from({ length: 480 }, (_, index) => delegation(`past-${index}`, { lastSeq: 9 }));
    const peer = sidecar([...ids.map((id) => delegation(id, { state: "running", lastSeq: 0 })), ...past]);
    const { store, changes } = await attached(peer);
    let spent = 0;
    for (let tick = 1; tick <= 30; tick += 1) {
      const began = performance.now();
      for (const id of ids) peer.notify("understudy/event", { id, events: [text(tick)] });
      spent += performance.now() - began;
      await vi.advanceTimersByTimeAsync(1_000 / 30);
    }
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(changes.length).toBeLessThanOrEqual(11);
    expect(changes.every((change) => change.delegations.size === 20 && !change.delegationList)).toBe(true);
    expect(store.delegation("live-07")).toMatchObject({ lastSeq: 30, activity: "step 30" });
    expect(spent / 30).toBeLessThan(16); // one redraw's time for all twenty
  });

  it("reads a delegation once after a burst that it cannot fold", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3 })]);
    peer.answer(
      "understudy/delegations/get",
      delegation("a", { lastSeq: 33, review: { pending: 1, accepted: 2, rejected: 0 } }),
    );
    const { store } = await attached(peer);
    const decided = (seq: number): Event => ({
      type: "decided", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, path: "a.py", hunk: "0a1b2c3d4e5f", decision: "accept", by: "vscode",
    }); // prettier-ignore
    peer.notify("understudy/event", { id: "a", events: Array.from({ length: 30 }, (_, index) => decided(index + 4)) });
    await vi.advanceTimersByTimeAsync(GATHER_MS * 5);
    expect(peer.params("understudy/delegations/get")).toEqual([{ id: "a" }]);
    expect(store.delegation("a")?.review).toEqual({ pending: 1, accepted: 2, rejected: 0 });
  });

  it("reads again what the sidecar says has changed, and nothing else", async () => {
    const peer = sidecar([]);
    const { changes } = await attached(peer);
    peer.asked.length = 0;
    peer.notify("understudy/changed", golden("notification.changed").params as never);
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(peer.asked.map(({ method }) => method)).toEqual([
      "understudy/delegators/list",
      "understudy/modelServers/list",
    ]);
    expect(changes).toHaveLength(1);
    expect(changes[0]).toMatchObject({ delegators: true, modelServers: true, recipes: false });
  });

  it("tells the whole history and then what happens, to whoever follows", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store } = await attached(peer);
    peer.answer("understudy/delegations/events", () => {
      // It happens while the history is on its way.
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

describe("a window with several folders", () => {
  it("knows what is seen from any of them, and of one name what the first one sees", async () => {
    const { delegators, problems } = result("understudy/delegators/list", "delegators-list.valid");
    const [one, two] = delegators;
    if (!one || !two) throw new Error("the example has two delegators");
    const elsewhere = { ...one, delegator: { ...one.delegator, displayName: "Another" } };
    const peer = sidecar([]).answer("understudy/delegators/list", ({ workspace }) =>
      workspace === "file:///a" ? { delegators: [one], problems } : { delegators: [elsewhere, two], problems },
    );
    const workspaces = (): string[] => ["file:///a", "file:///b"];
    const store = new Store({ asker: peer, hearer: peer, workspaces, log: () => {} });
    await store.attach();
    expect(store.delegators).toEqual([one, two]);
    expect(store.problems).toEqual(problems);
    expect(peer.params("understudy/modelServers/list")).toEqual(workspaces().map((workspace) => ({ workspace })));
    store.dispose();
  });
});
