/** Delegations in the editor: the view, transcripts, questions, Delegate with its preview, results. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { scenario, scripted } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const VIEW = "Delegations";

/** Two agents that agree on one file and differ in another. */
const RIVALS = {
  ...scenario({ write: "same.txt", text: "the same\n" }, { write: "notes.txt", text: "first\n" }),
  "rival.json": (
    scenario({ write: "same.txt", text: "the same\n" }, { write: "notes.txt", text: "second\n" }) as Record<
      string,
      string
    >
  )["scenario.json"] as string,
};
const rival = (name: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(scripted(name)).map(([file, text]) => [file, text.replace("scenario.json", "rival.json")]),
  );

async function finished(vs: Workbench, many = 1): Promise<any[]> {
  return until(() => {
    const all = vs.world.delegations();
    return all.length === many && all.every(({ state }) => state === "finished") ? all : undefined;
  }, `${many} delegations are finished`);
}

describe("delegations in the editor", () => {
  it(
    "explains an empty view, and delegates from the palette with a preview",
    inCode({ delegators: ["quick"], file: "shop/prices.py", configuration: byDefault("quick") }, async (vs) => {
      await openContainer(vs);
      await vs.view(VIEW).getByText("No delegations yet").waitFor();
      await vs.shot("1 welcome");
      await vs.command("Understudy: Delegate…");
      await vs.step("Delegate");
      await vs.shot("2 recipes");
      await vs.pick("Write tests");
      await vs.shot("3 words");
      await vs.answer("Mind the edges.");
      await vs.quickRows().filter({ hasText: "Delegate to quick" }).first().waitFor();
      await vs.shot("4 preview");
      await vs.pick("Delegate to quick", "");
      await finished(vs);
      await vs.notification(/Verified/).waitFor();
      await vs.shot("5 end");
      await vs.notificationAction(/Verified/, "Open");
      await vs.waitForRow(VIEW, "To Review");
      const page = vs.webview();
      await page.getByRole("heading", { name: "Attempt 1: quick" }).waitFor();
      const call = page.locator("summary", { hasText: "Read shop/prices.py" });
      await call.click();
      await page.getByText("Return what all of them cost.").waitFor();
      await page.getByText("Task as sent").click();
      await page.getByText("Mind the edges.").first().waitFor();
      await vs.shot("6 transcript");
      await call.click();
      await page.getByText("Task as sent").click();
      await vs.shotInThemes("7 to review");
      await page.getByRole("button", { name: "Open as Text" }).press("Enter");
      await vs.waitForText("Attempt 1: quick");
      await vs.codeLens("Review").first().waitFor();
      assert.match(await vs.editorText(), /Verified: a required check passed/);
      await until(async () => !/def discounted/.test(await vs.editorText()), "what tools said is folded");
      await vs.shot("8 text");
    }),
  );

  it(
    "tries the same with another delegator, compares the results, and accepts from either",
    inCode({ configuration: { ...scripted("one"), ...rival("two") }, files: RIVALS }, async (vs) => {
      vs.world.understudy("start", "implement", "--task", "Write notes", "--delegator", "one", "--detach");
      await openContainer(vs);
      await finished(vs);
      await vs.waitForRow(VIEW, "To Review");
      await vs.rowMenu(VIEW, "Write notes", "Also Try with…");
      await vs.quickRows().filter({ hasText: "two" }).first().waitFor();
      await vs.shot("1 also try");
      await vs.quickRows().filter({ hasText: "two" }).first().click();
      await vs.accept(true);
      await finished(vs, 2);
      await vs.command("Understudy: Compare Results…");
      const page = vs.webview();
      await page.getByRole("columnheader", { name: "two" }).waitFor();
      await vs.clearNotifications();
      await vs.shotInThemes("2 compare");
      await page.getByRole("button", { name: "Accept the change of one, two" }).press("Enter");
      await page.getByText("accepted", { exact: true }).waitFor();
      assert.equal(vs.world.read("same.txt"), "the same\n");
      await page.getByRole("button", { name: "Accept the change of two", exact: true }).press("Enter");
      await until(() => vs.world.read("notes.txt") === "second\n", "the other column's is accepted");
      await page.getByText("Conflicts with what you accepted from two.").waitFor();
      await vs.clearNotifications();
      await vs.shot("3 accepted");
      await page.getByRole("button", { name: "Open this change of one in the review" }).press("Enter");
      await vs.waitForRow("Review", "notes.txt");
    }),
  );

  it(
    "asks for a delegator if several are possible, and opens a review from its row only once",
    inCode({ delegators: ["quick", "slow"], file: "shop/prices.py" }, async (vs) => {
      await openContainer(vs);
      await vs.waitForRow("Delegators", "slow");
      await vs.editor("prices.py").click();
      await vs.command("Understudy: Delegate Tests for This File");
      await vs.step("Delegate");
      await vs.quickRows().filter({ hasText: "Add Delegator" }).first().waitFor();
      await vs.shot("1 who");
      await vs.pick("quick", "");
      const [done] = await finished(vs);
      assert.equal(done.delegator, "quick");
      const reviews = async (): Promise<string[]> =>
        (await vs.tabs()).filter((title) => /: Write tests: prices/.test(title));
      for (let times = 0; times < 2; times += 1) {
        await vs.waitForRow(VIEW, "To Review");
        await vs.rowAction(VIEW, "prices.py", "Review");
        await vs.bar("Change 1 of").waitFor();
        await until(async () => (await reviews()).length === 1, "there is one review");
        await vs.page.mouse.move(700, 400);
      }
      await vs.shot("2 review");
      // The page of the diagnostics must not need saving, and its lines are wrapped.
      await vs.command("Understudy: Run Diagnostics");
      const page = vs.webview().locator("body");
      await page.getByText("process namespace").waitFor();
      assert.ok(await page.evaluate((body) => body.scrollWidth <= body.clientWidth), "its lines are wrapped");
      assert.equal((await reviews()).length, 1);
      assert.deepEqual(
        (await vs.tabs()).filter((title) => /Untitled/.test(title)),
        [],
      );
      await vs.shot("3 this machine");
    }),
  );

  it(
    "keeps the selection, and a group that was collapsed, when a row moves to another group",
    inCode({ delegators: ["quick", "slow", "careful"] }, async (vs) => {
      await openContainer(vs);
      const start = (name: string): void =>
        vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", name, "--detach");
      start("careful");
      await vs.waitForRow(VIEW, "1 needing attention");
      start("quick");
      await vs.waitForRow(VIEW, "To Review1");
      start("slow");
      await vs.waitForRow(VIEW, "slow");
      await vs.row(VIEW, "To Review").click();
      await until(async () => (await vs.rowTexts(VIEW)).length === 4, "its row is hidden");
      await vs.row(VIEW, "slow").click();
      await until(async () => (await vs.selectedRow(VIEW)).includes("slow"), "its row is selected");
      start("quick");
      await vs.waitForRow(VIEW, "Now3");
      await vs.waitForRow(VIEW, "To Review2");
      await vs.waitForRow(VIEW, "Now2");
      assert.match(await vs.selectedRow(VIEW), /slow/);
      assert.equal((await vs.rowTexts(VIEW)).length, 4, "the group is still collapsed");
      await vs.row(VIEW, "To Review").click();
      await until(async () => (await vs.rowTexts(VIEW)).length === 6, "its rows are shown");
      await vs.shot("1 moved");
    }),
  );

  it(
    "shows a batch as one row with its members, reviews the next one and cancels all",
    inCode({ delegators: ["quick", "slow"], file: "shop/prices.py" }, async (vs) => {
      await openContainer(vs);
      const each = ["--delegator", "quick", "--delegator", "slow", "--detach"];
      vs.world.understudy("start", "tests", "shop/prices.py", ...each);
      await vs.waitForRow(VIEW, "1 of 2 done");
      const rows = (await vs.rowTexts(VIEW)).join("\n");
      assert.match(rows, /^Now ?2\n.*Batch of 2.*1 of 2 done · 1 running · 1 to review/);
      await vs.shotInThemes("1 batch");
      await vs.rowAction(VIEW, "1 of 2 done", "Review Next");
      await vs.bar("Change 1 of").waitFor();
      await vs.shot("2 review");
      await vs.rowAction(VIEW, "1 of 2 done", "Cancel All");
      await vs.waitForRow(VIEW, "2 of 2 done");
      assert.deepEqual(
        (await finished(vs, 2)).map(({ verdict }) => verdict).filter((verdict) => verdict === "cancelled"),
        ["cancelled"],
      );
      await vs.shot("3 cancelled");
    }),
  );

  it(
    "keeps a run without changes visible until it is dismissed, also in the next window",
    inCode({ configuration: scripted("idle"), files: scenario() }, async (vs) => {
      await openContainer(vs);
      vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "idle", "--detach");
      await vs.waitForRow(VIEW, "No changes");
      const rows = (await vs.rowTexts(VIEW)).join("\n");
      assert.match(rows, /^Now ?1 · 1 needing attention\n.*No changes · .+ · just now/);
      const items = (await vs.rowMenuItems(VIEW, "No changes")).join();
      for (const next of ["Retry", "Retry with…", "Show Log", "Dismiss"]) assert.match(items, new RegExp(next));
      await vs.shotInThemes("1 needs attention");
      await vs.rowAction(VIEW, "No changes", "Dismiss");
      await vs.row(VIEW, "needing attention").waitFor({ state: "hidden" });
      await vs.reload();
      await vs.waitForRow(VIEW, "Done");
      assert.doesNotMatch((await vs.rowTexts(VIEW)).join(), /Now/);
      await vs.row(VIEW, "Done").click();
      await vs.waitForRow(VIEW, "No changes");
      await vs.shotInThemes("2 dismissed");
    }),
  );

  it(
    "streams a transcript, and continues after the window was reloaded @smoke",
    inCode({ delegators: ["slow"], configuration: byDefault("slow") }, async (vs) => {
      await openContainer(vs);
      await vs.statusItem("Understudy").waitFor();
      await vs.openFile("shop/prices.py");
      await vs.command("Understudy: Delegate Tests for This File");
      await vs.waitForRow(VIEW, "prices.py");
      await vs.shot("1 running");
      // The row and the status bar show the run, and nothing else does.
      await vs.statusItem(/Write tests/).waitFor();
      await vs.row(VIEW, "prices.py").locator(".codicon-modifier-spin").waitFor();
      assert.equal((await vs.statusBar()).filter((item) => /Write tests|Considering|sync/.test(item)).length, 1);
      assert.equal(await vs.page.locator(".codicon-modifier-spin:visible").count(), 1, "the icon of the row");
      assert.equal(await vs.page.locator(".monaco-progress-container.active:visible").count(), 0);
      assert.doesNotMatch((await vs.notifications()).join(), /already registered/);
      const said = vs.webview().getByText("Considering case").first();
      await vs.pressUntil(vs.row(VIEW, "prices.py"), said);
      await vs.shot("2 transcript");
      await vs.reload();
      await until(() => vs.world.sidecars().length === 1, "a new sidecar runs");
      await said.waitFor();
      assert.equal((await vs.tabs()).filter((title) => title.includes("Write tests")).length, 1);
      await vs.shot("3 after the reload");
      await vs.webview().getByRole("textbox", { name: "Message to the agent" }).fill("Mind the zero.");
      await vs.webview().getByRole("button", { name: "Send" }).click();
      await vs.webview().getByRole("log").getByText("Mind the zero.").waitFor();
      await vs.shot("4 said");
      vs.world.release();
      await finished(vs);
      await vs.notification(/prices/).waitFor();
      await vs.webview().getByRole("button", { name: "Review" }).waitFor();
      await vs.shot("5 end");
    }),
  );

  it(
    "is available in the menus of editors and the explorer, and includes unsaved text",
    inCode({ delegators: ["quick"], file: "shop/prices.py", configuration: byDefault("quick") }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(21);
      await vs.type("\n\ndef unsaved() -> int:\n    return 1\n");
      await vs.editorMenu();
      await vs.menuItems().filter({ hasText: "Delegate Tests for This File" }).first().waitFor();
      await vs.shot("1 editor menu");
      await vs.menu("Delegate Tests for This File");
      await until(() => vs.world.delegations().length === 1, "it is started");
      await vs.statusItem(/Write tests/).waitFor();
      await vs.shot("2 progress");
      await finished(vs);
      assert.equal(vs.world.read("shop/prices.py")?.includes("unsaved"), false, "nothing was saved");
      await vs.goTo(6);
      await vs.page.keyboard.press("Shift+ArrowDown");
      await vs.command("Understudy: Delegate Selection…");
      await vs.step("Delegate");
      await vs.shot("3 selection");
      await vs.pick("Explain this code");
      await vs.quickRows().filter({ hasText: "Delegate to quick" }).first().waitFor();
      await vs.shot("4 preview of a selection");
      await vs.pick("Show Full Prompt", "", true);
      await vs.waitForText("# Selected: lines");
      await vs.step("Explain this code");
      await vs.shot("5 what is sent");
      await vs.escape();
      await vs.openContainer("Explorer");
      await vs.page
        .locator(".explorer-folders-view .monaco-list-row", { hasText: "__init__.py" })
        .first()
        .click({ button: "right" });
      await vs.menuItems().filter({ hasText: "Delegate" }).first().waitFor();
      await vs.shot("6 explorer menu");
      await vs.page.keyboard.press("Escape");
    }),
  );

  it(
    "shows a question in the view, the transcript and a notification @smoke",
    inCode({ delegators: ["careful"], file: "shop/prices.py", configuration: byDefault("careful") }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await openContainer(vs);
      await vs.command("Understudy: Delegate Tests for This File");
      await vs.waitForRow(VIEW, "needing attention");
      await vs.notification(/rm -rf build/).waitFor();
      await vs.shot("1 asked");
      const reject = vs.webview().getByRole("button", { name: "Reject" });
      await vs.pressUntil(vs.row(VIEW, "prices.py"), reject);
      await vs.webview().getByText("rm -rf build").first().waitFor();
      await vs.shotInThemes("2 question");
      await vs.page.mouse.move(700, 400); // away from the icon, whose tooltip would be in the way
      await vs.rowAction(VIEW, "prices.py", "Answer");
      await vs.shot("3 pick");
      await vs.escape();
      await reject.press("Enter");
      await vs.webview().getByText("answered in an editor").waitFor();
      await finished(vs);
      await vs.shot("4 end");
    }),
  );
});

function byDefault(name: string): Record<string, string> {
  return { "config.toml": `[defaults]\ndelegator = "${name}"\n` };
}

/** Move the pointer away from the icon, whose tooltip would be in the way. */
async function openContainer(vs: Workbench): Promise<void> {
  await vs.openContainer();
  await vs.page.mouse.move(700, 400);
}
