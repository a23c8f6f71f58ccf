import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { type App } from "../../src/appContext.ts";
import { DisposableStore } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { Recipe } from "../../src/protocol.ts";
import { delegationRowId } from "../../src/state/delegationUris.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { golden, GoldenSidecar, inProcess, refusal, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const RECIPES = result("understudy/recipes/list", "recipes-list.valid");
const PREVIEW = result("understudy/delegations/preview", "delegations-preview.valid");
const DELEGATORS = result("understudy/delegators/list", "delegators-list.valid");
const FILE = "file:///home/ada/greeting/greeting/wrapping.py";
const RANGE = { start: { line: 2, character: 0 }, end: { line: 4, character: 0 } };

const OWN: Recipe = {
  name: "polish",
  title: "Polish this",
  returns: "tree",
  appliesTo: { on: ["file", "diagnostic"] },
  scope: "user",
};

async function app(
  done = DONE,
  defaults: Readonly<Record<string, string>> = {},
): Promise<{ host: FakeHost; peer: GoldenSidecar; made: App; disposables: DisposableStore }> {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", { ...DELEGATORS, defaults })
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [...RECIPES.recipes, OWN], problems: [] })
    .answer("understudy/delegations/list", { delegations: [done] })
    .answer("understudy/delegations/get", done)
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/diff", { base: "", head: "", files: [], undoable: [] })
    .answer("understudy/delegations/preview", PREVIEW)
    .answer("understudy/delegations/start", result("understudy/delegations/start", "delegations-start.valid"))
    .answer("understudy/workspace/trust", {
      workspace: "/home/ada/greeting",
      trusted: true,
      effects: [],
      changed: [],
      digest: "1",
    });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  host.active = { uri: FILE, selection: RANGE, selectionEmpty: true };
  const disposables = new DisposableStore();
  const made = createApp({ host, connect: inProcess(peer) }, disposables);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  return { host, peer, made, disposables };
}

/** The sidecar's error if several delegators are possible, or, without names, none. */
const noDefault = (...names: string[]): SidecarError =>
  new SidecarError({
    kind: "unknown_delegator",
    message: "There is no default delegator.",
    ...(names.length > 0 ? { names } : {}),
  });

const started = (peer: GoldenSidecar): unknown[] =>
  peer.params("understudy/delegations/start").map((params) => {
    const { idempotencyKey, ...rest } = params as { idempotencyKey: string };
    expect(idempotencyKey).toMatch(/^[0-9a-f-]{36}$/);
    return rest;
  });

