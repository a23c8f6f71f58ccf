/** Runs inside the extension host: the code actions that the light bulb offers. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

describe("code actions of a file", () => {
  it("offer to delegate its tests", async function () {
    this.timeout(90_000);
    const [folder] = vscode.workspace.workspaceFolders ?? [];
    assert.ok(folder);
    const file = vscode.Uri.joinPath(folder.uri, "shop/prices.py");
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
    let titles: string[] = [];
    for (const deadline = Date.now() + 60_000; Date.now() < deadline && titles.length === 0;) {
      const range = new vscode.Range(0, 0, 0, 0);
      const offered = await vscode.commands.executeCommand<vscode.CodeAction[]>(
        "vscode.executeCodeActionProvider",
        file,
        range,
      );
      titles = offered
        .map(({ title, kind }) => `${kind?.value ?? "?"}: ${title}`)
        .filter((one) => one.includes("delegate"));
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.ok(
      titles.some((title) => title.startsWith("refactor.delegate.tests:")),
      titles.join(", ") || "nothing is offered",
    );
  });
});
