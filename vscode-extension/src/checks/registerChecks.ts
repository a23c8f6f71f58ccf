/** Commands on checks: add one; run all on the working copy; try, remove or open those that are configured. */

import * as path from "node:path";
import { pathToFileURL } from "node:url";
import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Folder } from "../host/host.ts";
import type { CheckEntry, CheckTrial, Delegation } from "../protocol.ts";
import { delegationIdOf } from "../state/delegationUris.ts";
import { chooseFolder } from "../host/chooseFolder.ts";
import { scopeName } from "../state/saveScope.ts";
import { oneLine } from "../state/formatting.ts";
import { addCheck, type AddCheckDeps, commandText, outcomeText, runTrial, showOutput } from "./addCheck.ts";

export function registerChecks({ host, sidecar, store }: App): Disposable {
  const disposables = new DisposableStore();
  const deps = { host, requester: sidecar };

  /** The folder of a delegation, otherwise one that the user chooses. */
  const folderFor = async (delegation: Delegation | undefined): Promise<Folder | undefined> => {
    if (delegation) {
      const uri = pathToFileURL(delegation.workspace).toString();
      return { uri, path: delegation.workspace, name: path.basename(delegation.workspace) };
    }
    const { folders } = host.workspace;
    if (folders.length === 0) await host.windows.message("info", t("Open a folder first: checks belong to a project."));
    return chooseFolder(host, t("Checks"));
  };

  disposables.add(
    host.commands.register("understudy.checks.add", async (row) => {
      const id = delegationIdOf(row);
      const delegation = id === undefined ? undefined : store.delegation(id);
      const folder = await folderFor(delegation);
      const made = folder && (await addCheck(deps, folder));
      if (!made) return false;
      const { name } = made.check;
      // A result that had checks keeps them; one without is checked with the new one.
      if (delegation?.checks.length !== 0) {
        void host.windows.message("info", t("Check {0} saved. Results must pass it from now on.", name));
        return true;
      }
      const now = t("Check Result");
      const text = t("Check {0} saved. Run it on “{1}” now?", name, delegation.title);
      if ((await host.windows.message("info", text, { buttons: [now] })) !== now) return true;
      // Its row and the status bar show the progress.
      await sidecar.request("understudy/delegations/check", { id: delegation.id });
      return true;
    }),
  );
  disposables.add(
    host.commands.register("understudy.checks.run", async (row) => {
      const id = delegationIdOf(row);
      const folder = await folderFor(id === undefined ? undefined : store.delegation(id));
      if (folder) await runOnWorkingCopy(deps, folder, id);
    }),
  );
  disposables.add(
    host.commands.register("understudy.checks.manage", async () => {
      const folder = await folderFor(undefined);
      if (folder) await manageChecks(deps, folder);
    }),
  );
  return disposables;
}

/**
 * Run the configured checks on the user's files, or the first that the project suggests. It is not the verdict of a
 * result: `id` is the delegation whose accepted changes are looked at, if there is one.
 */
