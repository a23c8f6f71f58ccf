import { afterEach, describe, expect, it, vi } from "vitest";
import { Emitter, type Disposable } from "../../src/base/events.ts";
import { fold } from "../../src/state/fold.ts";
import type { Change } from "../../src/state/store.ts";
import type { Delegation, DelegatorEntry, Event } from "../../src/protocol.ts";
import { TranscriptText } from "../../src/transcript/transcriptText.ts";
import { removeEscapes } from "../../src/transcript/transcriptLines.ts";
import { MAX_LINES } from "../../src/transcript/transcriptLines.ts";
import { DRAW_MS, TranscriptDocuments } from "../../src/transcript/transcriptDocuments.ts";
import { transcriptUri } from "../../src/state/delegationUris.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { golden, result } from "../support/golden.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };
const NOW = Date.parse("2026-11-21T00:50:12.345Z");
const FRAME = { at: "2026-11-21T00:45:12.345Z", attempt: 1 } as const;

function text(...events: readonly Event[]): string {
  const made = new TranscriptText();
  made.add(events);
  return made.render(undefined, NOW).text;
}

function running(): Delegation {
  const now: Delegation = { ...structuredClone(DONE), state: "running", attempts: [], reservations: [], lastSeq: 0 };
  delete now.verdict;
  delete now.result;
  delete now.finishedAt;
  now.review = { pending: 0, accepted: 0, rejected: 0 };
  return now;
}

