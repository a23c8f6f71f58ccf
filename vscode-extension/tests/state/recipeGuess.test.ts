import { describe, expect, it } from "vitest";
import { guessRecipe } from "../../src/state/recipeGuess.ts";

const RECIPES = ["tests", "implement", "fix", "docs", "ask", "explain", "house-style", "write", "review"].map(
  (name) => ({ name }),
);

describe("the recipe of a task", () => {
  it.each([
    ["Write unit tests for the prices", "tests"],
    ["Test the edges", "tests"],
    ["Write the documentation of it", "docs"],
    ["Write a page that lists them", "write"],
    ["Review what happens after a crash", "review"],
    ["fix the failing test", "fix"],
    ["It crashes on an empty cart", "fix"],
    ["Document the parameters", "docs"],
    ["Update the docs", "docs"],
    ["Why is this slow?", "ask"],
    ["Explain: the loop", "explain"],
    ["house-style, please", "house-style"],
    ["Add error handling", "implement"],
    ["Rename prices.py to pricing.py", "implement"],
    ["", "implement"],
  ])("is guessed from its words: %s", (task, recipe) => {
    expect(guessRecipe(task, false, RECIPES)).toBe(recipe);
  });

  it("is a test if only a file is there, and never one that does not exist", () => {
    expect(guessRecipe(" ", true, RECIPES)).toBe("tests");
    expect(guessRecipe("Write tests", true, [{ name: "x" }])).toBe("x");
    expect(guessRecipe("Write tests", true, [])).toBe("");
  });
});
