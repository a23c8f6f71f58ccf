import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Emitter } from "../src/base/emitter.ts";
import { isHere } from "../src/model/here.ts";
import type { Change } from "../src/model/store.ts";
import * as words from "../src/model/words.ts";
import type { Delegation, Event } from "../src/protocol.ts";
import { delegationOf, rowOfDelegation, transcriptUri } from "../src/views/delegationIds.ts";
import { DelegationRows, PAGE_OF_GROUP } from "../src/views/delegations.ts";
import { Runs } from "../src/views/progress.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { golden, GoldenSidecar, refusal, result } from "./support/golden.ts";
import { settled } from "./support/settled.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };
const ASKED = LIFE.events.find((event) => event.type === "permission");
const NOW = Date.parse("2026-11-21T00:50:12.345Z");

function one(id: string, change: Partial<Delegation> = {}): Delegation {
  return { ...structuredClone(DONE), id, ...change };
}

/** As it is while an attempt is at work. */
function live(id: string, change: Partial<Delegation> = {}): Delegation {
  const now = one(id, { state: "running", activity: "Writing tests", reservations: [], checks: [], ...change });
  delete now.verdict;
  delete now.result;
  delete now.finishedAt;
  now.review = { pending: 0, accepted: 0, rejected: 0 };
  return now;
}

function waiting(id: string, change: Partial<Delegation> = {}): Delegation {
  if (ASKED?.type !== "permission") throw new Error("no question among the golden events");
  const { requestId, attempt, title, detail, options, onDeadline } = ASKED;
  return live(id, {
    state: "waiting",
    waitingFor: { requestId, attempt, title, detail, options, onDeadline, deadline: "2026-11-21T00:55:12.345Z" },
    ...change,
  });
}

/** A store of exactly these, which the test changes by hand. */
class HandStore {
  readonly changed = new Emitter<Change>();
  readonly onDidChange = this.changed.signal;
  readonly reads: string[] = [];
  hasMore = false;
  loaded = true;
  #all: Map<string, Delegation>;

  constructor(all: readonly Delegation[]) {
    this.#all = new Map(all.map((delegation) => [delegation.id, delegation]));
  }

