/**
 * A new delegation as a page in a tab: a task of several lines, files, recipe and delegator. There is one such tab. Its
 * draft is stored by the page (a reload of the window) and in the workspace (a tab that was closed).
 */

import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { pageHtml } from "../base/pageHtml.ts";
import type { Folder, Host, Panel } from "../host/host.ts";
import type { StartParams } from "../protocol.ts";
import { SidecarError, toErrorInfo, type Requester } from "../sidecar/connection.ts";
import { checkValue, choicesOf, plainDescription, type Option } from "../state/delegatorOptions.ts";
import { delegationIdOf } from "../state/delegationUris.ts";
import { errorText } from "../state/formatting.ts";
import {
  agentOf,
  agentOptions,
  isModel,
  optionId,
  optionOfParameter,
  overrideOf,
  overrideOptions,
  ownValue,
} from "../state/launchOverride.ts";
import { readFacts, readModels, refusedOptions, type DelegatorFacts } from "../state/overrideRequests.ts";
import type { Store } from "../state/store.ts";
import { folderOf } from "../state/workspaceFolders.ts";
import {
  draftOf,
  MAX_FILES,
  type ComposeChoices,
  type ComposeDraft,
  type ComposeFile,
  type ComposeOption,
  type FromComposePage,
  type ToComposePage,
} from "./composeMessages.ts";

export const COMPOSE_PANEL = "understudy.compose";
/** Memory key of the draft. */
const DRAFT_KEY = "compose.draft";

export interface ComposePanelDeps {
  readonly host: Pick<Host, "windows" | "documents" | "workspace" | "memory" | "environment" | "output" | "commands">;
  readonly requester: Requester;
  readonly store: Pick<Store, "recipes" | "delegators" | "defaultDelegator" | "modelServers" | "onDidChange">;
  /** Start a delegation; undefined if the user cancelled. */
  readonly start: (params: StartParams) => Promise<string | undefined>;
  /** Show the complete prompt; returns what would be sent. */
  readonly showPrompt: (params: StartParams) => Promise<string>;
}

export class ComposePanel implements Disposable {
  readonly #deps: ComposePanelDeps;
  readonly #disposables = new DisposableStore();
  #panel: Panel | undefined;
  #draft: ComposeDraft;
  /** The last active editor: while the page has the focus, there is none. */
  #lastFile: string | undefined;

