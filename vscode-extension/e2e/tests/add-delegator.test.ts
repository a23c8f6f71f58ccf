/** Add Delegator, by keyboard. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("Add Delegator", () => {
  it(
    "adds an agent on this machine, by keyboard",
    inCode({ delegators: ["careful"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "careful");
      await vs.command("Understudy: Add Delegator");
      await vs.step("Add Delegator");
      await vs.quickRows().filter({ hasText: "Claude Code" }).first().waitFor();
      await vs.shot("1 source");
      await vs.pick("Claude Code");
      await vs.quickRows().filter({ hasText: "Default model of the tool" }).first().waitFor();
      await vs.shot("2 model");
      await vs.back();
      await vs.quickRows().filter({ hasText: "Claude Code" }).first().waitFor();
      await vs.pick("Claude Code");
      await vs.pick("claude-opus-4-6");
      await vs.quickRows().filter({ hasText: "Continue" }).first().waitFor();
      await vs.shot("3 options");
      await vs.pick("Continue");
      await vs.quickInput().fill("careful");
      await until(async () => (await vs.quickMessage()).includes("already exists"), "a name that is taken is refused");
      await vs.shot("4 name taken");
      await vs.answer("thorough");
      await vs.shot("5 scope");
      await vs.accept();
      await vs.waitForRow("Delegators", "thorough");
      await vs.notification("thorough").waitFor();
      await vs.shot("6 saved");
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
      await vs.quickRows().filter({ hasText: "Install Claude Code" }).first().waitFor();
      await vs.shot("1 agents to install");
      await vs.pick("Install Crush", "Install Crush");
      await vs.step("Install Crush");
      await vs.shot("2 how to install it");
      assert.ok(!fs.existsSync(installed), "nothing runs before the user chooses it");
      await vs.pick("Check Again");
      await until(
        async () => (await vs.quickInput().getAttribute("placeholder"))?.includes("was not found") ?? false,
        "it is not there yet",
      );
      await vs.pick("Run in Terminal");
      await until(() => fs.existsSync(installed), "the command runs in a terminal");
      await vs.step("Install Crush");
      await vs.shot("3 in the terminal");
      await vs.pick("Check Again");
      await until(async () => (await vs.quickInput().inputValue()).includes("crush run"), "the command is offered");
      await vs.shot("4 its command");
      await vs.escape();
    }),
  );

  it(
    "adds a model server, tests the model before saving it, and goes back when the test fails",
    inCode({}, async (vs) => {
      const address = await vs.world.modelServer();
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.command("Understudy: Add Delegator");
      await vs.pick("Add Model Server");
      await vs.pick("Another server");
      await vs.quickInput().fill("127.0.0.1:1/v1");
      await until(async () => /begin with|such as/.test(await vs.quickMessage()), "an invalid URL is refused");
      await vs.answer(address);
      await vs.answer("scripted");
      await vs.step("API Key");
      await vs.escape(); // no key
      await vs.step("Add Delegator");
      await vs.quickRows().first().waitFor();
      await vs.shot("1 models");
      await vs.pick("401", "401");
      await vs.pick("Continue");
      await vs.answer("refused");
      await vs.pick("You");
      await vs.dialog().waitFor();
      await vs.shot("2 does not work");
      assert.match(await vs.dialog().innerText(), /refused does not work/);
      const saved = (): string[] =>
        vs.world.understudy("delegators", "list").delegators.map((one: any) => one.delegator.name);
      assert.ok(!saved().includes("refused"), "what does not work is not saved");
      await vs.dialogAction("Edit");
      await vs.step("Add Delegator");
      await vs.escape();
      await vs.notification("no delegator uses it").waitFor();
      await vs.shot("3 the server stays");
      await vs.notificationAction("no delegator uses it", "Remove Server");
      await until(
        () =>
          vs.world.understudy("servers", "list").modelServers.every((one: any) => one.modelServer.name !== "scripted"),
        "the server is gone",
      );
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
      await vs.pick("Ghostwriter");
      await vs.pick("Default model of the tool");
      await vs.pick("Continue");
      await vs.answer("shared");
      await vs.step("Add Delegator");
      await until(async () => (await vs.quickRows().count()) === 3, "there are three places");
      await vs.shot("places");
      await vs.pick("other");
      await vs.waitForRow("Delegators", "shared");
      assert.ok(fs.existsSync(path.join(other, ".understudy", "delegators", "shared.toml")));
      await vs.shot("saved");
    }),
  );
});
