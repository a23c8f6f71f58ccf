/**
 * The options of a delegator, as `understudy/tools/list` describes them: what its tool or backend supports, with
 * labels, types, values and bounds. A new tool or option needs no change here. `launchOverride.ts` has those that one
 * delegation can change.
 */

import { t } from "../base/l10n.ts";
import { joinWords, splitWords } from "../base/commandWords.ts";
import {
  DEFAULT_PROTOCOL,
  type Delegator,
  type ModelServer,
  type OptionValue,
  type SupportedOption,
  type SupportedOptions,
  type ToolsResult,
} from "../protocol.ts";

export interface Option extends SupportedOption {
  /** The field of `Delegator` that holds it, `delegator` for a field of its own, or `start` for one of a start. */
  readonly group: "delegator" | "launch" | "limits" | "modelProperties" | "start";
}

/** What the delegator's tool supports, or the backend that speaks to its model server. */
export function supportedBy(
  { tool, mode }: Delegator,
  server: ModelServer | undefined,
  { tools, backends }: ToolsResult,
): SupportedOptions | undefined {
  const entry = tools.find(({ name }) => name === tool);
  if (tool)
    return { acp: entry?.supportsAcp, tmux: entry?.supportsTmux, headless: entry?.supports }[mode ?? "headless"];
  const spoken = server?.protocols ?? [DEFAULT_PROTOCOL];
  const speaking = spoken.map((word) => backends.find(({ protocols }) => protocols.includes(word)));
  return speaking.find((backend) => backend !== undefined)?.supports;
}

/** The options that have an effect for this delegator, in the order of the form. */
export function optionsFor(delegator: Delegator, supports: SupportedOptions | undefined): readonly Option[] {
  if (!supports) return [];
  const launch = supports.launch.map((option): Option => ({ ...option, group: "launch" }));
  const launchValue = (field: string): string => {
    const option = launch.find(({ name }) => name === field);
    return option ? getValue(option, delegator) || (option.default ?? "") : "";
  };
  return [
    ...launch,
    ...supports.delegator.map((option): Option => ({ ...option, group: "delegator" })),
    ...supports.properties.map((option): Option => ({ ...option, group: "modelProperties" })),
    ...supports.limits.map((option): Option => ({ ...option, group: "limits" })),
  ].filter(
    ({ onlyWith, needsSlot }) =>
      Object.entries(onlyWith ?? {}).every(([field, value]) => launchValue(field) === value) &&
      (needsSlot === undefined || (delegator.launch?.command?.some((word) => word.includes(needsSlot)) ?? false)),
  );
}

/** The values to choose from; undefined: the user enters a text. */
export function choicesOf({ type, values }: Option): readonly OptionValue[] | undefined {
  if (type !== "boolean") return values;
  return [
    { value: "true", title: t("Yes") },
    { value: "false", title: t("No") },
  ];
}

/** Quick picks and pages show Markdown as it is. */
export function plainDescription({ description }: Option): string {
  return description.replaceAll("`", "");
}

/**
 * What a row of a list has room for: the first sentence, while the question about the option shows the rest. Fewer
 * characters, such as `false:`, say nothing alone.
 */
export function shortDescription(option: Option): string {
  return (
    /^.{20,}?[.;:](?=\s|$)/su.exec(plainDescription(option))?.[0].replace(/[;:]$/u, ".") ?? plainDescription(option)
  );
}

/** The value as text; "" if not set. */
export function getValue({ group, name }: Option, delegator: Delegator): string {
  if (group === "start") return "";
  const fields: Record<string, unknown> = { ...(group === "delegator" ? delegator : delegator[group]) };
  const value = fields[name];
  if (Array.isArray(value)) return joinWords(value.map(String));
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

/** Return the delegator with another value; "" removes it. `checkValue` must have accepted the text. */
export function setValue({ group, name, type }: Option, delegator: Delegator, text: string): Delegator {
  if (group === "start") return delegator;
  const value = text === "" ? undefined : parse(type, text);
  if (group === "delegator") return { ...delegator, [name]: value ?? null };
  const fields: Record<string, unknown> = { ...delegator[group], [name]: value };
  const kept = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return { ...delegator, [group]: kept.length > 0 ? Object.fromEntries(kept) : null };
}

/** Return the delegator with only the options that have an effect, for example after its mode has changed. */
export function withSupportedOptions(delegator: Delegator, supports: SupportedOptions | undefined): Delegator {
  if (!supports) return delegator;
  const kept = new Set(optionsFor(delegator, supports).map(({ group, name }) => `${group}.${name}`));
  const only = (group: "launch" | "limits" | "modelProperties"): Record<string, unknown> | null => {
    const found = Object.entries(delegator[group] ?? {}).filter(([name]) => kept.has(`${group}.${name}`));
    return found.length > 0 ? Object.fromEntries(found) : null;
  };
  return { ...delegator, launch: only("launch"), limits: only("limits"), modelProperties: only("modelProperties") };
}

/** The value of an option that a text means; `checkValue` must have accepted it. */
export function parse(type: Option["type"], text: string): unknown {
  switch (type) {
    case "boolean":
      return text === "true";
    case "integer":
    case "number":
      return Number(text);
    case "list":
      return splitWords(text);
    default:
      return text;
  }
}

/** What is wrong with a text that the user entered, as a sentence. */
export function checkValue(
  { type, required, title, minimum, exclusiveMinimum, maximum, slots }: Option,
  text: string,
): string | undefined {
  if (text === "") return required ? t("{0} is required.", title) : undefined;
  if (type === "list") {
    const words = splitWords(text);
    if (!words) return t("Missing closing quotation mark.");
    if (required && !words[0]) return t("{0} is required.", title);
    const wrong = slots && misspeltSlot(words, slots);
    if (wrong !== undefined)
      return t("Unknown placeholder {0}. Use {1}.", wrong, slots?.map(({ value }) => value).join(" ") ?? "");
    return undefined;
  }
  if (type === "string" || type === "boolean") return undefined;
  const value = Number(text);
  if (type === "integer" && !/^-?\d+$/.test(text)) return t("Enter a whole number.");
  if (!/^-?\d+(\.\d+)?$/.test(text)) return t("Enter a number.");
  if (minimum !== undefined && value < minimum) return t("Enter a number that is at least {0}.", minimum);
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return t("Enter a number greater than {0}.", exclusiveMinimum);
  if (maximum !== undefined && value > maximum) return t("Enter a number that is at most {0}.", maximum);
  return undefined;
}

/** Letters at its start by which a word in braces is taken for a slot: programs use other braces. As in the sidecar. */
const SAME = 3;

/** A word in braces that was meant to be a slot, or a slot at the end without its closing brace. */
export function misspeltSlot(words: readonly string[], slots: readonly OptionValue[]): string | undefined {
  const known = slots.map(({ value }) => value);
  const starts = new Set(known.map((slot) => slot.slice(1, 1 + SAME).toLowerCase()));
  for (const word of words) {
    for (const [found] of word.matchAll(/\{[A-Za-z]+(?:\}|$)/gu)) {
      if (known.includes(`${found}}`)) return found;
      if (known.includes(found) || !found.endsWith("}")) continue;
      if (found === word || starts.has(found.slice(1, 1 + SAME).toLowerCase())) return found;
    }
  }
  return undefined;
}
