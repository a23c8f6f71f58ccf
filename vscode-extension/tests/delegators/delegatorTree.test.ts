import * as path from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createApp } from "../src/app.ts";
import { Bag, Emitter } from "../src/base/emitter.ts";
import { describe as words, mismatchWords } from "../src/health/status.ts";
import { settleTrust } from "../src/health/trust.ts";
import type { Change } from "../src/model/store.ts";
import type { Delegation, DelegatorEntry, Problem, Requests } from "../src/protocol.ts";
import { DelegatorRows, rowOf } from "../src/views/delegators.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { GoldenSidecar, inProcess, golden, result } from "./support/golden.ts";

const LIST = result("understudy/delegators/list", "delegators-list.valid");

function rows(delegators: readonly DelegatorEntry[], problems: readonly Problem[]): DelegatorRows {
  return new DelegatorRows({
    delegators,
    problems,
    delegations: [],
    loaded: false,
    delegator: (name) => delegators.find(({ delegator }) => delegator.name === name),
    onDidChange: new Emitter<Change>().signal,
  });
}

function draw(view: DelegatorRows, id?: string): string[] {
  return view.children(id).flatMap((child) => {
    const row = view.row(child)!;
    return [
      `${row.label} | ${row.description ?? ""} | ${row.icon?.id ?? ""} | ${row.context}`,
      ...draw(view, child).map((line) => `  ${line}`),
    ];
  });
}

describe("the view of delegators", () => {
  it("shows each one's state, and problems with the place in the file", () => {
    expect(draw(rows(LIST.delegators, LIST.problems))).toEqual([
      "One problem in the configuration |  | error | problems",
      "  `totalSeconds` is text, but has to be a number. | config.toml:12 | error | problem place",
      "Ghostwriter |  | terminal | delegator builtin",
      "Local coder | ollama · qwen2.5-coder:7b | server | delegator user editable file server",
      "my-agent | own program · small-1 | error | delegator user editable file",
      "  The program my-agent is not on PATH. |  | error | problem",
    ]);
  });

  it("opens the place of a problem, and says everything to a screen reader", () => {
    const view = rows(LIST.delegators, LIST.problems);
    const place = view.row("problem:0");
    expect(place?.command).toMatchObject({
      id: "understudy.openLocation",
      arguments: [LIST.problems[0]?.location?.uri, LIST.problems[0]?.location?.range],
    });
    expect(place?.spoken).toContain("Error, `totalSeconds` is text");
    expect(view.row(rowOf("my-agent"))?.spoken).toBe("my-agent, not ready, own program, small-1");
    expect(view.parent("problem:0:my-agent")).toBe(rowOf("my-agent"));
    expect(view.row(rowOf("gone"))).toBeUndefined();
  });

  it("leads on who has nothing but what Understudy brings itself", () => {
    const builtin = LIST.delegators.filter(({ scope }) => scope === "builtin");
    const view = rows(builtin, []);
    expect(view.children()).toEqual(["add", rowOf("ghostwriter")]);
    expect(view.row("add")?.command?.id).toBe("understudy.delegators.add");
    expect(rows([], []).children()).toEqual([]);
  });

  it("keeps names short, and shows what they explain behind them", () => {
    const entry = structuredClone(LIST.delegators[0])!;
    entry.delegator.displayName = "Ghostwriter (built in: no model)";
    expect(rows([entry], []).row(rowOf("ghostwriter"))).toMatchObject({
      label: "Ghostwriter",
      description: "built in: no model",
    });
  });

  it("counts what runs, and tells of a pause", () => {
    const busy = structuredClone(LIST.delegators[1])!;
    busy.state = { ...busy.state, running: 2, queued: 1, circuit: "open" };
    const row = rows([busy], []).row(rowOf("local-coder"));
    expect(row?.description).toBe("2 running · 1 queued · paused · ollama · qwen2.5-coder:7b");
    expect(row?.icon?.id).toBe("debug-pause");
  });

  it("stops counting with the last event, whatever the list of delegators said before", () => {
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
      onDidChange: changes.signal,
    };
    const view = new DelegatorRows(store);
    const drawn: (readonly string[] | undefined)[] = [];
    view.onDidChange((ids) => drawn.push(ids));
    const nothing = { delegators: false, modelServers: false, recipes: false, trust: false, delegationList: false };
    const change = { ...nothing, delegations: new Set(["1"]) };
    changes.fire(change);
    expect(view.row(rowOf("local-coder"))?.description).toMatch(/^1 running/);
    store.delegations = [{ ...one, state: "finished" }];
    changes.fire(change);
    changes.fire(change);
    expect(view.row(rowOf("local-coder"))?.description).not.toContain("running");
    expect(drawn).toEqual([[rowOf("local-coder")], [rowOf("local-coder")]]);
  });
});

