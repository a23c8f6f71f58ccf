/** Delegate: the palette, the menus of editors and of the explorer, and the code actions that the sidecar offers. */

import type { App } from "../app.ts";
import { Bag, Emitter } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { errorInfo } from "../client/wire.ts";
import { delegate, start, startRecipe, subjectOf, type DelegateParts } from "../flows/delegate.ts";
import type { StartParams } from "../protocol.ts";

/** Scheme of prompts that would be sent: `understudy-prompt:/<recipe>/<title>.md`. */
const PROMPT = "understudy-prompt";
/** Editors escape a URI in their own way: the recipe is what tells prompts apart. */
const keyOf = (uri: string): string => decodeURIComponent(uri.split("/")[1] ?? "");

export function registerDelegateCommands(
  { host, sidecar, store, interceptors }: App,
  started: (id: string) => Promise<void>,
): Bag {
  const bag = new Bag();
  const prompts = new Map<string, string>();
  const promptChanged = bag.add(new Emitter<string>());
  bag.add(
    host.documents.provide(PROMPT, { text: (uri) => prompts.get(keyOf(uri)) ?? "", onDidChange: promptChanged.signal }),
  );
  const parts: DelegateParts = {
    asker: sidecar,
    host,
    store,
    started,
    async showPrompt(text, { name, title }) {
      const uri = `${PROMPT}:/${encodeURIComponent(name)}/${encodeURIComponent(title.replaceAll("/", " "))}.md`;
      prompts.set(keyOf(uri), text);
      promptChanged.fire(uri);
      await host.documents.show(uri, { preview: true });
    },
  };
  const needsFile = async (): Promise<void> => {
    await host.windows.message("info", t("Open a file on disk first: there is nothing to delegate."));
  };

  bag.add(
    host.commands.register("understudy.delegate", async (uri, uris) => {
      const subject = subjectOf(parts, uri, uris, "selection");
      if (!subject && host.workspace.folders.length === 0) return needsFile();
      return delegate(parts, subject ?? { files: [] }, { words: true });
    }),
  );
  bag.add(
    host.commands.register("understudy.delegate.tests", async (uri, uris) => {
      const subject = subjectOf(parts, uri, uris, "file");
      return subject ? startRecipe(parts, subject, "tests") : needsFile();
    }),
  );
  bag.add(
    host.commands.register("understudy.delegate.selection", async (uri) => {
      const subject = subjectOf(parts, uri, undefined, "selection");
      return subject ? delegate(parts, subject, { words: false }) : needsFile();
    }),
  );
  bag.add(
    host.commands.register("understudy.delegate.diagnostics", async (uri) => {
      const subject = subjectOf(parts, uri, undefined, "diagnostics");
      if (!subject) return needsFile();
      if (!subject.diagnostics) return host.windows.message("info", t("There is no problem in this file."));
      return delegate(parts, subject, { words: false });
    }),
  );
  bag.add(
    host.commands.register("understudy.delegate.recipe", async (uri, uris) => {
      const subject = subjectOf(parts, uri, uris, "file");
      return subject ? delegate(parts, subject, { words: false }) : needsFile();
    }),
  );

  // A code action of the sidecar: started here, so that it shows progress and ends like every other.
  interceptors.set("understudy/delegations/start", async ([params]) => {
    if (typeof params !== "object" || params === null) return undefined;
    try {
      return (await start(parts, params as StartParams)) ?? "";
    } catch (error) {
      const { message, hint } = errorInfo(error);
      await host.windows.message("error", hint ? `${message} ${hint}` : message);
      return "";
    }
  });
  bag.add({ dispose: () => void interceptors.delete("understudy/delegations/start") });
  return bag;
}
