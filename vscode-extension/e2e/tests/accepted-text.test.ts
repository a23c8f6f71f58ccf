/** Accepted text in open files: it is saved, and a change that the user reverts in the editor is pending again. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, reviewing, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const MINE = "tests/test_prices.py";

/** The states of the changes of the file, as the command line lists them. */
const listed = (vs: Workbench, id: string): string[] =>
  vs.world
    .understudy("review", id, "--list")
    .files.find(({ path }: { path: string }) => path === MINE)
    .hunks.map(({ state }: { state: string }) => state);

const onDisk = (vs: Workbench): string => vs.world.read(MINE) ?? "";

describe("accepted text", () => {
  it(
    "is saved in a file that was saved; Ctrl+Z makes it pending, redo and another accept accept it",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      await until(() => onDisk(vs).includes("import pytest"), "it is saved");
      await vs.shot("1 accepted and saved");

      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.goTo(1);
      await vs.page.keyboard.press("Control+z");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the text is gone");
      await until(() => counts(vs, id) === "3 0 0", "it is pending");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);
      await until(
        async () => (await vs.rowLabels(VIEW)).some((label) => /pending, import pytest/.test(label)),
        "its row is pending",
      );
      await vs.shot("2 reverted");

      await vs.page.keyboard.press("Control+y");
      await vs.waitForText("import pytest");
      await until(() => counts(vs, id) === "2 1 0", "redo accepts it");
      await vs.page.keyboard.press("Control+z");
      await until(() => counts(vs, id) === "3 0 0", "it is pending again");
      await vs.save();
      await until(() => !onDisk(vs).includes("import pytest"), "the file is without it");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);

      await vs.editor("Review: ").click();
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted once more");
      await until(() => onDisk(vs).split("import pytest").length === 2, "it is there once");
      await vs.rowAction(VIEW, "import pytest", "Undo");
      await until(() => counts(vs, id) === "3 0 0", "it is undone");
      await until(() => !onDisk(vs).includes("import pytest"), "what was saved before an undo is saved after it");
    }),
  );

  it(
    "stays unsaved beside unsaved text of the user, and is pending if that is reverted or not saved",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(6);
      await vs.type("# mine\n");
      await vs.waitForText("# mine");
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await vs.notification("Not saved, because you have unsaved changes there: tests/test_prices.py").waitFor();
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      assert.doesNotMatch(onDisk(vs), /mine|import pytest/);
      await vs.shot("1 not saved");

      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.command("File: Revert File");
      await until(() => counts(vs, id) === "3 0 0", "it is pending after Revert File");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);

      await vs.goTo(6);
      await vs.type("# mine\n");
      await vs.waitForText("# mine");
      await vs.editor("Review: ").click();
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted again");
      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.closeEditor();
      await vs.dialog().waitFor();
      await vs.shot("2 closing");
      await vs.dialogAction("Don't Save");
      await until(() => counts(vs, id) === "3 0 0", "it is pending after Don't Save");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);
      assert.doesNotMatch(onDisk(vs), /mine|import pytest/);
      await vs.shot("3 pending");
    }),
  );
});
