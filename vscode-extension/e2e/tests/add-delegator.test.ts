/** Add Delegator, by keyboard. */
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("Add Delegator", () => {
  it(
    "adds an agent on this machine, by keyboard @smoke",
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

  it(
    "keeps the row that has the focus while servers answer, and changes nothing when the user only presses Enter",
    inCode({ claude: true }, async (vs) => {
      const address = await vs.world.modelServer();
      vs.world.understudy("servers", "add", "scripted", "--kind", "custom", "--url", address);
      vs.world.understudy("delegators", "add", "cheap", "--server", "scripted", "--model", "good");
      // Answers when the test says so.
      const waiting: http.ServerResponse[] = [];
      const slow = http.createServer((_, response) => void waiting.push(response)).listen(0, "127.0.0.1");
      await new Promise((resolve) => slow.once("listening", resolve));
      const late = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/v1`;
      const servers = path.join(vs.world.configuration, "model-servers");
      const text = fs.readFileSync(path.join(servers, "scripted.toml"), "utf8");
      fs.writeFileSync(path.join(servers, "late.toml"), text.replace('"scripted"', '"late"').replace(address, late));
      try {
        await vs.openContainer();
        await vs.waitForRow("Delegators", "cheap");
        await vs.command("Understudy: Add Delegator");
        await until(() => waiting.length > 0, "a server is asked");
        await until(() => vs.quickIsBusy(), "the quick pick says that it still loads");
        for (let times = 0; times < 3; times += 1) await vs.quickInput().press("ArrowDown");
        const focused = await vs.focusedQuickRow();
        assert.doesNotMatch(focused, /Claude Code/);
        await vs.shot("1 moved");
        await until(async () => {
          for (const response of waiting.splice(0)) response.writeHead(500).end("not now");
          return !(await vs.quickIsBusy());
        }, "the server has answered");
        assert.equal(await vs.focusedQuickRow(), focused);
        await vs.shot("2 answered");
        await vs.escape();
      } finally {
        for (const response of waiting) response.destroy();
        slow.close();
      }

      const file = path.join(vs.world.configuration, "delegators", "cheap.toml");
      const before = fs.readFileSync(file);
      await vs.rowAction("Delegators", "cheap", "Edit Delegator");
      await vs.step("Edit Delegator cheap");
      await until(async () => (await vs.focusedQuickRow()).includes(address), "the current model server has the focus");
      await vs.shot("3 edit");
      await vs.accept();
      assert.match(await vs.focusedQuickRow(), /^good/);
      await vs.accept();
      assert.match(await vs.focusedQuickRow(), /Continue/);
      await vs.accept();
      await vs.accept(); // the name
      await vs.notification("cheap is unchanged").waitFor();
      await vs.shot("4 unchanged");
      assert.deepEqual(fs.readFileSync(file), before);
    }),
  );
});
