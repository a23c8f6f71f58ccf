import { PROTOCOL_VERSION } from "../../src/protocol.ts";
import * as path from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { DisposableStore, Emitter } from "../../src/base/events.ts";
import { describe as words, mismatchText } from "../../src/health/statusBar.ts";
import { trustSync } from "../../src/health/workspaceTrust.ts";
import type { Change } from "../../src/state/store.ts";
import type { Delegation, DelegatorEntry, Problem, Requests } from "../../src/protocol.ts";
import { DelegatorTree, delegatorRow } from "../../src/delegators/delegatorTree.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, golden, result } from "../support/golden.ts";

const LIST = result("understudy/delegators/list", "delegators-list.valid");

function rows(delegators: readonly DelegatorEntry[], problems: readonly Problem[]): DelegatorTree {
  return new DelegatorTree({
    delegators,
    problems,
    delegations: [],
    loaded: false,
    delegator: (name) => delegators.find(({ delegator }) => delegator.name === name),
    onDidChange: new Emitter<Change>().subscribe,
  });
}

function draw(view: DelegatorTree, id?: string): string[] {
  return view.children(id).flatMap((child) => {
    const row = view.row(child)!;
    return [
      `${row.label} | ${row.description ?? ""} | ${row.icon?.id ?? ""} | ${row.context}`,
      ...draw(view, child).map((line) => `  ${line}`),
    ];
  });
}

describe("the Delegators view", () => {
  it("shows a problem once, at its delegator if that is listed", () => {
    const [entry] = LIST.delegators;
    const [problem] = LIST.problems;
    if (!entry || !problem) throw new Error("The example has no delegator or no problem.");
    const broken = { ...entry, state: { ...entry.state, ready: false, problems: [problem] } };
    const view = rows([broken], [problem]);
    expect(view.children()).not.toContain("problems");
    expect(rows([entry], [problem]).children()).toContain("problems");
  });

  it("shows the state of each delegator, and problems with their location", () => {
    expect(draw(rows(LIST.delegators, LIST.problems))).toEqual([
      "1 configuration problem |  | error | problems",
      "  `total_seconds` is text, but has to be a number. | config.toml:12 | error | problem place",
      "Ghostwriter |  | terminal | delegator builtin",
      "Local coder | ollama · qwen2.5-coder:7b | server | delegator user editable file server",
      "my-agent | Custom command · small-1 | error | delegator user editable file",
      "  The program my-agent is not on PATH. |  | error | problem",
    ]);
  });

  it("shows what a delegator does by default", () => {
    const entry = structuredClone(LIST.delegators.find(({ delegator }) => delegator.name === "my-agent"))!;
    const described = (more: Partial<DelegatorEntry>): unknown =>
      rows([{ ...entry, ...more }], []).row(delegatorRow("my-agent"))?.description;
    expect(described({ isDefault: true })).toBe("default · Custom command · small-1");
    expect(described({ defaultFor: ["docs", "tests"] })).toBe("default for docs, tests · Custom command · small-1");
    expect(described({ isDefault: true, defaultFor: ["docs"] })).toContain("default, default for docs · ");
  });

  it("opens the location of a problem, and describes rows to screen readers", () => {
    const view = rows(LIST.delegators, LIST.problems);
    const place = view.row("problem:0");
    expect(place?.command).toMatchObject({
      id: "understudy.openLocation",
      arguments: [LIST.problems[0]?.location?.uri, LIST.problems[0]?.location?.range],
    });
    expect(place?.spoken).toContain("Error, `total_seconds` is text");
    expect(view.row(delegatorRow("my-agent"))?.spoken).toBe("my-agent, not ready, Custom command, small-1");
    expect(view.parent("problem:0:my-agent")).toBe(delegatorRow("my-agent"));
    expect(view.row(delegatorRow("gone"))).toBeUndefined();
  });

  it("shows how to add a delegator if there are only built-in ones", () => {
    const builtin = LIST.delegators.filter(({ scope }) => scope === "builtin");
    const view = rows(builtin, []);
    expect(view.children()).toEqual(["add", delegatorRow("ghostwriter")]);
    expect(view.row("add")?.command?.id).toBe("understudy.delegators.add");
    expect(rows([], []).children()).toEqual([]);
  });

  it("keeps names short, and shows explanations after them", () => {
    const entry = structuredClone(LIST.delegators[0])!;
    entry.delegator.displayName = "Ghostwriter (built in: no model)";
    expect(rows([entry], []).row(delegatorRow("ghostwriter"))).toMatchObject({
      label: "Ghostwriter",
      description: "built in: no model",
    });
  });

  it("counts running and queued delegations", () => {
    const busy = structuredClone(LIST.delegators[1])!;
    busy.state = { ...busy.state, running: 2, queued: 1 };
    const row = rows([busy], []).row(delegatorRow("local-coder"));
    expect(row?.description).toBe("2 running · 1 queued · ollama · qwen2.5-coder:7b");
    expect(row?.icon?.id, "only the rows of delegations show progress").toBe("server");
  });

  it("stops counting with the last event, whatever the list of delegators reported before", () => {
    const entry = structuredClone(LIST.delegators[1])!;
    entry.state = { ...entry.state, running: 1 };
    const one = { id: "1", delegator: "local-coder", state: "running" } as Delegation;
    const changes = new Emitter<Change>();
    const store = {
      delegators: [entry],
      problems: [],
      delegations: [one] as readonly Delegation[],
      loaded: true,
      delegator: () => entry,
      onDidChange: changes.subscribe,
    };
    const view = new DelegatorTree(store);
    const drawn: (readonly string[] | undefined)[] = [];
    view.onDidChange((ids) => drawn.push(ids));
    const nothing = { delegators: false, modelServers: false, recipes: false, trust: false, delegationList: false };
    const change = { ...nothing, delegations: new Set(["1"]) };
    changes.fire(change);
    expect(view.row(delegatorRow("local-coder"))?.description).toMatch(/^1 running/);
    store.delegations = [{ ...one, state: "finished" }];
    changes.fire(change);
    changes.fire(change);
    expect(view.row(delegatorRow("local-coder"))?.description).not.toContain("running");
    expect(drawn).toEqual([[delegatorRow("local-coder")], [delegatorRow("local-coder")]]);
  });
});

