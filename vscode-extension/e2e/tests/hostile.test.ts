/** Text of agents is shown as plain text in the editor. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";
import { PYTHON } from "../driver/fixture.ts";

const WORDS = "[Read the report](command:workbench.action.files.newUntitledFile) $(verified-filled)";
const HTML = '<img src="https://example.invalid/x" onerror="document.body.remove()"><a href="command:x">here</a>';
const SCENARIO = {
  steps: [
    { say: `${HTML}\u202egnp.exe` },
    { event: { type: "tool_call", callId: "1", name: "run", title: WORDS, input: {} } },
    { hang: true },
  ],
};
const COMMAND = [PYTHON, "-m", "understudy.testing.agent", "agent.json"].map((word) => JSON.stringify(word)).join(", ");

describe("text of an agent", () => {
  it(
    "becomes neither a command nor an icon, neither in the status bar nor in a transcript, where the run is cancelled",
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
        await vs.statusItem(/Read the report/).waitFor();
        const item = vs.statusItem(/Read the report/);
        assert.equal(await item.locator(".codicon").count(), 1, "our own icon, and no other");
        const page = vs.webview();
        await vs.openContainer();
        await vs.pressUntil(vs.row("Delegations", "prices.py"), page.getByText("Read the report").first());
        await vs.shot("transcript");
        const text = await page.locator("[role=log]").innerText();
        assert.ok(text.includes(HTML) && text.includes(WORDS), text);
        assert.doesNotMatch(text, /\u202e/);
        // An address of the web is a link, which the editor opens only after asking; a command never is.
        assert.equal(await page.locator('img, [src], a:not([href^="https://"])').count(), 0);
        await page.getByRole("button", { name: "Cancel" }).press("Enter");
        await until(() => vs.world.delegations().every(({ state }) => state === "finished"), "it is cancelled");
      },
    ),
  );
});
