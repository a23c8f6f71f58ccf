/** What is managed besides delegators: model servers, results, settings, and an engine that is missing. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, scenario, scripted } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";

const NOTES = scenario({ write: "notes.txt", text: "one\n" }, { write: "more.txt", text: "two\n" });

describe("managing", () => {
  it(
    "edits, tests and removes a model server, from its list",
    inCode({ delegators: ["quick"] }, async (vs) => {
      const address = await vs.world.modelServer();
      vs.world.understudy("servers", "add", "scripted", "--kind", "custom", "--url", address);
      const listed = (): string[] =>
        vs.world.understudy("servers", "list").modelServers.map((one: any) => one.modelServer.baseUrl);
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      await vs.command("Understudy: Manage Model Servers…");
      const page = vs.webview();
      await page.getByRole("button", { name: "Edit: scripted" }).press("Enter");
      const url = page.getByLabel(/^Base URL/u);
      await url.fill("http://127.0.0.1:1/v1");
      await url.press("Enter");
      await page.locator("form [role=status] .problem").waitFor();
      await vs.shot("1 does not work");
      assert.deepEqual(listed(), ["http://127.0.0.1:1/v1"]);
      await url.fill(address);
      await url.press("Enter");
      await page.getByRole("button", { name: "Set API Key…: scripted" }).press("Enter");
      await vs.step("API Key for scripted");
      await vs.shot("2 key");
      await vs.escape();
      await page.getByRole("button", { name: "Delete…: scripted" }).press("Enter");
      await vs.shot("3 delete");
      assert.deepEqual(listed(), [address]);
      await page.getByRole("button", { name: "Delete: scripted" }).press("Enter");
      await until(() => listed().length === 0, "the server is gone");
      await vs.command("Understudy: Open Settings");
      await vs.page.locator(".settings-editor", { hasText: "Which notifications are shown" }).waitFor();
      await vs.shot("4 settings");
    }),
  );

  it(
    "rejects all changes of a result, and discards several results at once",
    inCode({ configuration: scripted("notes"), files: NOTES }, async (vs) => {
      const start = (task: string): string =>
        vs.world.understudy("start", "implement", "--task", task, "--delegator", "notes", "--detach").id;
      const ids = ["First task", "Second task"].map(start);
      await until(() => vs.world.delegations().every(({ state }) => state === "finished"), "both are finished");
      await vs.openContainer();
      await vs.waitForRow("Delegations", "First task");
      await vs.pressUntil(vs.row("Delegations", "First task"), vs.bar("Change 1 of 2"));
      await vs.command("Understudy: Reject All Changes");
      await vs.dialog().filter({ hasText: "Reject all 2 pending changes?" }).waitFor();
      await vs.shot("1 reject all");
      await vs.dialogAction("Reject All");
      await until(() => counts(vs, ids[0] ?? "") === "0 0 2", "both changes are rejected");
      await vs.notification("Review complete: 0 accepted, 2 rejected").waitFor();
      await vs.shot("2 rejected");

      await vs.command("Understudy: Close Review"); // otherwise, the command is about its result
      await vs.command("Understudy: Discard Result…");
      for (const task of ["Second task", "First task"]) await vs.quickRows().filter({ hasText: task }).first().click();
      await vs.shot("3 which");
      await vs.accept(true);
      await vs.dialog().filter({ hasText: "Discard 2 results?" }).waitFor();
      assert.match(await vs.dialog().innerText(), /Second task[^]*First task/);
      await vs.shot("4 discard");
      await vs.dialogAction("Discard");
      await until(() => vs.world.delegations().every(({ rescueRef }) => rescueRef !== undefined), "both are discarded");
    }),
  );

  it(
    "installs a missing engine where a command needs it, and the command continues",
    inCode({ sidecar: false, file: "shop/prices.py" }, async (vs) => {
      await vs.statusItem("Understudy").locator(".codicon-circle-slash").waitFor();
      await vs.command("Understudy: Delegate Tests for This File");
      await vs.notification("Installing Understudy").waitFor();
      await vs.notification(/ghostwriter.*Verified/).waitFor();
      await vs.shot("1 delegated");
    }),
  );
});
