import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { App } from "../../src/appContext.ts";
import { Emitter, type Disposable } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { Store } from "../../src/state/store.ts";
import type { Delegation, DiffResult, Event, FileDiff, Hunk } from "../../src/protocol.ts";
import { registerReview } from "../../src/review/registerReview.ts";
import { MAX_KEPT, MAX_MERGING } from "../../src/review/conflicts.ts";
import { hunkRow } from "../../src/review/hunks.ts";
import { BASE, EDIT, EMPTY, EVIDENCE, RESULT, THEIRS, reviewUri, YOURS } from "../../src/review/reviewUris.ts";
import { evidenceUri } from "../../src/review/reviewEditor.ts";
import { FileMissing, type FileChange } from "../../src/host/host.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, golden, refusal, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const DELEGATION = result("understudy/delegations/get", "delegations-get.valid");
const ID = DELEGATION.id;
const WRAP = "greeting/wrapping.py";
const BASE_TEXT = Array.from({ length: 80 }, (_, index) => `line ${index + 1}\n`).join("");
const DECIDED = result("understudy/delegations/decide", "delegations-decide.valid");
const ROW = (hunk: string): string => hunkRow(ID, WRAP, hunk);

/** The result of the golden decision: three hunks in one file. */
function diff(): DiffResult {
  const hunks = DECIDED.hunks.map(({ id, oldStart, oldLines, newStart, newLines }): Hunk => {
    return { id, oldStart, oldLines, newStart, newLines, state: "pending", conflict: false, edited: false };
  });
  const files: DiffResult["files"] = [
    { path: WRAP, status: "modified", binary: false, hunks },
    ...result("understudy/delegations/diff", "delegations-diff.flagged").files,
    { path: '"na\\303\\257ve.png"', status: "modified", binary: true, hunks: [{ ...hunks[0]!, id: "99aabbccddee" }] },
  ];
  return { base: "4b1f6d2c", head: "c0ffee5eed0123456789abcdef0123456789abcd", files, undoable: [] };
}

const atTop = (uri: string): typeof host.active => {
  const start = { line: 0, character: 0 };
  return { uri, selection: { start, end: start }, selectionEmpty: true };
};

const accepted = (hunk: Hunk): Hunk => ({ ...hunk, state: "accepted" });

let host: FakeHost;
let peer: GoldenSidecar;
let store: Store;
let feature: Disposable;
let now: DiffResult;
let delegation: Delegation;
let resultText: string;
let states: Emitter<{ kind: string }>;
/** Messages to the user. */
let started: string[];

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  now = diff();
  delegation = structuredClone(DELEGATION);
  resultText = BASE_TEXT.replace("line 12\nline 13\n", "new 12\nnew 13\nnew 14\n");
  host = new FakeHost();
  peer = new GoldenSidecar()
    .answer("understudy/delegators/list", { delegators: [], problems: [] })
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [], problems: [] })
    .answer("understudy/delegations/list", () => ({ delegations: [delegation] }))
    .answer("understudy/delegations/get", () => delegation)
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/events", { events: [], last: 21 })
    .answer("understudy/delegations/diff", () => now)
    .answer("understudy/delegations/file", ({ side }) => ({
      text: side === "base" ? BASE_TEXT : resultText,
      mode: "100644",
    }));
  store = new Store({ requester: peer, subscriber: peer, workspaces: () => [], log: () => {}, batchMs: 0 });
  begin();
  await store.attach();
});

/** A window opens. */
function begin(): void {
  states = new Emitter();
  const sidecar = Object.assign(peer, { onDidChange: states.subscribe, state: { kind: "running" } });
  started = [];
  const told = new Emitter<string>();
  told.subscribe((id) => started.push(id));
  feature = registerReview({ host, sidecar, store, interceptors: new Map(), started: told } as unknown as App);
}

afterEach(() => {
  feature.dispose();
  store.dispose();
  vi.useRealTimers();
});

async function reviewing(): Promise<void> {
  await host.commands.run("understudy.review.open", ID);
  await settle();
}

/** Wait for intended delays and their effects. */
async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(80);
  await settled();
}

function rows(id?: string): string[] {
  const view = host.rows.get("understudy.review")!;
  return view.children(id).flatMap((child) => {
    const { label, description = "", icon, context } = view.row(child)!;
    return [`${label} | ${description} | ${icon?.id ?? ""} | ${context}`, ...rows(child).map((line) => `  ${line}`)];
  });
}

/** Like the sidecar: states of hunks change in the diff, too. */
function decides(answer = DECIDED): void {
  peer.answer("understudy/delegations/decide", () => {
    const states = new Map(answer.hunks.map((hunk) => [hunk.id, hunk]));
    const { undoToken } = answer;
    now = {
      ...now,
      files: now.files.map((file) => ({ ...file, hunks: file.hunks.map((hunk) => states.get(hunk.id) ?? hunk) })),
      undoable: undoToken === undefined ? [] : [{ undoToken, paths: [WRAP] }],
    };
    return answer;
  });
}

