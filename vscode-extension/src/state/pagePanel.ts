/** A page of `pages/` in a tab of the editor: answers its requests, and passes on notifications. There is one such tab. */

import { DisposableStore, type Disposable } from "../base/events.ts";
import { pageHtml } from "../base/pageHtml.ts";
import type { PageError } from "../base/pageRequests.ts";
import type { Host, Panel } from "../host/host.ts";
import type { Requests } from "../protocol.ts";
import { SidecarError, toErrorInfo, type Repair, type Requester, type Subscriber } from "../sidecar/connection.ts";
import type { PageNotification, PageStart, PageTarget, ProgramRequests } from "./pageClient.ts";
import { USER_SCOPE } from "./delegatorDraft.ts";
import { scopeQuestion } from "./saveScope.ts";

/** The Trusted Types policy of the library that draws the pages; it gets only the templates in their script. */
const TEMPLATES = "lit-html";

export interface PagePanelDeps {
  readonly host: Pick<Host, "windows" | "documents" | "environment" | "workspace" | "commands" | "output">;
  readonly requester: Requester;
  readonly subscriber: Subscriber;
}

/** Answers to the requests that the pages do not have in common. */
export type PageAnswers = {
  readonly [M in keyof ProgramRequests]?: (
    params: ProgramRequests[M]["params"],
  ) => ProgramRequests[M]["result"] | Promise<ProgramRequests[M]["result"]>;
};

export interface PageOptions {
  /** Type of the panel. */
  readonly type: string;
  readonly title: string;
  readonly page: PageStart["page"];
  /** The requests of the contract that the page may send; every other one is refused. */
  readonly requests: ReadonlySet<keyof Requests>;
  readonly answers: PageAnswers;
  /** Gets the results of requests of the contract. */
  readonly passed?: (method: keyof Requests, params: object, result: object) => void;
  readonly closed?: () => void;
}

interface FromPage {
  readonly id: number;
  readonly method: keyof Requests | keyof ProgramRequests;
  readonly params: object;
}

export class PagePanel implements Disposable {
  readonly #deps: PagePanelDeps;
  readonly #options: PageOptions;
  readonly #disposables = new DisposableStore();
  #panel: Panel | undefined;
  /** What a page that starts shows first. */
  #target: PageTarget | undefined;
  /** The command that repairs the last error. */
  #repair: Repair | undefined;

  constructor(deps: PagePanelDeps, options: PageOptions) {
    this.#deps = deps;
    this.#options = options;
    const { windows } = deps.host;
    this.#disposables.add(windows.restorePanels(options.type, (_, start) => this.#add(start(this.#html()))));
    this.#disposables.add(
      deps.subscriber.on("understudy/changed", (params) => this.#post({ method: "understudy/changed", params })),
    );
  }

  show(target: PageTarget): void {
    if (this.#panel) {
      this.#panel.reveal();
      this.#target = target; // for a page that was hidden, and starts again
      this.#post({ method: "page/show", params: target });
      return;
    }
    this.#target = target;
    this.#add(this.#deps.host.windows.panel(this.#options.type, this.#options.title, this.#html()));
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  #add(panel: Panel): void {
    this.#panel = panel;
    panel.onMessage((message) => void this.#receive(message as FromPage));
    panel.onDidClose(() => {
      if (this.#panel !== panel) return;
      this.#panel = undefined;
      this.#options.closed?.();
    });
  }

  async #receive({ id, method, params }: FromPage): Promise<void> {
    try {
      this.#panel?.post({ id, result: await this.#answer(method, params) });
    } catch (error) {
      const info = toErrorInfo(error);
      const repair = error instanceof SidecarError ? error.repair : undefined;
      this.#repair = repair;
      this.#deps.host.output.warn(`page ${this.#options.page}: ${method}: ${info.message}`);
      const answer: PageError = { message: info.message, hint: info.hint, repair: repair?.title };
      this.#panel?.post({ id, error: answer });
    }
  }

  async #answer(method: FromPage["method"], params: object): Promise<unknown> {
    const { host } = this.#deps;
    const own = (this.#options.answers as Record<string, ((params: object) => unknown) | undefined>)[method];
    if (own) return own(params);
    switch (method) {
      case "page/start":
        return this.#start();
      case "page/openFile": {
        const { uri, range } = params as ProgramRequests["page/openFile"]["params"];
        await host.documents.show(uri, range ? { range } : {});
        return {};
      }
      case "page/openLink": {
        const { uri } = params as ProgramRequests["page/openLink"]["params"];
        if (uri.startsWith("https://")) await host.environment.openExternal(uri);
        return {};
      }
      case "page/repair":
        if (this.#repair) await host.commands.run(this.#repair.command, ...(this.#repair.arguments ?? []));
        return {};
      default:
        if (!this.#options.requests.has(method as keyof Requests)) {
          throw new Error(`this page may not request ${method}`);
        }
        return this.#pass(method as keyof Requests, params);
    }
  }

  async #pass(method: keyof Requests, params: object): Promise<object> {
    const result = await this.#deps.requester.request(method, params);
    this.#options.passed?.(method, params, result);
    return result;
  }

  #start(): PageStart {
    const { workspace, environment } = this.#deps.host;
    const target = this.#target;
    this.#target = undefined;
    const folders = workspace.trusted ? workspace.folders : [];
    const places = scopeQuestion({ title: "" }, folders, USER_SCOPE).items;
    return {
      page: this.#options.page,
      ...(target ? { target } : {}),
      places: places.map(({ id, label, detail = "" }) => ({ id, label, detail })),
      translations: environment.translations,
    };
  }

  #post(message: PageNotification): void {
    this.#panel?.post(message);
  }

  #html(): string {
    const { environment } = this.#deps.host;
    return pageHtml(
      environment.pageAsset("pages.js"),
      environment.pageAsset("pages.css"),
      environment.language,
      TEMPLATES,
    );
  }
}
