import { expect, it } from "vitest";
import { registerDiagnostics } from "../../src/health/diagnosticsPage.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar } from "../support/golden.ts";

it("shows the last results again when the tab of the diagnostics is shown again", async () => {
  const host = new FakeHost();
  const requester = new GoldenSidecar();
  const registered = registerDiagnostics({ host, requester, store: { delegators: [] } });
  const examine = async (ok: boolean): Promise<void> => {
    requester.answer("understudy/doctor", { checks: [{ name: "git", ok, message: "2.30" }] });
    await host.commands.run("understudy.doctor");
  };
  await examine(false);
  const [panel] = host.panels;
  panel?.send("ready");
  expect(panel?.posted).toMatchObject([{ head: "1 check failed." }]);
  await examine(true);
  panel?.send("ready"); // another tab was shown meanwhile
  const passed = { head: "All checks passed.", rows: [{ mark: "✓", name: "Git" }] };
  expect(panel?.posted.slice(1)).toMatchObject([passed, passed]);
  expect(host.panels).toHaveLength(1);
  // A tab that was closed is opened again, with the current results.
  panel?.close();
  await examine(false);
  host.panels[1]?.send("ready");
  expect(host.panels[1]?.posted).toMatchObject([{ head: "1 check failed." }]);
  registered.dispose();
});
