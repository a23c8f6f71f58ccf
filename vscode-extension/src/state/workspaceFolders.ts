/** Which folder of the window a file is in, and which delegations belong to the window. */

import * as path from "node:path";
import { realPath } from "../base/paths.ts";
import type { Folder, Host, Workspace } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";

/** The innermost folder that contains the file, otherwise the first one, whose configuration is the default. */
export function folderOf(uri: string | undefined, folders: readonly Folder[]): Folder | undefined {
  const file = uri === undefined ? "" : plain(uri);
  const holding = folders.filter((folder) => file.startsWith(`${plain(folder.uri)}/`));
  return holding.sort((a, b) => b.uri.length - a.uri.length)[0] ?? folders[0];
}

/** Whether two URIs name the same folder. */
export const isSameFolder = (one: string, other: string): boolean => plain(one) === plain(other);

/** The editor and the sidecar escape different characters. */
function plain(uri: string): string {
  try {
    return decodeURIComponent(uri).replace(/\/+$/, "");
  } catch {
    return uri;
  }
}

/** Folders in which no program may be run. */
export function untrustedFolders({ workspace }: Host): readonly string[] {
  return workspace.trusted ? [] : workspace.folders.map((folder) => folder.path);
}

/** Return a predicate: does a delegation belong to the window? Without folders, all of them do. */
export function belongsTo(
  workspace: Pick<Workspace, "folders">,
): (delegation: Pick<Delegation, "workspace">) => boolean {
  let known: readonly { path: string }[] = [];
  let folders: string[] = [];
  const answers = new Map<string, boolean>();
  return (delegation) => {
    const now = workspace.folders;
    if (now.length !== known.length || now.some((folder, index) => folder.path !== known[index]?.path)) {
      known = now;
      folders = now.map((folder) => realPath(folder.path));
      answers.clear();
    }
    if (folders.length === 0) return true;
    let answer = answers.get(delegation.workspace);
    if (answer === undefined) {
      const place = realPath(delegation.workspace);
      answer = folders.some((folder) => contains(folder, place) || contains(place, folder));
      answers.set(delegation.workspace, answer);
    }
    return answer;
  };
}

function contains(folder: string, place: string): boolean {
  const relative = path.relative(folder, place);
  return relative === "" || (!relative.startsWith("..") && !path.isAbsolute(relative));
}
