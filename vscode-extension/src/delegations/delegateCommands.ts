/** Commands that delegate, in the palette and in menus, and the code actions of the sidecar. */

import type { App, Interceptor } from "../appContext.ts";
import { DisposableStore, Emitter } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { ComposePanel } from "../compose/composePanel.ts";
import { delegatorName } from "../delegators/delegatorTree.ts";
import { repairing, SidecarError, toErrorInfo } from "../sidecar/connection.ts";
import {
  chooseFiles,
  delegate,
  estimate,
  showPrompt,
  startConfirmed,
  startDelegation,
  startRecipe,
  subjectOf,
  type DelegateDeps,
} from "./delegate.ts";
import { firstRun } from "./firstRun.ts";
import { TextRequests } from "./textRequests.ts";
import type { StartParams, TextParams } from "../protocol.ts";

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
  const texts = disposables.add(new TextRequests({ host, requester: sidecar, subscriber: sidecar }));
  const composer = disposables.add(
    new ComposePanel({
      host,
      requester: sidecar,
      store,
      start: (params) => startDelegation(deps, params),
      showPrompt: async (params) => {
        const recipe = store.recipes.find(({ name }) => name === params.recipe);
        return recipe ? showPrompt(deps, params, recipe) : t("No recipe applies here.");
      },
      estimate: (params) => estimate(deps, params),
      chooseFiles: async (folder) => {
        const files = await chooseFiles(host, folder);
        return files === "back" ? [] : files;
      },
    }),
  );
  const deps: DelegateDeps = {
    ask: (params) => texts.run(params, titleOf(params)),
    compose: (first) => composer.show(first),
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
  const titleOf = ({ recipe, task }: TextParams): string => {
    const title = store.recipes.find(({ name }) => name === recipe)?.title ?? recipe;
    return task ? t("{0}: {1}", title, task) : title;
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
  disposables.add(host.commands.register("understudy.delegate.firstRun", () => firstRun(deps)));
  disposables.add(
    host.commands.register("understudy.delegate.compose", (uri, uris) => {
      composer.show({ files: uri === undefined ? [] : (subjectOf(deps, uri, uris, "file")?.files ?? []) });
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.with", async (row) => {
      const name = delegatorName(row);
      if (name !== undefined) await composer.choose(name);
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegate.tests", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, "file");
      if (subject) return startRecipe(deps, subject, "tests");
      if (host.workspace.folders.length === 0) return needsFile();
      return delegate(deps, { files: [] }, { recipe: "tests", askInstructions: false });
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

  disposables.add(
    host.commands.register("understudy.ask", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, Array.isArray(uris) && uris.length > 1 ? "file" : "selection");
      return subject ? delegate(deps, subject, { recipe: "ask", askInstructions: false }) : needsFile();
    }),
  );
  disposables.add(
    host.commands.register("understudy.summarize", async (uri, uris) => {
      const subject = subjectOf(deps, uri, uris, "file");
      return subject ? startRecipe(deps, subject, "summarize") : needsFile();
    }),
  );

  // Start delegations of the sidecar's code actions here, so that their results are reported.
  const forAction = (start: (params: object) => Promise<string | undefined>): Interceptor => {
    const run: Interceptor = async ([params]) => {
      if (typeof params !== "object" || params === null) return undefined;
      try {
        return (
          (await repairing(
            () => start(params),
            (id, ...values) => host.commands.run(id, ...values),
          )) ?? ""
        );
      } catch (error) {
        const { message, hint } = toErrorInfo(error);
        const repair = error instanceof SidecarError ? error.repair : undefined;
        const buttons = repair ? [repair.title] : [];
        const answer = await host.windows.message("error", hint ? `${message} ${hint}` : message, { buttons });
        if (!repair || answer !== repair.title) return "";
        return (await host.commands.run(repair.command, ...(repair.arguments ?? []))) === true ? run([params]) : "";
      }
    };
    return run;
  };
  const actions = {
    "understudy/delegations/start": forAction((params) => startConfirmed(deps, params as StartParams)),
    "understudy/text/run": forAction((params) => deps.ask(params as TextParams)),
    // The questions of the sidecar, asked here: which delegator, or what to do with the file or the selection.
    "understudy-delegate/choose": forAction(async (params) => {
      const start = params as Partial<StartParams>;
      if (start.recipe !== undefined) return startConfirmed(deps, start as StartParams);
      await host.commands.run("understudy.delegate", start.files?.[0]);
      return "";
    }),
  };
  for (const [name, run] of Object.entries(actions)) {
    interceptors.set(name, run);
    disposables.add({ dispose: () => void interceptors.delete(name) });
  }
  return disposables;
}
