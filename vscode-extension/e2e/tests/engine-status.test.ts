/** How the extension speaks of a sidecar that is not there, stops, or is of another time; and the report of it all. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../rig/base.ts";
import { extensionFolder } from "../rig/code.ts";
import { inCode } from "../rig/test.ts";
import type { Workbench } from "../rig/workbench.ts";

describe("a machine without a sidecar", () => {
  it("gets the one that the extension carries, without a network, when its person says so", async function () {
    if (!fs.existsSync(path.join(extensionFolder(), "wheels", "requirements.txt"))) this.skip(); // not the whole VSIX
    await inCode({ sidecar: false, seconds: 240 }, async (vs) => {
      await vs.openContainer();
      await vs.welcome("Delegators").waitFor();
      await vs.shot("1 not installed");
      await vs.welcome("Delegators").locator("a", { hasText: "Install" }).first().click();
      await vs.notification("Installing Understudy").waitFor();
      await vs.shot("2 installing");
      await until(() => vs.world.sidecars().length === 1, "the installed sidecar runs", 180_000);
      await vs.waitForRow("Delegators", "ghostwriter");
      const [sidecar] = vs.world.sidecars();
      assert.match(sidecar?.argv.join(" ") ?? "", /globalStorage\/understudy\.understudy\/sidecar\//);
      await vs.shot("3 installed");

      // And it works, with what comes with it: nothing has been added.
      await vs.openFile("shop/prices.py");
      await vs.editorMenu();
      await vs.menu("Delegate Tests for This File");
      await vs.notification(/ghostwriter.*Verified/).waitFor({ timeout: 90_000 });
      await vs.notificationAction(/ghostwriter.*Verified/, "Review");
      await vs.bar("Change 1 of 1").waitFor();
      await vs.barAction("Change 1 of 1", "Accept");
      await until(() => vs.world.git("status", "--short").includes("?? tests/test_prices_"), "the tests are there");
      await vs.shot("4 first job");
    }).call(this);
  });
});

describe("a sidecar that does not fit", () => {
  for (const [protocol, says, offers] of [
    [99, /Upgrade the Understudy extension/, "Look for a Newer Extension"],
    [0, /Upgrade Understudy \(/, "Install Understudy"],
  ] as const) {
    it(
      `says which side to upgrade: protocol ${protocol}`,
      inCode({ sidecar: false, closed: true }, async (vs) => {
        program(vs, greeting(protocol));
        await vs.open();
        await vs.openContainer();
        await vs.notification(says).waitFor();
        await vs.welcome("Delegators").waitFor();
        await vs.shot("1 told");
        await vs.notificationAction(says, "What Now?");
        await vs.step("Understudy");
        assert.match((await vs.quickInput().getAttribute("placeholder")) ?? "", says);
        assert.ok((await vs.quickRowTexts()).some((row) => row.includes(offers)));
        await vs.shot("2 what now");
        await vs.page.keyboard.press("Escape");
      }),
    );
  }
});

describe("a sidecar that stops", () => {
  it(
    "is started again, and is given up with its own last words",
    inCode({ sidecar: false, closed: true, seconds: 180 }, async (vs) => {
      program(vs, '#!/bin/sh\necho "error: the disk is full" >&2\nexit 8\n');
      await vs.open();
      await vs.openContainer();
      const says = async (): Promise<string> =>
        (await vs.statusItem("Understudy").locator("a").getAttribute("aria-label")) ?? "";
      await vs.notification(/keeps stopping: .*the disk is full/).waitFor();
      await vs.shot("1 started again");
      await until(async () => (await says()).includes("stopped"), "it is given up", 90_000);
      await until(() => channel(vs).split("the sidecar ended: exit code 8").length === 7, "six starts are logged");
      assert.equal(channel(vs).split("the disk is full").length, 2, "what it said every time is logged once");
      assert.equal(/\[error\]|^\tat /m.exec(channel(vs))?.[0], undefined, "and nothing of a library");
      await vs.shot("2 given up");
      await vs.notificationAction("keeps stopping", "What Now?");
      await vs.step("Understudy");
      await vs.shot("3 what now");
      fs.rmSync(path.join(vs.world.home, "bin", "understudy"));
      program(vs, greeting(99));
      await vs.pick("Restart");
      await vs.notification(/Upgrade the Understudy extension/).waitFor();
    }),
  );

  it(
    "listening is ended, and started again",
    inCode({ sidecar: false, closed: true }, async (vs) => {
      const deaf = `        sys.stdout.flush()\n        os.close(1)\n        time.sleep(600)\n`;
      program(vs, `${greeting(1).replace("import json, sys", "import json, os, sys, time")}${deaf}`);
      await vs.open();
      await vs.openContainer();
      await vs.notification(/keeps stopping: .*it does not listen any more/).waitFor();
      await vs.shot("1 told");
      const [first] = vs.world.sidecars();
      await until(() => vs.world.sidecars().every(({ pid }) => pid !== first?.pid), "what hangs is ended");
      assert.ok(vs.world.sidecars().length <= 1, "one at a time");
      fs.rmSync(path.join(vs.world.home, "bin", "understudy"));
      program(vs, greeting(99));
      await vs.command("Understudy: Restart the Engine");
      await vs.notification(/Upgrade the Understudy extension/).waitFor();
    }),
  );
});

describe("a report", () => {
  const token = "a-token-that-nobody-may-read-1234";

  it(
    "says how things stand, and nothing that is the person's own",
    inCode(
      {
        delegators: ["quick", "broken"],
        environment: { SHOP_API_TOKEN: token },
      },
      async (vs) => {
        await vs.openContainer();
        await vs.waitForRow("Delegators", "quick");
        await vs.command("Developer: Set Log Level...");
        await vs.pick("Understudy");
        await vs.pick("Trace");
        vs.world.add("slow");
        await until(() => /understudy\/delegators\/list/.test(channel(vs)), "messages are traced into the channel");
        await vs.command("Understudy: Report Issue");
        await vs.waitForText("Understudy: report");
        await vs.shot("report");
        await vs.page.keyboard.press("Control+a");
        await vs.page.keyboard.press("Control+c");
        const text = await vs.page.evaluate(() => navigator.clipboard.readText());
        assert.match(text, /protocol 1, found by setting/);
        assert.match(text, /delegators: 4, not ready: 1/);
        for (const own of [token, vs.world.home, vs.world.repository, "test@example.invalid"]) {
          assert.ok(!text.includes(own), `${own} is in the report`);
        }
      },
    ),
  );
});

/** What the output channel holds. */
function channel(vs: Workbench): string {
  return Object.entries(vs.code.logs())
    .filter(([name]) => /Understudy\.log$/.test(name))
    .map(([, text]) => text)
    .join("\n");
}

/** Put a program of that name on PATH. */
function program(vs: Workbench, text: string): void {
  const file = path.join(vs.world.home, "bin", "understudy");
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text, { mode: 0o755 });
}

/** A server that greets with a contract of another time. */
function greeting(protocol: number): string {
  return `#!/usr/bin/env python3
import json, sys
def answer(request, result):
    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    sys.stdout.buffer.flush()
while True:
    length = 0
    while (line := sys.stdin.buffer.readline()).strip():
        length = int(line.partition(b":")[2])
    if not line:
        break
    request = json.loads(sys.stdin.buffer.read(length))
    if request["method"] == "initialize":
        said = {"protocolVersion": ${protocol}, "version": "7.0.0", "requests": [], "notifications": []}
        answer(request, {"capabilities": {"experimental": {"understudy": said}}})
    elif request["method"] == "exit":
        break
    elif "id" in request:
        answer(request, None)
`;
}