describe("delegate", () => {
  it("asks before a command sends anything, if the user wants that", async () => {
    const { host, peer, disposables } = await app();
    host.settings.set("confirmBeforeSending", true);
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(started(peer)).toEqual([]);
    expect(host.messages[0]?.text).toBe(`Delegate to ${PREVIEW.explain.delegator}?`);
    expect(host.messages[0]?.detail).toContain("prompt of about");
    host.buttons.push("Delegate");
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(started(peer)).toHaveLength(1);
    disposables.dispose();
  });

  it("asks once: not again after a preview, and once for one delegation for each file", async () => {
    const { host, peer, disposables } = await app();
    host.settings.set("confirmBeforeSending", true);
    const files = [FILE, `${FILE}x`];
    const { group } = result("understudy/groups/start", "groups-start.valid");
    peer.answer("understudy/groups/start", { group, explanations: [] });
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "go" });
    await host.commands.run("understudy.delegate", FILE);
    expect(host.messages).toEqual([]);
    expect(started(peer)).toHaveLength(1);
    host.answers.push({ pick: "polish" }, { pick: "go" }, { pick: "each" });
    await host.commands.run("understudy.delegate.recipe", FILE, files);
    expect(host.messages).toEqual([]);
    expect(peer.params("understudy/groups/start")).toHaveLength(1);
    host.answers.push({ pick: "each" }, { pick: "each" });
    await host.commands.run("understudy.delegate.tests", FILE, files);
    expect(peer.params("understudy/groups/start"), "cancelled").toHaveLength(1);
    host.buttons.push("Delegate");
    await host.commands.run("understudy.delegate.tests", FILE, files);
    expect(peer.params("understudy/groups/start")).toHaveLength(2);
    expect(host.messages.map(({ text }) => text)).toEqual(
      [1, 2].map(() => `Delegate to ${PREVIEW.explain.delegator}?`),
    );
    disposables.dispose();
  });

  it("offers what tests lack before an agent works, and asks once about what the user does without", async () => {
    const { host, peer, disposables } = await app();
    const remedy = { kind: "link_folders" as const, paths: ["node_modules"] };
    const lacks = [{ text: "Worktrees have no node_modules.", hint: "Run understudy init.", remedy }];
    peer.answer("understudy/delegations/preview", { ...PREVIEW, lacks });
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(started(peer), "cancelled").toEqual([]);
    peer.answer("understudy/remedies/apply", {});
    host.buttons.push("Link node_modules");
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(peer.params("understudy/remedies/apply")).toEqual([{ remedy, workspace: "file:///home/ada/greeting" }]);
    expect(started(peer)).toHaveLength(1);
    host.buttons.push("Delegate Anyway");
    await host.commands.run("understudy.delegate.tests", FILE);
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(started(peer)).toHaveLength(3);
    expect(host.messages.filter(({ level }) => level === "warning")).toHaveLength(3);
    disposables.dispose();
  });

  it("asks for a delegator before it asks whether to send", async () => {
    const { host, peer, disposables } = await app();
    host.settings.set("confirmBeforeSending", true);
    peer.answer("understudy/delegations/preview", (params) => {
      if (!params.delegator) throw noDefault("ghostwriter", "local-coder");
      return PREVIEW;
    });
    host.answers.push({ pick: "who:local-coder" });
    host.buttons.push("Delegate");
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "local-coder" }]);
    disposables.dispose();
  });

  it("offers what tests lack before each kind of start, from the preview that was shown", async () => {
    const { host, peer, disposables } = await app();
    const lack = (name: string) => ({
      text: `Worktrees have no ${name}.`,
      hint: "Run understudy init.",
      remedy: { kind: "link_folders" as const, paths: [name] },
    });
    peer.answer("understudy/delegations/preview", { ...PREVIEW, lacks: [lack("node_modules"), lack("vendor")] });
    const { group, explanations } = result("understudy/groups/start", "groups-start.valid");
    peer.answer("understudy/groups/start", { group, explanations });
    const previews = (): number => peer.params("understudy/delegations/preview").length;
    host.answers.push({ pick: "each" });
    await host.commands.run("understudy.delegate.tests", FILE, [FILE, `${FILE}x`]);
    expect(previews()).toBe(1);
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "several" }, { pick: ["ghostwriter", "local-coder"] });
    await host.commands.run("understudy.delegate");
    expect(previews()).toBe(2);
    expect(peer.params("understudy/groups/start"), "cancelled").toEqual([]);
    expect(host.messages.map(({ text }) => text)).toEqual([1, 2].map(() => "Worktrees have no node_modules."));
    host.settings.set("confirmBeforeSending", true);
    host.buttons.push("Delegate", "Delegate Anyway");
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(previews()).toBe(3);
    expect(started(peer)).toHaveLength(1);
    // The user does without both.
    expect(host.messages.filter(({ level }) => level === "warning")).toHaveLength(3);
    disposables.dispose();
  });

  it("ends the walkthrough with a run on a file of the user, and shows it", async () => {
    const { host, peer, disposables } = await app();
    await host.commands.run("understudy.delegate.firstRun");
    const params = { recipe: "tests", delegator: "ghostwriter", files: [FILE] };
    expect(started(peer)).toEqual([params]);
    expect(host.ran.at(-1)?.id).toBe("understudy.delegations.open");
    // The walkthrough itself is shown: the files in other tabs are offered.
    host.active = undefined;
    host.tabs = [FILE, "file:///home/ada/greeting/README.md"];
    host.answers.push({ pick: FILE });
    await host.commands.run("understudy.delegate.firstRun");
    expect(started(peer)).toEqual([params, params]);
    expect(host.shown.at(-1)?.items.map(({ label }) => label)).toEqual(["wrapping.py", "Choose Another File…"]);
    host.tabs = [];
    host.pickedFiles = ["file:///home/ada/greeting/README.md"];
    await host.commands.run("understudy.delegate.firstRun");
    expect(host.messages.map(({ text }) => text).join()).toContain("Ghostwriter writes tests for Python.");
    expect(started(peer)).toHaveLength(2);
    disposables.dispose();
  });

  it("starts tests at once from a menu, for one file or all selected ones together", async () => {
    const { host, peer, disposables } = await app();
    await host.commands.run("understudy.delegate.tests", FILE);
    host.answers.push({ pick: "all" });
    await host.commands.run("understudy.delegate.tests", FILE, [FILE, `${FILE}x`]);
    await host.commands.run("understudy.delegate.tests");
    expect(started(peer)).toEqual([
      { recipe: "tests", files: [FILE] },
      { recipe: "tests", files: [FILE, `${FILE}x`] },
      { recipe: "tests", files: [FILE] },
    ]);
    expect(host.shown).toHaveLength(1);
    disposables.dispose();
  });

  it("starts one delegation for each of several files, as a batch, with the delegator that was chosen once", async () => {
    const { host, peer, disposables } = await app();
    const files = [FILE, `${FILE}x`];
    const { group } = result("understudy/groups/start", "groups-start.valid");
    peer.answer("understudy/groups/start", ({ tasks }) => {
      if (tasks.every(({ delegator }) => delegator)) return { group, explanations: [] };
      throw noDefault("claude", "local-coder");
    });
    host.answers.push({ key: "Enter" }, { pick: "who:local-coder" });
    await host.commands.run("understudy.delegate.tests", FILE, files);
    expect(host.shown[0]?.items.map(({ label }) => label)).toEqual([
      "One Delegation for Each File",
      "One Delegation for All Files",
    ]);
    expect(peer.params("understudy/groups/start").at(-1)).toMatchObject({
      kind: "batch",
      tasks: files.map((file) => ({ recipe: "tests", files: [file], delegator: "local-coder" })),
    });
    expect(started(peer)).toEqual([]);
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.delegate.tests", FILE, files);
    expect(peer.params("understudy/groups/start")).toHaveLength(2);
    disposables.dispose();
  });

  it("opens the page for a task of several lines with what was chosen", async () => {
    const { host, peer, disposables } = await app();
    host.answers.push({ pick: "tests" }, { press: "Mind the edges." });
    await host.commands.run("understudy.delegate", FILE);
    const [panel] = host.panels;
    expect(panel?.type).toBe("understudy.compose");
    panel?.send({ id: 1, method: "page/start", params: {} });
    await settled();
    const draft = { recipe: "tests", task: "Mind the edges.", files: [{ uri: FILE }] };
    expect(panel?.posted).toMatchObject([{ id: 1, result: { draft } }]);
    expect(started(peer)).toEqual([]);
    disposables.dispose();
  });

  it("previews what is sent, to which delegator and why; sends nothing before", async () => {
    const { host, peer, disposables } = await app();
    host.answers.push({ pick: "tests" }, { enter: "Mind the edges." }, { pick: "show" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown.map(({ title, step, totalSteps }) => [title, step, totalSteps])).toEqual([
      ["Delegate", 1, 3],
      ["Write tests for this file: wrapping.py", 2, 3],
      ["Write tests for this file: wrapping.py", 3, 3],
      ["Write tests for this file: wrapping.py", 3, 3],
    ]);
    const lines = host.shown.at(-1)?.items.map((item) => `${item.icon ?? "-"} ${item.label} | ${item.description ?? ""} | ${item.detail ?? ""}`); // prettier-ignore
    expect(lines).toEqual([
      "rocket Delegate to claude | prompt of about 412 tokens | It is the default for this recipe.",
      "eye Show Full Prompt |  | ",
      "person Choose Another Delegator… |  | ",
      "split-horizontal Compare Several Delegators… |  | ",
      "- 1 file attached |  | ",
      "file greeting/wrapping.py | file of about 203 tokens | ",
      "lock .env | not sent: its name is that of a file with secrets | ",
    ]);
    // Read-only: the editor never asks whether to save it.
    const shown = host.opened.at(-1)?.uri ?? "";
    expect(shown).toMatch(/^understudy-prompt:\/tests\//);
    expect(host.provided.get("understudy-prompt")?.text(shown)).toBe(PREVIEW.prompt);
    const wanted = { recipe: "tests", files: [FILE], task: "Mind the edges." };
    expect(peer.params("understudy/delegations/preview")).toEqual([wanted, wanted]);
    expect(started(peer)).toEqual([wanted]);
    disposables.dispose();
  });

  it("offers no prompt of a delegator that reads only the files", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/preview", { ...PREVIEW, prompt: "", tokens: 0 });
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    const items = host.shown.at(-1)?.items ?? [];
    expect(items[0]?.description).toBe("works without a model");
    expect(items.map(({ id }) => id)).not.toContain("show");
    disposables.dispose();
  });

  it("writes a new file into the innermost folder of the subject", async () => {
    const { host, peer, disposables } = await app();
    host.folders.push({
      uri: "file:///home/ada/greeting/greeting",
      path: "/home/ada/greeting/greeting",
      name: "inner",
    });
    peer.answer("understudy/recipes/list", { recipes: [{ ...OWN, name: "write", returns: "file" }], problems: [] });
    host.answers.push({ pick: "write" }, { enter: "A table." }, { enter: "a b.md" }, { pick: "go" });
    await host.commands.run("understudy.delegate", FILE);
    expect(started(peer)).toMatchObject([{ target: "file:///home/ada/greeting/greeting/a%20b.md" }]);
    disposables.dispose();
  });

  it("asks for the folder when the window has several and no file is named", async () => {
    const { host, peer, disposables } = await app();
    const other = { uri: "file:///home/ada/other", path: "/home/ada/other", name: "other" };
    host.folders.push(other);
    host.active = undefined;
    host.answers.push({ pick: other.uri }, { pick: "polish" }, { enter: "Everything." }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown[0]).toMatchObject({ title: "Delegate", placeholder: "Choose a folder" });
    expect(started(peer)).toMatchObject([{ workspace: other.uri }]);
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.delegate");
    expect(started(peer)).toHaveLength(1);
    disposables.dispose();
  });

  it("lets the user choose another delegator, and go back", async () => {
    const { host, peer, disposables } = await app(DONE, { tests: "local-coder", ask: "ghostwriter" });
    host.answers.push({ pick: "polish" }, { enter: "" }, { back: true }, { back: true });
    host.answers.push(
      { pick: "tests" },
      { enter: "" },
      { pick: "another" },
      { pick: "who:local-coder" },
      { pick: "go" },
    );
    await host.commands.run("understudy.delegate");
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "local-coder" }]);
    // The default of this recipe comes first, and is marked.
    const offered = host.shown.at(-2)?.items.map(({ id, description }) => `${id} ${description ?? ""}`);
    expect(offered?.[0]).toMatch(/^who:local-coder default · /u);
    expect(offered?.filter((item) => item.includes("default"))).toHaveLength(1);
    disposables.dispose();
  });

  it("asks for a delegator if there is no default, and preselects it the next time", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/start", (params) => {
      if (!params.delegator) throw noDefault("ghostwriter", "local-coder");
      return result("understudy/delegations/start", "delegations-start.valid");
    });
    host.answers.push({ pick: "who:local-coder" }, { pick: "who:local-coder" });
    await host.commands.run("understudy.delegate.tests");
    await host.commands.run("understudy.delegate.tests");
    expect(host.messages.filter(({ level }) => level !== "info")).toEqual([]);
    expect(host.shown.map(({ title, items }) => [title, ...items.map(({ id }) => id)])).toEqual([
      ["Delegate", "who:ghostwriter", "who:local-coder", "add", "default"],
      ["Delegate", "who:local-coder", "who:ghostwriter", "add", "default"],
    ]);
    const wanted = { recipe: "tests", files: [FILE] };
    const chosen = { ...wanted, delegator: "local-coder" };
    expect(started(peer)).toEqual([wanted, chosen, wanted, chosen]);
    disposables.dispose();
  });

  it("asks for a delegator in the preview, too, and shows that the user chose it", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/preview", (params) => {
      if (!params.delegator) throw noDefault("ghostwriter", "local-coder");
      return PREVIEW;
    });
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "who:local-coder" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown.at(-1)?.items[0]?.detail).toBe("You chose this delegator.");
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "local-coder" }]);
    disposables.dispose();
  });

  it("starts several delegators on the same request, to compare them", async () => {
    const { host, peer, disposables } = await app();
    const { group, explanations } = result("understudy/groups/start", "groups-start.valid");
    peer.answer("understudy/groups/start", { group, explanations });
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "several" }, { pick: ["ghostwriter", "local-coder"] });
    await host.commands.run("understudy.delegate");
    expect(peer.params("understudy/groups/start")).toMatchObject([
      {
        kind: "compare",
        tasks: [
          { recipe: "tests", files: [FILE], delegator: "ghostwriter" },
          { recipe: "tests", files: [FILE], delegator: "local-coder" },
        ],
      },
    ]);
    expect(started(peer)).toEqual([]);
    disposables.dispose();
  });

  it("offers Add Delegator if no delegator can do it, and continues with the new one", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/preview", (params) => {
      if (!params.delegator) throw noDefault();
      return PREVIEW;
    });
    host.handlers.set("understudy.delegators.add", () => Promise.resolve("fresh"));
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "add" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown.at(-2)?.items.map(({ id, label }) => [id, label])).toEqual([["add", "Add Delegator…"]]);
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "fresh" }]);
    disposables.dispose();
  });

  it("starts nothing when cancelled, and shows what prevents a start", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/preview", () => {
      throw refusal("delegations-start.tool-missing");
    });
    host.answers.push({ pick: "tests" }, { enter: "" }, { cancel: true });
    await host.commands.run("understudy.delegate");
    const { message } = golden("delegations-start.tool-missing").expect?.error?.data ?? {};
    expect(host.shown.at(-1)?.items.map(({ id, label }) => [id, label])).toEqual([
      ["wrong", message],
      ["another", "Choose Another Delegator…"],
    ]);
    expect(started(peer)).toEqual([]);
    disposables.dispose();
  });

  it("uses the recipes for selections, and asks for instructions where needed", async () => {
    const { host, peer, disposables } = await app();
    host.active = { uri: FILE, selection: RANGE, selectionEmpty: false };
    host.answers.push({ pick: "ask" }, { enter: " " }, { enter: "Why twice?" }, { pick: "go" });
    await host.commands.run("understudy.delegate.selection", FILE);
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual(["ask"]);
    expect(host.messages).toEqual([{ level: "validation", text: "Describe the task." }]);
    expect(started(peer)).toEqual([{ recipe: "ask", files: [FILE], range: RANGE, task: "Why twice?" }]);
    disposables.dispose();
  });

  it("uses the problems at the cursor, otherwise all of the file, and ignores its own", async () => {
    const { host, peer, disposables } = await app();
    const at = (line: number) => ({ start: { line, character: 1 }, end: { line, character: 5 } });
    const problem = (line: number, source: string) =>
      ({ range: at(line), severity: "warning", message: `m${line}`, source }) as const;
    host.found.set(FILE, [problem(3, "ruff"), problem(9, "ruff"), problem(3, "understudy")]);
    host.answers.push({ pick: "polish" }, { pick: "go" });
    await host.commands.run("understudy.delegate.diagnostics");
    host.active = undefined;
    host.answers.push({ pick: "polish" }, { pick: "go" });
    await host.commands.run("understudy.delegate.diagnostics", FILE);
    const plain = (line: number) => ({ range: at(line), severity: 2, message: `m${line}`, source: "ruff" });
    expect(started(peer)).toEqual([
      { recipe: "polish", files: [FILE], range: at(3), diagnostics: [plain(3)] },
      {
        recipe: "polish",
        files: [FILE],
        range: { start: at(3).start, end: at(9).end },
        diagnostics: [plain(3), plain(9)],
      },
    ]);
    host.found.clear();
    await host.commands.run("understudy.delegate.diagnostics", FILE);
    expect(host.messages.map(({ text }) => text)).toContain("There are no problems in this file.");
    disposables.dispose();
  });

  it("lists the user's own recipes first", async () => {
    const { host, disposables } = await app();
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.delegate.recipe", FILE);
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual([
      "separator:own",
      "polish",
      "separator:builtin",
      "tests",
      "ask",
    ]);
    disposables.dispose();
  });

  it("starts code actions of the sidecar itself, so that their results are reported", async () => {
    const { peer, host, made, disposables } = await app();
    const params = { recipe: "tests", files: [FILE], workspace: "file:///home/ada/greeting" };
    const { id } = result("understudy/delegations/start", "delegations-start.valid");
    expect(await made.interceptors.get("understudy/delegations/start")?.([params])).toBe(id);
    expect(started(peer)).toEqual([params]);
    expect(host.kept.get("delegations.started")).toBeDefined();
    peer.answer("understudy/delegations/start", () => {
      throw refusal("delegations-start.tool-missing");
    });
    expect(await made.interceptors.get("understudy/delegations/start")?.([params])).toBe("");
    expect(host.messages.map(({ level }) => level)).toContain("error");
    disposables.dispose();
  });

  it("asks itself for what a code action leaves open: the delegator, or everything", async () => {
    const { peer, host, made, disposables } = await app();
    const choose = made.interceptors.get("understudy-delegate/choose");
    const done = result("understudy/delegations/start", "delegations-start.valid");
    peer.answer("understudy/delegations/start", ({ delegator }) => {
      if (!delegator) throw noDefault("ghostwriter", "local-coder");
      return done;
    });
    host.answers.push({ pick: "who:local-coder" });
    expect(await choose?.([{ recipe: "tests", files: [FILE] }])).toBe(done.id);
    expect(started(peer).at(-1)).toMatchObject({ recipe: "tests", delegator: "local-coder" });
    host.answers.push({ cancel: true });
    expect(await choose?.([{ files: [FILE], diagnostics: [] }])).toBe("");
    expect(host.shown.at(-1)?.placeholder).toContain("What should be done with");
    disposables.dispose();
  });

  it("offers the trust that is missing in an untrusted workspace", async () => {
    const { host, peer, disposables, made } = await app();
    const { interceptors } = made;
    peer.answer("understudy/delegations/start", () => {
      throw refusal("delegations-start.untrusted");
    });
    const refused = (): Promise<unknown> => host.commands.run("understudy.delegate.tests", FILE);
    const repair = { command: "understudy.trust", asks: true };
    await expect(refused()).rejects.toMatchObject({ hint: undefined, repair });
    host.trusted = false;
    const params = { recipe: "tests", files: [FILE] };
    expect(await interceptors.get("understudy/delegations/start")?.([params])).toBe("");
    // The question says what is missing; no message says it, too.
    expect(host.messages.map(({ level, text }) => `${level} ${text}`)).toEqual([
      "warning This window is in Restricted Mode, so Understudy runs nothing here.",
    ]);
    disposables.dispose();
  });

  it("starts what was refused as soon as the workspace is trusted", async () => {
    const { host, peer, disposables, made } = await app();
    let asked = 0;
    const started = result("understudy/delegations/start", "delegations-start.valid");
    peer.answer("understudy/delegations/start", () => {
      asked += 1;
      if (asked === 1) throw refusal("delegations-start.untrusted");
      return started;
    });
    const params = { recipe: "tests", files: [FILE] };
    expect(await made.interceptors.get("understudy/delegations/start")?.([params])).toBe(started.id);
    expect(asked).toBe(2);
    expect(host.messages).toEqual([]);
    disposables.dispose();
  });

  it("asks for a file if the recipe needs one and no editor shows one", async () => {
    const { host, peer, disposables } = await app();
    host.active = undefined;
    const [folder] = host.workspace.folders;
    const other = `${folder!.uri}/greeting/other.py`;
    host.tabs = [other, FILE, "file:///elsewhere/third.py"];
    host.answers.push({ pick: FILE }, { pick: "go" });
    await host.commands.run("understudy.delegate.tests");
    expect(host.shown.at(-2)?.items.map(({ id, label, description }) => [id, label, description])).toEqual([
      [other, "other.py", "greeting"],
      [FILE, "wrapping.py", "greeting"],
      ["files:choose", "Choose Files…", undefined],
    ]);
    expect(started(peer).at(-1)).toMatchObject({ recipe: "tests", files: [FILE] });

    host.tabs = [];
    host.pickedFiles = [other, FILE];
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "go" }, { pick: "all" });
    await host.commands.run("understudy.delegate");
    expect(started(peer).at(-1)).toMatchObject({ recipe: "tests", files: [other, FILE] });
    disposables.dispose();
  });

  it("explains that it needs a file", async () => {
    const { host, peer, disposables } = await app();
    host.active = { uri: "untitled:Untitled-1", selection: RANGE, selectionEmpty: true };
    await host.commands.run("understudy.summarize");
    expect(host.messages.at(-1)?.text).toContain("Open a file on disk first");
    expect(started(peer)).toEqual([]);
    disposables.dispose();
  });
});