describe("opening a review", () => {
  it("asks for a result from the palette, if the open one is complete and another one has pending changes", async () => {
    await reviewing();
    await host.commands.run("understudy.review.open");
    expect(host.shown).toEqual([]); // the open one
    const files = now.files.map((file) => ({
      ...file,
      hunks: file.hunks.map((one) => ({ ...one, state: "accepted" as const })),
    }));
    now = { ...now, files };
    await reviewing();
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.review.open");
    expect(host.shown.map(({ title }) => title)).toEqual(["Review"]);
  });

  it("shows a collapsed bar again when its change is visited", async () => {
    await reviewing();
    const id = ROW("5a1e0c77b9d2");
    host.bars.delete(id); // collapsed or removed: the editor does not report it
    await host.commands.run("understudy.review.show", id);
    expect([...host.bars.keys()]).toContain(id);
    expect(host.bars.get(id)?.content).toMatchObject({ context: "pending" });
  });

  it("shows all files as one diff, and the verdict with its evidence above the first hunk", async () => {
    await reviewing();
    expect(host.diffs).toMatchObject([
      {
        title: "Review: Tests for greeting/wrapping.py",
        tab: { opened: false },
        pairs: [
          { label: "wrapping.py: Review", base: reviewUri(BASE, ID, WRAP), result: reviewUri(RESULT, ID, WRAP) },
          { label: "test.yml: Review", result: reviewUri(RESULT, ID, ".github/workflows/test.yml") },
          {
            label: "naïve.png: Review",
            base: reviewUri(BASE, ID, "naïve.png"),
            result: reviewUri(RESULT, ID, "naïve.png"),
          },
        ],
      },
    ]);
    expect(rows().slice(0, 7)).toEqual([
      "Verified | Tests for greeting/wrapping.py | verified-filled | verdict hasPending",
      "  pytest | 4 passed in 1.9 s · 14 of 20 small changes noticed | pass | check",
      "  No sandbox | the agent had your permissions | unlock | confined",
      "wrapping.py | greeting · 3 pending | file | reviewFile pending editable",
      "  new 12 | line 12 · +3 −2 | circle-large-outline | hunk pending editable",
      "  line 40 | line 41 · +1 −1 | circle-large-outline | hunk pending editable",
      "  line 71 | line 72 · +3 −3 | circle-large-outline | hunk pending editable",
    ]);
    expect(host.contexts.get("understudy.reviewing")).toBe(true);
  });

  it("offers to accept the active file in the title of the editor while it has pending changes", async () => {
    const offered = (): unknown => host.contexts.get("understudy.pendingFile");
    const show = (uri: string | undefined): void => {
      host.active = uri === undefined ? undefined : atTop(uri);
      host.activeChanged.fire(host.active);
    };
    await reviewing();
    expect(offered()).toBe(false);
    show(reviewUri(RESULT, ID, WRAP));
    expect(offered()).toBe(true);
    show("file:///home/ada/greeting/greeting/wrapping.py");
    expect(offered()).toBe(false);
    show(reviewUri(RESULT, ID, WRAP));
    now = { ...now, files: now.files.map((file) => ({ ...file, hunks: file.hunks.map(accepted) })) };
    await host.commands.run("understudy.review.open", ID);
    show(reviewUri(RESULT, ID, WRAP));
    expect(offered()).toBe(false);
  });

  it("offers to accept a binary file, which has no cursor, when it is visited or the only one", async () => {
    const offered = (): unknown[] =>
      ["reviewEditor", "pendingFile"].map((key) => host.contexts.get(`understudy.${key}`));
    const show = (active: typeof host.active): void => {
      host.active = active;
      host.activeChanged.fire(active);
    };
    const binary = now.files.at(-1)!;
    await reviewing();
    host.activeDiffs = "Review: Tests for greeting/wrapping.py";
    show(undefined);
    expect(offered(), "which of the files?").toEqual([false, false]);
    await host.commands.run("understudy.review.show", `file:${ID}:${binary.path}`);
    expect(host.diffs.at(-1)?.tab?.at, "there is no line to go to").not.toHaveProperty("range");
    expect(offered()).toEqual([true, true]);
    // In a tab of its own, "Open Diff", the file has no text editor either.
    const uri = reviewUri(RESULT, ID, "naïve.png");
    show(atTop(uri));
    expect(offered()).toEqual([true, true]);
    now = { ...now, files: [binary] };
    await reviewing();
    show(undefined);
    expect(offered()).toEqual([true, true]);
    decides({ ...DECIDED, hunks: [accepted({ ...DECIDED.hunks[0]!, id: binary.hunks[0]!.id })] });
    expect(host.contexts.get("understudy.pendingBinaries")).toEqual(["/naïve.png"]);
    await host.commands.run("understudy.review.acceptFile", uri); // from the title of its own diff
    await host.commands.run("understudy.review.acceptFile");
    const wanted = { decisions: [{ path: binary.path }] };
    expect(peer.params("understudy/delegations/decide")).toMatchObject([wanted, wanted]);
    await settle();
    expect(offered()).toEqual([true, false]);
    expect(host.contexts.get("understudy.pendingBinaries")).toEqual([]);
    host.activeDiffs = undefined;
    show(undefined);
    expect(offered()).toEqual([false, false]);
  });

  it("offers nothing for a text file without a cursor: the user may look at another one", async () => {
    host.activeDiffs = "Review: Tests for greeting/wrapping.py";
    await reviewing();
    await host.commands.run("understudy.review.show", ROW(now.files[0]!.hunks[2]!.id));
    host.active = undefined; // collapsed
    host.activeChanged.fire(undefined);
    expect(host.contexts.get("understudy.reviewEditor")).toBe(false);
    expect(host.contexts.get("understudy.pendingFile")).toBe(false);
    await host.commands.run("understudy.review.acceptHunk");
    now = { ...now, files: now.files.slice(0, 1) };
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk");
    expect(peer.params("understudy/delegations/decide")).toEqual([]);
    expect(host.messages.map(({ text }) => text)).toEqual([
      expect.stringContaining("Place the cursor on a change"),
      expect.stringContaining("Place the cursor on a change"),
    ]);
  });

  it("decides on the visited change of a binary file, whatever is selected in the view", async () => {
    decides();
    const binary = now.files.at(-1)!;
    const [first] = binary.hunks;
    now = { ...now, files: [...now.files.slice(0, -1), { ...binary, hunks: [first!, { ...first!, id: "mode" }] }] };
    host.activeDiffs = "Review: Tests for greeting/wrapping.py";
    await reviewing();
    await host.commands.run("understudy.review.show", hunkRow(ID, binary.path, "mode"));
    host.treeSelection = [ROW(now.files[0]!.hunks[0]!.id)];
    await host.commands.run("understudy.review.acceptHunk");
    expect(peer.params("understudy/delegations/decide").at(-1)).toMatchObject({
      decisions: [{ path: binary.path, hunk: "mode", decision: "accept" }],
    });
    await host.commands.run("understudy.review.show", hunkRow(ID, binary.path, "mode"));
    await host.commands.run("understudy.review.rejectFile");
    expect(peer.params("understudy/delegations/decide").at(-1)).toMatchObject({
      decisions: [{ path: binary.path, decision: "reject" }],
    });
    host.activeDiffs = undefined; // the view has the focus, beside another editor
    await host.commands.run("understudy.review.acceptHunk");
    expect(peer.params("understudy/delegations/decide").at(-1)).toMatchObject({
      decisions: [{ path: WRAP, hunk: now.files[0]!.hunks[0]!.id, decision: "accept" }],
    });
  });

  it("goes to a change in the tab of the review, also in the next window, and renews the tab with the files", async () => {
    await reviewing();
    const hunk = now.files[0]!.hunks[1]!;
    await host.commands.run("understudy.review.show", ROW(hunk.id));
    const [, { tab } = {}] = host.diffs;
    expect(tab).toMatchObject({
      id: host.diffs[0]?.tab?.id,
      opened: true,
      at: { range: { start: { line: expect.anything() as number } } },
    });
    expect(tab?.at?.pair.result).toBe(reviewUri(RESULT, ID, WRAP));
    feature.dispose();
    host.handlers.clear();
    begin();
    await host.commands.run("understudy.review.show", ROW(hunk.id));
    expect(host.diffs.at(-1)?.tab).toEqual(tab);
    now = { ...now, files: now.files.slice(0, 1) };
    await reviewing();
    expect(host.diffs.at(-1)?.tab).toMatchObject({ opened: false });
    expect(host.diffs.at(-1)?.tab?.id).not.toBe(tab?.id);
  });

  it("shows every reservation before anything can be accepted", async () => {
    const fact = { reservation: "outside_scope", text: "The recipe must not change: [x](command:evil)." } as const;
    delegation = {
      ...delegation,
      verdict: "unverified",
      reservations: ["not_mutation_tested", "outside_scope"],
      reservationFacts: [fact],
    };
    await store.read(ID);
    await reviewing();
    expect(rows().slice(0, 3)).toEqual([
      expect.stringMatching(/^Unverified \|/),
      "  Nothing shows that the tests can fail |  | warning | reservation",
      "  The recipe must not change: [x](command:evil) |  | warning | reservation",
    ]);
    const [top, ...bars] = [...host.bars.values()].map(({ content }) => content);
    const error = { kind: "tool_crashed", message: "It exited with code 1: no such file.", hint: "Retry." } as const;
    delegation = { ...delegation, verdict: "failed", reservations: [], error, lastSeq: delegation.lastSeq + 1 };
    await store.read(ID);
    await settle();
    expect([...host.bars.values()][0]?.content).toMatchObject({
      label: "Failed",
      note: expect.stringContaining("It exited with code 1: no such file.") as string,
    });
    expect(top).toMatchObject({
      label: "Unverified",
      note: expect.stringContaining(
        "Nothing shows that the tests can fail; The recipe must not change: [x](command:evil).",
      ) as string,
      context: "verdict",
      range: undefined, // above the first line: it splits nothing
    });
    // The other bars say only what differs.
    expect(bars.map((bar) => [bar?.label, bar?.note])).toEqual([
      ["Change 1 of 5 · +3 −2", ""],
      ["Change 2 of 5 · +1 −1", ""],
      ["Change 3 of 5 · +3 −3", ""],
      ["Change 4 of 5 · new · +9", "runs in continuous integration"],
    ]);
  });

  it("says the verdict with its evidence above the rows and at the top of the first file", async () => {
    const places = (["noticed", "new_test", "unexecuted"] as const).map((evidence) => ({
      ...{ hunk: "5a1e0c77b9d2", path: WRAP, line: 12, lines: 1, function: "wrap", why: "no test runs it", evidence },
    }));
    delegation = { ...delegation, places, lastSeq: delegation.lastSeq + 1 };
    await store.read(ID);
    await reviewing();
    const facts = "4 passed · 2 of 3 changed places tested";
    expect(host.treeMessages.get("understudy.review")).toMatch(
      new RegExp(`^Verified · ${facts} · 14 of 20 small changes noticed · .*\\d:\\d\\d$`),
    );
    const note = host.bars.get(`verdict:${ID}`)?.content?.note;
    expect(note).toContain(facts);
    expect(note).toContain("Your code was broken on purpose 20 times; the tests noticed 14.");
    expect(note).not.toContain("14 of 20");
    await host.commands.run("understudy.review.close");
    expect(host.treeMessages.get("understudy.review")).toBeUndefined();
  });

  it("shows who decided and with what in the lines of a decided change", async () => {
    const [one, two, three] = now.files[0]!.hunks;
    const hunks: Hunk[] = [
      { ...one!, state: "accepted", by: "cli", undoToken: "t1" },
      { ...two!, state: "accepted", by: "lsp", undoToken: "t1" },
      { ...three!, state: "rejected", by: "lsp", reason: "Too long." },
    ];
    now = { ...now, files: [{ ...now.files[0]!, hunks }, ...now.files.slice(1)] };
    await reviewing();
    const lines = (scheme: string): unknown => host.greyed.get(scheme)!(reviewUri(scheme, ID, WRAP));
    expect(lines(RESULT)).toEqual([
      { line: 11, count: 3, struck: false, note: "Accepted on the command line, with 1 other" },
      { line: 40, count: 1, struck: false, note: "Accepted by you, with 1 other" },
      { line: 71, count: 3, struck: true, note: "Rejected by you: Too long." },
    ]);
    expect(lines(BASE)).toMatchObject([{ count: 2, note: "" }, { count: 1 }, { count: 3, struck: false }]);
    expect(rows().slice(4, 7)).toEqual([
      expect.stringContaining("| accepted on the command line · line 12"),
      expect.stringContaining("| accepted · line 41"),
      expect.stringContaining("| rejected: Too long. · line 72"),
    ]);
  });

  it("says that a change was rejected before, and why", async () => {
    const [one, ...others] = now.files[0]!.hunks;
    const again: Hunk = { ...one!, rejectedBefore: { id: "20261121-004512-k3f9q", reason: "Keep it short." } };
    now = { ...now, files: [{ ...now.files[0]!, hunks: [again, ...others] }] };
    await reviewing();
    expect(rows()[4]).toContain("new 12 | rejected before · line 12");
    const row = host.rows.get("understudy.review")?.row(ROW(again.id));
    expect(row?.tooltip).toBe("You rejected this before: Keep it short.");
    expect(row?.spoken).toContain("you rejected this before: Keep it short.");
    expect(host.bars.get(ROW(again.id))?.content?.note).toBe("you rejected this before: Keep it short.");
  });

  it("offers to add a check in the bar of the verdict where none ran", async () => {
    delegation = { ...delegation, verdict: "unverified", reservations: ["no_checks"] };
    await store.read(ID);
    await reviewing();
    expect(host.bars.get(`verdict:${ID}`)?.content).toMatchObject({
      label: "Unverified",
      note: expect.stringContaining("No required check ran.") as string,
      context: "verdictWithoutChecks",
    });
    const row = host.rows.get("understudy.review")?.row(`reservation:${ID}:no_checks`);
    expect(row?.command?.id).toBe("understudy.checks.add");
  });

  it("shows the actions of a long change at its first line, of a short one below it", async () => {
    const [hunk] = diff().files[0]!.hunks;
    const long = (id: string, newStart: number, newLines: number): Hunk => ({ ...hunk!, id, newStart, newLines });
    const hunks = [long("a", 3, 2), long("b", 10, 20), long("c", 40, 21), long("d", 100, 300)];
    now = {
      ...now,
      files: [
        { ...now.files[0]!, hunks },
        { ...now.files[0]!, path: "new.py", status: "added", hunks: [long("e", 1, 90)] },
      ],
    };
    await reviewing();
    const line = (path: string, id: string): number | undefined =>
      host.bars.get(hunkRow(ID, path, id))?.content?.range?.start.line;
    // A bar is below its line: after the line above, the first line of the change is next.
    expect(["a", "b", "c", "d"].map((id) => line(WRAP, id))).toEqual([3, 28, 38, 98]);
    expect(line("new.py", "e")).toBe(0);
  });

  it("says the verdict and what is pending to screen readers", async () => {
    await reviewing();
    const spoken = (): string | undefined => host.rows.get("understudy.review")?.row(`verdict:${ID}`)?.spoken;
    expect(spoken()).toBe("Verified, Tests for greeting/wrapping.py, 5 of 5 pending");
    const change = host.rows.get("understudy.review")?.row(ROW("5a1e0c77b9d2"))?.spoken;
    expect(change).toBe("pending, new 12, line 12, 3 lines added, 2 lines removed");
    decides();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    expect(spoken()).toBe("Verified, Tests for greeting/wrapping.py, 3 of 5 pending");
  });

  it("runs the checks again from the row that says that they are older than the result", async () => {
    delegation = { ...delegation, verdict: "unverified", reservations: ["checks_outdated"] };
    await store.read(ID);
    await reviewing();
    const view = host.rows.get("understudy.review")!;
    const id = `reservation:${ID}:checks_outdated`;
    expect(view.children(`verdict:${ID}`)).toContain(id);
    const row = view.row(id)!;
    expect([row.description, row.context]).toEqual(["Run Checks Again", "checksOutdated"]);
    peer.answer("understudy/delegations/check", () => delegation);
    await host.commands.run(row.command!.id, ...(row.command!.arguments ?? []));
    expect(peer.params("understudy/delegations/check")).toEqual([{ id: ID }]);
  });

  it("refuses delegations that are not finished or have no changes", async () => {
    delegation = { ...delegation, state: "running" };
    await store.read(ID);
    await host.commands.run("understudy.review.open", ID);
    delegation = { ...delegation, state: "finished", result: { files: [] } };
    await store.read(ID);
    await host.commands.run("understudy.review.open", ID);
    expect(host.messages.map(({ text }) => text)).toEqual([
      expect.stringContaining("is not finished yet"),
      expect.stringContaining("no changes to review"),
    ]);
    expect(host.diffs).toEqual([]);
  });

  it("stops checks on request, to decide now", async () => {
    const finished = delegation;
    delegation = { ...delegation, state: "checking" };
    await store.read(ID);
    peer.answer("understudy/delegations/cancel", () => {
      delegation = finished;
      return delegation;
    });
    await host.commands.run("understudy.review.open", ID);
    expect(host.messages.at(-1)?.text).toContain("You can decide when they have ended");
    expect([peer.params("understudy/delegations/cancel"), host.diffs]).toEqual([[], []]);
    host.buttons.push("Stop Checks and Decide Now");
    await host.commands.run("understudy.review.open", ID);
    expect(peer.params("understudy/delegations/cancel")).toEqual([{ id: ID, onlyChecks: true }]);
    expect(host.diffs).toHaveLength(1);
  });

  it("continues in a reloaded window, unless it was closed", async () => {
    await reviewing();
    const again = async (): Promise<void> => {
      feature.dispose();
      host.handlers.clear();
      begin();
      states.fire({ kind: "running" });
      await settle();
    };
    await again();
    expect(rows()[0]).toContain("Verified");
    expect(host.bars.size).toBe(5);
    // The sidecar ends at this moment: the next one continues.
    peer.answer("understudy/delegations/diff", () => {
      throw new SidecarError({ kind: "connection_failed", message: "it has stopped" });
    });
    await again();
    expect(rows()).toEqual([]);
    peer.answer("understudy/delegations/diff", () => now);
    states.fire({ kind: "running" });
    await settle();
    expect(rows()[0]).toContain("Verified");
    await host.commands.run("understudy.review.close");
    await again();
    expect(rows()).toEqual([]);
  });

  it("shows the page of evidence that the sidecar writes", async () => {
    peer.answer("understudy/delegations/evidence", { markdown: "# Verified: x\n" });
    const uri = evidenceUri(DELEGATION);
    expect(await host.provided.get(uri.slice(0, uri.indexOf(":")))?.text(uri)).toBe("# Verified: x\n");
    expect(peer.params("understudy/delegations/evidence")).toEqual([{ id: ID }]);
  });
});

