import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import { belongsTo } from "../../src/state/workspaceFolders.ts";
import type { Change } from "../../src/state/store.ts";
import * as words from "../../src/state/wording.ts";
import * as formatting from "../../src/state/formatting.ts";
import type { Delegation, Event, Recipe } from "../../src/protocol.ts";
import { delegationIdOf, delegationRowId, transcriptUri } from "../../src/state/delegationUris.ts";
import { DelegationTree, GROUP_PAGE_SIZE } from "../../src/delegations/delegationTree.ts";
import { registerDelegationCommands } from "../../src/delegations/delegationCommands.ts";
import { DelegationNotifications } from "../../src/delegations/notifications.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { golden, GoldenSidecar, refusal, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };
const ASKED = LIFE.events.find((event) => event.type === "permission");
const NOW = Date.parse("2026-11-21T00:50:12.345Z");

function one(id: string, change: Partial<Delegation> = {}): Delegation {
  return { ...structuredClone(DONE), id, ...change };
}

/** The state while an attempt is running. */
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
  const { requestId, attempt, title, detail, options, deadlineAction } = ASKED;
  return live(id, {
    state: "waiting",
    waitingFor: { requestId, attempt, title, detail, options, deadlineAction, deadline: "2026-11-21T00:55:12.345Z" },
    ...change,
  });
}

/** A store with exactly these delegations, which the test changes by hand. */
class HandStore {
  readonly changed = new Emitter<Change>();
  readonly onDidChange = this.changed.subscribe;
  readonly happened = new Emitter<{ id: string; events: readonly Event[] }>();
  readonly onEvents = this.happened.subscribe;
  readonly reads: string[] = [];
  hasMore = false;
  loaded = true;
  recipes: readonly Recipe[] = [];
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

