/** The whole job in an editor: delegate, be asked, reload in the middle, see what came out. */
import assert from "node:assert/strict";
import { until } from "../rig/base.ts";
import { inCode } from "../rig/test.ts";
import type { Workbench } from "../rig/workbench.ts";

/** Wait for the end of a delegation. */
async function finished(vs: Workbench): Promise<any> {
  return until(
    () => vs.world.delegations().find(({ state }) => state === "finished"),
    "a delegation is finished",
    90_000,
  );
}

describe("delegating from an editor", () => {
  it(
    "writes tests for a file with unsaved changes",
    inCode({ delegators: ["quick"], file: "shop/prices.py", configuration: byDefault("quick") }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(21);
      await vs.type("\n\ndef unsaved() -> int:\n    return 1\n");
      assert.ok((await vs.codeActions()).includes("Delegate tests for this file"));
      await vs.shot("1 code actions");
      await vs.page.keyboard.press("Escape");
      await vs.codeAction("tests for this file");
      await until(() => vs.world.delegations().length === 1, "it is started");
      await vs.shot("2 started");
      const done = await finished(vs);
      assert.equal(done.verdict, "verified");
      assert.equal(vs.world.read("shop/prices.py")?.includes("unsaved"), false, "the editor's text was not saved");
      await vs.shot("3 finished");
    }),
  );

  it(
    "loses nothing when the window is reloaded in the middle",
    inCode({ delegators: ["slow"], file: "shop/prices.py", configuration: byDefault("slow") }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.codeAction("tests for this file");
      await until(() => vs.world.delegations()[0]?.state === "running", "it runs");
      await vs.shot("1 running");
      await vs.reload();
      await until(() => vs.world.sidecars().length === 1, "a new sidecar runs");
      assert.equal(vs.world.delegations()[0]?.state, "running");
      await vs.shot("2 after the reload");
      vs.world.release();
      assert.equal((await finished(vs)).verdict, "verified");
      await vs.shot("3 finished");
    }),
  );

  it(
    "asks the person, and goes on with the answer",
    inCode({ delegators: ["careful"], file: "shop/prices.py", configuration: byDefault("careful") }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.codeAction("tests for this file");
      await until(() => vs.world.delegations()[0]?.state === "waiting", "it waits for the person");
      const [{ id, waitingFor }] = vs.world.delegations();
      assert.match(waitingFor.title, /rm -rf build/);
      await vs.shot("1 asked");
      vs.world.understudy("answer", id, "reject_once");
      const done = await finished(vs);
      assert.equal(done.verdict, "verified");
      await vs.shot("2 finished");
    }),
  );
});

function byDefault(name: string): Record<string, string> {
  return { "config.toml": `[defaults]\ndelegator = "${name}"\n` };
}
