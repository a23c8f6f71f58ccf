/**
 * Save the documents that an accept or an undo changed. What was saved before is saved afterwards: otherwise, a test run
 * in the terminal would see half of the accept. Text that the user has not saved is theirs to save.
 */

import { realpath } from "node:fs/promises";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import type { Host } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";
import { displayPath } from "../state/formatting.ts";
import type { OpenResult } from "./openResults.ts";

export interface DocumentSaverDeps {
  readonly host: Pick<Host, "documents">;
  readonly delegation: (id: string) => Promise<Delegation>;
}

export class DocumentSaver {
  readonly #deps: DocumentSaverDeps;

  constructor(deps: DocumentSaverDeps) {
    this.#deps = deps;
  }

  /** Run `change` and save the files of the result that it left unsaved. */
  async saving<T>(result: OpenResult, change: () => Promise<T>): Promise<T> {
    const before = new Set((await this.#unsaved(result)).values());
    try {
      return await change();
    } finally {
      for (const uri of (await this.#unsaved(result)).values()) {
        if (!before.has(uri)) await this.#deps.host.documents.save(uri);
      }
    }
  }

  /** The names of these files of the result that have unsaved text. */
  async unsaved(result: OpenResult, paths: readonly string[]): Promise<readonly string[]> {
    const unsaved = await this.#unsaved(result);
    return paths.map(displayPath).filter((name) => unsaved.has(name));
  }

  /** Display path of a file of the result with unsaved text → URI of its document. */
  async #unsaved(result: OpenResult): Promise<ReadonlyMap<string, string>> {
    const unsaved = this.#deps.host.documents.open().filter(({ uri }) => uri.startsWith("file:"));
    if (unsaved.length === 0) return new Map();
    const { workspace } = await this.#deps.delegation(result.id);
    const names = new Map(result.files.map((file) => [userFile(workspace, file.path), displayPath(file.path)]));
    const found = await Promise.all(
      unsaved.map(async ({ uri }) => {
        const name = names.get(fileURLToPath(uri)) ?? names.get(await realFile(fileURLToPath(uri)));
        return name === undefined ? [] : [[name, uri] as const];
      }),
    );
    return new Map(found.flat());
  }
}

/** The user's own version of a file of a result. */
export function userFile(workspace: string, name: string): string {
  return path.join(workspace, ...displayPath(name).split("/"));
}

/** The path with the links in its folders resolved, as the engine writes it. */
async function realFile(file: string): Promise<string> {
  try {
    return path.join(await realpath(path.dirname(file)), path.basename(file));
  } catch {
    return file;
  }
}
