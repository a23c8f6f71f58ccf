/** Runs inside the extension host: the code actions that the light bulb offers. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

/** Wait for the delegating code actions of a file: nothing is offered while the sidecar is starting. */
async function offered(file: vscode.Uri): Promise<string[]> {
  for (const deadline = Date.now() + 60_000; Date.now() < deadline;) {
    const found = await vscode.commands.executeCommand<vscode.CodeAction[]>(
      "vscode.executeCodeActionProvider",
      file,
      new vscode.Range(0, 0, 0, 0),
    );
    const titles = found
      .map(({ title, kind }) => `${kind?.value ?? "?"}: ${title}`)
      .filter((one) => one.includes("delegate"));
    if (titles.length > 0) return titles;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return [];
}

describe("code actions of a file", () => {
  const [folder] = vscode.workspace.workspaceFolders ?? [];

  it("offer to delegate its tests", async function () {
    this.timeout(90_000);
    assert.ok(folder);
    const file = vscode.Uri.joinPath(folder.uri, "shop/prices.py");
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
    const titles = await offered(file);
    assert.ok(
      titles.some((title) => title.startsWith("refactor.delegate.tests:")),
      titles.join(", ") || "nothing is offered",
    );
  });

  it("are still offered when very many documents are open and not saved", async function () {
    this.timeout(90_000);
    assert.ok(folder);
    const names = Array.from({ length: 200 }, (_, number) => vscode.Uri.joinPath(folder.uri, `shop/many_${number}.py`));
    const edit = new vscode.WorkspaceEdit();
    for (const file of names) {
      edit.createFile(file, { contents: Buffer.from("ONE = 1\n") });
      edit.insert(file, new vscode.Position(0, 0), "# not saved\n");
    }
    assert.ok(await vscode.workspace.applyEdit(edit));
    for (const file of names) await vscode.workspace.openTextDocument(file);
    const open = vscode.workspace.textDocuments.filter(({ isDirty }) => isDirty);
    assert.ok(open.length >= 150, `${open.length} documents are not saved`);
    const last = names.at(-1)!;
    await vscode.window.showTextDocument(last);
    const began = Date.now();
    assert.notDeepEqual(await offered(last), []);
    assert.ok(Date.now() - began < 20_000, `it took ${Date.now() - began} ms`);
  });
});