/** A sidecar without a process, with the same responses. */
async function app(
  delegations: readonly Delegation[] = [],
): Promise<{ host: FakeHost; peer: GoldenSidecar; disposables: DisposableStore }> {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", LIST)
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [], problems: [] })
    .answer("understudy/delegations/list", { delegations: [...delegations] })
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/workspace/trust", {
      workspace: "/home/ada/greeting",
      trusted: true,
      effects: [],
      changed: [],
      digest: "1",
    });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  const disposables = new DisposableStore();
  const made = createApp({ host, connect: inProcess(peer) }, disposables);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  return { host, peer, disposables };
}

describe("commands on a delegator", () => {
  it("open a hand-written file at its line", async () => {
    const { host, peer, disposables } = await app();
    const [entry] = structuredClone(LIST.delegators.slice(1, 2));
    if (entry) entry.editable = false;
    peer.answer("understudy/delegators/list", { delegators: entry ? [entry] : [], problems: [] });
    peer.notify("understudy/changed", { collections: ["delegators"] });
    const row = (): string | undefined =>
      host.rows.get("understudy.delegators")?.row(delegatorRow("local-coder"))?.context;
    await vi.waitFor(() => expect(row()).not.toContain("editable"));
    await host.commands.run("understudy.delegators.edit", delegatorRow("local-coder"));
    expect(host.opened).toEqual([{ uri: entry?.location?.uri, options: { range: entry?.location?.range } }]);
    host.buttons.push("Open File");
    await host.commands.run("understudy.delegators.delete", delegatorRow("local-coder"));
    expect(host.messages.at(-1)?.text).toContain("was written by hand");
    expect(host.opened).toHaveLength(2);
    expect(peer.params("understudy/delegators/delete")).toEqual([]);
    disposables.dispose();
  });

  it("edit ends when the tab is closed: only then does what offered it continue", async () => {
    const { host, disposables } = await app();
    let ended = false;
    const edit = host.commands
      .run("understudy.delegators.edit", delegatorRow("local-coder"))
      .then(() => (ended = true));
    await vi.waitFor(() => expect(host.panels).toHaveLength(1));
    await new Promise(setImmediate);
    expect(ended).toBe(false);
    host.panels[0]?.close();
    await edit;
    disposables.dispose();
  });

  it("read the configuration of a folder that is added to the window", async () => {
    const { host, peer, disposables } = await app();
    host.folders.push({ uri: "file:///home/ada/other", path: "/home/ada/other", name: "other" });
    peer.asked.length = 0;
    host.foldersChanged.fire();
    await vi.waitFor(() =>
      expect(peer.params("understudy/delegators/list")).toEqual(host.folders.map(({ uri }) => ({ workspace: uri }))),
    );
    disposables.dispose();
  });

  it("delete after a confirmation, with the revision that was shown", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegators/delete", {});
    await host.commands.run("understudy.delegators.delete", delegatorRow("local-coder"));
    expect(peer.params("understudy/delegators/delete")).toEqual([]);
    host.buttons.push("Delete");
    await host.commands.run("understudy.delegators.delete", delegatorRow("local-coder"));
    expect(peer.params("understudy/delegators/delete")).toMatchObject([
      { name: "local-coder", revision: "5f2b9c01d7e4" },
    ]);
    disposables.dispose();
  });

  it("duplicate under an unused name, and select the copy", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegators/create", ({ delegator }) => ({
      ...LIST.delegators[1]!,
      delegator,
    }));
    await host.commands.run("understudy.delegators.duplicate", delegatorRow("local-coder"));
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "local-coder-2", modelServer: "ollama" }, scope: "user" },
    ]);
    expect(host.revealed).toEqual([delegatorRow("local-coder-2")]);
    disposables.dispose();
  });

  it("set the context keys and the status bar", async () => {
    const { host, disposables } = await app();
    expect(host.contexts.get("understudy.sidecar")).toBe("running");
    expect(host.contexts.get("understudy.hasDelegators")).toBe(true);
    expect(host.statuses.at(-1)).toMatchObject({ text: "$(check) Understudy", command: "understudy.showStatus" });
    disposables.dispose();
  });
});

