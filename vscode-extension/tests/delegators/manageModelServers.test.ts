import { beforeEach, describe, expect, it } from "vitest";
import { manageModelServers, type ManageDeps } from "../../src/delegators/modelServers.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

let host: FakeHost;
let peer: GoldenSidecar;
let deps: ManageDeps;
const listed = result("understudy/modelServers/list", "modelServers-list.valid").modelServers;
const own = { ...listed[0]!, editable: true, modelServer: { ...listed[0]!.modelServer, name: "local" } };

beforeEach(() => {
  host = new FakeHost();
  peer = new GoldenSidecar()
    .answer("understudy/modelServers/list", { modelServers: [own], problems: [] })
    .answer("understudy/modelServers/test", { ok: true, steps: [{ name: "key", ok: true, message: "ok", seconds: 0 }] })
    .answer("understudy/modelServers/update", own)
    .answer("understudy/modelServers/setKey", {})
    .answer("understudy/modelServers/delete", {})
    .answer("understudy/delegators/list", () => {
      const { delegators, problems } = result("understudy/delegators/list", "delegators-list.valid");
      const using = delegators.map((one) => ({ ...one, delegator: { ...one.delegator, modelServer: "local" } }));
      return { delegators: [...using.slice(0, 2), ...delegators.slice(2)], problems };
    });
  deps = {
    requester: peer,
    windows: host.windows,
    folder: () => "file:///p",
    show: (uri) => Promise.resolve(void host.opened.push({ uri })),
  };
});

describe("Manage Model Servers", () => {
  it("changes the address of a server, and tests it", async () => {
    host.answers.push({ press: "edit", item: "local" }, { enter: "nonsense" }, { enter: "http://127.0.0.1:9/v1/" });
    host.answers.push({ cancel: true });
    await manageModelServers(deps);
    expect(peer.params("understudy/modelServers/update")).toMatchObject([
      {
        name: "local",
        revision: own.revision,
        modelServer: { baseUrl: "http://127.0.0.1:9/v1" },
        workspace: "file:///p",
      },
    ]);
    expect(host.messages.at(-1)).toMatchObject({ level: "info", text: "local works: ok" });
  });

  it("tests a server that is chosen, and one with a new key", async () => {
    host.answers.push({ pick: "local" });
    await manageModelServers(deps);
    host.answers.push({ press: "key", item: "local" }, { enter: "secret" });
    await manageModelServers(deps);
    expect(peer.params("understudy/modelServers/test")).toHaveLength(2);
    expect(peer.params("understudy/modelServers/setKey")).toEqual([
      { name: "local", key: "secret", workspace: "file:///p" },
    ]);
  });

  it("removes a server only after a question that names the delegators that need it", async () => {
    host.answers.push({ press: "remove", item: "local" }, { press: "remove", item: "local" }, { cancel: true });
    await manageModelServers(deps);
    expect(peer.params("understudy/modelServers/delete")).toEqual([]);
    expect(host.messages[0]).toMatchObject({ text: "Remove the model server local?" });
    expect(host.messages[0]?.detail).toMatch(/These delegators will stop working: [\w-]+, [\w-]+\.$/u);
    host.buttons.push("Remove");
    host.answers.push({ press: "remove", item: "local" }, { cancel: true });
    await manageModelServers(deps);
    expect(peer.params("understudy/modelServers/delete")).toEqual([
      { name: "local", revision: own.revision, workspace: "file:///p" },
    ]);
  });

  it("offers no edit of a server that was written by hand", async () => {
    peer.answer("understudy/modelServers/list", { modelServers: [{ ...own, editable: false }], problems: [] });
    host.answers.push({ cancel: true });
    await manageModelServers(deps);
    const ids = host.shown[0]?.items[0]?.buttons?.map(({ id }) => id) ?? [];
    expect(ids).not.toContain("edit");
    expect(ids).not.toContain("remove");
  });
});
