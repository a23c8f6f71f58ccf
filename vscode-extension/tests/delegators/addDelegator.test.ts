import { beforeEach, describe, expect, it, vi } from "vitest";
import { SidecarError } from "../src/client/wire.ts";
import { addDelegator, suggest, type AddParts } from "../src/flows/addDelegator.ts";
import { honoursOf, joinWords, optionsFor, splitWords } from "../src/flows/options.ts";
import type { Delegator, Honoured } from "../src/protocol.ts";
import { validateUrl } from "../src/flows/modelServer.ts";
import { folderOf } from "../src/model/folders.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { GoldenSidecar, golden, refusal, result } from "./support/golden.ts";

let host: FakeHost;
let peer: GoldenSidecar;
let parts: AddParts;

beforeEach(() => {
  host = new FakeHost();
  const created = result("understudy/delegators/create", "delegators-create.valid");
  peer = new GoldenSidecar()
    .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
    .answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"))
    .answer("understudy/modelServers/models", result("understudy/modelServers/models", "modelServers-models.valid"))
    .answer("understudy/modelServers/probe", ({ name }) =>
      name === "router" ? result("understudy/modelServers/probe", "modelServers-probe.valid") : { ok: true, steps: [] },
    )
    .answer("understudy/delegators/create", ({ delegator, scope }) => ({
      ...created,
      delegator,
      scope: scope ?? "user",
    }))
    .answer("understudy/delegators/update", ({ delegator }) => ({ ...created, delegator }))
    .answer("understudy/delegators/test", result("understudy/delegators/test", "delegators-test.valid"));
  parts = {
    asker: peer,
    windows: host.windows,
    names: () => new Set(["ghostwriter", "ollama-large-1"]),
    folders: () => host.folders,
    homePath: "/home/ada",
  };
});

