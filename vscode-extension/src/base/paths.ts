/** Paths on disk. */

import { realpathSync } from "node:fs";
import * as path from "node:path";

/** The URI of a path on disk. */
export function fileUri(file: string): string {
  return `file://${file.split(path.sep).map(encodeURIComponent).join("/")}`;
}

/** Resolve symbolic links; a path that does not exist is only made absolute. */
export function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return path.resolve(file);
  }
}
