/** A review without a mouse: keys and the palette only, with the focus where the next key is expected. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const MINE = "tests/test_prices.py";

describe("reviewing by keyboard", () => {
  it(
    "opens a result, visits, accepts, rejects with a reason, undoes and finishes @smoke",
    inCode({ delegators: ["quick"], file: "shop/prices.py" }, async (vs) => {
      const { keyboard } = vs.page;
      await vs.statusItem("Understudy").waitFor();
      const { id } = vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "quick", "--detach");
      await until(() => vs.world.understudy("show", id).state === "finished", "the result is there");
      await vs.openContainer();
      await vs.waitForRow("Delegations", "To Review");
      await vs.command("Understudy: Focus on Delegations View");
      await until(async () => {
        await keyboard.press("ArrowDown");
        return (await focusedRow(vs, "Delegations")).includes("prices.py");
      }, "the row of the result has the focus");
      await keyboard.press("Enter");
      await vs.bar("Change 1 of").waitFor();
      await inEditor(vs);
      await atLine(vs, 2);

      await keyboard.press("Alt+y");
      await until(() => counts(vs, id) === "2 1 0", "the change at the cursor is accepted");
      await atLine(vs, 14);
      await keyboard.press("Shift+Alt+n");
      await vs.step("Reject with Reason");
      await vs.answer("keep it short");
      await until(() => counts(vs, id) === "1 1 1", "the next one is rejected");
      await atLine(vs, 1);
      await inEditor(vs);
      await vs.shot("1 rejected");

      await vs.command("Understudy: Undo…");
      await vs.step("Undo");
      await vs.pick("test_more_than_everything");
      await until(() => counts(vs, id) === "2 1 0", "the rejection is undone");
      await inEditor(vs);
      await vs.shot("2 undone");
      await keyboard.press("Shift+Alt+F5");
      await atLine(vs, 14);

      // Keys decide where the cursor is, never on another row than the one with the focus.
      await vs.command("Understudy: Focus on Review View");
      await until(async () => {
        await keyboard.press("ArrowDown");
        return (await focusedRow(vs, VIEW)).includes("What a cart costs");
      }, "the last row has the focus, another one is selected");
      await keyboard.press("Alt+n");
      await vs.shot("3 in the view");
      await keyboard.press("Enter");
      await inEditor(vs);
      await atLine(vs, 1);
      assert.equal(counts(vs, id), "2 1 0", "nothing was decided in the view");
      await keyboard.press("Alt+n");
      await until(() => counts(vs, id) === "1 1 1", "the change of the row is rejected");
      await atLine(vs, 14);
      await keyboard.press("Alt+y");
      await vs.notification("Review complete: 2 accepted, 1 rejected").waitFor();
      await vs.shot("4 complete");
      await vs.command("Understudy: Close Review");
      await vs.view(VIEW).waitFor({ state: "hidden" });
      await inEditor(vs);
      assert.match(vs.world.read(MINE) ?? "", /import pytest/);
      await vs.shot("5 closed");
    }),
  );
});

/** The text of the row that has the focus in a view; empty if the focus is elsewhere. */
async function focusedRow(vs: Workbench, view: string): Promise<string> {
  const rows = vs.view(view).locator(".monaco-list:focus .monaco-list-row.focused");
  return (await rows.allInnerTexts()).join().replaceAll(/\s+/gu, " ");
}

async function inEditor(vs: Workbench): Promise<void> {
  await vs.page.locator(".editor-instance .monaco-editor.focused").first().waitFor();
}

async function atLine(vs: Workbench, line: number): Promise<void> {
  const at = async (): Promise<boolean> => (await vs.statusBar()).some((item) => item.startsWith(`Ln ${line},`));
  await until(at, `the cursor is on line ${line}`);
}
