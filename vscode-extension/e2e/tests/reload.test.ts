/** A window that is loaded again with nothing of ours in sight: no view, no tab, no file of a language that wakes us. */
import assert from "node:assert/strict";
import { until } from "../rig/base.ts";
import { inCode } from "../rig/test.ts";
import type { Workbench } from "../rig/workbench.ts";

const SLOW = { "config.toml": '[defaults]\ndelegator = "slow"\n' };

async function outOfSight(vs: Workbench): Promise<void> {
  await vs.openContainer("Explorer");
  await vs.command("View: Close All Editors");
  await vs.openFile("README.md");
  await until(async () => (await vs.tabs()).length === 1, "nothing else is open");
}

describe("a window that is loaded again", () => {
  it(
    "wakes where something of its repository is at hand, tells of its end, and goes on with a review",
    inCode({ delegators: ["slow"], configuration: SLOW, seconds: 240 }, async (vs) => {
      // Not in the window's address: a file that is there would be opened again with it.
      await vs.openFile("shop/prices.py");
      await vs.statusItem("Understudy").waitFor();
      await vs.command("Understudy: Delegate Tests for This File");
      const { id } = await until(() => vs.world.delegations().find(({ state }) => state === "running"), "it runs");
      await outOfSight(vs);
      await vs.reload();
      await vs.statusItem("Understudy").waitFor();
      await vs.shot("1 running");
      vs.world.release();
      await vs.notification("for your decision").waitFor({ timeout: 60_000 });
      await vs.shot("2 end");

      await vs.notificationAction("for your decision", "Review");
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
