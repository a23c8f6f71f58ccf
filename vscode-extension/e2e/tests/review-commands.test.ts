/** Commands of a review besides deciding: export, checks, close, navigation; and changes made elsewhere. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, editResult, reviewing, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";

const MINE = "tests/test_prices.py";
const MORE = "tests/test_prices_more.py";

describe("review commands", () => {
  it(
    "export the result without rejected changes as a patch, a commit and a branch",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      // Reject a whole file from its row.
      await vs.rowAction(VIEW, "test_prices_more.py", "Reject All Changes in This File");
      await until(() => counts(vs, id) === "2 0 1", "the file is rejected");
      const head = vs.world.git("rev-parse", "HEAD");

      await vs.command("Understudy: Export Result…");
      await vs.step("Export Result");
      await vs.shot("1 how");
      await vs.pick("Patch");
      await vs.waitForText("+import pytest");
      const patch = await vs.editorText();
      assert.doesNotMatch(patch, /test_prices_more/);
      await vs.shot("2 patch");
      vs.world.write({ "build/result.patch": `${patch.trimEnd()}\n` });
      vs.world.git("apply", "--check", "build/result.patch");

      await vs.command("Understudy: Export Result…");
      await vs.pick("Commit");
      await vs.notification("Exported as commit").waitFor();
      await vs.shot("3 commit");
      await vs.notificationAction("Exported as commit", "Copy Commit ID");
      const commit = await until(async () => {
        const copied = await vs.page.evaluate(() => navigator.clipboard.readText());
        return /^[0-9a-f]{40}$/.test(copied) && copied;
      }, "its id is copied");
      assert.match(vs.world.git("show", commit), /\+import pytest/);

      await vs.command("Understudy: Export Result…");
      await vs.pick("Branch");
      await vs.step("Export Result");
      await vs.shot("4 name");
      assert.equal(await vs.quickInput().inputValue(), `understudy/${id}`);
      await vs.answer("no good..name", true);
      await until(async () => /is not a valid branch name/.test(await vs.quickMessage()), "it is asked for again");
      assert.equal(await vs.quickInput().inputValue(), "no good..name");
      await vs.shot("5 bad name");
      await vs.answer("prices/tests");
      await vs.notification("Exported to the branch prices/tests").waitFor();
      await vs.shot("6 branch");
      assert.match(vs.world.git("show", "prices/tests:tests/test_prices.py"), /import pytest/);
      assert.equal(vs.world.git("rev-parse", "HEAD"), head);
      assert.equal(vs.world.git("status", "--short").trim(), "");
    }),
  );

  it(
    "run the checks again on an edited result, and close the review",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await reviewing(vs);
      await editResult(vs);
      await vs.waitForRow(VIEW, "passed before your edits");
      await vs.rowAction(VIEW, "edited after the checks ran", "Run Checks Again");
      // Its row, the verdict and the status bar show that they run, and nothing else does.
      await vs.statusItem(/Checking/).waitFor();
      await vs.waitForRow(VIEW, "Checking");
      assert.deepEqual(await vs.notifications(), []);
      await vs.shot("1 checking");
      await vs.row(VIEW, "Unverified").waitFor({ state: "hidden" });
      await vs.waitForRow(VIEW, "Verified");
      await vs.statusItem(/Checking/).waitFor({ state: "hidden" });
      await vs.shot("2 verified");

      await vs.pressUntil(vs.row(VIEW, "Verified"), vs.webview().locator("h1", { hasText: "Verified" }));
      await vs.command("Understudy: Close Review");
      await vs.view(VIEW).waitFor({ state: "hidden" });
      await until(async () => (await vs.tabs()).length === 1, "its tabs are closed");
      await vs.shot("3 closed");
    }),
  );

  it(
    "go to the next and previous change across files, by keys",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      await vs.statusItem("Ln 2, Col 1").waitFor(); // opening the review moves the cursor last
      // The cursor says that it opened: the list also selects a row when a press is lost.
      await vs.pressUntil(vs.row(VIEW, "What a cart costs"), vs.statusItem("Ln 1, Col 1"));
      await vs.bar("Change 3 of 3").waitFor();
      const keys: string[] = [];
      const at = async (key: string, text: string): Promise<void> => {
        await vs.page.keyboard.press(key);
        await until(async () => (await vs.selectedRow(VIEW)).includes(text), `${key} goes to ${text} ${keys.join()}`);
        keys.push(key);
      };
      await vs.viewAction(VIEW, "Next Pending Change");
      await until(async () => (await vs.selectedRow(VIEW)).includes("import pytest"), "it is at the first");
      await at("Alt+F5", "test_more_than");
      await at("Alt+F5", "What a cart costs");
      await vs.shot("1 last");
      await at("Alt+F5", "import pytest");
      await at("Shift+Alt+F5", "What a cart costs");
      await at("Shift+Alt+F5", "test_more_than");
      await vs.page.keyboard.press("Alt+y");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      await until(
        async () => (await vs.selectedRow(VIEW)).includes("What a cart costs"),
        "the next change is selected",
      );
      await at("Alt+F5", "import pytest");
      await vs.shot("2 over what is left");
    }),
  );

  it(
    "reflect decisions made in a terminal, and open a second result",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      vs.world.understudy("accept", id, MORE);
      await vs.waitForRow(VIEW, "accepted");
      await vs.bar("Change 3 of 3").waitFor({ state: "hidden" });
      vs.world.understudy("reject", id, MINE, "--reason", "Not like this.");
      await vs.waitForRow(VIEW, "Not like this.");
      await vs.bar("Change 1 of 3").waitFor({ state: "hidden" });
      await vs.shot("1 decided in a terminal");
      // Undo in the editor what was accepted in a terminal.
      await vs.rowAction(VIEW, "What a cart", "Undo");
      await until(() => vs.world.read(MORE) === undefined, "the file is gone again");
      await vs.bar("Change 3 of 3").waitFor();

      await vs.viewAction(VIEW, "Send Back");
      await vs.step("Send Back");
      await vs.answer("Say what 101 means.");
      const reply = await until(
        () => vs.world.delegations().find(({ parentId }) => parentId === id),
        "it is sent back",
      );
      await vs.waitForRow(VIEW, "sent back");
      await vs.shot("2 sent back");
      await until(() => vs.world.understudy("show", reply.id).state === "finished", "the answer is there");
      await vs.notification(/Verified|without changing anything|Unverified/).waitFor();
      await vs.shot("3 second result");
      await vs.waitForRow(VIEW, "(round 2)");
      await vs.bar("Change 1 of").waitFor();
      await vs.shot("4 its review");
      assert.deepEqual(
        (await vs.tabs()).filter((tab) => tab.startsWith("Review:")),
        ["Review: Write tests: prices.py (round 2) (2 files)"],
      );
      await vs.command("Understudy: Close Review");
      await vs.view(VIEW).waitFor({ state: "hidden" });
      await vs.shot("5 closed");
      assert.equal((await vs.tabs()).length, 1);
    }),
  );
});
