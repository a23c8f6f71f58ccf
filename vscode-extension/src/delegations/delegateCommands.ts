/** Commands that delegate, in the palette and in menus, and the code actions of the sidecar. */

import type { App } from "../appContext.ts";
import { DisposableStore, Emitter } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { delegate, startDelegation, startRecipe, subjectOf, type DelegateDeps } from "./delegate.ts";
import type { StartParams } from "../protocol.ts";

/** Scheme of prompts: `understudy-prompt:/<recipe>/<title>.md`. */
const PROMPT_SCHEME = "understudy-prompt";

/** Identify a prompt by its recipe: editors escape the rest of the URI differently. */
const promptKey = (uri: string): string => decodeURIComponent(uri.split("/")[1] ?? "");

export function registerDelegateCommands(
  { host, sidecar, store, interceptors }: App,
  started: (id: string) => Promise<void>,
): DisposableStore {
  const disposables = new DisposableStore();
  const prompts = new Map<string, string>();
  const promptChanged = disposables.add(new Emitter<string>());
  disposables.add(
    host.documents.provide(PROMPT_SCHEME, {
      text: (uri) => prompts.get(promptKey(uri)) ?? "",
      onDidChange: promptChanged.subscribe,
    }),
  );
  const deps: DelegateDeps = {
    requester: sidecar,
    host,
    store,
    started,
    async showPrompt(text, { name, title }) {
      const uri = `${PROMPT_SCHEME}:/${encodeURIComponent(name)}/${encodeURIComponent(title.replaceAll("/", " "))}.md`;
      prompts.set(promptKey(uri), text);
      promptChanged.fire(uri);
      await host.documents.show(uri, { preview: true });
    },
  };
  const needsFile = async (): Promise<void> => {
    await host.windows.message("info", t("Open a file on disk first."));
  };

  disposables.add(
    host.commands.register("understudy.delegate", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, "selection");
      if (!subject && host.workspace.folders.length === 0) return needsFile();
      return delegate(deps, subject ?? { files: [] }, { askInstructions: true });
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.tests", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, "file");
      return subject ? startRecipe(deps, subject, "tests") : needsFile();
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.selection", async (uri) => {
      const subject = subjectOf(deps, uri, undefined, "selection");
      return subject ? delegate(deps, subject, { askInstructions: false }) : needsFile();
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.diagnostics", async (uri) => {
      const subject = subjectOf(deps, uri, undefined, "diagnostics");
      if (!subject) return needsFile();
      if (!subject.diagnostics) return host.windows.message("info", t("There are no problems in this file."));
      return delegate(deps, subject, { askInstructions: false });
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.recipe", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, "file");
      return subject ? delegate(deps, subject, { askInstructions: false }) : needsFile();
    }),
  );

  // Start delegations of the sidecar's code actions here, so that their results are reported.
  interceptors.set("understudy/delegations/start", async ([params]) => {
    if (typeof params !== "object" || params === null) return undefined;
    try {
      return (await startDelegation(deps, params as StartParams)) ?? "";
    } catch (error) {
      const { message, hint } = toErrorInfo(error);
      await host.windows.message("error", hint ? `${message} ${hint}` : message);
      return "";
    }
  });
  disposables.add({ dispose: () => void interceptors.delete("understudy/delegations/start") });
  return disposables;
}
