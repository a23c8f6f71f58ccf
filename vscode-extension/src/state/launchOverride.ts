/**
 * What one delegation changes of its delegator, as a form: the options that the contract marks as `perDelegation`, with
 * the texts that the user entered, and the request that they mean. A new option or kind of option needs no change here.
 */

import type { AgentEntry, Delegator, LaunchOverride, ModelServer, ToolsResult } from "../protocol.ts";
import { t } from "../base/l10n.ts";
import { choicesOf, getValue, optionsFor, parse, setValue, supportedBy, type Option } from "./delegatorOptions.ts";

/** ID of an option → the text that the user entered; an option that is absent or empty is not changed. */
export type OverrideValues = Readonly<Record<string, string>>;

/** A value may be this long, and there may be this many: drafts are stored by pages. */
export const MAX_VALUE_CHARACTERS = 1_000;
export const MAX_VALUES = 50;

/** The kinds of options that are together in one field of `LaunchOverride`; all others are fields of it. */
const TOGETHER: ReadonlySet<Option["group"]> = new Set(["modelProperties", "limits"]);

/** In the order of the form: what decides what else is supported comes first. */
const ORDER: readonly Option["group"][] = ["delegator", "launch", "modelProperties", "limits"];

const AGENT = "start.agent";

export function optionId({ group, name }: Option): string {
  return `${group}.${name}`;
}

/** Whether it is the model, of which model servers have lists. */
export function isModel({ group, name }: Option): boolean {
  return group === "delegator" && name === "model";
}

/** The options that one delegation can change; the values may change which these are. */
export function overrideOptions(
  delegator: Delegator,
  server: ModelServer | undefined,
  known: ToolsResult,
  values: OverrideValues,
): readonly Option[] {
  const offered = (now: Delegator): Option[] =>
    optionsFor(now, supportedBy(now, server, known)).filter(({ perDelegation }) => perDelegation === true);
  const withValues = (options: readonly Option[], now: Delegator): Delegator =>
    options.reduce((changed, option) => {
      const text = values[optionId(option)] ?? "";
      return text === "" ? changed : setValue(option, changed, text);
    }, now);
  // The mode changes what is supported, and the rest what has an effect.
  const mode = offered(delegator).filter(({ group }) => group === "delegator");
  const driven = withValues(mode, delegator);
  const options = offered(withValues(offered(driven), driven));
  return ORDER.flatMap((group) => options.filter((option) => option.group === group));
}

/** The choice of an agent, each with its tier; none if there are no agents. */
export function agentOptions(agents: readonly AgentEntry[]): readonly Option[] {
  const scopes: Readonly<Record<AgentEntry["scope"], string>> = {
    workspace: t("workspace"),
    user: t("user"),
    builtin: t("built in"),
  };
  if (agents.length === 0) return [];
  return [
    {
      group: "start",
      name: "agent",
      title: t("Agent"),
      type: "string",
      description: t("Its instructions, model and tools apply to this delegation."),
      required: false,
      values: agents.map(({ name, scope, description }) => ({
        value: name,
        title: t("{0} ({1})", name, scopes[scope]),
        ...(description ? { description } : {}),
      })),
    },
  ];
}

/** The field `agent` of a request; undefined if none of these agents is chosen. */
export function agentOf(options: readonly Option[], values: OverrideValues): string | undefined {
  const chosen = values[AGENT] ?? "";
  const option = options.find((one) => optionId(one) === AGENT);
  return option?.values?.some(({ value }) => value === chosen) ? chosen : undefined;
}

/** The field `launch` of a request; undefined if nothing is changed. */
export function overrideOf(options: readonly Option[], values: OverrideValues): LaunchOverride | undefined {
  const fields: Record<string, unknown> = {};
  for (const option of options) {
    const text = values[optionId(option)] ?? "";
    if (text === "" || option.group === "start") continue;
    const value = parse(option.type, text);
    if (TOGETHER.has(option.group)) {
      fields[option.group] = { ...(fields[option.group] as object), [option.name]: value };
    } else fields[option.name] = value;
  }
  return Object.keys(fields).length > 0 ? fields : undefined;
}

/** The option that an error of the sidecar is about; undefined if it is about something else. */
export function optionOfParameter(options: readonly Option[], parameter: string | undefined): Option | undefined {
  if (parameter === "agent") return options.find((option) => optionId(option) === AGENT);
  const [top, field, ...rest] = parameter?.split(".") ?? [];
  if (top !== "launch") return undefined;
  return options.find(({ group, name }) =>
    TOGETHER.has(group) ? group === field && (rest.length === 0 || name === rest.join(".")) : name === field,
  );
}

/** The value that the delegator has, as the user knows it; "" if it has none. */
export function ownValue(option: Option, delegator: Delegator): string {
  return titleOfValue(option, getValue(option, delegator));
}

/** What a value is called. */
export function titleOfValue(option: Option, text: string): string {
  return choicesOf(option)?.find(({ value }) => value === text)?.title ?? text;
}

/** What is changed, in a line: `Model: opus, Permissions: Plan only`. */
export function overrideSummary(options: readonly Option[], values: OverrideValues): string {
  return options
    .filter((option) => (values[optionId(option)] ?? "") !== "")
    .map((option) => t("{0}: {1}", option.title, titleOfValue(option, values[optionId(option)] ?? "")))
    .join(", ");
}

/** Values that a page has stored: what has another type or exceeds a limit is left out. */
export function valuesOf(stored: unknown): OverrideValues {
  if (typeof stored !== "object" || stored === null) return {};
  const entries = Object.entries(stored).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length <= MAX_VALUE_CHARACTERS,
  );
  return Object.fromEntries(entries.slice(0, MAX_VALUES));
}
