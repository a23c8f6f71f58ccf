/**
 * Transcripts as pages in tabs, one per delegation. The page (`transcriptPage/`) is a client of the contract: it sends
 * requests about its own delegation and receives `understudy/event`. Requests that start or decide something run the
 * command that a row of the view runs, so that the user sees the same messages.
 */

import { existsSync } from "node:fs";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { pageHtml } from "../base/pageHtml.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Host, Panel } from "../host/host.ts";
import type { Store } from "../state/store.ts";
import { delegationIdOf } from "../state/delegationUris.ts";
import { oneLine } from "../state/formatting.ts";
import { takesInstructions } from "../state/instructions.ts";
import type { Delegation, Event } from "../protocol.ts";
import { linkTarget } from "./linkTarget.ts";
import type { EditorAction, FromPage, PageStart, ToPage } from "./pageMessages.ts";

export const TRANSCRIPT_PANEL = "understudy.transcript";

export interface TranscriptPanelsDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "environment" | "output">;
  readonly requester: Requester;
  readonly store: Pick<Store, "delegation" | "delegator" | "loaded" | "follow" | "read" | "onDidChange">;
  /** Whether a file exists. */
  readonly exists?: (file: string) => boolean;
}

/** The commands that the page may run on its delegation. */
const COMMANDS: Readonly<Record<EditorAction, string>> = {
  remedy: "understudy.delegations.remedy",
  review: "understudy.review.open",
  addCheck: "understudy.checks.add",
  reply: "understudy.delegations.reply",
  retryWith: "understudy.delegations.retryWith",
  restore: "understudy.delegations.restore",
  showLog: "understudy.delegations.showLog",
  openText: "understudy.delegations.openText",
};

interface OpenPanel {
  readonly id: string;
  readonly panel: Panel;
  following?: Disposable;
  /** Incremented when its page starts or subscribes again: events for an earlier subscription are dropped. */
  subscription: number;
  /** Whether its page has asked for something that only a running sidecar answers. */
  waiting: boolean;
  /** What its page shows; undefined: its page has not started. */
  instructable?: boolean;
}

export class TranscriptPanels implements Disposable {
  readonly #deps: TranscriptPanelsDeps;
  readonly #disposables = new DisposableStore();
  readonly #open = new Map<string, OpenPanel>();