describe("TranscriptText", () => {
  it("says what to do below the output of a program, not in it", () => {
    const error = { kind: "tool_crashed", message: "Exited with code 3: Traceback\nNameError: n", hint: "Fix it." };
    const all = text({ ...FRAME, seq: 1, type: "attempt_failed", error, willRetry: false } as Event);
    expect(all.trimEnd().split("\n").slice(-2)).toEqual(["NameError: n", "Fix it."]);
  });

  it("counts lines only of files that have some", () => {
    const stat = (path: string, status: string, additions = 0) => ({ path, status, additions, deletions: 0 });
    const files = [stat("a.py", "added", 2), stat("logo.png", "added"), stat("run.sh", "mode"), stat("l", "type")];
    const all = text({ ...FRAME, seq: 1, type: "result", files, truncatedBytes: 0 } as Event);
    expect(all.match(/^- .*/gm)).toEqual([
      "- a.py added, +2 −0",
      "- logo.png added",
      "- run.sh permissions changed",
      "- l type changed",
    ]);
  });

  it("renders a complete delegation as in the contract", () => {
    const made = new TranscriptText();
    made.add(LIFE.events);
    const { text: all, question } = made.render(DONE, NOW);
    expect(all.split("\n").slice(0, 4)).toEqual([
      "# Tests for greeting/wrapping.py",
      "",
      "**Verified: a required check passed on exactly this result, and there is no reservation.**",
      "",
    ]);
    expect(all.slice(all.indexOf("*Number 1"))).toBe(
      [
        "*Number 1 in the queue.*",
        "",
        "## Attempt 1: big-coder (router, large-1)",
        "",
        "Why big-coder: It is the first delegator of the route `tests`.",
        "",
        "✗ models.example.com is busy (529). my-agent begins again in a fresh worktree. Waiting 1.5 s.",
        "",
        "## Attempt 2: my-agent (small-1)",
        "",
        "Why my-agent: It is the second delegator of the route `tests`.",
        "",
        "*Prompt sent (about 412 tokens).*",
        "",
        "*reads the file*",
        "",
        "> *Thinking*",
        "> wrap() keeps words whole …",
        "",
        "**Plan**",
        "- [ ] Write the tests …",
        "",
        "✓ Write tests/test_wrapping_ghost.py",
        "```",
        "58 lines written",
        "… 1024 bytes omitted",
        "```",
        "",
        "**Question: Run a command**",
        "",
        "```",
        "pip install freezegun",
        "```",
        "",
        "→ Reject, answered in a terminal",
        "",
        "**You**",
        "> Test the empty string, too.",
        "✓ The agent got it.",
        "",
        "**Message from the agent of 20261121-004514-p2r8t**",
        "> Which encoding do the files have?",
        "",
        "- tests/test_wrapping_ghost.py added",
        "",
        "I wrote four tests.",
        "",
        "⚠ The agent asked for a program that is not installed.",
        "",
        "## Result",
        "",
        "Wrote four tests.",
        "",
        "- tests/test_wrapping_ghost.py added, +58 −0",
        "",
        "✓ pytest: 4 passed (1.9 s)",
        "```",
        "$ /home/ada/greeting/.venv/bin/python -m pytest tests/test_wrapping_ghost.py",
        "4 passed in 1.42s",
        "```",
        "The new tests notice 14 of 20 small changes on lines that they execute. 13 of 44 places are on lines that no test executes.",
        "*Small changes break the code on purpose, one at a time: good tests fail then.*",
        "",
        "*tested: src/calc.py:12 in add (a test notices a small change of line 12 (tests/test_calc.py::test_add))*",
        "",
        "✓ Round 1: 9 of 12 small changes noticed",
        "",
        "## Verified",
        "",
        "A required check passed on exactly this result, and there is no reservation.",
        "",
        "You confirmed the changed tests (3).",
        "",
        "Accepted 1 change in tests/test_wrapping_ghost.py.",
        "",
        "Accepted changes were written to your files: tests/test_wrapping_ghost.py",
        "",
        "The last accept was undone.",
        "",
        "tests/test_wrapping_ghost.py was edited.",
        "",
        "A follow-up took over the pending changes: 20261121-020000-aaaaa",
        "",
        "The result was discarded. It can be restored.",
        "",
        "*An event that this version does not recognize.*",
        "",
      ].join("\n"),
    );
    expect(question).toBeUndefined();
  });

  it("shows an answer once, even if it is repeated", () => {
    const answer = (said: string, results: string): string =>
      text(
        { ...FRAME, seq: 1, type: "text", text: said.slice(0, 4) },
        { ...FRAME, seq: 2, type: "text", text: `${said.slice(4)}\n` },
        { ...FRAME, seq: 3, type: "result", files: [], text: results, truncatedBytes: 0 } as Event,
        { ...FRAME, seq: 4, type: "finished", verdict: "answered", reservations: [] },
      );
    expect(answer("It retries three times.", "It retries three times.")).toBe("It retries three times.\n");
    expect(answer("Let me look.", "It retries.")).toBe("Let me look.\n\n## Result\n\nIt retries.\n");
  });

  it("folds thoughts and tool output, and links files", () => {
    const made = new TranscriptText();
    made.add(LIFE.events);
    const { text: all, folds, links } = made.render(DONE, NOW);
    const lines = all.split("\n");
    expect(folds.map(({ start, end }) => [lines[start], lines[end]])).toEqual([
      ["> *Thinking*", "> wrap() keeps words whole …"],
      ["✓ Write tests/test_wrapping_ghost.py", "```"],
      ["✓ pytest: 4 passed (1.9 s)", "```"],
    ]);
    expect(links.length).toBeGreaterThanOrEqual(5);
    for (const { line, start, end, path } of links) expect(lines[line]?.slice(start, end)).toBe(path);
  });

  it("does not depend on batches of events, and only grows at its end while text streams", () => {
    const made = new TranscriptText();
    for (const event of LIFE.events) made.add([event]);
    const whole = new TranscriptText();
    whole.add(LIFE.events);
    expect(made.render(DONE, NOW)).toEqual(whole.render(DONE, NOW));
    const stream = new TranscriptText();
    let before = "";
    for (let seq = 1; seq <= 20; seq += 1) {
      stream.add([{ ...FRAME, type: "text", seq, text: `word ${seq} ` }]);
      const now = stream.render(undefined, NOW).text.trimEnd();
      expect(now.startsWith(before)).toBe(true);
      before = now;
    }
    expect(before).toMatch(/^word 1 word 2 .* word 20$/);
  });

  it("returns the line of the pending question", () => {
    const until = LIFE.events.findIndex(({ type }) => type === "permission") + 1;
    const made = new TranscriptText();
    made.add(LIFE.events.slice(0, until));
    const { delegation } = fold({ ...running(), id: LIFE.id }, LIFE.events.slice(0, until));
    const { text: all, question } = made.render(delegation, NOW);
    expect(all.split("\n")[question!]).toBe("**Question: Run a command**");
    expect(all).toMatch(/If you do not answer by .*: Reject\./);
  });

  it("keeps fences closed, and omits the middle of long output", () => {
    const call: Event = { ...FRAME, type: "tool_call", seq: 1, callId: "1", name: "run", title: "Run it", input: null };
    const output = ["````", ...Array.from({ length: 1_000 }, (_, index) => `line ${index}`), "end"].join("\n");
    const all = text(call, { ...FRAME, type: "tool_result", seq: 2, callId: "1", ok: false, output });
    const lines = all.trimEnd().split("\n");
    expect(lines[0]).toBe("✗ Run it");
    expect([lines[1], lines.at(-1)]).toEqual(["`````", "`````"]);
    expect(lines).toHaveLength(1 + 2 + MAX_LINES + 1);
    expect(all).toContain("… 802 lines …");
  });

  it("shows the input of a tool only if its title does not", () => {
    const call = (input: unknown, title: string): Event =>
      ({ ...FRAME, type: "tool_call", seq: 1, callId: "1", name: "x", title, input }); // prettier-ignore
    expect(text(call({ path: "a.py" }, "Read a.py"))).toBe("○ Read a.py\n");
    expect(text(call({ command: "make\ntest", dir: "/" }, "Run"))).toBe(
      "○ Run\n```\ncommand:\n  make\n  test\ndir: /\n```\n",
    );
  });

  it("says that a discarded result was restored", () => {
    const ready = (seq: number): Event => ({ ...FRAME, type: "worktree", seq, path: "/w", seconds: 0.1 });
    const gone: Event = { ...FRAME, type: "discarded", seq: 2, rescueRef: "refs/rescue/1" };
    expect(text(ready(1), gone, ready(3))).toBe(
      "The result was discarded. It can be restored.\n\nThe result was restored.\n",
    );
  });

  it("combines decisions on one file", () => {
    const decide = (seq: number, decision: "accept" | "reject", reason?: string): Event => ({
      ...FRAME, type: "decided", seq, path: "a.py", hunk: `${seq}`, decision, by: "vscode", ...(reason ? { reason } : {}),
    }); // prettier-ignore
    expect(text(decide(1, "accept"), decide(2, "accept"), decide(3, "reject", "Too long."))).toBe(
      "Accepted 2 changes in a.py.\nRejected 1 change in a.py. Too long.\n",
    );
  });

  it("shows how earlier tests end without the result's edits", () => {
    const check = DONE.checks[0];
    if (!check) throw new Error("the golden delegation has a check");
    const tests = [{ test: "test_a.py::test_one", restored: "failed", result: "passed" }];
    const base = { earlier: 312, lost: 1, tests, restored: ["test_a.py"] };
    const shown = text({ ...FRAME, ...check, base, type: "check_finished", seq: 1 });
    expect(shown).toContain("1 of 312 earlier tests do not pass as they were, or no longer run.");
    expect(shown).toContain("- test_a.py::test_one: failed → passed");
  });

  it("removes terminal escape sequences", () => {
    expect(removeEscapes("\u001b[31mred\u001b[0m\r\nnext\u0007\u0000 \u001b]0;title\u0007tab\there")).toBe(
      "red\nnext tab\there",
    );
  });
});

