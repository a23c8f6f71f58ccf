/**
 * Start a delegation for files, a selection or diagnostics. A preview shows what is sent, to which delegator, and
 * why. Unsaved text is included: the sidecar sees what the editor shows.
 */

import { randomUUID } from "node:crypto";
import { t } from "../base/l10n.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { DiagnosticText, Host, PickItem } from "../host/host.ts";
import { folderOf } from "../state/workspaceFolders.ts";
import type { Store } from "../state/store.ts";
import { toolAndModel } from "../state/wording.ts";
import { oneLine, toSentence } from "../state/formatting.ts";
import { compactNumber } from "../state/formatting.ts";
import type { PreviewResult, Range, Recipe, StartParams } from "../protocol.ts";
import { runSteps, type StepPosition, type StepResult } from "../base/wizard.ts";

export interface DelegateDeps {
  readonly requester: Requester;
  readonly host: Pick<Host, "windows" | "documents" | "workspace" | "commands" | "memory">;
  readonly store: Pick<Store, "delegators">;
  /** Show a prompt in a read-only document. */
  readonly showPrompt: (text: string, recipe: Recipe) => Promise<void>;
  /** Called when a delegation was started in this window. */
  readonly started: (id: string) => Promise<void>;
}

/** What the user wants to delegate. */
export interface Subject {
  /** URIs of files on disk. */
  readonly files: readonly string[];
  readonly range?: Range;
  readonly diagnostics?: readonly DiagnosticText[];
}

export interface DelegateOptions {
  /** If absent, the user chooses a recipe. */
  readonly recipe?: string;
  /** Ask for instructions even if the recipe does not need any. */
  readonly askInstructions: boolean;
}

/** Recipes that need instructions. */
const NEEDS_INSTRUCTIONS: ReadonlySet<string> = new Set(["ask", "implement", "write"]);

/** Memory key of the delegator chosen last. It is preselected if there is no default. */
const LAST_DELEGATOR_KEY = "delegate.last";
const ADD = "add";
const DELEGATOR_PREFIX = "who:";
const SEVERITIES = { error: 1, warning: 2, information: 3, hint: 4 } as const;

interface DelegateDraft {
  readonly recipe?: Recipe;
  readonly task?: string;
  readonly target?: string;
  readonly delegator?: string;
}

type Question = "recipe" | "words" | "target" | "preview";