describe("options for one delegation", () => {
  const TOOLS = result("understudy/tools/list", "tools-list.valid");
  const CLAUDE = { name: "careful", tool: "claude", model: "sonnet", launch: { permissionMode: "plan" } };

  /** The default is `name`; the sidecar refuses the model "wrong", and every start that is not a preview works. */
  async function choosing(name: string) {
    const made = await app();
    const [first] = DELEGATORS.delegators;
    made.peer
      .answer("understudy/tools/list", TOOLS)
      .answer("understudy/modelServers/models", result("understudy/modelServers/models", "modelServers-models.valid"))
      .answer("understudy/delegators/list", {
        ...DELEGATORS,
        delegators: [...DELEGATORS.delegators, { ...first!, delegator: CLAUDE }],
      })
      .answer("understudy/delegations/preview", ({ launch, delegator }) => {
        if (launch?.model === "wrong") {
          throw new SidecarError({
            kind: "invalid_params",
            message: "`model` is wrong.",
            hint: "Choose another.",
            parameter: "launch.model",
          });
        }
        return { ...PREVIEW, explain: { ...PREVIEW.explain, delegator: delegator ?? name } };
      });
    await made.made.store.refresh(["delegators"]);
    return made;
  }
  const rows = (host: FakeHost, at = -1): string[] =>
    host.shown.at(at)!.items.map(({ icon = "", label, description = "" }) => `${icon} ${label} | ${description}`);

  it("lists what the tool has, and starts with what was changed", async () => {
    const { host, peer, disposables } = await choosing("careful");
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "options" });
    host.answers.push({ pick: "launch.permissionMode" }, { pick: "value:acceptEdits" });
    host.answers.push(
      { pick: "delegator.model" },
      { enter: "wrong" },
      { enter: "opus" },
      { pick: "done" },
      { pick: "go" },
    );
    await host.commands.run("understudy.delegate");
    expect(host.messages).toEqual([{ level: "validation", text: "`model` is wrong. Choose another." }]);
    expect(rows(host, 3)).toEqual([
      "check Done | ",
      "  | ",
      "circle-outline Model | sonnet",
      "circle-outline Permissions | Plan only",
    ]);
    expect(rows(host, -2)).toEqual([
      "check Done | ",
      "discard Undo All Changes | ",
      "  | ",
      "edit Model | opus instead of sonnet",
      "edit Permissions | Edit files instead of Plan only",
    ]);
    expect(rows(host)[0]).toBe("rocket Delegate to careful | prompt of about 412 tokens");
    expect(host.shown.at(-1)?.items[0]?.detail).toBe("It is the default for this recipe.");
    expect(rows(host)).toContain("settings Change Options for This Delegation… | Model: opus, Permissions: Edit files");
    const launch = { model: "opus", permissionMode: "acceptEdits" };
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "careful", launch }]);
    disposables.dispose();
  });

  it("lets the user choose an agent, with its tier, and starts with it", async () => {
    const { host, peer, disposables } = await choosing("careful");
    peer.answer("understudy/agents/list", result("understudy/agents/list", "agents-list.valid"));
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "options" });
    host.answers.push({ pick: "start.agent" }, { pick: "value:reviewer" }, { pick: "done" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    const choices = host.shown.find(({ items }) => items.some(({ id }) => id === "value:reviewer"))?.items;
    expect(choices?.find(({ id }) => id === "value:reviewer")?.label).toBe("reviewer (workspace)");
    expect(choices?.find(({ id }) => id === "value:reviewer")?.detail).toBe("Reviews changes for mistakes.");
    expect(rows(host)).toContain("settings Change Options for This Delegation… | Agent: reviewer (workspace)");
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "careful", agent: "reviewer" }]);
    disposables.dispose();
  });

  it("offers the models of the model server, shows why one is refused, and takes a number as one", async () => {
    const { host, peer, disposables } = await choosing("local-coder");
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "options" }, { pick: "delegator.model" });
    host.answers.push({ pick: "typed", typed: "wrong" }, { pick: "value:large-1" });
    host.answers.push({ pick: "modelProperties.temperature" }, { enter: "hot" }, { enter: "0.7" }, { pick: "done" });
    host.answers.push({ pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(rows(host, 4)).toEqual([
      "circle-outline As Configured | qwen2.5-coder:7b",
      " qwen2.5-coder:7b | ",
      " large-1 | ",
    ]);
    expect(rows(host, 5)[0]).toBe("error `model` is wrong. | ");
    expect(host.messages).toEqual([{ level: "validation", text: "Enter a number." }]);
    expect(started(peer)).toMatchObject([{ launch: { model: "large-1", modelProperties: { temperature: 0.7 } } }]);
    disposables.dispose();
  });

  it("forgets the options with the delegator, and offers none for a tool that has none", async () => {
    const { host, peer, disposables } = await choosing("careful");
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "options" });
    host.answers.push({ pick: "delegator.model" }, { enter: "opus" }, { pick: "reset" }, { back: true });
    host.answers.push({ pick: "options" }, { pick: "delegator.model" }, { enter: "opus" }, { cancel: true });
    host.answers.push({ pick: "another" }, { pick: "who:ghostwriter" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(rows(host).some((row) => row.startsWith("settings"))).toBe(false);
    expect(
      peer.params("understudy/delegations/preview").filter((one) => (one as { launch?: object }).launch),
    ).not.toEqual([]);
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "ghostwriter" }]);
    disposables.dispose();
  });
});

