/** Which delegations are this window's: those whose workspace is one of its folders, below one, or above one. */

import { realpathSync } from "node:fs";
import * as path from "node:path";
import type { Workspace } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";

/** Tells whether a delegation belongs to the window. In a window without a folder all of them do. */
export function isHere(workspace: Pick<Workspace, "folders">): (delegation: Pick<Delegation, "workspace">) => boolean {
  let known: readonly { path: string }[] = [];
  let folders: string[] = [];
  const answers = new Map<string, boolean>();
  return (delegation) => {
    const now = workspace.folders;
    if (now.length !== known.length || now.some((folder, index) => folder.path !== known[index]?.path)) {
      known = now;
      folders = now.map((folder) => real(folder.path));
      answers.clear();
    }
    if (folders.length === 0) return true;
    let answer = answers.get(delegation.workspace);
    if (answer === undefined) {
      const place = real(delegation.workspace);
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

/** Without links; as it is where there is no such folder any more. */
function real(place: string): string {
  try {
    return realpathSync(place);
  } catch {
    return path.resolve(place);
  }
}
