import { describe, expect, it } from "vitest";
import { joinWords, splitWords } from "../../src/base/commandWords.ts";
import type { Delegator, ModelServer, SupportedOption, SupportedOptions } from "../../src/protocol.ts";
import { suggestName } from "../../src/state/delegatorDraft.ts";
import {
  checkValue,
  choicesOf,
  getValue,
  optionsFor,
  setValue,
  shortDescription,
  supportedBy,
  withSupportedOptions,
  type Option,
} from "../../src/state/delegatorOptions.ts";
import { result } from "../support/golden.ts";

function supporting(
  options: Partial<Pick<SupportedOptions, "delegator" | "launch" | "limits" | "properties">>,
): SupportedOptions {
  return {
    delegator: [],
    launch: [],
    limits: [],
    properties: [],
    modes: ["headless"],
    permissionModes: [],
    protocols: [],
    needsModelServer: false,
    sessions: false,
    messages: "next_attempt",
    returns: ["text", "file", "tree"],
    ...options,
  };
}

function option(name: string, type: SupportedOption["type"], more: Partial<SupportedOption> = {}): SupportedOption {
  return { name, title: `The ${name}`, description: `About \`${name}\`.`, type, ...more };
}

const described = (description: string): Option => ({
  name: "x",
  title: "X",
  description,
  type: "string",
  perDelegation: true,
  group: "launch",
});

describe("the short description of an option", () => {
  it.each([
    ["The tokens that the model can read; 128000 unless set.", "The tokens that the model can read."],
    ["How much the model thinks: off, low or high.", "How much the model thinks."],
    ["Longest time between two events. Keep-alives do not count.", "Longest time between two events."],
    // What is before the colon says nothing alone.
    [
      "`false`: the agent works in your checkout. Its changes are there at once.",
      "false: the agent works in your checkout.",
    ],
    ["Most turns of v1.5 agents", "Most turns of v1.5 agents"],
    ["Most turns. Or less.", "Most turns. Or less."],
  ])("of %j is %j", (whole, short) => {
    expect(shortDescription(described(whole))).toBe(short);
  });
});