describe("deciding", () => {
  it("accepts a hunk from its bar, and updates everything", async () => {
    decides();
    await reviewing();
    expect([...host.bars.keys()]).toHaveLength(5); // the verdict; a binary file has no place for a bar
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    expect(peer.params("understudy/delegations/decide")).toEqual([
      { id: ID, decisions: [{ path: WRAP, hunk: "5a1e0c77b9d2", decision: "accept" }] },
    ]);
    expect(rows().slice(3, 7)).toEqual([
      "wrapping.py | greeting · 1 pending | file | reviewFile pending decided editable",
      "  new 12 | accepted on the command line · line 12 · +3 −2 | pass-filled | hunk accepted editable",
      "  line 40 | rejected on the command line: Keep the old name. · line 41 · +1 −1 | circle-slash | hunk rejected editable",
      "  line 71 | Conflict · line 72 · +3 −3 | warning | hunk pending conflict editable",
    ]);
    expect(host.bars.get(ROW("5a1e0c77b9d2"))?.content).toMatchObject({ context: "accepted", collapsed: true });
    expect(host.bars.get(ROW("c03d5516aa4f"))?.content).toMatchObject({
      label: "Rejected on the command line",
      note: "Change 2 of 5: Keep the old name.",
    });
    expect(host.bars.get(ROW("77e0d1f4b2c9"))?.content).toMatchObject({ context: "conflict" });
    expect(host.messages.at(-1)?.text).toContain("has a conflict");
  });

  it("offers to undo what was accepted beside a conflict, and says that the file changed", async () => {
    const token = `${ID}.aa`;
    const [first, ...others] = DECIDED.hunks;
    decides({ ...DECIDED, hunks: [{ ...first!, undoToken: token }, ...others], undoToken: token });
    peer.answer("understudy/delegations/undo", {});
    await reviewing();
    host.buttons.push("Undo");
    await host.commands.run("understudy.review.acceptFile", ROW("5a1e0c77b9d2"));
    await settle();
    expect(host.messages.at(-1)?.text).toBe(
      `${WRAP} has a conflict: you and the agent both changed it. 1 change accepted.`,
    );
    expect(peer.params("understudy/delegations/undo")).toEqual([{ undoToken: token }]);
  });

  it("rejects the hunk at the cursor with a reason, and goes to the next pending one", async () => {
    const rejected = { ...DECIDED, conflicts: [], hunks: [{ ...DECIDED.hunks[1]!, id: "5a1e0c77b9d2" }] };
    decides(rejected);
    await reviewing();
    const at = { line: 12, character: 3 };
    host.active = {
      uri: reviewUri(RESULT, ID, WRAP),
      selection: { start: at, end: at },
      selectionEmpty: true,
    };
    host.answers.push({ enter: "  " }, { enter: "Keep the old name." });
    await host.commands.run("understudy.review.rejectHunkWithReason");
    expect(peer.params("understudy/delegations/decide")).toEqual([
      {
        id: ID,
        decisions: [{ path: WRAP, hunk: "5a1e0c77b9d2", decision: "reject", reason: "Keep the old name." }],
      },
    ]);
    expect(host.revealed.at(-1)).toBe(ROW("c03d5516aa4f"));
  });

  it("stays at a change that has a conflict", async () => {
    decides();
    await reviewing();
    const at = { line: 72, character: 0 };
    host.active = { uri: reviewUri(RESULT, ID, WRAP), selection: { start: at, end: at }, selectionEmpty: true };
    const shown = host.revealed.length;
    await host.commands.run("understudy.review.acceptHunk");
    expect(peer.params("understudy/delegations/decide")).toHaveLength(1);
    expect(host.revealed).toHaveLength(shown);
  });

  it("decides nothing if the cursor is not on a change", async () => {
    await reviewing();
    const at = { line: 60, character: 0 };
    host.active = {
      uri: reviewUri(RESULT, ID, WRAP),
      selection: { start: at, end: at },
      selectionEmpty: true,
    };
    await host.commands.run("understudy.review.acceptHunk");
    expect(peer.params("understudy/delegations/decide")).toEqual([]);
    expect(host.messages.at(-1)?.text).toContain("Place the cursor on a change");
  });

  it("accepts a flagged file only after a confirmation that names the reason", async () => {
    decides({ ...DECIDED, conflicts: [] });
    await reviewing();
    await host.commands.run("understudy.review.acceptAll"); // dismissed
    expect(peer.params("understudy/delegations/decide")).toEqual([]);
    expect(host.messages.at(-1)?.detail).toBe(".github/workflows/test.yml runs in continuous integration");

    host.buttons.push("Accept Only the Other Files");
    await host.commands.run("understudy.review.acceptAll");
    expect(peer.params("understudy/delegations/decide").at(-1)).toEqual({
      id: ID,
      decisions: [
        { path: WRAP, decision: "accept" },
        { path: '"na\\303\\257ve.png"', decision: "accept" },
      ],
    });
    host.buttons.push("Accept All");
    await host.commands.run("understudy.review.acceptFile", `file:${ID}:.github/workflows/test.yml`);
    expect(peer.params("understudy/delegations/decide").at(-1)).toMatchObject({ includeFlagged: true });
    await host.commands.run("understudy.review.rejectFile", `file:${ID}:.github/workflows/test.yml`);
    expect(peer.params("understudy/delegations/decide").at(-1)).not.toHaveProperty("flagged");
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    expect(peer.params("understudy/delegations/decide").at(-1)).not.toHaveProperty("flagged");
  });

  it("accepts only the changes of which every place is tested, if there are others", async () => {
    decides({ ...DECIDED, conflicts: [] });
    const tested = now.files[0]!.hunks[0]!.id;
    const mark = (value: boolean): void => {
      const files = now.files.map((file) => ({
        ...file,
        hunks: file.hunks.map((hunk) => ({ ...hunk, tested: hunk.id === tested && value })),
      }));
      now = { ...now, files };
    };
    mark(true);
    await reviewing();
    expect(host.contexts.get("understudy.canAcceptVerified")).toBe(true);
    await host.commands.run("understudy.review.acceptVerified");
    expect(peer.params("understudy/delegations/decide")).toEqual([
      { id: ID, decisions: [{ path: WRAP, hunk: tested, decision: "accept" }] },
    ]);
    mark(false);
    await reviewing();
    expect(host.contexts.get("understudy.canAcceptVerified")).toBe(false);
    await host.commands.run("understudy.review.acceptVerified");
    expect(host.messages.at(-1)?.text).toContain("no pending changes of which every place is tested");
  });

  it("rejects all pending changes after a question", async () => {
    decides();
    await reviewing();
    const pending = now.files.flatMap(({ hunks }) => hunks).filter(({ state }) => state === "pending").length;
    await host.commands.run("understudy.review.rejectAll");
    expect(peer.params("understudy/delegations/decide")).toEqual([]);
    host.buttons.push("Reject All");
    await host.commands.run("understudy.review.rejectAll");
    const [params] = peer.params("understudy/delegations/decide") as { decisions: { decision: string }[] }[];
    const sent = params?.decisions ?? [];
    expect(sent).toHaveLength(pending);
    expect(new Set(sent.map(({ decision }) => decision))).toEqual(new Set(["reject"]));
  });

  it.each([
    ["Send Back…", "understudy.review.sendBack", undefined],
    ["Retry with…", "understudy.delegations.retryWith", false],
  ])("ends with the next step of a rejected change: %s", async (title, command, follows) => {
    const [entry] = result("understudy/delegators/list", "delegators-list.valid").delegators;
    vi.spyOn(store, "delegator").mockReturnValue({ ...entry!, followsInstructions: follows });
    const [file] = now.files;
    now = { ...now, files: [{ ...file!, hunks: [file!.hunks[0]!] }] };
    decides({ ...DECIDED, conflicts: [], hunks: [{ ...DECIDED.hunks[0]!, state: "rejected" }] });
    await reviewing();
    host.buttons.push(title);
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.review.rejectHunk", ROW("5a1e0c77b9d2"));
    await settle();
    expect(host.ran.at(-1)).toEqual({ id: command, values: [ID] });
    expect(host.contexts.get("understudy.canSendBack")).toBe(follows !== false);
  });

  it("closes or sends back only the result that a message is about", async () => {
    await reviewing();
    const other = "20261121-020000-aaaaa";
    await host.commands.run("understudy.review.close", other);
    expect(host.contexts.get("understudy.reviewing")).toBe(true);
    peer.answer("understudy/delegations/get", () => ({ ...delegation, id: other, state: "running" }));
    await host.commands.run("understudy.review.sendBack", other);
    expect(host.shown).toEqual([]);
    expect(peer.params("understudy/delegations/reply")).toEqual([]);
    await host.commands.run("understudy.review.close", ID);
    expect(host.contexts.get("understudy.reviewing")).toBe(false);
  });

  it("does not confuse another conflict with a confirmation", async () => {
    peer.answer("understudy/delegations/decide", () => {
      throw refusal("delegations-amend.stale");
    });
    await reviewing();
    host.buttons.push("Accept All");
    await expect(host.commands.run("understudy.review.acceptAll")).rejects.toThrow("no longer c0ffee5eed01");
  });

  const ACCEPTED = { state: "accepted", undoToken: `${ID}.aa` } as const;

  it("asks which change to undo, of every decision and edit", async () => {
    const [first, second, third] = now.files[0]!.hunks;
    const hunks = [
      { ...first!, ...ACCEPTED },
      { ...second!, state: "rejected" as const, reason: "No." },
      { ...third!, ...ACCEPTED },
    ];
    now = {
      ...now,
      files: [{ ...now.files[0]!, hunks }],
      undoable: [{ undoToken: `${ID}.aa`, paths: [WRAP] }],
      edited: [{ path: "gone.py", at: "2026-11-21T00:45:12Z", undoable: true }],
    };
    for (const method of ["undo", "decide", "undoAmend"] as const) {
      peer.answer(`understudy/delegations/${method}`, { conflicts: [], hunks: [], decided: [], head: "" });
    }
    await reviewing();
    const offered = [`${ID}.aa`, ROW(first!.id), ROW(second!.id), ROW(third!.id), "edit:gone.py"];
    for (const pick of offered) {
      host.answers.push({ pick });
      await host.commands.run("understudy.review.undo");
    }
    expect(host.shown.at(-1)?.items.map(({ id }) => id)).toEqual(offered);
    expect(host.shown.at(-1)?.items.map(({ label }) => label)).toContain("Accepted 2 changes");
    expect(peer.params("understudy/delegations/undo")).toEqual([
      { undoToken: `${ID}.aa` },
      { undoToken: `${ID}.aa`, hunks: [first!.id] },
      { undoToken: `${ID}.aa`, hunks: [third!.id] },
    ]);
    expect(peer.params("understudy/delegations/decide")).toMatchObject([{ decisions: [{ decision: "pending" }] }]);
    expect(peer.params("understudy/delegations/undoAmend")).toEqual([{ id: ID, path: "gone.py", head: now.head }]);
  });

  it("undoes the newest accept without a question, and only that", async () => {
    now = {
      ...now,
      undoable: [
        { undoToken: `${ID}.bb`, paths: [WRAP] },
        { undoToken: `${ID}.aa`, paths: [WRAP] },
      ],
    };
    peer.answer("understudy/delegations/undo", {});
    await reviewing();
    await host.commands.run("understudy.review.undoLast");
    expect(peer.params("understudy/delegations/undo")).toEqual([{ undoToken: `${ID}.bb` }]);
  });

  it.each(["undo", "undoLast"])("says so if there is nothing to undo, without a review, too: %s", async (command) => {
    delegation = { ...delegation, review: { pending: 1, accepted: 0, rejected: 0 } };
    await store.read(ID);
    await host.commands.run(`understudy.review.${command}`);
    expect(host.messages.at(-1)?.text).toBe("There is nothing to undo.");
  });

  it("undoes one change from its row or bar; an accept shows no message", async () => {
    decides({ ...DECIDED, conflicts: [], hunks: [{ ...DECIDED.hunks[0]!, ...ACCEPTED }], undoToken: `${ID}.aa` });
    peer.answer("understudy/delegations/undo", {});
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    await settle();
    expect([host.messages, host.flashes]).toEqual([[], ["1 change accepted."]]);
    expect(host.bars.get(ROW("5a1e0c77b9d2"))?.content).toMatchObject({
      label: "Accepted on the command line",
      note: "Change 1 of 5",
      context: "accepted",
      collapsed: true,
    });
    await host.commands.run("understudy.review.undoChange", ROW("5a1e0c77b9d2"));
    expect(peer.params("understudy/delegations/undo")).toEqual([{ undoToken: `${ID}.aa`, hunks: ["5a1e0c77b9d2"] }]);
  });

  it("makes a rejected change pending again from its row or bar", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    await host.commands.run("understudy.review.undoChange", ROW("c03d5516aa4f"));
    expect(peer.params("understudy/delegations/decide").at(-1)).toEqual({
      id: ID,
      decisions: [{ path: WRAP, hunk: "c03d5516aa4f", decision: "pending" }],
    });
    await host.commands.run("understudy.review.undoChange", ROW("77e0d1f4b2c9"));
    expect(host.messages.at(-1)?.text).toBe("There is no decision to undo here.");
  });

  it("says so if the accept of a message is already undone elsewhere", async () => {
    decides({ ...DECIDED, conflicts: [], hunks: [{ ...DECIDED.hunks[0]!, ...ACCEPTED }], undoToken: `${ID}.aa` });
    await reviewing();
    const uri = "file:///home/ada/greeting/greeting/wrapping.py"; // unsaved text of the user: a message says so
    host.openTexts.push({ uri, language: "python", text: "", dirty: true });
    const message = host.windows.message.bind(host.windows);
    vi.spyOn(host.windows, "message").mockImplementationOnce((...shown) => {
      now = diff(); // undone in a terminal, while the message is shown
      host.buttons.push("Undo");
      return message(...shown);
    });
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    await settle();
    expect(host.messages.map(({ level, text }) => `${level}: ${text}`)).toEqual([
      "info: 1 change accepted. Not saved, because you have unsaved changes there: greeting/wrapping.py.",
      "info: This accept is already undone.",
    ]);
    expect(peer.params("understudy/delegations/undo")).toEqual([]);
  });

  it("reports an undo that a later edit prevents", async () => {
    now = { ...now, undoable: [{ undoToken: `${ID}.9f3a61c2`, paths: [WRAP] }] };
    peer.answer("understudy/delegations/undo", () => {
      throw refusal("delegations-undo.overlap");
    });
    await reviewing();
    await expect(host.commands.run("understudy.review.undo", `${ID}.9f3a61c2`)).rejects.toThrow(
      "was edited where the accept changed it",
    );
  });

  it("sends comments on lines back, and shows them until then, also after a reload", async () => {
    peer.answer("understudy/delegations/reply", result("understudy/delegations/reply", "delegations-reply.valid"));
    await reviewing();
    const uri = reviewUri(RESULT, ID, WRAP);
    const says = (line: number, text: string): Promise<unknown> =>
      host.commands.run("understudy.review.addComment", { uri, line, text });
    await says(40, " Match on the\nclass only. ");
    await says(12, "Why three?");
    await says(13, "Never mind.");
    await says(14, "  ");
    await host.commands.run("understudy.review.removeComment", { uri, line: 13, text: "Never mind." });
    feature.dispose();
    host.handlers.clear();
    host.comments = [];
    begin();
    await reviewing();
    expect(host.comments).toEqual([
      { uri, line: 12, text: "Why three?" },
      { uri, line: 40, text: "Match on the\nclass only." },
    ]);
    host.answers.push({ enter: "Do that." });
    await host.commands.run("understudy.review.sendBack");
    expect(host.shown.at(-1)?.value).toBe(
      "greeting/wrapping.py:13: Why three?; greeting/wrapping.py:41: Match on the class only.",
    );
    expect(host.comments).toEqual([]);
    await reviewing();
    expect(host.comments).toEqual([]);
  });

  it.each(["in the same window", "after a reload"])(
    "sends back with the collected reasons, and follows %s",
    async (when) => {
      decides();
      peer.answer("understudy/delegations/reply", result("understudy/delegations/reply", "delegations-reply.valid"));
      Object.assign(now.files[1]!.hunks[0]!, { edited: true, tested: true });
      await reviewing();
      await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
      host.answers.push({ enter: "Test the empty string, too." });
      await host.commands.run("understudy.review.sendBack");
      expect(host.shown.at(-1)?.prompt).toMatch(
        /Changes: 1 rejected\. \d pending changes go along: you can accept them again when the agent has finished\. Tested now: 1\. .*keep your edits of \S+\.$/u,
      );
      expect(host.shown.at(-1)?.value).toBe("greeting/wrapping.py:41: Keep the old name.");
      expect(peer.params("understudy/delegations/reply")).toEqual([{ id: ID, text: "Test the empty string, too." }]);
      const { id } = result("understudy/delegations/reply", "delegations-reply.valid");
      expect(started).toEqual([id]);
      if (when === "after a reload") {
        feature.dispose();
        host.handlers.clear();
        begin();
      }
      // The review shows the new result when it is there.
      peer.answer("understudy/delegations/get", () => ({ ...delegation, id }));
      await store.read(id);
      if (when === "after a reload") states.fire({ kind: "running" });
      await settle();
      expect(host.diffs.at(-1)?.pairs[0]?.result).toBe(reviewUri(RESULT, id, WRAP));
      const { length } = host.diffs;
      await store.read(id);
      await settle();
      expect(host.diffs, "only once").toHaveLength(length);
    },
  );

  it("asks for tests that notice more, if they miss something", async () => {
    const STARTED = result("understudy/delegations/strengthen", "delegations-strengthen.valid");
    peer.answer("understudy/delegations/strengthen", STARTED);
    const mutants = [
      { id: "m1", path: WRAP, line: 3, function: "wrap", operator: "number", before: "1", after: "2", killedBy: [] },
    ].map((one) => ({ ...one, status: "Survived" as const }));
    const mutation = { killed: 1, viable: 2, executed: 2, total: 2, mutants };
    delegation = {
      ...delegation,
      checks: delegation.checks.map((check) => ({ ...check, mutation })),
      rounds: [{ number: 0, killed: 1, viable: 2, kept: true }],
    };
    await store.read(ID);
    await reviewing();
    expect(host.contexts.get("understudy.canStrengthen")).toBe(true);
    expect(rows()[0]).toContain("survivors");
    await host.commands.run("understudy.review.strengthen");
    expect(peer.params("understudy/delegations/strengthen"), "not without an answer").toEqual([]);
    host.buttons.push("Strengthen Tests");
    await host.commands.run("understudy.review.strengthen");
    expect(peer.params("understudy/delegations/strengthen")).toEqual([{ id: ID }]);
    expect(started).toEqual([STARTED.id]);
  });

  it("asks for tests of the places that have none, in the row that says so", async () => {
    const STARTED = result("understudy/delegations/strengthen", "delegations-strengthen.valid");
    peer.answer("understudy/delegations/strengthen", STARTED);
    const place = { hunk: "h1", path: WRAP, line: 3, lines: 1, function: "wrap", why: "no test runs it" };
    delegation = {
      ...delegation,
      reservations: ["change_not_tested"],
      places: [{ ...place, evidence: "unexecuted" }],
    };
    await store.read(ID);
    await reviewing();
    const offered = ["canStrengthen", "canAskForTests"].map((name) => host.contexts.get(`understudy.${name}`));
    expect(offered).toEqual([false, true]);
    expect(rows()[0]).toContain("untested");
    expect(rows()[0]).not.toContain("survivors");
    const row = host.rows.get("understudy.review")?.row(`reservation:${ID}:change_not_tested`);
    expect(row?.context).toBe("reservation untested");
    host.buttons.push("Strengthen Tests");
    await host.commands.run("understudy.review.askForTests");
    expect(peer.params("understudy/delegations/strengthen")).toEqual([{ id: ID }]);
    expect(started).toEqual([STARTED.id]);
  });

  it("drops the tests that notice nothing, and offers to check again", async () => {
    const DROPPED = result("understudy/delegations/drop", "delegations-drop.valid");
    peer.answer("understudy/delegations/drop", DROPPED);
    peer.answer("understudy/delegations/check", () => delegation);
    const idle = ["test_a.py::test_one", "test_a.py::test_two"];
    const mutation = { killed: 1, viable: 2, executed: 2, total: 2, idle };
    delegation = {
      ...delegation,
      reservations: [],
      checks: delegation.checks.map((check) => ({ ...check, mutation })),
    };
    await store.read(ID);
    await reviewing();
    expect(host.contexts.get("understudy.canDropTests")).toBe(true);
    expect(rows()[0]).toContain("idleTests");
    host.answers.push({ pick: ["test_a.py::test_two"] });
    await host.commands.run("understudy.review.dropTests");
    expect(peer.params("understudy/delegations/drop")).toEqual([{ id: ID, tests: ["test_a.py::test_two"] }]);
    expect(host.messages.at(-1)?.text).toContain(
      "1 test was dropped. Not dropped: tests/test_wrapping.py::test_wrap[0]",
    );
    expect(peer.params("understudy/delegations/check")).toEqual([]);

    host.answers.push({ pick: idle });
    host.buttons.push("Check Again");
    await host.commands.run("understudy.review.dropTests", ID);
    expect(peer.params("understudy/delegations/drop").at(-1)).toEqual({ id: ID });
    expect(peer.params("understudy/delegations/check")).toEqual([{ id: ID }]);

    host.answers.push({ cancel: true });
    await host.commands.run("understudy.review.dropTests");
    delegation = { ...delegation, reservations: ["no_checks"] }; // the checks are older than the result
    await store.read(ID);
    await reviewing();
    await host.commands.run("understudy.review.dropTests");
    expect(host.messages.at(-1)?.text).toContain("has no tests to drop");
    expect(host.contexts.get("understudy.canDropTests")).toBe(false);
    expect(peer.params("understudy/delegations/drop")).toHaveLength(2);
  });

  it("opens the merge editor with the conflicting changes only, otherwise three sides", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    const output = "file:///home/ada/greeting/greeting/wrapping.py";
    host.openTexts.push({ uri: output, language: "python", text: "mine\n", dirty: true });
    resultText = BASE_TEXT;
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
    expect(host.merges).toEqual([
      {
        base: reviewUri(BASE, ID, WRAP),
        yours: reviewUri(YOURS, ID, WRAP),
        theirs: reviewUri(THEIRS, ID, WRAP),
        output,
      },
    ]);
    expect(await host.provided.get(YOURS)?.text(reviewUri(YOURS, ID, WRAP))).toBe("mine\n");
    const theirs = await host.provided.get(THEIRS)?.text(reviewUri(THEIRS, ID, WRAP));
    expect(theirs).toContain("new 12\nnew 13\nnew 14\n");
    host.mergeEditor = false;
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
    // The user's own file is one of them, and editable.
    expect(host.diffs.at(-1)?.pairs.map((pair) => pair.result)).toEqual([reviewUri(THEIRS, ID, WRAP), output]);
  });

  it("saves the user's file before the conflict is marked as resolved, and does not mark it if that fails", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    const output = "file:///home/ada/greeting/greeting/wrapping.py";
    host.openTexts.push({ uri: output, language: "python", text: "merged\n", dirty: true });
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
    decides(result("understudy/delegations/decide", "delegations-decide.by-hand"));
    const before = peer.params("understudy/delegations/decide").length;
    host.saves = false;
    await host.commands.run("understudy.review.markResolved", output);
    expect(peer.params("understudy/delegations/decide")).toHaveLength(before);
    expect(host.messages.at(-1)?.text).toBe(
      "greeting/wrapping.py could not be saved, so the conflict is not marked as resolved.",
    );
    expect(host.mergesClosed).toEqual([]);
    host.saves = true;
    peer.answer("understudy/delegations/decide", () => {
      expect(host.saved).toEqual([output]);
      return result("understudy/delegations/decide", "delegations-decide.by-hand");
    });
    await host.commands.run("understudy.review.markResolved", output);
    expect(host.mergesSaved).toEqual([output, output]);
    expect(peer.params("understudy/delegations/decide")).toHaveLength(before + 1);
  });

  describe("saving the documents that an accept changes", () => {
    const uri = "file:///home/ada/greeting/greeting/wrapping.py";
    const other = "file:///home/ada/greeting/other.py";
    const open = (name: string, dirty: boolean): void => {
      host.openTexts.splice(0, host.openTexts.length, ...host.openTexts.filter((text) => text.uri !== name), {
        uri: name,
        language: "python",
        text: "",
        dirty,
      });
    };
    /** The sidecar edits the documents, and meanwhile the user types in another file. */
    const editsDocuments = (): void => {
      open(uri, true);
      open(other, true);
    };

    it("saves what was clean, and nothing else", async () => {
      await reviewing();
      open(uri, false);
      open(other, false);
      decides();
      const answer = peer.answer.bind(peer);
      answer("understudy/delegations/decide", () => {
        editsDocuments();
        return DECIDED;
      });
      await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
      expect(host.saved).toEqual([uri]);
      expect(host.messages.at(-1)?.text).not.toContain("Not saved");

      open(uri, false);
      now = { ...now, undoable: [{ undoToken: `${ID}.00c0ffee`, paths: [WRAP] }] };
      answer("understudy/delegations/undo", () => {
        editsDocuments();
        return {};
      });
      await host.commands.run("understudy.review.undo", `${ID}.00c0ffee`);
      expect(host.saved).toEqual([uri, uri]);
    });

    it("leaves unsaved text unsaved, and says so", async () => {
      await reviewing();
      open(uri, true);
      decides();
      await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
      expect(host.saved).toEqual([]);
      expect(host.messages.at(-1)?.text).toContain(
        "Not saved, because you have unsaved changes there: greeting/wrapping.py.",
      );
    });
  });

  it("marks a conflict as resolved from the editor with the user's file, and asks nothing after a save", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    const output = "file:///home/ada/greeting/greeting/wrapping.py";
    host.openTexts.push({ uri: output, language: "python", text: "mine\n", dirty: false });
    expect(host.contexts.get("understudy.conflictFiles") ?? []).toEqual([]);
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
    expect(host.contexts.get("understudy.conflictFiles")).toEqual(["/home/ada/greeting/greeting/wrapping.py"]);
    const asked = host.messages.length;
    host.savedOutside.fire(output);
    await settle();
    expect(host.messages).toHaveLength(asked);
    decides(result("understudy/delegations/decide", "delegations-decide.by-hand"));
    await host.commands.run("understudy.review.markResolved", output);
    expect(peer.params("understudy/delegations/decide").at(-1)).toEqual({
      id: ID,
      decisions: golden("delegations-decide.by-hand").params!["decisions"],
    });
    expect(host.contexts.get("understudy.conflictFiles")).toEqual([]);
    expect(host.mergesClosed).toEqual([output]);
  });

  it("still knows the conflicts of a merge editor that a reload of the window restores", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    const output = "file:///home/ada/greeting/greeting/wrapping.py";
    host.openTexts.push({ uri: output, language: "python", text: "mine\n", dirty: false });
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
    const sides = [reviewUri(YOURS, ID, WRAP), reviewUri(THEIRS, ID, WRAP)];
    const texts = async (): Promise<unknown> =>
      Promise.all([host.provided.get(YOURS)?.text(sides[0]!), host.provided.get(THEIRS)?.text(sides[1]!)]);
    const before = await texts();
    feature.dispose();
    host.handlers.clear();
    host.contexts.clear();
    begin();
    expect(host.contexts.get("understudy.conflictFiles")).toEqual(["/home/ada/greeting/greeting/wrapping.py"]);
    expect(await texts()).toEqual(before);
    decides(result("understudy/delegations/decide", "delegations-decide.by-hand"));
    await host.commands.run("understudy.review.markResolved", output);
    expect(host.contexts.get("understudy.conflictFiles")).toEqual([]);
    feature.dispose();
    host.handlers.clear();
    begin();
    expect(await host.provided.get(YOURS)?.text(sides[0]!)).toBe("");
  });

  describe("a conflict that is being resolved", () => {
    const MINE = "/home/ada/greeting/greeting/wrapping.py";
    const files = (): unknown => host.contexts.get("understudy.conflictFiles");
    const kept = (): Record<string, { yours?: string }> => host.memory.get("review.merging", {});

    beforeEach(async () => {
      decides();
      await reviewing();
      await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
      host.openTexts.push({ uri: `file://${MINE}`, language: "python", text: "mine\n", dirty: true });
      await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
      expect(files()).toEqual([MINE]);
    });

    const inAllHunks = (change: Partial<Hunk>): void => {
      const hunksOf = (file: FileDiff): Hunk[] => file.hunks.map((hunk) => ({ ...hunk, ...change }));
      now = { ...now, files: now.files.map((file) => ({ ...file, hunks: hunksOf(file) })) };
    };
    const reload = async (): Promise<void> => {
      feature.dispose();
      host.handlers.clear();
      begin();
      await store.attach();
      await settle();
    };

    it("is forgotten when it is rejected here", async () => {
      const rejected = DECIDED.hunks.map((hunk): Hunk => ({ ...hunk, state: "rejected", conflict: false }));
      decides({ ...DECIDED, hunks: rejected, conflicts: [] });
      await host.commands.run("understudy.review.rejectHunk", ROW("77e0d1f4b2c9"));
      await settle();
      expect([files(), kept()]).toEqual([[], {}]);
    });

    it("is forgotten when it was resolved elsewhere, also while no window was open", async () => {
      await reload();
      expect(files()).toEqual([MINE]);
      inAllHunks({ state: "accepted", conflict: false });
      await reload();
      expect([files(), kept()]).toEqual([[], {}]);
    });

    it("is forgotten when the delegation is discarded or removed, but not while it cannot be read", async () => {
      peer.answer("understudy/delegations/diff", () => {
        throw new SidecarError({ kind: "internal", message: "No space left." });
      });
      await reload();
      expect(files()).toEqual([MINE]);
      const before = kept();
      delegation = { ...delegation, rescueRef: "refs/rescue/x", lastSeq: delegation.lastSeq + 1 };
      await store.read(ID);
      await settle();
      expect([files(), kept()]).toEqual([[], {}]);
      await host.memory.set("review.merging", { "/gone": { ...before[MINE], id: "20260101-000000-gone" } });
      peer.answer("understudy/delegations/get", () => {
        throw new SidecarError({ kind: "unknown_delegation", message: "No such delegation." });
      });
      await reload();
      expect([files(), kept()]).toEqual([[], {}]);
    });

    it("shows the same side after a reload, even if other changes were decided meanwhile", async () => {
      const theirs = async (): Promise<unknown> => host.provided.get(THEIRS)?.text(reviewUri(THEIRS, ID, WRAP));
      const before = await theirs();
      const hunksOf = (file: FileDiff): Hunk[] =>
        file.hunks.map((hunk) => (hunk.conflict ? hunk : { ...hunk, state: "rejected" }));
      now = { ...now, files: now.files.map((file) => ({ ...file, hunks: hunksOf(file) })) };
      await reload();
      expect(await theirs()).toBe(before);
    });

    it("keeps a limited number and a limited amount of text, the newest", async () => {
      const { [MINE]: one } = kept();
      const name = (index: number): string => `/home/ada/${index}.py`;
      const half = "x".repeat(MAX_KEPT / 2);
      const many = Array.from({ length: MAX_MERGING }, (_, index) => [name(index), { ...one, yours: half }] as const);
      await host.memory.set("review.merging", Object.fromEntries(many));
      await reload();
      await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9"));
      expect(Object.keys(kept())).toEqual([...many.slice(1).map(([path]) => path), MINE]);
      const texts = Object.entries(kept()).flatMap(([path, { yours }]) => (yours === undefined ? [] : [path]));
      expect(texts).toEqual([name(MAX_MERGING - 1), MINE]);
    });
  });

  it("says what to do if a conflict cannot be merged line by line", async () => {
    decides();
    await reviewing();
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    await host.commands.run("understudy.review.openConflict", ROW("77e0d1f4b2c9")); // the user does not have this file
    expect(host.merges).toEqual([]);
    expect(host.messages.at(-1)?.text).toContain("cannot be merged line by line");
  });
});

