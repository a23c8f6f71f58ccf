/** The end of the walkthrough: Ghostwriter, which needs no model, writes tests for a file of the user. */

import { t } from "../base/l10n.ts";
import { startDelegation, type DelegateDeps } from "./delegate.ts";

const OTHER = " other";
const isPython = (uri: string): boolean => uri.endsWith(".py");

/** Ask for a Python file unless one is shown, start, and show the transcript. */
export async function firstRun(deps: DelegateDeps): Promise<void> {
  const { host } = deps;
  const file = await chooseFile(deps);
  if (file === undefined) return;
  const id = await startDelegation(deps, { recipe: "tests", delegator: "ghostwriter", files: [file] });
  if (id !== undefined) await host.commands.run("understudy.delegations.open", id);
}

async function chooseFile({ host }: DelegateDeps): Promise<string | undefined> {
  const { active, tabs } = host.documents;
  if (active && active.uri.startsWith("file:") && isPython(active.uri)) return active.uri;
  const open = tabs.filter(isPython);
  if (open.length > 0) {
    const outcome = await host.windows.pick({
      title: t("Try It"),
      placeholder: t("Write tests for which file? Your files stay as they are until you accept."),
      items: [
        ...open.map((uri) => ({ id: uri, label: decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1)) })),
        { id: OTHER, label: t("Choose Another File…"), icon: "folder-opened" },
      ],
    });
    if (outcome.kind !== "picked") return undefined;
    if (outcome.ids[0] !== OTHER) return outcome.ids[0];
  }
  if (host.workspace.folders.length === 0) {
    const folder = t("Open Folder…");
    const text = t("Open a folder with Python code first.");
    if ((await host.windows.message("info", text, { buttons: [folder] })) === folder) {
      await host.commands.run("workbench.action.files.openFolder");
    }
    return undefined;
  }
  const [chosen] = await host.windows.pickFiles(t("Choose a Python File"), host.workspace.folders[0]?.uri);
  if (chosen === undefined || isPython(chosen)) return chosen;
  await host.windows.message(
    "info",
    t("Ghostwriter writes tests for Python. Other languages need a delegator with a model."),
  );
  return undefined;
}
