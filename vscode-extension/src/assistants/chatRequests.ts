/** What a chat message asks for: a recipe, instructions, files. */

import type { Range, Recipe, StartParams } from "../protocol.ts";
import type { ActiveEditor, ChatRequest, Folder } from "../host/host.ts";
import { ASKS, DEFAULT_RECIPE, QUESTION, TESTS } from "../state/recipeGuess.ts";

/** A rest of the message that says nothing beyond the recipe. */
const HERE = /^(?:(?:for|of|in|to|about)\s+)?(?:this|the\s+(?:current|active|open)|my)?\s*(?:file|selection|code|module|it)?[.!]?$/i; // prettier-ignore
const SELECTION = /\bselect(?:ion|ed)\b/i;
const WHOLE_FILE = /\bfile\b/i;

export interface Understood {
  readonly recipe: string;
  readonly task?: string;
  /** Whether the message names what to do, so that it is not a reply to the result before it. */
  readonly isNew: boolean;
}

/** Find the recipe: the command, a word that names one, a question, or the default. */
export function understand(
  { command, prompt }: Pick<ChatRequest, "command" | "prompt">,
  recipes: readonly Pick<Recipe, "name">[],
): Understood {
  const text = prompt.trim();
  const known = (name: string): boolean => recipes.some((one) => one.name === name);
  if (command !== undefined) return { recipe: command, ...taskOf(text), isNew: true };
  if (TESTS.test(text) && known("tests")) {
    const saysMore = !HERE.test(text.replace(TESTS, "").trim());
    return { recipe: "tests", ...(saysMore ? { task: text } : {}), isNew: true };
  }
  const [first = ""] = text.split(/\s+/, 1);
  const name = first.toLowerCase().replace(/[:,]$/, "");
  if (known(name)) {
    return { recipe: name, ...taskOf(text.slice(first.length).trim()), isNew: true };
  }
  if ((ASKS.test(text) || text.endsWith("?")) && known(QUESTION)) return { recipe: QUESTION, ...taskOf(text), isNew: false }; // prettier-ignore
  return { recipe: DEFAULT_RECIPE, ...taskOf(text), isNew: false };
}

/** The request for a delegation. Files of the message come first, otherwise the active editor's. */
export function paramsOf(
  request: ChatRequest,
  { recipe, task }: Understood,
  recipes: readonly Recipe[],
  active: ActiveEditor | undefined,
  folder: Folder | undefined,
): StartParams {
  const named = request.files.filter(({ uri }) => uri.startsWith("file:"));
  const fromEditor = named.length === 0 && active?.uri.startsWith("file:") === true;
  const files = fromEditor ? [active.uri] : [...new Set(named.map(({ uri }) => uri))];
  const range = fromEditor ? selectionOf(request.prompt, active, recipes, recipe) : named[0]?.range;
  return {
    recipe,
    ...(task === undefined ? {} : { task }),
    ...(files.length > 0 ? { files } : {}),
    ...(range && files.length > 0 ? { range } : {}),
    ...(folder && files.length === 0 ? { workspace: folder.uri } : {}),
  };
}

function selectionOf(
  prompt: string,
  active: ActiveEditor,
  recipes: readonly Recipe[],
  recipe: string,
): Range | undefined {
  if (active.selectionEmpty || (WHOLE_FILE.test(prompt) && !SELECTION.test(prompt))) return undefined;
  const applies = recipes.find(({ name }) => name === recipe)?.appliesTo.on ?? [];
  return applies.includes("selection") ? active.selection : undefined;
}

/** The task in a text; none if the text says nothing beyond the recipe. */
const taskOf = (text: string): { readonly task?: string } => (HERE.test(text) ? {} : { task: text });
