/** The files that paths in a transcript refer to. */

import * as path from "node:path";
import { t } from "../base/l10n.ts";
import { fileUri } from "../base/paths.ts";
import type { Delegation } from "../protocol.ts";

/** The user's own file if it exists, otherwise the file of the result; undefined outside of both folders. */
export function linkTarget(
  delegation: Delegation,
  name: string,
  exists: (file: string) => boolean,
): { target: string; tooltip: string } | undefined {
  const roots = [delegation.workspace, ...(delegation.rescueRef === undefined ? [delegation.worktree ?? ""] : [])];
  for (const root of roots) {
    if (root === "") continue;
    const file = path.resolve(root, name);
    const inside = roots.some((other) => other !== "" && (file === other || file.startsWith(other + path.sep)));
    if (!inside || !exists(file)) continue;
    const own = root === delegation.workspace;
    return { target: fileUri(file), tooltip: own ? t("Open your file") : t("Open the file in the result") };
  }
  return undefined;
}
