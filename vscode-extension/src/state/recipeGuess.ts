/** Which recipe a text asks for, by its first words. Without a word that says more, it is a change. */

/** What is done if nothing says more. */
export const DEFAULT_RECIPE = "implement";
export const QUESTION = "ask";
export const TESTS =
  /^(?:please\s+)?(?:(?:write|add|generate|create|make|delegate)\s+)?(?:some\s+|the\s+|more\s+)?(?:unit\s+)?tests?\b/i;
export const ASKS =
  /^(?:what|why|how|where|which|who|when|does|do|did|is|are|was|were|can|could|should|would|explain\s+(?:what|why|how))\b/i;
const FIX = /^(?:please\s+)?(?:fix|repair|debug)\b|\b(?:bug|crash(?:es|ed)?|traceback)\b/i;
const DOCS = /^(?:please\s+)?(?:(?:write|add|update)\s+)?(?:the\s+)?(?:document(?:ation)?|docs|docstrings?)\b/i;

/** The name of the recipe for a task; `hasFiles`: whether there are files to work on. "" if there is no recipe. */
export function guessRecipe(task: string, hasFiles: boolean, recipes: readonly { readonly name: string }[]): string {
  const text = task.trim();
  const [first = ""] = text.toLowerCase().split(/[\s:,]/, 1);
  const guesses: readonly [boolean, string][] = [
    [text === "" && hasFiles, "tests"],
    [TESTS.test(text), "tests"],
    [DOCS.test(text), "docs"],
    [first !== "", first],
    [FIX.test(text), "fix"],
    [ASKS.test(text) || text.endsWith("?"), QUESTION],
    [true, DEFAULT_RECIPE],
  ];
  const found = guesses.find(([fits, name]) => fits && recipes.some((recipe) => recipe.name === name));
  return found?.[1] ?? recipes[0]?.name ?? "";
}