describe("running the checks again", () => {
  it("shows no progress of its own: the row and the status bar do", async () => {
    peer.answer("understudy/delegations/check", () => delegation);
    await reviewing();
    const before = host.progresses.length;
    await host.commands.run("understudy.review.check");
    expect(peer.params("understudy/delegations/check")).toEqual([{ id: ID }]);
    expect(host.progresses).toHaveLength(before);
    expect(host.messages).toEqual([]);
  });
});

describe("exporting", () => {
  it("asks again for a branch name that git refuses, and only then", async () => {
    const names = ["invalid_params", "already_exists"];
    peer.answer("understudy/delegations/export", ({ branch }) => {
      const kind = names.shift();
      if (kind !== undefined) throw new SidecarError({ kind, message: `not ${branch ?? ""}` } as never);
      return { branch: branch ?? "" };
    });
    await reviewing();
    host.answers.push({ pick: "branch" }, { enter: "a..b" }, { enter: "taken" }, { enter: "fine" });
    await host.commands.run("understudy.review.export");
    expect(peer.params("understudy/delegations/export").map((params) => (params as { branch: string }).branch)).toEqual(
      ["a..b", "taken", "fine"],
    );
    expect(host.messages.at(-1)?.text).toBe("Exported to the branch fine.");
    names.push("internal");
    host.answers.push({ pick: "branch" }, { enter: "fine" });
    await expect(host.commands.run("understudy.review.export")).rejects.toThrow("not fine");
  });

  it("commits what was accepted after it has shown the message, whose title can be changed", async () => {
    const example = result("understudy/delegations/commit", "delegations-commit.valid");
    peer.answer("understudy/delegations/commit", ({ message = example.message, dryRun }) => {
      const { commit, ...shown } = { ...example, message: message ?? "" };
      return dryRun ? shown : { ...shown, ...(commit === undefined ? {} : { commit }) };
    });
    await host.commands.run("understudy.review.commit", ID);
    expect(peer.params("understudy/delegations/commit")).toEqual([{ id: ID, dryRun: true }]);
    expect(host.messages.at(-1)).toMatchObject({ text: "Commit 2 files?" });
    expect(host.messages.at(-1)?.detail).toContain("Verdict: verified");
    expect(host.messages.at(-1)?.detail).toContain("greeting/wrapping.py (with your own changes)");

    host.buttons.push("Edit Title…", "Commit");
    host.answers.push({ enter: "Test wrapping" });
    await host.commands.run("understudy.review.commit", ID);
    const message = ["Test wrapping", ...example.message.split("\n").slice(1)].join("\n");
    expect(host.shown.at(-1)?.value).toBe(example.message.split("\n")[0]);
    expect(peer.params("understudy/delegations/commit").at(-1)).toEqual({ id: ID, message });
    expect(host.messages.at(-1)?.text).toBe("Committed beadedfacade.");
  });

  it("ends when the result is discarded", async () => {
    await reviewing();
    delegation = { ...delegation, rescueRef: "refs/rescue/1", lastSeq: delegation.lastSeq + 1 };
    await store.read(ID);
    await settle();
    expect(host.contexts.get("understudy.reviewing")).toBe(false);
    expect(host.rows.get("understudy.review")?.children()).toEqual([]);
  });
});

