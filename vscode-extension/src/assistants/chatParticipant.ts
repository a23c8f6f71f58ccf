/**
 * `@understudy`: a chat message is a delegation, or a question to a model server. The answer shows what happens, then
 * the verdict with buttons. A message without a recipe replies to the result before it.
 */

import { randomUUID } from "node:crypto";
import type { App } from "../appContext.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import { textRequestOf, previewText } from "../delegations/textRequests.ts";
import type { ChatHandler, ChatReply, ChatRequest } from "../host/host.ts";
import type { Delegation, Event, StartParams, TextParams } from "../protocol.ts";
import { SidecarError, toErrorInfo } from "../sidecar/connection.ts";
import { oneLine } from "../state/formatting.ts";
import { canReply, checkText, endMessage, isLive, isToReview } from "../state/wording.ts";
import { askModel, beginsAgain } from "./chatModels.ts";
import { paramsOf, understand } from "./chatRequests.ts";
import { answerText, quoted } from "../state/modelText.ts";

export type ChatDeps = Pick<App, "host" | "sidecar" | "store" | "started">;

/** Return the function that answers chat messages. */
export function chatParticipant(deps: ChatDeps): ChatHandler {
  return async (request, reply, signal) => {
    try {
      return await answer(deps, request, reply, signal);
    } catch (error) {
      if (signal.aborted) return {};
      const { message, hint } = toErrorInfo(error);
      const repair = error instanceof SidecarError ? error.repair : undefined;
      if (repair) {
        const { command, title, arguments: values = [] } = repair;
        reply.button({ id: command, title, arguments: values });
      }
      return { error: escapeMarkdown(hint && !repair ? `${message} ${hint}` : message) };
    }
  };
}

async function answer(
  deps: ChatDeps,
  request: ChatRequest,
  reply: ChatReply,
  signal: AbortSignal,
): Promise<{ readonly remember?: string }> {
  const { host, sidecar, store } = deps;
  await sidecar.start();
  // Before the store has read them, as in a window that the message has just activated.
  const { recipes } = store.recipes.length > 0 ? store : await sidecar.request("understudy/recipes/list", {}, signal);
  const understood = understand(request, recipes);
  const before = request.previous === undefined || understood.isNew ? undefined : store.delegation(request.previous);
  if (before && canReply(before)) {
    const text = request.prompt.trim();
    const { id } = await sidecar.request("understudy/delegations/reply", { id: before.id, text });
    return watch(deps, id, reply, signal);
  }
  const [folder] = host.workspace.folders;
  const params = paramsOf(request, understood, recipes, host.documents.active, folder);
  const asked = textRequestOf({ recipes, delegators: store.delegators }, params);
  if (asked && (await previewText(sidecar, asked, signal))) return ask(deps, asked, reply, signal);
  return watch(deps, await start(deps, params), reply, signal);
}

async function start({ sidecar }: ChatDeps, params: StartParams): Promise<string> {
  const { id } = await sidecar.request("understudy/delegations/start", { ...params, idempotencyKey: randomUUID() });
  return id;
}

/** Send one request to a model server, and show the answer as it arrives. */
async function ask(
  { sidecar }: ChatDeps,
  params: TextParams,
  reply: ChatReply,
  signal: AbortSignal,
): Promise<{ readonly remember?: string }> {
  let shown = 0;
  let text = "";
  /** Show whole lines: what begins in one piece must be escaped with what ends in the next. */
  const show = (until: number): void => {
    const whole = answerText(text.slice(0, until));
    reply.markdown(whole.slice(shown));
    shown = whole.length;
  };
  const add = (piece: string, restart: boolean): void => {
    if (restart) {
      reply.markdown(beginsAgain()); // what is shown stays
      text = "";
      shown = 0;
    }
    text += piece;
    const end = text.lastIndexOf("\n") + 1;
    if (end > 0) show(end);
  };
  reply.progress(t("Waiting for the answer…"));
  const result = await askModel(sidecar, params, add, signal);
  if (!result.text.startsWith(text)) text = `${text}\n\n${result.text}`;
  else text = result.text;
  show(text.length);
  const facts = [result.delegator, result.model].filter((one) => one !== "").join(" · ");
  reply.markdown(`\n\n*${quoted(facts)}*`);
  return {};
}

/** Follow a delegation to its end; stopping the answer cancels it. */
async function watch(
  { sidecar, store, started }: ChatDeps,
  id: string,
  reply: ChatReply,
  signal: AbortSignal,
): Promise<{ readonly remember: string }> {
  started.fire(id); // its questions are shown as messages
  const cancel = (): void => void sidecar.request("understudy/delegations/cancel", { id }).catch(() => undefined);
  if (signal.aborted) cancel();
  else signal.addEventListener("abort", cancel, { once: true });
  let answers = "";
  const following = await store.follow(id, (events) => {
    for (const event of events) {
      if (event.type === "text") answers += event.text;
      const line = progressLine(event);
      if (line !== undefined && !signal.aborted) reply.progress(quoted(line)); // shown as Markdown
    }
  });
  try {
    // No limit but those of the delegation: a request ends at the latest after an hour.
    let delegation: Delegation;
    do delegation = await sidecar.request("understudy/delegations/wait", { id }, signal);
    while (isLive(delegation));
    show(delegation, answers, reply);
    return { remember: id };
  } finally {
    following.dispose();
    signal.removeEventListener("abort", cancel);
  }
}

function show(delegation: Delegation, said: string, reply: ChatReply): void {
  const { id, result, verdict, checks } = delegation;
  const text = result?.text ?? result?.summary ?? said;
  if (text.trim() !== "") reply.markdown(`${answerText(text.trim())}\n\n`);
  if (verdict !== "answered") {
    const lines = checks.map((check) => `\n- ${quoted(check.name)}: ${escapeMarkdown(checkText(check))}`);
    reply.markdown(`${quoted(endMessage(delegation), 1_000)}\n${lines.join("")}\n`);
  }
  if (isToReview(delegation)) reply.button({ id: "understudy.review.open", title: t("Review"), arguments: [id] });
  reply.button({ id: "understudy.delegations.open", title: t("Show"), arguments: [id] });
}

/** What the agent or a check does, in one line; undefined for events that are not shown. */
export function progressLine(event: Event): string | undefined {
  switch (event.type) {
    case "phase":
      return oneLine(event.text);
    case "queued":
      return t("Number {0} in the queue", event.position);
    case "started":
      return t("{0} is working…", oneLine(event.delegator));
    case "tool_call":
      return oneLine(event.title || event.name);
    case "permission":
      return t("Waiting for your answer: {0}", oneLine(event.title));
    case "check_started":
      return t("Running check {0}…", oneLine(event.name));
    default:
      return undefined;
  }
}
