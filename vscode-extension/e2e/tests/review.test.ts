/** Review in the editor: decisions per change in the native diff, open and closed files, sending back, conflicts. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, editResult, openCopy, reviewing, scenario, scripted, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";

const MINE = "tests/test_prices.py";

const OBEYED = scenario(
  { write: ".github/workflows/test.yml", text: "on: push\n" },
  { write: "tests/test_one.py", text: "def test_one():\n    assert True\n" },
);

/** Longer than the window. */
const TABLE = Array.from({ length: 200 }, (_, number) => `ROW_${number} = ${number}`);

describe("review", () => {
  it(
    "accepts one hunk, rejects one with a reason, sends back, undoes @smoke",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(6);
      await vs.type("# not saved yet\n");
      await vs.waitForText("# not saved yet");
      const id = await reviewing(vs);
      assert.deepEqual(await vs.diffFiles(), ["test_prices.py/tests", "test_prices_more.py/tests A"]);
      // The verdict and its evidence come before the first button.
      assert.match((await vs.tabs()).join(), /Review: Write tests: prices.py/);
      const [verdict, check] = await vs.rowTexts(VIEW);
      assert.match(verdict ?? "", /^Verified/);
      assert.match(check ?? "", /tests-pytest.*5 passed in [\d.]+ s · \d+ of \d+ small changes noticed/);
      assert.match((await vs.rowLabels(VIEW)).join("\n"), /pending, import pytest, line 3/);
      await vs.shotInThemes("1 multi diff");

      // Accept one change from its bar. The file is open with unsaved text: its editor changes, not the file on disk.
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "one change is accepted");
      await vs.waitForRow(VIEW, "accepted");
      await vs.bar("Change 1 of 3").waitFor({ state: "hidden" });
      assert.equal(vs.world.read(MINE)?.includes("pytest"), false);
      await vs.shot("4 accepted");

      // Reject the next one by keys, with a reason; the last one is next.
      await vs.pressUntil(vs.row(VIEW, "test_more_than"), async () =>
        (await vs.statusBar()).some((item) => item.startsWith("Ln 14,")),
      );
      await vs.page.keyboard.press("Shift+Alt+n");
      await vs.step("Reject with Reason");
      await vs.shot("5 reason");
      await vs.answer("Say what 101 means.");
      await until(() => counts(vs, id) === "1 1 1", "one change is rejected");
      await vs.waitForRow(VIEW, "Say what 101 means.");
      await vs.bar("Change 3 of 3").waitFor();
      await vs.shotInThemes("6 decided");
      const tabs = await vs.tabs();
      assert.equal(tabs.length, 2, `changes are shown in the open review: ${tabs.join()}`);
      await vs.shot("6 next");

      // The next file has one change: accept it from the title of the editor.
      await vs.editorAction("Accept All Changes in This File");
      await until(() => counts(vs, id) === "0 2 1", "the file is accepted");
      await vs.shot("6 accepted in the title");
      await vs.notificationAction("Review complete: 2 accepted, 1 rejected", "Undo");
      await until(() => counts(vs, id) === "1 1 1", "the file is pending again");

      // One Ctrl+Z undoes it, and the user's own text stays.
      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.shot("7 my file");
      await vs.page.keyboard.press("Control+z");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the change is gone");
      assert.match(await vs.editorText(), /# not saved yet/);
      await until(() => counts(vs, id) === "2 0 1", "it is pending");
      await vs.page.keyboard.press("Control+y");
      await vs.waitForText("import pytest");
      await until(() => counts(vs, id) === "1 1 1", "it is accepted again");

      // Undo from the row: the hunk is pending again.
      await vs.rowAction(VIEW, "import pytest", "Undo");
      await until(() => counts(vs, id) === "2 0 1", "the accept is undone");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the change is gone again");
      assert.match(await vs.editorText(), /# not saved yet/);

      // Accept the rest: one file in the editor, one on disk. Undo both at once.
      await vs.viewAction(VIEW, "Accept All Changes");
      await vs.notification("Review complete: 2 accepted, 1 rejected").waitFor();
      assert.match(vs.world.read("tests/test_prices_more.py") ?? "", /test_total_of_a_cart/);
      await vs.shot("8 decided");
      await vs.notificationAction("Review complete: 2 accepted, 1 rejected", "Undo");
      await until(() => counts(vs, id) === "2 0 1", "both are undone");
      assert.equal(vs.world.read("tests/test_prices_more.py"), undefined);

      await vs.command("Understudy: Review…");
      await vs.bar("Change 1 of 3").waitFor();

      await vs.viewAction(VIEW, "Send Back");
      await vs.step("Send Back");
      assert.match(await vs.quickInput().inputValue(), /tests\/test_prices\.py:14: Say what 101 means\./);
      await vs.shot("9 send back");
      await vs.answer("Name what 101 means.");
      const reply = await until(
        () => vs.world.delegations().find(({ parentId }) => parentId === id),
        "it is sent back",
      );
      assert.notEqual(reply.id, id);
      await vs.waitForRow(VIEW, "sent back");
      await vs.shot("10 sent back");
    }),
  );

  it(
    "scrolls to a change far below the others of its file",
    inCode(
      {
        configuration: scripted("long"),
        files: {
          "shop/table.py": `${TABLE.join("\n")}\n`,
          ...scenario({
            write: "shop/table.py",
            text: [
              '"""A table."""',
              ...TABLE.slice(0, 40),
              ...TABLE.slice(0, 80).map((line) => `${line}  # once more`),
              ...TABLE.slice(40),
              "LAST = 1\n",
            ].join("\n"),
          }),
        },
      },
      async (vs) => {
        await reviewing(vs, "long", "Unverified");
        const last = vs.bar("Change 3 of 3");
        await vs.pressUntil(vs.row(VIEW, "A table."), async () =>
          (await vs.statusBar()).some((item) => item.startsWith("Ln 1,")),
        );
        await vs.pressUntil(vs.row(VIEW, "LAST = 1"), async () =>
          (await vs.statusBar()).some((item) => item.startsWith("Ln 282,")),
        );
        await last.waitFor({ timeout: 10_000 });
        await until(async () => ((await last.boundingBox())?.y ?? 0) > 0, "its bar is drawn", 10_000);
        await vs.shot("1 the last change");
      },
    ),
  );

  it(
    "shows the evidence",
    inCode({ delegators: ["liar"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await reviewing(vs, "liar", "Unverified", false);
      await vs.waitForRow(VIEW, "executes the code under test");
      // One new file is shown without a diff, with lenses.
      await vs.codeLens("executes the code under test").waitFor();
      await vs.codeLens(/Accept \(/).waitFor();
      assert.equal(await vs.page.locator(".monaco-diff-editor").count(), 0);
      await vs.shot("1 reservation");
      await vs.pressUntil(vs.row(VIEW, "Unverified"), vs.webview().locator("h1", { hasText: "Unverified" }));
      await vs.shotInThemes("2 evidence");
    }),
  );

  it(
    "keeps edits of the result, and reports a result that changed elsewhere",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      const line = await editResult(vs);
      await vs.shot("1 edited");
      await vs.rowAction(VIEW, "edited by you", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "the edited change is accepted");
      await vs.editor("test_prices.py").click();
      await vs.waitForText("# one above everything");

      // The same file of the result is changed elsewhere while this edit is unsaved.
      await vs.editor("test_prices.py: Edit Result").click();
      await line.click();
      await vs.page.keyboard.press("End");
      await vs.type(", and mine");
      const text = "from shop.prices import discounted\n";
      vs.world.write({ "build/other.py": text });
      vs.world.understudy("amend", id, MINE, `${vs.world.repository}/build/other.py`);
      await vs.save();
      await vs.notification(/newer|changed in the result/).waitFor();
      await vs.shot("2 stale");
    }),
  );

  it(
    "is read-only; a block that is reverted in the copy comes back by Undo Edit",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      const arrows = vs.page.locator('.gutterItem a[aria-label^="Revert"]');
      assert.equal(await arrows.count(), 0);
      await vs.shot("1 read-only");
      await openCopy(vs, "test_more_than", "test_prices.py");
      await arrows.first().waitFor({ state: "attached" });
      await vs.shot("2 copy");
      await arrows.first().click({ force: true });
      await vs.save();
      await until(() => counts(vs, id) === "2 0 0", "the block is reverted");
      assert.deepEqual(await vs.notifications(), []);
      await vs.waitForRow(VIEW, "Unverified");
      await vs.shot("3 reverted");
      await vs.command("Understudy: Undo Edit");
      await until(() => counts(vs, id) === "3 0 0", "the change is back");
      await vs.waitForRow(VIEW, "Verified");
      await vs.waitForText("import pytest");
      await vs.shot("4 undone");
    }),
  );

  it(
    "undoes each accepted change from its row, its thread and the palette",
    inCode({ delegators: ["quick"] }, async (vs) => {
      const id = await reviewing(vs);
      const before = vs.world.git("rev-parse", "HEAD");
      await vs.rowAction(VIEW, "import pytest", "Accept");
      await vs.statusItem("1 change accepted").waitFor();
      await vs.rowAction(VIEW, "import pytest", "Undo");
      await until(() => counts(vs, id) === "3 0 0", "it is undone");
      assert.deepEqual(await vs.notifications(), [], "the status bar says what was accepted");
      await vs.viewAction(VIEW, "Accept All Changes");
      await vs.notification("Review complete: 3 accepted").waitFor();
      await vs.shot("1 accepted");
      await vs.rowAction(VIEW, "test_more", "Undo");
      await until(() => counts(vs, id) === "1 2 0", "one of three is undone");
      await until(() => vs.world.read(MINE)?.includes("import pytest") === true, "the other one stays");
      await vs.pressUntil(vs.barSigns().first(), vs.bar("Accepted")); // that of the verdict is above the lines
      await vs.shot("2 expanded");
      await vs.barAction("Accepted", "Undo");
      await until(() => counts(vs, id) === "2 1 0", "another one is undone");
      // What a user types, and Enter.
      await vs.palette(">Understudy: Undo");
      await vs.shot("3 last accept");
      await vs.accept();
      await until(() => counts(vs, id) === "3 0 0", "everything is undone");
      assert.equal(vs.world.git("rev-parse", "HEAD"), before);
      assert.equal(vs.world.git("status", "--short").trim(), "");
    }),
  );

  it(
    "asks before accepting files that affect what runs on the machine",
    inCode({ file: MINE, configuration: scripted("ci"), files: OBEYED }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs, "ci", "Unverified");
      await vs.bar("runs in continuous integration").waitFor();
      // The reasons are longer than a line: they are wrapped.
      const height = async (bar: string): Promise<number> => (await vs.bar(bar).boundingBox())?.height ?? 0;
      await until(
        async () => (await height("Unverified")) > (await height("Change 2 of 2")),
        "the reasons are wrapped",
      );
      await vs.shot("0 wrapped");
      await vs.viewAction(VIEW, "Accept All Changes");
      await vs.dialog().waitFor();
      assert.match(await vs.dialog().innerText(), /\.github\/workflows\/test\.yml/);
      await vs.shot("1 asked");
      await vs.dialogAction("Accept Only the Other Files");
      await until(() => counts(vs, id) === "1 1 0", "the other one is accepted");
      assert.equal(vs.world.read(".github/workflows/test.yml"), undefined);
    }),
  );

  it(
    "opens a conflict in the merge editor",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(3);
      await vs.type("import math\n");
      await vs.waitForText("import math");
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await vs.notification("has a conflict").waitFor();
      await vs.bar("Conflict").waitFor();
      await vs.shotInThemes("1 told");
      await vs.notificationAction("has a conflict", "Resolve");
      await vs.editor("Merging: test_prices.py").waitFor();
      const both = vs.page.locator("a", { hasText: /^Accept Combination/ }).first();
      await both.waitFor();
      await vs.shot("2 merge editor");
      await both.click();
      await vs.clearNotifications();
      await vs.editorAction("Mark as Resolved");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      for (const merged of [/^import math$/m, /^import pytest$/m]) assert.match(vs.world.read(MINE) ?? "", merged);
      await vs.editor("Merging: test_prices.py").waitFor({ state: "hidden" });
      await vs.shot("3 merged");
    }),
  );

  it(
    "shows code lenses if they are enabled for diffs, and continues after a reload",
    inCode({ delegators: ["quick"], file: MINE, settings: { "diffEditor.codeLens": true } }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs, "quick", "Verified", false);
      await vs
        .codeLens(/Accept \(/)
        .first()
        .waitFor();
      await vs.shot("1 lenses");
      await vs
        .codeLens(/Accept \(/)
        .first()
        .click();
      await until(() => counts(vs, id) === "2 1 0", "one change is accepted");
      await vs.codeLens("Accepted by you").first().waitFor();
      await vs.shot("2 accepted");
      await vs.reload();
      await vs.waitForRow(VIEW, "Verified");
      await vs.viewAction(VIEW, "Next Pending Change");
      await until(
        async () => (await vs.statusBar()).some((item) => item.startsWith("Ln 14,")),
        "the cursor is on the next change",
      );
      assert.equal((await vs.tabs()).length, 2, "in the restored tab of the review");
      await vs.shot("3 after the reload");
    }),
  );
});
