/**
 * A new delegation as a form: in the box at the top of the sidebar, and with all options in a tab. Both show the same
 * draft, which is stored in the workspace.
 */

import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { pageHtml } from "../base/pageHtml.ts";
import type { ActiveEditor, Folder, Host, Panel } from "../host/host.ts";
import type { Range, StartParams } from "../protocol.ts";
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
  EMPTY_DRAFT,
  filesOf,
  MAX_FILES,
  recipeOf,
  type ComposeChoices,
  type ComposeDraft,
  type ComposeFile,
  type ComposeOption,
  type FromComposePage,
  type ToComposePage,
} from "./composeMessages.ts";

export const COMPOSE_PANEL = "understudy.compose";
/** The view with the box. */
export const COMPOSE_VIEW = "understudy.box";
/** Memory key of the draft. */
const DRAFT_KEY = "compose.draft";
/** Files that a search offers. */
const MOST_FOUND = 20;
/** Files that are remembered as used last. */
const MOST_RECENT = 50;

export interface ComposePanelDeps {
  readonly host: Pick<Host, "windows" | "documents" | "workspace" | "memory" | "environment" | "output" | "commands">;
  readonly requester: Requester;
  readonly store: Pick<Store, "recipes" | "delegators" | "defaultDelegator" | "modelServers" | "onDidChange">;
  /** Start a delegation; undefined if the user cancelled. */
  readonly start: (params: StartParams) => Promise<string | undefined>;
  /** Show the complete prompt; returns what would be sent. */
  readonly showPrompt: (params: StartParams) => Promise<string>;
  /** What would be sent, to which delegator, and what that may cost, in a line. */
  readonly estimate: (params: StartParams) => Promise<string>;
  /** Ask for the files to work on in a folder; none if the user cancelled. */
  readonly chooseFiles: (folder: Folder | undefined) => Promise<readonly string[]>;
}

export class ComposePanel implements Disposable {
  readonly #deps: ComposePanelDeps;
  readonly #disposables = new DisposableStore();
  /** The tab, while it is open. */
  #panel: Panel | undefined;
  /** The tab and the box, as far as they exist. */
  readonly #pages = new Set<Panel>();
  #draft: ComposeDraft;
  /** URI of the last active editor: while a page has the focus, there is none. */
  #last: string | undefined;
  /** What is selected in it; undefined: nothing. */
  #selection: Range | undefined;
  /** URIs of the files that were shown or saved last, the latest first. */
  #recent: readonly string[] = [];

  constructor(deps: ComposePanelDeps) {
    this.#deps = deps;
    const { documents, windows, memory, workspace } = deps.host;
    this.#draft = draftOf(memory.get<unknown>(DRAFT_KEY, undefined));
    this.#last = documents.tabs[0];
    if (documents.active) this.#used(documents.active);
    this.#disposables.add(documents.onDidChangeActive((active) => this.#used(active)));
    this.#disposables.add(documents.onDidSelect((active) => this.#used(active)));
    this.#disposables.add(documents.onDidSave((uri) => this.#remember(uri)));
    this.#disposables.add(
      workspace.onDidChangeFolders(() => this.#post({ method: "page/choices", params: this.#choices() })),
    );
    this.#disposables.add(windows.restorePanels(COMPOSE_PANEL, (_, start) => this.#addTab(start(this.#html()))));
    this.#disposables.add(windows.pageView(COMPOSE_VIEW, (start) => this.#add(start(this.#html()), true)));
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
    const before = this.#panel;
    if (before) before.reveal();
    else this.#addTab(this.#deps.host.windows.panel(COMPOSE_PANEL, t("New Delegation"), this.#html()));
    // A new tab asks for the draft itself.
    this.#post({ method: "page/draft", params: this.#draft }, before ? undefined : this.#panel);
  }

