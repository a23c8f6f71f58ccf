/** A sidecar that is missing, crashes or is incompatible; and the issue report. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { E2E, until } from "../driver/environment.ts";
import { extensionFolder } from "../driver/vscodeServer.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

describe("a machine without a sidecar", () => {
  it("installs the bundled engine when its view is opened, without network access", async function () {
    if (!fs.existsSync(path.join(extensionFolder(), "wheels", "unpack_wheels.py"))) this.skip(); // not the complete VSIX
    await inCode({ sidecar: false }, async (vs) => {
      await vs.openContainer();
      const began = Date.now();
      await vs.notification("Installing Understudy").waitFor();
      await vs.shot("1 installing");
      await until(() => vs.world.sidecars().length === 1, "the installed sidecar runs", 180_000);
      await vs.waitForRow("Delegators", "ghostwriter");
      console.log(`installed and running after ${((Date.now() - began) / 1_000).toFixed(1)} s`);
      const [sidecar] = vs.world.sidecars();
      assert.match(sidecar?.argv.join(" ") ?? "", /globalStorage\/understudy\.understudy\/sidecar\//);
      await vs.shot("2 installed");

      // It works with the built-in delegator: none was added.
      await vs.openFile("shop/prices.py");
      await vs.editorMenu();
      await vs.menu("Delegate Tests for This File");
      await vs.notification(/ghostwriter.*Verified/).waitFor();
      await vs.notificationAction(/ghostwriter.*Verified/, "Review");
      await vs.codeLens(/Accept \(/).waitFor(); // one new file is shown without a diff
      // A reply to an agent without a model would have no effect.
      const items = (await vs.rowMenuItems("Review", "Verified")).join();
      assert.match(items, /Retry with…/);
      assert.doesNotMatch(items, /Send Back/);
      await vs.codeLens(/Accept \(/).click();
      await until(() => vs.world.git("status", "--short").includes("?? tests/test_prices_"), "the tests are there");
      await vs.shot("3 first job");
    }).call(this);
  });
});

describe("an incompatible sidecar", () => {
  for (const [protocol, says, offers] of [
    [99, /Update the extension/, "Check for Extension Updates"],
    [0, /Update the engine \(/, "Install Engine"],
  ] as const) {
    it(
      `reports which side to update: protocol ${protocol}`,
      inCode({ sidecar: false, closed: true }, async (vs) => {
        program(vs, greeting(protocol));
        await vs.open();
        await vs.openContainer();
        await vs.notification(says).waitFor();
        await vs.welcome("Delegations").waitFor();
        await vs.shot("1 told");
        await vs.notificationAction(says, "Show Options");
        await vs.step("Understudy");
        assert.match((await vs.quickInput().getAttribute("placeholder")) ?? "", says);
        assert.ok((await vs.quickRowTexts()).some((row) => row.includes(offers)));
        await vs.shot("2 what now");
        await vs.escape();
      }),
    );
  }
});

describe("a crashing sidecar", () => {
  it(
    "is restarted several times, then reported as failed with its last output",
    inCode({ sidecar: false, closed: true }, async (vs) => {
      program(vs, '#!/bin/sh\necho "error: the disk is full" >&2\nexit 8\n');
      await vs.open();
      await vs.openContainer();
      const says = async (): Promise<string> =>
        (await vs.statusItem("Understudy").locator("a").getAttribute("aria-label")) ?? "";
      await vs.notification(/keeps crashing: .*the disk is full/).waitFor();
      await vs.shot("1 started again");
      await until(async () => (await says()).includes("stopped"), "it is given up");
      await until(() => channel(vs).split("the sidecar ended: exit code 8").length === 7, "six starts are logged");
      assert.equal(channel(vs).split("the disk is full").length, 2, "what it said every time is logged once");
      assert.equal(/\[error\]|^\tat /m.exec(channel(vs))?.[0], undefined, "no stack trace of a library is logged");
      await vs.shot("2 given up");
      await vs.notificationAction("keeps crashing", "Show Options");
      await vs.step("Understudy");
      await vs.shot("3 what now");
      fs.rmSync(path.join(vs.world.home, "bin", "understudy"));
      program(vs, greeting(99));
      await vs.pick("Restart");
      await vs.notification(/Update the extension/).waitFor();
    }),
  );

  it(
    "is killed and restarted when it stops responding",
    inCode({ sidecar: false, closed: true }, async (vs) => {
      const deaf = `        sys.stdout.flush()\n        os.close(1)\n        time.sleep(600)\n`;
      program(vs, `${greeting(protocolVersion()).replace("import json, sys", "import json, os, sys, time")}${deaf}`);
      await vs.open();
      await vs.openContainer();
      await vs.notification(/keeps crashing: .*it stopped responding/).waitFor();
      await vs.shot("1 told");
      const [first] = vs.world.sidecars();
      await until(() => vs.world.sidecars().every(({ pid }) => pid !== first?.pid), "what hangs is ended");
      assert.ok(vs.world.sidecars().length <= 1, "one at a time");
      fs.rmSync(path.join(vs.world.home, "bin", "understudy"));
      program(vs, greeting(99));
      await vs.command("Understudy: Restart Engine");
      await vs.notification(/Update the extension/).waitFor();
    }),
  );
});

describe("an issue report", () => {
  const token = "a-token-that-nobody-may-read-1234";

  it(
    "describes the state, without personal data",
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
        await vs.waitForText("Understudy issue report");
        await vs.shot("report");
        await vs.page.keyboard.press("Control+a");
        await vs.page.keyboard.press("Control+c");
        const text = await vs.page.evaluate(() => navigator.clipboard.readText());
        assert.match(text, /protocol 2, found by setting/);
        assert.match(text, /delegators: 4, not ready: 1/);
        for (const own of [token, vs.world.home, vs.world.repository, "test@example.invalid"]) {
          assert.ok(!text.includes(own), `${own} is in the report`);
        }
      },
    ),
  );
});

/** The text of the output channel. */
function channel(vs: Workbench): string {
  return Object.entries(vs.code.logs())
    .filter(([name]) => /Understudy\.log$/.test(name))
    .map(([, text]) => text)
    .join("\n");
}

/** Put a program named `understudy` on PATH. */
function program(vs: Workbench, text: string): void {
  const file = path.join(vs.world.home, "bin", "understudy");
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text, { mode: 0o755 });
}

/** The version of the protocol that the extension speaks. */
function protocolVersion(): number {
  const example = path.join(E2E, "..", "..", "protocol", "examples", "version.valid.json");
  return JSON.parse(fs.readFileSync(example, "utf8")).expect.result.protocolVersion;
}

/** A server that reports this protocol version. */
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
