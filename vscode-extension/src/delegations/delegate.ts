/**
 * Delegate: from a file, a selection or diagnostics to a delegation that runs. What is sent, by whom it is done and why
 * is shown before anything leaves the machine. Texts that are not saved count: the sidecar has what the editor shows.
 */

import { randomUUID } from "node:crypto";
import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { DiagnosticText, Host, PickItem } from "../host/host.ts";
import { folderOf } from "../model/folders.ts";
import type { Store } from "../model/store.ts";
import { count, driverWords, oneLine, sentence } from "../model/words.ts";
import type { PreviewResult, Range, Recipe, StartParams } from "../protocol.ts";
import { runSteps, type Place, type StepResult } from "./steps.ts";

export interface DelegateParts {
  readonly asker: Asker;
  readonly host: Pick<Host, "windows" | "documents" | "workspace" | "commands" | "memory">;
  readonly store: Pick<Store, "delegators">;
  /** Show a prompt, to read only. */
  readonly showPrompt: (text: string, recipe: Recipe) => Promise<void>;
  /** A delegation was started in this window. */
  readonly started: (id: string) => Promise<void>;
}

/** What somebody wants something done with. */
export interface Subject {
  /** URIs of files on disk. */
  readonly files: readonly string[];
  readonly range?: Range;
  readonly diagnostics?: readonly DiagnosticText[];
}

export interface DelegateOptions {
  /** Without it the person is asked. */
  readonly recipe?: string;
  /** Ask for words even where a recipe needs none. */
  readonly words: boolean;
}

/** Recipes that say nothing without a person's words. */
const NEEDS_WORDS: ReadonlySet<string> = new Set(["ask", "implement", "write"]);
/** Who was chosen last where nobody is the default: one Enter takes the same one again. */
const LAST = "delegate.last";
const ADD = "add";
const WHO = "who:";
const SEVERITIES = { error: 1, warning: 2, information: 3, hint: 4 } as const;

interface State {
  readonly recipe?: Recipe;
  readonly task?: string;
  readonly target?: string;
  readonly delegator?: string;
}

type StepName = "recipe" | "words" | "target" | "preview";