describe("the files of a result", () => {
  const uri = reviewUri(RESULT, ID, WRAP);
  const bytes = (text: string): Uint8Array => Buffer.from(text);
  const copy = reviewUri(EDIT, ID, WRAP);
  const files = () => host.files.get(EDIT)!;

  it("amends the head that was read", async () => {
    await reviewing();
    expect(Buffer.from(await files().read(copy)).toString()).toBe(resultText);
    const before = await files().stat!(copy);
    peer.answer("understudy/delegations/amend", ({ text }) => {
      resultText = text;
      const at = new Date(before.changed + 60_000).toISOString();
      now = { ...now, head: "0ddba11c", edited: [{ path: WRAP, at, undoable: true }] };
      return { head: "0ddba11c", hunks: [] };
    });
    await files().write!(copy, bytes("edited\n"));
    expect(peer.params("understudy/delegations/amend")).toEqual([
      { id: ID, path: WRAP, text: "edited\n", head: diff().head },
    ]);
    expect(await files().stat!(copy)).toEqual({ size: 7, changed: before.changed + 60_000, readonly: false });
    await files().write!(copy, bytes("again\n"));
    expect(peer.params("understudy/delegations/amend").at(-1)).toMatchObject({ head: "0ddba11c" });
    await files().write!(copy, bytes("again\n"));
    expect(peer.params("understudy/delegations/amend")).toHaveLength(2); // nothing to keep
  });

  it("saves an edit if only other files changed, and reports if this one did", async () => {
    await reviewing();
    await files().read(copy);
    now = { ...now, head: "0ddba11c" };
    peer.answer("understudy/delegations/amend", ({ head }) => {
      if (head !== now.head) throw refusal("delegations-amend.stale");
      now = { ...now, head: `${now.head}1` };
      return { head: now.head, hunks: [] };
    });
    await files().write!(copy, bytes("edited\n"));
    expect(peer.params("understudy/delegations/amend").map((params) => (params as { head: string }).head)).toEqual([
      diff().head,
      "0ddba11c",
    ]);

    now = { ...now, head: "another" };
    resultText = "changed elsewhere\n";
    await expect(files().write!(copy, bytes("mine\n"))).rejects.toThrow(
      "was changed in the result while you edited it",
    );
    await expect(files().write!(copy, bytes("mine\n"))).rejects.toThrow(
      "was changed in the result while you edited it",
    );
  });

  it("shows an amendment from elsewhere", async () => {
    await reviewing();
    const told: string[] = [];
    host.files.get(RESULT)!.onDidChange((changes) => told.push(...changes.map((change) => change.uri)));
    now = { ...now, head: "0ddba11c" };
    resultText = "amended\n";
    const amended = { type: "amended", seq: 22, at: "", attempt: 0, path: WRAP, head: "0ddba11c" } as Event;
    peer.notify("understudy/event", { id: ID, events: [amended] });
    await settle();
    await settle();
    expect(told).toContain(uri);
    expect(Buffer.from(await files().read(uri)).toString()).toBe("amended\n");
  });

  it.each([
    ["AAEC/w==", [{ kind: "changed" }]],
    ["AAEC", []],
  ])("tells the editor when a file that is not text changed elsewhere (%s)", async (base64, told) => {
    const picture = reviewUri(RESULT, ID, "naïve.png");
    peer.answer("understudy/delegations/file", () => ({ base64: "AAEC", mode: "100644" }));
    await reviewing();
    expect([...(await files().read(picture))]).toEqual([0, 1, 2]);
    const found: FileChange[] = [];
    host.files.get(RESULT)!.onDidChange((changes) => found.push(...changes));
    now = { ...now, head: "0ddba11c" };
    peer.answer("understudy/delegations/file", () => ({ base64, mode: "100644" }));
    const amended = { type: "amended", seq: 22, at: "", attempt: 0, path: "x", head: "0ddba11c" } as Event;
    peer.notify("understudy/event", { id: ID, events: [amended] });
    await settle();
    await settle();
    expect(found.filter((one) => one.uri === picture)).toMatchObject(told);
  });

  it("shows an amendment from elsewhere that is followed by another event", async () => {
    await reviewing();
    const told: string[] = [];
    host.files.get(RESULT)!.onDidChange((changes) => told.push(...changes.map((change) => change.uri)));
    now = { ...now, head: "0ddba11c" };
    resultText = "amended\n";
    const frame = { at: "", attempt: 0 } as const;
    peer.notify("understudy/event", {
      id: ID,
      events: [{ ...frame, type: "amended", seq: 22, path: WRAP, head: "0ddba11c" }],
    });
    peer.notify("understudy/event", { id: ID, events: [{ ...frame, type: "superseded", seq: 23, by: "b" }] });
    await settle();
    await settle();
    expect(told).toContain(uri);
  });

  it("offers to save an edit before a decision in its file", async () => {
    await reviewing();
    host.openTexts.push({ uri: copy, language: "python", text: "edited\n", dirty: true });
    host.buttons.push("Save");
    await host.commands.run("understudy.review.acceptHunk", ROW("5a1e0c77b9d2"));
    expect(host.saved).toEqual([copy]);
    expect(peer.params("understudy/delegations/decide")).toEqual([]);
  });

  it("has lenses instead of bars if they are enabled, and they follow the result", async () => {
    host.editorSettings.set("diffEditor.codeLens", true);
    await reviewing();
    expect(host.bars.size).toBe(0);
    const lenses = (): string[] =>
      host.lenses.get(RESULT)!(uri)
        .toSorted((one, other) => one.range.start.line - other.range.start.line)
        .map(({ range, command }) => `${range.start.line} ${command.title}`);
    expect(lenses().slice(0, 6)).toEqual([
      expect.stringMatching(/^0 Verified · 4 passed · 14 of 20 small changes noticed · /),
      "0 Accept All",
      "0 Reject All…",
      "11 $(check) Accept (Alt+Y)",
      "11 $(close) Reject (Alt+N)",
      "11 Reject with Reason…",
    ]);
    // The verdict is there once, not in each file.
    const other = host.lenses.get(RESULT)!(reviewUri(RESULT, ID, ".github/workflows/test.yml"));
    expect(other.map(({ command }) => command.title)).toEqual([
      "$(check) Accept (Alt+Y)",
      "$(close) Reject (Alt+N)",
      "Reject with Reason…",
      "$(warning) runs in continuous integration",
    ]);
    host.editorSettings.set("diffEditor.codeLens", false);
    host.settingsChanged.fire();
    expect(host.bars.size).toBe(5);
  });

  it("shows a new file that is all of the result as it is, with lenses, if editors have them", async () => {
    now = { ...now, files: now.files.filter(({ status }) => status === "added") };
    const { path } = now.files[0]!;
    await reviewing();
    expect(host.diffs).toEqual([]);
    expect(host.opened).toEqual([{ uri: reviewUri(RESULT, ID, path), options: { preview: false } }]);
    expect(host.bars.size).toBe(0);
    const titles = host.lenses.get(RESULT)!(reviewUri(RESULT, ID, path)).map(({ command }) => command.title);
    expect(titles.slice(0, 2)).toEqual(["$(check) Accept (Alt+Y)", "$(close) Reject (Alt+N)"]);
    expect(titles.at(-1)).toMatch(/^Verified · 4 passed/);
    host.editorSettings.set("editor.codeLens", false);
    host.settingsChanged.fire();
    expect(host.bars.size).toBe(2);
  });

  it("has lenses instead of bars after a question, because other diffs have them then, too", async () => {
    await reviewing();
    await host.commands.run("understudy.review.useLenses");
    expect(host.bars.size).toBe(5);
    host.buttons.push("Turn On");
    await host.commands.run("understudy.review.useLenses");
    expect(host.editorSettings.get("diffEditor.codeLens")).toBe(true);
    expect(host.bars.size).toBe(0);
  });

  it("gives each flagged file one line, whatever its name", async () => {
    now.files = now.files.map((file) =>
      file.flagReason ? { ...file, path: "fine\n\nThis does not run.\nMakefile" } : file,
    );
    const flagged = now.files.filter((file) => file.flagReason !== undefined);
    const details: string[] = [];
    host.windows.message = (_level, _text, options) => {
      details.push(options?.detail ?? "");
      return Promise.resolve(undefined);
    };
    await reviewing();
    await host.commands.run("understudy.review.acceptAll");
    expect(flagged).toHaveLength(1);
    expect(details.map((detail) => detail.split("\n").length)).toEqual([1]);
  });

  it("shows no icon from untrusted text in a lens", async () => {
    host.editorSettings.set("diffEditor.codeLens", true);
    delegation.checks = delegation.checks.map((check) => ({ ...check, ok: false, name: "$(verified-filled)" }));
    await store.read(ID);
    const hunks = now.files[0]!.hunks.map((hunk) => ({
      ...hunk,
      state: "rejected" as const,
      reason: "$(pass-filled) accepted",
    }));
    now = { ...now, files: [{ ...now.files[0]!, hunks }] };
    await reviewing();
    const titles = host.lenses.get(RESULT)!(uri).map(({ command }) => command.title);
    const verdict = titles.findIndex((title) => title.includes("verified-filled"));
    const decided = titles.findIndex((title) => title.includes("pass-filled"));
    const icons = titles.map((title) => [...title.matchAll(/\$\([\w-]+\)/g)].map(([icon]) => icon));
    expect([icons[verdict], icons[decided]]).toEqual([[], ["$(circle-slash)"]]);
  });

  it("describes changes without lines: modes, links, renames, empty files", async () => {
    const [zero] = diff().files[2]!.hunks;
    const one = (path: string, status: FileDiff["status"], more: Partial<FileDiff> = {}): FileDiff => {
      const hunk = { ...zero!, id: path.padEnd(12, "0"), oldStart: 0, oldLines: 0, newStart: 0, newLines: 0 };
      return { path, status, binary: false, hunks: [hunk], ...more };
    };
    const modes: Record<string, string> = { tool: "100755", tamed: "100644", link: "120000", both: "100755" };
    now = {
      ...now,
      files: [
        one("tool", "mode"),
        one("tamed", "mode"),
        one("link", "added", { hunks: [{ ...zero!, id: "l", oldStart: 0, oldLines: 0, newStart: 1, newLines: 1 }] }),
        one("both", "modified"),
        one("empty", "added"),
        one("name", "renamed", { from: "old" }),
        one("gone", "deleted", { hunks: [{ ...zero!, id: "g", oldStart: 1, oldLines: 2, newStart: 0, newLines: 0 }] }),
      ],
    };
    resultText = "";
    peer.answer("understudy/delegations/file", ({ path, side }) => ({
      text: path === "link" ? "target" : "",
      mode: side === "base" ? "100644" : (modes[path] ?? "100644"),
    }));
    await reviewing();
    expect(rows().slice(3)).toEqual([
      "tool | now executable · 1 pending | file | reviewFile pending editable",
      "  now executable |  | circle-large-outline | hunk pending editable",
      "tamed | no longer executable · 1 pending | file | reviewFile pending editable",
      "  no longer executable |  | circle-large-outline | hunk pending editable",
      "link | new link · 1 pending | file | reviewFile pending editable",
      "  target | line 1 · +1 | circle-large-outline | hunk pending editable",
      "both | 1 pending | file | reviewFile pending editable",
      "  now executable |  | circle-large-outline | hunk pending editable",
      "empty | new · 1 pending | file | reviewFile pending editable",
      "  an empty file |  | circle-large-outline | hunk pending editable",
      "name | was old · 1 pending | file | reviewFile pending editable",
      "  the name |  | circle-large-outline | hunk pending editable",
      "gone | deleted · 1 pending | file | reviewFile pending",
      "  the file | −2 | circle-large-outline | hunk pending",
    ]);
    const [, ...labels] = [...host.bars.values()].map(({ content }) => content?.label);
    expect(labels.slice(0, 4)).toEqual([
      "Change 1 of 7 · now executable",
      "Change 2 of 7 · no longer executable",
      "Change 3 of 7 · new link · +1",
      "Change 4 of 7 · now executable",
    ]);
    // An inline diff does not show the base: the bar of a deleted file is on the side that is always there.
    const gone = [...host.bars.values()].at(-1);
    expect(gone).toMatchObject({ uri: reviewUri(EMPTY, ID, "gone"), content: { range: { start: { line: 0 } } } });
    host.active = atTop(reviewUri(EMPTY, ID, "gone"));
    decides({ ...DECIDED, hunks: [], conflicts: [] });
    await host.commands.run("understudy.review.rejectHunk");
    expect(peer.params("understudy/delegations/decide").at(-1)).toMatchObject({ decisions: [{ path: "gone" }] });
  });

  it("are read-only, unless it is a copy of a text, and missing if the result does not have them", async () => {
    peer.answer("understudy/delegations/file", ({ path }) => {
      if (path === "gone.py") throw new SidecarError({ kind: "invalid_params", message: "not there" });
      return { base64: "AAEC", mode: "100644" };
    });
    await reviewing();
    const picture = reviewUri(EDIT, ID, "naïve.png");
    expect([...(await files().read(picture))]).toEqual([0, 1, 2]);
    expect((await files().stat!(picture)).readonly).toBe(true);
    await expect(files().write!(copy, Buffer.from([255, 0]))).rejects.toThrow("not UTF-8 text");
    for (const scheme of [BASE, RESULT]) expect(host.files.get(scheme)).not.toHaveProperty("write");
    for (const name of ["gone.py", "never/changed.py"]) {
      await expect(files().stat!(reviewUri(EDIT, ID, name))).rejects.toBeInstanceOf(FileMissing);
    }
    await host.commands.run("understudy.review.edit", copy.replace(WRAP, encodeURIComponent("naïve.png")));
    expect(host.messages.at(-1)?.text).toBe("naïve.png is not a text file of the result.");
    peer.answer("understudy/delegations/file", () => {
      throw new SidecarError({ kind: "connection_failed", message: "it has stopped" });
    });
    now = { ...now, head: "0ddba11c" };
    await host.commands.run("understudy.review.open", ID);
    await expect(files().read(copy)).rejects.not.toBeInstanceOf(FileMissing); // it may come back
  });

  it("are edited by a command, at the change it came from, and an edit is undone by another", async () => {
    peer.answer("understudy/delegations/undoAmend", { head: "a", hunks: [] });
    await reviewing();
    expect(host.contexts.get("understudy.canUndoEdit")).toBe(false);
    await host.commands.run("understudy.review.edit", ROW("c03d5516aa4f"));
    expect(host.diffs.at(-1)).toMatchObject({
      title: "wrapping.py: Edit Result",
      pairs: [{ base: reviewUri(BASE, ID, WRAP), result: copy }],
      options: { range: { start: { line: 40 } } },
    });
    now = { ...now, files: [], edited: [{ path: WRAP, at: "2026-11-21T00:50:00Z", undoable: true }] };
    await reviewing();
    // The edit has left no change: the file is still there, with its way back.
    expect(rows().at(-1)).toBe("wrapping.py | no changes left after your edit | file | reviewFile editable edited");
    expect(host.contexts.get("understudy.canUndoEdit")).toBe(true);
    host.openTexts.push({ uri: copy, language: "python", text: "more\n", dirty: true });
    await host.commands.run("understudy.review.undoEdit", `file:${ID}:${WRAP}`);
    expect(host.messages.at(-1)?.text).toContain("unsaved edits");
    host.openTexts.length = 0;
    await host.commands.run("understudy.review.undoEdit", `file:${ID}:${WRAP}`);
    expect(peer.params("understudy/delegations/undoAmend")).toEqual([{ id: ID, path: WRAP, head: now.head }]);
  });

  it("closes with the review", async () => {
    await reviewing();
    // Its tabs are found even if the verdict has changed.
    delegation = { ...delegation, verdict: "unverified" };
    await store.read(ID);
    await host.commands.run("understudy.review.close");
    expect(host.closings).toHaveLength(1);
    expect(host.closings[0]?.schemes).toEqual(expect.arrayContaining([RESULT, EVIDENCE]));
    expect(host.closings[0]?.titles).toEqual([host.diffs[0]?.title]);
    expect(host.bars.size).toBe(0);
    expect(rows()).toEqual([]);
    expect(host.contexts.get("understudy.reviewing")).toBe(false);
  });
});
