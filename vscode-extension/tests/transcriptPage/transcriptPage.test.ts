// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fold } from "../../src/state/fold.ts";
import type { PageNotification, PageRequest } from "../../src/transcript/pageMessages.ts";
import { DRAW_MS, MAX_ROWS, MORE_ROWS, TranscriptPage } from "../../src/transcriptPage/transcriptPage.ts";
import type { Delegation, Event } from "../../src/protocol.ts";
import { golden, result } from "../support/golden.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };
const { id } = LIFE;
const FRAME = { at: "2026-11-21T00:45:12.345Z", attempt: 1 } as const;

function running(): Delegation {
  const now: Delegation = {
    ...structuredClone(DONE),
    id,
    state: "running",
    attempts: [],
    reservations: [],
    lastSeq: 0,
  };
  delete now.verdict;
  delete now.result;
  delete now.finishedAt;
  now.review = { pending: 0, accepted: 0, rejected: 0 };
  return now;
}

/** The server side of a page: what happened until now, and what happens next. */
async function open(history: readonly Event[], delegation = fold(running(), history).delegation, more: object = {}) {
  const sent: { method: string; params: unknown }[] = [];
  const ran: string[] = [];
  const answers = new Map<string, () => Promise<unknown>>();
  let hear: (notification: PageNotification) => void = () => {};
  const tell = (...events: Event[]): void => hear({ method: "understudy/event", params: { id, events } });
  const request = (method: PageRequest, params: unknown): Promise<unknown> => {
    sent.push({ method, params });
    const own = answers.get(method);
    if (own) return own();
    if (method === "understudy/delegations/get") return Promise.resolve(structuredClone(delegation));
    if (method === "understudy/delegations/subscribe") {
      const after = (params as { after: Record<string, number> }).after[id] ?? 0;
      tell(...history.filter(({ seq }) => seq > after));
    }
    return Promise.resolve({});
  };
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const transport = { request, onNotification: (listener: typeof hear) => void (hear = listener) };
  const editor = { run: (action: string) => void ran.push(action), openFile: (path: string) => void ran.push(path) };
  const page = new TranscriptPage(root, transport as never, { id, editor, ...more });
  await vi.advanceTimersByTimeAsync(DRAW_MS * 2);
  const rows = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>(".row")];
  const button = (text: string): HTMLButtonElement =>
    [...root.querySelectorAll("button")].find((one) => one.textContent.includes(text) && !one.hidden)!;
  return {
    root,
    page,
    rows,
    button,
    buttons: () => [...root.querySelectorAll("button")].filter((one) => !one.hidden).map((one) => one.textContent),
    sent: (method: PageRequest) => sent.filter((one) => one.method === method).map(({ params }) => params),
    answers,
    ran,
    changed: async () => {
      hear({ method: "understudy/changed", params: { collections: ["delegations"] } });
      await vi.advanceTimersByTimeAsync(DRAW_MS * 2);
    },
    send: tell,
    tell: async (...events: Event[]) => {
      tell(...events);
      await vi.advanceTimersByTimeAsync(DRAW_MS * 2);
    },
  };
}

const text = (seq: number, words: string): Event => ({ ...FRAME, type: "text", seq, text: words });
const phases = (count: number, from = 1): Event[] =>
  Array.from({ length: count }, (_, index) => ({
    ...FRAME,
    type: "phase",
    seq: from + index,
    text: `Step ${from + index}.`,
  }));

