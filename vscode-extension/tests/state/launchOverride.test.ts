import { describe, expect, it } from "vitest";
import type { Delegator, SupportedOption, SupportedOptions, ToolsResult } from "../../src/protocol.ts";
import {
  MAX_VALUE_CHARACTERS,
  MAX_VALUES,
  optionId,
  optionOfParameter,
  overrideOf,
  overrideOptions,
  overrideSummary,
  ownValue,
  valuesOf,
} from "../../src/state/launchOverride.ts";
import { result } from "../support/golden.ts";

const TOOLS = result("understudy/tools/list", "tools-list.valid");
const option = (name: string, more: Partial<SupportedOption> = {}): SupportedOption => ({
  name,
  title: name.toUpperCase(),
  description: `About ${name}.`,
  type: "string",
  perDelegation: true,
  ...more,
});

/** A tool with every kind of option; over ACP, it has other ones. */
function knowing(): ToolsResult {
  const [tool] = TOOLS.tools;
  const supports: SupportedOptions = {
    ...tool!.supports!,
    delegator: [
      option("model", { needsSlot: "{model}" }),
      option("mode", { values: [{ value: "acp", title: "ACP" }] }),
    ],
    launch: [option("permissionMode"), option("flags", { type: "list", perDelegation: false })],
    limits: [option("maxUsd", { type: "decimal", onlyWith: { permissionMode: "all" } })],
    properties: [option("a.b", { type: "integer" }), option("c")],
  };
  const supportsAcp: SupportedOptions = { ...supports, launch: [], properties: [], limits: [] };
  return { ...TOOLS, tools: [{ ...tool!, name: "any", supports, supportsAcp }] };
}
const DELEGATOR: Delegator = { name: "x", tool: "any", mode: "headless", launch: { command: ["run", "--m={model}"] } };
const ids = (values: Record<string, string>, delegator = DELEGATOR): string[] =>
  overrideOptions(delegator, undefined, knowing(), values).map(optionId);

describe("what one delegation changes", () => {
  it("offers what the contract marks, and what the changed values have an effect on", () => {
    const all = [
      "delegator.model",
      "delegator.mode",
      "launch.permissionMode",
      "modelProperties.a.b",
      "modelProperties.c",
    ];
    expect(ids({})).toEqual(all);
    expect(ids({ "launch.permissionMode": "all" })).toEqual([...all, "limits.maxUsd"]);
    expect(ids({ "delegator.mode": "acp" })).toEqual(["delegator.model", "delegator.mode"]);
    expect(ids({}, { ...DELEGATOR, launch: { command: ["run"] } })).not.toContain("delegator.model");
    expect(ids({}, { name: "y", tool: "unknown" })).toEqual([]);
  });

  it("becomes the field of the request, without what has no effect or is empty", () => {
    const values = {
      "delegator.model": "m",
      "launch.permissionMode": "all",
      "modelProperties.a.b": "7",
      "modelProperties.c": "",
      "limits.maxUsd": "0.50",
      "limits.maxTurns": "3",
    };
    const options = overrideOptions(DELEGATOR, undefined, knowing(), values);
    expect(overrideOf(options, values)).toEqual({
      model: "m",
      permissionMode: "all",
      modelProperties: { "a.b": 7 },
      limits: { maxUsd: "0.50" },
    });
    expect(overrideOf(options, {})).toBeUndefined();
    expect(overrideSummary(options, { "delegator.mode": "acp", "modelProperties.c": "x" })).toBe("MODE: ACP, C: x");
  });

  it("finds the option that an error is about, and the value of the delegator", () => {
    const options = overrideOptions(DELEGATOR, undefined, knowing(), {});
    const about = (parameter?: string): string | undefined => {
      const found = optionOfParameter(options, parameter);
      return found && optionId(found);
    };
    expect(about("launch.permissionMode")).toBe("launch.permissionMode");
    expect(about("launch.modelProperties.a.b")).toBe("modelProperties.a.b");
    expect(about("launch.modelProperties")).toBe("modelProperties.a.b");
    expect([about("launch.other"), about("task"), about(undefined)]).toEqual([undefined, undefined, undefined]);
    expect(options.map((one) => ownValue(one, { ...DELEGATOR, mode: "acp", model: "m" })).slice(0, 3)).toEqual([
      "m",
      "ACP",
      "",
    ]);
  });

  it("takes only short texts from what a page has stored", () => {
    expect(valuesOf({ a: "x", b: 3, c: null, d: "y".repeat(MAX_VALUE_CHARACTERS + 1) })).toEqual({ a: "x" });
    const many = Object.fromEntries(Array.from({ length: MAX_VALUES + 9 }, (_, index) => [`k${index}`, "v"]));
    expect(Object.keys(valuesOf(many))).toHaveLength(MAX_VALUES);
    expect([valuesOf(undefined), valuesOf("x"), valuesOf(null)]).toEqual([{}, {}, {}]);
  });
});
