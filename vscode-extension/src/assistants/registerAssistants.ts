/** Register the chat participant, the tools of language models and the MCP server, each where the editor has them. */

import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { chatParticipant } from "./chatParticipant.ts";
import { languageTools, toldErrors } from "./languageTools.ts";
import { McpServers } from "./mcpServers.ts";

/** As in `package.json`. */
const PARTICIPANT = "understudy.chat";
const MCP_PROVIDER = "understudy.mcp";

export function registerAssistants(app: App): Disposable {
  const disposables = new DisposableStore();
  const add = (disposable: Disposable | undefined): void => {
    if (disposable) disposables.add(disposable);
  };
  const { assistants } = app.host;
  for (const [name, tool] of languageTools(app)) add(assistants.tool(name, toldErrors(tool)));
  add(assistants.participant(PARTICIPANT, chatParticipant(app)));
  const servers = disposables.add(new McpServers(app));
  add(assistants.mcpServers(MCP_PROVIDER, servers));
  return disposables;
}
