/** The Delegators page: add, edit, test, by keyboard. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("Delegators page", () => {
  it(
    "adds an agent on this machine, by keyboard @smoke",
    inCode({ delegators: ["careful"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "careful");
      await vs.command("Understudy: Add Delegator");
      const page = vs.webview();
      const search = page.getByRole("searchbox");
      await page.getByRole("button", { name: "Add: Claude Code" }).waitFor();
      await until(
        async () => search.evaluate((one) => one === one.ownerDocument.activeElement),
        "the search has the focus",
      );
      await vs.shot("1 found");
      await vs.page.keyboard.type("local");
      await page.getByText("Ollama").first().waitFor();
      await vs.shot("2 search");
      await search.fill("claude");
      await page.getByRole("button", { name: "Add: Claude Code" }).press("Enter");
      await page.getByLabel("Model", { exact: true }).fill("claude-opus-4-6");
      const name = page.getByLabel("Name", { exact: true });
      await name.fill("careful");
      await name.press("Enter");
      await page.getByRole("alert").filter({ hasText: "already exists" }).waitFor();
      await vs.shot("3 name taken");
      await name.fill("thorough");
      await page.getByText("Options", { exact: true }).press("Enter");
      await vs.shot("4 options");
      await name.press("Enter");
      await page.getByText("thorough saved.").waitFor();
      await vs.waitForRow("Delegators", "thorough");
      await vs.shot("5 saved");
      const made = vs.world
        .understudy("delegators", "list")
        .delegators.find((one: any) => one.delegator.name === "thorough");
      assert.equal(made?.delegator.tool, "claude");
      assert.equal(made?.delegator.model, "claude-opus-4-6");
    }),
  );

  it(
    "installs an agent in the terminal when the user chooses it, and continues with its command",
    inCode({}, async (vs) => {
      const npm = path.join(vs.world.home, "bin", "npm");
      const installed = path.join(vs.world.home, "bin", "crush");
      fs.mkdirSync(path.dirname(npm));
      const program = `#!/bin/sh\necho 0.96.1\n`;
      fs.writeFileSync(
        npm,
        `#!/bin/sh\nprintf '${program.replaceAll("\n", "\\n")}' > ${installed}\nchmod +x ${installed}\n`,
      );
      fs.chmodSync(npm, 0o755);
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.command("Understudy: Add Delegator");
      const page = vs.webview();
      await page.getByText("Install Crush").press("Enter");
      await vs.shot("1 how to install it");
      assert.ok(!fs.existsSync(installed), "nothing runs before the user chooses it");
      const row = page.getByRole("listitem").filter({ hasText: "Install Crush" });
      await row.getByRole("button", { name: "Run in Terminal" }).press("Enter");
      await until(() => fs.existsSync(installed), "the command runs in a terminal");
      await row.getByRole("button", { name: "Check Again" }).press("Enter");
      await page.getByRole("button", { name: "Add: Crush" }).press("Enter");
      const command = page.getByLabel(/^Command/u);
      assert.match(await command.inputValue(), /crush run/);
      await page.getByText("{prompt}", { exact: true }).waitFor();
      await vs.shot("2 its command");
    }),
  );

  it(
    "adds a model server, shows why a test failed, and saves only what works",
    inCode({}, async (vs) => {
      const address = await vs.world.modelServer();
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.command("Understudy: Add Delegator");
      const page = vs.webview();
      await page.getByRole("button", { name: "Add: Another server" }).press("Enter");
      const url = page.getByLabel(/^Base URL/u);
      await url.fill("127.0.0.1:1/v1");
      await url.press("Enter");
      await page
        .getByRole("alert")
        .filter({ hasText: /such as|begin with/u })
        .waitFor();
      await url.fill(address);
      await page.getByLabel("Name", { exact: true }).fill("scripted");
      await url.press("Enter");
      await vs.step("API Key for scripted");
      await vs.shot("1 key");
      await vs.escape(); // no key
      await page.getByLabel("Models of scripted").selectOption("401");
      await vs.shot("2 models");
      await page.getByRole("button", { name: "Test and Save" }).press("Enter");
      await page.getByRole("button", { name: "Save Anyway" }).waitFor();
      await vs.shot("3 does not work");
      const saved = (): string[] =>
        vs.world.understudy("delegators", "list").delegators.map((one: any) => one.delegator.name);
      assert.deepEqual(saved(), ["ghostwriter"], "what does not work is not saved");
      await page.getByLabel("Models of scripted").selectOption("good");
      await page.getByRole("button", { name: "Test and Save" }).press("Enter");
      await page.getByText("scripted-good saved.").waitFor();
      await vs.shot("4 saved");
      assert.ok(saved().includes("scripted-good"));
    }),
  );

  it(
    "asks for the folder in a window with several folders",
    inCode({ closed: true }, async (vs) => {
      const other = path.join(vs.world.root, "other");
      fs.mkdirSync(other);
      const file = path.join(vs.world.root, "both.code-workspace");
      fs.writeFileSync(file, JSON.stringify({ folders: [{ path: vs.world.repository }, { path: other }] }));
      await vs.page.goto(`${vs.code.url}?workspace=${encodeURIComponent(file)}`);
      await vs.loaded();
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.command("Understudy: Add Delegator");
      const page = vs.webview();
      await page.getByRole("button", { name: "Add: Ghostwriter" }).press("Enter");
      const name = page.getByLabel("Name", { exact: true });
      await name.fill("shared");
      await page.getByLabel("Save for").selectOption({ label: "other" });
      await vs.shot("places");
      await name.press("Enter");
      await vs.waitForRow("Delegators", "shared");
      assert.ok(fs.existsSync(path.join(other, ".understudy", "delegators", "shared.toml")));
    }),
  );

  it(
    "edits with everything filled in, changes nothing when it is saved unchanged, and removes a permission rule",
    inCode({ claude: true }, async (vs) => {
      const address = await vs.world.modelServer();
      vs.world.understudy("servers", "add", "scripted", "--kind", "custom", "--url", address);
      vs.world.understudy("delegators", "add", "cheap", "--server", "scripted", "--model", "good");
      await vs.openContainer();
      await vs.waitForRow("Delegators", "cheap");
      const file = path.join(vs.world.configuration, "delegators", "cheap.toml");
      const before = fs.readFileSync(file);
      await vs.rowAction("Delegators", "cheap", "Edit Delegator");
      const page = vs.webview();
      await page.getByText("Edit Delegator cheap").waitFor();
      assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "good");
      await page.getByRole("option", { name: /^good/u }).waitFor({ state: "attached" });
      await vs.shot("1 edit");
      await page.getByLabel("Name", { exact: true }).press("Enter");
      await page.getByText("cheap saved.").waitFor();
      assert.deepEqual(fs.readFileSync(file), before);
      await page.getByRole("button", { name: "Test: cheap" }).press("Enter");
      await page.getByText(/^Answered/u).waitFor();
      await vs.shot("2 tested");
      await vs.reload();
      await vs.webview().getByRole("searchbox").waitFor(); // the tab is restored
    }),
  );
});