/** A sidecar in this process: no process, the same answers. */
async function app(
  delegations: readonly Delegation[] = [],
): Promise<{ host: FakeHost; peer: GoldenSidecar; bag: Bag }> {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", LIST)
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [], problems: [] })
    .answer("understudy/delegations/list", { delegations: [...delegations] })
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/workspace/trust", { trusted: true, allows: [], changed: [], seen: "1" });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  const bag = new Bag();
  const made = createApp({ host, connect: inProcess(peer) }, bag);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  return { host, peer, bag };
}

describe("commands of a delegator", () => {
  it("opens what was written by hand, at the line", async () => {
    const { host, peer, bag } = await app();
    const [entry] = structuredClone(LIST.delegators.slice(1, 2));
    if (entry) entry.editable = false;
    peer.answer("understudy/delegators/list", { delegators: entry ? [entry] : [], problems: [] });
    peer.notify("understudy/changed", { collections: ["delegators"] });
    const row = (): string | undefined => host.rows.get("understudy.delegators")?.row(rowOf("local-coder"))?.context;
    await vi.waitFor(() => expect(row()).not.toContain("editable"));
    await host.commands.run("understudy.delegators.edit", rowOf("local-coder"));
    expect(host.opened).toEqual([{ uri: entry?.location?.uri, options: { range: entry?.location?.range } }]);
    bag.dispose();
  });

  it("reads what a folder brings that is added to the window", async () => {
    const { host, peer, bag } = await app();
    host.folders.push({ uri: "file:///home/ada/other", path: "/home/ada/other", name: "other" });
    peer.asked.length = 0;
    host.foldersChanged.fire();
    await vi.waitFor(() =>
      expect(peer.params("understudy/delegators/list")).toEqual(host.folders.map(({ uri }) => ({ workspace: uri }))),
    );
    bag.dispose();
  });

  it("deletes only after asking, and with the revision that was seen", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegators/delete", {});
    await host.commands.run("understudy.delegators.delete", rowOf("local-coder"));
    expect(peer.params("understudy/delegators/delete")).toEqual([]);
    host.buttons.push("Delete");
    await host.commands.run("understudy.delegators.delete", rowOf("local-coder"));
    expect(peer.params("understudy/delegators/delete")).toMatchObject([
      { name: "local-coder", revision: "5f2b9c01d7e4" },
    ]);
    bag.dispose();
  });

  it("duplicates under a free name, and selects the copy", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegators/create", ({ delegator }) => ({
      ...LIST.delegators[1]!,
      delegator,
    }));
    await host.commands.run("understudy.delegators.duplicate", rowOf("local-coder"));
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "local-coder-2", modelServer: "ollama" }, scope: "user" },
    ]);
    expect(host.revealed).toEqual([rowOf("local-coder-2")]);
    bag.dispose();
  });

  it("tells the views and the status bar how things stand", async () => {
    const { host, bag } = await app();
    expect(host.contexts.get("understudy.sidecar")).toBe("running");
    expect(host.contexts.get("understudy.hasDelegators")).toBe(true);
    expect(host.statuses.at(-1)).toMatchObject({ text: "$(check) Understudy", command: "understudy.showStatus" });
    bag.dispose();
  });
});

