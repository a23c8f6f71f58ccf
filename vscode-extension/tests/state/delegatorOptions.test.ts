import { describe, expect, it } from "vitest";
import { shortDescription, type Option } from "../../src/state/delegatorOptions.ts";

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
