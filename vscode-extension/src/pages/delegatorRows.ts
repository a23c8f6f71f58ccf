/** What the Delegators page lists: what is configured, what was found, what can be added; and the search over it. */

import { t } from "../base/l10n.ts";
import type { ConnectionTest, DelegatorEntry, Model, ModelServerEntry, ServerPreset, ToolEntry } from "../protocol.ts";
import type { Found } from "./delegatorData.ts";

export type Subject =
  | { readonly kind: "delegator"; readonly entry: DelegatorEntry }
  | { readonly kind: "server"; readonly entry: ModelServerEntry }
  | { readonly kind: "preset"; readonly preset: ServerPreset }
  | { readonly kind: "agent" | "install"; readonly tool: ToolEntry };

export interface Row {
  readonly id: string;
  readonly subject: Subject;
  readonly title: string;
  readonly facts: readonly string[];
  readonly detail?: string;
  readonly mark: "ready" | "problem" | "unknown";
  readonly problems: readonly string[];
  /** Models to search in, and to choose from. */
  readonly models: readonly Model[];
  /** What a search looks at, besides the models. */
  readonly words: string;
}

export interface Section {
  readonly id: "configured" | "found" | "servers" | "more";
  readonly title: string;
  readonly rows: readonly Row[];
}

/** The sections in their order; those without rows are left out. */
export function sectionsOf(found: Found): readonly Section[] {
  const { tools, servers, presets } = found;
  const known = new Set(servers.map(({ modelServer }) => addressOf(modelServer.baseUrl)));
  const isKnown = ({ baseUrl }: ServerPreset): boolean => baseUrl !== "" && known.has(addressOf(baseUrl));
  const custom = tools.tools.filter((tool) => tool.runnable && isCustom(tool));
  const agents = tools.tools.filter((tool) => !custom.includes(tool));
  // Tools without a program of their own last, then those that can only be run as a command.
  const rank = (tool: ToolEntry): number => (tool.runnable ? Number(tool.path === undefined) : 2);
  const usable = agents.filter((tool) => tool.found).sort((one, other) => rank(one) - rank(other));
  const missing = agents
    .filter((tool) => !tool.found && (tool.runnable || tool.install))
    .sort((one, other) => Number(other.runnable) - Number(one.runnable));
  const sections: Section[] = [
    {
      id: "configured",
      title: t("Your Delegators"),
      rows: found.delegators.map(delegatorRow),
    },
    {
      id: "found",
      title: t("Add: Found on This Machine"),
      rows: [
        ...presets.filter((preset) => preset.running && !isKnown(preset)).map(presetRow),
        ...usable.map((tool) => agentRow(tool, "agent")),
      ],
    },
    {
      id: "servers",
      title: t("Add: From a Configured Model Server"),
      rows: servers.map((entry) => serverRow(entry, found.models.get(entry.modelServer.name))),
    },
    {
      id: "more",
      title: t("Add: Anything Else"),
      rows: [
        ...presets.filter((preset) => !preset.running && !isKnown(preset)).map(presetRow),
        ...custom.map((tool) => agentRow(tool, "agent")),
        ...missing.map((tool) => agentRow(tool, tool.install ? "install" : "agent")),
      ],
    },
  ];
  return sections.filter(({ rows }) => rows.length > 0);
}

/** The rows in which every word of the query occurs, each with the models in which it does. */
export function search(sections: readonly Section[], query: string): readonly Section[] {
  const words = query.toLowerCase().split(/\s+/u).filter(Boolean);
  if (words.length === 0) return sections;
  const holds = (text: string): boolean => words.every((word) => text.includes(word));
  return sections.flatMap((section) => {
    const rows = section.rows.flatMap((row) => {
      const models = row.models.filter(({ id }) => holds(`${row.words} ${id}`.toLowerCase()));
      if (holds(row.words.toLowerCase())) return [row];
      return models.length > 0 ? [{ ...row, models }] : [];
    });
    return rows.length > 0 ? [{ ...section, rows }] : [];
  });
}

/** A tool that is nothing but the command of the user. */
export function isCustom({ supports }: ToolEntry): boolean {
  return supports?.launch.some(({ required, slots }) => required === true && slots !== undefined) ?? false;
}

/** Context and price, as far as they are known. */
export function modelFacts({ contextTokens, price }: Model): string {
  const facts = [
    contextTokens === undefined ? "" : t("{0}-token context", contextTokens.toLocaleString()),
    price?.input === undefined ? "" : t("${0} in, ${1} out per million tokens", price.input, price.output ?? "?"),
  ];
  return facts.filter((fact) => fact !== "").join(" · ");
}

