/** Runs inside the extension host. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

describe("the extension", () => {
  const extension = vscode.extensions.all.find(({ packageJSON }) => packageJSON.name === "understudy");

  it("is installed and reports its version", () => {
    assert.ok(extension);
    assert.match(extension.packageJSON.version, /^\d+\.\d+\.\d+$/);
  });

  it("activates", async () => {
    // The chat of the editor may have asked for its models before, which starts no engine.
    const [cpu, began] = [process.cpuUsage(), performance.now()];
    await extension?.activate();
    const { user, system } = process.cpuUsage(cpu);
    console.log(`@activation ${((user + system) / 1000).toFixed(1)} ${(performance.now() - began).toFixed(1)}`);
    assert.equal(extension?.isActive, true);
  });

  it("registers every command that it contributes", async () => {
    await extension?.activate();
    const registered = new Set(await vscode.commands.getCommands(true));
    const contributed: { command: string }[] = extension?.packageJSON.contributes?.commands ?? [];
    assert.deepEqual(
      contributed.map(({ command }) => command).filter((id) => !registered.has(id)),
      [],
    );
  });
});