describe("Add Delegator", () => {
  it("goes from a model server that answers to a delegator that was tried", async () => {
    host.answers.push(
      { pick: "server:ollama" },
      { pick: "qwen2.5-coder:7b" },
      { pick: "temperature" },
      { enter: "hot" },
      { enter: "0.2" },
      { pick: "totalSeconds" },
      { enter: "900" },
      { pick: "" },
      { enter: "Local Coder" },
      { enter: "local-coder" },
      { pick: "user" },
    );
    const made = await addDelegator(parts);
    expect(made?.delegator.name).toBe("local-coder");
    const delegator = {
      name: "local-coder",
      modelServer: "ollama",
      model: "qwen2.5-coder:7b",
      modelProperties: { temperature: 0.2 },
      limits: { totalSeconds: 900 },
    };
    const where = { scope: "user", workspace: "file:///home/ada/greeting" };
    expect(peer.params("understudy/delegators/create")).toEqual([{ delegator, ...where }]);
    expect(peer.params("understudy/delegators/test")).toEqual([{ name: "local-coder", delegator, ...where }]);
    const order = peer.asked.map(({ method }) => method).filter((name) => name.includes("delegators/"));
    expect(order).toEqual(["understudy/delegators/test", "understudy/delegators/create"]);
    expect(host.messages.map(({ level }) => level)).toEqual(["validation", "validation", "info"]);
    expect(host.answers).toEqual([]);
  });

  it("shows what was found, what answers, and why something does not", async () => {
    host.answers.push({ cancel: true });
    expect(await addDelegator(parts)).toBeUndefined();
    const items = host.shown[0]?.items.filter((item) => !item.separator) ?? [];
    expect(items.map(({ id }) => id)).toEqual(["tool:ghostwriter", "server:ollama", "server:router", "new-server"]);
    expect(items.find(({ id }) => id === "server:ollama")?.icon).toBe("pass");
    expect(items.find(({ id }) => id === "server:router")).toMatchObject({
      icon: "warning",
      detail: "The server refused the key of ROUTER_API_KEY (401).",
    });
    expect(peer.params("understudy/delegators/create")).toEqual([]);
  });

  it("goes back and keeps what was answered", async () => {
    host.answers.push(
      { pick: "server:ollama" },
      { pick: "large-1" },
      { back: true }, // from options to the model
      { pick: "large-1" },
      { pick: "" },
      { back: true }, // from the name to options
      { pick: "" },
      { enter: "big" },
      { back: true }, // from the scope to the name
      { enter: "bigger" },
      { pick: "file:///home/ada/greeting" },
    );
    await addDelegator(parts);
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "bigger", model: "large-1" }, scope: "workspace" },
    ]);
    const names = host.shown.filter(({ value }) => value !== undefined).map(({ value }) => value);
    expect(names).toEqual(["ollama-large-1-2", "ollama-large-1-2", "big"]);
    expect(host.shown[0]).toMatchObject({ step: 1, totalSteps: 5, back: false });
    expect(host.shown.at(-1)).toMatchObject({ step: 5, totalSteps: 5, back: true });
  });

  it("takes a model as it is typed, and refuses a name that is taken", async () => {
    host.answers.push(
      { pick: "tool:ghostwriter" },
      { pick: "typed", typed: "my-own" },
      { pick: "" },
      { enter: "ghostwriter" },
      { enter: "mine" },
      { pick: "user" },
    );
    await addDelegator(parts);
    expect(host.messages[0]?.text).toBe("There is a delegator of this name.");
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "mine", tool: "ghostwriter", model: "my-own" } },
    ]);
  });

  it("adds a model server in place, with its key, and takes it back when it does not answer and is not wanted", async () => {
    const created = result("understudy/modelServers/create", "modelServers-create.valid");
    peer
      .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
      .answer("understudy/modelServers/setKey", {})
      .answer("understudy/modelServers/delete", {})
      .answer("understudy/modelServers/probe", result("understudy/modelServers/probe", "modelServers-probe.valid"));
    host.answers.push(
      { pick: "new-server" },
      { pick: "custom" },
      { enter: "models.example.com" },
      { enter: "https://models.example.com/api/v1/" },
      { enter: "router" },
      { enter: "router-2" },
      { enter: "a-key-for-tests" },
      { cancel: true },
    );
    expect(await addDelegator(parts)).toBeUndefined();
    expect(peer.params("understudy/modelServers/create")).toEqual([
      { modelServer: { name: "router-2", kind: "custom", baseUrl: "https://models.example.com/api/v1" } },
    ]);
    expect(peer.params("understudy/modelServers/setKey")).toMatchObject([{ name: "router-2", key: "a-key-for-tests" }]);
    expect(peer.params("understudy/modelServers/delete")).toEqual([{ name: "router-2" }]);
    expect(JSON.stringify(host.messages)).not.toContain("a-key-for-tests");
  });

  it("lets the address of a new server be changed, and needs no key", async () => {
    const created = result("understudy/modelServers/create", "modelServers-create.valid");
    const wrong = result("understudy/modelServers/probe", "modelServers-probe.valid");
    peer
      .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
      .answer("understudy/modelServers/delete", {})
      .answer("understudy/modelServers/probe", () =>
        peer.params("understudy/modelServers/create").length < 2 ? wrong : { ok: true, steps: [] },
      );
    host.answers.push(
      { pick: "new-server" },
      { pick: "custom" },
      { enter: "http://127.0.0.1:8/v1" },
      { enter: "mine" },
      { enter: "" }, // no key
      { enter: "http://127.0.0.1:8000/v1" },
      { enter: "mine" },
      { enter: "" },
      { cancel: true }, // the model
    );
    host.buttons.push("Change");
    expect(await addDelegator(parts)).toBeUndefined();
    expect(peer.params("understudy/modelServers/create")).toMatchObject([
      { modelServer: { baseUrl: "http://127.0.0.1:8/v1" } },
      { modelServer: { baseUrl: "http://127.0.0.1:8000/v1" } },
    ]);
    expect(peer.params("understudy/modelServers/delete")).toEqual([{ name: "mine" }]);
    expect(peer.params("understudy/modelServers/setKey")).toEqual([]);
    expect(host.shown.find(({ value }) => value === "http://127.0.0.1:8/v1")).toBeDefined();
  });

  it("says whole why a server lists no models, and asks it again", async () => {
    const models = result("understudy/modelServers/models", "modelServers-models.valid");
    peer.answer("understudy/modelServers/models", () => {
      if (peer.params("understudy/modelServers/models").length > 1) return models;
      throw new SidecarError({ kind: "connection_failed", message: "The server could not be reached." });
    });
    host.answers.push({ pick: "server:ollama" }, { pick: " again" }, { pick: "large-1" }, { cancel: true });
    await addDelegator(parts);
    expect(host.shown[1]?.items).toMatchObject([{ label: "Ask Again", detail: "The server could not be reached." }]);
  });

  it("shows the agents of the machine first, and explains what is in no place of its own", async () => {
    const [tool] = result("understudy/tools/list", "tools-list.valid").tools;
    const named = (name: string, path?: string) => ({
      ...tool,
      name,
      displayName: name,
      path,
      found: true,
      runnable: true,
    });
    const tools = [named("ghostwriter"), named("generic"), named("claude", "/home/ada/bin/claude")];
    peer.answer("understudy/tools/list", { ...result("understudy/tools/list", "tools-list.valid"), tools } as never);
    host.answers.push({ cancel: true });
    await addDelegator(parts);
    const found = host.shown[0]?.items
      .filter(({ id }) => id.startsWith("tool:"))
      .map((item) => [item.label, item.detail]);
    expect(found).toEqual([
      ["claude", "~/bin/claude"],
      ["generic", "A program of your own that edits files."],
      ["ghostwriter", "Comes with Understudy: writes property tests, without a model."],
    ]);
  });

  it("says what an option is set to in the words in which it was chosen", async () => {
    const known = result("understudy/tools/list", "tools-list.valid");
    const honours: Honoured = { launch: ["permissionMode"], limits: ["maxTurns"], properties: false };
    const claude = { ...known.tools[0], name: "claude", found: true, runnable: true, honours };
    peer.answer("understudy/tools/list", { ...known, tools: [claude] } as never);
    host.answers.push({ pick: "tool:claude" }, { pick: "" }, { pick: "permissionMode" }, { pick: "acceptEdits" });
    host.answers.push({ cancel: true });
    await addDelegator(parts);
    const options = host.shown.at(-1)?.items.filter(({ id }) => id !== "" && !id.startsWith("heading"));
    expect(options?.map(({ label, description }) => [label, description])).toEqual([
      ["Permissions", "Edit files"],
      ["Turn limit", "not set"],
    ]);
  });

  it("edits with everything filled in, and passes the revision on", async () => {
    const entry = result("understudy/delegators/list", "delegators-list.valid").delegators[1];
    host.answers.push({ pick: "server:ollama" }, { pick: "large-1" }, { pick: "" }, { enter: "local-coder" });
    await addDelegator(parts, entry);
    const expected = golden("delegators-update.conflict").params?.["delegator"] as object;
    expect(peer.params("understudy/delegators/update")).toMatchObject([
      {
        name: "local-coder",
        revision: entry?.revision,
        delegator: { ...expected, model: "large-1", limits: entry?.delegator.limits },
      },
    ]);
  });

  it("tells of a conflict in the sidecar's own words, and saves nothing else", async () => {
    const entry = result("understudy/delegators/list", "delegators-list.valid").delegators[1];
    peer.answer("understudy/delegators/update", () => {
      throw refusal("delegators-update.conflict");
    });
    host.answers.push({ pick: "server:ollama" }, { pick: "large-1" }, { pick: "" }, { enter: "local-coder" });
    expect(await addDelegator(parts, entry)).toBeUndefined();
    expect(host.messages.at(-1)?.text).toBe(
      "The delegator local-coder was changed since you read it. Read it again and decide again.",
    );
  });

  describe("what does not work", () => {
    const answers = [
      { pick: "tool:ghostwriter" },
      { pick: "" },
      { pick: "" },
      { enter: "mine" },
      { pick: "user" },
    ] as const;

    beforeEach(() => {
      peer.answer("understudy/delegators/test", {
        ok: false,
        steps: [
          { name: "configuration", ok: true, message: "fine", seconds: 0 },
          { name: "model", ok: false, message: "no such model", seconds: 0 },
        ],
      });
      host.answers.push(...answers);
    });

    it("is not saved", async () => {
      expect(await addDelegator(parts)).toBeUndefined();
      expect(peer.params("understudy/delegators/create")).toEqual([]);
      expect(host.messages).toMatchObject([{ level: "warning", text: "mine does not work: no such model" }]);
    });

    it("can be changed, with everything as it was answered", async () => {
      host.buttons.push("Change");
      host.answers.push({ cancel: true });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.shown.at(-1)).toMatchObject({ title: "Add Delegator", step: 1 });
      expect(peer.params("understudy/delegators/create")).toEqual([]);
    });

    it("is saved when the person wants it all the same", async () => {
      host.buttons.push("Save Anyway");
      expect((await addDelegator(parts))?.delegator.name).toBe("mine");
      expect(host.messages).toHaveLength(1);
    });

    it("is told from what could not be tried to the end", async () => {
      peer.answer("understudy/delegators/test", () => {
        throw new SidecarError({ kind: "cancelled", message: "The request was cancelled." });
      });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.messages.at(-1)?.text).toBe("mine was not tried to the end.");
    });
  });

  describe("a model server that was added in place", () => {
    const server = [
      { pick: "new-server" },
      { pick: "vllm" },
      { enter: "http://127.0.0.1:8000/v1" },
      { enter: "mine" },
    ] as const;

    beforeEach(() => {
      const created = result("understudy/modelServers/create", "modelServers-create.valid");
      peer
        .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
        .answer("understudy/modelServers/delete", {})
        .answer("understudy/modelServers/probe", { ok: true, steps: [] });
    });

    it("does not stay unnoticed when the rest is cancelled", async () => {
      host.buttons.push("Remove It");
      host.answers.push(...server, { cancel: true });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.messages.at(-1)?.text).toBe("The model server mine is saved, though no delegator was made for it.");
      await vi.waitFor(() => expect(peer.params("understudy/modelServers/delete")).toEqual([{ name: "mine" }]));
    });

    it("stays when the person does not say otherwise, or has a use for it", async () => {
      host.answers.push(...server, { cancel: true });
      await addDelegator(parts);
      host.answers.push(...server, { pick: "large-1" }, { pick: "" }, { enter: "with-it" }, { pick: "user" });
      const before = host.messages.length;
      expect((await addDelegator(parts))?.delegator.modelServer).toBe("mine");
      expect(host.messages.slice(before).map(({ text }) => text)).toEqual([
        expect.stringMatching(/^with-it is saved, and works/),
      ]);
      expect(peer.params("understudy/modelServers/delete")).toEqual([]);
    });
  });

  it("asks which folder gets it where there are several, and tries it as seen from there", async () => {
    host.folders = [...host.folders, { uri: "file:///home/ada/shop", path: "/home/ada/shop", name: "shop" }];
    host.answers.push(
      { pick: "tool:ghostwriter" },
      { pick: "" },
      { pick: "" },
      { enter: "mine" },
      { pick: "file:///home/ada/shop" },
    );
    await addDelegator(parts);
    expect(host.shown.at(-1)?.items.map(({ label }) => label)).toEqual(["You", "greeting", "shop"]);
    const where = { scope: "workspace", workspace: "file:///home/ada/shop" };
    expect(peer.params("understudy/delegators/test")).toMatchObject([where]);
    expect(peer.params("understudy/delegators/create")).toMatchObject([where]);
  });

  it("is for the person alone in a window that is not trusted", async () => {
    parts = { ...parts, folders: () => [] };
    host.answers.push({ pick: "tool:ghostwriter" }, { pick: "" }, { pick: "" }, { enter: "mine" });
    await addDelegator(parts);
    expect(peer.params("understudy/delegators/create")).toMatchObject([{ scope: "user" }]);
    expect(host.shown.at(-1)).toMatchObject({ step: 4, totalSteps: 4 });
  });
});

