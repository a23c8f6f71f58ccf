import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { DisposableStore } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { CommandLink } from "../../src/host/host.ts";
import type { Delegation, DelegatorEntry } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, result } from "../support/golden.ts";

const FILE = "file:///home/ada/greeting/greeting/wrapping.py";
const ANSWER = result("understudy/text/run", "text-run.valid");
const DELEGATION = result("understudy/delegations/get", "delegations-get.valid");
const at = "2026-11-21T00:45:12.000Z";

async function chat(done: Partial<Delegation> = {}) {
  const { id } = DELEGATION;
  const finished: Delegation = {
    ...DELEGATION,
    state: "finished",
    verdict: "unverified",
    reservations: ["no_checks"],
    review: { pending: 2, accepted: 0, rejected: 0 },
    result: { files: [{ path: "tests/test_wrapping.py", status: "added", additions: 9, deletions: 0 }] },
    ...done,
  };
  delete finished.rescueRef;
  delete finished.error;
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", result("understudy/delegators/list", "delegators-list.valid"))
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
    .answer("understudy/delegations/list", { delegations: [finished] })
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/start", {
      ...result("understudy/delegations/start", "delegations-start.valid"),
      id,
    })
    .answer("understudy/delegations/reply", { id })
    .answer("understudy/delegations/get", finished)
    .answer("understudy/delegations/wait", finished)
    .answer("understudy/delegations/cancel", finished)
    .answer("understudy/delegations/events", ({ after }) => ({
      events:
        (after ?? 0) > 0
          ? []
          : [
              { type: "phase", seq: 1, at, attempt: 1, text: "Reading the\nmodule" },
              { type: "check_started", seq: 2, at, attempt: 1, name: "pytest" },
              { type: "phase", seq: 3, at, attempt: 1, text: "![x](https://evil.invalid/?q=1) [y](command:z)" },
            ],
      last: 3,
    }))
    .answer("understudy/text/preview", result("understudy/text/preview", "text-preview.valid"))
    .answer("understudy/text/run", ANSWER)
    .answer("understudy/workspace/trust", { workspace: "/w", trusted: true, effects: [], changed: [], digest: "1" });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  host.active = { uri: FILE, selection: RANGE, selectionEmpty: true };
  const disposables = new DisposableStore();
  const made = createApp({ host, connect: inProcess(peer) }, disposables);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  const shown = { text: "", progress: [] as string[], buttons: [] as CommandLink[] };
  const reply = {
    markdown: (text: string) => void (shown.text += text),
    progress: (text: string) => void shown.progress.push(text),
    button: (command: CommandLink) => void shown.buttons.push(command),
  };
  const controller = new AbortController();
  const say = async (prompt: string, more: { command?: string; previous?: string } = {}) =>
    host.participants.get("understudy.chat")?.({ prompt, files: [], ...more }, reply, controller.signal);
  return { id, host, peer, shown, say, controller, disposables };
}

const RANGE = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };

describe("@understudy", () => {
  it("delegates tests for the active file, and shows progress, the verdict and buttons", async () => {
    const { id, peer, shown, say, disposables } = await chat();
    expect(await say("tests for this file")).toEqual({ remember: id });
    expect(peer.params("understudy/delegations/start")).toMatchObject([{ recipe: "tests", files: [FILE] }]);
    expect(peer.params("understudy/delegations/start")[0]).not.toHaveProperty("task");
    expect(shown.progress.slice(0, 2)).toEqual(["Reading the module", "Running check pytest…"]);
    expect(shown.progress[2]).toContain(String.raw`\!\[x\]\(https://evil.invalid`);
    expect(shown.progress[2]).not.toMatch(/[^\\]\[|[^\\]\(/);
    expect(shown.text).toContain("Unverified: no required check ran");
    expect(shown.buttons.map(({ id: command, arguments: values }) => [command, values])).toEqual([
      ["understudy.review.open", [id]],
      ["understudy.delegations.open", [id]],
    ]);
    disposables.dispose();
  });

  it("replies to the result before, unless the message names what to do", async () => {
    const { id, peer, say, disposables } = await chat();
    await say("Also test empty input", { previous: id });
    expect(peer.params("understudy/delegations/reply")).toEqual([{ id, text: "Also test empty input" }]);
    await say("tests for this file", { previous: id });
    expect(peer.params("understudy/delegations/start")).toHaveLength(1);
    disposables.dispose();
  });

  it("asks a model server without a delegation, and shows the answer as it arrives", async () => {
    const { peer, shown, say, disposables } = await chat();
    peer.answer("understudy/text/run", ({ stream }) => {
      peer.notify("understudy/text", { stream: stream ?? "", text: "It ![x](https://e.invalid) \nwr" });
      expect(shown.text).toContain("It ");
      expect(shown.text).not.toContain("wr");
      return { ...ANSWER, text: "It ![x](https://e.invalid) \nwraps." };
    });
    const delegators = result("understudy/delegators/list", "delegators-list.valid").delegators;
    expect(delegators.some(({ delegator }: DelegatorEntry) => delegator.modelServer !== undefined)).toBe(true);
    await say("What does it do?", { command: "ask" });
    expect(peer.params("understudy/delegations/start")).toEqual([]);
    expect(shown.text).toContain("wraps.");
    expect(shown.text).not.toContain("![x](");
    expect(shown.text.match(/It /g)).toHaveLength(1);
    disposables.dispose();
  });

  it("cancels the delegation when the answer is stopped", async () => {
    const { id, peer, say, controller, disposables } = await chat();
    peer.answer("understudy/delegations/wait", () => {
      controller.abort();
      throw new SidecarError({ kind: "cancelled", message: "The request was cancelled." });
    });
    expect(await say("tests for this file")).toEqual({});
    expect(peer.params("understudy/delegations/cancel")).toEqual([{ id }]);
    disposables.dispose();
  });

  it("says what is wrong and offers its repair", async () => {
    const { peer, shown, say, disposables } = await chat();
    peer.answer("understudy/delegations/start", () => {
      throw new SidecarError({
        kind: "untrusted_workspace",
        message: "It is *not* trusted.",
        hint: "understudy trust",
      });
    });
    expect(await say("tests for this file")).toEqual({ error: String.raw`It is \*not\* trusted.` });
    expect(shown.buttons.map(({ id: command }) => command)).toEqual(["understudy.trust"]);
    disposables.dispose();
  });

  it("is silent in an editor without chat", () => {
    const host = new FakeHost();
    host.hasAssistants = false;
    const disposables = new DisposableStore();
    createApp({ host, connect: () => () => new Promise(() => {}) }, disposables);
    expect([host.participants.size, host.tools.size, host.mcpSources.size]).toEqual([0, 0, 0]);
    expect(host.messages).toEqual([]);
    disposables.dispose();
  });
});
