import { describe, expect, it, vi } from "vitest";
import { createApp, type App } from "../src/app.ts";
import { Bag } from "../src/base/emitter.ts";
import { SidecarError } from "../src/client/wire.ts";
import type { Recipe } from "../src/protocol.ts";
import { rowOfDelegation } from "../src/views/delegationIds.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { golden, GoldenSidecar, inProcess, refusal, result } from "./support/golden.ts";

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
  fits: { on: ["file", "diagnostic"] },
  scope: "user",
};

async function app(): Promise<{ host: FakeHost; peer: GoldenSidecar; made: App; bag: Bag }> {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", DELEGATORS)
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [...RECIPES.recipes, OWN], problems: [] })
    .answer("understudy/delegations/list", { delegations: [DONE] })
    .answer("understudy/delegations/get", DONE)
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/preview", PREVIEW)
    .answer("understudy/delegations/start", result("understudy/delegations/start", "delegations-start.valid"))
    .answer("understudy/workspace/trust", { trusted: true, allows: [], changed: [], seen: "1" });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  host.active = { uri: FILE, language: "python", selection: RANGE, selectionEmpty: true };
  const bag = new Bag();
  const made = createApp({ host, connect: inProcess(peer) }, bag);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  return { host, peer, made, bag };
}

/** What the sidecar says where several could do it, or, without names, nobody can. */
const nobody = (...names: string[]): SidecarError =>
  new SidecarError({
    kind: "unknown_delegator",
    message: "Nobody is the default.",
    ...(names.length > 0 ? { names } : {}),
  });

const started = (peer: GoldenSidecar): unknown[] =>
  peer.params("understudy/delegations/start").map((params) => {
    const { idempotencyKey, ...rest } = params as { idempotencyKey: string };
    expect(idempotencyKey).toMatch(/^[0-9a-f-]{36}$/);
    return rest;
  });