describe("retry with options", () => {
  it("changes them for one delegator only", async () => {
    const { host, peer, disposables } = await app();
    const row = delegationRowId(DONE.id);
    peer
      .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
      .answer("understudy/modelServers/models", result("understudy/modelServers/models", "modelServers-models.valid"))
      .answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.delegations.retryWith", row);
    expect(host.shown.at(-1)?.items[0]).toMatchObject({ id: DONE.delegator, description: "same delegator" });
    expect(host.shown.at(-1)?.active).toBe(host.shown.at(-1)?.items[1]?.id);
    const whose = [{ pick: " options" }, { pick: "local-coder" }] as const;
    const change = [{ pick: "delegator.model" }, { pick: "value:large-1" }, { pick: "done" }] as const;
    host.answers.push(...whose, ...change, { pick: "local-coder" });
    await host.commands.run("understudy.delegations.retryWith", row);
    const item = host.shown.at(-1)?.items.find(({ id }) => id === "local-coder");
    expect(item).toMatchObject({ detail: "Model: large-1" });
    host.answers.push(...whose, ...change, { pick: DONE.delegator });
    await host.commands.run("understudy.delegations.retryWith", row);
    host.answers.push(...whose, { back: true }, { pick: " options" }, { back: true }, { cancel: true });
    await host.commands.run("understudy.delegations.retryWith", row);
    expect(peer.params("understudy/delegations/retry")).toEqual([
      { id: DONE.id, delegator: "local-coder", launch: { model: "large-1" } },
      { id: DONE.id, delegator: DONE.delegator },
    ]);
    disposables.dispose();
  });
});

