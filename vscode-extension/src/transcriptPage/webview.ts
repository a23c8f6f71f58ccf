/** The entry of the bundle that a webview of VS Code runs: messages of the webview as transport. */

import { setTranslator, translateWith } from "../base/l10n.ts";
import { PageRequests } from "../base/pageRequests.ts";
import type { FromPage, PageNotification, PageStart, ToPage } from "../transcript/pageMessages.ts";
import { TranscriptPage, type Transport } from "./transcriptPage.ts";

/** Time limit of a request, in milliseconds. */
const ANSWER_MS = 60_000;

interface PageState {
  readonly id: string;
  readonly at?: number;
}

declare function acquireVsCodeApi(): {
  postMessage(message: unknown): void;
  getState(): PageState | undefined;
  setState(state: PageState): void;
};

const vscode = acquireVsCodeApi();
const send = (message: FromPage): void => vscode.postMessage(message);
const requests = new PageRequests((message) => vscode.postMessage(message), ANSWER_MS);
const listeners: ((notification: PageNotification) => void)[] = [];
let page: TranscriptPage | undefined;

window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => {
  if (!("method" in data)) requests.answer(data);
  else if (data.method === "editor/instructable") page?.setInstructable(data.params.instructable);
  else for (const listener of listeners) listener(data);
});

const transport = {
  request: (method: string, params: object) => requests.request(method, params),
  onNotification: (listener: (notification: PageNotification) => void) => void listeners.push(listener),
} as Transport;

void requests.request("page/start", {}).then((answer) => {
  const { delegation: id, instructable, translations } = answer as PageStart;
  setTranslator(translateWith(translations));
  const before = vscode.getState();
  const at = before?.id === id ? before.at : undefined;
  vscode.setState(at === undefined ? { id } : { id, at });
  page = new TranscriptPage(document.body, transport, {
    id,
    instructable,
    ...(at === undefined ? {} : { at }),
    remember: (now) => vscode.setState(now === undefined ? { id } : { id, at: now }),
    editor: {
      run: (action) => send({ method: "editor/run", params: { action } }),
      openFile: (path) => send({ method: "editor/openFile", params: { path } }),
    },
  });
});
