/** The entry of the bundle that a webview of VS Code runs: messages of the webview as transport. */

import { setTranslator, translateWith } from "../base/l10n.ts";
import { PageRequests } from "../base/pageRequests.ts";
import type { ComposeDraft, ComposeRequests, FromComposePage, ToComposePage } from "../compose/composeMessages.ts";
import { ComposePage } from "./composePage.ts";

/** Time limit of a request, in milliseconds: the user may be choosing files or a delegator. */
const ANSWER_MS = 600_000;

declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

const vscode = acquireVsCodeApi();
const send = (message: FromComposePage): void => vscode.postMessage(message);
const requests = new PageRequests((message) => vscode.postMessage(message), ANSWER_MS);
const request = <M extends keyof ComposeRequests>(method: M, params: ComposeRequests[M]["params"]) =>
  requests.request(method, params) as Promise<ComposeRequests[M]["result"]>;
let page: ComposePage | undefined;

window.addEventListener("message", ({ data }: MessageEvent<ToComposePage>) => {
  if (!("method" in data)) requests.answer(data);
  else if (data.method === "page/draft") page?.setDraft(data.params);
  else if (data.method === "page/current") page?.setCurrent(data.params);
  else page?.setChoices(data.params);
});

void request("page/start", {}).then((start) => {
  setTranslator(translateWith(start.translations));
  const changed = (draft: ComposeDraft): void => send({ method: "page/draft", params: draft });
  page = new ComposePage(document.body, { request, changed }, start);
});
