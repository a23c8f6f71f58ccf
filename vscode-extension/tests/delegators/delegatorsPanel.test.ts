import { beforeEach, describe, expect, it } from "vitest";
import { DelegatorsPanel, DELEGATORS_PANEL } from "../../src/delegators/delegatorsPanel.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { settled } from "../support/flushPromises.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

let host: FakeHost;
let peer: GoldenSidecar;
let panel: DelegatorsPanel;
let saved: string[];
let tested: (readonly [string, string | undefined])[];

beforeEach(() => {
  host = new FakeHost();
  saved = [];
  tested = [];
  peer = new GoldenSidecar()
    .answer("understudy/tools/list", result("understudy/tools/list", "tools-list.valid"))
    .answer("understudy/modelServers/setKey", {});
  panel = new DelegatorsPanel({
    host,
    requester: peer,
    subscriber: peer,
    saved: (name) => Promise.resolve(void saved.push(name)),
    tested: (name, failure) => void tested.push([name, failure]),
  });
});

/** Send a request of the page; returns the answer. */
async function ask(method: string, params: object): Promise<unknown> {
  host.panels.at(-1)?.send({ id: 1, method, params });
  await settled();
  await settled();
  return host.panels.at(-1)?.posted.at(-1);
}

describe("the tab of the Delegators page", () => {
  it("tells the page what to show and where delegators can be saved", async () => {
    panel.show({ show: "edit", name: "quick" });
    expect(await ask("page/start", {})).toMatchObject({
      result: {
        page: "delegators",
        target: { show: "edit", name: "quick" },
        places: [{ id: "user" }, { id: "file:///home/ada/greeting" }],
      },
    });
    panel.show({ show: "servers" });
    expect(host.panels).toHaveLength(1);
    expect(host.panels[0]?.posted.at(-1)).toEqual({ method: "page/show", params: { show: "servers" } });
    host.trusted = false;
    expect(await ask("page/start", {})).toMatchObject({ result: { places: [{ id: "user" }] } });
  });

  it("restores its tab in the next window", async () => {
    host.restorers.get(DELEGATORS_PANEL)?.(undefined);
    expect(await ask("page/start", {})).not.toHaveProperty("result.target");
    expect(host.panels[0]?.html).toContain("trusted-types lit-html");
  });

  it("answers the command that wants a delegator: with the saved one, or with nothing when the tab is closed", async () => {
    const first = panel.showUntilSaved({ show: "add" });
    await ask("page/saved", { delegator: "fresh" });
    expect(await first).toBe("fresh");
    expect(saved).toEqual(["fresh"]);
    const second = panel.showUntilSaved({ show: "add" });
    host.panels.at(-1)?.close();
    expect(await second).toBeUndefined();
  });

  it("reports how the last test of a saved delegator ended", async () => {
    const step = { name: "round_trip" as const, message: "no such model", seconds: 1 };
    panel.show({ show: "list" });
    peer.answer("understudy/delegators/test", { ok: false, steps: [{ ...step, ok: false }] });
    await ask("understudy/delegators/test", { name: "quick", delegator: { name: "fresh" } });
    expect(tested).toEqual([]);
    await ask("page/saved", { delegator: "fresh" });
    peer.answer("understudy/delegators/test", { ok: true, steps: [{ ...step, ok: true }] });
    await ask("understudy/delegators/test", { name: "fresh" });
    expect(tested).toEqual([
      ["fresh", "no such model"],
      ["fresh", undefined],
    ]);
  });

  it("refuses every request that the page has no use for", async () => {
    panel.show({ show: "list" });
    for (const method of [
      "understudy/modelServers/setKey",
      "understudy/delegations/decide",
      "understudy/workspace/trust",
    ]) {
      expect(await ask(method, {})).toHaveProperty("error");
    }
    expect(peer.asked).toEqual([]);
  });

  it("asks for keys itself, and never passes one to the page", async () => {
    panel.show({ show: "list" });
    host.answers.push({ enter: " a-key-for-tests " }, { enter: "" });
    expect(await ask("page/enterKey", { server: "mine", workspace: "file:///w" })).toEqual({ id: 1, result: true });
    expect(peer.params("understudy/modelServers/setKey")).toEqual([
      { name: "mine", key: "a-key-for-tests", workspace: "file:///w" },
    ]);
    expect(await ask("page/enterKey", { server: "mine" })).toEqual({ id: 1, result: false });
    expect(JSON.stringify(host.panels[0]?.posted)).not.toContain("a-key");
  });

  it("runs the command of the contract that installs an agent, never one of the page", async () => {
    panel.show({ show: "list" });
    const codex = result("understudy/tools/list", "tools-list.valid").tools.find(({ name }) => name === "codex");
    await ask("page/installAgent", { tool: "codex", step: "install" });
    expect(host.terminalLines).toEqual([codex?.install?.command]);
    await ask("page/installAgent", { tool: "rm -rf ~", step: "install" });
    expect(host.terminalLines).toHaveLength(1);
  });

  it("offers the repair of an error, and runs it", async () => {
    panel.show({ show: "list" });
    const repair = { title: "Install Engine", command: "understudy.install", arguments: ["mine"] };
    peer.answer("understudy/delegators/list", () => {
      throw new SidecarError({ kind: "connection_failed", message: "Not installed." }, repair);
    });
    expect(await ask("understudy/delegators/list", {})).toMatchObject({
      error: { message: "Not installed.", repair: "Install Engine" },
    });
    await ask("page/repair", {});
    expect(host.ran.at(-1)).toEqual({ id: "understudy.install", values: ["mine"] });
  });
});
