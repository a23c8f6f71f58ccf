/** Text of agents is shown as plain text in the editor. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";
import { PYTHON } from "../driver/fixture.ts";

const WORDS = "[Read the report](command:workbench.action.files.newUntitledFile) $(verified-filled)";
const SCENARIO = {
  steps: [{ event: { type: "tool_call", callId: "1", name: "run", title: WORDS, input: {} } }, { hang: true }],
};
const COMMAND = [PYTHON, "-m", "understudy.testing.agent", "agent.json"].map((word) => JSON.stringify(word)).join(", ");

describe("text of an agent", () => {
  it(
    "becomes neither a link in progress nor an icon in the status bar",
    inCode(
      {
        file: "shop/prices.py",
        files: { "agent.json": JSON.stringify(SCENARIO) },
        configuration: {
          "config.toml": '[defaults]\ndelegator = "talker"\n',
          "delegators/talker.toml": `name = "talker"\ntool = "generic"\n\n[launch]\ncommand = [${COMMAND}]\noutput = "events"\n`,
        },
      },
      async (vs) => {
        await vs.statusItem("Understudy").waitFor();
        await vs.command("Understudy: Delegate Tests for This File");
        const progress = vs.notification(/Read the report/);
        await progress.waitFor();
        await vs.shot("progress");
        assert.equal(await progress.locator(".notification-list-item-message a").count(), 0);
        assert.match((await vs.notifications()).join().replaceAll("\u2060", ""), /\]\(command:workbench/);
        const item = vs.statusItem(/Read the report/);
        assert.equal(await item.locator(".codicon").count(), 1, "our own icon, and no other");
        await vs.notificationAction(/Read the report/, "Cancel");
        await until(() => vs.world.delegations().every(({ state }) => state === "finished"), "it is cancelled", 30_000);
      },
    ),
  );
});
