import { afterEach, describe, expect, it, vi } from "vitest";
import { fold } from "../src/model/fold.ts";
import { GATHER_MS, PAGE, Store, type Change } from "../src/model/store.ts";
import { cost } from "../src/model/words.ts";
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
    const checked = LIFE.events.filter(({ type }) => type === "check_finished");
    expect(checked.length).toBeGreaterThan(0);
    expect(now.checks).toEqual(checked);
    // The same check again takes the place of its first result.
    expect(fold(now, checked).delegation.checks).toEqual(checked);
  });

  it("has the question while it waits", () => {
    const until = LIFE.events.slice(0, 13);
    expect(fold(fresh(LIFE.id), until).delegation.waitingFor).toMatchObject({ requestId: "1", onDeadline: "r" });
  });

  it("takes what was brought back, and a result that is judged again, for what they are", () => {
    const at = "2026-11-21T00:45:12.345Z";
    const done = delegation("a", { state: "finished", lastSeq: 40, rescueRef: "refs/kept/a", costUsd: "0.01" });
    const back = fold(done, [{ type: "worktree", seq: 41, at, attempt: 0, path: "/w", seconds: 1 }]);
    expect(back.delegation.worktree).toBe("/w");
    expect(back.delegation).not.toHaveProperty("rescueRef");
    const again = fold(done, [{ type: "check_started", seq: 41, at, attempt: 1, name: "pytest" }]).delegation;
    expect(again).toMatchObject({ state: "checking", reservations: [] });
    for (const name of ["verdict", "finishedAt", "error"]) expect(again).not.toHaveProperty(name);
    // An answer that nobody waited for any more does not bring an ended one back to life.
    const late = fold(done, [
      { type: "permission_answered", seq: 41, at, attempt: 1, requestId: "9", option: "a", by: "withdrawn" },
    ]);
    expect(late.delegation.state).toBe("finished");
  });

  it("counts what an attempt costs now, whatever it had cost when it was read", () => {
    const [attempt] = delegation("a").attempts;
    if (!attempt) throw new Error("the example has an attempt");
    const running = delegation("a", { state: "running", lastSeq: 40, attempts: [attempt], costUsd: "0.01" });
    const { delegation: now } = fold(running, [
      {
        ...{ type: "usage", seq: 41, at: "2026-11-21T00:45:12.345Z", attempt: attempt.n, costUsd: "0.05" },
        ...{ inputTokens: 9, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 },
        ...{ reasoningTokens: 0, turns: 1, toolCalls: 0, estimated: false },
      },
    ]);
    expect(cost(now)).toBe("$0.05");
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
    expect(store.delegation("a")?.lastSeq).toBe(8); // told, but in what was read already
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

  it("goes on behind a gap that the journal itself has", async () => {
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

  it("takes no answer for news that is older than what it knows, or that an earlier sidecar gave", async () => {
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

  it("reads older ones a page at a time, and none of them again for another sidecar", async () => {
    const page = Array.from({ length: PAGE }, (_, index) => delegation(`b${String(index).padStart(3, "0")}`));
    const peer = sidecar([]).answer("understudy/delegations/list", ({ cursor }) =>
      cursor === undefined ? { delegations: page, cursor: "older" } : { delegations: [delegation("a")] },
    );
    const { store } = await attached(peer);
    expect([store.hasMore, store.delegations.length]).toEqual([true, PAGE]);
    await store.readMore();
    expect([store.hasMore, store.delegations.length]).toEqual([false, PAGE + 1]);
    await store.attach();
    await store.readMore();
    expect(store.hasMore).toBe(false);
    expect(peer.params("understudy/delegations/list")).toEqual([
      { limit: PAGE },
      { limit: PAGE, cursor: "older" },
      { limit: PAGE },
    ]);
  });

  it("tells at once what has gathered, when a row is to be shown", async () => {
    const { store, changes } = await attached(sidecar([delegation("a", { lastSeq: 3 })]));
    store.flush();
    expect(changes).toEqual([]); // nothing has
    const reading = store.foldersChanged();
    store.flush();
    expect(changes).toMatchObject([{ delegationList: true }]);
    await reading;
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
    for (let tick = 1; tick <= 30; tick += 1) {
      for (const id of ids) peer.notify("understudy/event", { id, events: [text(tick)] });
      await vi.advanceTimersByTimeAsync(1_000 / 30);
    }
    await vi.advanceTimersByTimeAsync(GATHER_MS);
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
    const decided = (seq: number): Event => ({
      type: "decided", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, path: "a.py", hunk: "0a1b2c3d4e5f", decision: "accept", by: "vscode",
    }); // prettier-ignore
    peer.notify("understudy/event", { id: "a", events: Array.from({ length: 30 }, (_, index) => decided(index + 4)) });
    await vi.advanceTimersByTimeAsync(GATHER_MS * 5);
    expect(peer.params("understudy/delegations/get")).toEqual([{ id: "a" }]);
    expect(store.delegation("a")?.review).toEqual({ pending: 1, accepted: 2, rejected: 0 });
  });

  it("reads a delegation again when it was judged anew while it was read", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3 })]);
    const { store } = await attached(peer);
    const answers: ((now: Delegation) => void)[] = [];
    peer.answer("understudy/delegations/get", () => new Promise((resolve) => void answers.push(resolve)));
    const superseded = (seq: number): Event => ({
      type: "superseded", seq, at: "2026-11-21T00:45:12.345Z", attempt: 1, by: "b",
    }); // prettier-ignore
    peer.notify("understudy/event", { id: "a", events: [superseded(4)] });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    peer.notify("understudy/event", { id: "a", events: [superseded(5)] });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(answers).toHaveLength(1);
    answers[0]?.(delegation("a", { lastSeq: 4 }));
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(answers).toHaveLength(2);
    answers[1]?.(delegation("a", { lastSeq: 5, title: "the last word" }));
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegation("a")?.title).toBe("the last word");
    expect(answers).toHaveLength(2);
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

  it("does not read the list again because one of them runs", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { changes } = await attached(peer);
    for (let tick = 0; tick < 10; tick += 1) {
      peer.notify("understudy/event", { id: "a", events: [text(4 + tick)] });
      peer.notify("understudy/changed", { collections: ["delegations"] });
      await vi.advanceTimersByTimeAsync(GATHER_MS);
    }
    expect(peer.params("understudy/delegations/list")).toHaveLength(1);
    expect(changes).toHaveLength(10);
    expect(changes.every(({ delegationList }) => !delegationList)).toBe(true);
  });

  it("takes an empty list for an answer only when it was one", async () => {
    const peer = sidecar([]).answer("understudy/delegations/list", () => {
      throw new Error("the disk is full");
    });
    const { store } = await attached(peer);
    expect(store.loaded).toBe(false);
    peer.answer("understudy/delegations/list", { delegations: [delegation("a")] });
    peer.notify("understudy/changed", { collections: ["delegations"] });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect([store.loaded, store.delegations.length]).toEqual([true, 1]);
  });

  it("reads one collection once at a time, and the last change last", async () => {
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

  it("knows how one stands whose events cannot be read", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    peer.answer("understudy/delegations/get", delegation("a", { state: "finished", lastSeq: 9 }));
    const { store } = await attached(peer);
    peer.notify("understudy/event", { id: "a", events: [text(9)] });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegation("a")).toMatchObject({ state: "finished", lastSeq: 9 });
  });

  it("reads after a restart what it was reading when the sidecar ended, and nothing in between", async () => {
    const peer = sidecar([delegation("a", { lastSeq: 3, review: { pending: 2, accepted: 0, rejected: 0 } })]);
    const { store } = await attached(peer);
    peer.answer("understudy/delegations/get", () => new Promise(() => {}));
    peer.notify("understudy/event", {
      id: "a",
      events: [{ type: "superseded", seq: 4, at: "2026-11-21T00:45:12.345Z", attempt: 1, by: "b" }],
    });
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    store.detach();
    await store.foldersChanged();
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(peer.params("understudy/delegations/get")).toHaveLength(1);
    // Meanwhile it is older than what the first page holds.
    peer.answer("understudy/delegations/list", { delegations: [] });
    peer.answer(
      "understudy/delegations/get",
      delegation("a", { lastSeq: 4, review: { pending: 0, accepted: 0, rejected: 0 } }),
    );
    await store.attach();
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegation("a")?.review.pending).toBe(0);
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

  it("says when the history cannot be read, and then tells nothing", async () => {
    const peer = sidecar([delegation("a", { state: "running", lastSeq: 3 })]);
    const { store } = await attached(peer);
    const seen: number[] = [];
    await expect(store.follow("a", (events) => seen.push(...events.map(({ seq }) => seq)))).rejects.toThrow();
    peer.notify("understudy/event", { id: "a", events: [text(4)] });
    expect(seen).toEqual([]);
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

  it("knows what a folder brings that is added to it", async () => {
    const { delegators } = result("understudy/delegators/list", "delegators-list.valid");
    const peer = sidecar([]).answer("understudy/delegators/list", ({ workspace }) => ({
      delegators: workspace === "file:///b" ? delegators : [],
      problems: [],
    }));
    const folders = ["file:///a"];
    vi.useFakeTimers();
    const store = new Store({ asker: peer, hearer: peer, workspaces: () => folders, log: () => {} });
    const changes: Change[] = [];
    store.onDidChange((change) => changes.push(change));
    await store.attach();
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegators).toEqual([]);
    folders.push("file:///b");
    await store.foldersChanged();
    await vi.advanceTimersByTimeAsync(GATHER_MS);
    expect(store.delegators).toEqual(delegators);
    expect(changes.at(-1)).toMatchObject({ delegators: true, delegationList: true });
    store.dispose();
  });
});
