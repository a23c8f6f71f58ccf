import { beforeEach, describe, expect, it } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import { draftOf, EMPTY_DRAFT, type ComposeStart } from "../../src/compose/composeMessages.ts";
import { COMPOSE_PANEL, COMPOSE_VIEW, ComposePanel } from "../../src/compose/composePanel.ts";
import type { StartParams } from "../../src/protocol.ts";
import type { Change } from "../../src/state/store.ts";
import { FakeHost, type FakePanel } from "../support/fakeHost.ts";
import { settled } from "../support/flushPromises.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

const { recipes } = result("understudy/recipes/list", "recipes-list.valid");
const { delegators } = result("understudy/delegators/list", "delegators-list.valid");
const { modelServers } = result("understudy/modelServers/list", "modelServers-list.valid");
const ROOT = "file:///home/ada/greeting";
const OTHER = "file:///home/ada/other";
const defaultDelegator = (recipe: string, folder: string | undefined): string | undefined =>
  recipe === "tests" ? (folder === OTHER ? "my-agent" : "local-coder") : undefined;

let host: FakeHost;
let started: StartParams[];
let outcome: () => Promise<string | undefined>;
let composer: ComposePanel;
let count: number;
let peer: GoldenSidecar;

function make(): ComposePanel {
  return new ComposePanel({
    host,
    requester: peer,
    store: { recipes, delegators, defaultDelegator, modelServers, onDidChange: new Emitter<Change>().subscribe },
    start: (params) => {
      started.push(params);
      return outcome();
    },
    showPrompt: ({ recipe }) => Promise.resolve(`about ${recipe}`),
    estimate: ({ recipe, files = [] }) => Promise.resolve(`${recipe} ${files?.length}`),
    chooseFiles: () => Promise.resolve(host.pickedFiles),
  });
}

async function ask(method: string, params: object = {}): Promise<Record<string, unknown>> {
  const panel = host.panels.at(-1)!;
  const id = (count += 1);
  panel.send({ id, method, params });
  await settled();
  return panel.posted.find((one) => (one as { id?: number }).id === id) as Record<string, unknown>;
}

beforeEach(() => {
  host = new FakeHost();
  started = [];
  count = 0;
  outcome = () => Promise.resolve("d-1");
  peer = new GoldenSidecar()
    .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
    .answer("understudy/modelServers/models", result("understudy/modelServers/models", "modelServers-models.valid"))
    .answer("understudy/delegations/preview", ({ launch }) => {
      if (launch?.model === "wrong") {
        const error = { kind: "invalid_params" as const, message: "No such model", hint: "Choose another." };
        throw new SidecarError({ ...error, parameter: "launch.model" });
      }
      throw new SidecarError({ kind: "input_empty", message: "No file under test is named." });
    });
  composer = make();
});

