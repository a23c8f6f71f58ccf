/** The full workflow in one window: a delegator, a delegation, a question, a review, with failures in between. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

const TESTS = "tests/test_prices.py";

describe("the full workflow", () => {
  it(
    "runs from Add Delegator to undo, with a reload and a crash in between @smoke",
    inCode({ claude: true, file: "shop/prices.py" }, async (vs) => {
      const { world } = vs;
      await vs.openContainer();
      await vs.waitForRow("Delegators", "Add Delegator");
      await vs.shot("01 nothing yet");

      // A delegator, by keyboard.
      await vs.command("Understudy: Add Delegator");
      const added = vs.webview();
      await added.getByRole("button", { name: "Add: Claude Code" }).press("Enter");
      await added.getByLabel("Model", { exact: true }).fill("claude-opus-4-6");
      const name = added.getByLabel("Name", { exact: true });
      await name.fill("thorough");
      await vs.shot("02 form");
      await name.press("Enter");
      await added.getByText("thorough saved.").waitFor();
      await vs.waitForRow("Delegators", "thorough");
      await vs.shot("03 added");
      await until(async () => (await vs.selectedRow("Delegators")).includes("thorough"), "the new one is selected");
      await vs.closeEditor();

      // Tests for a file with a function that is not saved.
      await vs.editor("prices.py").click();
      await vs.goTo(21);
      await vs.type("\n\ndef doubled(price: int) -> int:\n    return 2 * price\n");
      await vs.codeAction("Delegate tests for this file");
      await vs.waitForRow("Delegations", "Now");
      await vs.notification("thorough asks in").waitFor();
      await vs.shot("04 asked");

      // Neither a reload nor a crash of the sidecar loses anything.
      await vs.reload();
      await vs.waitForRow("Delegations", "Now");
      await vs.notification("thorough asks in").waitFor();
      assert.equal(world.delegations()[0]?.state, "waiting");
      await vs.shot("05 after the reload");
      await vs.killSidecar();
      await until(() => world.sidecars().length === 1, "another sidecar runs");
      await vs.shot("06 after the crash");

      // Answer with a button of the question.
      await vs.notificationAction("thorough asks in", "Reject");
      const done = await until(() => world.delegations().find(({ state }) => state === "finished"), "it is finished");
      assert.equal(done.verdict, "verified", JSON.stringify(done.reservations));
      assert.equal(world.read("shop/prices.py")?.includes("doubled"), false, "the editor's text is not saved");
      assert.ok(done.result.files.some(({ path }: any) => path === TESTS));
      await vs.waitForRow("Delegations", "To Review");
      await vs.notification(/Verified/).waitFor();
      await vs.shot("07 finished");

      // Review: starts at the change next to the open file.
      await vs.notificationAction(/Verified/, "Review");
      await vs.bar(/Change 1 of/).waitFor();
      await vs.waitForRow("Review", "Verified");
      await vs.shot("08 review");
      await vs.barAction(/Change 1 of/, "Accept");
      await vs.waitForRow("Review", "accepted");
      await until(() => world.read(TESTS)?.includes("import pytest"), "the accepted change is in the file");
      assert.equal(world.read(TESTS)?.includes("refused"), false, "and nothing else is");
      await vs.shot("09 accepted");
      await vs.bar(/Change 2 of/).waitFor();
      await vs.barAction(/Change 2 of/, "Reject with");
      await vs.answer("Say which percentage is refused.");
      await vs.waitForRow("Review", "Say which percentage");
      await vs.shot("10 rejected");

      // Send it back with the reasons.
      await vs.command("Understudy: Send Back");
      await vs.step("Send Back");
      await vs.shot("11 send back");
      await vs.accept();
      await until(() => world.delegations().length === 2, "there is a follow-up");
      const again = await until(
        () => world.delegations().find(({ id, state }) => id !== done.id && state === "finished"),
        "the follow-up is finished",
      );
      assert.equal(again.verdict, "verified", JSON.stringify(again.reservations));
      assert.deepEqual(
        again.result.files.map(({ path }: any) => path),
        [TESTS, "tests/test_total.py"],
        "the pending changes are included",
      );
      await vs.notification(/Verified/).waitFor();
      // The review of the follow-up opens by itself, which takes the focus; it ends with the selection of this row.
      await until(async () => (await vs.selectedRow("Review")).includes("(round 2)"), "its review is open");
      await vs.shot("12 answered");

      // Undo the accepted change.
      await vs.command("Understudy: Undo Last Accept");
      await until(() => !world.read(TESTS)?.includes("import pytest"), "the accept is undone");
      await vs.shot("13 undone");
    }),
  );
});
