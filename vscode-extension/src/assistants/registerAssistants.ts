/** Register the chat participant, the tools of language models and the MCP server, each where the editor has them. */

import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { chatModels } from "./chatModels.ts";
import { chatParticipant } from "./chatParticipant.ts";
import { languageTools, toldErrors } from "./languageTools.ts";
import { McpServers } from "./mcpServers.ts";

/** As in `package.json`. */
const PARTICIPANT = "understudy.chat";
const MCP_PROVIDER = "understudy.mcp";
const MODEL_VENDOR = "understudy";

export function registerAssistants(app: App): Disposable {
  const disposables = new DisposableStore();
  const add = (disposable: Disposable | undefined): void => {
    if (disposable) disposables.add(disposable);
  };
  const { assistants } = app.host;
  for (const [name, tool] of languageTools(app)) add(assistants.tool(name, toldErrors(tool)));
  add(assistants.participant(PARTICIPANT, chatParticipant(app)));
  add(assistants.models(MODEL_VENDOR, disposables.add(chatModels(app))));
  disposables.add(app.host.commands.register("understudy.chat", () => openChat(app)));
  const servers = disposables.add(new McpServers(app));
  add(assistants.mcpServers(MCP_PROVIDER, servers));
  return disposables;
}

/** Open the chat with the participant, or say what it lacks: no extension is asked before there is a model. */
async function openChat({ host }: App): Promise<void> {
  const vendors = await host.assistants.modelVendors();
  if (vendors.length === 0) {
    const [add, manage] = [t("Add Delegator…"), t("Manage Language Models…")];
    const text = t(
      "The chat of this editor needs a language model: sign in to one, or add a delegator on a model server, which is then in its model picker.",
    );
    const answer = await host.windows.message("info", text, { buttons: [add, manage] });
    if (answer === add) await host.commands.run("understudy.delegators.add");
    if (answer === manage) await host.commands.run("workbench.action.chat.manage");
    return;
  }
  // Our models have no tools, so that an agent cannot choose one: in the mode for questions, it is chosen.
  const own = vendors.every((vendor) => vendor === MODEL_VENDOR);
  const chosen = own ? { mode: "ask", modelSelector: { vendor: MODEL_VENDOR } } : {};
  const asked = { query: "@understudy ", isPartialQuery: true, ...chosen };
  await host.commands.run("workbench.action.chat.open", asked);
}