describe("the panel of a new delegation", () => {
  it("works in the chosen folder, or in that of its files", async () => {
    host.folders.push({ uri: OTHER, path: "/home/ada/other", name: "other" });
    composer.show({ files: [] });
    const { draft, choices } = (await ask("page/start"))["result"] as ComposeStart;
    expect(choices.folders.map(({ title }) => title)).toEqual(["greeting", "other"]);
    const chosen = { ...draft, recipe: "ask", task: "Why?", folder: OTHER };
    await ask("page/send", chosen);
    await ask("page/send", { ...chosen, files: [{ uri: `${ROOT}/a.py`, name: "a.py" }] });
    await ask("page/send", { ...chosen, folder: "file:///gone" });
    expect(started.map(({ workspace, files }) => workspace ?? files)).toEqual([OTHER, [`${ROOT}/a.py`], ROOT]);
  });

  it("opens once with what is delegated, and offers recipes and delegators", async () => {
    composer.show({ recipe: "ask", task: "Why?", files: [`${ROOT}/a%20b.py`] });
    composer.show({ files: [`${ROOT}/a%20b.py`, `${ROOT}/c.py`, "untitled:x"] });
    expect(host.panels).toHaveLength(1);
    expect(host.panels[0]).toMatchObject({ type: COMPOSE_PANEL, revealed: 1 });
    const policy = /Content-Security-Policy" content="([^"]+)"/.exec(host.panels[0]!.html)?.[1];
    expect(policy).toContain("require-trusted-types-for 'script'");
    const { draft, choices } = (await ask("page/start"))["result"] as ComposeStart;
    expect(draft).toMatchObject({ recipe: "ask", task: "Why?" });
    expect(draft.files.map(({ name }) => name)).toEqual(["a b.py", "c.py"]);
    expect(choices.recipes.map(({ name }) => name)).toEqual(recipes.map(({ name }) => name));
    expect(choices.recipes.map((recipe) => recipe.defaultDelegator)).toEqual(["local-coder", undefined]);
    expect(choices.delegators).toHaveLength(delegators.length);
  });

  it("offers the default delegator of the folder that the files are in", async () => {
    host.folders.push({ uri: OTHER, path: "/home/ada/other", name: "other" });
    composer.show({ files: [] });
    const start = (await ask("page/start"))["result"] as ComposeStart;
    expect(start.choices.recipes[0]?.defaultDelegator).toBe("local-coder");
    const panel = host.panels.at(-1)!;
    const offered = (): unknown[] =>
      panel.posted.flatMap((one) => {
        const { method, params } = one as { method?: string; params?: ComposeStart["choices"] };
        return method === "page/choices" ? [params?.recipes[0]?.defaultDelegator] : [];
      });
    const draft = (name: string): object => ({ ...start.draft, files: [{ uri: name, name }] });
    panel.send({ method: "page/draft", params: draft(`${ROOT}/a.py`) });
    expect(offered()).toEqual([]);
    panel.send({ method: "page/draft", params: draft(`${OTHER}/a.py`) });
    expect(offered()).toEqual(["my-agent"]);
    panel.send({ method: "page/draft", params: start.draft });
    expect(offered()).toEqual(["my-agent", "local-coder"]);
  });

  it("starts a delegation with the same parameters as the other commands, and then begins a new draft", async () => {
    composer.show({ files: [`${ROOT}/a.py`] });
    const draft = {
      task: " One\nTwo ",
      recipe: "tests",
      delegator: "quick",
      target: "x.py",
      files: [{ uri: `${ROOT}/a.py`, name: "a.py" }],
    };
    expect((await ask("page/send", draft))["result"]).toBe("d-1");
    expect(started).toEqual([{ recipe: "tests", task: "One\nTwo", files: [`${ROOT}/a.py`], delegator: "quick" }]);
    expect(host.panels[0]!.posted).toContainEqual({
      method: "page/draft",
      params: EMPTY_DRAFT,
    });
    await ask("page/send", { ...draft, recipe: "ask", files: [], delegator: "", budget: "0,50" });
    expect(started[1]).toEqual({ recipe: "ask", task: "One\nTwo", workspace: ROOT, limits: { maxUsd: "0.50" } });
    expect(await ask("page/send", { ...draft, budget: "much" })).toMatchObject({
      error: { message: "Budget: Enter a number greater than 0." },
    });
    const writing = recipes.find(({ returns }) => returns === "file");
    if (writing) {
      await ask("page/send", { ...draft, recipe: writing.name, target: "src/a b.py" });
      expect(started[2]?.target).toBe(`${ROOT}/src/a%20b.py`);
    }
  });

  it("keeps the draft when a start fails or is cancelled, when the tab is closed and after a reload", async () => {
    composer.show({ files: [] });
    const panel = host.panels[0]!;
    panel.send({ method: "page/draft", params: { task: "Kept", recipe: "ask", delegator: "", target: "", files: [] } });
    outcome = () => Promise.resolve(undefined);
    expect((await ask("page/send", { task: "Kept", recipe: "ask" }))["result"]).toBe("");
    outcome = () => Promise.reject(new Error("No engine."));
    expect(await ask("page/send", { task: "Kept", recipe: "ask" })).toMatchObject({ error: { message: "No engine." } });
    panel.close();
    composer.dispose();
    composer = make();
    composer.show({ files: [] });
    expect(((await ask("page/start"))["result"] as ComposeStart).draft.task).toBe("Kept");
    host.restorers.get(COMPOSE_PANEL)!(undefined);
    expect(((await ask("page/start"))["result"] as ComposeStart).draft.task).toBe("Kept");
    const stored = draftOf({ task: "Newer", recipe: 3, files: [{ uri: "https://x", name: "x" }, null] });
    expect(stored).toEqual({ ...EMPTY_DRAFT, task: "Newer" });
    for (const wrong of [undefined, null, 3, "x", []]) expect(draftOf(wrong).task).toBe("");
  });

  it("opens the transcript of what it started, and nothing else", async () => {
    composer.show({ files: [] });
    for (const id of ["20261121-020000-aaaaa", "../x", 3]) await ask("page/openTranscript", { id });
    expect(host.ran).toEqual([{ id: "understudy.delegations.open", values: ["20261121-020000-aaaaa"] }]);
  });

  it("offers what repairs a failed start as a button, as the page has none", async () => {
    const repair = { title: "Install Engine", command: "understudy.install" };
    outcome = () => Promise.reject(new SidecarError({ kind: "connection_failed", message: "Not installed." }, repair));
    composer.show({ files: [] });
    host.buttons.push("Install Engine");
    expect(await ask("page/send", { task: "Kept", recipe: "ask" })).toMatchObject({
      error: { message: "Not installed." },
    });
    expect(host.messages).toEqual([{ level: "error", text: "Not installed." }]);
    expect(host.ran.map(({ id }) => id)).toEqual(["understudy.install"]);
  });

  it("starts what was refused as soon as the user has given the trust that was missing", async () => {
    const repair = { title: "Review Trust…", command: "understudy.trust", asks: true };
    const refused = new SidecarError({ kind: "untrusted_workspace", message: "Not trusted." }, repair);
    outcome = () => Promise.reject(refused);
    composer.show({ files: [] });
    expect(await ask("page/send", { task: "Kept", recipe: "ask" })).toMatchObject({
      error: { message: "Not trusted." },
    });
    host.handlers.set("understudy.trust", () => {
      outcome = () => Promise.resolve("20261121-020000-aaaaa");
      return true;
    });
    expect(await ask("page/send", { task: "Kept", recipe: "ask" })).not.toHaveProperty("error");
    expect(host.messages).toEqual([]);
  });

  it("takes the file of the editor that was active last until the user names another or removes it", async () => {
    composer.show({ files: [] });
    const at = { line: 0, character: 0 };
    const show = (uri: string): void =>
      host.activeChanged.fire({ uri, selection: { start: at, end: at }, selectionEmpty: true });
    const told = (): unknown[] =>
      host.panels[0]!.posted.flatMap((one) => {
        const { method, params } = one as { method?: string; params?: { name?: string } };
        return method === "page/current" ? [params?.name] : [];
      });
    host.tabs = [`${ROOT}/src/a.py`];
    show(`${ROOT}/src/a.py`);
    host.activeChanged.fire(undefined); // a page has the focus
    expect(told()).toEqual(["src/a.py"]);
    const draft = { ...EMPTY_DRAFT, recipe: "ask", task: "Do it." };
    await ask("page/send", draft);
    await ask("page/send", { ...draft, files: [{ uri: `${ROOT}/b.py`, name: "b.py" }] });
    await ask("page/send", { ...draft, without: `${ROOT}/src/a.py` });
    expect(started.map(({ files, workspace }) => files ?? workspace)).toEqual([
      [`${ROOT}/src/a.py`],
      [`${ROOT}/b.py`],
      ROOT,
    ]);
    expect((await ask("page/estimate", draft))["result"]).toBe("ask 1");
    const selection = { start: { line: 2, character: 4 }, end: { line: 5, character: 0 } };
    host.selected.fire({ uri: `${ROOT}/src/a.py`, selection, selectionEmpty: false });
    expect(host.panels[0]!.posted.at(-1)).toMatchObject({ method: "page/current", params: { lines: "3–5" } });
    await ask("page/send", draft);
    await ask("page/send", { ...draft, recipe: "tests" });
    expect(started.slice(3).map(({ recipe, range }) => [recipe, range])).toEqual([
      ["ask", selection],
      ["tests", undefined],
    ]);
    host.selected.fire({ uri: `${ROOT}/src/a.py`, selection, selectionEmpty: true });
    host.tabs = [];
    host.activeChanged.fire(undefined); // it was closed
    show("file:///etc/hosts"); // not in a folder of the window
    expect(told()).toEqual(["src/a.py", "src/a.py", "src/a.py", undefined]);
  });

  it("guesses the recipe, and asks for a file if that cannot do without", async () => {
    composer.show({ files: [] });
    expect((await ask("page/send", { ...EMPTY_DRAFT, task: "Test it." }))["result"]).toBe("");
    expect(started).toEqual([]);
    host.pickedFiles = [`${ROOT}/a.py`];
    await ask("page/send", { ...EMPTY_DRAFT, task: "Test it." });
    expect(started).toEqual([{ recipe: "tests", task: "Test it.", files: [`${ROOT}/a.py`] }]);
  });

  it("shows one draft in the tab and in the box, which a delegator can be chosen for", async () => {
    composer.show({ files: [] });
    host.pageViews.get(COMPOSE_VIEW)!();
    const [tab, box] = host.panels as [FakePanel, FakePanel];
    expect(((await ask("page/start"))["result"] as ComposeStart).isBox).toBe(true);
    const draft = { ...EMPTY_DRAFT, task: "Typed" };
    box.send({ method: "page/draft", params: draft });
    expect(tab.posted).toContainEqual({ method: "page/draft", params: draft });
    expect(box.posted, "not to where it is from: the user types on").not.toContainEqual({
      method: "page/draft",
      params: draft,
    });
    await composer.choose("my-agent");
    expect(box.posted).toContainEqual({ method: "page/draft", params: { ...draft, delegator: "my-agent" } });
    expect(host.focused).toEqual([COMPOSE_VIEW]);
    await ask("page/openTab");
    expect(tab.revealed).toBe(1);
  });

  it("finds files by a part of their path, those that were used last first", async () => {
    composer.show({ files: [] });
    host.tabs = [`${ROOT}/shop/labels.py`];
    host.savedOutside.fire(`${ROOT}/shop/total.py`);
    host.savedOutside.fire("file:///elsewhere/total.py");
    host.foundFiles.set("**/*[tT][oO]*", [`${ROOT}/tools/x.py`, `${ROOT}/shop/total.py`]);
    const found = async (text: string): Promise<string[]> =>
      ((await ask("page/findFiles", { text }))["result"] as ComposeStart["draft"]["files"]).map(({ name }) => name);
    expect(await found("to")).toEqual(["shop/total.py", "tools/x.py"]);
    host.foundFiles.set("**/*[sS][hH]*/**/*[lL]_[[]*", [`${ROOT}/shop/l_[1].py`]);
    expect(await found("sh/l_[")).toEqual(["shop/l_[1].py"]);
    expect(await found("")).toEqual(["shop/total.py", "shop/labels.py"]);
  });

  it("adds chosen files, and refuses other requests", async () => {
    composer.show({ files: [] });
    host.pickedFiles = ["file:///elsewhere/b.py"];
    expect((await ask("page/pickFiles"))["result"]).toEqual([{ uri: "file:///elsewhere/b.py", name: "b.py" }]);
    expect((await ask("page/showPrompt", { recipe: "ask" }))["result"]).toBe("about ask");
    expect(await ask("understudy/delegations/list")).toHaveProperty("error");
  });

  it("offers the options of the delegator, checks them, and starts with them once", async () => {
    composer.show({ files: [`${ROOT}/a.py`] });
    const draft = {
      task: "Do it.",
      recipe: "tests",
      delegator: "local-coder",
      target: "",
      files: [{ uri: `${ROOT}/a.py`, name: "a.py" }],
      folder: "",
      options: {},
    };
    expect((await ask("page/options", draft))["result"]).toEqual([
      {
        id: "delegator.model",
        title: "Model",
        description: "The ID of a model of the tool, or of the model server.",
        placeholder: "",
        own: "qwen2.5-coder:7b",
        listsModels: true,
      },
      {
        id: "modelProperties.temperature",
        title: "Temperature",
        description: "Sent with each request; without it the server uses its own.",
        placeholder: "0.2",
        own: "0.2",
        listsModels: false,
      },
    ]);
    expect((await ask("page/options", { ...draft, delegator: "" }))["result"]).toEqual([]);
    expect((await ask("page/options", { ...draft, delegator: "ghostwriter" }))["result"]).toEqual([]);
    expect((await ask("page/models", draft))["result"]).toEqual(["qwen2.5-coder:7b", "large-1"]);
    expect((await ask("page/models", { ...draft, delegator: "my-agent" }))["result"]).toEqual([]);

    const checked = async (options: object): Promise<unknown> =>
      (await ask("page/checkOptions", { ...draft, options }))["result"];
    expect(await checked({ "modelProperties.temperature": "hot" })).toEqual({
      "modelProperties.temperature": "Enter a number.",
    });
    expect(await checked({ "delegator.model": "wrong" })).toEqual({
      "delegator.model": "No such model. Choose another.",
    });
    expect(await checked({ "delegator.model": "large-1" })).toEqual({});

    const hot = await ask("page/send", { ...draft, options: { "modelProperties.temperature": "hot" } });
    expect(hot).toMatchObject({ error: { message: "Temperature: Enter a number." } });
    expect(started).toEqual([]);
    const options = { "delegator.model": "large-1", "modelProperties.temperature": "0.7", "launch.yolo": "true" };
    const typed = { ...draft, options, budget: "1", without: `${ROOT}/b.py` };
    host.panels[0]!.send({ method: "page/draft", params: typed });
    expect((await ask("page/send", { ...draft, options }))["result"]).toBe("d-1");
    expect(started).toMatchObject([{ launch: { model: "large-1", modelProperties: { temperature: 0.7 } } }]);
    expect(started[0]?.launch).not.toHaveProperty("yolo");
    const params = { ...EMPTY_DRAFT, delegator: "local-coder", budget: "1" };
    expect(host.panels[0]!.posted.at(-2)).toEqual({ method: "page/draft", params });
  });
});
