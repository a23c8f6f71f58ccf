/**
 * The files of results in the editor: base and result are read-only; the copy that “Edit Result” opens is writable, and
 * saving it amends the result.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { FileMissing, type FileChange, type FileStat, type Host } from "../host/host.ts";
import { SidecarError, toErrorInfo } from "../sidecar/connection.ts";
import { displayPath } from "../state/formatting.ts";
import type { FileContent, OpenResult, OpenResults } from "./openResults.ts";
import { BASE, EDIT, parseReviewUri, RESULT, reviewUri, type Side } from "./reviewUris.ts";
import { LINK } from "./reviewWording.ts";

/** Errors after which the file does not exist for this editor, and will not come back by itself. */
const GONE = new Set(["unknown_delegation", "base_unavailable"]);

export interface ResultFileDeps {
  readonly host: { readonly documents: Pick<Host["documents"], "provideFiles" | "onDidClose"> };
  readonly openResults: Pick<OpenResults, "result" | "onDidChange">;
}

interface Found {
  readonly result: OpenResult;
  /** On the wire. */
  readonly path: string;
  readonly content: FileContent & { readonly bytes: Uint8Array };
}

export class ResultFiles implements Disposable {
  readonly #deps: ResultFileDeps;
  readonly #disposables = new DisposableStore();
  /** What an open copy was read from: the edit is based on it. */
  readonly #seen = new Map<string, FileContent>();

  constructor(deps: ResultFileDeps) {
    this.#deps = deps;
    const { documents } = deps.host;
    const never = this.#disposables.add(new Emitter<readonly FileChange[]>());
    const changed = this.#disposables.add(new Emitter<readonly FileChange[]>());
    for (const [scheme, side] of [[BASE, "base"] as const, [RESULT, "result"] as const]) {
      this.#disposables.add(
        documents.provideFiles(scheme, {
          read: async (uri) => (await this.#find(uri, side)).content.bytes,
          stat: (uri) => this.#stat(uri, side),
          onDidChange: (side === "base" ? never : changed).subscribe,
        }),
      );
    }
    this.#disposables.add(
      documents.provideFiles(EDIT, {
        read: (uri) => this.#readCopy(uri),
        stat: (uri) => this.#stat(uri, "result"),
        write: (uri, content) => this.#write(uri, content),
        onDidChange: changed.subscribe,
      }),
    );
    this.#disposables.add(documents.onDidClose((uri) => this.#seen.delete(keyOf(uri))));
    this.#disposables.add(
      deps.openResults.onDidChange(({ id, paths }) => void this.#announce(id, paths).then(changed.fire.bind(changed))),
    );
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  async #announce(id: string, paths: readonly string[]): Promise<readonly FileChange[]> {
    if (paths.length === 0) return [];
    const changes = paths.map(async (path) => {
      const kind = await this.#changeOf(id, path);
      return [RESULT, EDIT].map((scheme) => ({ uri: reviewUri(scheme, id, displayPath(path)), kind }));
    });
    return (await Promise.all(changes)).flat();
  }

  /** A file that cannot be read now is not deleted: the editor reads it again, and reports why it cannot. */
  async #changeOf(id: string, path: string): Promise<FileChange["kind"]> {
    try {
      const { bytes } = await (await this.#deps.openResults.result(id)).content(path, "result");
      return bytes ? "changed" : "deleted";
    } catch {
      return "changed";
    }
  }

  async #stat(uri: string, side: Side): Promise<FileStat> {
    const { result, path, content } = await this.#find(uri, side);
    const changed = side === "base" ? result.startedAt : result.changedAt(path);
    return { size: content.bytes.byteLength, changed, readonly: !isEditable(content) };
  }

  async #readCopy(uri: string): Promise<Uint8Array> {
    const { content } = await this.#find(uri, "result");
    this.#seen.set(keyOf(uri), content);
    return content.bytes;
  }

  async #write(uri: string, bytes: Uint8Array): Promise<void> {
    const { result, path, content } = await this.#find(uri, "result");
    // A copy that the editor restored with unsaved text was not read in this window.
    const seen = this.#seen.get(keyOf(uri)) ?? content;
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new SidecarError({ kind: "invalid_params", message: t("{0} is not UTF-8 text.", displayPath(path)) });
    }
    // Also without a change: the next edit is based on what was there at this save.
    this.#seen.set(keyOf(uri), text === seen.text ? seen : await result.amend(path, text, seen));
  }

  async #find(uri: string, side: Side): Promise<Found> {
    const place = parseReviewUri(uri);
    if (!place) throw new FileMissing(t("{0} is not a file of a result.", uri));
    const missing = new FileMissing(t("{0} is not in the result.", place.path));
    try {
      const result = await this.#deps.openResults.result(place.id);
      const path = result.wirePath(place.path, side);
      if (path === undefined) throw missing;
      const content = await result.content(path, side);
      if (!content.bytes) throw missing;
      return { result, path, content: { ...content, bytes: content.bytes } };
    } catch (error) {
      if (error instanceof FileMissing || !GONE.has(toErrorInfo(error).kind)) throw error;
      throw new FileMissing(toErrorInfo(error).message);
    }
  }
}

/** Whether the user can edit this file: a regular file with UTF-8 text. */
export function isEditable({ bytes, text, mode }: FileContent): boolean {
  return bytes !== undefined && text !== undefined && mode !== LINK;
}

function keyOf(uri: string): string {
  const place = parseReviewUri(uri);
  return place?.scheme === EDIT ? reviewUri(EDIT, place.id, place.path) : uri;
}
