import { describe, expect, it } from "vitest";
import { paramsOf, understand } from "../../src/assistants/chatRequests.ts";
import { answerText, quoted } from "../../src/state/modelText.ts";
import type { Recipe } from "../../src/protocol.ts";

const RECIPES: Recipe[] = ["implement", "fix", "tests", "docs", "ask", "explain", "review", "write"].map((name) => ({
  name,
  title: name,
  returns: ["ask", "explain", "review"].includes(name) ? "text" : "tree",
  appliesTo: { on: name === "docs" ? ["file"] : ["file", "selection"] },
  scope: "builtin",
}));
const FILE = "file:///home/ada/greeting/wrapping.py";
const RANGE = { start: { line: 2, character: 0 }, end: { line: 4, character: 0 } };
const FOLDER = { uri: "file:///home/ada/greeting", path: "/home/ada/greeting", name: "greeting" };
const active = { uri: FILE, selection: RANGE, selectionEmpty: false };

describe("a chat message", () => {
  it.each([
    ["tests for this file", "tests", undefined, true],
    ["Write unit tests for the current file.", "tests", undefined, true],
    ["write tests for wrap() with empty input", "tests", "write tests for wrap() with empty input", true],
    ["testing is fun", "implement", "testing is fun", false],
    ["review this file", "review", undefined, true],
    ["explain the regular expression", "explain", "the regular expression", true],
    ["fix: the off-by-one in wrap", "fix", "the off-by-one in wrap", true],
    ["What does wrap do", "ask", "What does wrap do", false],
    ["wrap breaks long words?", "ask", "wrap breaks long words?", false],
    ["Make the width an option", "implement", "Make the width an option", false],
    ["", "implement", undefined, false],
  ])("%j is %s", (prompt, recipe, task, isNew) => {
    expect(understand({ prompt }, RECIPES)).toEqual({ recipe, isNew, ...(task === undefined ? {} : { task }) });
  });

  it("takes its command, whatever it says", () => {
    expect(understand({ command: "docs", prompt: "tests for this file?" }, RECIPES)).toEqual({
      recipe: "docs",
      task: "tests for this file?",
      isNew: true,
    });
    expect(understand({ command: "tests", prompt: " " }, RECIPES)).toEqual({ recipe: "tests", isNew: true });
  });

  it("is about the files that it names, otherwise about the selection or the file of the editor", () => {
    const params = (prompt: string, files: { uri: string; range?: typeof RANGE }[] = [], recipe = "review") =>
      paramsOf({ prompt, files }, { recipe, isNew: true }, RECIPES, active, FOLDER);
    expect(params("it")).toEqual({ recipe: "review", files: [FILE], range: RANGE });
    expect(params("this file")).toEqual({ recipe: "review", files: [FILE] });
    expect(params("the selection of this file")).toMatchObject({ range: RANGE });
    expect(params("it", [], "docs")).toEqual({ recipe: "docs", files: [FILE] });
    const other = "file:///home/ada/greeting/other.py";
    expect(params("it", [{ uri: other, range: RANGE }, { uri: FILE }, { uri: FILE }])).toEqual({
      recipe: "review",
      files: [other, FILE],
      range: RANGE,
    });
    expect(params("it", [{ uri: "untitled:Untitled-1" }])).toMatchObject({ files: [FILE] });
    expect(
      paramsOf({ prompt: "x", files: [] }, { recipe: "implement", isNew: false }, RECIPES, undefined, FOLDER),
    ).toEqual({ recipe: "implement", workspace: FOLDER.uri });
  });
});

describe("untrusted text in an answer", () => {
  it("has no images, links of commands or HTML outside of code", () => {
    const text = answerText(
      "See ![x](https://evil.invalid/?q=1) and [run](command:evil) <img src=x>\n\n[a]: https://evil.invalid\n![a][a]\n" +
        "```rust\nlet v = vec![a](b); <T>\n```\n![y](z)",
    );
    expect(text.replace(/```[^]*```/, "")).not.toMatch(/!\[/);
    expect(text).not.toContain("](command:");
    expect(text).not.toContain("<img");
    expect(text).not.toMatch(/^\[a\]:/m);
    expect(text).toContain("let v = vec![a](b); <T>");
  });

  // Every reader of Markdown must see the end of the code where this function sees it.
  it.each([
    ["a fence with a backtick after it is none", "``` a`b\n![x](y)", "``` a`b\n!\u2060[x]\u2060(y)"],
    ["a fence in a list would end with the list", "- a\n  ```\n![x](y)", "- a\n```\n![x](y)"],
    ["a list may begin with a fence", "1. ```js\n   x()\n   ```\n![x](y)", "1.\n```js\n   x()\n```\n!\u2060[x]\u2060(y)"],
    ["other marks may end a fence", "```\n```~\n![x](y)", "```\n\u2060```~\n![x](y)"],
    ["another space follows the mark", "```\n```\u00a0\n```\n![x](y)", "```\n\u2060```\u00a0\n```\n!\u2060[x]\u2060(y)"],
    ["an indented mark may be code", "```\n    ```\n![x](y)", "```\n\u2060    ```\n![x](y)"],
    ["a formula may contain a fence", "$$\n```\n$$\n![x](y)", "$$\u2060\n```\n$$\n![x](y)"],
    ["a longer mark ends a fence", "~~~\n```\n~~~~\n![x](y)", "~~~\n```\n~~~~\n!\u2060[x]\u2060(y)"],
  ])("has no image where %s", (_, text, expected) => {
    expect(answerText(text)).toBe(expected);
  }); // prettier-ignore

  it("keeps code in lists as it is", () => {
    const shown = answerText("1. First\n   ```js\n   if (a<b) f(c)\n   ```\n2. See ![x](y)");
    expect(shown).toContain("```js\n   if (a<b) f(c)\n```\n2. See !\u2060[x]");
  });

  it("stays one line of plain text where it is quoted", () => {
    expect(quoted("a\n[b](command:c) `d` <e>\u202e")).not.toMatch(/\n|[^\\]\[|[^\\]`|[^\\]<|\u202e/);
  });
});
