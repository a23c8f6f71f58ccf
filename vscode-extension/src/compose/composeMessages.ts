/** Messages between the form of a new delegation, in a tab or in the box of the sidebar, and the editor. */

import type { ErrorInfo, OptionValue } from "../protocol.ts";
import { valuesOf, type OverrideValues } from "../state/launchOverride.ts";
import { guessRecipe } from "../state/recipeGuess.ts";

export const MAX_TASK_CHARACTERS = 100_000;
export const MAX_FILES = 100;

export interface ComposeFile {
  readonly uri: string;
  /** Path relative to the folder of the window. */
  readonly name: string;
  /** The selected lines of the current file: `3–9`. */
  readonly lines?: string;
}

export interface ComposeDraft {
  readonly task: string;
  /** Name of the recipe; empty: as guessed from the task and the files. */
  readonly recipe: string;
  /** Name of the delegator; empty: the default. */
  readonly delegator: string;
  /** Path of the file to write, for recipes that write one. */
  readonly target: string;
  readonly files: readonly ComposeFile[];
  /** URI of the file that was current when the user removed it from the draft. */
  readonly without: string;
  /** The highest cost in USD; empty: no limit beyond that of the delegator. */
  readonly budget: string;
  /** URI of the folder to work in if no file is attached; empty: the first one. */
  readonly folder: string;
  /** What this delegation changes of the delegator. */
  readonly options: OverrideValues;
}

/** An option of the chosen delegator that this delegation can change. */
export interface ComposeOption {
  readonly id: string;
  readonly title: string;
  readonly description: string;
  /** An example; "": there is none. */
  readonly placeholder: string;
  /** The allowed values; absent: the user enters a text. */
  readonly choices?: readonly OptionValue[];
  /** The value of the delegator, as it is called; "": it has none. */
  readonly own: string;
  /** Whether `page/models` has suggestions for it. */
  readonly listsModels: boolean;
}

export interface ComposeRecipe {
  readonly name: string;
  readonly title: string;
  readonly writesFile: boolean;
  /** Whether it can work on the selected lines of a file. */
  readonly takesSelection: boolean;
  /** What it cannot do without. */
  readonly needs: readonly ("file" | "task")[];
  /** Name of the delegator that works on it if none is chosen; absent: the user is asked. */
  readonly defaultDelegator?: string;
}

/** What the user can choose from. */
export interface ComposeChoices {
  readonly recipes: readonly ComposeRecipe[];
  readonly delegators: readonly { readonly name: string; readonly title: string }[];
  /** The folders of the window: URI and name. */
  readonly folders: readonly { readonly name: string; readonly title: string }[];
}

export interface ComposeStart {
  readonly draft: ComposeDraft;
  readonly choices: ComposeChoices;
  readonly current: ComposeFile | undefined;
  /** Whether it is the box of the sidebar: short, and Enter starts. */
  readonly isBox: boolean;
  /** Texts of the UI by their English text. */
  readonly translations: Readonly<Record<string, string>>;
}

/** Requests of the page, each with its answer. */
export interface ComposeRequests {
  "page/start": { params: object; result: ComposeStart };
  /** Let the user choose files. */
  "page/pickFiles": { params: object; result: readonly ComposeFile[] };
  /** Files of the window whose path contains a text, those that were used last first. */
  "page/findFiles": { params: { readonly text: string }; result: readonly ComposeFile[] };
  /** Files that were dropped. */
  "page/droppedFiles": { params: { readonly uris: readonly string[] }; result: readonly ComposeFile[] };
  /** The options of the delegator in the draft. */
  "page/options": { params: ComposeDraft; result: readonly ComposeOption[] };
  /** The models that the model server of the delegator lists. */
  "page/models": { params: ComposeDraft; result: readonly string[] };
  /** What is wrong with the options in the draft: ID of the option → why. */
  "page/checkOptions": { params: ComposeDraft; result: Readonly<Record<string, string>> };
  /** What would be sent to whom, and what that may cost, in a line. */
  "page/estimate": { params: ComposeDraft; result: string };
  /** Show the same draft in a tab, with all options. */
  "page/openTab": { params: object; result: object };
  /** Show the complete prompt; the answer says what would be sent. */
  "page/showPrompt": { params: ComposeDraft; result: string };
  /** Start the delegation; the answer is its ID, empty if the user cancelled. */
  "page/send": { params: ComposeDraft; result: string };
  /** Show the transcript of a delegation. */
  "page/openTranscript": { params: { readonly id: string }; result: object };
}

type RequestMessage<M extends keyof ComposeRequests = keyof ComposeRequests> = M extends keyof ComposeRequests
  ? { readonly id: number; readonly method: M; readonly params: ComposeRequests[M]["params"] }
  : never;

export type FromComposePage = RequestMessage | { readonly method: "page/draft"; readonly params: ComposeDraft };

export type ToComposePage =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: ErrorInfo }
  | { readonly method: "page/draft"; readonly params: ComposeDraft }
  | { readonly method: "page/choices"; readonly params: ComposeChoices }
  /** The file of the editor that was active last. */
  | { readonly method: "page/current"; readonly params: ComposeFile | undefined };

export const EMPTY_DRAFT: ComposeDraft = {
  task: "",
  recipe: "",
  delegator: "",
  target: "",
  files: [],
  without: "",
  budget: "",
  folder: "",
  options: {},
};

/** The files that a draft is about: the current one as long as the user names no other, and has not removed it. */
export function filesOf({ files, without }: ComposeDraft, current: ComposeFile | undefined): readonly ComposeFile[] {
  return files.length > 0 || !current || current.uri === without ? files : [current];
}

/** The recipe that the user has chosen, otherwise the one that fits. */
export function recipeOf<R extends { readonly name: string }>(
  draft: ComposeDraft,
  current: ComposeFile | undefined,
  recipes: readonly R[],
): R | undefined {
  const chosen = recipes.find(({ name }) => name === draft.recipe);
  if (chosen) return chosen;
  const guess = guessRecipe(draft.task, filesOf(draft, current).length > 0, recipes);
  return recipes.find(({ name }) => name === guess);
}

/** A draft that a page has stored: what has another type or exceeds a limit is left out. */
export function draftOf(stored: unknown): ComposeDraft {
  if (typeof stored !== "object" || stored === null) return EMPTY_DRAFT;
  const given = stored as Record<string, unknown>;
  const text = (name: keyof ComposeDraft): string => {
    const value = given[name];
    return typeof value === "string" ? value.slice(0, MAX_TASK_CHARACTERS) : "";
  };
  const files = Array.isArray(given["files"]) ? (given["files"] as unknown[]) : [];
  return {
    task: text("task"),
    recipe: text("recipe"),
    delegator: text("delegator"),
    target: text("target"),
    files: files.filter(isFile).slice(0, MAX_FILES),
    without: text("without"),
    budget: text("budget"),
    folder: text("folder"),
    options: valuesOf(given["options"]),
  };
}

function isFile(value: unknown): value is ComposeFile {
  if (typeof value !== "object" || value === null) return false;
  const { uri, name } = value as Record<string, unknown>;
  return typeof uri === "string" && uri.startsWith("file:") && typeof name === "string";
}
