/** The entry of the bundle that a webview of VS Code runs: messages of the webview as client. */

import { setTranslator, translateWith } from "../base/l10n.ts";
import { PageRequests, type PageAnswer } from "../base/pageRequests.ts";
import type { PageClient, PageNotification } from "../state/pageClient.ts";
import { ComparePage } from "./comparePage.ts";
import { DelegatorForm } from "./delegatorForm.ts";
import { DelegatorsPage } from "./delegatorsPage.ts";
import { ServerForm } from "./serverForm.ts";

/** Time limit of a request, in milliseconds: the user may be entering a key, and a test waits for a cold agent. */
const ANSWER_MS = 600_000;

declare function acquireVsCodeApi(): {
  postMessage(message: unknown): void;
  getState(): unknown;
  setState(state: unknown): void;
};

customElements.define("understudy-delegator-form", DelegatorForm);
customElements.define("understudy-server-form", ServerForm);
customElements.define("understudy-delegators", DelegatorsPage);
customElements.define("understudy-compare", ComparePage);

const vscode = acquireVsCodeApi();
const requests = new PageRequests((message) => vscode.postMessage(message), ANSWER_MS);
const listeners: ((notification: PageNotification) => void)[] = [];

window.addEventListener("message", ({ data }: MessageEvent<PageAnswer | PageNotification>) => {
  if (!("method" in data)) requests.answer(data);
  else if (data.method === "page/show") void fetchTarget();
  else for (const listener of listeners) listener(data);
});

const client: PageClient = {
  request: ((method: string, params: object) => requests.request(method, params)) as PageClient["request"],
  onNotification: (listener) => void listeners.push(listener),
  remembered: vscode.getState(),
  remember: (state) => vscode.setState(state),
};

/** The program keeps what to show until the page takes it: it may have been hidden. */
async function fetchTarget(): Promise<void> {
  const { target } = await client.request("page/start", {});
  if (target) for (const listener of listeners) listener({ method: "page/show", params: target });
}

void client.request("page/start", {}).then((start) => {
  setTranslator(translateWith(start.translations));
  const page = start.page === "compare" ? new ComparePage() : new DelegatorsPage();
  page.client = client;
  page.start = start;
  document.body.replaceChildren(page);
});
