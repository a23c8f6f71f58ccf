/**
 * The options of a delegator, as `understudy/tools/list` describes them: what its tool or backend supports, with
 * labels, types, values and bounds. A new tool or option needs no change here.
 */

import { t } from "../base/l10n.ts";
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
  /** The field of `Delegator` that holds it. */
  readonly group: "launch" | "limits" | "modelProperties";
}

/** What the delegator's tool supports, or the backend that speaks to its model server. */
export function supportedBy(
  { tool }: Delegator,
  server: ModelServer | undefined,
  { tools, backends }: ToolsResult,
): SupportedOptions | undefined {
  if (tool) return tools.find(({ name }) => name === tool)?.supports;
  return backends.find(({ protocols }) => protocols.includes(server?.protocol ?? DEFAULT_PROTOCOL))?.supports;
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
    ...supports.properties.map((option): Option => ({ ...option, group: "modelProperties" })),
    ...supports.limits.map((option): Option => ({ ...option, group: "limits" })),
  ].filter(({ onlyWith }) => Object.entries(onlyWith ?? {}).every(([field, value]) => launchValue(field) === value));
}

/** The values to choose from; undefined: the user enters a text. */
export function choicesOf({ type, values }: Option): readonly OptionValue[] | undefined {
  if (type !== "boolean") return values;
  return [
    { value: "true", title: t("Yes") },
    { value: "false", title: t("No") },
  ];
}

/** The value as text; "" if not set. */
export function getValue({ group, name }: Option, delegator: Delegator): string {
  const fields: Record<string, unknown> = { ...delegator[group] };
  const value = fields[name];
  if (Array.isArray(value)) return joinWords(value.map(String));
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

/** Return the delegator with another value; "" removes it. `checkValue` must have accepted the text. */
export function setValue({ group, name, type }: Option, delegator: Delegator, text: string): Delegator {
  const fields: Record<string, unknown> = { ...delegator[group], [name]: text === "" ? undefined : parse(type, text) };
  const kept = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return { ...delegator, [group]: kept.length > 0 ? Object.fromEntries(kept) : null };
}

function parse(type: Option["type"], text: string): unknown {
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
  { type, required, title, minimum, exclusiveMinimum, maximum }: Option,
  text: string,
): string | undefined {
  if (text === "") return required ? t("{0} is required.", title) : undefined;
  if (type === "list") {
    const words = splitWords(text);
    if (!words) return t("A quotation mark is not closed.");
    return required && !words[0] ? t("{0} is required.", title) : undefined;
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

/** Split like a shell, with quotes only. Undefined: a quotation mark is not closed. */
export function splitWords(text: string): string[] | undefined {
  const words: string[] = [];
  let word = "";
  let inside = false;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const char = text.charAt(index);
    if (quote !== "") {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"' && /["\\]/.test(text.charAt(index + 1))) word += text.charAt(++index);
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      inside = true;
    } else if (/\s/.test(char)) {
      if (inside) words.push(word);
      word = "";
      inside = false;
    } else {
      word += char;
      inside = true;
    }
  }
  if (quote !== "") return undefined;
  if (inside) words.push(word);
  return words;
}

/** Inverse of `splitWords`. */
export function joinWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[^\s"'\\]+$/.test(word) ? word : `"${word.replace(/["\\]/g, String.raw`\$&`)}"`))
    .join(" ");
}
