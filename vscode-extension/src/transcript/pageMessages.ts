/**
 * Messages between a transcript's page and the editor that shows it: requests and notifications of the contract, and
 * few of the editor's own. A page in a browser exchanges the former with a server.
 */

import type { ErrorInfo, Notifications, Requests } from "../protocol.ts";

/** The requests of the contract that the page sends, about its own delegation only. */
export type PageRequest =
  | "understudy/delegations/get"
  | "understudy/delegations/subscribe"
  | "understudy/delegations/logs"
  | "understudy/delegations/answer"
  | "understudy/delegations/say"
  | "understudy/delegations/cancel"
  | "understudy/delegations/retry";

/** What only an editor can do. */
export type EditorAction =
  "remedy" | "review" | "addCheck" | "reply" | "retryWith" | "restore" | "showLog" | "openText";

type RequestMessage<M extends PageRequest = PageRequest> = M extends PageRequest
  ? { readonly id: number; readonly method: M; readonly params: Requests[M]["params"] }
  : never;

/** Messages with an ID are requests: each gets one answer. */
export type FromPage =
  | RequestMessage
  /** The first message: the answer is `PageStart`. */
  | { readonly id: number; readonly method: "page/start"; readonly params: object }
  | { readonly method: "editor/run"; readonly params: { readonly action: EditorAction } }
  | { readonly method: "editor/openFile"; readonly params: { readonly path: string } };

export interface PageStart {
  /** ID of the delegation. */
  readonly delegation: string;
  /** Whether messages and replies to the agent have an effect; false until the sidecar runs and its agent is known. */
  readonly instructable: boolean;
  /** Texts of the UI by their English text. */
  readonly translations: Readonly<Record<string, string>>;
}

type NotificationMessage<M extends "understudy/event" | "understudy/changed"> = M extends keyof Notifications
  ? { readonly method: M; readonly params: Notifications[M] }
  : never;

export type PageNotification = NotificationMessage<"understudy/event" | "understudy/changed">;

export type ToPage =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: ErrorInfo }
  | PageNotification
  /** `PageStart.instructable` has changed. */
  | { readonly method: "editor/instructable"; readonly params: { readonly instructable: boolean } };
