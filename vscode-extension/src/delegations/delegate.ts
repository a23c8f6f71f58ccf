/**
 * Start a delegation for files, a selection or diagnostics. A preview shows what is sent, to which delegator, and
 * why. Unsaved text is included: the sidecar sees what the editor shows.
 */

import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { t } from "../base/l10n.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { DiagnosticText, Folder, Host, PickItem } from "../host/host.ts";
import { chooseFolder } from "../host/chooseFolder.ts";
import { folderOf } from "../state/workspaceFolders.ts";
import type { Store } from "../state/store.ts";
import { compactNumber, oneLine, toSentence, usualCost } from "../state/formatting.ts";
import { remedyTitle } from "../state/remedies.ts";
import type { LaunchOverride, PreviewResult, Range, Recipe, StartParams, TextParams } from "../protocol.ts";
import { agentOf, overrideOf, overrideSummary, type OverrideValues } from "../state/launchOverride.ts";
import { readFacts, type DelegatorFacts } from "../state/overrideRequests.ts";
import { changeOptions, optionsOf } from "./changeOptions.ts";
import { pickDelegators, startComparison } from "./compareDelegators.ts";
import { runSteps, type StepPosition, type StepResult } from "../base/wizard.ts";
import { previewText, textRequestOf } from "./textRequests.ts";
import {
  ADD,
  addDelegatorFirst,
  askDelegator,
  CHOOSE_DEFAULT,
  chooseDefault,
  DELEGATOR_PREFIX,
  delegatorItems,
  delegatorPlaceholder,
  LAST_DELEGATOR_KEY,
  pickAnotherDelegator,
} from "./chooseDelegator.ts";

export interface DelegateDeps {
  readonly requester: Requester;
  readonly host: Pick<Host, "windows" | "documents" | "workspace" | "commands" | "memory">;
  readonly store: Pick<Store, "delegators" | "defaultDelegator" | "modelServers" | "recipes">;
  /** Run a text request, and show its answer; its ID, "" if the user cancelled. */
  readonly ask: (params: TextParams) => Promise<string>;
  /** Show a prompt in a read-only document. */
  readonly showPrompt: (text: string, recipe: Recipe) => Promise<void>;
  /** Open the page of a new delegation, for a task of several lines. */
  readonly compose: (first: {
    readonly recipe: string;
    readonly task: string;
    readonly files: readonly string[];
  }) => void;
  /** Called when a delegation was started in this window. */
  readonly started: (id: string) => Promise<void>;
}

/** What the user wants to delegate. */
export interface Subject {
  /** URIs of files on disk. */
  readonly files: readonly string[];
  /** The folder to work in, if no file is named. */
  readonly folder?: Folder;
  readonly range?: Range;
  readonly diagnostics?: readonly DiagnosticText[];
}

export interface DelegateOptions {
  /** If absent, the user chooses a recipe. */
  readonly recipe?: string;
  /** Ask for instructions even if the recipe does not need any. */
  readonly askInstructions: boolean;
}

const OPTIONS = "options";
/** The folders that the user works in without what their tests lack. */
const WITHOUT_KEY = "delegate.without";
const SEVERAL = "several";
const SEVERITIES = { error: 1, warning: 2, information: 3, hint: 4 } as const;

const CHOOSE_FILES = "files:choose";

interface DelegateDraft {
  readonly recipe?: Recipe;
  /** The files to work on, if none was named and the recipe needs one. */
  readonly files?: readonly string[];
  readonly task?: string;
  readonly target?: string;
  readonly delegator?: string;
  readonly override?: DraftOverride;
  /** Delegators that all get the request, to compare their results. */
  readonly rivals?: readonly string[];
  /** What the user has agreed to. */
  readonly shown?: Shown;
}

/** What would be sent, and whether a model server is asked without a delegation. */
interface Shown {
  readonly preview: PreviewResult;
  readonly asks: boolean;
}

/** Start what a preview has shown, or what needs none; returns the ID of a single delegation. */
type Start = (deps: DelegateDeps, params: StartParams, shown?: Shown) => Promise<string | undefined>;

