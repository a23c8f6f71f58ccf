/**
 * Do what the engine knows to do about a problem: by a request where that changes its configuration, in a terminal
 * where something is installed, otherwise by the command that asks. Then what led here goes on.
 */

import * as path from "node:path";
import { pathToFileURL } from "node:url";
import type { App } from "../appContext.ts";
import { DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { delegatorRow } from "../delegators/delegatorTree.ts";
import { installAgent } from "../delegators/installAgent.ts";
import { enterKey } from "../delegators/delegatorsPanel.ts";
import type { Delegation, Remedy } from "../protocol.ts";
import { delegationIdOf } from "../state/delegationUris.ts";
import { remedyOf, remedyTitle } from "../state/remedies.ts";

export function registerRemedies({ host, sidecar, store }: App): DisposableStore {
  const disposables = new DisposableStore();
  const { windows, commands, environment } = host;

  /** Returns whether it was done. */
  const run = async (remedy: Remedy, workspace: string | undefined): Promise<boolean> => {
    const { name = "" } = remedy;
    const folder = workspace ?? host.workspace.folders[0]?.path;
    switch (remedy.kind) {
      case "link_folders":
      case "copy_files":
      case "set_up_worktrees":
        await sidecar.request("understudy/remedies/apply", { remedy, ...(folder ? { workspace: uriOf(folder) } : {}) });
        return true;
      case "make_environment":
      case "install_packages":
        if (folder === undefined) return false;
        return windows.runToEnd(remedyTitle(remedy), remedy.commands ?? [], path.join(folder, remedy.folder ?? ""));
      case "install_tool":
      case "log_in": {
        const { tools } = await sidecar.request("understudy/tools/list", {});
        const tool = tools.find((one) => one.name === name);
        const first = remedy.kind === "log_in" ? "login" : "install";
        return tool !== undefined && (await installAgent({ requester: sidecar, windows, environment }, tool, first)) !== undefined; // prettier-ignore
      }
      case "set_key":
        return enterKey(windows, sidecar, name, folder ? { workspace: uriOf(folder) } : {});
      case "choose_model": {
        const model = (): string | undefined => store.delegator(name)?.delegator.model;
        const before = model();
        await commands.run("understudy.delegators.edit", delegatorRow(name));
        return model() !== before;
      }
      case "add_check":
        return (await commands.run("understudy.checks.add")) === true;
      case "trust":
        return (await commands.run("understudy.trust")) === true;
      case "add_delegator":
        return (await commands.run("understudy.delegators.add")) !== undefined;
      case "resume_queue":
        await sidecar.request("understudy/queue/pause", { paused: false });
        return true;
    }
  };

  disposables.add(
    commands.register("understudy.remedy", (remedy, workspace) =>
      run(remedy as Remedy, typeof workspace === "string" ? workspace : undefined),
    ),
  );
  disposables.add(
    commands.register("understudy.delegations.remedy", async (place) => {
      const id = delegationIdOf(place);
      const delegation = id === undefined ? undefined : (store.delegation(id) ?? (await store.read(id)));
      const remedy = delegation && remedyOf(delegation);
      if (!delegation || !remedy) {
        await windows.message("info", t("There is nothing left to do."));
        return;
      }
      if (await run(remedy, delegation.workspace)) await goOn(delegation);
    }),
  );

  /** A failure is tried again with the same request; a result gets the checks that it lacked. */
  async function goOn({ id, error, head }: Delegation): Promise<void> {
    if (error || head === undefined) await commands.run("understudy.delegations.retry", id);
    else await sidecar.request("understudy/delegations/check", { id });
  }
  return disposables;
}

const uriOf = (folder: string): string => pathToFileURL(folder).toString();
