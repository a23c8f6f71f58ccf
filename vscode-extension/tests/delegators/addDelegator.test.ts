import { beforeEach, describe, expect, it, vi } from "vitest";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { addDelegator } from "../../src/delegators/addDelegator.ts";
import { suggestName } from "../../src/delegators/addDelegatorSteps.ts";
import { type AddDelegatorDeps } from "../../src/delegators/addDelegatorSteps.ts";
import {
  checkValue,
  choicesOf,
  getValue,
  optionsFor,
  setValue,
  supportedBy,
  withSupportedOptions,
} from "../../src/state/delegatorOptions.ts";
import { joinWords, splitWords } from "../../src/base/commandWords.ts";
import type { Delegator, ModelServer, SupportedOption, SupportedOptions } from "../../src/protocol.ts";
import { validateUrl } from "../../src/delegators/modelServers.ts";
import { folderOf } from "../../src/state/workspaceFolders.ts";
import type { InputRequest } from "../../src/host/host.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, golden, refusal, result } from "../support/golden.ts";

let host: FakeHost;
let peer: GoldenSidecar;
let parts: AddDelegatorDeps;

beforeEach(() => {
  host = new FakeHost();
  const created = result("understudy/delegators/create", "delegators-create.valid");
  peer = new GoldenSidecar()
    .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
    .answer("understudy/modelServers/presets", result("understudy/modelServers/presets", "modelServers-presets.valid"))
    .answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"))
    .answer("understudy/modelServers/models", result("understudy/modelServers/models", "modelServers-models.valid"))
    .answer("understudy/modelServers/test", ({ name }) =>
      name === "router" ? result("understudy/modelServers/test", "modelServers-test.valid") : { ok: true, steps: [] },
    )
    .answer("understudy/delegators/create", ({ delegator, scope }) => ({
      ...created,
      delegator,
      scope: scope ?? "user",
    }))
    .answer("understudy/delegators/update", ({ delegator }) => ({ ...created, delegator }))
    .answer("understudy/delegators/test", result("understudy/delegators/test", "delegators-test.valid"));
  parts = {
    requester: peer,
    windows: host.windows,
    names: () => new Set(["ghostwriter", "ollama-large-1"]),
    folders: () => host.folders,
    homePath: "/home/ada",
    environment: host.environment,
    commands: host.commands,
    output: host.output,
  };
});

function supporting(
  options: Partial<Pick<SupportedOptions, "delegator" | "launch" | "limits" | "properties">>,
): SupportedOptions {
  return {
    delegator: [],
    launch: [],
    limits: [],
    properties: [],
    modes: ["headless"],
    permissionModes: [],
    protocols: [],
    needsModelServer: false,
    sessions: false,
    messages: "next_attempt",
    returns: ["text", "file", "tree"],
    ...options,
  };
}

function option(name: string, type: SupportedOption["type"], more: Partial<SupportedOption> = {}): SupportedOption {
  return { name, title: `The ${name}`, description: `About \`${name}\`.`, type, ...more };
}

