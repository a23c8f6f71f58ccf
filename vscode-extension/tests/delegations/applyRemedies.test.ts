import { beforeEach, describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { DisposableStore } from "../../src/base/events.ts";
import type { Delegation, Remedy } from "../../src/protocol.ts";
import { editorHint, SidecarError } from "../../src/sidecar/connection.ts";
import { remedyOf, remedyTitle } from "../../src/state/remedies.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, result } from "../support/golden.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const [A, B] = ["20261121-004512-aaaaa", "20261121-004512-bbbbb"];
const LINK: Remedy = { kind: "link_folders", paths: ["web/node_modules"] };
const MAKE: Remedy = {
  kind: "make_environment",
  commands: [
    ["python3", "-m", "venv", ".venv"],
    [".venv/bin/python", "-m", "pip", "install", "pytest"],
  ],
  folder: "api",
};

const unchecked: Delegation = {
  ...structuredClone(DONE),
  id: A,
  verdict: "unverified",
  reservations: ["no_checks"],
  reservationFacts: [{ reservation: "no_checks", text: "Worktrees have no node_modules.", hint: "x", remedy: LINK }],
};
const failed: Delegation = {
  ...structuredClone(DONE),
  id: B,
  verdict: "failed",
  error: { kind: "tool_missing", message: "The ghostwriter needs pytest.", remedy: MAKE },
};

describe("remedies", () => {
  let host: FakeHost;
  let peer: GoldenSidecar;
  let disposables: DisposableStore;

  beforeEach(async () => {
    peer = new GoldenSidecar()
      .answer("understudy/delegators/list", { delegators: [], problems: [], defaults: {} })
      .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
      .answer("understudy/recipes/list", { recipes: [], problems: [] })
      .answer("understudy/delegations/list", { delegations: [unchecked, failed] })
      .answer("understudy/delegations/subscribe", {})
      .answer("understudy/workspace/trust", result("understudy/workspace/trust", "workspace-trust.valid"))
      .answer("understudy/remedies/apply", {})
      .answer("understudy/delegations/check", unchecked);
    host = new FakeHost();
    host.settings.set("path", process.execPath);
    disposables = new DisposableStore();
    await createApp({ host, connect: inProcess(peer) }, disposables).sidecar.start();
    await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
    return () => disposables.dispose();
  });

  it("are done by the engine, and the checks of the result run again", async () => {
    await host.commands.run("understudy.delegations.remedy", A);
    expect(peer.params("understudy/remedies/apply")).toEqual([
      { remedy: LINK, workspace: `file://${unchecked.workspace}` },
    ]);
    expect(peer.params("understudy/delegations/check")).toEqual([{ id: A }]);
  });

  it("are done in a terminal, and what failed is tried again unless that fails, too", async () => {
    host.handlers.set("understudy.delegations.retry", () => undefined);
    await host.commands.run("understudy.delegations.remedy", B);
    expect(host.programs).toEqual([
      [
        "Create .venv in Terminal",
        `${failed.workspace}/api`,
        "python3 -m venv .venv",
        ".venv/bin/python -m pip install pytest",
      ],
    ]);
    expect(host.ran.at(-1)).toEqual({ id: "understudy.delegations.retry", values: [B] });
    host.programsSucceed = false;
    const before = host.ran.length;
    await host.commands.run("understudy.delegations.remedy", B);
    expect(host.ran.length).toBe(before + 1);
  });

  it("of a refused request are its button, after which the command goes on", async () => {
    peer.answer("understudy/version", () => {
      throw new SidecarError({ kind: "tool_missing", message: "No.", hint: "Run understudy x.", remedy: LINK });
    });
    const other = new FakeHost();
    other.settings.set("path", process.execPath);
    const refused = createApp({ host: other, connect: inProcess(peer) }, disposables).sidecar;
    const error = await refused.request("understudy/version", {}).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      hint: undefined,
      repair: { title: "Link node_modules", command: "understudy.remedy", arguments: [LINK] },
    });
    expect(await host.commands.run("understudy.remedy", LINK)).toBe(true);
  });

  it("are offered for what has ended only", () => {
    expect(remedyOf(unchecked)).toEqual(LINK);
    expect(remedyOf(failed)).toEqual(MAKE);
    expect(remedyOf({ ...failed, state: "running" })).toBeUndefined();
    expect(remedyOf(DONE)).toBeUndefined();
    expect(remedyTitle({ kind: "copy_files", paths: ["src/humanize/_version.py"] })).toBe("Copy _version.py");
  });
});

describe("a hint", () => {
  it.each([
    ['Add `worktrees.copy = ["a"]` to .understudy/config.toml.', ""],
    ["Name one, for example: understudy start tests PATH/TO/FILE", ""],
    ["Name another file, or a delegator with a model: -d NAME.", ""],
    ["Wait a moment. Then run `understudy tools`.", "Wait a moment."],
    [
      "Restart the engine. Running delegations are not affected.",
      "Restart the engine. Running delegations are not affected.",
    ],
  ])("has no command line in an editor: %s", (hint, shown) => {
    expect(editorHint({ hint })).toBe(shown);
    expect(editorHint({ hint, remedy: LINK })).toBe("");
  });
});