describe("options", () => {
  const TOOLS = result("understudy/tools/list", "tools-list.valid");
  const names = (delegator: Delegator, supports: SupportedOptions | undefined): string[] =>
    optionsFor(delegator, supports).map(({ name }) => name);

  it("are those of the tool, or of the backend that speaks to the model server", () => {
    const tool = { name: "x", tool: "ghostwriter" };
    expect(supportedBy(tool, undefined, TOOLS)?.onlyNewTests).toBe(true);
    expect(names(tool, supportedBy(tool, undefined, TOOLS))).toContain("totalSeconds");
    const own = { name: "x", modelServer: "mine" };
    const server = (...protocols: string[]): ModelServer => ({
      name: "mine",
      kind: "custom",
      baseUrl: "http://127.0.0.1:8/v1",
      ...(protocols.length === 0 ? {} : { protocols }),
    });
    expect(names(own, supportedBy(own, server(), TOOLS))).toContain("temperature");
    const spare = {
      name: "spare",
      title: "Spare",
      protocols: ["other"],
      supports: supporting({ launch: [option("a", "string")] }),
    };
    const more = { ...TOOLS, backends: [...TOOLS.backends, spare] };
    expect(names(own, supportedBy(own, server("other"), more))).toEqual(["a"]);
    expect(names(own, supportedBy(own, server("unknown", "other"), more))).toEqual(["a"]);
    expect(supportedBy(own, server("unknown"), more)).toBeUndefined();
    expect(supportedBy({ name: "x", tool: "otheragent" }, undefined, TOOLS)).toBeUndefined();
  });

  it("are offered only if the options that they depend on have the right values", () => {
    const output = option("output", "string", { values: [], default: "text" });
    const limit = (value: string): SupportedOption => option("maxUsd", "decimal", { onlyWith: { output: value } });
    const events = supporting({ launch: [output], limits: [limit("events")] });
    expect(names({ name: "x" }, events)).toEqual(["output"]);
    expect(names({ name: "x", launch: { output: "events" } }, events)).toEqual(["output", "maxUsd"]);
    expect(names({ name: "x" }, supporting({ launch: [output], limits: [limit("text")] }))).toContain("maxUsd");
  });

  it("are those of the mode, which is an option itself", () => {
    const mode = option("mode", "string", { values: [{ value: "acp", title: "ACP" }] });
    const supports = supporting({ delegator: [mode], launch: [option("flags", "list"), option("output", "string")] });
    const supportsAcp = supporting({ delegator: [mode], launch: [option("flags", "list")] });
    const [known] = TOOLS.tools.filter(({ name }) => name === "ghostwriter");
    if (!known) throw new Error("The example has no such tool.");
    const tools = { ...TOOLS, tools: [{ ...known, supports, supportsAcp }] };
    const headless: Delegator = {
      name: "x",
      tool: "ghostwriter",
      launch: { flags: ["-v"], output: "events" },
      limits: { maxTurns: 2 },
    };
    expect(names(headless, supportedBy(headless, undefined, tools))).toEqual(["flags", "output", "mode"]);
    const chosen = optionsFor(headless, supports).find(({ name }) => name === "mode");
    if (!chosen) throw new Error("There is no mode to choose.");
    const acp = setValue(chosen, headless, "acp");
    expect(getValue(chosen, acp)).toBe("acp");
    expect(names(acp, supportedBy(acp, undefined, tools))).toEqual(["flags", "mode"]);
    expect(withSupportedOptions(acp, supportedBy(acp, undefined, tools))).toEqual({
      name: "x",
      tool: "ghostwriter",
      mode: "acp",
      launch: { flags: ["-v"] },
      limits: null,
      modelProperties: null,
    });
    expect(setValue(chosen, acp, "").mode).toBeNull();
  });

  it.each([
    ["boolean", "true", true],
    ["boolean", "false", false],
    ["integer", "3", 3],
    ["number", "0.5", 0.5],
    ["decimal", "0.50", "0.50"],
    ["string", "a b", "a b"],
    ["list", 'a "b c"', ["a", "b c"]],
  ] as const)("of type %s are stored as such, and leave no trace when they are removed", (type, text, value) => {
    const supports = { limits: [option("it", type)], launch: [option("it", type)], properties: [option("it", type)] };
    for (const one of optionsFor({ name: "x" }, supporting(supports))) {
      const set = setValue(one, { name: "x" }, text);
      expect(set).toEqual({ name: "x", [one.group]: { it: value } });
      expect(getValue(one, set)).toBe(text);
      expect(setValue(one, set, "")).toEqual({ name: "x", [one.group]: null });
      expect(choicesOf(one)?.map((choice) => choice.value)).toEqual(type === "boolean" ? ["true", "false"] : undefined);
    }
  });

  it("are checked against their type and bounds", () => {
    const check = (type: SupportedOption["type"], text: string, more: Partial<SupportedOption> = {}) =>
      checkValue({ ...option("it", type, more), group: "launch" }, text);
    expect(check("number", "hot")).toBe("Enter a number.");
    expect(check("decimal", "-")).toBe("Enter a number.");
    expect(check("integer", "1.5")).toBe("Enter a whole number.");
    expect(check("number", "3", { maximum: 2 })).toBe("Enter a number that is at most 2.");
    expect(check("number", "-1", { minimum: 0 })).toBe("Enter a number that is at least 0.");
    expect(check("number", "0", { exclusiveMinimum: 0 })).toBe("Enter a number greater than 0.");
    expect(check("list", "", { required: true })).toBe("The it is required.");
    expect(check("list", '""', { required: true })).toBe("The it is required.");
    expect(check("number", "2", { minimum: 0, maximum: 2 })).toBeUndefined();
    expect(check("string", "")).toBeUndefined();
  });

  it("split a command like a shell, and join it again", () => {
    expect(splitWords(`my-agent --cd {worktree} --say "two words" 'it''s'`)).toEqual([
      "my-agent",
      "--cd",
      "{worktree}",
      "--say",
      "two words",
      "its",
    ]);
    expect(splitWords(`"open`)).toBeUndefined();
    for (const words of [
      ["a", ""],
      ["b c", 'd"e'],
      [String.raw`f\g`, "h'i"],
    ])
      expect(splitWords(joinWords(words))).toEqual(words);
  });

  it("suggest an unused name", () => {
    expect(suggestName({ name: "", modelServer: "ollama", model: "Qwen/2.5:7b" }, new Set())).toBe(
      "ollama-qwen-2.5-7b",
    );
    expect(suggestName({ name: "", tool: "claude" }, new Set(["claude", "claude-2"]))).toBe("claude-3");
  });
});
