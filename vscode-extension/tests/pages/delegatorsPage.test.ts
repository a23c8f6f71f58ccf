// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { DelegatorForm } from "../../src/pages/delegatorForm.ts";
import { DelegatorsPage } from "../../src/pages/delegatorsPage.ts";
import { checkUrl, ServerForm } from "../../src/pages/serverForm.ts";
import type { DelegatorEntry, SupportedOptions } from "../../src/protocol.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { PageClient, PageNotification, PageTarget } from "../../src/state/pageClient.ts";
import { GoldenSidecar, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

customElements.define("understudy-delegator-form", DelegatorForm);
customElements.define("understudy-server-form", ServerForm);
customElements.define("understudy-delegators", DelegatorsPage);

const FOLDER = "file:///home/ada/greeting";
const PLACES = [
  { id: "user", label: "All your workspaces", detail: "In your user configuration." },
  { id: FOLDER, label: "This workspace", detail: "In its .understudy folder." },
];
const LIST = result("understudy/delegators/list", "delegators-list.valid");

let peer: GoldenSidecar;
/** Requests to the program, with their parameters. */
let asked: [string, unknown][];
/** Answers a request for a key. */
let enterKey: () => boolean;
let notify: (notification: PageNotification) => void;
let remembered: unknown;

beforeEach(() => {
  asked = [];
  remembered = undefined;
  enterKey = () => true;
  const created = result("understudy/delegators/create", "delegators-create.valid");
  const server = result("understudy/modelServers/create", "modelServers-create.valid");
  peer = new GoldenSidecar()
    .answer("understudy/delegators/list", LIST)
    .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
    .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
    .answer("understudy/modelServers/presets", result("understudy/modelServers/presets", "modelServers-presets.valid"))
    .answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"))
    .answer("understudy/modelServers/models", ({ name }) => {
      if (name === "router") throw new SidecarError({ kind: "auth_failed", message: "The server refused the key." });
      return result("understudy/modelServers/models", "modelServers-models.valid");
    })
    .answer("understudy/modelServers/create", ({ modelServer }) => ({ ...server, modelServer }))
    .answer("understudy/modelServers/get", server)
    .answer("understudy/modelServers/test", { ok: true, steps: [] })
    .answer("understudy/delegators/create", ({ delegator }) => ({ ...created, delegator }))
    .answer("understudy/delegators/update", ({ delegator }) => ({ ...created, delegator }))
    .answer("understudy/delegators/setDefault", ({ delegator }) => (delegator ? { delegator } : {}))
    .answer("understudy/delegators/test", {
      ok: true,
      steps: [{ name: "round_trip", ok: true, message: "It replied in 0.5 s: “ready”", seconds: 0.5 }],
    });
});

async function open(target?: PageTarget): Promise<DelegatorsPage> {
  const page = new DelegatorsPage();
  page.client = {
    request: async (method: string, params: object) => {
      if (!method.startsWith("page/")) return peer.request(method as never, params as never);
      asked.push([method, params]);
      return method === "page/enterKey" ? enterKey() : {};
    },
    onNotification: (listener: (notification: PageNotification) => void) => void (notify = listener),
    remembered,
    remember: (state: unknown) => void (remembered = state),
  } as PageClient;
  page.start = { page: "delegators", places: PLACES, translations: {}, ...(target ? { target } : {}) };
  document.body.replaceChildren(page);
  await drawn();
  return page;
}

async function drawn(): Promise<void> {
  for (let times = 0; times < 10; times += 1) await settled();
}

const all = <T extends Element>(selector: string): T[] => [...document.querySelectorAll<T>(selector)];
const field = (id: string): HTMLInputElement => document.querySelector<HTMLInputElement>(`#${id}`)!;
const rows = (): (string | null)[] => all("[data-row]").map((row) => row.getAttribute("data-row"));
const text = (selector = "main"): string =>
  document.querySelector(selector)!.textContent.replaceAll(/\s+/gu, " ").trim();

async function enter(id: string, value: string, event = "input"): Promise<void> {
  field(id).value = value;
  field(id).dispatchEvent(new Event(event, { bubbles: true }));
  await drawn();
}

async function press(name: string, inside: ParentNode = document): Promise<void> {
  const found = [...inside.querySelectorAll("button")].find((one) => one.textContent.trim() === name);
  if (!found) throw new Error(`no button ${name}`);
  if (found.type === "submit" && found.form) found.form.dispatchEvent(new Event("submit", { cancelable: true }));
  else found.click();
  await drawn();
}

const inRow = (id: string): Element => document.querySelector(`[data-row="${id}"]`)!;

describe("the Delegators page", () => {
  it("lists what is configured, then what was found on top of what can be added", async () => {
    peer.answer("understudy/modelServers/list", { modelServers: [], problems: [] });
    await open();
    expect(all("h2").map((one) => one.textContent)).toEqual([
      "Your Delegators",
      "Add: Found on This Machine",
      "Add: Anything Else",
    ]);
    expect(rows()).toEqual([
      "delegator:ghostwriter",
      "delegator:local-coder",
      "delegator:my-agent",
      "preset:ollama",
      "agent:claude",
      "agent:ghostwriter",
      "preset:openrouter",
      "preset:custom",
      "install:codex",
    ]);
    expect(text("[data-row='delegator:my-agent']")).toContain("The program my-agent is not on PATH. Install it");
    expect(text("[data-row='preset:ollama']")).toContain("running on this machine");
    expect(all("button, input, select").filter((one) => one.hasAttribute("tabindex"))).toEqual([]);
  });

  it.each([
    ["ollama", ["delegator:local-coder", "server:ollama"]],
    ["gpt", ["preset:openrouter"]],
    ["api key", ["server:ollama", "server:router", "preset:openrouter"]],
    ["openrouter", ["server:router", "preset:openrouter"]],
    ["large-1", ["server:ollama"]],
    ["claude code", ["agent:claude"]],
    ["nothing like it", []],
  ])("finds what is meant by %j", async (query, found) => {
    const presets = result("understudy/modelServers/presets", "modelServers-presets.valid").presets;
    peer.answer("understudy/modelServers/presets", {
      presets: presets.map((one) => (one.kind === "openrouter" ? { ...one, families: ["gpt", "claude"] } : one)),
    });
    await open();
    await enter("search", query);
    expect(rows()).toEqual(found);
  });

  it("finds local servers, and shows models with context and price", async () => {
    peer.answer("understudy/modelServers/list", { modelServers: [], problems: [] });
    await open();
    await enter("search", "local model");
    expect(rows()).toContain("preset:ollama");
    peer.answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"));
    notify({ method: "understudy/changed", params: { collections: ["modelServers"] } });
    await drawn();
    await enter("search", "");
    expect(text("[data-row='server:ollama']")).toContain("32,768-token context");
    expect(text("[data-row='server:ollama']")).toContain("$0.15 in, $0.60 out per million tokens");
    expect(text("[data-row='server:router']")).toContain("The server refused the key.");
  });

  it("adds a delegator, tested before it is saved, with options, a fallback and a default", async () => {
    await open({ show: "add" });
    expect(document.activeElement?.id).toBe("search");
    await press("Add Delegator", inRow("server:ollama"));
    expect(document.activeElement?.id).toBe("model");
    expect(all<HTMLOptionElement>("#models option").map(({ text: label }) => label)).toEqual([
      "qwen2.5-coder:7b (32,768-token context)",
      "large-1 ($0.15 in, $0.60 out per million tokens)",
    ]);
    await press("Test and Save");
    expect(text("#model-problem")).toBe("Choose a model, or type its name.");
    await enter("models", "large-1", "change");
    expect(field("name").value).toBe("ollama-large-1");
    await enter("modelProperties-temperature", "hot");
    await press("Test and Save");
    expect(text("#modelProperties-temperature-problem")).toBe("Enter a number.");
    await enter("modelProperties-temperature", "0.2");
    const fallback = document.querySelector<HTMLSelectElement>("[aria-label='Add a fallback']")!;
    fallback.value = "local-coder";
    fallback.dispatchEvent(new Event("change"));
    await drawn();
    const box = all<HTMLLabelElement>(".check").find((one) => one.textContent.includes("Everything else"))!;
    box.querySelector("input")!.click();
    await enter("name", "big");
    await press("Test and Save");
    const delegator = {
      name: "big",
      modelServer: "ollama",
      model: "large-1",
      modelProperties: { temperature: 0.2 },
      fallback: ["local-coder"],
    };
    const where = { scope: "user", workspace: FOLDER };
    expect(peer.params("understudy/delegators/test")).toEqual([{ name: "big", delegator, ...where }]);
    expect(peer.params("understudy/delegators/create")).toEqual([{ delegator, ...where }]);
    expect(peer.params("understudy/delegators/setDefault")).toEqual([{ delegator: "big", ...where }]);
    expect(asked).toContainEqual(["page/saved", { delegator: "big" }]);
    expect(text()).toContain("big saved. It replied in 0.5 s: “ready”");
    const order = peer.asked.map(({ method }) => method).filter((name) => /\/(?:test|create)$/u.test(name));
    expect(order).toEqual(["understudy/delegators/test", "understudy/delegators/create"]);
  });

  it("says in one sentence why a test failed, saves nothing, and saves anyway when asked", async () => {
    peer.answer("understudy/delegators/test", {
      ok: false,
      steps: [
        { name: "endpoint", ok: true, message: "It responds.", seconds: 0 },
        { name: "key", ok: false, message: "The server refused the key.", seconds: 0 },
      ],
    });
    await open();
    await press("Add", inRow("agent:claude"));
    await press("Test and Save");
    expect(text("form [role=status]")).toBe("The server refused the key. It responds.");
    expect(peer.params("understudy/delegators/create")).toEqual([]);
    await press("Save Anyway");
    expect(peer.params("understudy/delegators/create")).toMatchObject([{ delegator: { name: "claude" } }]);
    expect(peer.params("understudy/delegators/test")).toHaveLength(1);
  });

  it("changes nothing when an unchanged delegator is saved, and tests only what changes its work", async () => {
    const [, entry] = structuredClone(LIST.delegators) as [unknown, DelegatorEntry];
    entry.delegator.permissions = [
      { decision: "allow", kind: "execute", command: "npm test" },
      { decision: "reject", path: "secrets/**" },
    ];
    peer.answer("understudy/delegators/list", { delegators: [entry], problems: [] });
    await open({ show: "edit", name: "local-coder" });
    expect(field("source").value).toBe("server:ollama");
    expect(field("model").value).toBe("qwen2.5-coder:7b");
    await press("Save");
    for (const method of ["update", "test", "create", "setDefault"]) {
      expect(peer.params(`understudy/delegators/${method}`)).toEqual([]);
    }
    await press("Edit", inRow("delegator:local-coder"));
    expect(all("#rules span").map((one) => one.textContent)).toEqual([
      "Allow commands that begin with “npm test”",
      "Reject anything of secrets/**",
    ]);
    await press("Remove", document.querySelector("#rules li")!);
    await press("Save");
    expect(peer.params("understudy/delegators/test")).toEqual([]);
    expect(peer.params("understudy/delegators/update")).toMatchObject([
      {
        name: "local-coder",
        revision: entry.revision,
        delegator: { model: "qwen2.5-coder:7b", permissions: [{ decision: "reject", path: "secrets/**" }] },
      },
    ]);
    await press("Edit", inRow("delegator:local-coder"));
    await enter("model", "large-1");
    await press("Test and Save");
    expect(peer.params("understudy/delegators/test")).toHaveLength(1);
  });

  it("keeps the form when the configuration changes meanwhile, and after the page was hidden", async () => {
    await open();
    await press("Add Delegator", inRow("server:ollama"));
    await enter("model", "my-own");
    notify({ method: "understudy/changed", params: { collections: ["delegators"] } });
    await drawn();
    expect(field("model").value).toBe("my-own");
    await open();
    expect(field("model").value).toBe("my-own");
    document.querySelector("form")!.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    await drawn();
    expect(rows().length).toBeGreaterThan(3);
    expect(remembered).toBeUndefined();
  });

  it("adds a model server whose key the program asks for, and uses a key of the environment for its own address only", async () => {
    await open();
    await press("Add", inRow("preset:custom"));
    await enter("url", "models.example.com");
    await press("Save and Test");
    expect(text("#url-problem")).toBe("Enter a URL such as http://127.0.0.1:8000/v1.");
    await enter("url", "https://models.example.com/v1/");
    await enter("server-name", "router");
    await press("Save and Test");
    expect(text("#server-name-problem")).toBe("A model server with this name already exists.");
    await enter("server-name", "mine");
    await press("Save and Test");
    expect(peer.params("understudy/modelServers/create")).toEqual([
      { modelServer: { name: "mine", kind: "custom", baseUrl: "https://models.example.com/v1" } },
    ]);
    expect(asked).toContainEqual(["page/enterKey", { server: "mine" }]);
    expect(field("source").value).toBe("server:mine");

    for (const [url, key] of [
      ["https://openrouter.ai/api/v1", { fromEnv: "OPENROUTER_API_KEY" }],
      ["https://proxy.test/v1", undefined],
    ] as const) {
      await open();
      await press("Add", inRow("preset:openrouter"));
      await enter("url", url);
      await press("Save and Test");
      expect(peer.params("understudy/modelServers/create").at(-1)).toMatchObject({ modelServer: { baseUrl: url } });
      const made = peer.params("understudy/modelServers/create").at(-1) as { modelServer: { apiKey?: unknown } };
      expect(made.modelServer.apiKey).toEqual(key);
    }
  });

  it("returns to the row of a model server that was edited", async () => {
    const [entry] = result("understudy/modelServers/list", "modelServers-list.valid").modelServers;
    peer.answer("understudy/modelServers/update", ({ modelServer }) => ({ ...entry!, modelServer }));
    peer.answer("understudy/modelServers/test", { ok: false, steps: [] });
    await open();
    await press("Edit", inRow("server:ollama"));
    await enter("url", "http://127.0.0.1:9/v1");
    await press("Save and Test");
    expect(all("form button").map((one) => one.textContent.trim())).toEqual(["Save and Test", "Back"]);
    peer.answer("understudy/modelServers/test", { ok: true, steps: [] });
    await press("Save and Test");
    expect(all("form")).toEqual([]);
    expect(text("[role=status]")).toBe("ollama saved.");
    expect(document.activeElement).toBe(inRow("server:ollama").querySelector("button"));
  });

  it("shows the placeholders of a command as a list, and refuses others", async () => {
    const known = result("understudy/tools/list", "tools-list.valid");
    const slots = [
      { value: "{prompt}", title: "the task" },
      { value: "{model}", title: "the model" },
    ];
    const command = {
      name: "command",
      title: "Command",
      description: "Its words.",
      type: "list",
      required: true,
      slots,
    };
    const supports = { ...known.tools[0]!.supports!, launch: [command] } as SupportedOptions;
    const generic = { ...known.tools[0]!, name: "generic", displayName: "Custom command", supports };
    peer.answer("understudy/tools/list", { ...known, tools: [generic] });
    await open();
    await press("Add", inRow("agent:generic"));
    expect(all(".slots div").map((one) => one.textContent.replaceAll(/\s+/gu, " ").trim())).toEqual([
      "{prompt} the task",
      "{model} the model",
    ]);
    await enter("launch-command", "my-agent {promt}");
    await press("Test and Save");
    expect(text("#launch-command-problem")).toBe("Unknown placeholder {promt}. Use {prompt} {model}.");
    await enter("launch-command", "my-agent {prompt}");
    await press("Test and Save");
    expect(peer.params("understudy/delegators/create")).toMatchObject([
      { delegator: { name: "my-agent-2", tool: "generic", launch: { command: ["my-agent", "{prompt}"] } } },
    ]);
  });

  it("deletes after a second press, and says whom that breaks", async () => {
    peer.answer("understudy/modelServers/delete", {});
    await open();
    await press("Delete…", inRow("server:ollama"));
    expect(document.activeElement?.textContent.trim()).toBe("Cancel");
    expect(peer.params("understudy/modelServers/delete")).toEqual([]);
    await press("Delete Anyway (local-coder will stop working)", inRow("server:ollama"));
    expect(peer.params("understudy/modelServers/delete")).toMatchObject([{ name: "ollama", workspace: FOLDER }]);
  });

  it("offers the repair of what failed in a form or a row, and tries again after it", async () => {
    const missing = (): never => {
      throw new Error("The engine is not installed.", { cause: { message: "", repair: "Install Engine" } });
    };
    const repaired = async (method: string): Promise<void> => {
      expect(all("main .problem").map((one) => one.textContent)).toContain("The engine is not installed.");
      await press("Install Engine");
      expect(asked.splice(0)).toEqual([["page/repair", {}]]);
      expect(peer.params(method)).toHaveLength(2);
    };
    for (const method of ["delegators/create", "modelServers/create", "modelServers/test"] as const) {
      peer.answer(`understudy/${method}`, missing);
    }
    await open();
    await press("Test", inRow("server:ollama"));
    await repaired("understudy/modelServers/test");
    await press("Add", inRow("preset:custom"));
    await enter("url", "https://models.example.com/v1");
    await press("Save and Test");
    await repaired("understudy/modelServers/create");
    await press("Back");
    await press("Add", inRow("agent:claude"));
    await press("Test and Save");
    await repaired("understudy/delegators/create");
  });

  it("says where the user is that a key could not be stored, and asks again", async () => {
    let locked: boolean;
    enterKey = () => {
      if (locked) throw new Error("The keyring is locked.");
      return true;
    };
    const asksAgain = async (inside: string): Promise<void> => {
      expect(all(`${inside} .problem`).map((one) => one.textContent)).toContain("The keyring is locked.");
      locked = false;
      const before = asked.length;
      await press("Retry", document.querySelector(inside)!);
      expect(asked[before]?.[0]).toBe("page/enterKey");
      expect(all(".problem").map((one) => one.textContent)).not.toContain("The keyring is locked.");
      locked = true;
    };
    locked = true;
    await open();
    await press("Set API Key…", inRow("server:ollama"));
    await asksAgain("[data-row='server:ollama']");
    await press("Set API Key…", inRow("delegator:local-coder"));
    await asksAgain("[data-row='delegator:local-coder']");
    await press("Add", inRow("preset:custom"));
    await enter("url", "https://models.example.com/v1");
    await press("Save and Test");
    await asksAgain("form");
    expect(peer.params("understudy/modelServers/create")).toHaveLength(1);
    peer.answer("understudy/delegators/test", { ok: false, steps: [] });
    await open({ show: "edit", name: "local-coder" });
    await enter("model", "large-1");
    await press("Test and Save");
    await press("Set API Key…");
    await asksAgain("form");
  });

  it("shows text of servers as text", async () => {
    const [, entry] = structuredClone(LIST.delegators) as [unknown, DelegatorEntry];
    entry.delegator.displayName = "<img src=x onerror=alert(1)>\u202e";
    peer.answer("understudy/delegators/list", { delegators: [entry], problems: [] });
    await open();
    expect(document.querySelector("img")).toBeNull();
    expect(text("[data-row='delegator:local-coder'] strong")).toBe("<img src=x onerror=alert(1)>\ufffd");
  });

  it("names what keeps it from reading, and reads again", async () => {
    let broken = true;
    peer.answer("understudy/delegators/list", () => {
      if (broken) throw new SidecarError({ kind: "connection_failed", message: "Not installed." });
      return LIST;
    });
    await open();
    expect(text("[role=alert]")).toBe("Not installed.");
    broken = false;
    await press("Retry");
    expect(rows()).toContain("delegator:local-coder");
  });
});

describe("the address of a model server", () => {
  it("is checked before it is saved", () => {
    expect(checkUrl("http://127.0.0.1:8000/v1")).toBeUndefined();
    for (const wrong of ["ftp://a", "x", "https://me:pw@a/v1", "https://a/v1/chat/completions"]) {
      expect(checkUrl(wrong)).toBeDefined();
    }
  });
});