describe("health", () => {
  it("names the side to update", () => {
    const state = {
      kind: "mismatch",
      found: { command: "/usr/bin/understudy", origin: "path" },
      reported: "Understudy 9.0, protocol 9",
    } as const;
    expect(mismatchText({ ...state, upgrade: "extension" })).toBe(
      "Incompatible versions: this extension needs protocol 2, but Understudy 9.0, protocol 9. Update the extension.",
    );
    expect(mismatchText({ ...state, upgrade: "sidecar" })).toContain("Update the engine (/usr/bin/understudy).");
  });

  it("offers pending questions first, and no restart by pressing Enter accidentally", async () => {
    const done = result("understudy/delegations/get", "delegations-get.valid");
    const waitingFor = {
      requestId: "1",
      attempt: 1,
      title: "Run rm -rf build",
      detail: "",
      options: [],
      deadlineAction: "",
    };
    const waiting = { ...done, state: "waiting", waitingFor } as unknown as Delegation;
    for (const [delegations, first] of [
      [[waiting], ["Answer Question…", waiting.waitingFor?.title]],
      [[], ["Show Delegations", undefined]],
    ] as const) {
      const { host, disposables } = await app(delegations);
      host.answers.push({ cancel: true });
      await host.commands.run("understudy.showStatus");
      const [top] = host.shown.at(-1)?.items ?? [];
      expect([top?.label, top?.detail]).toEqual(first);
      expect(host.shown.at(-1)?.items.map(({ label }) => label)).toEqual(
        expect.arrayContaining([
          "Choose Default Delegators…",
          "Manage Model Servers…",
          "Manage Checks…",
          "Open Settings",
        ]),
      );
      const settings = host.shown.at(-1)?.items.find(({ label }) => label === "Open Settings")?.id ?? "";
      host.answers.push({ pick: settings });
      await host.commands.run("understudy.showStatus");
      expect(host.ran.at(-1)).toEqual({
        id: "workbench.action.openSettings",
        values: ["@ext:understudy.understudy"],
      });
      disposables.dispose();
    }
  });

  it("shows the findings of the diagnostics, each with the button that helps", async () => {
    const { host, peer, disposables } = await app();
    const link = { kind: "link_folders" as const, paths: ["node_modules"] };
    peer
      .answer("understudy/doctor", {
        checks: [
          { name: "python", ok: true, message: "3.12" },
          { name: "git", ok: false, message: "git is\ntoo old", hint: "Upgrade it." },
          { name: "packages", ok: true, message: "None.", hint: "Run understudy init.", remedy: link },
        ],
      })
      .answer("understudy/remedies/apply", {});
    await host.commands.run("understudy.doctor");
    const [panel] = host.panels;
    panel?.send("ready");
    const shown = panel?.posted.at(-1) as { head: string; rows: object[] };
    expect(shown.head).toBe("1 check failed.");
    // What is wrong comes first, and what is fine last.
    expect(shown.rows.slice(0, 4)).toEqual([
      { mark: "✗", name: "Git", text: "git is too old", hint: "Upgrade it.", button: "" },
      expect.objectContaining({ mark: "✗", name: "Delegator my-agent", button: "Edit…" }),
      { mark: "→", name: "Packages of the project", text: "None.", hint: "", button: "Link node_modules" },
      { mark: "✓", name: "Python of the engine", text: "3.12", hint: "", button: "" },
    ]);
    expect(shown.rows).toContainEqual(expect.objectContaining({ name: "Delegator ghostwriter", button: "Test" }));
    panel?.send(2);
    await vi.waitFor(() => expect(peer.params("understudy/doctor")).toHaveLength(2)); // it looks again
    expect(peer.params("understudy/remedies/apply")).toMatchObject([{ remedy: link }]);
    expect(host.panels).toHaveLength(1);
    disposables.dispose();
  });

  it("describes every state, and uses colors only for problems", () => {
    const ending = { code: 4, signal: null, lines: [] };
    const none = { running: 0, waiting: 0, problems: 0 };
    expect(words({ kind: "crashed", cause: "exit code 4", exit: ending, againInMs: 0 }, none)).toMatchObject({
      severity: "warning",
    });
    expect(words({ kind: "off" }, none).severity).toBeUndefined();
    const found = { command: "/usr/bin/understudy", origin: "path" } as const;
    const greeting = { protocolVersion: PROTOCOL_VERSION, version: "0.1.0", requests: [], notifications: [] };
    expect(
      words({ kind: "running", found, serverInfo: greeting }, { running: 2, waiting: 1, problems: 0 }),
    ).toMatchObject({
      text: "$(bell-dot) Understudy 1",
      spoken: "Understudy, 2 running, 1 waiting for you",
    });
  });
});

