/** The Delegators page in a tab: what it may ask for, and what only the editor can do for it. */

import { t } from "../base/l10n.ts";
import type { Disposable } from "../base/events.ts";
import type { Host } from "../host/host.ts";
import type { ConnectionTest, Requests } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { PageTarget, ProgramRequests } from "../state/pageClient.ts";
import { PagePanel, type PagePanelDeps } from "../state/pagePanel.ts";
import { takeInstallStep } from "./installAgent.ts";

export const DELEGATORS_PANEL = "understudy.delegatorsPage";

export interface DelegatorsPanelDeps extends PagePanelDeps {
  /** A delegator was saved on the page. */
  readonly saved: (name: string) => Promise<void>;
  /** A saved delegator was tested on the page; `failure` says why it does not work. */
  readonly tested: (name: string, failure: string | undefined) => void;
}

export class DelegatorsPanel implements Disposable {
  readonly #page: PagePanel;
  /** Name of a delegator → why its last test failed; undefined if it works. */
  readonly #outcomes = new Map<string, string | undefined>();
  /** Gets the name of the delegator that the user saves, or undefined when they give up. */
  #waiting: ((name: string | undefined) => void) | undefined;

  constructor(deps: DelegatorsPanelDeps) {
    const { host, requester } = deps;
    this.#page = new PagePanel(deps, {
      type: DELEGATORS_PANEL,
      title: t("Delegators"),
      page: "delegators",
      requests: new Set([
        "understudy/delegators/list",
        "understudy/delegators/create",
        "understudy/delegators/update",
        "understudy/delegators/delete",
        "understudy/delegators/setDefault",
        "understudy/delegators/test",
        "understudy/modelServers/list",
        "understudy/modelServers/get",
        "understudy/modelServers/create",
        "understudy/modelServers/update",
        "understudy/modelServers/delete",
        "understudy/modelServers/test",
        "understudy/modelServers/presets",
        "understudy/modelServers/models",
        "understudy/tools/list",
        "understudy/recipes/list",
      ]),
      answers: {
        "page/enterKey": ({ server, ...where }) => enterKey(host.windows, requester, server, where),
        "page/installAgent": (params) => installAgent(host, requester, params),
        "page/saved": async ({ delegator }) => {
          await deps.saved(delegator);
          if (this.#outcomes.has(delegator)) deps.tested(delegator, this.#outcomes.get(delegator));
          this.#end(delegator);
          return {};
        },
      },
      passed: (method, params, result) => {
        if (method !== "understudy/delegators/test") return;
        const { name, delegator } = params as Requests["understudy/delegators/test"]["params"];
        const { ok, steps } = result as ConnectionTest;
        const failure = ok ? undefined : (steps.find((step) => !step.ok)?.message ?? "");
        this.#outcomes.set(delegator?.name ?? name, failure);
        if (!delegator) deps.tested(name, failure); // otherwise it is not saved yet
      },
      closed: () => this.#end(undefined),
    });
  }

  show(target: PageTarget): void {
    this.#end(undefined);
    this.#page.show(target);
  }

  /** Show a form. Returns the name of the delegator that the user saves on the page, if any. */
  showUntilSaved(target: PageTarget): Promise<string | undefined> {
    this.show(target);
    return new Promise((resolve) => (this.#waiting = resolve));
  }

  dispose(): void {
    this.#end(undefined);
    this.#page.dispose();
  }

  #end(name: string | undefined): void {
    this.#waiting?.(name);
    this.#waiting = undefined;
  }
}

/** Ask for the API key of a server and store it. Returns false if none was entered. */
export async function enterKey(
  windows: Pick<Host["windows"], "input">,
  requester: Requester,
  name: string,
  where: { readonly workspace?: string },
): Promise<boolean> {
  const outcome = await windows.input({
    title: t("API Key for {0}", name),
    prompt: t(
      "Stored in the keyring of this machine, or in a file that only you can read. Leave empty if the server needs no key.",
    ),
    password: true,
  });
  if (outcome.kind !== "accepted" || outcome.value.trim() === "") return false;
  await requester.request("understudy/modelServers/setKey", { name, key: outcome.value.trim(), ...where });
  return true;
}

/** The page names an agent, never a command: the contract has it. */
async function installAgent(
  { windows, environment }: Pick<Host, "windows" | "environment">,
  requester: Requester,
  { tool, step }: ProgramRequests["page/installAgent"]["params"],
): Promise<object> {
  const { tools } = await requester.request("understudy/tools/list", {});
  const found = tools.find(({ name }) => name === tool);
  if (found?.install) await takeInstallStep(windows, environment, { ...found, install: found.install }, step);
  return {};
}
