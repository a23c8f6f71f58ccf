/** Ask for a folder of the window where none is named. */

import { t } from "../base/l10n.ts";
import type { Folder, Host } from "./host.ts";

/** The only folder, otherwise the one that the user chooses; undefined when there is none, or none is chosen. */
export async function chooseFolder(
  { workspace, windows }: Pick<Host, "workspace" | "windows">,
  title: string,
): Promise<Folder | undefined> {
  const { folders } = workspace;
  if (folders.length <= 1) return folders[0];
  const outcome = await windows.pick({
    title,
    placeholder: t("Choose a folder"),
    items: folders.map(({ uri, name }) => ({ id: uri, label: name, icon: "root-folder" })),
  });
  return outcome.kind === "picked" ? folders.find(({ uri }) => uri === outcome.ids[0]) : undefined;
}