  constructor(deps: TranscriptPanelsDeps) {
    this.#deps = deps;
    this.#disposables.add(
      deps.host.windows.restorePanels(TRANSCRIPT_PANEL, (state, start) => {
        const id = delegationIdOf((state as { id?: unknown } | null | undefined)?.id);
        const panel = start(id === undefined ? "" : this.#html());
        if (id !== undefined) this.#add(id, panel);
      }),
    );
    this.#disposables.add(
      deps.store.onDidChange(() => {
        if (!deps.store.loaded) return;
        for (const one of this.#open.values()) {
          this.#updateInstructable(one);
          if (one.waiting) post(one, { method: "understudy/changed", params: { collections: ["delegations"] } });
          one.waiting = false;
        }
      }),
    );
  }

  /** Show the transcript of a delegation in its tab. */
  show({ id, title }: Pick<Delegation, "id" | "title">): void {
    const open = this.#open.get(id);
    if (open) open.panel.reveal();
    else this.#add(id, this.#deps.host.windows.panel(TRANSCRIPT_PANEL, oneLine(title, 80), this.#html()));
  }

  dispose(): void {
    for (const one of this.#open.values()) unsubscribe(one);
    this.#open.clear();
    this.#disposables.dispose();
  }

  #add(id: string, panel: Panel): void {
    const one: OpenPanel = { id, panel, subscription: 0, waiting: false };
    this.#open.set(id, one);
    panel.onMessage((message) => this.#receive(one, message as FromPage));
    panel.onDidClose(() => {
      unsubscribe(one);
      if (this.#open.get(id) === one) this.#open.delete(id);
    });
  }

  #receive(one: OpenPanel, message: FromPage): void {
    if (!("id" in message)) {
      void this.#run(one, message).catch((error: unknown) => this.#log(one, error));
      return;
    }
    this.#answer(one, message).then(
      (result) => post(one, { id: message.id, result }),
      (error: unknown) => {
        this.#log(one, error);
        post(one, { id: message.id, error: toErrorInfo(error) });
      },
    );
  }

  /** Answer a request of the page. Everything else than the listed requests on its own delegation is refused. */
  async #answer(one: OpenPanel, message: Extract<FromPage, { id: number }>): Promise<unknown> {
    const { host, requester, store } = this.#deps;
    const { id } = one;
    if (message.method === "page/start") {
      unsubscribe(one);
      one.instructable = this.#instructable(id);
      const start: PageStart = {
        delegation: id,
        instructable: one.instructable,
        translations: host.environment.translations,
      };
      return start;
    }
    if (!store.loaded) {
      one.waiting = true;
      throw new Error(t("Waiting for Understudy…"));
    }
    switch (message.method) {
      case "understudy/delegations/get": {
        const found = (await store.read(id)) ?? store.delegation(id);
        if (found) return found;
        one.waiting = true;
        throw new Error(t("This delegation cannot be read."));
      }
      case "understudy/delegations/subscribe": {
        unsubscribe(one);
        const { subscription } = one;
        const after = message.params.after?.[id] ?? 0;
        const take = (events: readonly Event[]): void => {
          if (one.subscription === subscription) {
            post(one, { method: "understudy/event", params: { id, events: [...events] } });
          }
        };
        try {
          const following = await store.follow(id, take, after);
          if (one.subscription === subscription) one.following = following;
          else following.dispose();
        } catch (error) {
          one.waiting = true;
          throw error;
        }
        return {};
      }
      case "understudy/delegations/logs":
        return requester.request("understudy/delegations/logs", { id });
      case "understudy/delegations/answer": {
        const { requestId, option, remember } = message.params;
        await host.commands.run("understudy.delegations.answer", id, requestId, option, remember === true);
        return {};
      }
      case "understudy/delegations/say":
        return requester.request("understudy/delegations/say", { id, text: message.params.text });
      case "understudy/delegations/cancel":
        await host.commands.run("understudy.delegations.cancel", id);
        return {};
      case "understudy/delegations/retry":
        await host.commands.run("understudy.delegations.retry", id);
        return {};
      default:
        throw new Error(`the page of a transcript may not request ${String((message as { method: unknown }).method)}`);
    }
  }

  /** Until the sidecar has listed the delegators, nothing is known: the page would offer what is then refused. */
  #instructable(id: string): boolean {
    const { store } = this.#deps;
    const delegation = store.delegation(id);
    return store.loaded && (delegation === undefined || takesInstructions(store, delegation));
  }

  #updateInstructable(one: OpenPanel): void {
    const instructable = this.#instructable(one.id);
    if (one.instructable === undefined || one.instructable === instructable) return;
    one.instructable = instructable;
    post(one, { method: "editor/instructable", params: { instructable } });
  }

  async #run({ id }: OpenPanel, message: Extract<FromPage, { method: `editor/${string}` }>): Promise<void> {
    const { host, store } = this.#deps;
    if (message.method === "editor/run") {
      const { action } = message.params;
      if (Object.hasOwn(COMMANDS, action)) await host.commands.run(COMMANDS[action], id);
      return;
    }
    const delegation = store.delegation(id);
    const name = message.params.path;
    const target = delegation && linkTarget(delegation, name, this.#deps.exists ?? existsSync);
    if (target) await host.documents.show(target.target, { preview: true });
    else await host.windows.message("info", t("{0} does not exist.", oneLine(name, 200)));
  }

  #log({ id }: OpenPanel, error: unknown): void {
    this.#deps.host.output.warn(`transcript of ${id}: ${toErrorInfo(error).message}`);
  }

  #html(): string {
    const { environment } = this.#deps.host;
    const [script, style] = [environment.pageAsset("transcriptPage.js"), environment.pageAsset("transcriptPage.css")];
    return pageHtml(script, style, environment.language);
  }
}

function unsubscribe(one: OpenPanel): void {
  one.subscription += 1;
  one.following?.dispose();
  delete one.following;
}

function post({ panel }: OpenPanel, message: ToPage): void {
  panel.post(message);
}