  /** Let a delegator do what the user describes in the box next. */
  async choose(delegator: string): Promise<void> {
    this.#setDraft({ ...this.#draft, delegator, options: {} });
    this.#post({ method: "page/draft", params: this.#draft });
    await this.#deps.host.windows.focusView(COMPOSE_VIEW);
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  #addTab(panel: Panel): void {
    this.#panel = panel;
    this.#add(panel, false);
    panel.onDidClose(() => {
      if (this.#panel === panel) this.#panel = undefined;
    });
  }

  #add(page: Panel, isBox: boolean): void {
    this.#pages.add(page);
    page.onMessage((message) => this.#receive(page, isBox, message as FromComposePage));
    page.onDidClose(() => this.#pages.delete(page));
  }

  #used(active: ActiveEditor | undefined): void {
    const before = JSON.stringify(this.#current());
    // Without an active editor, a page has the focus, or the last editor was closed.
    if (active || !this.#deps.host.documents.tabs.includes(this.#last ?? "")) {
      this.#last = active?.uri;
      this.#selection = active && !active.selectionEmpty ? active.selection : undefined;
    }
    if (active) this.#remember(active.uri);
    const current = this.#current();
    if (JSON.stringify(current) !== before) this.#post({ method: "page/current", params: current });
  }

  #remember(uri: string): void {
    this.#recent = [uri, ...this.#recent.filter((other) => other !== uri)].slice(0, MOST_RECENT);
  }

  /** The file of the editor that was active last, if it is in a folder of the window. */
  #current(): ComposeFile | undefined {
    const file = this.#files(this.#last === undefined ? [] : [this.#last]).find(({ uri }) => this.#isInside(uri));
    return file && this.#selection ? { ...file, lines: linesOf(this.#selection) } : file;
  }

