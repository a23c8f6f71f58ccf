/** The entry of the bundle that a webview of VS Code runs: messages of the webview as transport. */

import { setTranslator, t, translateWith } from "../base/l10n.ts";
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
const open = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
const listeners: ((notification: PageNotification) => void)[] = [];
let sent = 0;

window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => {
  if ("method" in data) {
    for (const listener of listeners) listener(data);
    return;
  }
  const request = open.get(data.id);
  open.delete(data.id);
  if ("error" in data) request?.reject(new Error([data.error.message, data.error.hint].filter(Boolean).join(" ")));
  else request?.resolve(data.result);
});

const send = (message: FromPage): void => vscode.postMessage(message);

function request(message: { readonly method: string; readonly params: object }): Promise<unknown> {
  const id = (sent += 1);
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => {
      open.delete(id);
      reject(new Error(t("Understudy did not answer.")));
    }, ANSWER_MS);
    const settle =
      <T>(end: (value: T) => void) =>
      (value: T): void => {
        clearTimeout(limit);
        end(value);
      };
    open.set(id, { resolve: settle(resolve), reject: settle(reject) });
    send({ id, ...message } as FromPage);
  });
}

const transport = {
  request: (method: string, params: object) => request({ method, params }),
  onNotification: (listener: (notification: PageNotification) => void) => void listeners.push(listener),
} as Transport;

void request({ method: "page/start", params: {} }).then((answer) => {
  const { delegation: id, translations } = answer as PageStart;
  setTranslator(translateWith(translations));
  const before = vscode.getState();
  const at = before?.id === id ? before.at : undefined;
  vscode.setState(at === undefined ? { id } : { id, at });
  new TranscriptPage(document.body, transport, {
    id,
    ...(at === undefined ? {} : { at }),
    remember: (now) => vscode.setState(now === undefined ? { id } : { id, at: now }),
    editor: {
      run: (action) => send({ method: "editor/run", params: { action } }),
      openFile: (path) => send({ method: "editor/openFile", params: { path } }),
    },
  });
});
