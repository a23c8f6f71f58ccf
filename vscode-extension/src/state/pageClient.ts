/**
 * What our pages know of the program that shows them: requests of the contract, requests that only this program can
 * answer, and notifications. In VS Code these are messages of a webview; a page of a server needs another client only.
 */

import type { Decision, Notifications, Range, Requests } from "../protocol.ts";

/** A part of a page that is opened first. */
export interface PageTarget {
  readonly show: "list" | "add" | "edit" | "test" | "servers" | "compare";
  /** The delegator, or the group to compare. */
  readonly name?: string;
}

export interface PageStart {
  /** Absent: the page goes to where it was. */
  readonly target?: PageTarget;
  readonly page: "delegators" | "compare";
  /** The places to save in: `user`, and URIs of folders. */
  readonly places: readonly { readonly id: string; readonly label: string; readonly detail: string }[];
  /** Texts of the UI by their English text. */
  readonly translations: Readonly<Record<string, string>>;
}

/** What helps to install an agent and to log in to it. */
export type InstallStep = "install" | "copy" | "login" | "instructions";

/** Requests that only the program can answer: it asks for keys, and opens terminals, files and links. */
export interface ProgramRequests {
  "page/start": { params: object; result: PageStart };
  /** Ask for the key of a model server and store it; returns whether one was entered. */
  "page/enterKey": { params: { readonly server: string; readonly workspace?: string }; result: boolean };
  "page/installAgent": {
    params: { readonly tool: string; readonly step: InstallStep };
    result: object;
  };
  "page/openFile": { params: { readonly uri: string; readonly range?: Range }; result: object };
  "page/openLink": { params: { readonly uri: string }; result: object };
  /** A delegator was saved: the command that opened the page for it continues. */
  "page/saved": { params: { readonly delegator: string }; result: object };
  /** Run the command that the last error offered as its repair. */
  "page/repair": { params: object; result: object };
  /** Decide on hunks of a result; the program asks for confirmations, and reports conflicts. */
  "page/decide": { params: { readonly id: string; readonly decisions: readonly Decision[] }; result: object };
  /** Show the review of a result, and a hunk of it. */
  "page/review": {
    params: { readonly id: string; readonly path?: string; readonly hunk?: string };
    result: object;
  };
}

type AllRequests = Requests & ProgramRequests;

export type PageNotification =
  | { readonly method: "understudy/changed"; readonly params: Notifications["understudy/changed"] }
  | { readonly method: "page/show"; readonly params: PageTarget };

export interface PageClient {
  /** Rejects with an `Error` whose message is a sentence; its `cause` is the `PageError`. */
  request<M extends keyof AllRequests>(method: M, params: AllRequests[M]["params"]): Promise<AllRequests[M]["result"]>;
  onNotification(listener: (notification: PageNotification) => void): void;
  /** Where the page is, for when it is shown again. */
  readonly remembered: unknown;
  remember(state: unknown): void;
}
