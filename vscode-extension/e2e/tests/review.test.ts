/** Review in the editor: decisions per change on the native diff, what is open and what is not, sending back, conflicts. */
import assert from "node:assert/strict";
import { until } from "../rig/base.ts";
import { counts, editResult, reviewing, scenario, scripted, VIEW } from "../rig/review.ts";
import { inCode } from "../rig/test.ts";

const MINE = "tests/test_prices.py";

const OBEYED = scenario(
  { write: ".github/workflows/test.yml", text: "on: push\n" },
  { write: "tests/test_one.py", text: "def test_one():\n    assert True\n" },
);

describe("review", () => {
  it(
    "accept one hunk, reject one with a reason, send back, undo",
    inCode({ delegators: ["quick"], file: MINE, seconds: 240 }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(6);
      await vs.type("# not saved yet\n");
      await vs.waitForText("# not saved yet");
      const id = await reviewing(vs);
      assert.deepEqual(await vs.diffFiles(), ["test_prices.py/tests", "test_prices_more.py/tests A"]);
      // What it came to, and why, is read before the first button.
      assert.match((await vs.tabs()).join(), /Review: Write tests: prices.py/);
      const [verdict, check] = await vs.rowTexts(VIEW);
      assert.match(verdict ?? "", /^Verified/);
      assert.match(check ?? "", /tests-pytest.*passed · 5 passed · 5 of 5 can fail/);
      assert.match((await vs.rowLabels(VIEW)).join("\n"), /undecided, import pytest, line 3/);
      await vs.shot("1 multi diff light");
      await vs.theme("Dark Modern");
      await vs.shot("2 multi diff dark");
      await vs.theme("Dark High Contrast");
      await vs.shot("3 multi diff high contrast");
      await vs.theme("Light Modern");

      // One change, from its bar. The file is open: its editor changes, with what is not saved in it, and not the disk.
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "one change is accepted");
      await vs.waitForRow(VIEW, "accepted");
      await vs.bar("Change 1 of 3").waitFor({ state: "hidden" });
      assert.equal(vs.world.read(MINE)?.includes("pytest"), false);
      await vs.shot("4 accepted");

      // The next one by keys, with a reason; then it goes on to the last one.
      await vs.row(VIEW, "test_more_than").click();
      await until(async () => (await vs.statusBar()).some((item) => item.startsWith("Ln 14,")), "it is at the change");
      await vs.page
        .locator(".editor-instance .modified .view-line", { hasText: "discounted(1000, 101)" })
        .first()
        .click();
      await vs.page.keyboard.press("Shift+Alt+n");
      await vs.step("Reject with a Reason");
      await vs.shot("5 reason");
      await vs.answer("Say what 101 means.");
      await until(() => counts(vs, id) === "1 1 1", "one change is rejected");
      await vs.waitForRow(VIEW, "Say what 101 means.");
      await vs.editor("test_prices_more.py: review").waitFor();
      await vs.bar("Change 3 of 3").waitFor();
      await vs.shot("6 next");

      // One Ctrl+Z, and the person's own text stays.
      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.shot("7 my file");
      await vs.page.keyboard.press("Control+z");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the change is gone");
      assert.match(await vs.editorText(), /# not saved yet/);
      await vs.page.keyboard.press("Control+y");
      await vs.waitForText("import pytest");

      // Undo from the view: the hunk is undecided again.
      await vs.viewAction(VIEW, "Take the Last Accept Back");
      await until(() => counts(vs, id) === "2 0 1", "the accept is taken back");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the change is gone again");
      assert.match(await vs.editorText(), /# not saved yet/);

      // Accept the rest: one file in the editor, one on disk. Take both back at once.
      await vs.viewAction(VIEW, "Accept All Changes");
      await vs.notification("Everything is decided: 2 accepted, 1 rejected").waitFor();
      assert.match(vs.world.read("tests/test_prices_more.py") ?? "", /test_total_of_a_cart/);
      await vs.shot("8 decided");
      await vs.viewAction(VIEW, "Take the Last Accept Back");
      await until(() => counts(vs, id) === "2 0 1", "both are taken back");
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
    "shows the evidence",
    inCode({ delegators: ["liar"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await reviewing(vs, "liar", "Unverified");
      await vs.waitForRow(VIEW, "every new test still passes");
      await vs.bar("every new test still passes").waitFor();
      assert.match(await vs.bar("Change 1 of 1").innerText(), /every new test still passes/);
      await vs.shot("1 reservation");
      // Bars can be folded in and come back, and nothing else opens for them.
      await vs.barAction("Change 1 of 1", "Collapse");
      await vs.bar("Change 1 of 1").waitFor({ state: "hidden" });
      await vs.barSigns().first().click();
      await vs.bar("every new test still passes").waitFor();
      assert.equal(await vs.view("Comments").isVisible(), false);
      await vs.row(VIEW, "Unverified").click();
      await vs.webview().locator("h1", { hasText: "Unverified" }).waitFor();
      await vs.shot("2 evidence");
      await vs.theme("Dark Modern");
      await vs.shot("3 evidence dark");
    }),
  );

  it(
    "keeps edits of the result, and tells of a result that became another one",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      const line = await editResult(vs);
      await vs.shot("1 edited");
      await vs.barAction("edited by you", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "the edited change is accepted");
      await vs.editor("test_prices.py").click();
      await vs.waitForText("# one above everything");

      // Somebody else edits the same file of the result, while this edit is not saved.
      await vs.command("Understudy: Review…");
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
    "asks before it accepts what is executed or obeyed",
    inCode({ file: MINE, configuration: scripted("ci"), files: OBEYED }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs, "ci", "Unverified");
      await vs.bar("runs in continuous integration").waitFor();
      await vs.viewAction(VIEW, "Accept All Changes");
      await vs.dialog().waitFor();
      assert.match(await vs.dialog().innerText(), /\.github\/workflows\/test\.yml/);
      await vs.shot("1 asked");
      await vs.dialogAction("Accept Only the Others");
      await until(() => counts(vs, id) === "1 1 0", "the other one is accepted");
      assert.equal(vs.world.read(".github/workflows/test.yml"), undefined);
    }),
  );

  it(
    "opens what does not merge in the merge editor",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(3);
      await vs.type("import math\n");
      await vs.waitForText("import math");
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await vs.notification("do not merge").waitFor();
      await vs.bar("does not merge").waitFor();
      await vs.shot("1 told");
      await vs.notificationAction("do not merge", "Resolve");
      await vs.editor("Merging: test_prices.py").waitFor();
      const both = vs.page.locator("a", { hasText: /^Accept Combination/ }).first();
      await both.waitFor();
      await vs.shot("2 merge editor");
      await both.click();
      await vs.save();
      await until(() => vs.world.read(MINE)?.includes("import pytest"), "the merge is saved");
      await vs.notificationAction("Is the change that did not merge in it now?", "It Is Merged");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      await vs.shot("3 merged");
    }),
  );

  it(
    "has lenses for who shows lenses in diffs, and goes on after a reload",
    inCode({ delegators: ["quick"], file: MINE, settings: { "diffEditor.codeLens": true } }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs, "quick", "Verified", false);
      await vs
        .codeLens(/Accept$/)
        .first()
        .waitFor();
      await vs.shot("1 lenses");
      await vs
        .codeLens(/Accept$/)
        .first()
        .click();
      await until(() => counts(vs, id) === "2 1 0", "one change is accepted");
      await vs.codeLens("accepted").first().waitFor();
      await vs.shot("2 accepted");
      await vs.reload();
      await vs.waitForRow(VIEW, "Verified");
      await vs.viewAction(VIEW, "Next Undecided Change");
      await vs.editor("test_prices.py: review").waitFor();
      await vs.shot("3 after the reload");
    }),
  );
});