/** What the user has changed of a delegator, for this delegation. */
interface DraftOverride {
  readonly delegator: string;
  /** Why it was chosen, before anything was changed. */
  readonly reason: string;
  readonly values: OverrideValues;
  readonly launch?: LaunchOverride;
  readonly agent?: string;
  readonly summary: string;
}

type Question = "recipe" | "files" | "words" | "target" | "preview";

/** Ask the questions, show the preview, start the delegation. */
export async function delegate(deps: DelegateDeps, given: Subject, options: DelegateOptions): Promise<void> {
  let subject = given;
  if (given.files.length === 0 && deps.host.workspace.folders.length > 1) {
    const folder = await chooseFolder(deps.host, t("Delegate"));
    if (!folder) return;
    subject = { ...given, folder };
  }
  const recipes = await recipesFor(deps, subject);
  const asked = options.recipe === undefined ? undefined : recipes.find(({ name }) => name === options.recipe);
  if (options.recipe !== undefined && !asked) {
    await deps.host.windows.message("warning", t("The recipe “{0}” does not apply here.", options.recipe));
    return;
  }
  if (recipes.length === 0) {
    await deps.host.windows.message("info", t("No recipe applies here."));
    return;
  }
  const of = ({ files }: DelegateDraft): Subject => (files ? { ...subject, files } : subject);
  const asksFiles = (recipe: Recipe): boolean => subject.files.length === 0 && needsFile(recipe);
  const asksWords = (recipe: Recipe): boolean =>
    options.askInstructions || (needsInstructions(recipe, subject) && !asksFiles(recipe));
  const after = (state: DelegateDraft, step: Question): Question => {
    const { recipe } = state;
    if (recipe && step === "recipe" && asksFiles(recipe)) return "files";
    if (recipe && (step === "recipe" || step === "files") && asksWords(recipe)) return "words";
    if (recipe?.returns === "file" && step !== "target") return "target";
    return "preview";
  };
  const steps = {
    recipe: async (state: DelegateDraft, place: StepPosition): Promise<StepResult<DelegateDraft, Question>> => {
      const outcome = await deps.host.windows.pick({
        title: t("Delegate"),
        ...place,
        placeholder: t("What should be done with {0}?", subjectName(subject)),
        items: recipeItems(recipes),
        ...(state.recipe ? { active: state.recipe.name } : {}),
      });
      if (outcome.kind !== "picked") return { kind: outcome.kind === "back" ? "back" : "cancelled" };
      const recipe = recipes.find(({ name }) => name === outcome.ids[0]);
      if (!recipe) return { kind: "again", state };
      const next = { ...state, recipe };
      return { kind: "next", state: next, to: after(next, "recipe") };
    },
    files: async (state: DelegateDraft, place: StepPosition): Promise<StepResult<DelegateDraft, Question>> => {
      const files = await chooseFiles(deps.host, subject.folder, place);
      if (files === "back") return { kind: "back" };
      if (files.length === 0) return { kind: "cancelled" };
      const next = { ...state, files };
      return { kind: "next", state: next, to: after(next, "files") };
    },
    words: async (state: DelegateDraft, place: StepPosition): Promise<StepResult<DelegateDraft, Question>> => {
      const must = state.recipe !== undefined && needsInstructions(state.recipe, of(state));
      const outcome = await deps.host.windows.input({
        title: titleOf(state, of(state)),
        ...place,
        prompt: !must
          ? t("Add instructions (optional).")
          : state.recipe.returns === "text"
            ? t("What do you want to know?")
            : t("Describe the task."),
        value: state.task ?? "",
        // The page has no place for a selection or a problem.
        ...(state.recipe && !subject.range && !subject.diagnostics
          ? {
              button: {
                icon: "edit",
                tooltip: t("Write Several Lines"),
                press: (task: string) =>
                  deps.compose({ recipe: state.recipe?.name ?? "", task, files: of(state).files }),
              },
            }
          : {}),
        validate: (value) => (must && value.trim() === "" ? t("Describe the task.") : undefined),
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      const next = { ...state, task: outcome.value.trim() };
      return { kind: "next", state: next, to: after(next, "words") };
    },
    target: async (state: DelegateDraft, place: StepPosition): Promise<StepResult<DelegateDraft, Question>> => {
      const outcome = await deps.host.windows.input({
        title: titleOf(state, subject),
        ...place,
        prompt: t("Path of the file to write, relative to the folder {0}.", subjectFolder(deps, subject)?.name ?? ""),
        value: state.target ?? "",
        placeholder: "src/example.py",
        validate: (value) =>
          value.trim() === "" || value.startsWith("/") || value.split("/").includes("..")
            ? t("Enter a path inside the folder, such as src/example.py.")
            : undefined,
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", state: { ...state, target: outcome.value.trim() }, to: "preview" };
    },
    preview: (state: DelegateDraft, place: StepPosition) => previewStep(deps, of(state), state, place),
  };
  const first: DelegateDraft = asked ? { recipe: asked } : {};
  const done = await runSteps<DelegateDraft, Question>(
    steps,
    asked ? after(first, "recipe") : "recipe",
    first,
    (state) => {
      const recipe = state.recipe;
      const questions = (asked ? 0 : 1) + (recipe ? Number(asksWords(recipe)) : Number(options.askInstructions));
      return questions + Number(recipe?.returns === "file") + Number(recipe !== undefined && asksFiles(recipe)) + 1;
    },
  );
  if (!done?.recipe) return;
  const params = startParams(deps, of(done), done.recipe, done);
  if (!done.rivals) await startFiles(deps, params, done.shown);
  else if (await getWhatIsLacking(deps, params, done.shown))
    for (const id of await startComparison(deps.requester, params, done.rivals)) await deps.started(id);
}

/**
 * Start a delegation, or ask a model server if that is all that the recipe needs; returns the ID. If no delegator was named and there is no
 * default, ask for one.
 */
export async function startDelegation(
  deps: DelegateDeps,
  params: StartParams,
  shown?: Shown,
): Promise<string | undefined> {
  return withDelegator(deps, params, async (named) => {
    const asked = textRequestOf(deps.store, named);
    // Only the sidecar knows the delegator it chooses, and so whether this needs a delegation.
    if (asked && (shown?.asks ?? (await previewText(deps.requester, asked)))) return deps.ask(asked);
    if (!(await getWhatIsLacking(deps, named, shown))) return undefined;
    const key = { idempotencyKey: randomUUID() };
    const { id } = await deps.requester.request("understudy/delegations/start", { ...named, ...key });
    await deps.started(id);
    return id;
  });
}

/** Start the same work for each file by itself, as a batch. */
const startEach: Start = (deps, params, shown) =>
  withDelegator(deps, params, async (named) => {
    if (!(await getWhatIsLacking(deps, named, shown))) return undefined;
    const tasks = (named.files ?? []).map((file) => ({ ...named, files: [file] }));
    const request = { tasks, kind: "batch" as const, idempotencyKey: randomUUID() };
    const { group } = await deps.requester.request("understudy/groups/start", request);
    for (const id of group.delegations) await deps.started(id);
    return undefined;
  });

/** Start with the delegator that is named or the default, otherwise with the one that the user chooses. */
async function withDelegator<T>(
  deps: DelegateDeps,
  params: StartParams,
  start: (params: StartParams) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await start(params);
  } catch (error) {
    const info = toErrorInfo(error);
    if (info.kind !== "unknown_delegator" || params.delegator) throw error;
    const folder = params.workspace ?? folderOf(params.files?.[0], deps.host.workspace.folders)?.uri;
    const delegator = await askDelegator(deps, info.names ?? [], { recipe: params.recipe, folder }, info.message);
    return delegator === undefined ? undefined : withDelegator(deps, { ...params, delegator }, start);
  }
}

/** Start a recipe that needs no instructions; the user is asked only what to do with several files. */
export async function startRecipe(deps: DelegateDeps, subject: Subject, recipe: string): Promise<void> {
  await startFiles(deps, { recipe, ...subjectParams(deps, subject) });
}

/**
 * Start; with several files, one delegation for each or one for all, as the user chooses. What a preview has shown needs
 * no other confirmation.
 */
async function startFiles(deps: DelegateDeps, params: StartParams, shown?: Shown): Promise<void> {
  const start = await chooseStart(deps, params);
  if (start) await (shown ? start(deps, params, shown) : startConfirmed(deps, params, start));
}

/** Ask what to do with several files; undefined if the user cancelled. */
async function chooseStart(deps: DelegateDeps, params: StartParams): Promise<Start | undefined> {
  const files = params.files ?? [];
  const recipe = deps.store.recipes.find(({ name }) => name === params.recipe);
  if (files.length < 2 || recipe?.returns !== "tree") return startDelegation;
  const outcome = await deps.host.windows.pick({
    title: t("Delegate"),
    placeholder: t("{0}: {1} files", recipe.title, files.length),
    items: [
      {
        id: "each",
        label: t("One Delegation for Each File"),
        icon: "run-all",
        description: t("{0} results", files.length),
      },
      { id: "all", label: t("One Delegation for All Files"), icon: "rocket", description: t("1 result") },
    ],
  });
  if (outcome.kind !== "picked") return undefined;
  return outcome.ids[0] === "each" ? startEach : startDelegation;
}

/**
 * Offer what the project's tests lack in worktrees, before an agent works in one. Returns whether to start; a folder for
 * which the user wants to start without it is not asked about again.
 */
async function getWhatIsLacking(
  { requester, host, store }: DelegateDeps,
  params: StartParams,
  shown?: Shown,
): Promise<boolean> {
  const without = host.memory.get<readonly string[]>(WITHOUT_KEY, []);
  const folder = params.workspace ?? folderOf(params.files?.[0], host.workspace.folders)?.uri ?? "";
  const returns = store.recipes.find(({ name }) => name === params.recipe)?.returns;
  if (without.includes(folder) || returns === "text") return true;
  // What is wrong with the request is said when it starts.
  const { lacks = [] } =
    shown?.preview ?? (await requester.request("understudy/delegations/preview", params).catch(() => ({ lacks: [] })));
  for (const { text, remedy } of lacks) {
    if (!remedy) continue;
    const [fix, start] = [remedyTitle(remedy), t("Delegate Anyway")];
    const detail = t("A result is verified only if its tests can run.");
    const answer = await host.windows.message("warning", text, { buttons: [fix, start], modal: true, detail });
    if (answer === undefined) return false;
    if (answer === start) {
      await host.memory.set(WITHOUT_KEY, [...without, folder]);
      return true;
    }
    if ((await host.commands.run("understudy.remedy", remedy, folder && fileURLToPath(folder))) !== true) return false;
  }
  return true;
}

/** Start what no preview has shown: if the user wants that, show what is sent to whom, and ask. */
export async function startConfirmed(
  deps: DelegateDeps,
  params: StartParams,
  start: Start = startDelegation,
): Promise<string | undefined> {
  const { windows, workspace } = deps.host;
  if (!workspace.setting<boolean>("confirmBeforeSending", false)) return start(deps, params);
  const previewed = await withDelegator(deps, params, async (named) => [named, await previewOf(deps, named)] as const);
  if (!previewed) return undefined;
  const [named, shown] = previewed;
  const { preview, asks } = shown;
  const button = asks ? t("Ask") : t("Delegate");
  const text = asks ? t("Ask {0}?", preview.explain.delegator) : t("Delegate to {0}?", preview.explain.delegator);
  const sent = preview.files.filter(({ withheld }) => withheld === undefined).map(({ path }) => path);
  const detail = [amountOf(preview), ...sent].join("\n");
  if ((await windows.message("info", text, { buttons: [button], modal: true, detail })) !== button) return undefined;
  return start(deps, named, shown);
}

/** What a start would send to which delegator, and what such work has cost so far, in a line. */
export async function estimate(deps: DelegateDeps, params: StartParams): Promise<string> {
  const { preview } = await previewOf(deps, params);
  const { delegator } = preview.explain;
  const { totals } = await deps.requester.request("understudy/ledger/read", {
    delegator,
    recipe: params.recipe,
    limit: 1,
  });
  return [delegator, amountOf(preview), usualCost(totals)].join(" · ");
}

/** Show the complete prompt of a start; returns what would be sent, to which delegator. */
export async function showPrompt(deps: DelegateDeps, params: StartParams, recipe: Recipe): Promise<string> {
  const { preview, asks } = await previewOf(deps, params);
  const { prompt, explain, files } = preview;
  if (prompt) await deps.showPrompt(prompt, recipe);
  const sent = files.filter(({ withheld }) => withheld === undefined).length;
  const attached = sent === 1 ? t("1 file attached") : t("{0} files attached", sent);
  const amount = amountOf(preview);
  const who = asks ? t("Ask {0}", explain.delegator) : t("Delegate to {0}", explain.delegator);
  return [who, amount, attached].join(" · ");
}

async function previewOf(
  { requester, store }: Pick<DelegateDeps, "requester" | "store">,
  params: StartParams,
  signal?: AbortSignal,
): Promise<Shown> {
  const asked = textRequestOf(store, params);
  const text = asked && (await previewText(requester, asked, signal));
  if (text) return { preview: text, asks: true };
  return { preview: await requester.request("understudy/delegations/preview", params, signal), asks: false };
}

/** What a command applies to: the files of a menu, otherwise the active editor. */
export function subjectOf(
  { host }: Pick<DelegateDeps, "host">,
  uri: unknown,
  uris: unknown,
  part: "file" | "selection" | "diagnostics",
): Subject | undefined {
  const isFile = (value: unknown): value is string => typeof value === "string" && value.startsWith("file:");
  const active = host.documents.active;
  const chosen = Array.isArray(uris) ? uris.filter(isFile) : [];
  if (chosen.length > 1 && part === "file") return { files: chosen };
  const file = isFile(uri) ? uri : isFile(active?.uri) ? active.uri : undefined;
  if (file === undefined) return undefined;
  const own = active?.uri === file ? active : undefined;
  if (part === "selection" && own && !own.selectionEmpty) return { files: [file], range: own.selection };
  if (part === "diagnostics") {
    const all = host.documents.diagnostics(file).filter(({ source }) => !/^understudy/i.test(source ?? ""));
    const near = own ? all.filter(({ range }) => overlaps(range, own.selection)) : [];
    const diagnostics = near.length > 0 ? near : all;
    return diagnostics.length === 0
      ? { files: [file] }
      : { files: [file], range: enclosingRange(diagnostics), diagnostics };
  }
  return { files: [file] };
}

async function recipesFor({ requester }: DelegateDeps, subject: Subject): Promise<readonly Recipe[]> {
  const [uri] = subject.files;
  const { recipes } = await requester.request("understudy/recipes/list", uri === undefined ? {} : { uri });
  const on = subject.diagnostics ? "diagnostic" : subject.range ? "selection" : "file";
  return recipes.filter((recipe) => recipe.appliesTo.on.includes(on));
}

function recipeItems(recipes: readonly Recipe[]): PickItem[] {
  const icons = { text: "comment", tree: "git-branch", file: "new-file" } as const;
  const returns = {
    text: t("Text answer"),
    tree: t("Changes to review"),
    file: t("One file to review"),
  };
  const item = (recipe: Recipe): PickItem => ({
    id: recipe.name,
    label: recipe.title,
    description: returns[recipe.returns],
    icon: icons[recipe.returns],
  });
  const own = recipes.filter(({ scope }) => scope !== "builtin");
  const builtin = recipes.filter(({ scope }) => scope === "builtin");
  if (own.length === 0) return builtin.map(item);
  return [
    { id: "separator:own", label: t("yours"), separator: true },
    ...own.map(item),
    { id: "separator:builtin", label: t("built in"), separator: true },
    ...builtin.map(item),
  ];
}

async function previewStep(
  deps: DelegateDeps,
  subject: Subject,
  state: DelegateDraft,
  place: StepPosition,
): Promise<StepResult<DelegateDraft, Question>> {
  const { host } = deps;
  const { recipe } = state;
  if (!recipe) return { kind: "back" };
  const params = startParams(deps, subject, recipe, state);
  const where = { recipe: recipe.name, folder: subjectFolder(deps, subject)?.uri };
  let shown: Shown | undefined;
  let facts: DelegatorFacts | undefined;
  const { override } = state;
  const changing = (): PickItem[] => {
    if (!facts || (optionsOf(facts, {}).length === 0 && !override)) return [];
    const description = override ? { description: override.summary } : {};
    return [{ id: OPTIONS, label: t("Change Options for This Delegation…"), icon: "settings", ...description }];
  };
  const another: PickItem = { id: "another", label: t("Choose Another Delegator…"), icon: "person" };
  const ready = deps.store.delegators.filter((entry) => entry.state.ready);
  const several: readonly PickItem[] =
    recipe.returns === "tree" && ready.length > 1
      ? [{ id: SEVERAL, label: t("Compare Several Delegators…"), icon: "split-horizontal" }]
      : [];
  const outcome = await host.windows.pick({
    title: titleOf(state, subject),
    ...place,
    placeholder: t("Nothing has been sent yet."),
    items: [{ id: "wait", label: t("Preparing the preview…"), icon: "loading~spin" }],
    busy: true,
    live: (show, signal) => {
      previewOf(deps, params, signal)
        .then(async (answered) => {
          shown = answered;
          const { preview: answer, asks } = answered;
          const named = state.delegator !== undefined;
          const items = (): PickItem[] =>
            previewItems(answer, asks, [...changing(), another, ...several], named, override?.reason);
          show({ items: items() });
          // Reading the tools may take a moment: the user can delegate meanwhile.
          facts = await readFacts(deps, answer.explain.delegator, params.workspace ?? undefined).catch(() => undefined);
          show({ items: items(), busy: false });
        })
        .catch((error: unknown) => {
          const { kind, message, hint, names } = toErrorInfo(error);
          if (kind === "unknown_delegator" && state.delegator === undefined) {
            // No default delegator, or none that can do it: ask for one instead of showing an error.
            show({
              items: delegatorItems(deps, names ?? [], where, message),
              busy: false,
              placeholder: delegatorPlaceholder(names ?? []),
            });
            return;
          }
          const wrong: PickItem = { id: "wrong", label: message, icon: "error", ...(hint ? { detail: hint } : {}) };
          show({
            items: [wrong, another],
            busy: false,
            placeholder: t("The delegation cannot start with these settings."),
          });
        });
    },
  });
  if (outcome.kind !== "picked") return { kind: outcome.kind === "back" ? "back" : "cancelled" };
  const [chosen = ""] = outcome.ids;
  const preview = shown?.preview;
  const agreed = { ...state, ...(shown ? { shown } : {}) };
  if (chosen === "go") return { kind: "next", state: agreed };
  if (chosen === SEVERAL) {
    const why = t("Each works on a copy of the same files. Compare the results afterwards.");
    const rivals = await pickDelegators(host, titleOf(state, subject), ready, why);
    return rivals.length === 0 ? { kind: "again", state } : { kind: "next", state: { ...agreed, rivals } };
  }
  if (chosen === "show" && preview) await deps.showPrompt(preview.prompt, recipe);
  const who = chosen.startsWith(DELEGATOR_PREFIX) ? chosen.slice(DELEGATOR_PREFIX.length) : undefined;
  if (chosen === CHOOSE_DEFAULT) {
    await chooseDefault(deps, recipe.name);
  } else if (chosen === OPTIONS && facts && preview) {
    return { kind: "again", state: await withOptions(deps, facts, preview, params, state) };
  } else if (chosen === "another" || chosen === ADD || who !== undefined) {
    const name =
      chosen === "another"
        ? await pickAnotherDelegator(deps, preview, state.delegator, where)
        : chosen === ADD
          ? await addDelegatorFirst(deps)
          : who;
    if (name !== undefined && chosen !== "another") await host.memory.set(LAST_DELEGATOR_KEY, name);
    if (name === undefined) return { kind: "again", state };
    // Options belong to a delegator: another one has others.
    const { override: changed, ...rest } = state;
    const kept = changed?.delegator === name ? { override: changed } : {};
    return { kind: "again", state: { ...rest, ...kept, delegator: name } };
  }
  return { kind: "again", state };
}

/** Let the user change options of the delegator that the preview has chosen. */
async function withOptions(
  deps: DelegateDeps,
  facts: DelegatorFacts,
  preview: PreviewResult,
  params: StartParams,
  state: DelegateDraft,
): Promise<DelegateDraft> {
  const delegator = facts.delegator.name;
  const start = { ...params, delegator, launch: null };
  const values = await changeOptions(deps, facts, start, state.override?.values ?? {});
  const { override, ...rest } = state;
  const options = optionsOf(facts, values);
  const [launch, agent] = [overrideOf(options, values), agentOf(options, values)];
  if (!launch && agent === undefined) return rest;
  const reason = override?.reason ?? preview.explain.reason;
  const changed = { ...(launch ? { launch } : {}), ...(agent === undefined ? {} : { agent }) };
  return { ...rest, override: { delegator, reason, values, ...changed, summary: overrideSummary(options, values) } };
}

function titleOf({ recipe }: DelegateDraft, subject: Subject): string {
  return recipe ? t("{0}: {1}", recipe.title, subjectName(subject)) : t("Delegate");
}

function amountOf({ prompt, tokens }: PreviewResult): string {
  return prompt ? t("prompt of about {0} tokens", compactNumber(tokens)) : t("works without a model");
}

function previewItems(
  preview: PreviewResult,
  asks: boolean,
  actions: readonly PickItem[],
  named: boolean,
  reason = preview.explain.reason,
): PickItem[] {
  const { explain, files, prompt } = preview;
  const sent = files.filter(({ withheld }) => withheld === undefined);
  const file = (one: PreviewResult["files"][number]): PickItem => ({
    id: `file:${one.path}`,
    label: one.path,
    description:
      one.withheld === undefined
        ? t("file of about {0} tokens", compactNumber(one.tokens))
        : t("not sent: {0}", one.withheld),
    icon: one.withheld === undefined ? "file" : "lock",
  });
  const passed = explain.candidates.filter(({ skippedBecause: skipped }) => skipped !== undefined);
  return [
    {
      id: "go",
      label: asks ? t("Ask {0}", explain.delegator) : t("Delegate to {0}", explain.delegator),
      description: amountOf(preview),
      detail: named ? t("You chose this delegator.") : oneLine(toSentence(reason), 200),
      icon: "rocket",
    },
    ...(prompt ? [{ id: "show", label: t("Show Full Prompt"), icon: "eye" }] : []),
    ...actions,
    ...(files.length > 0
      ? [
          {
            id: "separator:files",
            label: sent.length === 1 ? t("1 file attached") : t("{0} files attached", sent.length),
            separator: true,
          },
          ...files.map(file),
        ]
      : []),
    ...(passed.length > 0
      ? [
          { id: "separator:passed", label: t("skipped"), separator: true },
          ...passed.map(({ name, skippedBecause: skipped }) => ({
            id: `passed:${name}`,
            label: name,
            description: skipped ?? "",
            icon: "circle-slash",
          })),
        ]
      : []),
  ];
}

function startParams(deps: DelegateDeps, subject: Subject, recipe: Recipe, state: DelegateDraft): StartParams {
  const folder = subjectFolder(deps, subject);
  const delegator = state.delegator ?? state.override?.delegator;
  return {
    recipe: recipe.name,
    ...subjectParams(deps, subject),
    ...(state.task ? { task: state.task } : {}),
    ...(state.target && folder
      ? { target: `${folder.uri.replace(/\/$/, "")}/${state.target.split("/").map(encodeURIComponent).join("/")}` }
      : {}),
    ...(delegator === undefined ? {} : { delegator }),
    ...(state.override?.launch ? { launch: state.override.launch } : {}),
    ...(state.override?.agent === undefined ? {} : { agent: state.override.agent }),
  };
}

function subjectParams(deps: DelegateDeps, subject: Subject): Partial<StartParams> {
  const { files, range, diagnostics } = subject;
  const folder = subjectFolder(deps, subject);
  return {
    ...(files.length > 0 ? { files: [...files] } : {}),
    ...(files.length === 0 && folder ? { workspace: folder.uri } : {}),
    ...(range ? { range } : {}),
    ...(diagnostics ? { diagnostics: diagnostics.map((one) => ({ ...one, severity: SEVERITIES[one.severity] })) } : {}),
  };
}

/** The chosen folder or that of the file, otherwise the first one. */
function subjectFolder({ host }: DelegateDeps, subject: Subject): Folder | undefined {
  return subject.folder ?? folderOf(subject.files[0], host.workspace.folders);
}

function needsFile(recipe: Recipe): boolean {
  return recipe.needs?.includes("file") ?? false;
}

/** Ask for files: one of those in tabs, or any on disk. None if the user cancelled. */
export async function chooseFiles(
  host: Pick<Host, "windows" | "documents" | "workspace">,
  folder: Folder | undefined,
  place?: StepPosition,
): Promise<readonly string[] | "back"> {
  const inside = folder ?? host.workspace.folders[0];
  const tabs = host.documents.tabs.filter((uri) => inside !== undefined && uri.startsWith(`${inside.uri}/`));
  const choose: PickItem = { id: CHOOSE_FILES, label: t("Choose Files…"), icon: "folder-opened" };
  if (tabs.length > 0) {
    const outcome = await host.windows.pick({
      title: t("Delegate"),
      ...place,
      placeholder: t("Which file?"),
      items: [...tabs.map((uri) => ({ id: uri, label: nameOf(uri), description: placeOf(uri, inside) })), choose],
    });
    if (outcome.kind !== "picked") return outcome.kind === "back" ? "back" : [];
    const [id = ""] = outcome.ids;
    if (id !== CHOOSE_FILES) return [id];
  }
  return host.windows.pickFiles(t("Choose Files"), inside?.uri);
}

function needsInstructions(recipe: Recipe, subject: Subject): boolean {
  // Problems say what to do.
  const needsTask = (recipe.needs?.includes("task") ?? false) && !subject.diagnostics;
  return needsTask || recipe.returns === "file" || subject.files.length === 0;
}

function subjectName({ files, range, diagnostics }: Subject): string {
  const [file] = files;
  if (diagnostics) return diagnostics.length === 1 ? t("this problem") : t("{0} problems", diagnostics.length);
  if (file === undefined) return t("this folder");
  if (files.length > 1) return t("{0} files", files.length);
  return range ? t("the selection in {0}", nameOf(file)) : nameOf(file);
}

function nameOf(uri: string): string {
  return decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
}

/** The folder of a file, relative to the workspace folder. */
function placeOf(uri: string, folder: Folder | undefined): string {
  const parent = uri.slice(0, uri.lastIndexOf("/"));
  return decodeURIComponent(folder && parent.startsWith(folder.uri) ? parent.slice(folder.uri.length + 1) : parent);
}

function overlaps(one: Range, other: Range): boolean {
  return one.start.line <= other.end.line && other.start.line <= one.end.line;
}

function enclosingRange(found: readonly DiagnosticText[]): Range {
  const starts = found.map(({ range }) => range.start);
  const ends = found.map(({ range }) => range.end);
  const before = (a: Range["start"], b: Range["start"]): boolean =>
    a.line < b.line || (a.line === b.line && a.character < b.character);
  return {
    start: starts.reduce((least, place) => (before(place, least) ? place : least)),
    end: ends.reduce((most, place) => (before(most, place) ? place : most)),
  };
}
