import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { describe, expect, it, vi } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { createApp } from "../../src/app.ts";
import { canServeMcp } from "../../src/assistants/mcpServers.ts";
import { DisposableStore } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { Delegation } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, result } from "../support/golden.ts";

const GOT = result("understudy/delegations/get", "delegations-get.valid");
const REST = Object.fromEntries(
  Object.entries(GOT).filter(([name]) => name !== "error" && name !== "rescueRef"),
) as unknown as Delegation;
const RUNNING: Delegation = { ...REST, state: "running", activity: "Reading" };
const FINISHED: Delegation = {
  ...REST,
  state: "finished",
  verdict: "verified",
  reservations: [],
  review: { pending: 1, accepted: 0, rejected: 0 },
  result: { summary: "Wrote it.", files: [{ path: "a.py", status: "modified", additions: 2, deletions: 1 }] },
};
const never = new AbortController().signal;

async function tools() {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", result("understudy/delegators/list", "delegators-list.valid"))
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
    .answer("understudy/delegations/list", { delegations: [] })
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/start", { ...result("understudy/delegations/start", "delegations-start.valid"), id: RUNNING.id })
    .answer("understudy/delegations/get", RUNNING)
    .answer("understudy/delegations/wait", FINISHED)
    .answer("understudy/delegations/export", { patch: "diff --git a/a.py b/a.py\n" })
    .answer("understudy/text/preview", result("understudy/text/preview", "text-preview.valid"))
    .answer("understudy/text/run", result("understudy/text/run", "text-run.valid"))
    .answer("understudy/workspace/trust", { workspace: "/w", trusted: true, effects: [], changed: [], digest: "1" }); // prettier-ignore
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  const disposables = new DisposableStore();
  const made = createApp({ host, connect: inProcess(peer) }, disposables);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  const call = async (name: string, input: object = {}) => host.tools.get(name)?.run(input, never);
  return { host, peer, call, disposables };
}

describe("language-model tools", () => {
  it("are exactly those that package.json declares, and decide nothing", async () => {
    const { host, disposables } = await tools();
    const declared = manifest.contributes.languageModelTools;
    expect([...host.tools.keys()].sort()).toEqual(declared.map(({ name }) => name).sort());
    expect([...host.mcpSources.keys()]).toEqual(manifest.contributes.mcpServerDefinitionProviders.map(({ id }) => id));
    expect([...host.participants.keys()]).toEqual(manifest.contributes.chatParticipants.map(({ id }) => id));
    expect(JSON.stringify(declared)).not.toMatch(/accept_|decide/);
    disposables.dispose();
  });

  it("delegate and wait as an agent calls them", async () => {
    const { peer, call, disposables } = await tools();
    const begun = await call("understudy_start", { task: "Write it", files: ["src/a b.py"], recipe: "tests" });
    expect(peer.params("understudy/delegations/start")).toMatchObject([
      { recipe: "tests", task: "Write it", files: ["file:///home/ada/greeting/src/a%20b.py"] },
    ]);
    expect(begun).toContain(`Call understudy_wait with id "${RUNNING.id}"`);
    const done = await call("understudy_wait", { id: RUNNING.id });
    expect(peer.params("understudy/delegations/wait")).toEqual([{ id: RUNNING.id, timeoutSeconds: 45 }]);
    expect(done).toContain("Verified");
    expect(done).toContain("modified a.py (+2 -1)");
    expect(done).toContain("understudy_diff");
    expect(await call("understudy_show", { id: RUNNING.id })).toContain("Reading");
    expect(await call("understudy_diff", { id: RUNNING.id })).toContain("diff --git");
    expect(await call("understudy_list_delegators")).toContain("local-coder, ");
    expect(await call("understudy_ask", { question: "What is it?", files: ["a.py"] })).toContain(
      "It wraps long lines.",
    );
    disposables.dispose();
  });

  it("ask the user before they send anything, and show what as plain text", async () => {
    const { host, disposables } = await tools();
    const input = { task: "[x](command:evil)\n# Title", files: ["`a`.py"], delegator: "big" };
    for (const name of ["understudy_start", "understudy_ask"]) {
      const { question } = host.tools.get(name)?.describe({ ...input, question: input.task }) ?? {};
      expect(question?.text).toContain("command:evil");
      expect(question?.text).not.toMatch(/[^\\]\[x|\n# |[^\\]`/);
      expect(question?.text).toContain("Delegator: big");
    }
    for (const name of ["understudy_wait", "understudy_show", "understudy_diff", "understudy_list_delegators"]) {
      expect(host.tools.get(name)?.describe({ id: "x" }).question).toBeUndefined();
    }
    disposables.dispose();
  });

  it("shows every file that it would send, wherever it is", async () => {
    const { host, peer, call, disposables } = await tools();
    const files = [...new Array<string>(100).fill(""), `${"./".repeat(200)}../../.ssh/id_rsa`];
    for (const [name, words] of [["understudy_start", "task"], ["understudy_ask", "question"]] as const) {
      const input = { [words]: "x", files };
      const text = host.tools.get(name)?.describe(input).question?.text.replace(/\\/g, "");
      expect(text).toMatch(/^- \/\S*\.ssh\/id_rsa$/m);
      expect(text?.match(/^- /gm)).toHaveLength(1);
    }
    await call("understudy_start", { task: "x", files });
    const [sent] = peer.params("understudy/delegations/start") as { readonly files: string[] }[];
    expect(sent?.files).toHaveLength(1);
    disposables.dispose();
  }); // prettier-ignore

  it("report errors with what to do, and survive any input", async () => {
    const { host, peer, call, disposables } = await tools();
    peer.answer("understudy/delegations/wait", () => {
      throw new SidecarError({ kind: "unknown_delegation", message: "There is none.", hint: "See the list." });
    });
    await expect(call("understudy_wait", { id: "zzzzz" })).rejects.toThrow("There is none. See the list.");
    for (const [, tool] of host.tools) {
      for (const input of [undefined, null, 7, [], { id: 7, task: {}, files: "x", question: [] }]) {
        expect(() => tool.describe(input)).not.toThrow();
        await tool.run(input, never).catch((error: unknown) => expect(error).toBeInstanceOf(Error));
      }
    }
    expect(peer.params("understudy/delegations/start")).toEqual([]);
    disposables.dispose();
  });
});

describe("the MCP server", () => {
  it("is the engine that runs, in a trusted window", async () => {
    const { host, disposables } = await tools();
    const source = host.mcpSources.get("understudy.mcp");
    expect(await source?.servers()).toEqual([
      { label: "Understudy", command: process.execPath, args: ["mcp"], cwd: "/home/ada/greeting", version: "0.1.0" },
    ]);
    host.trusted = false;
    expect(await source?.servers()).toEqual([]);
    disposables.dispose();
  });

  it("is not offered by an engine whose environment has no package for it", async () => {
    const environment = mkdtempSync(path.join(os.tmpdir(), "understudy-venv-"));
    const site = path.join(environment, "lib/python3.12/site-packages");
    mkdirSync(path.join(environment, "bin"));
    mkdirSync(site, { recursive: true });
    const program = path.join(environment, "bin/understudy");
    writeFileSync(program, "");
    expect(await canServeMcp(program)).toBe(true);
    writeFileSync(path.join(environment, "pyvenv.cfg"), "");
    expect(await canServeMcp(program)).toBe(false);
    mkdirSync(path.join(site, "mcp"));
    expect(await canServeMcp(program)).toBe(true);
  });
});