describe("Add Delegator", () => {
  it("creates a tested delegator for a model server", async () => {
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

  it("shows what was found, which servers respond, and why others do not", async () => {
    host.answers.push({ cancel: true });
    expect(await addDelegator(parts)).toBeUndefined();
    const items = host.shown[0]?.items.filter((item) => !item.separator) ?? [];
    expect(items.map(({ id }) => id)).toEqual([
      "tool:claude",
      "tool:ghostwriter",
      "install:codex",
      "server:ollama",
      "server:router",
      "new-server",
    ]);
    expect(items.find(({ id }) => id === "server:ollama")?.icon).toBe("pass");
    expect(items.find(({ id }) => id === "server:router")).toMatchObject({
      icon: "warning",
      detail: "The server refused the key of ROUTER_API_KEY (401).",
    });
    expect(peer.params("understudy/delegators/create")).toEqual([]);
  });

  it("goes back and keeps the answers", async () => {
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

  it("accepts a typed model, and refuses a name that is in use", async () => {
    host.answers.push(
      { pick: "tool:ghostwriter" },
      { pick: "typed", typed: "my-own" },
      { pick: "" },
      { enter: "ghostwriter" },
      { enter: "mine" },
      { pick: "user" },
    );
    await addDelegator(parts);
    expect(host.messages[0]?.text).toBe("A delegator with this name already exists.");
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "mine", tool: "ghostwriter", model: "my-own" } },
    ]);
  });

  it("adds a model server with its key, and removes it if it does not respond and is not wanted", async () => {
    const created = result("understudy/modelServers/create", "modelServers-create.valid");
    peer
      .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
      .answer("understudy/modelServers/setKey", {})
      .answer("understudy/modelServers/delete", {})
      .answer("understudy/modelServers/test", result("understudy/modelServers/test", "modelServers-test.valid"));
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

  it("offers the kinds of the contract, and uses a key of the environment for the usual address only", async () => {
    const created = result("understudy/modelServers/create", "modelServers-create.valid");
    peer
      .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
      .answer("understudy/modelServers/setKey", {})
      .answer("understudy/modelServers/test", { ok: true, steps: [] });
    const usual = "https://openrouter.ai/api/v1";
    host.answers.push({ pick: "new-server" }, { pick: "openrouter" }, { enter: usual }, { enter: "one" });
    host.answers.push({ cancel: true });
    await addDelegator(parts);
    expect(host.shown[1]?.items.map(({ id }) => id)).toEqual(["ollama", "openrouter", "custom"]);
    expect(host.shown[1]?.items[1]?.detail).toBe("Uses the key in OPENROUTER_API_KEY");
    host.answers.push({ pick: "new-server" }, { pick: "openrouter" }, { enter: "https://proxy.test/v1" });
    host.answers.push({ enter: "two" }, { enter: "" }, { cancel: true });
    await addDelegator(parts);
    const asked = peer.params("understudy/modelServers/create");
    expect(asked[0]).toMatchObject({ modelServer: { apiKey: { fromEnv: "OPENROUTER_API_KEY" } } });
    expect(asked[1]).not.toHaveProperty("modelServer.apiKey");
    expect(peer.params("understudy/modelServers/setKey")).toEqual([]);
  });

  it("lets the user change the URL of a new server, and needs no key", async () => {
    const created = result("understudy/modelServers/create", "modelServers-create.valid");
    const wrong = result("understudy/modelServers/test", "modelServers-test.valid");
    peer
      .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
      .answer("understudy/modelServers/delete", {})
      .answer("understudy/modelServers/test", () =>
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
    host.buttons.push("Edit");
    expect(await addDelegator(parts)).toBeUndefined();
    expect(peer.params("understudy/modelServers/create")).toMatchObject([
      { modelServer: { baseUrl: "http://127.0.0.1:8/v1" } },
      { modelServer: { baseUrl: "http://127.0.0.1:8000/v1" } },
    ]);
    expect(peer.params("understudy/modelServers/delete")).toEqual([{ name: "mine" }]);
    expect(peer.params("understudy/modelServers/setKey")).toEqual([]);
    expect(host.shown.find(({ value }) => value === "http://127.0.0.1:8/v1")).toBeDefined();
  });

  it("shows the whole reason why a server lists no models, and retries", async () => {
    const models = result("understudy/modelServers/models", "modelServers-models.valid");
    peer.answer("understudy/modelServers/models", () => {
      if (peer.params("understudy/modelServers/models").length > 1) return models;
      throw new SidecarError({ kind: "connection_failed", message: "The server could not be reached." });
    });
    host.answers.push({ pick: "server:ollama" }, { pick: " again" }, { pick: "large-1" }, { cancel: true });
    await addDelegator(parts);
    expect(host.shown[1]?.items).toMatchObject([{ label: "Retry", detail: "The server could not be reached." }]);
  });

  it("offers to install the engine if there is none, and continues with it", async () => {
    const repair = { title: "Install Engine", command: "understudy.install" };
    const missing = new SidecarError({ kind: "connection_failed", message: "Not installed." }, repair);
    let installed = false;
    host.commands.register("understudy.install", () => void (installed = true));
    const request: typeof peer.request = (method, params) =>
      installed ? peer.request(method, params) : Promise.reject(missing);
    host.answers.push({ pick: " again" }, { cancel: true });
    await addDelegator({ ...parts, requester: { request } });
    expect(host.shown[0]?.items).toEqual([
      { id: " again", label: "Install Engine", icon: "tools", detail: "Not installed." },
    ]);
    expect(installed).toBe(true);
    expect(host.shown[1]?.items.map(({ id }) => id)).toContain("tool:claude");
  });

  it("lists agents on this machine first, and explains built-in ones", async () => {
    const [tool] = result("understudy/tools/list", "tools-list.valid").tools;
    const named = (name: string, path?: string, description?: string) => ({
      ...tool,
      name,
      displayName: name,
      path,
      description,
      found: true,
      runnable: true,
    });
    const tools = [named("builtin", undefined, "Part of Understudy."), named("agent", "/home/ada/bin/agent")];
    peer.answer("understudy/tools/list", { ...result("understudy/tools/list", "tools-list.valid"), tools } as never);
    host.answers.push({ cancel: true });
    await addDelegator(parts);
    const found = host.shown[0]?.items
      .filter(({ id }) => id.startsWith("tool:"))
      .map((item) => [item.label, item.detail]);
    expect(found).toEqual([
      ["agent", "~/bin/agent"],
      ["builtin", "Part of Understudy."],
    ]);
  });

  describe("sources", () => {
    const slots = [
      { value: "{prompt}", title: "the task" },
      { value: "{promptFile}", title: "a file with the task" },
      { value: "{model}", title: "the model" },
    ];
    const agent = (name: string, more: object) => ({
      ...{ name, displayName: name, found: true, runnable: true, modes: ["headless"], problems: [] },
      ...{ path: `/bin/${name}`, supports: supporting({}), ...more },
    });
    const install = {
      about: "An agent.",
      command: "npm install -g agent",
      login: "Log in with a key.",
      loginCommand: "agent login",
      url: "https://example.test/install",
    };
    const tools = [
      agent("generic", {
        displayName: "Custom command",
        supports: supporting({ launch: [option("command", "list", { required: true, slots })] }),
      }),
      agent("aider", { runnable: false }),
      agent("goose", { runnable: false, found: false, install: { ...install, about: "A bird." } }),
      agent("claude", { found: false, install }),
      agent("codex", { runnable: false, command: ["codex", "exec", "{prompt}"] }),
      agent("mine", {}),
    ];
    const ids = (): readonly string[] | undefined =>
      host.shown[0]?.items.map(({ id, separator, label }) => (separator ? label : id));

    beforeEach(() => {
      peer.answer("understudy/tools/list", { backends: [], tools });
      const presets = result("understudy/modelServers/presets", "modelServers-presets.valid").presets;
      const vllm = { kind: "vllm", title: "vLLM", baseUrl: "http://127.0.0.1:8000/v1", protocols: ["openai"] };
      const found = { ...vllm, local: true, needsKey: false, keyInEnvironment: false, running: true, models: ["m1"] };
      peer.answer("understudy/modelServers/presets", { presets: [...presets, found] });
    });

    it("are listed from what is there to what the user has to describe", async () => {
      host.answers.push({ cancel: true });
      await addDelegator(parts);
      expect(ids()).toEqual([
        ...["Agents on this machine", "tool:mine", "agent:aider", "agent:codex"],
        ...["Agents to install", "install:claude", "install:goose"],
        ...["Model servers", "server:ollama", "server:router", "running:vllm", "new-server"],
        ...["Any other program", "tool:generic"],
      ]);
    });

    it("of a custom command begin with the command, and refuse unknown slots while typing", async () => {
      const prompts: string[] = [];
      host.answers.push({ pick: "tool:generic" });
      host.answers.push({ enter: "run {promptFil}", when: (asked: InputRequest) => void prompts.push(asked.prompt) });
      host.answers.push({ enter: "{task}" }, { enter: "run {promptFile" }, { enter: "run {promptFile} 'awk {print}'" });
      host.answers.push({ pick: "" }, { enter: "own" }, { pick: "user" });
      const made = await addDelegator(parts);
      expect(prompts).toEqual([
        "Program and arguments. Placeholders: {prompt} (the task), {promptFile} (a file with the task), {model} (the model).",
      ]);
      expect(host.messages[0]).toEqual({
        level: "validation",
        text: "Unknown placeholder {promptFil}. Use {prompt} {promptFile} {model}.",
      });
      expect(host.shown.some(({ placeholder }) => placeholder?.includes("Choose a model"))).toBe(false);
      expect(made?.delegator.launch?.command).toEqual(["run", "{promptFile}", "awk {print}"]);
    });

    it("of a custom command that fails its test are edited from the command", async () => {
      peer.answer("understudy/delegators/test", {
        ok: false,
        steps: [{ name: "program", ok: false, message: "not found", seconds: 0 }],
      });
      host.answers.push({ pick: "tool:generic" }, { enter: "run" }, { pick: "" }, { enter: "own" }, { pick: "user" });
      host.answers.push({ back: true }, { cancel: true });
      host.buttons.push("Edit");
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.shown.slice(-2)).toMatchObject([
        { title: "Add Delegator", step: 2, value: "run" },
        { title: "Add Delegator", step: 1 },
      ]);
    });

    it("of an agent without a driver begin with its program, and ask for a model if it is used", async () => {
      host.answers.push({ pick: "agent:aider" }, { enter: "/bin/aider --model {model} {prompt}" }, { pick: "" });
      host.answers.push({ cancel: true });
      await addDelegator(parts);
      expect(host.shown[1]).toMatchObject({ value: "/bin/aider {prompt}" });
      expect(host.shown[2]?.placeholder).toContain("Choose a model");
    });

    it("of an agent with a known command begin with it, and are named after it", async () => {
      host.answers.push({ pick: "agent:codex" }, { enter: "codex exec {prompt}" }, { pick: "" }, { cancel: true });
      await addDelegator(parts);
      expect(host.shown[1]).toMatchObject({ value: "codex exec {prompt}" });
      expect(host.shown[3]).toMatchObject({ value: "codex" });
    });

    it("show how to install an agent, run only what is chosen, and go on when it is found", async () => {
      const opened: string[] = [];
      const copied: string[] = [];
      const environment = {
        openExternal: (uri: string) => Promise.resolve(void opened.push(uri)),
        copyToClipboard: (text: string) => Promise.resolve(void copied.push(text)),
      };
      let asked = 0;
      peer.answer("understudy/tools/list", ({ refresh }) => {
        asked += refresh ? 1 : 0;
        const installed = tools.map((tool) => (tool.name === "claude" ? { ...tool, found: true } : tool));
        return { backends: [], tools: asked > 2 ? installed : tools };
      });
      host.answers.push({ pick: "install:claude", when: () => expect(host.terminalLines).toEqual([]) });
      host.answers.push({ pick: "copy" }, { pick: "more" }, { pick: "run" }, { pick: "check" });
      host.answers.push({ pick: "login" }, { pick: "check" }, { cancel: true });
      await addDelegator({ ...parts, environment });
      expect([opened, copied]).toEqual([["https://example.test/install"], ["npm install -g agent"]]);
      expect(host.terminalLines).toEqual(["npm install -g agent", "agent login"]);
      const said = host.shown.filter(({ title }) => title === "Install claude").map(({ placeholder }) => placeholder);
      expect(said[0]).toBe("An agent.");
      expect(said[4]).toContain("claude was not found");
      expect(host.shown.at(-1)?.placeholder).toContain("Choose a model");
    });

    it("come back when the user goes back from the help", async () => {
      host.answers.push({ pick: "install:goose" }, { back: true }, { cancel: true });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.shown.map(({ title }) => title)).toEqual(["Add Delegator", "Install goose", "Add Delegator"]);
      expect(host.terminalLines).toEqual([]);
    });

    it("save a model server that runs, with its usual address, in one step", async () => {
      peer.answer("understudy/modelServers/create", ({ modelServer }) => ({
        ...result("understudy/modelServers/create", "modelServers-create.valid"),
        modelServer,
      }));
      host.answers.push({ pick: "running:vllm" }, { cancel: true });
      await addDelegator(parts);
      expect(peer.params("understudy/modelServers/create")).toMatchObject([
        { modelServer: { name: "vllm", kind: "vllm", baseUrl: "http://127.0.0.1:8000/v1" } },
      ]);
    });
  });

  it("offers a new tool with its own options", async () => {
    const known = result("understudy/tools/list", "tools-list.valid");
    const values = [{ value: "deep", title: "Think longer", description: "Slower." }];
    const tool = {
      name: "newcomer",
      displayName: "Newcomer",
      description: "Appeared yesterday.",
      found: true,
      runnable: true,
      modes: ["headless"],
      problems: [],
      supports: supporting({
        launch: [option("effort", "string", { values }), option("words", "list", { required: true })],
        limits: [option("maxSteps", "integer", { exclusiveMinimum: 0 })],
      }),
    };
    peer.answer("understudy/tools/list", { ...known, tools: [...known.tools, tool] });
    host.answers.push({ pick: "tool:newcomer" }, { pick: "" });
    host.answers.push({ pick: "words" }, { enter: 'one "two' }, { enter: 'one "two three"' });
    host.answers.push({ pick: "effort" }, { pick: "deep" });
    host.answers.push({ pick: "maxSteps" }, { enter: "0" }, { enter: "1.5" }, { enter: "3" });
    host.answers.push({ pick: "" }, { enter: "new" }, { pick: "user" });
    await addDelegator(parts);
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      {
        delegator: {
          name: "new",
          tool: "newcomer",
          launch: { effort: "deep", words: ["one", "two three"] },
          limits: { maxSteps: 3 },
        },
      },
    ]);
    expect(host.messages.filter(({ level }) => level === "validation").map(({ text }) => text)).toEqual([
      "Missing closing quotation mark.",
      "Enter a number greater than 0.",
      "Enter a whole number.",
    ]);
    const forms = host.shown.filter(({ items }) => items.some(({ id }) => id === "effort"));
    expect(forms[0]?.items).toMatchObject([
      { id: "effort" },
      { id: "words", description: "required" },
      { id: "maxSteps" },
    ]);
    expect(forms.at(-1)?.items.slice(2)).toMatchObject([
      { label: "The effort", description: "Think longer", detail: "About effort." },
      { label: "The words", description: 'one "two three"' },
      { label: "The maxSteps", description: "3" },
    ]);
    const sources = host.shown[0]?.items ?? [];
    expect(sources.find(({ id }) => id === "tool:newcomer")).toMatchObject({
      label: "Newcomer",
      detail: "Appeared yesterday.",
    });
  });

  it("edits with every answer filled in, and sends the revision", async () => {
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

  it.each([
    ["a listed model", { modelServer: "ollama", model: "qwen2.5-coder:7b" }],
    ["a model that its server does not list", { modelServer: "ollama", model: "removed:1b" }],
    ["a model server that is no longer configured", { modelServer: "removed", model: "large-1" }],
    ["an agent's own model", { tool: "claude", model: "claude-opus-4-6" }],
    ["an agent's default model", { tool: "claude" }],
    ["an agent that is not installed", { tool: "codex" }],
    ["an agent that is not known", { tool: "removed" }],
  ])("changes nothing when the user only presses Enter: %s", async (_, source) => {
    const found = result("understudy/delegators/list", "delegators-list.valid").delegators[1];
    if (!found) throw new Error("there is none");
    const entry = { ...found, delegator: { name: "local-coder", ...source } };
    host.answers.push({ key: "Enter" }, { key: "Enter" }, { key: "Enter" }, { key: "Enter" });
    expect(await addDelegator(parts, entry)).toBe(entry);
    expect(host.answers).toEqual([]);
    expect(peer.params("understudy/delegators/test")).toMatchObject([{ delegator: entry.delegator }]);
    expect(peer.params("understudy/delegators/update")).toEqual([]);
    expect(host.messages.at(-1)?.text).toMatch(/^local-coder is unchanged\./u);
  });

  it("reports a conflict in the sidecar's words, and saves nothing else", async () => {
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

  describe("a delegator that fails its test", () => {
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

    it("says why once, and shows all steps on request", async () => {
      host.buttons.push("Show Output", "Save Anyway");
      expect((await addDelegator(parts))?.delegator.name).toBe("mine");
      expect(host.messages[0]).toEqual({
        level: "warning",
        text: "mine does not work: no such model",
        detail: "✓ fine",
      });
      expect(host.lines.join("\n")).toContain("✗ model: no such model");
      expect(host.outputShown).toBe(1);
    });

    it("can be edited, with every answer kept", async () => {
      host.buttons.push("Edit");
      host.answers.push({ cancel: true });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.shown.at(-1)).toMatchObject({ title: "Add Delegator", step: 1 });
      expect(peer.params("understudy/delegators/create")).toEqual([]);
    });

    it("is saved if the user wants to save it anyway", async () => {
      host.buttons.push("Save Anyway");
      const failures: (string | undefined)[] = [];
      const made = await addDelegator({ ...parts, tested: (_, failure) => failures.push(failure) });
      expect(made?.delegator.name).toBe("mine");
      expect(failures).toEqual(["mine does not work: no such model"]);
      expect(host.messages).toHaveLength(1);
    });

    it("is distinguished from one whose test could not finish", async () => {
      peer.answer("understudy/delegators/test", () => {
        throw new SidecarError({ kind: "cancelled", message: "The request was cancelled." });
      });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.messages.at(-1)?.text).toBe("The test of mine was cancelled.");
    });
  });

  describe("a model server that was added during the run", () => {
    const server = [
      { pick: "new-server" },
      { pick: "ollama" },
      { enter: "http://127.0.0.1:8000/v1" },
      { enter: "mine" },
    ] as const;

    beforeEach(() => {
      const created = result("understudy/modelServers/create", "modelServers-create.valid");
      peer
        .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...created, modelServer }))
        .answer("understudy/modelServers/delete", {})
        .answer("understudy/modelServers/test", { ok: true, steps: [] });
    });

    it("is mentioned when the rest is cancelled", async () => {
      host.buttons.push("Remove Server");
      host.answers.push(...server, { cancel: true });
      expect(await addDelegator(parts)).toBeUndefined();
      expect(host.messages.at(-1)?.text).toBe("The model server mine was saved, but no delegator uses it.");
      await vi.waitFor(() => expect(peer.params("understudy/modelServers/delete")).toEqual([{ name: "mine" }]));
    });

    it("is kept if the user does not remove it, or a delegator uses it", async () => {
      host.answers.push(...server, { cancel: true });
      await addDelegator(parts);
      host.answers.push(...server, { pick: "large-1" }, { pick: "" }, { enter: "with-it" }, { pick: "user" });
      const before = host.messages.length;
      expect((await addDelegator(parts))?.delegator.modelServer).toBe("mine");
      expect(host.messages.slice(before).map(({ text }) => text)).toEqual(["with-it saved. it answered"]);
      expect(peer.params("understudy/modelServers/delete")).toEqual([]);
    });
  });

  it("asks for the folder if there are several, and tests with its configuration", async () => {
    host.folders = [...host.folders, { uri: "file:///home/ada/shop", path: "/home/ada/shop", name: "shop" }];
    host.answers.push(
      { pick: "tool:ghostwriter" },
      { pick: "" },
      { pick: "" },
      { enter: "mine" },
      { pick: "file:///home/ada/shop" },
    );
    await addDelegator(parts);
    expect(host.shown.at(-1)?.items.map(({ label }) => label)).toEqual(["All your workspaces", "greeting", "shop"]);
    const where = { scope: "workspace", workspace: "file:///home/ada/shop" };
    expect(peer.params("understudy/delegators/test")).toMatchObject([where]);
    expect(peer.params("understudy/delegators/create")).toMatchObject([where]);
  });

  it("is saved for the user only in an untrusted window", async () => {
    parts = { ...parts, folders: () => [] };
    host.answers.push({ pick: "tool:ghostwriter" }, { pick: "" }, { pick: "" }, { enter: "mine" });
    await addDelegator(parts);
    expect(peer.params("understudy/delegators/create")).toMatchObject([{ scope: "user" }]);
    expect(host.shown.at(-1)).toMatchObject({ step: 4, totalSteps: 4 });
  });
});

