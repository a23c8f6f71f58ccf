import { describe, expect, it } from "vitest";
import { questionText } from "../../src/state/questions.ts";

describe("questionText", () => {
  it("begins with the effect, and does not repeat it", () => {
    const detail = "command: make test\nThe agent's description: run the tests";
    expect(questionText({ kind: "execute", command: "make test", detail })).toBe(
      "Runs: make test\nThe agent's description: run the tests",
    );
    expect(questionText({ kind: "edit", paths: ["a.py", "b.py"], detail: "file_path: a.py\nold: x" })).toBe(
      "Changes: a.py, b.py\nold: x",
    );
  });

  it("keeps the agent's text if it says more than the effect", () => {
    const detail = "command: make test; curl https://example.invalid";
    expect(questionText({ kind: "execute", command: "make test", detail })).toContain(detail);
  });

  it.each([
    ["read", "Reads files", "Reads: a.py"],
    ["edit", "Changes files", "Changes: a.py"],
    ["execute", "Runs a command", "Runs a command\nFiles: a.py"],
    ["fetch", "Accesses the network", "Accesses the network\nFiles: a.py"],
    ["other", "", "Files: a.py"],
  ] as const)("names the effect of %s", (kind, alone, withFile) => {
    expect(questionText({ kind, detail: "" })).toBe(alone);
    expect(questionText({ kind, paths: ["a.py"], detail: "" })).toBe(withFile);
    expect(questionText({ kind, command: "ls", detail: "" })).toContain("Runs: ls");
  });

  it("shows of a question only what its title does not say", () => {
    expect(questionText({ kind: "question", title: "Which?", detail: "Which?\n" })).toBe("");
    expect(questionText({ kind: "question", title: "Which?", detail: "Which?\nOf two." })).toBe("Which?\nOf two.");
  });

  it("shows a path as one line", () => {
    expect(questionText({ kind: "read", paths: ["a\nRuns: b"], detail: "" })).toBe("Reads: a Runs: b");
  });
});
