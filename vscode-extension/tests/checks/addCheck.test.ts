import { beforeEach, describe, expect, it } from "vitest";
import type { App } from "../../src/appContext.ts";
import { addCheck, checkCommand, outcomeText } from "../../src/checks/addCheck.ts";
import { registerChecks } from "../../src/checks/registerChecks.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { CheckTrial } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

let host: FakeHost;
let peer: GoldenSidecar;
const passing = result("understudy/checks/test", "checks-test.unsaved");
const failing: CheckTrial = { ...passing, ok: false, exitCode: 1, failed: 2, outputTail: "E  assert 1 == 2\n" };

const add = () => addCheck({ host, requester: peer }, { uri: "file:///p", path: "/p", name: "p" });

beforeEach(() => {
  host = new FakeHost();
  peer = new GoldenSidecar()
    .answer("understudy/checks/list", result("understudy/checks/list", "checks-list.valid"))
    .answer("understudy/checks/test", passing)
    .answer("understudy/checks/create", ({ check, scope }) => ({
      ...result("understudy/checks/create", "checks-create.valid"),
      check,
      scope: scope ?? "workspace",
    }));
});

describe("Add Check", () => {
  it("proposes what was found, runs it, shows the outcome and saves it", async () => {
    host.answers.push({ pick: "0" }, { pick: "file:///p" });
    const made = await add();
    expect(made?.check.name).toBe("pytest");
    expect(host.shown[0]?.items[0]).toMatchObject({
      label: "pytest",
      description: "{python} -m pytest",
      detail: "Found in pyproject.toml",
    });
    expect(host.shown[1]?.title).toBe("pytest passes: 12 passed · 1 skipped · 1.3 s");
    expect(peer.params("understudy/checks/test")).toEqual([
      { name: "pytest", check: made?.check, workspace: "file:///p" },
    ]);
    expect(peer.params("understudy/checks/create")).toEqual([
      { check: made?.check, scope: "workspace", workspace: "file:///p" },
    ]);
  });

  it("takes a command, corrected after a failure", async () => {
    host.answers.push(
      { pick: "custom" },
      { enter: "npm test && ls" },
      { enter: "npm test" },
      { enter: "npm 'run it'" },
    );
    host.answers.push({ pick: "user" });
    host.buttons.push("Edit Command");
    peer.answer("understudy/checks/test", ({ check }) => (check?.argv[1] === "test" ? failing : passing));
    await add();
    expect(host.messages.map(({ level }) => level)).toEqual(["validation", "warning"]);
    expect(host.messages[1]?.text).toContain("2 failed");
    expect(host.messages[1]?.detail).toBe("E  assert 1 == 2");
    expect(peer.params("understudy/checks/create")).toEqual([
      { check: { name: "npm", argv: ["npm", "run it"] }, scope: "user", workspace: "file:///p" },
    ]);
  });

  it("saves nothing when the failure is only looked at, or the workspace is not trusted", async () => {
    peer.answer("understudy/checks/test", failing);
    host.answers.push({ pick: "0" });
    host.buttons.push("Show Output");
    expect(await add()).toBeUndefined();
    expect(host.texts[0]).toContain("assert 1 == 2");
    peer.answer("understudy/checks/test", () => {
      throw new SidecarError({ kind: "untrusted_workspace", message: "Not trusted." });
    });
    host.answers.push({ pick: "0" });
    await expect(add()).rejects.toMatchObject({ kind: "untrusted_workspace" });
    expect(peer.params("understudy/checks/create")).toEqual([]);
  });

  it("does first what a check needs, and tries again what failed without it", async () => {
    const remedy = { kind: "link_folders" as const, paths: ["node_modules"] };
    const found = result("understudy/checks/list", "checks-list.valid");
    const [first] = found.proposals;
    const proposals = [{ ...first!, problem: "Worktrees have no node_modules.", hint: "Set link in x.toml.", remedy }];
    peer.answer("understudy/checks/list", { ...found, proposals });
    host.handlers.set("understudy.remedy", () => true);
    let tries = 0;
    peer.answer("understudy/checks/test", () => ((tries += 1) === 1 ? { ...failing, remedy } : passing));
    host.answers.push({ pick: "0" }, { pick: "file:///p" });
    host.buttons.push("Link node_modules", "Link node_modules");
    expect(await add()).toBeDefined();
    expect(host.shown[0]?.items[0]?.detail).toBe("Worktrees have no node_modules. Asks to do this: Link node_modules.");
    expect(host.ran).toEqual([0, 1].map(() => ({ id: "understudy.remedy", values: [remedy, "/p"] })));
    expect(tries).toBe(2);
    host.answers.push({ pick: "0" });
    expect(await add(), "declined").toBeUndefined();
    expect(tries).toBe(2);
  });

  it("refuses unknown slots and shell syntax while typing", () => {
    expect(checkCommand("{pyton} -m pytest")).toContain("{python}");
    expect(checkCommand("a | b")).toContain("script");
    expect(checkCommand("'a")).toBeDefined();
    expect(checkCommand(" ")).toBeDefined();
    expect(checkCommand('{python} -m pytest {tests} -k "a and b"')).toBeUndefined();
  });

  it("summarizes an outcome", () => {
    expect(outcomeText({ ...failing, timedOut: true })).toBe("not finished after 1.3 s");
    const unstarted = { ...failing };
    delete unstarted.exitCode;
    expect(outcomeText(unstarted)).toBe("it could not be started");
  });
});

describe("Run My Checks on the Working Copy", () => {
  const delegation = { ...result("understudy/delegations/get", "delegations-get.valid"), workspace: "/p" };
  const run = async (): Promise<void> => {
    const store = { delegation: () => delegation };
    const commands = registerChecks({ host, sidecar: peer, store } as unknown as App);
    await host.commands.run("understudy.checks.run", delegation.id);
    commands.dispose();
  };

  it("runs every configured check, says the counts, and offers to commit only if all pass", async () => {
    const listed = result("understudy/checks/list", "checks-list.valid");
    const entry = result("understudy/checks/create", "checks-create.valid");
    const lint = { ...entry, check: { ...entry.check, name: "lint" } };
    peer.answer("understudy/checks/list", { ...listed, checks: [entry, lint] });
    const committed: unknown[] = [];
    host.commands.register("understudy.review.commit", (id) => void committed.push(id));
    host.buttons.push("Commit…");
    await run();
    expect(peer.params("understudy/checks/test")).toEqual([
      { name: entry.check.name, workspace: "file:///p" },
      { name: "lint", workspace: "file:///p" },
    ]);
    expect(host.messages.at(-1)).toMatchObject({ level: "info" });
    expect(host.messages.at(-1)?.text).toMatch(
      /^Your working copy: .* passes \(12 passed .*\), lint passes \(12 passed/u,
    );
    expect(committed).toEqual([delegation.id]);

    peer.answer("understudy/checks/test", ({ name }) => (name === "lint" ? failing : passing));
    host.buttons.push("Show Output");
    await run();
    expect(host.messages.at(-1)).toMatchObject({ level: "warning" });
    expect(host.messages.at(-1)?.text).toContain("lint fails (2 failed");
    expect(host.texts.at(-1)).toContain("assert 1 == 2");
    expect(committed).toHaveLength(1);
  });

  it("runs what the project suggests if nothing is configured", async () => {
    peer.answer("understudy/checks/list", { ...result("understudy/checks/list", "checks-list.valid"), checks: [] });
    await run();
    expect(peer.params("understudy/checks/test")).toMatchObject([{ name: "pytest", check: { name: "pytest" } }]);
  });
});