async function runOnWorkingCopy(deps: AddCheckDeps, folder: Folder, id: string | undefined): Promise<void> {
  const { host, requester } = deps;
  const workspace = folder.uri;
  const { checks, proposals } = await requester.request("understudy/checks/list", { workspace });
  const suggested = proposals.filter(({ problem }) => problem === undefined).slice(0, 1);
  const chosen = checks.length > 0 ? checks.map(({ check }) => check.name) : suggested.map(({ check }) => check);
  const trials: { readonly name: string; readonly trial: CheckTrial }[] = [];
  for (const check of chosen) {
    const trial = await runTrial(deps, check, workspace);
    if (!trial) return; // cancelled, or the reason was shown
    trials.push({ name: typeof check === "string" ? check : check.name, trial });
  }
  if (trials.length === 0) {
    const add = t("Add Check…");
    const text = t("No check is configured, and no test runner was found in this project.");
    if ((await host.windows.message("info", text, { buttons: [add] })) === add) await addCheck(deps, folder);
    return;
  }
  const failed = trials.filter(({ trial }) => !trial.ok);
  const unsaved = host.documents
    .open()
    .filter(({ uri, dirty }) => dirty && uri.startsWith(`${workspace}/`))
    .map(({ uri }) => decodeURIComponent(uri.slice(workspace.length + 1)));
  const text = [
    t("Your working copy:"),
    `${trials
      .map(({ name, trial }) =>
        trial.ok ? t("{0} passes ({1})", name, outcomeText(trial)) : t("{0} fails ({1})", name, outcomeText(trial)),
      )
      .join(", ")}.`,
    ...(unsaved.length > 0 ? [t("Not included, because it is not saved: {0}.", unsaved.join(", "))] : []),
    ...trials.flatMap(({ trial }) => trial.notes.map((note) => oneLine(note, 200))),
  ].join(" ");
  const [commit, show] = [t("Commit…"), t("Show Output")];
  const buttons = id !== undefined && failed.length === 0 ? [commit, show] : [show];
  const answer = await host.windows.message(failed.length > 0 ? "warning" : "info", text, { buttons });
  const last = (failed[0] ?? trials.at(-1))?.trial;
  if (answer === show && last) await showOutput(host, last);
  if (answer === commit) await host.commands.run("understudy.review.commit", id);
}

const ADD = " add"; // not the name of a check

/** List the checks of a folder, with buttons to try, open and remove each. */
async function manageChecks(deps: AddCheckDeps, folder: Folder): Promise<void> {
  const { host, requester } = deps;
  const workspace = folder.uri;
  for (;;) {
    const { checks } = await requester.request("understudy/checks/list", { workspace });
    const outcome = await host.windows.pick({
      title: t("Checks of {0}", folder.name),
      placeholder:
        checks.length > 0 ? t("Choose a check to run it on your current files") : t("No check is configured."),
      items: [...checks.map(checkItem), { id: ADD, label: t("Add Check…"), icon: "add" }],
    });
    if (outcome.kind === "picked" && outcome.ids[0] === ADD) {
      await addCheck(deps, folder);
      continue;
    }
    const name = outcome.kind === "picked" ? outcome.ids[0] : outcome.kind === "button" ? outcome.item : undefined;
    const entry = checks.find(({ check }) => check.name === name);
    if (!entry) return;
    if (outcome.kind === "picked") {
      const trial = await runTrial(deps, entry.check.name, workspace);
      if (!trial) return;
      const show = t("Show Output");
      const text = trial.ok
        ? t("{0} passes: {1}", entry.check.name, outcomeText(trial))
        : t("{0} fails on your current files: {1}.", entry.check.name, outcomeText(trial));
      const answer = await host.windows.message(trial.ok ? "info" : "warning", text, { buttons: [show] });
      if (answer === show) await showOutput(host, trial);
      return;
    }
    if (outcome.kind === "button" && outcome.button === "open") {
      if (entry.location) await host.documents.show(entry.location.uri, { range: entry.location.range });
      return;
    }
    const remove = t("Remove");
    const question = { buttons: [remove], modal: true, detail: t("Its file is deleted.") };
    const text = t("Remove the check {0}?", entry.check.name);
    if ((await host.windows.message("warning", text, question)) !== remove) continue;
    await requester.request("understudy/checks/delete", {
      name: entry.check.name,
      revision: entry.revision,
      workspace,
    });
  }
}

function checkItem({ check, state, scope, editable, location }: CheckEntry) {
  const problem = state.problems[0]?.message;
  const where = scopeName(scope);
  return {
    id: check.name,
    label: check.name,
    icon: problem === undefined ? "beaker" : "warning",
    description: commandText(check),
    detail: problem ?? (check.required === false ? t("{0}, not required", where) : where),
    buttons: [
      ...(location ? [{ id: "open", icon: "go-to-file", tooltip: t("Open File") }] : []),
      ...(editable ? [{ id: "remove", icon: "trash", tooltip: t("Remove") }] : []),
    ],
  };
}
