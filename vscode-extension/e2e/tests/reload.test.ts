/** A reloaded window without our views or tabs, and without a file whose language activates the extension. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const SLOW = { "config.toml": '[defaults]\ndelegator = "slow"\n' };

async function outOfSight(vs: Workbench): Promise<void> {
  await vs.openContainer("Explorer");
  await vs.command("View: Close All Editors");
  await vs.openFile("README.md");
  await until(async () => (await vs.tabs()).length === 1, "nothing else is open");
}

describe("a reloaded window", () => {
  it(
    "activates if its repository has delegations, reports their result, and continues a review",
    inCode({ delegators: ["slow"], configuration: SLOW }, async (vs) => {
      // Not in the URL of the window: it would be opened again by the reload.
      await vs.openFile("shop/prices.py");
      await vs.statusItem("Understudy").waitFor();
      await vs.command("Understudy: Delegate Tests for This File");
      const { id } = await until(() => vs.world.delegations().find(({ state }) => state === "running"), "it runs");
      await outOfSight(vs);
      await vs.reload();
      await vs.statusItem("Understudy").waitFor();
      await vs.shot("1 running");
      vs.world.release();
      await vs.notification("to review").waitFor();
      await vs.shot("2 end");

      await vs.notificationAction("to review", "Review");
      await vs.bar("Change 1 of").waitFor();
      await outOfSight(vs);
      await vs.reload();
      await vs.statusItem("Understudy").waitFor();
      await until(
        async () => (await vs.commands("Understudy: ")).some((title) => title.includes("Accept All Changes")),
        "the review is there again",
      );
      await vs.command("Understudy: Accept All Changes");
      await until(() => vs.world.understudy("show", id).review.pending === 0, "the review goes on");
      assert.match(vs.world.read("tests/test_label.py") ?? "", /label/);
    }),
  );
});
