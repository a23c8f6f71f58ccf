/** Which folder of the window a file is in. */

import type { Folder } from "../host/host.ts";

/** The innermost folder that holds the file, else the first one: as whose configuration things count by default. */
export function folderOf(uri: string | undefined, folders: readonly Folder[]): Folder | undefined {
  const file = uri === undefined ? "" : plain(uri);
  const holding = folders.filter((folder) => file.startsWith(`${plain(folder.uri)}/`));
  return holding.sort((a, b) => b.uri.length - a.uri.length)[0] ?? folders[0];
}

/** The editor and the sidecar do not escape the same characters. */
function plain(uri: string): string {
  try {
    return decodeURIComponent(uri).replace(/\/+$/, "");
  } catch {
    return uri;
  }
}