  constructor(deps: ComposePanelDeps) {
    this.#deps = deps;
    const { documents, windows, memory } = deps.host;
    this.#draft = draftOf(memory.get<unknown>(DRAFT_KEY, undefined));
    this.#lastFile = documents.active?.uri;
    this.#disposables.add(documents.onDidChangeActive((active) => (this.#lastFile = active?.uri ?? this.#lastFile)));
    this.#disposables.add(
      windows.restorePanels(COMPOSE_PANEL, (state, start) => {
        this.#draft = draftOf(state);
        this.#add(start(this.#html()));
      }),
    );
    this.#disposables.add(
      deps.store.onDidChange(({ recipes, delegators }) => {
        if (recipes || delegators) this.#post({ method: "page/choices", params: this.#choices() });
      }),
    );
  }

  /** Open the page, or show it again, with files added to its draft; a recipe and a task replace those of the draft. */
  show(first: { readonly recipe?: string; readonly task?: string; readonly files: readonly string[] }): void {
    const { recipe = this.#draft.recipe, task = this.#draft.task } = first;
    const known = new Set(this.#draft.files.map(({ uri }) => uri));
    const added = this.#files(first.files).filter(({ uri }) => !known.has(uri));
    this.#setDraft({ ...this.#draft, recipe, task, files: [...this.#draft.files, ...added].slice(0, MAX_FILES) });
    if (!this.#panel) {
      this.#add(this.#deps.host.windows.panel(COMPOSE_PANEL, t("New Delegation"), this.#html()));
      return;
    }
    this.#panel.reveal();
    this.#post({ method: "page/draft", params: this.#draft });
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  #add(panel: Panel): void {
    this.#panel = panel;
    panel.onMessage((message) => this.#receive(message as FromComposePage));
    panel.onDidClose(() => {
      if (this.#panel === panel) this.#panel = undefined;
      void this.#deps.host.memory.set(DRAFT_KEY, this.#draft);
    });
  }

  #receive(message: FromComposePage): void {
    if (message.method === "page/draft") {
      this.#setDraft(draftOf(message.params));
      return;
    }
    const { id } = message;
    this.#answerOrAsk(message).then(
      (result) => this.#post({ id, result }),
      (error: unknown) => {
        this.#deps.host.output.warn(`new delegation: ${toErrorInfo(error).message}`);
        this.#post({ id, error: toErrorInfo(error) });
        if (message.method === "page/send" || message.method === "page/showPrompt") void this.#offerRepair(error);
      },
    );
  }

  /** The page shows what is wrong; the button that repairs it, such as "Install Engine", is that of a message. */
  async #offerRepair(error: unknown): Promise<void> {
    const { windows, commands } = this.#deps.host;
    const repair = error instanceof SidecarError ? error.repair : undefined;
    if (!repair || repair.asks) return; // it was asked
    const answer = await windows.message("error", toErrorInfo(error).message, { buttons: [repair.title] });
    if (answer === repair.title) await commands.run(repair.command, ...(repair.arguments ?? []));
  }

  /** If the user declines what is asked, the page shows what is missing. */
  async #answerOrAsk(message: Extract<FromComposePage, { id: number }>): Promise<unknown> {
    try {
      return await this.#answer(message);
    } catch (error) {
      if (!(error instanceof SidecarError) || !error.repair?.asks) throw error;
      const { command, arguments: values = [] } = error.repair;
      if ((await this.#deps.host.commands.run(command, ...values)) !== true) throw error;
      return this.#answer(message);
    }
  }

  async #answer(message: Extract<FromComposePage, { id: number }>): Promise<unknown> {
    const { host, start, showPrompt } = this.#deps;
    switch (message.method) {
      case "page/start":
        return { draft: this.#draft, choices: this.#choices(), translations: host.environment.translations };
      case "page/pickFiles":
        return this.#files(await host.windows.pickFiles(t("Add Files"), host.workspace.folders[0]?.uri));
      case "page/activeFile":
        if (!this.#lastFile?.startsWith("file:")) throw new Error(t("Open a file on disk first."));
        return this.#files([this.#lastFile]);
      case "page/droppedFiles":
        return this.#files(message.params.uris);
      case "page/options":
        return this.#options(draftOf(message.params));
      case "page/models": {
        const draft = draftOf(message.params);
        const facts = await this.#facts(draft);
        return facts ? readModels(this.#deps, facts.delegator, this.#folder(draft)) : [];
      }
      case "page/checkOptions":
        return this.#checkOptions(draftOf(message.params));
      case "page/showPrompt":
        return showPrompt(await this.#params(draftOf(message.params)));
      case "page/send": {
        const id = await start(await this.#params(draftOf(message.params)));
        if (id === undefined) return "";
        // Keep the choices for the next task; options are for one delegation.
        this.#setDraft({ ...this.#draft, task: "", target: "", files: [], options: {} });
        await host.memory.set(DRAFT_KEY, this.#draft);
        this.#post({ method: "page/draft", params: this.#draft });
        return id;
      }
      case "page/openTranscript": {
        const id = delegationIdOf(message.params.id);
        if (id !== undefined) await host.commands.run("understudy.delegations.open", id);
        return {};
      }
      default:
        throw new Error(`this page may not request ${String((message as { method: unknown }).method)}`);
    }
  }

  /** What is known about the delegator of a draft; undefined if the sidecar chooses it. */
  async #facts(draft: ComposeDraft): Promise<DelegatorFacts | undefined> {
    return draft.delegator === "" ? undefined : readFacts(this.#deps, draft.delegator, this.#folder(draft));
  }

  #folder(draft: ComposeDraft): string | undefined {
    return this.#folderOf(draft)?.uri;
  }

  /** The folder of the first file, otherwise the chosen one. */
  #folderOf({ files, folder }: ComposeDraft): Folder | undefined {
    const { folders } = this.#deps.host.workspace;
    const chosen = files.length > 0 ? undefined : folders.find(({ uri }) => uri === folder);
    return chosen ?? folderOf(files[0]?.uri, folders);
  }

  async #options(draft: ComposeDraft): Promise<ComposeOption[]> {
    const facts = await this.#facts(draft);
    return facts ? optionsOf(facts, draft).map((option) => composeOption(option, facts)) : [];
  }

  async #checkOptions(draft: ComposeDraft): Promise<Record<string, string>> {
    const facts = await this.#facts(draft);
    if (!facts) return {};
    const options = optionsOf(facts, draft);
    const wrong = wrongValues(options, draft);
    if (Object.keys(wrong).length > 0) return wrong;
    const refused = await refusedOptions(this.#deps, await this.#params(draft));
    const option = optionOfParameter(options, refused?.parameter);
    return refused && option ? { [optionId(option)]: errorText(refused) } : {};
  }

  async #params(draft: ComposeDraft): Promise<StartParams> {
    const params = this.#paramsWithoutOptions(draft);
    if (Object.keys(draft.options).length === 0) return params;
    const facts = await this.#facts(draft);
    const options = facts ? optionsOf(facts, draft) : [];
    const [wrong] = Object.entries(wrongValues(options, draft));
    const named = options.find((option) => optionId(option) === wrong?.[0]);
    if (wrong && named) throw new Error(t("{0}: {1}", named.title, wrong[1]));
    const launch = overrideOf(options, draft.options);
    const agent = agentOf(options, draft.options);
    return { ...params, ...(launch ? { launch } : {}), ...(agent === undefined ? {} : { agent }) };
  }

  #paramsWithoutOptions(draft: ComposeDraft): StartParams {
    const { task, recipe, delegator, target, files } = draft;
    const folder = this.#folderOf(draft);
    const writesFile = this.#choices().recipes.find(({ name }) => name === recipe)?.writesFile;
    const place = target.trim().split("/").map(encodeURIComponent).join("/");
    return {
      recipe,
      ...(task.trim() === "" ? {} : { task: task.trim() }),
      ...(files.length > 0 ? { files: files.map(({ uri }) => uri) } : folder ? { workspace: folder.uri } : {}),
      ...(writesFile && folder && place !== "" ? { target: `${folder.uri.replace(/\/$/, "")}/${place}` } : {}),
      ...(delegator === "" ? {} : { delegator }),
    };
  }

  /** The files among URIs that the page or the editor has named, each once. */
  #files(uris: readonly string[]): ComposeFile[] {
    const { folders } = this.#deps.host.workspace;
    const files = [...new Set(uris)].filter((uri) => typeof uri === "string" && uri.startsWith("file:"));
    return files.slice(0, MAX_FILES).map((uri) => {
      const folder = folderOf(uri, folders);
      const root = folder === undefined ? "" : `${folder.uri.replace(/\/$/, "")}/`;
      const inside = root !== "" && uri.startsWith(root) ? uri.slice(root.length) : uri.slice(uri.lastIndexOf("/") + 1);
      return { uri, name: decodeURIComponent(inside) };
    });
  }

  /** The default delegators that the page shows are those of the folder of its files. */
  #setDraft(draft: ComposeDraft): void {
    const before = this.#folder(this.#draft);
    this.#draft = draft;
    if (this.#folder(draft) !== before) this.#post({ method: "page/choices", params: this.#choices() });
  }

  #choices(): ComposeChoices {
    const { store } = this.#deps;
    const { recipes, delegators } = store;
    const folder = this.#folder(this.#draft);
    return {
      recipes: recipes.map(({ name, title, returns }) => {
        const usual = store.defaultDelegator(name, folder);
        const writesFile = returns === "file";
        return { name, title, writesFile, ...(usual === undefined ? {} : { defaultDelegator: usual }) };
      }),
      delegators: delegators.map(({ delegator: { name, displayName } }) => ({ name, title: displayName ?? name })),
      folders: this.#deps.host.workspace.folders.map(({ uri, name }) => ({ name: uri, title: name })),
    };
  }

  #post(message: ToComposePage): void {
    this.#panel?.post(message);
  }

  #html(): string {
    const { environment } = this.#deps.host;
    const [script, style] = [environment.pageAsset("composePage.js"), environment.pageAsset("composePage.css")];
    return pageHtml(script, style, environment.language);
  }
}

function optionsOf(facts: DelegatorFacts, { options }: ComposeDraft): readonly Option[] {
  const { delegator, server, known, agents } = facts;
  return [...overrideOptions(delegator, server, known, options), ...agentOptions(agents)];
}

function composeOption(option: Option, { delegator }: DelegatorFacts): ComposeOption {
  const choices = choicesOf(option);
  return {
    id: optionId(option),
    title: option.title,
    description: plainDescription(option),
    placeholder: option.placeholder ?? "",
    ...(choices ? { choices } : {}),
    own: ownValue(option, delegator),
    listsModels: isModel(option) && Boolean(delegator.modelServer),
  };
}

/** ID of an option → what is wrong with its value, as far as the contract says it. */
function wrongValues(options: readonly Option[], { options: values }: ComposeDraft): Record<string, string> {
  const checked = options.map((option): [string, string | undefined] => {
    const value = values[optionId(option)] ?? "";
    return [optionId(option), value === "" ? undefined : checkValue(option, value)];
  });
  return Object.fromEntries(checked.filter((entry): entry is [string, string] => entry[1] !== undefined));
}