describe("commands on a delegation", () => {
  const row = delegationRowId(DONE.id);

  it("offer another delegator instead of a reply to one that follows no instructions", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    for (const name of ["reply", "strengthen"]) {
      host.buttons.push("Retry with…");
      host.answers.push({ pick: "local-coder" });
      await host.commands.run(`understudy.delegations.${name}`, row);
      expect(host.messages.at(-1)?.text).toMatch(/^ghostwriter works without a model/);
      expect(peer.params("understudy/delegations/retry").at(-1)).toEqual({ id: DONE.id, delegator: "local-coder" });
      expect(peer.params(`understudy/delegations/${name as "reply"}`)).toEqual([]);
    }
    disposables.dispose();
  });

  it("reply, strengthen, retry with a chosen delegator, and follow the new delegation", async () => {
    const { host, peer, disposables } = await app({ ...DONE, delegator: "quick" });
    peer.answer("understudy/delegations/reply", { id: "20261121-020000-aaaaa" });
    peer.answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    peer.answer("understudy/delegations/strengthen", { id: "20261121-020000-ccccc" });
    peer.answer("understudy/delegations/dismissRun", {});
    host.answers.push({ enter: "" }, { enter: "Shorter." }, { pick: "local-coder" });
    await host.commands.run("understudy.delegations.reply", row);
    await host.commands.run("understudy.delegations.retryWith", row);
    await host.commands.run("understudy.delegations.retry", row);
    await host.commands.run("understudy.delegations.dismiss", row);
    host.buttons.push("Strengthen Tests");
    await host.commands.run("understudy.delegations.strengthen", row);
    expect(peer.params("understudy/delegations/strengthen")).toEqual([{ id: DONE.id }]);
    expect(peer.params("understudy/delegations/reply")).toEqual([{ id: DONE.id, text: "Shorter." }]);
    expect(peer.params("understudy/delegations/retry")).toEqual([
      { id: DONE.id, delegator: "local-coder" },
      { id: DONE.id },
    ]);
    expect(peer.params("understudy/delegations/dismissRun")).toEqual([{ id: DONE.id }]);
    expect(peer.params("understudy/delegations/get").length).toBeGreaterThan(0);
    disposables.dispose();
  });

  it("also try other delegators, which then are compared", async () => {
    const { host, peer, disposables } = await app({ ...DONE, delegator: "ghostwriter" });
    peer.answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    host.answers.push({ pick: ["local-coder"] }, { cancel: true });
    await host.commands.run("understudy.delegations.alsoTry", row);
    await host.commands.run("understudy.delegations.alsoTry", row);
    expect(host.shown.at(-1)?.items.map(({ id }) => id)).not.toContain("ghostwriter");
    expect(peer.params("understudy/delegations/retry")).toEqual([
      { id: DONE.id, delegator: "local-coder", compare: true },
    ]);
    await host.commands.run("understudy.delegations.compare", "batch:20261121-004510-0q3q6");
    expect(host.ran.at(-1)).toEqual({ id: "understudy.review.compare", values: ["20261121-004510-0q3q6"] });
    expect(host.panels.at(-1)?.title).toBe("Compare Results");
    disposables.dispose();
  });

  it("retry with a delegator that is added for it", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    const added = [undefined, "fresh"]; // the first time, it is cancelled
    host.handlers.set("understudy.delegators.add", () => Promise.resolve(added.shift()));
    host.answers.push({ pick: " add" }, { pick: " add" });
    await host.commands.run("understudy.delegations.retryWith", row);
    expect(host.shown.at(-1)?.items.map(({ label }) => label)).toContain("Add Delegator…");
    expect(peer.params("understudy/delegations/retry")).toEqual([{ id: DONE.id, delegator: "fresh" }]);
    disposables.dispose();
  });

  it("discard all selected rows that can be discarded, after one confirmation", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/discard", { rescueRef: "refs/rescue/1" });
    peer.answer("understudy/delegations/get", { ...DONE, rescueRef: "refs/rescue/1", lastSeq: 22 });
    host.buttons.push("Discard");
    const rows = ["group:done", row, delegationRowId("20261121-020000-aaaaa")];
    await host.commands.run("understudy.delegations.discard", row, rows);
    expect(peer.params("understudy/delegations/discard")).toEqual([{ id: DONE.id }]);
    expect(host.messages.map(({ text }) => text).slice(1)).toEqual(["Result discarded."]);
    disposables.dispose();
  });

  it("discard after a confirmation, and restore", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/discard", { rescueRef: "refs/rescue/1" });
    peer.answer("understudy/worktrees/restore", { path: "/x" });
    peer.answer("understudy/delegations/get", { ...DONE, rescueRef: "refs/rescue/1", lastSeq: 22 });
    await host.commands.run("understudy.delegations.discard", row);
    expect(peer.params("understudy/delegations/discard")).toEqual([]);
    host.buttons.push("Discard");
    await host.commands.run("understudy.delegations.discard", row);
    expect(peer.params("understudy/delegations/discard")).toEqual([{ id: DONE.id }]);
    await host.commands.run("understudy.delegations.restore", row);
    expect(peer.params("understudy/worktrees/restore")).toEqual([{ rescueRef: "refs/rescue/1" }]);
    host.buttons.push("Discard", "Restore");
    await host.commands.run("understudy.delegations.discard", row);
    await vi.waitFor(() => expect(peer.params("understudy/worktrees/restore")).toHaveLength(2));
    disposables.dispose();
  });

  it("show a question with all its details, and permanent answers last", async () => {
    const { host, peer, disposables } = await app();
    const detail = `Remove it\n${"word ".repeat(60)}`;
    const options = [
      { id: "aa", title: "Always", kind: "allow_always" as const },
      { id: "a", title: "Allow once", kind: "allow_once" as const },
      { id: "r", title: "Reject", kind: "reject_once" as const },
    ];
    const rule = { decision: "allow" as const, kind: "execute" as const, command: "npm test" };
    const waitingFor = {
      requestId: "7",
      attempt: 1,
      title: "Run a command",
      detail,
      options,
      deadlineAction: "r",
      rule,
    };
    peer.answer("understudy/delegations/get", { ...DONE, state: "waiting", waitingFor, lastSeq: 30 });
    peer.answer("understudy/delegations/answer", {});
    const { id: other } = { id: "20261121-030000-ccccc" };
    host.answers.push({ pick: "a" });
    peer.answer("understudy/delegations/get", { ...DONE, id: other, state: "waiting", waitingFor });
    await host.commands.run("understudy.delegations.answer", other);
    const ids = host.shown[0]?.items.map(({ id }) => id) ?? [];
    expect(ids.slice(0, 6)).toEqual(["a", "r", "line:always", "aa", "remember", "line:detail"]);
    expect(
      host.shown[0]?.items
        .filter(({ id }) => id.startsWith("detail:"))
        .map(({ label }) => label)
        .join(" "),
    ).toBe(detail.replace("\n", " ").trim());
    host.answers.push({ pick: "remember" });
    await host.commands.run("understudy.delegations.answer", other);
    expect(host.shown[1]?.items.find(({ id }) => id === "remember")?.label).toBe("Always Allow “npm test …”");
    expect(peer.params("understudy/delegations/answer")).toEqual([
      { id: other, requestId: "7", option: "a" },
      { id: other, requestId: "7", option: "a", remember: true },
    ]);
    disposables.dispose();
  });

  it("count what needs the user in the badge of the view", async () => {
    const { host, disposables } = await app();
    expect(host.badges.at(-1)).toEqual([1, "1 to review"]);
    disposables.dispose();
  });

  it("show errors of the sidecar", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/delegations/cancel", () => {
      throw new SidecarError({ kind: "unknown_delegation", message: "There is no such delegation." });
    });
    await expect(host.commands.run("understudy.delegations.cancel", row)).rejects.toThrow("no such delegation");
    disposables.dispose();
  });
});
