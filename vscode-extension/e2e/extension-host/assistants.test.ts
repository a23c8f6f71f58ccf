/** Runs inside the extension host: tools, chat and MCP in an editor that has all, some or none of these APIs. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

const TOOLS = [
  "understudy_ask",
  "understudy_diff",
  "understudy_list_delegators",
  "understudy_show",
  "understudy_start",
  "understudy_wait",
];

describe("the assistants of the editor", () => {
  const extension = vscode.extensions.all.find(({ packageJSON }) => packageJSON.name === "understudy");
  const lm = vscode.lm as Partial<typeof vscode.lm> & { registerMcpServerDefinitionProvider?: unknown };
  const chat = vscode.chat as Partial<typeof vscode.chat>;
  const has = {
    tools: typeof lm?.registerTool === "function",
    chat: typeof chat?.createChatParticipant === "function",
    mcp: typeof lm?.registerMcpServerDefinitionProvider === "function",
  };

  it("do not stop the activation, whichever there are", async () => {
    console.log(`@assistants ${vscode.version} ${JSON.stringify(has)}`);
    await extension?.activate();
    assert.equal(extension?.isActive, true);
  });

  it("have our tools, where there are tools", async function () {
    if (!has.tools) this.skip();
    await extension?.activate();
    const ours = (lm.tools ?? []).map(({ name }) => name).filter((name) => name.startsWith("understudy_"));
    assert.deepEqual(ours.sort(), TOOLS);
    const called = await lm.invokeTool?.("understudy_list_delegators", { input: {}, toolInvocationToken: undefined });
    const [part] = called?.content ?? [];
    assert.ok(part instanceof vscode.LanguageModelTextPart);
    assert.match(part.value, /^quick, /m);
  });
});