  delegator(): undefined {
    return undefined;
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

function view(all: readonly Delegation[], inWindow = (): boolean => true): { store: HandStore; rows: DelegationTree } {
  const store = new HandStore(all);
  return { store, rows: new DelegationTree({ store, inWindow: inWindow, now: () => NOW }) };
}

function draw(rows: DelegationTree, id?: string): string[] {
  return rows.children(id).flatMap((child) => {
    const row = rows.row(child)!;
    return [
      `${row.label} | ${row.description ?? ""} | ${row.icon?.id ?? ""} | ${row.context}`,
      ...draw(rows, child).map((line) => `  ${line}`),
    ];
  });
}

describe("the Delegations view", () => {
  it("shows delegations that were started together as one row, with its members in their order", () => {
    const group = { groupId: "20261121-004510-0q3q6" };
    const { store, rows } = view([
      live("20261121-004512-c", { ...group, title: "Third", state: "queued" }),
      live("20261121-004512-b", { ...group, title: "Second", costUsd: "0.30" }),
      one("20261121-004512-a", { ...group, title: "First", costUsd: "0.20" }),
      one("x", { groupId: "20261121-004510-alone", title: "Alone" }),
    ]);
    const drawn = draw(rows);
    expect(drawn.map((line) => line.split(" | ")[0])).toEqual([
      "Now",
      "  Batch of 3",
      "    First",
      "    Second",
      "    Third",
      "To Review",
      "  Alone",
    ]);
    expect(drawn[1]).toBe(
      "  Batch of 3 | 1 of 3 done · 1 running · 1 waiting · 1 to review · $0.50 · First | run-all | batch running review",
    );
    expect(drawn[0]).toContain("Now | 3");
    expect(rows.row("batch:20261121-004510-0q3q6")?.spoken).toBe(
      "Batch of 3, 1 of 3 done, 1 running, 1 waiting, 1 to review, $0.50, First",
    );
    store.put(
      live("20261121-004512-c", {
        ...group,
        title: "Third",
        state: "queued",
        after: ["20261121-004512-b"],
        lastSeq: 90,
      }),
    );
    expect(draw(rows)[1]).toContain(" · 1 running · 1 waiting for others · ");
    store.put(
      live("20261121-004512-c", {
        ...group,
        title: "Third",
        state: "queued",
        after: ["20261121-004512-a"],
        lastSeq: 91,
      }),
    );
    expect(draw(rows)[1]).toContain(" · 1 running · 1 waiting · ");
    expect(rows.count("review")).toBe(2);
    expect(rows.parent("delegation:20261121-004512-a")).toBe("batch:20261121-004510-0q3q6");
    expect(rows.parent("batch:20261121-004510-0q3q6")).toBe("group:now");

    store.put(
      one("20261121-004512-b", { ...group, title: "Second" }),
      one("20261121-004512-c", { ...group, title: "Third" }),
    );
    expect(draw(rows).map((line) => line.split(" | ")[0])).toEqual([
      "To Review",
      "  Batch of 3",
      "    First",
      "    Second",
      "    Third",
      "  Alone",
    ]);
    expect(rows.row("batch:20261121-004510-0q3q6")?.context).toBe("batch review");
  });

  it("cancels a batch, and reviews the first of its results that is not decided", async () => {
    const group = { groupId: "20261121-004510-0q3q6" };
    const [host, sidecar] = [new FakeHost(), new GoldenSidecar()];
    const store = new HandStore([live("20261121-004512-b", group), one("20261121-004512-a", group)]);
    registerDelegationCommands({
      host,
      requester: sidecar.answer("understudy/groups/cancel", { delegations: [] }),
      store: store as never,
      rows: { more: () => false },
      notifications: { started: () => Promise.resolve(), answer: () => Promise.resolve(true) },
      transcripts: { show: () => undefined },
      inWindow: () => true,
    });
    const reviewed: unknown[] = [];
    host.commands.register("understudy.review.open", (id) => void reviewed.push(id));
    const row = "batch:20261121-004510-0q3q6";
    await host.handlers.get("understudy.delegations.reviewNext")?.(row);
    expect(reviewed).toEqual(["20261121-004512-a"]);
    await host.handlers.get("understudy.delegations.cancelBatch")?.(row);
    expect(store.reads).toEqual(["20261121-004512-a", "20261121-004512-b"]);
    await host.handlers.get("understudy.delegations.cancelBatch")?.(undefined);
    expect(store.reads).toHaveLength(2);
  });

  it("redraws the row of a batch when a member changes", () => {
    const group = { groupId: "20261121-004510-0q3q6" };
    const { store, rows } = view([live("20261121-004512-a", group), live("20261121-004512-b", group)]);
    rows.setVisible(true);
    draw(rows);
    const changed: unknown[] = [];
    rows.onDidChange((ids) => changed.push(ids));
    store.put(live("20261121-004512-b", { ...group, costUsd: "0.25" }));
    expect(changed).toEqual([["delegation:20261121-004512-b", "batch:20261121-004510-0q3q6"]]);
    rows.dispose();
  });

  it("groups delegations by what the user can do with them", () => {
    const usage = { ...DONE.usage, inputTokens: 4_210, outputTokens: 620 };
    const { rows } = view([
      one("d"),
      waiting("w"),
      live("r", { usage, costUsd: "0.0184" }),
      live("q", { state: "queued", activity: "queued, position 2" }),
      one("n", { verdict: "no_changes", review: { pending: 0, accepted: 0, rejected: 0 } }),
      one("f", {
        verdict: "failed",
        review: { pending: 0, accepted: 0, rejected: 0 },
        error: { kind: "internal", message: "Delegator 'ghostwriter' exited with code 3." },
      }),
      one("c", { conflicts: ["a1"] }),
      one("m", { verdict: "no_changes", review: { pending: 0, accepted: 0, rejected: 0 }, dismissed: true }),
      one("x", { rescueRef: "refs/rescue/x" }),
    ]);
    const until = formatting.timeOfDay("2026-11-21T00:55:12.345Z");
    expect(draw(rows)).toEqual([
      "Now | 6 · 4 needing attention |  | group attention",
      `  Tests for gr…wrapping.py | Run a command · until ${until} · 5:00 · ghostwriter | bell-dot | delegation waiting`,
      "  Tests f…ing.py | No changes · ghostwriter · 4 min ago | circle-slash | delegation done tree changes failure",
      "  Tests…ng.py | Failed · exit code 3 · ghostwriter · 4 min ago | error | delegation done tree changes failure",
      "  Tests for…apping.py | Conflict · ghostwriter · 1 change · 4 min ago | verified-filled | delegation review tree changes",
      "  Tests for gr…wrapping.py | ghostwriter · 5:00 · Writing tests · $0.0184 | loading~spin | delegation running",
      "  Tests for gr…wrapping.py | Queued, position 2 · 5:00 · ghostwriter | clock | delegation running",
      "To Review | 1 |  | group",
      "  Tests fo…pping.py | ghostwriter · 1 change · Verified · 4 min ago | verified-filled | delegation review tree changes",
      "Done | 2 |  | group",
      "  Tests fo…pping.py | ghostwriter · No changes · 4 min ago | circle-slash | delegation done tree changes",
      "  Tests for…rapping.py | ghostwriter · Discarded · 4 min ago | trash | delegation discarded",
    ]);
  });

  it("keeps a failure until it is dismissed or retried, but not a conflict that has a follow-up", () => {
    const review = { pending: 0, accepted: 0, rejected: 0 };
    const { rows, store } = view([one("f", { verdict: "failed", review }), one("c", { conflicts: ["a1"] })]);
    const groups = (): string[] => rows.children().map((id) => `${id} ${rows.children(id).join()}`);
    expect(groups()).toEqual(["group:now delegation:f,delegation:c"]);
    expect(rows.count("attention")).toBe(2);
    store.put(live("g", { parentId: "f" }));
    expect(groups()).toEqual(["group:now delegation:c,delegation:g"]);
    expect(rows.count("attention")).toBe(1);
    store.put(live("d", { parentId: "c" }));
    expect(rows.row("group:now")?.description).toBe("2 · 1 needing attention");
    store.put(one("n", { verdict: "timed_out", review }));
    expect(groups()[0]).toContain("delegation:n");
    store.put(one("n", { verdict: "timed_out", review, dismissed: true }));
    expect(groups()[0]).not.toContain("delegation:n");
    store.put(one("s", { verdict: "cancelled", review }), one("b", { verdict: "budget_exhausted", review }));
    expect(groups()[0]).toContain("delegation:b");
    expect(groups()[0]).not.toContain("delegation:s");
  });

  it("shows the rounds of a task as one row: the newest, with the earlier ones below it", () => {
    const title = "Write tests: prices.py";
    const over = { pending: 0, accepted: 1, rejected: 0 };
    const first = one("20261121-004510-a", { title, review: over });
    const { rows, store } = view([first, one("20261121-004511-x", { title: "Other" })]);
    store.recipes = [{ name: "tests", title: "Write tests", returns: "tree", appliesTo: { on: [] }, scope: "builtin" }];
    store.put(live("20261121-004512-b", { title: `${title} (round 2)`, parentId: first.id }));
    const second = one("20261121-004512-b", { title: `${title} (round 2)`, parentId: first.id });
    expect(draw(rows)[1]).toContain("  prices.py | round 2 · ghostwriter · 5:00 · ");
    store.put(second, one("20261121-004513-c", { title: `${title} (round 3)`, parentId: second.id }));
    expect(draw(rows).map((line) => line.split(" · ", 2).join(" · ").split(" | ").slice(0, 2).join(" | "))).toEqual([
      "To Review | 2",
      "  Other | ghostwriter · 1 change",
      "  prices.py | round 3 · ghostwriter",
      "    Round 2 | ghostwriter · 1 change",
      "    Round 1 | ghostwriter · Verified",
    ]);
    expect(rows.parent(delegationRowId(first.id))).toBe("delegation:20261121-004513-c");
    expect(rows.parent("delegation:20261121-004513-c")).toBe("group:review");
    expect(rows.row("delegation:20261121-004513-c")?.children).toBe("expanded");
    expect(rows.row("delegation:20261121-004513-c")?.spoken).toContain("Write tests: prices.py, Verified");
    expect(rows.row(delegationRowId(first.id))?.spoken).toMatch(/^Round 1, Write tests: prices.py, Verified/u);
    store.put({ ...second, review: over });
    expect(rows.row("delegation:20261121-004513-c")?.children).toBe("collapsed");
  });

  it("names the file, who did it, and how much of it is tested", () => {
    const place = { hunk: "a", path: "a.py", line: 1, lines: 1, function: "", why: "why" };
    const places = [
      { ...place, evidence: "noticed" as const },
      { ...place, line: 9, evidence: "unexecuted" as const },
    ];
    const { rows, store } = view([
      one("d", { title: "Write tests: prices.py", recipe: "tests", places }),
      one("o", { title: "Write tests: prices.py", recipe: "tests", places, reservations: ["checks_outdated"] }),
    ]);
    store.recipes = [{ name: "tests", title: "Write tests", returns: "tree", appliesTo: { on: [] }, scope: "builtin" }];
    expect(rows.row(delegationRowId("d"))).toMatchObject({
      label: "prices.py",
      description: "ghostwriter · 1 change · 1 of 2 places tested · 4 min ago",
    });
    expect(rows.row(delegationRowId("d"))?.spoken).toBe(
      "Write tests: prices.py, Verified, 1 change, 1 of 2 places tested, 4 min ago, ghostwriter",
    );
    expect(rows.row(delegationRowId("o"))?.description).not.toContain("tested");
  });

  it("begins with what is counted, and with a question and its deadline", () => {
    const count = { of: "tests", done: 412, total: 1_300, run: "without the result", secondsLeft: 200 } as const;
    const { rows } = view([live("c", { state: "checking", activity: "x", count }), waiting("w")]);
    expect(rows.row(delegationRowId("c"))).toMatchObject({
      description: "ran 412 of 1,300 tests (without the result), about 3 min left · 5:00 · ghostwriter",
      spoken: expect.stringContaining("Checking, 5 minutes, ran 412 of 1,300 tests") as string,
    });
    const until = formatting.timeOfDay("2026-11-21T00:55:12.345Z");
    expect(rows.row(delegationRowId("w"))?.description).toBe(`Run a command · until ${until} · 5:00 · ghostwriter`);
  });

  it("counts checks that run again from their own start, and not in the time of the delegation", () => {
    const times = { startedAt: "2026-11-21T00:45:12.345Z", recheckedAt: "2026-11-21T00:50:10.345Z" };
    const attempts = [{ ...DONE.attempts[0]!, finishedAt: "2026-11-21T00:46:12.345Z" }];
    expect(formatting.elapsed(live("a", { ...times, attempts }), NOW)).toBe(2_000);
    const again = one("a", { ...times, attempts, finishedAt: "2026-11-21T00:50:30.345Z" });
    expect(formatting.elapsed(again, NOW)).toBe(60_000);
  });

  it("shortens a long title, never the verdict after it", () => {
    const { rows } = view([one("d", { title: "Reply: Say what the one hundred and one means. (2 files)" })]);
    expect(rows.row(delegationRowId("d"))).toMatchObject({
      label: "Reply: S…2 files)",
      description: "ghostwriter · 1 change · Verified · 4 min ago",
    });
    expect(rows.row(delegationRowId("d"))?.spoken).toContain("one hundred and one means. (2 files), Verified");
    expect(formatting.shortenMiddle("Write tests: prices.py", 24)).toBe("Write tests: prices.py");
  });

  it("opens a review if there is one, otherwise the transcript, and describes rows to screen readers", () => {
    const { rows } = view([one("d"), live("r")]);
    expect(rows.row(delegationRowId("d"))?.command).toMatchObject({ id: "understudy.review.open", arguments: ["d"] });
    expect(rows.row(delegationRowId("r"))?.command).toMatchObject({ id: "understudy.delegations.open" });
    expect(rows.row(delegationRowId("r"))?.spoken).toBe(
      "Tests for greeting/wrapping.py, Running, 5 minutes, Writing tests, ghostwriter",
    );
    const until = formatting.timeOfDay("2026-11-21T00:55:12.345Z");
    const asking = view([waiting("w")]).rows.row(delegationRowId("w"));
    expect(asking?.spoken).toBe(
      `Tests for greeting/wrapping.py, Waiting for you, 5 minutes, Run a command, until ${until}, ghostwriter`,
    );
    expect(rows.row("group:review")?.spoken).toBe("To Review, 1 delegation");
    expect(rows.parent(delegationRowId("d"))).toBe("group:review");
    expect(rows.row(delegationRowId("gone"))).toBeUndefined();
  });

  it("shows reservations in the tooltip as text, never as a link", () => {
    const { rows } = view([
      one("d", { verdict: "unverified", reservations: ["no_checks", "flaky"], title: "[x](command:evil)" }),
    ]);
    const tooltip = rows.row(delegationRowId("d"))?.tooltip ?? "";
    expect(tooltip).toContain("no required check ran; a check failed once and passed once on the same tree");
    expect(tooltip).toContain("4 passed \\(1.9 s\\)");
    expect(tooltip).not.toContain("[x](");
  });

  it("marks checks that ran before the result was edited", () => {
    const { rows } = view([one("d", { verdict: "unverified", reservations: ["checks_outdated"] })]);
    const tooltip = rows.row(delegationRowId("d"))?.tooltip ?? "";
    expect(tooltip).toContain("the result was edited after the checks ran");
    expect(tooltip).toContain("4 passed \\(1.9 s\\), before your edits");
  });

  it("names the folder in every row of a window with several", () => {
    let many = false;
    const store = new HandStore([one("d")]);
    const rows = new DelegationTree({ store, inWindow: () => true, manyFolders: () => many, now: () => NOW });
    expect(rows.row(delegationRowId("d"))?.description).not.toContain("greeting");
    many = true;
    expect(rows.row(delegationRowId("d"))?.description).toContain("4 min ago · greeting");
  });

  it("shows delegations of other folders in a group of their own", () => {
    const { rows } = view([one("d")], () => false);
    expect(draw(rows)).toEqual([
      "In Other Folders | 1 |  | group",
      expect.stringContaining("4 min ago · greeting | verified-filled"),
    ]);
  });

  it("pages through five hundred past delegations, and requests older ones at the end", () => {
    const over = { pending: 0, accepted: 1, rejected: 0 };
    const all = Array.from({ length: 500 }, (_, index) => one(`past-${index}`, { review: over }));
    const { rows, store } = view(all);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    expect(draw(rows)).toHaveLength(1 + GROUP_PAGE_SIZE + 1);
    const ids = rows.children("group:done");
    expect(rows.row(ids.at(-1)!)).toMatchObject({
      label: "Show 50 more",
      command: { id: "understudy.delegations.more", arguments: ["done"] },
    });
    store.hasMore = true;
    while (!rows.more("done"));
    expect(changes.every((change) => change?.[0] === "group:done")).toBe(true);
    expect(draw(rows)).toHaveLength(1 + 500 + 1);
    expect(rows.row(rows.children("group:done").at(-1)!)?.label).toBe("Load older delegations");
  });

  it("shows the last line of what a crashed program printed", () => {
    const what = `NameError: name '${"n".repeat(150)}' is not defined`;
    const message = `Delegator 'ghostwriter' exited with code 1: Traceback:\n  File "a.py", line 3\n${what}`;
    const error = { kind: "tool_crashed", message } as NonNullable<Delegation["error"]>;
    const { rows } = view([one("a", { verdict: "failed", error, review: { pending: 0, accepted: 0, rejected: 0 } })]);
    const row = rows.row(delegationRowId("a"));
    // The title is short, so that a sidebar of the usual width shows the beginning of the reason.
    expect(`${row?.label} ${row?.description}`.slice(0, 36)).toBe("Tests…ng.py Failed · NameError: name");
    expect(row?.description).toMatch(/n… · exit code 1 · ghostwriter · 4 min ago$/u);
    expect(row?.spoken).toContain(`, Failed, Delegator 'ghostwriter' exited with code 1: ${what}, 4 min ago, `);
    expect(row?.tooltip?.replaceAll("\\", "")).toContain(what);
    const facts = (text: string): readonly string[] => formatting.failureFacts({ message: text }, ["mine", "x"]);
    expect(facts("x was killed by signal 9.")).toEqual(["killed by signal 9"]);
    expect(facts("x exited with code 1 after announcing a result: it broke.")).toEqual([
      "it broke",
      "exit code 1 after announcing a result",
    ]);
    expect(facts("Delegator 'mine' exited with code 1.")).toEqual(["exit code 1"]);
    expect(facts("Can't reach ollama: refused.")).toEqual(["Can't reach ollama: refused"]);
    // About another program: without its subject, it would read as if the delegator had crashed.
    for (const other of ["The worker of the title", "Delegator 'mine' reports that npm", "Delegator 'other'"]) {
      expect(facts(`${other} exited with code 1: KeyError.`)).toEqual([`${other} exited with code 1: KeyError`]);
    }
  });

  it("draws a group again when no older delegations are left to load", () => {
    const store = new HandStore([live("a"), one("past", { review: { pending: 0, accepted: 1, rejected: 0 } })]);
    store.hasMore = true;
    const rows = new DelegationTree({ store, inWindow: () => true, now: () => NOW });
    rows.setVisible(true);
    expect(draw(rows).at(-1)).toContain("Load older delegations");
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    store.hasMore = false;
    store.put(live("c"));
    expect(changes, "not only the group with the new row").toEqual([["group:now", "group:done"]]);
  });

  it("redraws only the group in which rows came or went", () => {
    const { rows, store } = view([live("a"), one("b")]);
    rows.setVisible(true);
    draw(rows);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    store.put(live("c"));
    expect(changes).toEqual([["group:now"]]);
    draw(rows);
    store.put(one("d"), live("a", { activity: "Reading" }));
    expect(changes.slice(1)).toEqual([["group:review"], [delegationRowId("a")]]);
    // A group that appears is a row of the view itself.
    store.put(one("e", { review: { pending: 0, accepted: 1, rejected: 0 } }));
    expect(changes.slice(3)).toEqual([undefined]);
    rows.dispose();
  });

  it("redraws only the two groups between which a row moves, in one event", () => {
    const { rows, store } = view([live("a"), live("b"), one("c"), one("d", { verdict: "failed" })]);
    rows.setVisible(true);
    draw(rows);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    store.put(one("a"));
    expect(changes).toEqual([["group:now", "group:review"]]);
    draw(rows);
    // Rows that the redrawn groups did not draw again, because they are collapsed, change without an event of their own.
    store.put(waiting("b"), live("e"));
    expect(changes.slice(1)).toEqual([["group:now"]]);
    store.put(live("e", { activity: "Reading" }));
    expect(changes).toHaveLength(2);
    rows.dispose();
  });

  it("redraws exactly the rows whose text changed, and everything if a group appears", () => {
    const { rows, store } = view([live("a"), live("b")]);
    rows.setVisible(true);
    draw(rows);
    const changes: (readonly string[] | undefined)[] = [];
    rows.onDidChange((ids) => changes.push(ids));
    store.put(live("a", { activity: "Reading" }), live("b"));
    expect(changes).toEqual([[delegationRowId("a")]]);
    rows.row(delegationRowId("a"));
    store.put(live("a", { activity: "Reading" }));
    expect(changes).toHaveLength(1);
    store.put(one("a"));
    expect(changes.slice(1)).toEqual([undefined]);
    rows.dispose();
  });

  describe("time", () => {
    beforeEach(() => void vi.useFakeTimers({ now: NOW }));
    afterEach(() => void vi.useRealTimers());

    it("advances by the minute if nothing is running, while the view is visible", () => {
      const store = new HandStore([one("b", { finishedAt: new Date(NOW).toISOString() })]);
      const rows = new DelegationTree({ store, inWindow: () => true });
      const changes: (readonly string[] | undefined)[] = [];
      rows.onDidChange((ids) => changes.push(ids));
      rows.setVisible(true);
      draw(rows);
      vi.advanceTimersByTime(60_000);
      expect(changes).toEqual([[delegationRowId("b")]]);
      expect(rows.row(delegationRowId("b"))?.description).toContain("1 min ago");
      rows.setVisible(false);
      expect(vi.getTimerCount()).toBe(0);
      rows.dispose();
    });

    it("advances by the second only if the view is visible and something is running", () => {
      const store = new HandStore([live("a"), one("b")]);
      const rows = new DelegationTree({ store, inWindow: () => true });
      const changes: (readonly string[] | undefined)[] = [];
      rows.onDidChange((ids) => changes.push(ids));
      draw(rows);
      vi.advanceTimersByTime(5_000);
      expect(vi.getTimerCount()).toBe(0);
      expect(changes).toEqual([]);
      rows.setVisible(true);
      changes.length = 0;
      vi.advanceTimersByTime(1_000);
      expect(changes).toEqual([[delegationRowId("a")]]);
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

describe("wording", () => {
  const NOTHING = { pending: 0, accepted: 0, rejected: 0 };

  it("has a name and a meaning for every verdict and reservation", () => {
    const ended = words.endMessage(one("d", { verdict: "unverified", reservations: ["not_mutation_tested"] }));
    expect(ended).toBe(
      "“Tests for greeting/wrapping.py” by ghostwriter. Unverified: nothing shows that the tests can fail. 1 change in 1 file to review.",
    );
    const error = { kind: "internal", message: "my-agent exited with code 3: it broke", hint: "Retry it." } as const;
    const failed = words.endMessage(one("d", { verdict: "failed", review: NOTHING, error }));
    expect(failed).toBe(
      "“Tests for greeting/wrapping.py” by ghostwriter. Failed: my-agent exited with code 3: it broke. Retry it.",
    );
    // A notification shows the last line of what the program printed, without marks below a line of its source.
    const trace = "my-agent exited with code 3: Traceback:\n  File a.py\n    ^^^^^\nOSError: it broke\n  ^^^^";
    const crashed = words.endMessage(
      one("d", { verdict: "failed", review: NOTHING, error: { ...error, message: trace } }),
    );
    expect(crashed).toMatch(/ Failed: my-agent exited with code 3: OSError: it broke\. Retry it\.$/u);
    expect(words.endSeverity("verified")).toBe("info");
    expect(words.endSeverity("checks_failed")).toBe("warning");
    expect(words.endSeverity("interrupted")).toBe("error");
  });

  it("never offers a permanent answer first", () => {
    const options = [
      { id: "aa", title: "Always", kind: "allow_always" },
      { id: "ra", title: "Never again", kind: "reject_always" },
      { id: "a", title: "Once", kind: "allow_once" },
    ] as const;
    expect(words.orderedOptions({ options: [...options] }).map(({ id }) => id)).toEqual(["a", "aa", "ra"]);
  });

  it("shortens numbers, times and amounts", () => {
    expect([7, 4_830, 99_960, 999_499, 1_200_000].map(formatting.compactNumber)).toEqual([
      "7",
      "4.8k",
      "100k",
      "999k",
      "1.2M",
    ]);
    expect([0, 59_999, 723_000, 3_723_000].map(formatting.duration)).toEqual(["0:00", "0:59", "12:03", "1:02:03"]);
    const amounts = ["0.0184", "0.0100", "12.5", "0"].map((costUsd) => formatting.costText({ costUsd, attempts: [] }));
    expect(amounts).toEqual(["$0.0184", "$0.01", "$12.50", undefined]);
  });

  it("finds the delegation that a command refers to", () => {
    const { id } = DONE;
    const uri = transcriptUri({ id, title: "Tests for a/b.py." });
    expect(decodeURIComponent(uri)).toBe(`understudy-transcript:/${id}/Tests for a∕b.py.md`);
    for (const name of [id, delegationRowId(id), uri, `understudy-result:/${id}/a.py`])
      expect(delegationIdOf(name)).toBe(id);
    for (const name of ["file:///a.py", "group:done", undefined, { id }]) expect(delegationIdOf(name)).toBeUndefined();
  });

  it("knows which delegations belong to the window", () => {
    const folders = [{ uri: "file:///home/ada/shop", path: "/home/ada/shop", name: "shop" }];
    const inWindow = belongsTo({ folders });
    const where = (workspace: string): boolean => inWindow({ workspace });
    expect(["/home/ada/shop", "/home/ada", "/home/ada/shop/api"].map(where)).toEqual([true, true, true]);
    expect(["/home/ada/shop2", "/home/bob"].map(where)).toEqual([false, false]);
    expect(belongsTo({ folders: [] })({ workspace: "/anywhere" })).toBe(true);
  });
});

/** Wait for messages: results that arrive together are one. */
async function reported(host: FakeHost, many = 1): Promise<void> {
  for (let times = 0; times < 50 && (many === 0 ? times < 3 : host.messages.length < many); times += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe("notifications", () => {
  function runs(all: readonly Delegation[], inWindow = true) {
    const host = new FakeHost();
    const store = new HandStore(all);
    const peer = new GoldenSidecar()
      .answer("understudy/delegations/cancel", DONE)
      .answer("understudy/delegations/answer", {});
    const made = (): DelegationNotifications =>
      new DelegationNotifications({ host, requester: peer, store, inWindow: () => inWindow, togetherMs: 0 });
    return { host, store, peer, made };
  }

  it("show a run in the status bar only, then the verdict and a Review button", async () => {
    const { host, store, made } = runs([live("a")]);
    const told = made();
    await told.started("a");
    store.put(live("a", { activity: "Reading" }));
    store.put(live("a", { state: "checking", activity: "pytest" }));
    expect(host.statuses.map(({ text }) => text)).toEqual(
      ["Writing tests", "Reading", "Checking: pytest"].map((now) => `$(robot) Tests for greeting/wrapping.py · ${now}`),
    );
    expect(host.progresses).toEqual([]);
    expect(host.messages).toEqual([]);
    host.buttons.push("Review");
    store.put(one("a"));
    await reported(host);
    expect(store.reads).toContain("a"); // the number of pending changes is read again
    expect(host.messages).toEqual([{ level: "info", text: words.endMessage(DONE) }]);
    expect(host.ran).toContainEqual({ id: "understudy.review.open", values: ["a"] });
    store.put(one("a"));
    await settled();
    expect(host.messages).toHaveLength(1);
    told.dispose();
  });

  it("offer the next steps of a failed run", async () => {
    const steps = [
      ["Retry", "understudy.delegations.retry"],
      ["Retry with…", "understudy.delegations.retryWith"],
      ["Show Log", "understudy.delegations.showLog"],
    ] as const;
    const left = [
      ["Review", "understudy.review.open", 2] as const,
      ["Retry", "understudy.delegations.retry", 2] as const,
    ];
    for (const [button, command, pending = 0] of [...steps, ...left]) {
      const { host, store, made } = runs([live("a")]);
      const told = made();
      await told.started("a");
      host.buttons.push(button);
      store.put(one("a", { verdict: "failed", review: { pending, accepted: 0, rejected: 0 } }));
      await reported(host);
      expect(host.ran).toEqual([{ id: command, values: ["a"] }]);
      told.dispose();
    }
  });

  it("offer first what helps, and no retry that fails again", async () => {
    const remedy = { kind: "copy_files" as const, paths: ["src/_version.py"] };
    const { host, store, made } = runs([live("a")]);
    const buttons: (readonly string[])[] = [];
    const shown = host.windows.message.bind(host.windows);
    host.windows.message = (level, text, options) => {
      buttons.push(options?.buttons ?? []);
      return shown(level, text, options);
    };
    const told = made();
    await told.started("a");
    host.buttons.push("Copy _version.py");
    const error = { kind: "environment" as const, message: "It is generated.", hint: "Add x to config.toml.", remedy };
    store.put(one("a", { verdict: "failed", error, review: { pending: 0, accepted: 0, rejected: 0 } }));
    await reported(host);
    expect(buttons).toEqual([["Copy _version.py", "Retry with…", "Show Log"]]);
    expect(host.messages[0]?.text).not.toContain("config.toml");
    expect(host.ran).toEqual([{ id: "understudy.delegations.remedy", values: ["a"] }]);
    told.dispose();
  });

  it("are those that the user wants", async () => {
    for (const [wanted, kinds] of [
      ["all", ["question", "failure", "result"]],
      ["questionsAndFailures", ["question", "failure"]],
      ["none", []],
    ] as const) {
      const { host, store, made } = runs([live("a"), live("b"), live("c")]);
      host.settings.set("notifications", wanted);
      const told = made();
      for (const id of ["a", "b", "c"]) await told.started(id);
      store.put(waiting("a"));
      store.put(one("b", { verdict: "failed" }));
      await reported(host, wanted === "none" ? 0 : 2);
      store.put(one("c"));
      await reported(host, wanted === "all" ? 3 : 0);
      const levels = { warning: "question", error: "failure", info: "result" };
      expect(host.messages.map(({ level }) => levels[level as keyof typeof levels]).sort()).toEqual([...kinds].sort());
      told.dispose();
    }
  });

  it("give way to the review, if the user wants that", async () => {
    const { host, store, made } = runs([live("a")]);
    host.settings.set("review.openAutomatically", true);
    const told = made();
    await told.started("a");
    store.put(one("a"));
    await vi.waitFor(() => expect(host.ran).toHaveLength(1));
    expect(host.messages).toEqual([]);
    expect(host.ran).toEqual([{ id: "understudy.review.open", values: ["a"] }]);
    told.dispose();
  });

  it("do not give way to the review while another one is open", async () => {
    const { host, store, made } = runs([live("a")]);
    host.settings.set("review.openAutomatically", true);
    await host.memory.set("review", "b");
    const told = made();
    await told.started("a");
    store.put(one("a"));
    await reported(host);
    expect(host.messages).toMatchObject([{ level: "info", text: expect.stringContaining("to review") as string }]);
    expect(host.ran).toEqual([]);
    told.dispose();
  });

  it("report results after a reload that were missed", async () => {
    const { host, store, made } = runs([live("a"), live("b")]);
    const before = made();
    await before.started("a");
    await before.started("b");
    before.dispose();
    store.put(one("b", { verdict: "failed", error: { kind: "tool_crashed", message: "It broke.", hint: "Look." } }));
    const after = made();
    store.tell({ delegationList: true });
    await reported(host);
    expect(host.messages).toMatchObject([
      { level: "error", text: expect.stringContaining("It broke. Look.") as string },
    ]);
    after.dispose();
  });

  it("combine many results into one", async () => {
    const ids = ["a", "b", "c", "d", "e"];
    const { host, store, made } = runs(ids.map((id) => one(id)));
    await host.memory.set("delegations.started", ids);
    const told = made();
    store.tell({ delegationList: true });
    await settled();
    await reported(host);
    expect(host.messages).toEqual([{ level: "info", text: "5 delegations finished: 5 × Verified." }]);
    told.dispose();
  });

  it("wait until the user has left the tab of a new delegation", async () => {
    const { host, store, made } = runs([live("a"), live("b")]);
    const told = made();
    let leave = (): void => {};
    host.panelLeft = new Promise((resolve) => (leave = resolve));
    await told.started("a");
    await told.started("b");
    store.put(one("a"));
    await reported(host, 0);
    store.put(one("b", { verdict: "failed" }));
    await reported(host, 0);
    expect(host.messages).toEqual([]);
    leave();
    await reported(host);
    expect(host.messages).toEqual([{ level: "error", text: "2 delegations finished: 1 × Verified, 1 × Failed." }]);
    told.dispose();
  });

  it("say what happened to a question that no one answered", async () => {
    const { host, store, made } = runs([waiting("a")]);
    const told = made();
    store.tell({ delegationList: true });
    await settled();
    const { attempt, requestId } = waiting("a").waitingFor!;
    const answered = { type: "permission_answered", seq: 9, at: "", attempt, requestId, option: "r" } as const;
    store.happened.fire({ id: "a", events: [{ ...answered, by: "lsp" }] });
    store.happened.fire({ id: "b", events: [{ ...answered, by: "deadline" }] });
    expect(host.messages).toHaveLength(1);
    host.buttons.push("Open Transcript");
    store.happened.fire({ id: "a", events: [{ ...answered, by: "deadline" }] });
    await settled();
    expect(host.messages.at(-1)?.text).toBe(
      "“Tests for greeting/wrapping.py” asked: Run a command. The answer is “Reject”, because no one answered in time.",
    );
    expect(host.ran).toEqual([{ id: "understudy.delegations.open", values: ["a"] }]);
    told.dispose();
  });

  it("ignore delegations started elsewhere", async () => {
    const { host, store, made } = runs([live("a")], false);
    const told = made();
    store.put(one("a"), waiting("b"));
    await settled();
    expect(host.messages).toEqual([]);
    expect(host.progresses).toEqual([]);
    expect(host.statuses).toEqual([]);
    told.dispose();
  });

  it("show a question once, without permanent answers, and send the answer", async () => {
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
        text: "ghostwriter asks in “Tests for greeting/wrapping.py”: Run a command: pip install freezegun",
      },
    ]);
    expect(peer.params("understudy/delegations/answer")).toEqual([{ id: "a", requestId: "1", option: "r" }]);
    expect(host.statuses.at(-1)).toMatchObject({ command: "understudy.delegations.answer" });
    told.dispose();
  });

  it.each([
    ["Bash: rm -r build", "rm -r build", "Runs: rm -r build"],
    ["Look at ./a.txt", "./a", "Runs: ./a"],
    ["rm -r build", "rm -r build", "Runs: rm -r build"],
    ["Clean up", "rm -r build", "Clean up: Runs: rm -r build"],
  ])("say once what is asked: %s, %s", async (title, command, said) => {
    const asked = waiting("a");
    asked.waitingFor = { ...asked.waitingFor!, kind: "execute", title, command, detail: command };
    const { host, store, made } = runs([asked]);
    const told = made();
    store.tell({ delegationList: true });
    await settled();
    expect(host.messages.map(({ text }) => text)).toEqual([
      `ghostwriter asks in “Tests for greeting/wrapping.py”: ${said}`,
    ]);
    told.dispose();
  });

  it("ask for the text that answers a question, and send nothing without one", async () => {
    const asked = waiting("a");
    asked.waitingFor = {
      ...asked.waitingFor!,
      title: "Which database?",
      detail: "Which database?",
      kind: "question",
      options: [
        { id: "choice1", title: "SQLite", kind: "allow_once" },
        { id: "text", title: "Answer with a text", kind: "allow_once", takesText: true },
        { id: "decline", title: "Do not answer", kind: "reject_once" },
      ],
    };
    const { host, store, peer, made } = runs([asked]);
    const told = made();
    host.buttons.push("Answer with a text");
    host.answers.push({ enter: "MySQL" });
    store.tell({ delegationList: true });
    await settled();
    expect(host.messages).toEqual([
      { level: "warning", text: "ghostwriter asks in “Tests for greeting/wrapping.py”: Which database?" },
    ]);
    host.answers.push({ cancel: true });
    expect(await told.answer(asked, "text")).toBe(false);
    expect(await told.answer(asked, "choice1")).toBe(true);
    expect(peer.params("understudy/delegations/answer")).toEqual([
      { id: "a", requestId: "1", option: "text", note: "MySQL" },
      { id: "a", requestId: "1", option: "choice1" },
    ]);
    told.dispose();
  });

  it("have no button for permanent answers", async () => {
    const asked = waiting("a");
    asked.waitingFor!.options = [{ id: "aa", title: "Always", kind: "allow_always" }];
    const { host, store, peer, made } = runs([asked]);
    const told = made();
    host.buttons.push("Always");
    store.tell({ delegationList: true });
    await settled();
    expect(host.buttons).toEqual(["Always"]); // no one could press it
    expect(peer.params("understudy/delegations/answer")).toEqual([]);
    told.dispose();
  });

  it("ask again when the answer did not reach the agent", async () => {
    const asked = waiting("a");
    const { host, store, peer, made } = runs([asked]);
    peer.answer("understudy/delegations/answer", () => {
      throw new Error("Understudy is not running.");
    });
    const told = made();
    host.buttons.push("Reject");
    store.tell({ delegationList: true });
    await settled();
    const question = "ghostwriter asks in “Tests for greeting/wrapping.py”: Run a command: pip install freezegun";
    expect(host.messages.map(({ text }) => text)).toEqual([question, "Understudy is not running.", question]);
    told.dispose();
  });

  it("do not ask again in a window that ends", async () => {
    const asked = waiting("a");
    const { host, store, made } = runs([asked]);
    let shown = 0;
    host.windows.message = () => {
      shown += 1;
      return Promise.reject(new Error("Canceled"));
    };
    const told = made();
    store.tell({ delegationList: true });
    await settled();
    expect(shown).toBe(2); // the question, and the error
    told.dispose();
  });

  it("report that a question was already answered", async () => {
    const { host, peer, made } = runs([waiting("a")]);
    peer.answer("understudy/delegations/answer", () => {
      throw refusal("delegations-answer.second");
    });
    const told = made();
    expect(await told.answer(waiting("a"), "r")).toBe(false);
    expect(host.messages.at(-1)?.text).toBe("“Run a command” was already answered. The first answer counts.");
    told.dispose();
  });

  it("show a status bar item while a delegation is running", () => {
    const { host, store, made } = runs([live("a"), live("b")]);
    const told = made();
    store.tell({ delegationList: true });
    expect(host.statuses.at(-1)).toMatchObject({
      text: "$(robot) Tests for gr…wrapping.py · Writing tests | Tests for gr…wrapping.py · Writing tests",
      command: "understudy.delegations.focus",
      spoken: "Delegations: Tests for gr…wrapping.py · Writing tests | Tests for gr…wrapping.py · Writing tests",
    });
    store.put(live("a", { activity: "Reading" }));
    expect(host.statuses.at(-1)?.spoken).toBe(
      "Delegations: Tests for gr…wrapping.py · Reading | Tests for gr…wrapping.py · Writing tests",
    );
    const count = { of: "small_changes", done: 4, total: 40, secondsLeft: 30 } as const;
    store.put(live("a", { state: "checking", count }), live("c"));
    expect(host.statuses.at(-1)?.text).toBe(
      "$(robot) Tests for gr…wrapping.py · Writing tests | " +
        "Tests for gr…wrapping.py · tried 4 of 40 small changes, about 30 s left (and 1 more)",
    );
    expect(host.statuses.at(-1)?.tooltip).toContain("Checking: tried 4 of 40 small changes, about 30 s left");
    store.put(one("c"), live("a", { activity: "Reading" }));
    expect(host.statuses.at(-1)?.tooltip).toContain("command:understudy.delegations.cancel?%5B%22a%22%5D");
    // The one that runs, not one that waits in the queue before it.
    store.put(live("a", { state: "queued", activity: "Queued, position 1", title: "Later" }));
    expect(host.statuses.at(-1)?.text).toBe("$(robot) Tests for greeting/wrapping.py · Writing tests (and 1 more)");
    told.dispose();
  });
});

describe("a command from the palette", () => {
  const START = "20261121-0045";
  const [FIRST, SECOND, ELSEWHERE, ENDED] = ["12-aaaaa", "13-bbbbb", "14-ccccc", "15-ddddd"].map((id) => START + id);

  function palette(all: readonly Delegation[]) {
    const host = new FakeHost();
    const peer = new GoldenSidecar()
      .answer("understudy/delegations/cancel", DONE)
      .answer("understudy/delegations/dismissRun", {})
      .answer("understudy/delegations/discard", { rescueRef: "refs/rescue/1" });
    registerDelegationCommands({
      host,
      requester: peer,
      store: new HandStore(all) as never,
      rows: { more: () => false },
      notifications: { started: () => Promise.resolve(), answer: () => Promise.resolve(true) },
      transcripts: { show: () => undefined },
      inWindow: ({ workspace }) => workspace !== "/elsewhere",
    });
    return { host, peer, run: (name: string) => host.commands.run(`understudy.delegations.${name}`) };
  }

  it("asks which of those that it applies to, in this window, and says what each does", async () => {
    const title = `Write ${"very ".repeat(20)}long tests`;
    const { host, peer, run } = palette([
      live(FIRST!, { title }),
      live(SECOND!, { activity: "Reading" }),
      live(ELSEWHERE!, { workspace: "/elsewhere" }),
      one(ENDED!),
    ]);
    host.answers.push({ pick: SECOND! });
    await run("cancel");
    expect(peer.params("understudy/delegations/cancel")).toEqual([{ id: SECOND }]);
    const [{ placeholder, items } = { items: [] }] = host.shown;
    expect(placeholder).toBe("Choose the delegation to cancel");
    expect(items.map(({ id }) => id)).toEqual([FIRST, SECOND]);
    expect(items.map(({ description }) => description)).toEqual([
      "Writing tests · ghostwriter",
      "Reading · ghostwriter",
    ]);
    expect(items[0]?.label.length, "the rest stays visible").toBe(60);
    host.answers.push({ cancel: true });
    await run("cancel");
    expect(peer.params("understudy/delegations/cancel")).toHaveLength(1);
  });

  it("offers those of other windows only if there is none here, and says when there is none at all", async () => {
    const { host, run } = palette([live(ELSEWHERE!, { workspace: "/elsewhere" })]);
    host.answers.push({ pick: ELSEWHERE! });
    await run("cancel");
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual([ELSEWHERE]);
    await run("discard");
    expect(host.messages.map(({ text }) => text)).toEqual(["No delegation is available for this command."]);
  });

  it("says why, with what repairs it, if no engine answers", async () => {
    const host = new FakeHost();
    const missing = new SidecarError({ kind: "connection_failed", message: "Not installed." });
    registerDelegationCommands({
      host,
      requester: { request: () => Promise.reject(missing) },
      store: Object.assign(new HandStore([]), { loaded: false }) as never,
      rows: { more: () => false },
      notifications: { started: () => Promise.resolve(), answer: () => Promise.resolve(true) },
      transcripts: { show: () => undefined },
      inWindow: () => true,
    });
    await expect(host.handlers.get("understudy.delegations.cancel")?.()).rejects.toBe(missing);
    expect(host.messages).toEqual([]);
  });

  it("discards several results after one question that names them", async () => {
    const { host, peer, run } = palette([one(FIRST!, { title: "One" }), one(SECOND!, { title: "Two" }), live(ENDED!)]);
    host.answers.push({ pick: [FIRST!, SECOND!] });
    host.buttons.push("Discard");
    await run("discard");
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual([FIRST, SECOND]);
    expect(host.messages).toMatchObject([
      { text: "Discard 2 results?", detail: expect.stringMatching(/^• One\n• Two\n/) as string },
      { text: "2 results discarded." },
    ]);
    expect(peer.params("understudy/delegations/discard")).toEqual([{ id: FIRST }, { id: SECOND }]);
  });

  it("dismisses all failed runs of this window at once", async () => {
    const failed = { verdict: "failed", review: { pending: 0, accepted: 0, rejected: 0 } } as const;
    const { peer, run } = palette([
      one(FIRST!, failed),
      one(SECOND!, { ...failed, verdict: "no_changes" }),
      one(ELSEWHERE!, { ...failed, workspace: "/elsewhere" }),
      one(ENDED!),
    ]);
    await run("dismissAll");
    expect(peer.params("understudy/delegations/dismissRun")).toEqual([{ id: FIRST }, { id: SECOND }]);
  });
});

describe("Show Log", () => {
  async function shown(files: readonly { attempt: number; path: string }[], error?: Delegation["error"]) {
    const host = new FakeHost();
    const transcripts: string[] = [];
    const logs = { prompt: "x", files: files.map((file) => ({ ...file, bytes: 3 })) };
    registerDelegationCommands({
      host,
      requester: new GoldenSidecar().answer("understudy/delegations/logs", logs),
      store: new HandStore([one(DONE.id, { verdict: "failed", ...(error ? { error } : {}) })]) as never,
      rows: { more: () => false },
      notifications: { started: () => Promise.resolve(), answer: () => Promise.resolve(true) },
      transcripts: { show: ({ id }) => void transcripts.push(id) },
      inWindow: () => true,
    });
    await host.handlers.get("understudy.delegations.showLog")?.(DONE.id);
    return [...host.opened.map(({ uri }) => uri), ...transcripts];
  }

  it("opens what the program printed in the last attempt, its errors first, otherwise the transcript", async () => {
    const [out, err] = ["/s/a b/stdout.log", "/s/a b/stderr.log"];
    const first = [{ attempt: 1, path: err }, { attempt: 1, path: out }]; // prettier-ignore
    expect(await shown(first)).toEqual(["file:///s/a%20b/stderr.log"]);
    expect(await shown([...first, { attempt: 2, path: "/s/stdout.2.log" }])).toEqual(["file:///s/stdout.2.log"]);
    expect(await shown([])).toEqual([DONE.id]);
  });

  it("opens the log that explains the failure, which no text names", async () => {
    const error = { kind: "internal" as const, message: "A bug.", hint: "Report it.", logPaths: ["/s/worker.log"] };
    expect(await shown([{ attempt: 1, path: "/s/stderr.log" }], error)).toEqual(["file:///s/worker.log"]);
    expect(formatting.errorText(error)).toBe("A bug. Report it.");
  });
});

describe("the terminal of an agent", () => {
  it("is offered on the row only while there is one", () => {
    const terminal = { socket: "/tmp/tmux-1000/default", id: "%3" };
    const rows = [live("a", { terminal }), live("b"), one("c", { terminal })];
    const context = (delegation: Delegation): string | undefined => {
      const tree = new DelegationTree({ store: new HandStore([delegation]), inWindow: () => true });
      const [group = ""] = tree.children(undefined);
      return tree.row(tree.children(group)[0] ?? "")?.context;
    };
    expect(rows.map(context).map((found) => found?.split(" ").includes("terminal"))).toEqual([true, false, false]);
  });

  it("opens in a terminal of the editor, without a shell", async () => {
    const host = new FakeHost();
    const { argv } = result("understudy/delegations/attach", "delegations-attach.valid");
    registerDelegationCommands({
      host,
      requester: new GoldenSidecar().answer("understudy/delegations/attach", { argv }),
      store: new HandStore([live(DONE.id, { terminal: { socket: "/s", id: "%3" } })]) as never,
      rows: { more: () => false },
      notifications: { started: () => Promise.resolve(), answer: () => Promise.resolve(true) },
      transcripts: { show: () => undefined },
      inWindow: () => true,
    });
    await host.handlers.get("understudy.delegations.attach")?.(DONE.id);
    expect(host.programs).toEqual([["Tests for greeting/wrapping.py", ...argv]]);
  });
});