/** Ask the questions, show the preview, start the delegation. */
export async function delegate(deps: DelegateDeps, subject: Subject, options: DelegateOptions): Promise<void> {
  const recipes = await recipesFor(deps, subject);
  const given = options.recipe === undefined ? undefined : recipes.find(({ name }) => name === options.recipe);
  if (options.recipe !== undefined && !given) {
    await deps.host.windows.message("warning", t("The recipe “{0}” does not apply here.", options.recipe));
    return;
  }
  if (recipes.length === 0) {
    await deps.host.windows.message("info", t("No recipe applies here."));
    return;
  }
  const asksWords = (recipe: Recipe): boolean => options.askInstructions || needsInstructions(recipe, subject);
  const after = (state: DelegateDraft, step: Question): Question => {
    const { recipe } = state;
    if (recipe && step === "recipe" && asksWords(recipe)) return "words";
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
    words: async (state: DelegateDraft, place: StepPosition): Promise<StepResult<DelegateDraft, Question>> => {
      const must = state.recipe !== undefined && needsInstructions(state.recipe, subject);
      const outcome = await deps.host.windows.input({
        title: titleOf(state, subject),
        ...place,
        prompt: must ? t("Describe the task.") : t("Add instructions (optional). Press Enter to skip."),
        value: state.task ?? "",
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
    preview: (state: DelegateDraft, place: StepPosition) => previewStep(deps, subject, state, place),
  };
  const first: DelegateDraft = given ? { recipe: given } : {};
  const done = await runSteps<DelegateDraft, Question>(
    steps,
    given ? after(first, "recipe") : "recipe",
    first,
    (state) => {
      const recipe = state.recipe;
      const questions = (given ? 0 : 1) + (recipe ? Number(asksWords(recipe)) : Number(options.askInstructions));
      return questions + Number(recipe?.returns === "file") + 1;
    },
  );
  if (done?.recipe) await startDelegation(deps, startParams(deps, subject, done.recipe, done));
}

/** Start a delegation. If no delegator was named and there is no default, ask for one. */
export async function startDelegation(deps: DelegateDeps, params: StartParams): Promise<string | undefined> {
  const { requester, host } = deps;
  try {
    const { id } = await requester.request("understudy/delegations/start", { ...params, idempotencyKey: randomUUID() });
    await deps.started(id);
    return id;
  } catch (error) {
    const info = toErrorInfo(error);
    if (info.kind === "unknown_delegator" && !params.delegator) {
      const delegator = await askDelegator(deps, info.names ?? []);
      return delegator === undefined ? undefined : startDelegation(deps, { ...params, delegator });
    }
    if (info.kind !== "untrusted_workspace") throw error;
    const manage = t("Manage Workspace Trust");
    const answer = await host.windows.message("warning", info.message, { buttons: [manage] });
    if (answer === manage) await host.commands.run("workbench.trust.manage");
    return undefined;
  }
}

/** Start a recipe that needs no instructions without asking anything. */
export async function startRecipe(deps: DelegateDeps, subject: Subject, recipe: string): Promise<void> {
  await startDelegation(deps, { recipe, ...subjectParams(deps, subject) });
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
  const { requester, host } = deps;
  if (!state.recipe) return { kind: "back" };
  const params = startParams(deps, subject, state.recipe, state);
  let preview: PreviewResult | undefined;
  const another: PickItem = { id: "another", label: t("Choose Another Delegator…"), icon: "person" };
  const outcome = await host.windows.pick({
    title: titleOf(state, subject),
    ...place,
    placeholder: t("Nothing has been sent yet."),
    items: [{ id: "wait", label: t("Preparing the preview…"), icon: "loading~spin" }],
    busy: true,
    live: (show, signal) => {
      requester
        .request("understudy/delegations/preview", params, signal)
        .then((answer) => {
          preview = answer;
          show({ items: previewItems(answer, another, state.delegator !== undefined), busy: false });
        })
        .catch((error: unknown) => {
          const { kind, message, hint, names } = toErrorInfo(error);
          if (kind === "unknown_delegator" && state.delegator === undefined) {
            // No default delegator, or none that can do it: ask for one instead of showing an error.
            show({
              items: delegatorItems(deps, names ?? []),
              busy: false,
              placeholder: delegatorPlaceholder(names ?? []),
            });
            return;
          }
          const wrong: PickItem = { id: "wrong", label: message, icon: "error", ...(hint ? { detail: hint } : {}) };
          show({ items: [wrong, another], busy: false, placeholder: t("It cannot be started with these settings.") });
        });
    },
  });
  if (outcome.kind !== "picked") return { kind: outcome.kind === "back" ? "back" : "cancelled" };
  const [chosen = ""] = outcome.ids;
  if (chosen === "go") return { kind: "next", state };
  if (chosen === "show" && preview) await deps.showPrompt(preview.prompt, state.recipe);
  const who = chosen.startsWith(DELEGATOR_PREFIX) ? chosen.slice(DELEGATOR_PREFIX.length) : undefined;
  if (chosen === "another" || chosen === ADD || who !== undefined) {
    const name =
      chosen === "another"
        ? await pickAnotherDelegator(deps, preview, state.delegator)
        : chosen === ADD
          ? await addDelegatorFirst(deps)
          : who;
    if (name !== undefined && chosen !== "another") await host.memory.set(LAST_DELEGATOR_KEY, name);
    return { kind: "again", state: name === undefined ? state : { ...state, delegator: name } };
  }
  return { kind: "again", state };
}

function titleOf({ recipe }: DelegateDraft, subject: Subject): string {
  return recipe ? t("{0}: {1}", recipe.title, subjectName(subject)) : t("Delegate");
}

function previewItems(preview: PreviewResult, another: PickItem, named: boolean): PickItem[] {
  const { explain, files } = preview;
  const sent = files.filter(({ withheld }) => withheld === undefined);
  const amounts = [t("prompt of about {0} tokens", compactNumber(preview.tokens))];
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
      label: t("Delegate to {0}", explain.delegator),
      description: amounts.join(" · "),
      detail: named ? t("You chose this delegator.") : oneLine(toSentence(explain.reason), 200),
      icon: "rocket",
    },
    { id: "show", label: t("Show Full Prompt"), icon: "eye" },
    another,
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

async function pickAnotherDelegator(
  deps: DelegateDeps,
  preview: PreviewResult | undefined,
  now: string | undefined,
): Promise<string | undefined> {
  const current = now ?? preview?.explain.delegator;
  const names = deps.store.delegators.map(({ delegator }) => delegator.name);
  return pickDelegator(deps, names, { back: true, ...(current === undefined ? {} : { current }) });
}

/** Ask which of the capable delegators to use, and remember the answer. */
async function askDelegator(deps: DelegateDeps, names: readonly string[]): Promise<string | undefined> {
  const name = await pickDelegator(deps, names, { back: false });
  if (name !== undefined) await deps.host.memory.set(LAST_DELEGATOR_KEY, name);
  return name;
}

async function pickDelegator(
  deps: DelegateDeps,
  names: readonly string[],
  { back, current }: { readonly back: boolean; readonly current?: string },
): Promise<string | undefined> {
  const active = current ?? deps.host.memory.get(LAST_DELEGATOR_KEY, "");
  const outcome = await deps.host.windows.pick({
    title: t("Delegate"),
    placeholder: delegatorPlaceholder(names),
    back,
    items: delegatorItems(deps, names),
    ...(active === "" ? {} : { active: DELEGATOR_PREFIX + active }),
  });
  const chosen = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  return chosen === ADD ? addDelegatorFirst(deps) : chosen?.slice(DELEGATOR_PREFIX.length);
}

function delegatorPlaceholder(names: readonly string[]): string {
  return names.length > 0 ? t("Choose a delegator") : t("No delegator can do this yet.");
}

/** The capable delegators, and an item that adds another one. */
function delegatorItems({ store, host }: DelegateDeps, names: readonly string[]): PickItem[] {
  const last = host.memory.get(LAST_DELEGATOR_KEY, "");
  const entries = store.delegators.filter(({ delegator }) => names.includes(delegator.name));
  const items = entries.map((entry): PickItem => {
    const { delegator, state } = entry;
    const [problem] = state.problems;
    return {
      id: DELEGATOR_PREFIX + delegator.name,
      label: delegator.displayName ?? delegator.name,
      description: toolAndModel(entry),
      icon: state.ready ? (delegator.tool ? "terminal" : "server") : "error",
      ...(state.ready || !problem ? {} : { detail: problem.message }),
    };
  });
  const detail = t("An agent on this machine, or a model on a server.");
  return [
    ...items.filter(({ id }) => id === DELEGATOR_PREFIX + last),
    ...items.filter(({ id }) => id !== DELEGATOR_PREFIX + last),
    { id: ADD, label: t("Add Delegator…"), icon: "add", ...(items.length > 0 ? {} : { detail }) },
  ];
}

/** Add a delegator without leaving the current question. */
async function addDelegatorFirst({ host }: DelegateDeps): Promise<string | undefined> {
  const name = await host.commands.run("understudy.delegators.add");
  return typeof name === "string" ? name : undefined;
}

function startParams(deps: DelegateDeps, subject: Subject, recipe: Recipe, state: DelegateDraft): StartParams {
  const folder = subjectFolder(deps, subject);
  return {
    recipe: recipe.name,
    ...subjectParams(deps, subject),
    ...(state.task ? { task: state.task } : {}),
    ...(state.target && folder
      ? { target: `${folder.uri.replace(/\/$/, "")}/${state.target.split("/").map(encodeURIComponent).join("/")}` }
      : {}),
    ...(state.delegator === undefined ? {} : { delegator: state.delegator }),
  };
}

function subjectParams({ host }: DelegateDeps, { files, range, diagnostics }: Subject): Partial<StartParams> {
  const [folder] = host.workspace.folders;
  return {
    ...(files.length > 0 ? { files: [...files] } : {}),
    ...(files.length === 0 && folder ? { workspace: folder.uri } : {}),
    ...(range ? { range } : {}),
    ...(diagnostics ? { diagnostics: diagnostics.map((one) => ({ ...one, severity: SEVERITIES[one.severity] })) } : {}),
  };
}

/** The workspace folder of the file, otherwise the first folder. */
function subjectFolder({ host }: DelegateDeps, subject: Subject): { uri: string; name: string } | undefined {
  return folderOf(subject.files[0], host.workspace.folders);
}

function needsInstructions(recipe: Recipe, subject: Subject): boolean {
  return NEEDS_INSTRUCTIONS.has(recipe.name) || recipe.returns === "file" || subject.files.length === 0;
}

function subjectName({ files, range, diagnostics }: Subject): string {
  const [file] = files;
  if (diagnostics) return diagnostics.length === 1 ? t("this problem") : t("{0} problems", diagnostics.length);
  if (file === undefined) return t("this folder");
  if (files.length > 1) return t("{0} files", files.length);
  const name = decodeURIComponent(file.slice(file.lastIndexOf("/") + 1));
  return range ? t("the selection in {0}", name) : name;
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