describe("transcript documents", () => {
  afterEach(() => void vi.useRealTimers());

  const { id } = LIFE;
  const URI = transcriptUri({ id, title: DONE.title });

  function open(history: Event[], now: Delegation) {
    vi.useFakeTimers({ now: NOW });
    const host = new FakeHost();
    const changed = new Emitter<Change>();
    let listener: (events: readonly Event[]) => void = () => {};
    let following = 0;
    const state = {
      delegation: { ...now, id } as Delegation | undefined,
      delegator: undefined as DelegatorEntry | undefined,
      loaded: true,
      tells: Infinity,
    };
    const store = {
      delegation: () => state.delegation,
      get loaded() {
        return state.loaded;
      },
      read: () => Promise.resolve(state.delegation),
      delegator: () => state.delegator,
      onDidChange: changed.subscribe,
      follow: (_: string, hear: (events: readonly Event[]) => void, after = 0): Promise<Disposable> => {
        listener = hear;
        const rest = history.filter(({ seq }) => seq > after);
        hear(rest.slice(0, state.tells));
        if (rest.length > state.tells) return Promise.reject(new Error("it ended in the middle"));
        following += 1;
        return Promise.resolve({ dispose: () => void (following -= 1) });
      },
    };
    const exists = (file: string): boolean => file.startsWith("/home/ada");
    const transcripts = new TranscriptDocuments({ host, store, exists });
    const source = host.files.get("understudy-transcript")!;
    const told: string[] = [];
    source.onDidChange((changes) => told.push(...changes.map(({ uri }) => uri)));
    return {
      host,
      transcripts,
      told,
      state,
      tell: (...events: Event[]) => listener(events),
      changed: () =>
        changed.fire({ delegations: new Set([id]), delegationList: true, delegators: false, modelServers: false, recipes: false, trust: false }), // prettier-ignore
      following: () => following,
      /** What the editor does: read it, and report the change. */
      read: async (): Promise<string> => {
        const now = new TextDecoder().decode(await source.read(URI));
        host.openTexts = [{ uri: URI, language: "markdown", text: now, dirty: false }];
        host.ownChanged.fire(URI);
        return now;
      },
      lenses: () => host.lenses.get("understudy-transcript")!(URI).map(({ command }) => command),
    };
  }

  it("show the whole history when opened, then follow with limited updates", async () => {
    const { read, tell, told, host, following, transcripts } = open(LIFE.events.slice(0, 8), running());
    expect(await read()).toContain("## Attempt 2: my-agent");
    for (let seq = 0; seq < 50; seq += 1) {
      tell({ ...FRAME, type: "text", seq: 100 + seq, text: "x" });
      await vi.advanceTimersByTimeAsync(10);
    }
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    expect(told.length).toBeGreaterThanOrEqual(2);
    expect(told.length).toBeLessThanOrEqual(Math.ceil(500 / DRAW_MS) + 1);
    expect(await read()).toContain("x".repeat(50));
    expect(host.followed.length).toBeGreaterThan(0);
    host.closed.fire(URI);
    expect(following()).toBe(0);
    transcripts.dispose();
  });

  it("wait for a sidecar, as after a reload", async () => {
    const { read, state, changed, told, following, transcripts } = open(LIFE.events.slice(0, 8), running());
    const known = state.delegation;
    state.loaded = false;
    state.delegation = undefined;
    expect(await read()).toBe("Waiting for Understudy…\n");
    state.loaded = true;
    state.delegation = known;
    changed();
    await vi.advanceTimersByTimeAsync(DRAW_MS * 2);
    expect(following()).toBe(1); // by itself: the editor does not ask again
    expect(told.length).toBeGreaterThan(0);
    expect(await read()).toContain("## Attempt 2: my-agent");
    transcripts.dispose();
  });

  it("contain every event once if a sidecar ends while sending the history", async () => {
    const { read, state, changed, following, transcripts } = open(LIFE.events.slice(0, 8), running());
    state.tells = 5;
    await read();
    expect(following()).toBe(0);
    changed();
    await vi.advanceTimersByTimeAsync(DRAW_MS * 2);
    expect(following()).toBe(1);
    expect((await read()).split("## Attempt 1")).toHaveLength(2);
    transcripts.dispose();
  });

  it("fold each part once: what the user unfolds stays unfolded", async () => {
    const { read, host, transcripts } = open(LIFE.events, DONE);
    host.active = {
      uri: URI,
      selection: { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } },
      selectionEmpty: true,
    };
    const folded = (): typeof host.ran => host.ran.filter((ran) => ran.id === "editor.fold");
    const text = await read();
    await vi.advanceTimersByTimeAsync(500);
    expect(folded(), "the editor does not know yet what can be folded").toEqual([]);
    for (let times = 0; times < 2; times += 1) {
      host.foldsOf.get("understudy-transcript")?.(URI, text);
      await vi.advanceTimersByTimeAsync(500);
      await read();
    }
    expect(folded()).toHaveLength(1);
    expect((folded()[0]?.values[0] as { selectionLines: number[] }).selectionLines).toHaveLength(3);
    expect(host.followed).toEqual([]); // finished blocks are read from the start
    transcripts.dispose();
  });

  it("offer actions, and the answers above a question", async () => {
    const until = LIFE.events.findIndex(({ type }) => type === "permission") + 1;
    const asked = fold(running(), LIFE.events.slice(0, until)).delegation;
    const { read, lenses, state, transcripts } = open(LIFE.events.slice(0, until), asked);
    await read();
    expect(lenses().map(({ id: command, arguments: values }) => [command, values])).toEqual([
      ["understudy.delegations.cancel", [id]],
      ["understudy.delegations.attach", [id]],
      ["understudy.delegations.answer", [id, "1", "a"]],
      ["understudy.delegations.answer", [id, "1", "r"]],
    ]);
    const [option] = asked.waitingFor!.options;
    const titled = { ...asked.waitingFor!, options: [{ ...option!, title: "Allow $(circle-slash)" }] };
    state.delegation = { ...asked, waitingFor: titled };
    expect(lenses()[1]?.title.match(/\$\(/g), "our own icon, and no other").toHaveLength(1);
    state.delegation = DONE;
    expect(lenses().map(({ id: command }) => command)).toEqual([
      "understudy.review.open",
      "understudy.delegations.reply",
      "understudy.delegations.retryWith",
    ]);
    state.delegation = { ...DONE, reservations: ["no_checks"] };
    expect(lenses().map(({ id: command, arguments: values }) => [command, values])).toContainEqual([
      "understudy.checks.add",
      [id],
    ]);
    const [entry] = result("understudy/delegators/list", "delegators-list.valid").delegators;
    state.delegator = { ...entry!, followsInstructions: false };
    expect(lenses().map(({ id: command }) => command)).not.toContain("understudy.delegations.reply");
    transcripts.dispose();
  });

  it("link to the user's own file, and to nothing outside", async () => {
    const outside: Event = { ...FRAME, type: "file", seq: 90, path: "../../../etc/passwd", change: "modified" };
    const { read, host, transcripts } = open([...LIFE.events, outside], DONE);
    const now = await read();
    const links = host.linksOf.get("understudy-transcript")!(URI, now);
    expect(new Set(links.map(({ target }) => target))).toEqual(
      new Set(["file:///home/ada/greeting/tests/test_wrapping_ghost.py"]),
    );
    expect(host.linksOf.get("understudy-transcript")!(URI, "another text")).toEqual([]);
    transcripts.dispose();
  });
});