/** Ask what is needed, show what would be sent, start it. */
export async function delegate(parts: DelegateParts, subject: Subject, options: DelegateOptions): Promise<void> {
  const recipes = await recipesFor(parts, subject);
  const given = options.recipe === undefined ? undefined : recipes.find(({ name }) => name === options.recipe);
  if (options.recipe !== undefined && !given) {
    await parts.host.windows.message("warning", t("The recipe “{0}” does not fit here.", options.recipe));
    return;
  }
  if (recipes.length === 0) {
    await parts.host.windows.message("info", t("No recipe fits here."));
    return;
  }
  const asksWords = (recipe: Recipe): boolean => options.words || needsWords(recipe, subject);
  const after = (state: State, step: StepName): StepName => {
    const { recipe } = state;
    if (recipe && step === "recipe" && asksWords(recipe)) return "words";
    if (recipe?.returns === "file" && step !== "target") return "target";
    return "preview";
  };
  const steps = {
    recipe: async (state: State, place: Place): Promise<StepResult<State, StepName>> => {
      const outcome = await parts.host.windows.pick({
        title: t("Delegate"),
        ...place,
        placeholder: t("What is to be done with {0}?", subjectName(subject)),
        items: recipeItems(recipes),
        ...(state.recipe ? { active: state.recipe.name } : {}),
      });
      if (outcome.kind !== "picked") return { kind: outcome.kind === "back" ? "back" : "cancelled" };
      const recipe = recipes.find(({ name }) => name === outcome.ids[0]);
      if (!recipe) return { kind: "again", state };
      const next = { ...state, recipe };
      return { kind: "next", state: next, to: after(next, "recipe") };
    },
    words: async (state: State, place: Place): Promise<StepResult<State, StepName>> => {
      const must = state.recipe !== undefined && needsWords(state.recipe, subject);
      const outcome = await parts.host.windows.input({
        title: titleOf(state, subject),
        ...place,
        prompt: must
          ? t("Say what you want, in your own words.")
          : t("Anything to add, in your own words? Enter goes on without."),
        value: state.task ?? "",
        validate: (value) => (must && value.trim() === "" ? t("Say what you want.") : undefined),
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      const next = { ...state, task: outcome.value.trim() };
      return { kind: "next", state: next, to: after(next, "words") };
    },
    target: async (state: State, place: Place): Promise<StepResult<State, StepName>> => {
      const outcome = await parts.host.windows.input({
        title: titleOf(state, subject),
        ...place,
        prompt: t("Which file is to be written? Its path in the folder {0}.", root(parts, subject)?.name ?? ""),
        value: state.target ?? "",
        placeholder: "src/example.py",
        validate: (value) =>
          value.trim() === "" || value.startsWith("/") || value.split("/").includes("..")
            ? t("A path inside the folder, such as src/example.py.")
            : undefined,
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", state: { ...state, target: outcome.value.trim() }, to: "preview" };
    },
    preview: (state: State, place: Place) => previewStep(parts, subject, state, place),
  };
  const first: State = given ? { recipe: given } : {};
  const done = await runSteps<State, StepName>(steps, given ? after(first, "recipe") : "recipe", first, (state) => {
    const recipe = state.recipe;
    const questions = (given ? 0 : 1) + (recipe ? Number(asksWords(recipe)) : Number(options.words));
    return questions + Number(recipe?.returns === "file") + 1;
  });
  if (done?.recipe) await start(parts, paramsOf(parts, subject, done.recipe, done));
}

/** Start it; show progress. Where nobody was named and nobody is the default, the person says who does it. */
export async function start(parts: DelegateParts, params: StartParams): Promise<string | undefined> {
  const { asker, host } = parts;
  try {
    const { id } = await asker.ask("understudy/delegations/start", { ...params, idempotencyKey: randomUUID() });
    await parts.started(id);
    return id;
  } catch (error) {
    const info = errorInfo(error);
    if (info.kind === "unknown_delegator" && !params.delegator) {
      const delegator = await whoDoesIt(parts, info.names ?? []);
      return delegator === undefined ? undefined : start(parts, { ...params, delegator });
    }
    if (info.kind !== "untrusted_workspace") throw error;
    const manage = t("Manage Workspace Trust");
    const answer = await host.windows.message("warning", info.message, { buttons: [manage] });
    if (answer === manage) await host.commands.run("workbench.trust.manage");
    return undefined;
  }
}

/** Start a recipe that needs no words at once. */
export async function startRecipe(parts: DelegateParts, subject: Subject, recipe: string): Promise<void> {
  await start(parts, { recipe, ...subjectParams(parts, subject) });
}

/** What the editor has in front: the files that a menu named, else the active one. */
export function subjectOf(
  { host }: Pick<DelegateParts, "host">,
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
    const near = own ? all.filter(({ range }) => touches(range, own.selection)) : [];
    const diagnostics = near.length > 0 ? near : all;
    return diagnostics.length === 0 ? { files: [file] } : { files: [file], range: span(diagnostics), diagnostics };
  }
  return { files: [file] };
}

async function recipesFor({ asker }: DelegateParts, subject: Subject): Promise<readonly Recipe[]> {
  const [uri] = subject.files;
  const { recipes } = await asker.ask("understudy/recipes/list", uri === undefined ? {} : { uri });
  const on = subject.diagnostics ? "diagnostic" : subject.range ? "selection" : "file";
  return recipes.filter((recipe) => recipe.fits.on.includes(on));
}

function recipeItems(recipes: readonly Recipe[]): PickItem[] {
  const icons = { text: "comment", tree: "git-branch", file: "new-file" } as const;
  const returns = {
    text: t("answers with a text"),
    tree: t("brings changes to review"),
    file: t("writes one file, to review"),
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
    { id: "separator:builtin", label: t("of Understudy"), separator: true },
    ...builtin.map(item),
  ];
}

async function previewStep(
  parts: DelegateParts,
  subject: Subject,
  state: State,
  place: Place,
): Promise<StepResult<State, StepName>> {
  const { asker, host } = parts;
  if (!state.recipe) return { kind: "back" };
  const params = paramsOf(parts, subject, state.recipe, state);
  let preview: PreviewResult | undefined;
  const another: PickItem = { id: "another", label: t("Choose Another Delegator…"), icon: "person" };
  const outcome = await host.windows.pick({
    title: titleOf(state, subject),
    ...place,
    placeholder: t("Nothing has been sent yet."),
    items: [{ id: "wait", label: t("Finding out what would be sent …"), icon: "loading~spin" }],
    busy: true,
    live: (show, signal) => {
      asker
        .ask("understudy/delegations/preview", params, signal)
        .then((answer) => {
          preview = answer;
          show({ items: previewItems(answer, another, state.delegator !== undefined), busy: false });
        })
        .catch((error: unknown) => {
          const { kind, message, hint, names } = errorInfo(error);
          if (kind === "unknown_delegator" && state.delegator === undefined) {
            // Nobody is the default, or nobody can do it: who does it is the next question, not a fault.
            show({ items: whoItems(parts, names ?? []), busy: false, placeholder: whoWords(names ?? []) });
            return;
          }
          const wrong: PickItem = { id: "wrong", label: message, icon: "error", ...(hint ? { detail: hint } : {}) };
          show({ items: [wrong, another], busy: false, placeholder: t("It cannot be started so.") });
        });
    },
  });
  if (outcome.kind !== "picked") return { kind: outcome.kind === "back" ? "back" : "cancelled" };
  const [chosen = ""] = outcome.ids;
  if (chosen === "go") return { kind: "next", state };
  if (chosen === "show" && preview) await parts.showPrompt(preview.prompt, state.recipe);
  const who = chosen.startsWith(WHO) ? chosen.slice(WHO.length) : undefined;
  if (chosen === "another" || chosen === ADD || who !== undefined) {
    const name =
      chosen === "another"
        ? await anotherDelegator(parts, preview, state.delegator)
        : chosen === ADD
          ? await added(parts)
          : who;
    if (name !== undefined && chosen !== "another") await host.memory.set(LAST, name);
    return { kind: "again", state: name === undefined ? state : { ...state, delegator: name } };
  }
  return { kind: "again", state };
}

function titleOf({ recipe }: State, subject: Subject): string {
  return recipe ? t("{0}: {1}", recipe.title, subjectName(subject)) : t("Delegate");
}

function previewItems(preview: PreviewResult, another: PickItem, named: boolean): PickItem[] {
  const { explain, files } = preview;
  const sent = files.filter(({ withheld }) => withheld === undefined);
  const amounts = [
    t("about {0} tokens", count(preview.tokens)),
    ...(preview.estimatedUsd === undefined ? [] : [t("about ${0} to read", preview.estimatedUsd)]),
  ];
  const file = (one: PreviewResult["files"][number]): PickItem => ({
    id: `file:${one.path}`,
    label: one.path,
    description:
      one.withheld === undefined ? t("about {0} tokens", count(one.tokens)) : t("held back: {0}", one.withheld),
    icon: one.withheld === undefined ? "file" : "lock",
  });
  const passed = explain.tried.filter(({ skipped }) => skipped !== undefined);
  return [
    {
      id: "go",
      label: t("Delegate to {0}", explain.delegator),
      description: amounts.join(" · "),
      detail: named ? t("You chose it.") : oneLine(sentence(explain.because), 200),
      icon: "rocket",
    },
    { id: "show", label: t("Show Exactly What Is Sent"), icon: "eye" },
    another,
    ...(files.length > 0
      ? [
          {
            id: "separator:files",
            label: sent.length === 1 ? t("1 file goes along") : t("{0} files go along", sent.length),
            separator: true,
          },
          ...files.map(file),
        ]
      : []),
    ...(passed.length > 0
      ? [
          { id: "separator:passed", label: t("passed over"), separator: true },
          ...passed.map(({ name, skipped }) => ({
            id: `passed:${name}`,
            label: name,
            description: skipped ?? "",
            icon: "circle-slash",
          })),
        ]
      : []),
  ];
}

async function anotherDelegator(
  parts: DelegateParts,
  preview: PreviewResult | undefined,
  now: string | undefined,
): Promise<string | undefined> {
  const current = now ?? preview?.explain.delegator;
  const names = parts.store.delegators.map(({ delegator }) => delegator.name);
  return chooseWho(parts, names, { back: true, ...(current === undefined ? {} : { current }) });
}

/** Who does it, of those that could; remembered for the next time. */
async function whoDoesIt(parts: DelegateParts, names: readonly string[]): Promise<string | undefined> {
  const name = await chooseWho(parts, names, { back: false });
  if (name !== undefined) await parts.host.memory.set(LAST, name);
  return name;
}

async function chooseWho(
  parts: DelegateParts,
  names: readonly string[],
  { back, current }: { readonly back: boolean; readonly current?: string },
): Promise<string | undefined> {
  const active = current ?? parts.host.memory.get(LAST, "");
  const outcome = await parts.host.windows.pick({
    title: t("Delegate"),
    placeholder: whoWords(names),
    back,
    items: whoItems(parts, names),
    ...(active === "" ? {} : { active: WHO + active }),
  });
  const chosen = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  return chosen === ADD ? added(parts) : chosen?.slice(WHO.length);
}

function whoWords(names: readonly string[]): string {
  return names.length > 0 ? t("Who is to do it?") : t("Nobody is there yet who can do this.");
}

/** Those that could do it, and a way to somebody else. */
function whoItems({ store, host }: DelegateParts, names: readonly string[]): PickItem[] {
  const last = host.memory.get(LAST, "");
  const entries = store.delegators.filter(({ delegator }) => names.includes(delegator.name));
  const items = entries.map(({ delegator, state }): PickItem => {
    const [problem] = state.problems;
    return {
      id: WHO + delegator.name,
      label: delegator.displayName ?? delegator.name,
      description: driverWords(delegator),
      icon: state.ready ? (delegator.tool ? "terminal" : "server") : "error",
      ...(state.ready || !problem ? {} : { detail: problem.message }),
    };
  });
  const detail = t("An agent on this machine, or a model on a server.");
  return [
    ...items.filter(({ id }) => id === WHO + last),
    ...items.filter(({ id }) => id !== WHO + last),
    { id: ADD, label: t("Add a Delegator…"), icon: "add", ...(items.length > 0 ? {} : { detail }) },
  ];
}

/** One that is made on the way. */
async function added({ host }: DelegateParts): Promise<string | undefined> {
  const name = await host.commands.run("understudy.delegators.add");
  return typeof name === "string" ? name : undefined;
}

function paramsOf(parts: DelegateParts, subject: Subject, recipe: Recipe, state: State): StartParams {
  const folder = root(parts, subject);
  return {
    recipe: recipe.name,
    ...subjectParams(parts, subject),
    ...(state.task ? { task: state.task } : {}),
    ...(state.target && folder
      ? { target: `${folder.uri.replace(/\/$/, "")}/${state.target.split("/").map(encodeURIComponent).join("/")}` }
      : {}),
    ...(state.delegator === undefined ? {} : { delegator: state.delegator }),
  };
}

function subjectParams({ host }: DelegateParts, { files, range, diagnostics }: Subject): Partial<StartParams> {
  const [folder] = host.workspace.folders;
  return {
    ...(files.length > 0 ? { files: [...files] } : {}),
    ...(files.length === 0 && folder ? { workspace: folder.uri } : {}),
    ...(range ? { range } : {}),
    ...(diagnostics ? { diagnostics: diagnostics.map((one) => ({ ...one, severity: SEVERITIES[one.severity] })) } : {}),
  };
}

/** The window's folder that has the file, else its first one. */
function root({ host }: DelegateParts, subject: Subject): { uri: string; name: string } | undefined {
  return folderOf(subject.files[0], host.workspace.folders);
}

function needsWords(recipe: Recipe, subject: Subject): boolean {
  return NEEDS_WORDS.has(recipe.name) || recipe.returns === "file" || subject.files.length === 0;
}

function subjectName({ files, range, diagnostics }: Subject): string {
  const [file] = files;
  if (diagnostics) return diagnostics.length === 1 ? t("this problem") : t("{0} problems", diagnostics.length);
  if (file === undefined) return t("this folder");
  if (files.length > 1) return t("{0} files", files.length);
  const name = decodeURIComponent(file.slice(file.lastIndexOf("/") + 1));
  return range ? t("the selection in {0}", name) : name;
}

function touches(one: Range, other: Range): boolean {
  return one.start.line <= other.end.line && other.start.line <= one.end.line;
}

function span(found: readonly DiagnosticText[]): Range {
  const starts = found.map(({ range }) => range.start);
  const ends = found.map(({ range }) => range.end);
  const before = (a: Range["start"], b: Range["start"]): boolean =>
    a.line < b.line || (a.line === b.line && a.character < b.character);
  return {
    start: starts.reduce((least, place) => (before(place, least) ? place : least)),
    end: ends.reduce((most, place) => (before(most, place) ? place : most)),
  };
}