describe("delegate", () => {
  it("starts tests at once from a menu, for one file or for all that are selected", async () => {
    const { host, peer, bag } = await app();
    await host.commands.run("understudy.delegate.tests", FILE);
    await host.commands.run("understudy.delegate.tests", FILE, [FILE, `${FILE}x`]);
    await host.commands.run("understudy.delegate.tests");
    expect(started(peer)).toEqual([
      { recipe: "tests", files: [FILE] },
      { recipe: "tests", files: [FILE, `${FILE}x`] },
      { recipe: "tests", files: [FILE] },
    ]);
    expect(host.shown).toEqual([]);
    bag.dispose();
  });

  it("shows before the start what is sent, by whom and why; nothing is sent until then", async () => {
    const { host, peer, bag } = await app();
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
      "rocket Delegate to ghostwriter | about 412 tokens | Nothing else is configured, and it offers this recipe.",
      "eye Show Exactly What Is Sent |  | ",
      "person Choose Another Delegator… |  | ",
      "- 1 file goes along |  | ",
      "file greeting/wrapping.py | about 203 tokens | ",
      "lock .env | held back: its name is that of a file with secrets | ",
    ]);
    // To read only: nobody is asked later whether to save it.
    const shown = host.opened.at(-1)?.uri ?? "";
    expect(shown).toMatch(/^understudy-prompt:\/tests\//);
    expect(host.provided.get("understudy-prompt")?.text(shown)).toBe(PREVIEW.prompt);
    const wanted = { recipe: "tests", files: [FILE], task: "Mind the edges." };
    expect(peer.params("understudy/delegations/preview")).toEqual([wanted, wanted]);
    expect(started(peer)).toEqual([wanted]);
    bag.dispose();
  });

  it("writes a new file into the innermost folder that holds what it is about", async () => {
    const { host, peer, bag } = await app();
    host.folders.push({
      uri: "file:///home/ada/greeting/greeting",
      path: "/home/ada/greeting/greeting",
      name: "inner",
    });
    peer.answer("understudy/recipes/list", { recipes: [{ ...OWN, name: "write", returns: "file" }], problems: [] });
    host.answers.push({ pick: "write" }, { enter: "A table." }, { enter: "a b.md" }, { pick: "go" });
    await host.commands.run("understudy.delegate", FILE);
    expect(started(peer)).toMatchObject([{ target: "file:///home/ada/greeting/greeting/a%20b.md" }]);
    bag.dispose();
  });

  it("lets the person take another delegator, and go back", async () => {
    const { host, peer, bag } = await app();
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
    bag.dispose();
  });

  it("asks who does it where nobody is the default, and puts that one first the next time", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/start", (params) => {
      if (!params.delegator) throw nobody("ghostwriter", "local-coder");
      return result("understudy/delegations/start", "delegations-start.valid");
    });
    host.answers.push({ pick: "who:local-coder" }, { pick: "who:local-coder" });
    await host.commands.run("understudy.delegate.tests");
    await host.commands.run("understudy.delegate.tests");
    expect(host.messages.filter(({ level }) => level !== "info")).toEqual([]);
    expect(host.shown.map(({ title, items }) => [title, ...items.map(({ id }) => id)])).toEqual([
      ["Delegate", "who:ghostwriter", "who:local-coder", "add"],
      ["Delegate", "who:local-coder", "who:ghostwriter", "add"],
    ]);
    const wanted = { recipe: "tests", files: [FILE] };
    const chosen = { ...wanted, delegator: "local-coder" };
    expect(started(peer)).toEqual([wanted, chosen, wanted, chosen]);
    bag.dispose();
  });

  it("asks so in the preview, too, and says there that the person chose", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/preview", (params) => {
      if (!params.delegator) throw nobody("ghostwriter", "local-coder");
      return PREVIEW;
    });
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "who:local-coder" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown.at(-1)?.items[0]?.detail).toBe("You chose it.");
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "local-coder" }]);
    bag.dispose();
  });

  it("leads who has nobody for it to Add Delegator, and goes on with the new one", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/preview", (params) => {
      if (!params.delegator) throw nobody();
      return PREVIEW;
    });
    host.handlers.set("understudy.delegators.add", () => Promise.resolve("fresh"));
    host.answers.push({ pick: "tests" }, { enter: "" }, { pick: "add" }, { pick: "go" });
    await host.commands.run("understudy.delegate");
    expect(host.shown.at(-2)?.items.map(({ id, label }) => [id, label])).toEqual([["add", "Add a Delegator…"]]);
    expect(started(peer)).toEqual([{ recipe: "tests", files: [FILE], delegator: "fresh" }]);
    bag.dispose();
  });

  it("starts nothing when it is cancelled, and shows what is in the way", async () => {
    const { host, peer, bag } = await app();
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
    bag.dispose();
  });

  it("works on a selection with the recipes for one, and asks for words where they are needed", async () => {
    const { host, peer, bag } = await app();
    host.active = { uri: FILE, language: "python", selection: RANGE, selectionEmpty: false };
    host.answers.push({ pick: "ask" }, { enter: " " }, { enter: "Why twice?" }, { pick: "go" });
    await host.commands.run("understudy.delegate.selection", FILE);
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual(["ask"]);
    expect(host.messages).toEqual([{ level: "validation", text: "Say what you want." }]);
    expect(started(peer)).toEqual([{ recipe: "ask", files: [FILE], range: RANGE, task: "Why twice?" }]);
    bag.dispose();
  });

  it("takes the problems at the cursor, else all of the file, and none of its own", async () => {
    const { host, peer, bag } = await app();
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
    expect(host.messages.map(({ text }) => text)).toContain("There is no problem in this file.");
    bag.dispose();
  });

  it("lists a person's own recipes first", async () => {
    const { host, bag } = await app();
    host.answers.push({ cancel: true });
    await host.commands.run("understudy.delegate.recipe", FILE);
    expect(host.shown[0]?.items.map(({ id }) => id)).toEqual([
      "separator:own",
      "polish",
      "separator:builtin",
      "tests",
      "ask",
    ]);
    bag.dispose();
  });

  it("starts code actions of the sidecar itself, so that they end like all others", async () => {
    const { peer, host, made, bag } = await app();
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
    bag.dispose();
  });

  it("leads to the editor's trust where a workspace is not trusted", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/start", () => {
      throw refusal("delegations-start.untrusted");
    });
    host.buttons.push("Manage Workspace Trust");
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(host.ran.map(({ id }) => id)).toContain("workbench.trust.manage");
    bag.dispose();
  });

  it("says that there is nothing to delegate without a file", async () => {
    const { host, peer, bag } = await app();
    host.active = { uri: "untitled:Untitled-1", language: "python", selection: RANGE, selectionEmpty: true };
    await host.commands.run("understudy.delegate.tests");
    expect(host.messages.at(-1)?.text).toContain("Open a file on disk first");
    expect(started(peer)).toEqual([]);
    bag.dispose();
  });
});