  #isInside(uri: string): boolean {
    return this.#deps.host.workspace.folders.some((folder) => uri.startsWith(`${folder.uri.replace(/\/$/, "")}/`));
  }

  #receive(page: Panel, isBox: boolean, message: FromComposePage): void {
    if (message.method === "page/draft") {
      this.#setDraft(draftOf(message.params));
      this.#post({ method: "page/draft", params: this.#draft }, page);
      return;
    }
    const { id } = message;
    this.#answerOrAsk(message, isBox).then(
      (result) => page.post({ id, result } satisfies ToComposePage),
      (error: unknown) => {
        this.#deps.host.output.warn(`new delegation: ${toErrorInfo(error).message}`);
        page.post({ id, error: toErrorInfo(error) } satisfies ToComposePage);
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
  async #answerOrAsk(message: Extract<FromComposePage, { id: number }>, isBox: boolean): Promise<unknown> {
    try {
      return await this.#answer(message, isBox);
    } catch (error) {
      if (!(error instanceof SidecarError) || !error.repair?.asks) throw error;
      const { command, arguments: values = [] } = error.repair;
      if ((await this.#deps.host.commands.run(command, ...values)) !== true) throw error;
      return this.#answer(message, isBox);
    }
  }

  async #answer(message: Extract<FromComposePage, { id: number }>, isBox: boolean): Promise<unknown> {
    const { host, start, showPrompt } = this.#deps;
    switch (message.method) {
      case "page/start": {
        const { translations } = host.environment;
        return { draft: this.#draft, choices: this.#choices(), current: this.#current(), isBox, translations };
      }
      case "page/pickFiles":
        return this.#files(await host.windows.pickFiles(t("Add Files"), host.workspace.folders[0]?.uri));
      case "page/findFiles":
        return this.#find(message.params.text);
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
      case "page/estimate":
        return this.#estimate(draftOf(message.params));
      case "page/openTab":
        this.show({ files: [] });
        return {};
      case "page/send": {
        const draft = await this.#withFiles(draftOf(message.params));
        const id = draft && (await start(await this.#params(draft)));
        if (id === undefined) return "";
        // Who does it, where, and for how much may be the same for the next task.
        const { delegator, folder, budget } = this.#draft;
        this.#setDraft({ ...EMPTY_DRAFT, delegator, folder, budget });
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

  /** The draft with the files that its recipe needs; undefined if the user names none. */
  async #withFiles(draft: ComposeDraft): Promise<ComposeDraft | undefined> {
    const needs = recipeOf(draft, this.#current(), this.#choices().recipes)?.needs ?? [];
    if (!needs.includes("file") || filesOf(draft, this.#current()).length > 0) return draft;
    const files = this.#files(await this.#deps.chooseFiles(this.#folderOf(draft)));
    return files.length > 0 ? { ...draft, files } : undefined;
  }

  /** It must not ask the user anything: nothing was sent yet. */
  async #estimate(draft: ComposeDraft): Promise<string> {
    try {
      return await this.#deps.estimate(await this.#params(draft));
    } catch (error) {
      return toErrorInfo(error).kind === "unknown_delegator" ? "" : toErrorInfo(error).message;
    }
  }

  async #find(text: string): Promise<readonly ComposeFile[]> {
    const { documents, workspace } = this.#deps.host;
    const fits = ({ uri, name }: ComposeFile): boolean =>
      this.#isInside(uri) && name.toLowerCase().includes(text.toLowerCase());
    const recent = this.#files([...this.#recent, ...documents.tabs]).filter(fits);
    const found = await workspace.findFiles(globOf(text), MOST_FOUND);
    return this.#files([...recent.map(({ uri }) => uri), ...found]).slice(0, MOST_FOUND);
  }

  /** What is known about the delegator of a draft; undefined if the sidecar chooses it. */
  async #facts(draft: ComposeDraft): Promise<DelegatorFacts | undefined> {
    return draft.delegator === "" ? undefined : readFacts(this.#deps, draft.delegator, this.#folder(draft));
  }

  #folder(draft: ComposeDraft): string | undefined {
    return this.#folderOf(draft)?.uri;
  }

  /** The folder of the first file, otherwise the chosen one. */
  #folderOf(draft: ComposeDraft): Folder | undefined {
    const { folders } = this.#deps.host.workspace;
    const { folder } = draft;
    const files = filesOf(draft, this.#current());
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
    const { task, delegator, target, budget } = draft;
    const files = filesOf(draft, this.#current());
    const folder = this.#folderOf(draft);
    const wanted = recipeOf(draft, this.#current(), this.#choices().recipes);
    const { name: recipe = draft.recipe, writesFile } = wanted ?? {};
    const range = draft.files.length === 0 && files.length > 0 && wanted?.takesSelection ? this.#selection : undefined;
    const maxUsd = budget.trim().replace(",", ".");
    if (maxUsd !== "" && !(/^\d*\.?\d+$/u.test(maxUsd) && Number(maxUsd) > 0))
      throw new Error(t("{0}: {1}", t("Budget"), t("Enter a number greater than {0}.", 0)));
    const place = target.trim().split("/").map(encodeURIComponent).join("/");
    return {
      recipe,
      ...(task.trim() === "" ? {} : { task: task.trim() }),
      ...(files.length > 0 ? { files: files.map(({ uri }) => uri) } : folder ? { workspace: folder.uri } : {}),
      ...(range ? { range } : {}),
      ...(writesFile && folder && place !== "" ? { target: `${folder.uri.replace(/\/$/, "")}/${place}` } : {}),
      ...(delegator === "" ? {} : { delegator }),
      ...(maxUsd === "" ? {} : { limits: { maxUsd } }),
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
    void this.#deps.host.memory.set(DRAFT_KEY, draft);
    if (this.#folder(draft) !== before) this.#post({ method: "page/choices", params: this.#choices() });
  }

  #choices(): ComposeChoices {
    const { store } = this.#deps;
    const { recipes, delegators } = store;
    const folder = this.#folder(this.#draft);
    return {
      recipes: recipes.map(({ name, title, returns, appliesTo, needs = [] }) => {
        const usual = store.defaultDelegator(name, folder);
        const writesFile = returns === "file";
        const takesSelection = appliesTo.on.includes("selection");
        return {
          name,
          title,
          writesFile,
          takesSelection,
          needs,
          ...(usual === undefined ? {} : { defaultDelegator: usual }),
        };
      }),
      delegators: delegators.map(({ delegator: { name, displayName } }) => ({ name, title: displayName ?? name })),
      folders: this.#deps.host.workspace.folders.map(({ uri, name }) => ({ name: uri, title: name })),
    };
  }

  /** Tell the pages, except the one that it is from. */
  #post(message: ToComposePage, from?: Panel): void {
    for (const page of this.#pages) if (page !== from) page.post(message);
  }

  #html(): string {
    const { environment } = this.#deps.host;
    const [script, style] = [environment.pageAsset("composePage.js"), environment.pageAsset("composePage.css")];
    return pageHtml(script, style, environment.language);
  }
}

/** `3–9`: a selection that ends at the beginning of a line does not contain it. */
function linesOf({ start, end }: Range): string {
  const [first, last] = [start.line + 1, end.character === 0 && end.line > start.line ? end.line : end.line + 1];
  return first === last ? String(first) : `${first}–${last}`;
}

/** The paths that contain a text, in upper or lower case: each part of it in a folder of its own. */
function globOf(text: string): string {
  const letter = (char: string): string => {
    const [lower, upper] = [char.toLowerCase(), char.toUpperCase()];
    return lower === upper && /[\w.-]/u.test(char) ? char : `[${lower === upper ? char : lower + upper}]`;
  };
  const parts = text.split("/").map((part) => part.replaceAll(/./gu, letter));
  return `**/*${parts.join("*/**/*")}*`;
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
