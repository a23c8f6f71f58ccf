/** An agent in tmux: its terminal in the editor. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

const VIEW = "Delegations";

/** Asks in its terminal, and writes what the user answers. */
const WATCHED = `name = "watched"
tool = "generic"
mode = "tmux"

[launch]
command = ["sh", "-c", '''
printf "May I write the test? "
read -r answer
printf "def test_label():\\n    assert %s\\n" "$answer" > tests/test_label.py
printf "You said %s.\\n" "$answer" > .understudy-run/done.md.tmp
mv .understudy-run/done.md.tmp .understudy-run/done.md
sleep 60
''', "watched", "{promptFile}"]
`;

describe("an agent in tmux", () => {
  const settings = { "terminal.integrated.gpuAcceleration": "off" }; // otherwise its text is pixels only
  const configuration = { "delegators/watched.toml": WATCHED };

  it(
    "shows its terminal in the editor, where the user answers it, and ends it with the run",
    inCode({ configuration, settings, file: "shop/prices.py" }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "watched");
      const { id } = vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "watched", "--detach");
      await vs.waitForRow(VIEW, "Now");
      await until(() => vs.world.understudy("show", id).terminal !== undefined, "its pane is open");
      await vs.rowAction(VIEW, "prices.py", "Attach to Terminal");
      const terminal = vs.page.locator(".terminal-wrapper.active");
      await until(async () => /May.I.write/u.test(await terminal.innerText()), "the question is shown");
      await vs.shot("1 attached");
      await terminal.click();
      await vs.page.keyboard.type("1 == 1");
      await vs.page.keyboard.press("Enter");
      await until(() => vs.world.understudy("show", id).state === "finished", "the agent got the answer");
      const shown = vs.world.understudy("show", id);
      assert.match(shown.summary ?? JSON.stringify(shown), /You said 1 == 1/);
      await vs.waitForRow(VIEW, "To Review");
      assert.ok(!(await vs.rowMenuItems(VIEW, "watched")).includes("Attach to Terminal"));
      await vs.shot("2 finished");
      await until(() => !vs.world.processes().some(({ argv }) => argv.includes("watched")), "the agent is ended");
    }),
  );
});
