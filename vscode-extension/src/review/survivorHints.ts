/** Show the changes that no test noticed at the code under test, while the result is under review. */

import * as path from "node:path";
import { pathToFileURL } from "node:url";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { DiagnosticText, Host, OpenText } from "../host/host.ts";
import type { Delegation, JudgedMutant } from "../protocol.ts";
import { displayPath, oneLine } from "../state/formatting.ts";
import { survivors } from "../state/mutationWording.ts";
import { isToReview } from "../state/wording.ts";
import type { Store } from "../state/store.ts";

export interface SurvivorHintDeps {
  readonly host: { readonly documents: Pick<Host["documents"], "active" | "open" | "setHints"> & Events };
  readonly store: Pick<Store, "delegations" | "onDidChange">;
}

type Events = Pick<Host["documents"], "onDidChangeActive" | "onDidClose" | "onDidSave">;

export function registerSurvivorHints({ host: { documents }, store }: SurvivorHintDeps): Disposable {
  const disposables = new DisposableStore();
  /** Documents that were active, and whether they have hints. */
  const shown = new Map<string, boolean>();
  const show = (uri: string): void => {
    const [document] = documents.open([uri]);
    const hints = document ? hintsIn(document, store.delegations.filter(isToReview)) : [];
    if (hints.length > 0 || shown.get(uri) === true) documents.setHints(uri, hints);
    shown.set(uri, hints.length > 0);
  };
  const showActive = (): void => {
    const uri = documents.active?.uri;
    if (uri?.startsWith("file:") === true) show(uri);
  };
  disposables.add(documents.onDidChangeActive(showActive));
  disposables.add(documents.onDidSave((uri) => shown.has(uri) && show(uri)));
  disposables.add(
    documents.onDidClose((uri) => {
      if (shown.get(uri) === true) documents.setHints(uri, []);
      shown.delete(uri);
    }),
  );
  disposables.add(
    store.onDidChange(({ delegations }) => {
      if (delegations.size === 0) return;
      for (const uri of shown.keys()) show(uri);
      showActive();
    }),
  );
  showActive();
  return disposables;
}

/** A change is shown at its line if that still has the same text, otherwise at the only line that has it. */
export function hintsIn(
  { uri, text }: Pick<OpenText, "uri" | "text">,
  delegations: readonly Delegation[],
): DiagnosticText[] {
  const lines = text.split(/\r\n|\n|\r/u);
  return delegations.flatMap((delegation) =>
    delegation.checks
      .flatMap(({ mutation }) => (mutation ? survivors(mutation) : []))
      .filter((mutant) => isFile(uri, delegation.workspace, mutant.path))
      .flatMap((mutant) => {
        const line = lineOf(mutant, lines);
        if (line === undefined) return [];
        const length = lines[line]?.length ?? 0;
        return [
          {
            range: { start: { line, character: 0 }, end: { line, character: length } },
            severity: "hint",
            message: t(
              "No test notices “{0}” instead of “{1}”. {2}",
              oneLine(mutant.after),
              oneLine(mutant.before),
              oneLine(delegation.title, 60),
            ),
            source: "Understudy",
            code: mutant.id,
          } satisfies DiagnosticText,
        ];
      }),
  );
}

function lineOf({ line, before }: JudgedMutant, lines: readonly string[]): number | undefined {
  const wanted = before.split("\n")[0]?.trim() ?? "";
  if (wanted === "") return undefined;
  // The text of a long line begins and ends anywhere in it.
  const has = (text: string): boolean => text.trim() === wanted || (text.length > 200 && text.includes(wanted));
  if (has(lines[line - 1] ?? "")) return line - 1;
  const found = [...lines.keys()].filter((number) => has(lines[number] ?? ""));
  return found.length === 1 ? found[0] : undefined;
}

function isFile(uri: string, workspace: string, name: string): boolean {
  if (!uri.endsWith(path.extname(displayPath(name)))) return false;
  return decodeURIComponent(uri) === decodeURIComponent(pathToFileURL(path.join(workspace, displayPath(name))).href);
}