describe("commands of a delegation", () => {
  const row = rowOfDelegation(DONE.id);

  it("replies, tries again with whom the person chooses, and follows what that starts", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/reply", { id: "20261121-020000-aaaaa" });
    peer.answer("understudy/delegations/retry", { id: "20261121-020000-bbbbb" });
    host.answers.push({ enter: "" }, { enter: "Shorter." }, { pick: "local-coder" });
    await host.commands.run("understudy.delegations.reply", row);
    await host.commands.run("understudy.delegations.retry", row);
    expect(peer.params("understudy/delegations/reply")).toEqual([{ id: DONE.id, text: "Shorter." }]);
    expect(peer.params("understudy/delegations/retry")).toEqual([{ id: DONE.id, delegator: "local-coder" }]);
    expect(peer.params("understudy/delegations/get").length).toBeGreaterThan(0);
    bag.dispose();
  });

  it("discards only after asking, and restores what was discarded", async () => {
    const { host, peer, bag } = await app();
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
    bag.dispose();
  });

  it("puts a question with all that it says, and what holds for ever last", async () => {
    const { host, peer, bag } = await app();
    const detail = `Remove it\n${"word ".repeat(60)}`;
    const options = [
      { id: "aa", title: "Always", kind: "allow_always" as const },
      { id: "a", title: "Allow once", kind: "allow_once" as const },
      { id: "r", title: "Reject", kind: "reject_once" as const },
    ];
    const waitingFor = { requestId: "7", attempt: 1, title: "Run a command", detail, options, onDeadline: "r" };
    peer.answer("understudy/delegations/get", { ...DONE, state: "waiting", waitingFor, lastSeq: 30 });
    peer.answer("understudy/delegations/answer", {});
    const { id: other } = { id: "20261121-030000-ccccc" };
    host.answers.push({ pick: "a" });
    peer.answer("understudy/delegations/get", { ...DONE, id: other, state: "waiting", waitingFor });
    await host.commands.run("understudy.delegations.answer", other);
    const ids = host.shown[0]?.items.map(({ id }) => id) ?? [];
    expect(ids.slice(0, 5)).toEqual(["a", "r", "line:always", "aa", "line:detail"]);
    expect(
      host.shown[0]?.items
        .filter(({ id }) => id.startsWith("detail:"))
        .map(({ label }) => label)
        .join(" "),
    ).toBe(detail.replace("\n", " ").trim());
    expect(peer.params("understudy/delegations/answer")).toEqual([{ id: other, requestId: "7", option: "a" }]);
    bag.dispose();
  });

  it("shows what went wrong in the sidecar's words", async () => {
    const { host, peer, bag } = await app();
    peer.answer("understudy/delegations/cancel", () => {
      throw new SidecarError({ kind: "unknown_delegation", message: "There is no such delegation." });
    });
    await expect(host.commands.run("understudy.delegations.cancel", row)).rejects.toThrow("no such delegation");
    bag.dispose();
  });
});
