/** Requests of a webview's page to the extension: numbered, with a time limit. */

import { t } from "./l10n.ts";

/** The answer to a request. */
export type PageAnswer =
  { readonly id: number; readonly result: unknown } | { readonly id: number; readonly error: PageError };

export interface PageError {
  readonly message: string;
  readonly hint?: string | undefined;
  /** Title of a button that repairs the cause. */
  readonly repair?: string | undefined;
}

export class PageRequests {
  readonly #open = new Map<number, (answer: PageAnswer) => void>();
  readonly #send: (message: { id: number; method: string; params: object }) => void;
  readonly #limit: number;
  #sent = 0;

  /** `limit`: how long an answer may take, in milliseconds. */
  constructor(send: (message: { id: number; method: string; params: object }) => void, limit: number) {
    this.#send = send;
    this.#limit = limit;
  }

  /** Send a request; rejects with the error of the extension, or when the time is over. */
  request(method: string, params: object): Promise<unknown> {
    const id = (this.#sent += 1);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#open.delete(id);
        reject(new Error(t("Understudy did not answer.")));
      }, this.#limit);
      this.#open.set(id, (answer) => {
        clearTimeout(timer);
        if ("result" in answer) resolve(answer.result);
        else
          reject(
            new Error([answer.error.message, answer.error.hint].filter(Boolean).join(" "), { cause: answer.error }),
          );
      });
      this.#send({ id, method, params });
    });
  }

  /** Take the answer to a request; one that comes too late is dropped. */
  answer(answer: PageAnswer): void {
    this.#open.get(answer.id)?.(answer);
    this.#open.delete(answer.id);
  }
}
