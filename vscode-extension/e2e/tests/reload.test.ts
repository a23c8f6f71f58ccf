/** A reloaded window without our views or tabs, and without a file whose language activates the extension. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, reviewing, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const SLOW = { "config.toml": '[defaults]\ndelegator = "slow"\n' };

async function outOfSight(vs: Workbench): Promise<void> {
  await vs.openContainer("Explorer");
  await vs.command("View: Close All Editors");
  await vs.openFile("README.md");
  await until(async () => (await vs.tabs()).length === 1, "nothing else is open");
}

const TESTS = "tests/test_prices.py";

describe("a reloaded window", () => {
  it(
    "shows a conflict in the merge editor again, and lets the user mark it as resolved there and in its row",
    inCode({ delegators: ["quick"] }, async (vs) => {
      await vs.openContainer();
      await vs.openFile(TESTS); // in the URL of the window, it would be opened again by the reload
      const before = vs.world.read(TESTS) ?? "";
      const importing = (name: string): void =>
        vs.world.write({ [TESTS]: before.replace('shop."""\n', `shop."""\nimport ${name}\n`) });
      importing("math"); // the agent removes this line
      const id = await reviewing(vs);
      importing("cmath");
      await vs.openFile(TESTS);
      await vs.waitForText("import cmath");
      await vs.editor("Review: ").click();
      await vs.barAction("Change 1 of 3", "Accept");
      await vs.notificationAction("has a conflict", "Resolve");
      const merging = vs.editor("Merging: test_prices.py");
      await merging.waitFor();
      await vs.reload();
      await vs.waitForRow(VIEW, "Conflict");
      await merging.waitFor();
      await until(async () => (await vs.mergeText("Yours")).includes("import cmath"), "the user's side is there");
      await until(async () => (await vs.mergeText("Delegated")).includes("import pytest"), "the agent's side, too");
      await vs.shot("1 merge editor");
      await vs.row(VIEW, "Conflict").hover();
      const onRow = vs.row(VIEW, "Conflict").locator('a[aria-label^="Mark as Resolved"]');
      await onRow.waitFor();
      await vs.page
        .locator("a", { hasText: /^Accept Delegated/ })
        .first()
        .click();
      await vs.save();
      await until(() => vs.world.read(TESTS)?.includes("import pytest"), "the merge is saved");
      await vs.editorAction("Mark as Resolved");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      await merging.waitFor({ state: "hidden" });
      await vs.shot("2 resolved");
    }),
  );

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
      await vs.codeLens(/Accept \(/).waitFor(); // one new file is shown without a diff
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