describe("health", () => {
  it("says which side to upgrade", () => {
    const state = {
      kind: "mismatch",
      found: { command: "/usr/bin/understudy", origin: "path" },
      said: "Understudy 9.0, protocol 9",
    } as const;
    expect(mismatchWords({ ...state, upgrade: "extension" })).toBe(
      "Upgrade the Understudy extension: it speaks protocol 1, but Understudy 9.0, protocol 9.",
    );
    expect(mismatchWords({ ...state, upgrade: "sidecar" })).toContain("Upgrade Understudy (/usr/bin/understudy)");
  });

  it("offers first what waits for the person, and no restart by a slip of the Enter key", async () => {
    const done = result("understudy/delegations/get", "delegations-get.valid");
    const waitingFor = {
      requestId: "1",
      attempt: 1,
      title: "Run rm -rf build",
      detail: "",
      options: [],
      onDeadline: "",
    };
    const waiting = { ...done, state: "waiting", waitingFor } as unknown as Delegation;
    for (const [delegations, first] of [
      [[waiting], ["Answer a Question …", waiting.waitingFor?.title]],
      [[], ["Show Delegations", undefined]],
    ] as const) {
      const { host, bag } = await app(delegations);
      host.answers.push({ cancel: true });
      await host.commands.run("understudy.showStatus");
      const [top] = host.shown.at(-1)?.items ?? [];
      expect([top?.label, top?.detail]).toEqual(first);
      bag.dispose();
    }
  });

  it("shows what is missing on this machine as a text that nobody is asked to save", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/doctor", {
      checks: [
        { name: "python", ok: true, message: "3.12" },
        { name: "git", ok: false, message: "git is too old", hint: "Upgrade it." },
      ],
    });
    await host.commands.run("understudy.doctor");
    expect(host.texts).toEqual([]);
    const uri = host.opened.at(-1)?.uri ?? "";
    expect(uri).toMatch(/^understudy-machine:\/This%20Machine/);
    expect(host.provided.get("understudy-machine")?.text(uri)).toBe(
      "One thing is missing.\n\n✓ python: 3.12\n✗ git: git is too old\n  Upgrade it.\n",
    );
    bag.dispose();
  });

  it("has words for every state, without a colour that means nothing", () => {
    const ending = { code: 4, signal: null, lines: [] };
    const none = { running: 0, waiting: 0, problems: 0 };
    expect(words({ kind: "crashed", cause: "exit code 4", ending, againInMs: 0 }, none)).toMatchObject({
      severity: "warning",
    });
    expect(words({ kind: "off" }, none).severity).toBeUndefined();
    const found = { command: "/usr/bin/understudy", origin: "path" } as const;
    const greeting = { protocolVersion: 1, version: "0.1.0", requests: [], notifications: [] };
    expect(words({ kind: "running", found, greeting }, { running: 2, waiting: 1, problems: 0 })).toMatchObject({
      text: "$(bell-dot) Understudy 1",
      spoken: "Understudy, 2 running, 1 waiting for you",
    });
  });
});

describe("workspace trust", () => {
  const ASK = golden("workspace-trust.ask").expect?.result as Requests["understudy/workspace/trust"]["result"];

  /** A sidecar that says so of a workspace until it is told otherwise. */
  function saying(how: Partial<typeof ASK>) {
    const host = new FakeHost();
    const peer = new GoldenSidecar().answer("understudy/workspace/trust", (params) =>
      params.trusted ? { ...ASK, trusted: true, changed: [] } : { ...ASK, ...how },
    );
    const told = (): unknown[] =>
      peer.params("understudy/workspace/trust").filter((params) => "trusted" in (params as object));
    return { host, settle: () => settleTrust({ asker: peer, host }), told };
  }

  it("records once what the person trusts in the editor, and asks when it is trusted no more", async () => {
    const { host, settle, told } = saying({ changed: [] });
    await settle();
    expect(told()).toEqual([{ workspace: "file:///home/ada/greeting", trusted: true, seen: ASK.seen }]);
    await settle();
    expect(host.messages).toHaveLength(1); // withdrawn in a terminal: a question, which nobody answered
    expect(host.messages[0]?.text).toContain("withdrawn");
    await settle();
    expect(host.messages).toHaveLength(1); // and it is not asked again and again
    expect(told()).toHaveLength(1);
  });

  it("asks about what has changed since, also in a window that does not know of it", async () => {
    const { host, settle, told } = saying({});
    expect(ASK.changed).not.toEqual([]);
    await settle();
    expect(host.messages.map(({ text }) => text)).toEqual([
      "What greeting configures for Understudy has changed since you trusted it.",
    ]);
    expect(told()).toEqual([]);
    host.kept.clear();
    host.buttons.push("Trust It");
    await settle();
    expect(told()).toHaveLength(1);
  });

  it("asks once, however often it is told that trust has changed before there is an answer", async () => {
    const { host, peer, bag } = await app();
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
    await vi.waitFor(() => expect(asked()).toBe(before + 2)); // it looks once more, and this was turned down
    await new Promise((resolve) => setImmediate(resolve));
    expect(message).toHaveBeenCalledTimes(1);
    bag.dispose();
  });

  it("installs once, however often that is asked for", async () => {
    const { host, bag } = await app();
    host.settings.set("python", path.join(host.environment.storagePath, "no-python"));
    await Promise.all([1, 2].map(() => host.commands.run("understudy.install")));
    expect(host.progresses.filter(({ title }) => title === "Installing Understudy")).toHaveLength(1);
    bag.dispose();
  });

  it("says nothing for a workspace that is not trusted", async () => {
    const host = new FakeHost();
    host.trusted = false;
    const peer = new GoldenSidecar();
    await settleTrust({ asker: peer, host });
    expect(peer.asked).toEqual([]);
  });
});