describe("the page of a transcript", () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse("2026-11-21T00:50:12.345Z") });
    // Without layout, everything is at the end.
    window.scrollTo = () => {};
  });
  afterEach(() => void vi.useRealTimers());

  it("shows every kind of event of the contract, with the final state and its actions", async () => {
    const page = await open(LIFE.events, { ...DONE, id, lastSeq: LIFE.events.at(-1)!.seq });
    expect(page.root.querySelector("h1")?.textContent).toBe("Tests for greeting/wrapping.py");
    expect(page.root.querySelector(".state")?.textContent).toBe("Verified");
    expect([...page.root.querySelectorAll("h2")].map((one) => one.textContent)).toEqual([
      "Attempt 1: big-coder (router, large-1)",
      "Attempt 2: my-agent (small-1)",
      "Result",
      "Verified",
    ]);
    for (const words of ["Number 1 in the queue.", "Write tests/test_wrapping_ghost.py", "Reject"])
      expect(page.root.querySelector("[role=log]")?.textContent).toContain(words);
    expect(page.buttons().slice(0, 5)).toEqual(["Review", "Reply…", "Retry", "Retry with…", "Open as Text"]);
    page.button("Review").click();
    page.button("Open as Text").click();
    page.button("tests/test_wrapping_ghost.py").click();
    expect(page.ran).toEqual(["review", "openText", "tests/test_wrapping_ghost.py"]);
    page.button("Retry").click();
    expect(page.sent("understudy/delegations/retry")).toEqual([{ id }]);
  });

  it("offers to add a check if none ran", async () => {
    const last = LIFE.events.at(-1)!.seq;
    const page = await open(LIFE.events, { ...DONE, id, lastSeq: last, reservations: ["no_checks"] });
    expect(page.buttons().slice(0, 2)).toEqual(["Review", "Add Check…"]);
    page.button("Add Check…").click();
    expect(page.ran).toEqual(["addCheck"]);
  });

  it("offers no words to an agent that follows no instructions", async () => {
    const agent = { instructable: false };
    const ended = await open(LIFE.events, { ...DONE, id, lastSeq: LIFE.events.at(-1)!.seq }, agent);
    expect(ended.buttons().slice(0, 4)).toEqual(["Review", "Retry", "Retry with…", "Open as Text"]);
    ended.page.setInstructable(true);
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    expect(ended.buttons().slice(0, 3)).toEqual(["Review", "Reply…", "Retry"]);
    const live = { ...running(), state: "running" as const };
    expect((await open([], live)).root.querySelector("form")?.hidden).toBe(false);
    expect((await open([], live, agent)).root.querySelector("form")?.hidden).toBe(true);
  });

  it("sends what the user types to a running agent, and shows what happens to it", async () => {
    const page = await open([text(1, "Begun.")]);
    const field = page.root.querySelector("textarea")!;
    const press = (more: object = {}): Promise<unknown> => {
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true, ...more }));
      return vi.advanceTimersByTimeAsync(1);
    };
    field.value = "  ";
    await press();
    field.value = "Keep the names.";
    await press({ shiftKey: true });
    await press({ isComposing: true });
    expect(page.sent("understudy/delegations/say")).toEqual([]);
    page.answers.set("understudy/delegations/say", () => Promise.reject(new Error("It has just finished.")));
    await press();
    expect(field.value).toBe("Keep the names.");
    expect(page.root.querySelector(".problem")?.textContent).toBe("It has just finished.");
    page.answers.delete("understudy/delegations/say");
    page.button("Send").click();
    await vi.advanceTimersByTimeAsync(1);
    expect(page.sent("understudy/delegations/say")).toEqual([
      { id, text: "Keep the names." },
      { id, text: "Keep the names." },
    ]);
    expect(field.value).toBe("");
    const said = { ...FRAME, type: "user_message", by: "lsp", text: "Keep the names.", delivery: "sent" } as const;
    await page.tell({ ...said, seq: 2, messageId: "1" }, { ...said, seq: 3, messageId: "2", delivery: "waiting" });
    const row = (place: number): string => page.rows()[place]!.textContent;
    expect(row(1)).toBe("YouKeep the names. Sent to the agent.");
    expect(row(2)).toContain("at the end of its turn");
    await page.tell({ ...FRAME, type: "message_delivered", seq: 4, messageId: "1" });
    expect(row(1)).toContain(" The agent got it.");
    await page.tell({ ...FRAME, type: "check_started", seq: 5, name: "pytest" });
    expect(page.root.querySelector("form")?.hidden).toBe(true);
    await page.tell({ ...FRAME, type: "finished", seq: 6, verdict: "unverified", reservations: [] });
    expect(row(1)).toContain(" The agent got it.");
    expect(row(2)).toContain(" The agent did not get it. Your next reply will include it.");
  });

  it("creates the output of tools, thoughts and the task only when they are opened", async () => {
    const page = await open(LIFE.events);
    const log = page.root.querySelector("[role=log]")!;
    expect(log.textContent).not.toContain("58 lines written");
    expect(log.textContent).not.toContain("wrap() keeps words whole");
    for (const one of page.root.querySelectorAll("details")) one.open = true;
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    expect(log.textContent).toContain("58 lines written");
    expect(log.textContent).toContain("wrap() keeps words whole");
    expect(page.sent("understudy/delegations/logs")).toEqual([{ id }]);
  });

  it("shows the task as it was sent, or why it cannot", async () => {
    const task = async (logs: object): Promise<string | undefined> => {
      const page = await open([text(1, "Begun.")]);
      page.answers.set("understudy/delegations/logs", () => Promise.resolve(logs));
      const [details] = page.root.querySelectorAll("details");
      expect(details?.querySelector("summary")?.textContent).toBe("Task as sent");
      details!.open = true;
      await vi.advanceTimersByTimeAsync(DRAW_MS);
      return details?.querySelector("pre")?.textContent;
    };
    expect(await task({ prompt: "Write tests.\n<b>All</b>", files: [] })).toBe("Write tests.\n<b>All</b>");
    expect(await task({ prompt: "Write", promptOmittedBytes: 7, files: [] })).toBe("Write\n… 7 bytes omitted");
    expect(await task({ files: [] })).toBe("The task was not sent yet, or is no longer stored.");
  });

  it("answers a question once, and shows what was answered instead of the buttons", async () => {
    const until = LIFE.events.findIndex(({ type }) => type === "permission") + 1;
    const page = await open(LIFE.events.slice(0, until));
    expect(page.root.querySelector(".state")?.textContent).toBe("Waiting for you");
    const row = page.rows().find((one) => one.dataset["kind"] === "permission")!;
    expect(row.textContent).toContain("pip install freezegun");
    const group = row.querySelector("[role=group]")!;
    expect([...group.querySelectorAll("button")].map((one) => one.textContent)).toEqual([
      "Allow once",
      "Reject",
      "Always Allow “pip install freezegun”",
    ]);
    let done: (value: unknown) => void = () => {};
    page.answers.set("understudy/delegations/answer", () => new Promise((resolve) => (done = resolve)));
    page.button("Reject").focus();
    page.button("Reject").click();
    page.button("Allow once").click(); // it is disabled while the answer is sent
    expect(page.sent("understudy/delegations/answer")).toEqual([{ id, requestId: "1", option: "r" }]);
    done({});
    await page.tell(LIFE.events[until]!);
    expect(row.querySelector("[role=group]")).toBeNull();
    expect(row.textContent).toContain(" Reject, answered in a terminal");
    expect(row.contains(document.activeElement), "the focus stays where it was").toBe(true);
  });

  it("saves the proposed rule with the answer", async () => {
    const until = LIFE.events.findIndex(({ type }) => type === "permission") + 1;
    const page = await open(LIFE.events.slice(0, until));
    page.answers.set("understudy/delegations/answer", () => new Promise(() => {}));
    page.button("Always Allow “pip install freezegun”").click();
    expect(page.sent("understudy/delegations/answer")).toEqual([{ id, requestId: "1", option: "a", remember: true }]);
  });

  it("shows text of agents as text: no element, no link, no hidden character", async () => {
    const evil =
      '<img src=x onerror="alert(1)"><a href="https://example.invalid">[x](command:evil)</a>\u202egnp.exe\u0000';
    const call: Event = {
      ...FRAME,
      type: "tool_call",
      seq: 2,
      callId: "1",
      name: "x",
      title: evil,
      input: { path: evil },
    };
    const ask = {
      ...LIFE.events.find(({ type }) => type === "permission"),
      seq: 4,
      title: evil,
      detail: evil,
    } as Event;
    const page = await open([
      text(1, evil),
      call,
      { ...FRAME, type: "tool_result", seq: 3, callId: "1", ok: true, output: evil },
      ask,
    ]);
    for (const one of page.root.querySelectorAll("details")) one.open = true;
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    expect(page.root.querySelectorAll("img, script, iframe, style, [src], [onerror], :not(a)[href]")).toHaveLength(0);
    const links = [...page.root.querySelectorAll("a")].map((one) => [one.getAttribute("href"), one.textContent]);
    expect(links).toEqual([["https://example.invalid", "https://example.invalid"]]);
    expect(page.root.textContent.split("<img src=x onerror=").length).toBeGreaterThanOrEqual(5);
    expect(page.root.textContent).not.toMatch(/[\u0000-\u0008\u202a-\u202e\u2066-\u2069]/);
  });

  it("bounds the document: long runs, long lines", async () => {
    const page = await open([...phases(1_000), text(1_001, "x".repeat(5_000_000))]);
    expect(page.rows()).toHaveLength(MAX_ROWS);
    expect(page.root.textContent.length).toBeLessThan(500_000);
    expect(page.rows().at(-2)?.textContent).toBe("Step 1000.");
    page.button("Show Earlier").click();
    expect(page.rows()).toHaveLength(MAX_ROWS);
    expect(page.rows()[0]?.textContent).toBe(`Step ${1_001 - MAX_ROWS - MORE_ROWS + 1}.`);
    while (page.buttons().includes("Show Earlier")) page.button("Show Earlier").click();
    expect(page.rows()[0]?.textContent).toBe("Step 1.");
    await page.tell(...phases(10, 1_002));
    expect(page.rows().at(-1)?.textContent, "the reader is not moved").toBe(`Step ${MAX_ROWS}.`);
    page.button("Show Later").click();
    expect(page.rows().at(-1)?.textContent).toBe(`Step ${MAX_ROWS + MORE_ROWS}.`);
    page.button("Jump to End").click();
    expect(page.rows().at(-1)?.textContent).toBe("Step 1011.");
  });

  it("reads only new text aloud, in batches, and keeps what is selected", async () => {
    const page = await open([...LIFE.events.slice(0, 8), text(9, "One ")]);
    const log = page.root.querySelector("[role=log]")!;
    expect(log.getAttribute("aria-live")).toBe("polite");
    const changes: MutationRecord[] = [];
    const watch = new MutationObserver((all) => void changes.push(...all));
    watch.observe(log, { childList: true, characterData: true, subtree: true });
    const node = page.rows().at(-1)?.querySelector("p")?.firstChild;
    for (let seq = 10; seq < 60; seq += 1) {
      page.send(text(seq, `word ${seq} `));
      await vi.advanceTimersByTimeAsync(2);
    }
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    expect(page.rows().at(-1)?.textContent).toMatch(/^One word 10 .* word 59/);
    expect(page.rows().at(-1)?.querySelector("p")?.firstChild).toBe(node);
    expect(changes.length).toBeLessThanOrEqual(5);
    expect(changes.every(({ type }) => type === "characterData")).toBe(true);
    watch.disconnect();
  });

  it("waits for a server, and continues without a gap or a repetition when there is one", async () => {
    const page = await open(LIFE.events.slice(0, 8));
    page.answers.set("understudy/delegations/get", () => Promise.reject(new Error("Waiting for Understudy…")));
    await page.changed();
    expect(page.root.querySelector("[role=alert]")?.textContent).toBe("Waiting for Understudy…");
    page.answers.clear();
    await page.changed();
    expect(page.root.querySelector<HTMLElement>("[role=alert]")?.hidden).toBe(true);
    expect(page.sent("understudy/delegations/subscribe").at(-1)).toEqual({ id, after: { [id]: 8 } });
    expect(page.root.textContent.split("Attempt 1:")).toHaveLength(2);
    await page.tell(...LIFE.events.slice(5, 12)); // some of them again
    expect(page.root.textContent.split("Attempt 2:")).toHaveLength(2);
  });

  it("goes back to where the reader was, and remembers where they are", async () => {
    const shown: string[] = [];
    Element.prototype.scrollIntoView = function (this: Element) {
      shown.push(this.textContent);
    };
    const places: (number | undefined)[] = [];
    const remember = (at: number | undefined): void => void places.push(at);
    const page = await open(phases(1_000), undefined, { at: 500, remember });
    expect(shown).toEqual(["Step 501."]);
    expect(page.rows()[0]?.textContent).toBe(`Step ${501 - MORE_ROWS}.`);
    for (let times = 0; times < 5; times += 1) window.dispatchEvent(new Event("scroll"));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(places).toHaveLength(1);
  });

  it("shows a failure once", async () => {
    const error = { kind: "tool_crashed", message: "The agent exited with code 3." } as const;
    const page = await open([
      { ...FRAME, type: "attempt_failed", seq: 1, error, willRetry: false },
      { ...FRAME, type: "finished", seq: 2, verdict: "failed", reservations: [], error },
    ]);
    expect(page.root.textContent.split("The agent exited with code 3.")).toHaveLength(2);
    expect(page.rows().map((row) => row.textContent)).not.toContain("Failed"); // a heading with nothing below it
    expect(page.buttons()[0]).toBe("Retry"); // not a reply to an agent that failed
    expect(page.buttons()).toContain("Show Log");
    expect(page.button("Retry").className).toBe("primary");
  });

  it("offers to retry first of all only what may work the next time", async () => {
    const none = { pending: 0, accepted: 1, rejected: 0 };
    const at = LIFE.events.at(-1)!.seq;
    const accepted = await open(LIFE.events, { ...DONE, id, lastSeq: at, review: none });
    const kind = ({ root }: { root: HTMLElement }): string | undefined =>
      [...root.querySelectorAll("button")].find(({ textContent }) => textContent === "Retry")?.className;
    expect(kind(accepted)).toBe("secondary");
    const error = { kind: "auth_failed", message: "Not logged in." } as const;
    const lasting = { ...DONE, id, lastSeq: at, verdict: "failed" as const, error, review: none };
    const page = await open(LIFE.events, lasting);
    expect(page.buttons().slice(0, 2)).toEqual(["Retry with…", "Retry"]);
    expect(kind(page)).toBe("secondary");
  });

  it("reads the delegation again when it has finished: only the server counts pending changes", async () => {
    const end = LIFE.events.findIndex(({ type }) => type === "finished");
    const page = await open(LIFE.events.slice(0, end));
    expect(page.buttons()).toContain("Cancel");
    page.button("Cancel").click();
    expect(page.sent("understudy/delegations/cancel")).toEqual([{ id }]);
    page.answers.set("understudy/delegations/get", () =>
      Promise.resolve({ ...DONE, id, lastSeq: LIFE.events[end]!.seq }),
    );
    await page.tell(LIFE.events[end]!);
    expect(page.buttons()).toContain("Review");
    expect(page.buttons()).not.toContain("Cancel");
  });

  it("counts a long step, in one row", async () => {
    const step = (seq: number, done: number, run = ""): Event => ({
      ...FRAME,
      type: "phase",
      seq,
      text: `pytest: ran ${done} of 90 tests`,
      count: { of: "tests", done, total: 90, run, secondsLeft: 12 },
    });
    const page = await open([step(1, 30)]);
    const bar = page.root.querySelector("progress")!;
    expect([bar.value, bar.max]).toEqual([30, 90]);
    expect(page.root.querySelector(".count")?.textContent).toBe("ran 30 of 90 tests, about 12 s left");
    await page.tell(step(2, 60));
    expect(page.rows().map((row) => row.textContent)).toEqual(["pytest: ran 60 of 90 tests"]);
    await page.tell(step(3, 30, "again"), { ...FRAME, type: "note", seq: 4, level: "info", text: "Done." });
    expect(page.rows()).toHaveLength(3);
    expect(page.root.querySelector<HTMLElement>(".count")?.hidden).toBe(true);
  });

  it("shows the call of a tool as a card, and what it replaces as a diff", async () => {
    const call = { ...FRAME, type: "tool_call", seq: 1, callId: "1", name: "Edit", title: "Edit a.py" } as const;
    const input = { file_path: "a.py", old_string: "one\ntwo", new_string: "three" };
    const page = await open([
      { ...call, input },
      { ...call, seq: 2, callId: "2", name: "bash", title: "ls -l", input: {} },
      { ...FRAME, type: "tool_result", seq: 3, callId: "1", ok: false, output: "refused" },
    ]);
    const parts = [...page.root.querySelectorAll(".row")].map((row) =>
      [".tool", "code", ".outcome"].map((part) => row.querySelector(part)?.textContent),
    );
    expect(parts).toEqual([
      ["Edit", "a.py", "failed"],
      ["bash", "ls -l", "running…"],
    ]);
    for (const one of page.root.querySelectorAll("details")) one.open = true;
    await vi.advanceTimersByTimeAsync(DRAW_MS);
    const lines = [...page.root.querySelectorAll(".diff span")].map((line) => [line.className, line.textContent]);
    expect(lines).toEqual([
      ["removed", "-one\n"],
      ["removed", "-two\n"],
      ["added", "+three"],
    ]);
  });
});