describe("the folder of a file", () => {
  const folder = (path: string) => ({ uri: `file://${path}`, path, name: path });

  it("is the innermost one, however its URI is escaped, otherwise the first", () => {
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
  const names = (delegator: Delegator, supports: SupportedOptions | undefined): string[] =>
    optionsFor(delegator, supports).map(({ name }) => name);

  it("are those of the tool, or of the backend that speaks to the model server", () => {
    const tool = { name: "x", tool: "ghostwriter" };
    expect(supportedBy(tool, undefined, TOOLS)?.onlyNewTests).toBe(true);
    expect(names(tool, supportedBy(tool, undefined, TOOLS))).toContain("totalSeconds");
    const own = { name: "x", modelServer: "mine" };
    const server = (...protocols: string[]): ModelServer => ({
      name: "mine",
      kind: "custom",
      baseUrl: "http://127.0.0.1:8/v1",
      ...(protocols.length === 0 ? {} : { protocols }),
    });
    expect(names(own, supportedBy(own, server(), TOOLS))).toContain("temperature");
    const spare = {
      name: "spare",
      title: "Spare",
      protocols: ["other"],
      supports: supporting({ launch: [option("a", "string")] }),
    };
    const more = { ...TOOLS, backends: [...TOOLS.backends, spare] };
    expect(names(own, supportedBy(own, server("other"), more))).toEqual(["a"]);
    expect(names(own, supportedBy(own, server("unknown", "other"), more))).toEqual(["a"]);
    expect(supportedBy(own, server("unknown"), more)).toBeUndefined();
    expect(supportedBy({ name: "x", tool: "otheragent" }, undefined, TOOLS)).toBeUndefined();
  });

  it("are offered only if the options that they depend on have the right values", () => {
    const output = option("output", "string", { values: [], default: "text" });
    const limit = (value: string): SupportedOption => option("maxUsd", "decimal", { onlyWith: { output: value } });
    const events = supporting({ launch: [output], limits: [limit("events")] });
    expect(names({ name: "x" }, events)).toEqual(["output"]);
    expect(names({ name: "x", launch: { output: "events" } }, events)).toEqual(["output", "maxUsd"]);
    expect(names({ name: "x" }, supporting({ launch: [output], limits: [limit("text")] }))).toContain("maxUsd");
  });

  it("are those of the mode, which is an option itself", () => {
    const mode = option("mode", "string", { values: [{ value: "acp", title: "ACP" }] });
    const supports = supporting({ delegator: [mode], launch: [option("flags", "list"), option("output", "string")] });
    const supportsAcp = supporting({ delegator: [mode], launch: [option("flags", "list")] });
    const [known] = TOOLS.tools.filter(({ name }) => name === "ghostwriter");
    if (!known) throw new Error("The example has no such tool.");
    const tools = { ...TOOLS, tools: [{ ...known, supports, supportsAcp }] };
    const headless: Delegator = {
      name: "x",
      tool: "ghostwriter",
      launch: { flags: ["-v"], output: "events" },
      limits: { maxTurns: 2 },
    };
    expect(names(headless, supportedBy(headless, undefined, tools))).toEqual(["flags", "output", "mode"]);
    const chosen = optionsFor(headless, supports).find(({ name }) => name === "mode");
    if (!chosen) throw new Error("There is no mode to choose.");
    const acp = setValue(chosen, headless, "acp");
    expect(getValue(chosen, acp)).toBe("acp");
    expect(names(acp, supportedBy(acp, undefined, tools))).toEqual(["flags", "mode"]);
    expect(withSupportedOptions(acp, supportedBy(acp, undefined, tools))).toEqual({
      name: "x",
      tool: "ghostwriter",
      mode: "acp",
      launch: { flags: ["-v"] },
      limits: null,
      modelProperties: null,
    });
    expect(setValue(chosen, acp, "").mode).toBeNull();
  });

  it.each([
    ["boolean", "true", true],
    ["boolean", "false", false],
    ["integer", "3", 3],
    ["number", "0.5", 0.5],
    ["decimal", "0.50", "0.50"],
    ["string", "a b", "a b"],
    ["list", 'a "b c"', ["a", "b c"]],
  ] as const)("of type %s are stored as such, and leave no trace when they are removed", (type, text, value) => {
    const supports = { limits: [option("it", type)], launch: [option("it", type)], properties: [option("it", type)] };
    for (const one of optionsFor({ name: "x" }, supporting(supports))) {
      const set = setValue(one, { name: "x" }, text);
      expect(set).toEqual({ name: "x", [one.group]: { it: value } });
      expect(getValue(one, set)).toBe(text);
      expect(setValue(one, set, "")).toEqual({ name: "x", [one.group]: null });
      expect(choicesOf(one)?.map((choice) => choice.value)).toEqual(type === "boolean" ? ["true", "false"] : undefined);
    }
  });

  it("are checked against their type and bounds", () => {
    const check = (type: SupportedOption["type"], text: string, more: Partial<SupportedOption> = {}) =>
      checkValue({ ...option("it", type, more), group: "launch" }, text);
    expect(check("number", "hot")).toBe("Enter a number.");
    expect(check("decimal", "-")).toBe("Enter a number.");
    expect(check("integer", "1.5")).toBe("Enter a whole number.");
    expect(check("number", "3", { maximum: 2 })).toBe("Enter a number that is at most 2.");
    expect(check("number", "-1", { minimum: 0 })).toBe("Enter a number that is at least 0.");
    expect(check("number", "0", { exclusiveMinimum: 0 })).toBe("Enter a number greater than 0.");
    expect(check("list", "", { required: true })).toBe("The it is required.");
    expect(check("list", '""', { required: true })).toBe("The it is required.");
    expect(check("number", "2", { minimum: 0, maximum: 2 })).toBeUndefined();
    expect(check("string", "")).toBeUndefined();
  });

  it("split a command like a shell, and join it again", () => {
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

  it("suggest an unused name, and validate a URL", () => {
    expect(suggestName({ name: "", modelServer: "ollama", model: "Qwen/2.5:7b" }, new Set())).toBe(
      "ollama-qwen-2.5-7b",
    );
    expect(suggestName({ name: "", tool: "claude" }, new Set(["claude", "claude-2"]))).toBe("claude-3");
    expect(validateUrl("http://127.0.0.1:8000/v1")).toBeUndefined();
    for (const wrong of ["ftp://a", "x", "https://me:pw@a/v1", "https://a/v1/chat/completions"])
      expect(validateUrl(wrong)).toBeDefined();
  });
});