/** The outcome of a test as one sentence: the answer, or the first thing that does not work. */
export function testText({ ok, steps }: ConnectionTest): string {
  const step = ok ? steps.at(-1) : steps.find((one) => !one.ok);
  return step?.message ?? (ok ? t("It works.") : t("It does not work."));
}

/** A message of a problem with what to do about it. */
function problemText({ message, hint = "" }: { readonly message: string; readonly hint?: string }): string {
  return [message, hint].filter((part) => part !== "").join(" ");
}

function delegatorRow(entry: DelegatorEntry): Row {
  const { delegator, state, scope } = entry;
  const source = [entry.toolDisplayName ?? delegator.tool, delegator.modelServer].filter(Boolean).join(" @ ");
  const title = delegator.displayName ?? delegator.name;
  const defaults = entry.defaultFor ?? [];
  const facts = [
    title === delegator.name ? "" : delegator.name,
    source === title ? "" : source,
    delegator.model ?? "",
    entry.isDefault ? t("default") : "",
    defaults.length > 0 ? t("default for {0}", defaults.join(", ")) : "",
    (delegator.fallback?.length ?? 0) > 0 ? t("then {0}", delegator.fallback?.join(", ") ?? "") : "",
    scope === "builtin" ? t("built in") : "",
  ];
  return {
    id: `delegator:${delegator.name}`,
    subject: { kind: "delegator", entry },
    title,
    facts: facts.filter((fact) => fact !== ""),
    mark: state.ready ? "ready" : "problem",
    problems: state.problems.map(problemText),
    models: [],
    words: [title, delegator.name, source, delegator.model, entry.host, ...facts].join(" "),
  };
}

function agentRow(tool: ToolEntry, kind: "agent" | "install"): Row {
  const asCommand = tool.command ? t("Runs as a custom command.") : t("Runs as a custom command, which you enter.");
  const detail =
    kind === "install" ? tool.install?.about : (tool.description ?? (tool.runnable ? tool.path : asCommand));
  return {
    id: `${kind}:${tool.name}`,
    subject: { kind, tool },
    title: tool.displayName,
    facts: [tool.version ?? "", kind === "install" ? t("not installed") : ""].filter((fact) => fact !== ""),
    ...(detail === undefined ? {} : { detail }),
    mark: tool.found ? "ready" : "unknown",
    problems: tool.problems.map(problemText),
    models: [],
    words: [tool.name, tool.displayName, detail, tool.path, tool.install?.about, t("agent"), t("command")].join(" "),
  };
}

function presetRow(preset: ServerPreset): Row {
  const { kind, title, baseUrl, running, needsKey, keyVariable, keyInEnvironment, local } = preset;
  const key =
    keyInEnvironment && keyVariable ? t("Uses the key in {0}", keyVariable) : needsKey ? t("Needs an API key") : "";
  const where = running ? t("running on this machine") : local ? t("local, not running") : "";
  return {
    id: `preset:${kind}`,
    subject: { kind: "preset", preset },
    title,
    facts: [baseUrl, where, key].filter((fact) => fact !== ""),
    mark: running ? "ready" : "unknown",
    problems: [],
    models: (preset.models ?? []).map((id) => ({ id })),
    words: [
      ...[kind, title, baseUrl, where, key, keyVariable, t("model server"), local ? t("local model") : ""],
      ...(preset.families ?? []),
    ].join(" "),
  };
}

function serverRow(
  { modelServer, state, ...entry }: ModelServerEntry,
  models: readonly Model[] | string | undefined,
): Row {
  const title = modelServer.displayName ?? modelServer.name;
  const listed = typeof models === "object" ? models : [];
  const failure = typeof models === "string" ? [models] : [];
  const key = modelServer.apiKey ? t("with an API key") : t("without an API key");
  return {
    id: `server:${modelServer.name}`,
    subject: { kind: "server", entry: { modelServer, state, ...entry } },
    title,
    facts: [
      title === modelServer.name ? "" : modelServer.name,
      modelServer.baseUrl,
      key,
      models === undefined ? t("asking for its models…") : failure.length > 0 ? "" : modelCount(listed.length),
    ].filter((fact) => fact !== ""),
    mark: models === undefined ? "unknown" : failure.length > 0 ? "problem" : "ready",
    problems: [...state.problems.map(problemText), ...failure],
    models: listed,
    words: [title, modelServer.name, modelServer.kind, modelServer.baseUrl, key, t("model server")].join(" "),
  };
}

function modelCount(count: number): string {
  return count === 1 ? t("1 model") : t("{0} models", count);
}

/** Two spellings of one address are equal. */
function addressOf(baseUrl: string): string {
  return baseUrl.replace(/\/+$/u, "");
}
