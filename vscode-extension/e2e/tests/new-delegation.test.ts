/** The box of a new delegation, and its page, by keyboard. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("New Delegation", () => {
  it(
    "keeps a task of several lines and its files over a reload, and starts it with Ctrl+Enter @smoke",
    inCode({ delegators: ["quick"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      await vs.openFile("shop/prices.py"); // a file of the URL would be opened instead of the tabs of the last window
      await vs.command("Understudy: New Delegation");
      const page = vs.webview();
      await page.getByRole("listitem").filter({ hasText: "shop/prices.py" }).waitFor();
      const task = page.getByRole("textbox", { name: "Task" });
      await until(
        async () => task.evaluate((one) => one === one.ownerDocument.activeElement),
        "the task has the focus",
      );
      await vs.page.keyboard.type("Test the prices.");
      await vs.page.keyboard.press("Enter");
      await vs.page.keyboard.type("Also the labels.");
      await page.getByRole("button", { name: "Remove shop/prices.py" }).press("Delete");
      await until(async () => (await page.getByRole("listitem").count()) === 0, "the file is removed");
      await task.press("Control+End");
      await task.pressSequentially(" @pri");
      await page.getByRole("option", { name: "shop/prices.py", exact: true }).waitFor();
      await task.press("Enter");
      await page.getByRole("listitem").filter({ hasText: "shop/prices.py" }).waitFor();
      await page.getByLabel("Recipe").selectOption({ label: "Write tests" });
      await page.getByLabel("Delegator").selectOption({ label: "quick" });
      await vs.shot("1 form");
      await vs.reload();
      const again = vs.webview();
      await again.getByRole("listitem").filter({ hasText: "shop/prices.py" }).waitFor();
      const kept = again.getByRole("textbox", { name: "Task" });
      assert.equal(await kept.inputValue(), "Test the prices.\nAlso the labels. shop/prices.py ");
      await kept.press("Control+Enter");
      await until(() => vs.world.delegations().length === 1, "it is started");
      await until(async () => (await kept.inputValue()) === "", "the draft is used up");
      await vs.shot("2 started");
      const [{ id, delegator, recipe }] = vs.world.delegations();
      assert.deepEqual([delegator, recipe], ["quick", "tests"]);
      const folder = path.join(vs.world.state, "delegations", id);
      const read = (name: string): string => fs.readFileSync(path.join(folder, name), "utf8");
      const prompt = (): string =>
        fs
          .readdirSync(folder)
          .filter((name) => name.startsWith("prompt"))
          .map(read)
          .join("");
      await until(
        () => /Test the prices\.\n *Also the labels\. shop\/prices\.py/u.test(prompt()),
        "the agent gets both lines",
      );
      assert.match(prompt(), /shop\/prices\.py/u);
    }),
  );

  it(
    "starts with Enter in the box, which asks for a file where it needs one, and keeps its draft",
    inCode({ delegators: ["quick", "slow"] }, async (vs) => {
      await vs.openContainer();
      const box = vs.box();
      const task = box.getByRole("textbox", { name: "What should be done?" });
      await task.fill("Write tests for the prices.");
      await box
        .getByRole("combobox", { name: "Recipe" })
        .getByText("Write tests (guessed)")
        .waitFor({ state: "attached" });
      await box.getByLabel("Delegator").selectOption({ label: "quick" });
      await vs.shotInThemes("1 box"); // meanwhile, the draft is stored
      await vs.reload();
      await until(async () => (await task.inputValue()) === "Write tests for the prices.", "the draft is kept");
      await vs.openFile("shop/prices.py");
      await box.getByRole("listitem").filter({ hasText: "shop/prices.py" }).waitFor();
      await box.getByText(/quick · prompt of about .+ · cost unknown/).waitFor();
      await vs.shot("2 file");
      await box.getByRole("button", { name: "Remove shop/prices.py" }).press("Delete");
      await task.press("Enter");
      await vs.quickRows().filter({ hasText: "prices.py" }).first().waitFor();
      await vs.shot("3 which file");
      await vs.pick("prices.py", "");
      await until(() => vs.world.delegations().length === 1, "it is started");
      await until(async () => (await task.inputValue()) === "", "the draft is used up");
      await vs.waitForRow("Delegations", "quick");
      await vs.shotInThemes("4 started");
      assert.equal(vs.world.delegations()[0].delegator, "quick");
    }),
  );

  it(
    "changes the options of a delegator for one delegation, in the quick picks and on the page",
    inCode({ delegators: ["careful"], file: "shop/prices.py" }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "careful");
      await vs.command("Understudy: Delegate…");
      await vs.pick("Write tests");
      await vs.answer("");
      await vs.pick("Choose Another Delegator");
      await vs.pick("careful");
      await vs.pick("Change Options for This Delegation");
      await vs.pick("Permissions");
      await vs.pick("Plan only");
      await vs.shot("1 options");
      await vs.pick("Done");
      await vs.quickRows().filter({ hasText: "Permissions: Plan only" }).waitFor();
      await vs.escape();

      await vs.command("Understudy: New Delegation");
      const page = vs.webview();
      await page.getByRole("textbox", { name: "Task" }).fill("Test the prices.");
      await page.getByLabel("Recipe").selectOption({ label: "Write tests" });
      await page.getByLabel("Delegator").selectOption({ label: "careful" });
      await page.getByText("Options", { exact: true }).press("Enter");
      const model = page.getByLabel("Model");
      await model.fill("opus");
      await page.getByText("Options (1 changed)").waitFor();
      await vs.shot("2 page");
      await model.press("Control+Enter");
      await until(() => vs.world.delegations()[0]?.attempts[0]?.model === "opus", "it runs with the model");
      await until(async () => (await model.inputValue()) === "", "the options are used up");
    }),
  );
});
