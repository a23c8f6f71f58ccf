/** Checks: added from a result that none judged. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("checks", () => {
  it(
    "are proposed where none ran, run on the current files, saved, and run on the result",
    inCode({ delegators: ["quick"], file: "shop/prices.py" }, async (vs) => {
      const started = ["start", "implement", "--task", "Write more tests.", "--delegator", "quick", "--detach"];
      const { id } = vs.world.understudy(...started);
      await until(() => vs.world.understudy("show", id).state === "finished", "it is finished");
      await vs.openContainer();
      await vs.waitForRow("Delegations", "Write more tests.");
      await vs.command("Understudy: Review…");
      await vs.pick("Write more tests");
      await vs.bar("Change 1 of").waitFor();
      await vs.waitForRow("Review", "No required check ran");
      await vs.shot("1 no check");
      await vs.pressUntil(vs.row("Review", "No required check ran"), vs.quickRows().first());
      await vs.quickRows().filter({ hasText: "pytest" }).first().waitFor();
      await vs.shot("2 proposed");
      await vs.pick("pytest");
      await until(async () => (await vs.quickRowTexts()).some((row) => row.includes("All your")), "it passed");
      await vs.shot("3 passed");
      await vs.pick("This workspace");
      await vs.notification("Check pytest saved").waitFor();
      await vs.shot("4 saved");
      assert.equal(vs.world.understudy("checks", "list").checks[0]?.check.name, "pytest");
      await vs.notificationAction("Check pytest saved", "Check Result");
      await until(() => !vs.world.understudy("show", id).reservations.includes("no_checks"), "it ran");
      await vs.waitForRow("Review", "pytest");
      await vs.shot("5 checked");
    }),
  );
});