  get delegations(): readonly Delegation[] {
    return [...this.#all.values()];
  }

  delegation(id: string): Delegation | undefined {
    return this.#all.get(id);
  }

  read(id: string): Promise<Delegation | undefined> {
    this.reads.push(id);
    return Promise.resolve(this.#all.get(id));
  }

  put(...delegations: Delegation[]): void {
    const list = delegations.some(({ id }) => !this.#all.has(id));
    for (const delegation of delegations) this.#all.set(delegation.id, delegation);
    this.tell({ delegations: new Set(delegations.map(({ id }) => id)), delegationList: list });
  }

  tell(change: Partial<Change>): void {
    const nothing = { delegators: false, modelServers: false, recipes: false, trust: false, delegationList: false };
    this.changed.fire({ delegations: new Set(), ...nothing, ...change });
  }
}

function view(all: readonly Delegation[], here = (): boolean => true): { store: HandStore; rows: DelegationRows } {
  const store = new HandStore(all);
  return { store, rows: new DelegationRows({ store, here, now: () => NOW }) };
}

function draw(rows: DelegationRows, id?: string): string[] {
  return rows.children(id).flatMap((child) => {
    const row = rows.row(child)!;
    return [
      `${row.label} | ${row.description ?? ""} | ${row.icon?.id ?? ""} | ${row.context}`,
      ...draw(rows, child).map((line) => `  ${line}`),
    ];
  });
}

describe("the view of delegations", () => {
  it("groups them by what the person has to do with them", () => {
    const usage = { ...DONE.usage, inputTokens: 4_210, outputTokens: 620 };
    const { rows } = view([
      one("d"),
      waiting("w"),
      live("r", { usage, costUsd: "0.0184" }),
      live("q", { state: "queued", activity: "queued, position 2" }),
      one("n", { verdict: "no_changes", review: { pending: 0, accepted: 0, rejected: 0 } }),
      one("x", { rescueRef: "refs/rescue/x" }),
    ]);
    expect(draw(rows)).toEqual([
      "Waiting for You | 1 |  | group",
      "  Tests for greeting/wrapping.py | 5:00 · Run a command · ghostwriter | bell-dot | delegation waiting",
      "Running | 2 |  | group",
      "  Tests for greeting/wrapping.py | 5:00 · Writing tests · ghostwriter · 4.8k tokens · $0.0184 | loading~spin | delegation running",
      "  Tests for greeting/wrapping.py | 5:00 · Queued, position 2 · ghostwriter | clock | delegation running",
      "To Review | 1 |  | group",
      "  Tests for greeting/wrapping.py | Verified · 1 change in 1 file · 4 min ago · ghostwriter | verified-filled | delegation review tree changes",
      "Done | 2 |  | group",
      "  Tests for greeting/wrapping.py | No changes · 4 min ago · ghostwriter | circle-slash | delegation done tree changes",
      "  Tests for greeting/wrapping.py | Discarded · 4 min ago · ghostwriter | trash | delegation discarded",
    ]);
  });

  it("opens a review where there is one, else the transcript, and says all to a screen reader", () => {
    const { rows } = view([one("d"), live("r")]);
    expect(rows.row(rowOfDelegation("d"))?.command).toMatchObject({ id: "understudy.review.open", arguments: ["d"] });
    expect(rows.row(rowOfDelegation("r"))?.command).toMatchObject({ id: "understudy.delegations.open" });
    expect(rows.row(rowOfDelegation("r"))?.spoken).toBe(
      "Tests for greeting/wrapping.py, Running, 5 minutes 0 seconds, Writing tests, ghostwriter",
    );
    expect(rows.row("group:review")?.spoken).toBe("To Review, 1 delegation");
    expect(rows.parent(rowOfDelegation("d"))).toBe("group:review");
    expect(rows.row(rowOfDelegation("gone"))).toBeUndefined();
  });

  it("explains in its tooltip what speaks against a result, as text and never as a link", () => {
    const { rows } = view([
      one("d", { verdict: "unverified", reservations: ["no_checks", "flaky"], title: "[x](command:evil)" }),
    ]);
    const tooltip = rows.row(rowOfDelegation("d"))?.tooltip ?? "";
    expect(tooltip).toContain("no required check ran; a check was red once and green once on the same tree");
    expect(tooltip).toContain("4 passed \\(1.9 s\\)");
    expect(tooltip).not.toContain("[x](");
  });

  it("puts those of other folders apart, with their folder", () => {
    const { rows } = view([one("d")], () => false);
    expect(draw(rows)).toEqual([
      "In Other Folders | 1 |  | group",
      expect.stringContaining("ghostwriter · greeting | verified-filled"),
    ]);
  });

  it("draws five hundred past ones a page at a time, and asks for older ones at the end", () => {
    const over = { pending: 0, accepted: 1, rejected: 0 };
    const all = Array.from({ length: 500 }, (_, index) => one(`past-${index}`, { review: over }));
    const { rows, store } = view(all);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    expect(draw(rows)).toHaveLength(1 + PAGE_OF_GROUP + 1);
    const ids = rows.children("group:done");
    expect(rows.row(ids.at(-1)!)).toMatchObject({
      label: "Show 50 more",
      command: { id: "understudy.delegations.more", arguments: ["done"] },
    });
    store.hasMore = true;
    while (!rows.more("done"));
    expect(changes.every((change) => change?.[0] === "group:done")).toBe(true);
    expect(draw(rows)).toHaveLength(1 + 500 + 1);
    expect(rows.row(rows.children("group:done").at(-1)!)?.label).toBe("Load older ones");
  });

  it("redraws exactly the rows that read differently, and everything when one has moved", () => {
    const { rows, store } = view([live("a"), live("b")]);
    rows.setVisible(true);
    draw(rows);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    store.put(live("a", { activity: "Reading" }), live("b"));
    expect(changes).toEqual([[rowOfDelegation("a")]]);
    rows.row(rowOfDelegation("a"));
    store.put(live("a", { activity: "Reading" }));
    expect(changes).toHaveLength(1);
    store.put(one("a"));
    expect(changes.slice(1)).toEqual([undefined]);
    rows.dispose();
  });

  describe("time", () => {
    beforeEach(() => void vi.useFakeTimers({ now: NOW }));
    afterEach(() => void vi.useRealTimers());

    it("grows older by the minute where nothing runs, while the view is visible", () => {
      const store = new HandStore([one("b", { finishedAt: new Date(NOW).toISOString() })]);
      const rows = new DelegationRows({ store, here: () => true });
      const changes: (readonly string[] | undefined)[] = [];
      rows.onDidChange((ids) => changes.push(ids));
      rows.setVisible(true);
      draw(rows);
      vi.advanceTimersByTime(60_000);
      expect(changes).toEqual([[rowOfDelegation("b")]]);
      expect(rows.row(rowOfDelegation("b"))?.description).toContain("1 min ago");
      rows.setVisible(false);
      expect(vi.getTimerCount()).toBe(0);
      rows.dispose();
    });

    it("ticks by the second only while the view is visible and something runs", () => {
      const store = new HandStore([live("a"), one("b")]);
      const rows = new DelegationRows({ store, here: () => true });
      const changes: (readonly string[] | undefined)[] = [];
      rows.onDidChange((ids) => changes.push(ids));
      draw(rows);
      vi.advanceTimersByTime(5_000);
      expect(vi.getTimerCount()).toBe(0);
      expect(changes).toEqual([]);
      rows.setVisible(true);
      changes.length = 0;
      vi.advanceTimersByTime(1_000);
      expect(changes).toEqual([[rowOfDelegation("a")]]);
      store.put(one("a"));
      expect(vi.getTimerCount()).toBe(1);
      store.put(live("a"));
      expect(vi.getTimerCount()).toBe(2);
      rows.setVisible(false);
      expect(vi.getTimerCount()).toBe(0);
      rows.dispose();
    });
  });
});

describe("words", () => {
  it("has a name and a meaning for every verdict and reservation", () => {
    const ended = words.endWords(one("d", { verdict: "unverified", reservations: ["no_control"] }));
    expect(ended).toBe(
      "“Tests for greeting/wrapping.py” by ghostwriter. Unverified: nothing shows that the new tests can fail. 1 change in 1 file waits for your decision.",
    );
    expect(words.endLevel("verified")).toBe("info");
    expect(words.endLevel("checks_failed")).toBe("warning");
    expect(words.endLevel("interrupted")).toBe("error");
  });

  it("never offers first what holds for ever", () => {
    const options = [
      { id: "aa", title: "Always", kind: "allow_always" },
      { id: "ra", title: "Never again", kind: "reject_always" },
      { id: "a", title: "Once", kind: "allow_once" },
    ] as const;
    expect(words.orderedOptions({ options: [...options] }).map(({ id }) => id)).toEqual(["a", "aa", "ra"]);
  });

  it("shortens numbers, times and amounts", () => {
    expect([7, 4_830, 99_960, 999_499, 1_200_000].map(words.count)).toEqual(["7", "4.8k", "100k", "999k", "1.2M"]);
    expect([0, 59_999, 723_000, 3_723_000].map(words.duration)).toEqual(["0:00", "0:59", "12:03", "1:02:03"]);
    const amounts = ["0.0184", "0.0100", "12.5", "0"].map((costUsd) => words.cost({ costUsd, attempts: [] }));
    expect(amounts).toEqual(["$0.0184", "$0.01", "$12.50", undefined]);
  });

  it("finds the delegation that a command is about, whoever names it", () => {
    const { id } = DONE;
    const uri = transcriptUri({ id, title: "Tests for a/b.py." });
    expect(decodeURIComponent(uri)).toBe(`understudy-transcript:/${id}/Tests for a∕b.py.md`);
    for (const name of [id, rowOfDelegation(id), uri, `understudy-result:/${id}/a.py`])
      expect(delegationOf(name)).toBe(id);
    for (const name of ["file:///a.py", "group:done", undefined, { id }]) expect(delegationOf(name)).toBeUndefined();
  });

  it("knows which folders are the window's", () => {
    const folders = [{ uri: "file:///home/ada/shop", path: "/home/ada/shop", name: "shop" }];
    const here = isHere({ folders });
    const where = (workspace: string): boolean => here({ workspace });
    expect(["/home/ada/shop", "/home/ada", "/home/ada/shop/api"].map(where)).toEqual([true, true, true]);
    expect(["/home/ada/shop2", "/home/bob"].map(where)).toEqual([false, false]);
    expect(isHere({ folders: [] })({ workspace: "/anywhere" })).toBe(true);
  });
});

describe("what people are told", () => {
  function runs(all: readonly Delegation[], here = true) {
    const host = new FakeHost();
    const store = new HandStore(all);
    const peer = new GoldenSidecar()
      .answer("understudy/delegations/cancel", DONE)
      .answer("understudy/delegations/answer", {});
    const made = (): Runs => new Runs({ host, asker: peer, store, here: () => here });
    return { host, store, peer, made };
  }

  it("shows progress that can be cancelled, and the end with its verdict and a way to review", async () => {
    const { host, store, peer, made } = runs([live("a")]);
    const told = made();
    await told.started("a");
    expect(host.progresses).toMatchObject([{ title: DONE.title, reports: ["Writing tests"], over: false }]);
    store.put(live("a", { activity: "Reading" }));
    store.put(live("a", { state: "checking", activity: "pytest" }));
    expect(host.progresses[0]?.reports).toEqual(["Writing tests", "Reading", "Checking: pytest"]);
    host.progresses[0]?.cancel();
    expect(peer.params("understudy/delegations/cancel")).toEqual([{ id: "a" }]);
    host.buttons.push("Review");
    store.put(one("a"));
    await settled();
    expect(store.reads).toContain("a"); // what there is to decide is read anew
    expect(host.progresses[0]?.over).toBe(true);
    expect(host.messages).toEqual([{ level: "info", text: words.endWords(DONE) }]);
    expect(host.ran).toContainEqual({ id: "understudy.review.open", values: ["a"] });
    store.put(one("a"));
    await settled();
    expect(host.messages).toHaveLength(1);
    told.dispose();
  });

  it("goes on after a reload: progress of what runs, and ends that nobody has heard", async () => {
    const { host, store, made } = runs([live("a"), live("b")]);
    const before = made();
    await before.started("a");
    await before.started("b");
    before.dispose();
    store.put(one("b", { verdict: "failed", error: { kind: "tool_crashed", message: "It broke.", hint: "Look." } }));
    host.progresses.length = 0;
    const after = made();
    store.tell({ delegationList: true });
    await settled();
    expect(host.progresses).toMatchObject([{ title: DONE.title, over: false }]);
    expect(host.messages).toMatchObject([
      { level: "error", text: expect.stringContaining("It broke. Look.") as string },
    ]);
    after.dispose();
  });

  it("tells of many ends at once as one", async () => {
    const ids = ["a", "b", "c", "d", "e"];
    const { host, store, made } = runs(ids.map((id) => one(id)));
    await host.memory.set("delegations.started", ids);
    const told = made();
    store.tell({ delegationList: true });
    await settled();
    expect(host.messages).toEqual([{ level: "info", text: "5 delegations have ended meanwhile." }]);
    told.dispose();
  });

  it("says nothing of what ran elsewhere", async () => {
    const { host, store, made } = runs([live("a")], false);
    const told = made();
    store.put(one("a"), waiting("b"));
    await settled();
    expect(host.messages).toEqual([]);
    expect(host.progresses).toEqual([]);
    expect(host.statuses).toEqual([]);
    told.dispose();
  });

  it("puts a question once, without an answer that holds for ever, and takes the answer", async () => {
    const asked = waiting("a");
    asked.waitingFor!.options.unshift({ id: "aa", title: "Always", kind: "allow_always" });
    const { host, store, peer, made } = runs([asked]);
    const told = made();
    host.buttons.push("Reject");
    store.tell({ delegationList: true });
    store.put(asked);
    await settled();
    expect(host.messages).toEqual([
      {
        level: "warning",
        text: "ghostwriter asks, in “Tests for greeting/wrapping.py”: Run a command: pip install freezegun",
      },
    ]);
    expect(peer.params("understudy/delegations/answer")).toEqual([{ id: "a", requestId: "1", option: "r" }]);
    expect(host.statuses.at(-1)).toMatchObject({ command: "understudy.delegations.answer" });
    told.dispose();
  });

  it("offers no button for ever", async () => {
    const asked = waiting("a");
    asked.waitingFor!.options = [{ id: "aa", title: "Always", kind: "allow_always" }];
    const { host, store, peer, made } = runs([asked]);
    const told = made();
    host.buttons.push("Always");
    store.tell({ delegationList: true });
    await settled();
    expect(host.buttons).toEqual(["Always"]); // nobody could press it
    expect(peer.params("understudy/delegations/answer")).toEqual([]);
    told.dispose();
  });

  it("says that somebody was quicker", async () => {
    const { host, peer, made } = runs([waiting("a")]);
    peer.answer("understudy/delegations/answer", () => {
      throw refusal("delegations-answer.second");
    });
    const told = made();
    expect(await told.answer(waiting("a"), "r")).toBe(false);
    expect(host.messages.at(-1)?.text).toBe("“Run a command” was answered already; the first answer counts.");
    told.dispose();
  });

  it("has an item in the status bar while something runs here", () => {
    const { host, store, made } = runs([live("a"), live("b")]);
    const told = made();
    store.tell({ delegationList: true });
    expect(host.statuses.at(-1)).toMatchObject({
      text: "$(robot) Tests for greeting/wrapping.py: Writing tests (+1)",
      command: "understudy.delegations.focus",
    });
    expect(host.statuses.at(-1)?.tooltip).toContain("command:understudy.delegations.cancel?%5B%22a%22%5D");
    told.dispose();
  });
});
