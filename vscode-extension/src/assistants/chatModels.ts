/**
 * The delegators that ask a model server as models of the editor's chat: they are in its model picker, and with one of
 * them the chat and `@understudy` work without another service. A request is the text recipe `ask`; a model gets no
 * tools and no pictures.
 */

import { randomUUID } from "node:crypto";
import type { App } from "../appContext.ts";
import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { ChatMessage, ChatModel, ChatModels } from "../host/host.ts";
import type { TextParams, TextResult } from "../protocol.ts";
import { oneLine } from "../state/formatting.ts";

/** Memory key of the models that were offered last: listing them starts no engine. */
const KNOWN_KEY = "chat.models";
const RECIPE = "ask";
/** What the editor may send if nothing says more: servers refuse what they cannot take. */
const INPUT_TOKENS = 32_000;
const OUTPUT_TOKENS = 8_000;
/** About, for English and code: only the server knows its tokenizer. */
const CHARACTERS_PER_TOKEN = 4;

/** Separates the text of a server that failed from the answer that begins again. */
export const beginsAgain = (): string => `\n\n*${t("The answer broke off, and begins again:")}*\n\n`;

/**
 * Send one request to a model server; `add` gets the pieces of the answer that arrive before its end, and whether the
 * answer begins again with one.
 */
export async function askModel(
  sidecar: App["sidecar"],
  params: TextParams,
  add: (piece: string, restart: boolean) => void,
  signal: AbortSignal,
): Promise<TextResult> {
  const stream = randomUUID();
  const live = sidecar.on("understudy/text", (piece) => {
    if (piece.stream === stream) add(piece.text, piece.restart === true);
  });
  try {
    return await sidecar.request("understudy/text/run", { ...params, stream }, signal);
  } finally {
    live.dispose();
  }
}

/** Returns undefined while the engine has not listed its delegators. */
function listed({ store }: Pick<App, "store">): readonly ChatModel[] | undefined {
  if (!store.loaded) return undefined;
  const asks = store.delegators.filter(
    ({ delegator, state }) => !delegator.tool && delegator.modelServer && state.ready,
  );
  return asks.map(({ delegator, host }) => ({
    id: delegator.name,
    name: oneLine(delegator.displayName ?? delegator.name, 60),
    detail: oneLine([delegator.model, host].filter(Boolean).join(" · "), 80),
    family: delegator.model ?? "",
    inputTokens: INPUT_TOKENS,
    outputTokens: OUTPUT_TOKENS,
  }));
}

export function chatModels(app: Pick<App, "host" | "sidecar" | "store">): ChatModels & Disposable {
  const { host, sidecar, store } = app;
  const disposables = new DisposableStore();
  const changed = disposables.add(new Emitter<void>());
  disposables.add(
    store.onDidChange(({ delegators, delegationList }) => {
      const now = delegators || delegationList ? listed(app) : undefined;
      if (now === undefined || JSON.stringify(now) === JSON.stringify(host.memory.get(KNOWN_KEY, []))) return;
      void host.memory.set(KNOWN_KEY, now).then(() => changed.fire());
    }),
  );
  return {
    dispose: () => disposables.dispose(),
    models: () => listed(app) ?? host.memory.get<readonly ChatModel[]>(KNOWN_KEY, []),
    onDidChange: changed.subscribe,
    tokens: (text) => Math.ceil(text.length / CHARACTERS_PER_TOKEN),
    async answer(model, messages, add, signal) {
      await sidecar.start();
      const [folder] = host.workspace.folders;
      let shown = "";
      const piece = (text: string, restart: boolean): void => {
        shown = restart ? text : shown + text;
        add(restart ? `${beginsAgain()}${text}` : text);
      };
      const params = {
        ...textOf(messages),
        recipe: RECIPE,
        delegator: model,
        ...(folder ? { workspace: folder.uri } : {}),
      };
      const { text } = await askModel(sidecar, params, piece, signal);
      if (text.startsWith(shown)) add(text.slice(shown.length));
      else if (text !== shown) add(`\n\n${text}`);
    },
  };
}

/** A conversation as a task, its last message, and what was said before. */
export function textOf(messages: readonly ChatMessage[]): Pick<TextParams, "task" | "input"> {
  const last = messages.findLastIndex(({ role }) => role === "user");
  const before = messages
    .filter((message, index) => index !== last && message.text.trim() !== "")
    .map(({ role, text }) => `${role === "user" ? "User" : "Assistant"}:\n${text}`);
  const task = messages[last]?.text ?? "";
  return { task, ...(before.length > 0 ? { input: before.join("\n\n") } : {}) };
}