describe("workspace trust", () => {
  const ASK = golden("workspace-trust.ask").expect?.result as Requests["understudy/workspace/trust"]["result"];

  /** A sidecar that reports this trust state until it is changed. */
  function saying(how: Partial<typeof ASK>) {
    const host = new FakeHost();
    const peer = new GoldenSidecar().answer("understudy/workspace/trust", (params) =>
      params.trusted ? { ...ASK, trusted: true, changed: [] } : { ...ASK, ...how },
    );
    const told = (): unknown[] =>
      peer.params("understudy/workspace/trust").filter((params) => "trusted" in (params as object));
    return { host, peer, settle: trustSync({ requester: peer, host }), told };
  }

  it("asks again about what was declined, on request", async () => {
    const { host, settle, told } = saying({});
    expect(await settle()).toBe(false);
    expect(await settle()).toBe(false);
    expect(host.messages).toHaveLength(1);
    host.buttons.push("Trust");
    expect(await settle(true)).toBe(true);
    expect(host.messages).toHaveLength(2);
    expect(told()).toHaveLength(1);
  });

  it("is passed on once, and asked for again when it was revoked", async () => {
    const { host, settle, told } = saying({ changed: [] });
    await settle();
    expect(told()).toEqual([{ workspace: "file:///home/ada/greeting", trusted: true, digest: ASK.digest }]);
    await settle();
    expect(host.messages).toHaveLength(1); // revoked in a terminal: a question that is not answered
    expect(host.messages[0]?.text).toContain("was revoked");
    await settle();
    expect(host.messages).toHaveLength(1); // and it is not asked repeatedly
    expect(told()).toHaveLength(1);
  });

  it("asks when trust that was given in a terminal is revoked", async () => {
    const { host, peer, settle, told } = saying({ changed: [] });
    peer.answer("understudy/workspace/trust", { ...ASK, trusted: true, changed: [] });
    expect(await settle()).toBe(true);
    peer.answer("understudy/workspace/trust", { ...ASK, changed: [] });
    expect(await settle()).toBe(false);
    expect(host.messages.map(({ text }) => text)).toEqual([expect.stringContaining("was revoked")]);
    expect(told()).toEqual([]);
  });

  it("asks about changes, also in a window that does not know the previous state", async () => {
    const { host, settle, told } = saying({});
    expect(ASK.changed).not.toEqual([]);
    await settle();
    expect(host.messages.map(({ text }) => text)).toEqual([
      "The Understudy configuration of greeting has changed since you trusted it.",
    ]);
    expect(told()).toEqual([]);
    host.kept.clear();
    host.buttons.push("Trust");
    await settle();
    expect(told()).toHaveLength(1);
  });

  it("asks once if something that needs trust is wanted while the question is open", async () => {
    const { host, settle, told } = saying({});
    let answer: (button: string) => void = () => {};
    const message = vi
      .spyOn(host.windows, "message")
      .mockImplementation(() => new Promise((resolve) => void (answer = resolve)));
    const both = [settle(), settle(true)];
    await vi.waitFor(() => expect(message).toHaveBeenCalledTimes(1));
    await new Promise((resolve) => setImmediate(resolve));
    answer("Trust");
    expect(await Promise.all(both)).toEqual([true, true]);
    expect(message).toHaveBeenCalledTimes(1);
    expect(told()).toHaveLength(1);
  });

  it("asks once, however many notifications arrive before the answer", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/workspace/trust", ASK);
    const answers: ((button: string | undefined) => void)[] = [];
    const message = vi
      .spyOn(host.windows, "message")
      .mockImplementation(() => new Promise((resolve) => void answers.push(resolve)));
    const asked = (): number => peer.params("understudy/workspace/trust").length;
    const before = asked();
    for (let time = 0; time < 3; time += 1) host.foldersChanged.fire();
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    host.foldersChanged.fire();
    answers[0]?.(undefined);
    await vi.waitFor(() => expect(asked()).toBe(before + 2)); // it checks once more, and this state was declined
    await new Promise((resolve) => setImmediate(resolve));
    expect(message).toHaveBeenCalledTimes(1);
    disposables.dispose();
  });

  it("installs once, however often it is requested", async () => {
    const [host, disposables] = [new FakeHost(), new DisposableStore()];
    createApp({ host, connect: inProcess(new GoldenSidecar()) }, disposables);
    host.settings.set("python", path.join(host.environment.storagePath, "no-python"));
    await Promise.all([1, 2].map(() => host.commands.run("understudy.install")));
    expect(host.progresses.filter(({ title }) => title === "Installing Understudy")).toHaveLength(1);
    disposables.dispose();
  });

  it("does nothing in an untrusted workspace", async () => {
    const host = new FakeHost();
    host.trusted = false;
    const peer = new GoldenSidecar();
    const settle = trustSync({ requester: peer, host });
    expect(await settle()).toBe(false);
    expect(host.messages).toEqual([]);
    expect(await settle(true)).toBe(false); // for something that the user wants
    expect(host.messages.map(({ text }) => text)).toEqual([
      "This window is in Restricted Mode, so Understudy runs nothing here.",
    ]);
    expect(host.ran).toEqual([]);
    expect(peer.asked).toEqual([]);
  });

  it("continues what needed trust when the editor has given it", async () => {
    const host = new FakeHost();
    host.trusted = false;
    const trust = result("understudy/workspace/trust", "workspace-trust.valid");
    const peer = new GoldenSidecar().answer("understudy/workspace/trust", { ...trust, trusted: true });
    host.buttons.push("Manage Workspace Trust");
    host.handlers.set("workbench.trust.manage", () => undefined);
    const going = trustSync({ requester: peer, host })(true);
    await vi.waitFor(() => expect(host.ran.map(({ id }) => id)).toEqual(["workbench.trust.manage"]));
    expect(peer.asked).toEqual([]);
    host.trusted = true;
    host.trustGranted.fire();
    expect(await going).toBe(true);
  });
});