describe("the folder of a file", () => {
  const folder = (path: string) => ({ uri: `file://${path}`, path, name: path });

  it("is the innermost one, however it is escaped, else the first", () => {
    const folders = [folder("/a"), folder("/a/b"), folder("/w%3A/c+d")];
    expect(folderOf("file:///a/b/c.toml", folders)?.path).toBe("/a/b");
    expect(folderOf("file:///a/bc.toml", folders)?.path).toBe("/a");
    expect(folderOf("file:///w%3A/c%2Bd/x.toml", folders)?.path).toBe("/w%3A/c+d");
    expect(folderOf("file:///elsewhere/x.toml", folders)?.path).toBe("/a");
    expect(folderOf(undefined, [])).toBeUndefined();
  });
});

describe("options", () => {
  const TOOLS = result("understudy/tools/list", "tools-list.valid");
  const ids = (delegator: Delegator, honours: Honoured | undefined): string[] =>
    optionsFor(delegator, honours).map(({ id }) => id);
  const EVERY: Honoured = {
    launch: ["command", "output", "permissionMode", "promptPrefix", "promptSuffix", "somethingNewer"],
    limits: ["totalSeconds", "maxTurns", "maxTokens", "maxOutputTokens", "maxUsd"],
    properties: true,
  };

  it("offers each tool what the sidecar says that it honours", () => {
    const ghostwriter = { name: "x", tool: "ghostwriter" };
    expect(ids(ghostwriter, honoursOf(ghostwriter, TOOLS))).toEqual(["totalSeconds"]);
    const own = { name: "x", modelServer: "ollama" };
    expect(ids(own, honoursOf(own, TOOLS))).toEqual([
      "temperature",
      "totalSeconds",
      "maxTokens",
      "maxOutputTokens",
      "maxUsd",
      "promptPrefix",
      "promptSuffix",
    ]);
    expect(ids({ name: "x", tool: "otheragent" }, honoursOf({ name: "x", tool: "otheragent" }, TOOLS))).toEqual([]);
  });

  it("offers limits on what is counted only where the program says what it uses", () => {
    expect(ids({ name: "x" }, EVERY)).not.toContain("maxUsd");
    expect(ids({ name: "x", launch: { output: "events" } }, EVERY)).toContain("maxUsd");
  });

  it("unsets what is emptied, without a trace", () => {
    for (const option of optionsFor({ name: "x", launch: { output: "events" } }, EVERY)) {
      const set = option.set({ name: "x" }, option.choices?.[0]?.value ?? "1");
      expect(option.get(set), option.id).toBe(option.choices?.[0]?.value ?? "1");
      expect(JSON.stringify(option.set(set, "")), option.id).toMatch(/^\{"name":"x","\w+":null\}$/);
    }
  });

  it("splits a command as a shell would, and puts it together again", () => {
    expect(splitWords(`my-agent --cd {worktree} --say "two words" 'it''s'`)).toEqual([
      "my-agent",
      "--cd",
      "{worktree}",
      "--say",
      "two words",
      "its",
    ]);
    expect(splitWords(`"open`)).toBeUndefined();
    for (const words of [
      ["a", ""],
      ["b c", 'd"e'],
      [String.raw`f\g`, "h'i"],
    ])
      expect(splitWords(joinWords(words))).toEqual(words);
  });

  it("suggests a free name, and knows an address", () => {
    expect(suggest({ name: "", modelServer: "ollama", model: "Qwen/2.5:7b" }, new Set())).toBe("ollama-qwen-2.5-7b");
    expect(suggest({ name: "", tool: "claude" }, new Set(["claude", "claude-2"]))).toBe("claude-3");
    expect(validateUrl("http://127.0.0.1:8000/v1")).toBeUndefined();
    for (const wrong of ["ftp://a", "x", "https://me:pw@a/v1", "https://a/v1/chat/completions"])
      expect(validateUrl(wrong)).toBeDefined();
  });
});
