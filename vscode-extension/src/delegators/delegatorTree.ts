/** The Delegators view: each delegator with its state, and the problems of the configuration. */

import { Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import type { TreeRow, TreeDataProvider } from "../host/host.ts";
import { scopeName } from "../state/saveScope.ts";
import type { Store } from "../state/store.ts";
import { problemsText } from "../state/wording.ts";
import type { Delegation, DelegatorEntry, Problem } from "../protocol.ts";

export const DELEGATORS_VIEW = "understudy.delegators";

const ENTRY = "delegator:";
const PROBLEMS = "problems";
const PROBLEM = "problem:";
const ADD = "add";

/** Row ID of a delegator, and back. Menu commands receive the row ID as their first argument. */
export const delegatorRow = (name: string): string => ENTRY + name;
export const delegatorName = (row: unknown): string | undefined =>
  typeof row === "string" && row.startsWith(ENTRY) ? row.slice(ENTRY.length) : undefined;

type RowStore = Pick<Store, "delegators" | "delegator" | "problems" | "delegations" | "loaded" | "onDidChange">;

export class DelegatorTree implements TreeDataProvider, Disposable {
  readonly #store: RowStore;
  /** Running and queued delegations of each delegator, as drawn. Events report them sooner than the list does. */
  #counts = new Map<string, Counts>();
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly #subscription: Disposable;
  readonly onDidChange = this.#changed.subscribe;

  constructor(store: RowStore) {
    this.#store = store;
    this.#subscription = store.onDidChange((change) => {
      const before = this.#counts;
      if (change.delegationList || change.delegations.size > 0) this.#counts = countByDelegator(store.delegations);
      if (change.delegators || change.modelServers) this.#changed.fire(undefined);
      else this.#redraw(before);
    });
  }

  children(id?: string): readonly string[] {
    if (id === undefined) {
      const entries = this.#store.delegators.map(({ delegator }) => delegatorRow(delegator.name));
      // The built-in delegator is always there: show how to add the first one of the user.
      const first = entries.length > 0 && this.#store.delegators.every(({ scope }) => scope === "builtin");
      return [...(this.#general.length > 0 ? [PROBLEMS] : []), ...(first ? [ADD] : []), ...entries];
    }
    if (id === PROBLEMS) return this.#general.map((_, index) => `${PROBLEM}${index}`);
    const name = delegatorName(id);
    const entry = name === undefined ? undefined : this.#store.delegator(name);
    return entry ? entry.state.problems.map((_, index) => `${PROBLEM}${index}:${name}`) : [];
  }

  parent(id: string): string | undefined {
    if (!id.startsWith(PROBLEM)) return undefined;
    const [, name] = splitProblem(id);
    return name === undefined ? PROBLEMS : delegatorRow(name);
  }

  row(id: string): TreeRow | undefined {
    if (id === PROBLEMS) return problemsRow(this.#general);
    if (id === ADD) return addRow();
    if (id.startsWith(PROBLEM)) {
      const [index, name] = splitProblem(id);
      const problems = name === undefined ? this.#general : this.#store.delegator(name)?.state.problems;
      const problem = problems?.[index];
      return problem && problemRow(id, problem);
    }
    const name = delegatorName(id);
    const entry = name === undefined ? undefined : this.#store.delegator(name);
    return entry && entryRow(id, this.#withCounts(entry));
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#changed.dispose();
  }

  /** The problems that no delegator shows below its row. */
  get #general(): readonly Problem[] {
    const own = new Set(
      this.#store.delegators.flatMap(({ state }) => state.problems.map((one) => JSON.stringify(one))),
    );
    return this.#store.problems.filter((one) => !own.has(JSON.stringify(one)));
  }

  #withCounts(entry: DelegatorEntry): DelegatorEntry {
    if (!this.#store.loaded) return entry;
    return { ...entry, state: { ...entry.state, ...(this.#counts.get(entry.delegator.name) ?? IDLE) } };
  }

  #redraw(before: ReadonlyMap<string, Counts>): void {
    const different = this.#store.delegators
      .map(({ delegator }) => delegator.name)
      .filter((name) => {
        const [was, is] = [before.get(name) ?? IDLE, this.#counts.get(name) ?? IDLE];
        return was.running !== is.running || was.queued !== is.queued;
      });
    if (different.length > 0) this.#changed.fire(different.map(delegatorRow));
  }
}

interface Counts {
  readonly running: number;
  readonly queued: number;
}

const IDLE: Counts = { running: 0, queued: 0 };

function countByDelegator(delegations: readonly Delegation[]): Map<string, Counts> {
  const counts = new Map<string, Counts>();
  for (const { delegator, state } of delegations) {
    if (state === "finished") continue;
    const { running, queued } = counts.get(delegator) ?? IDLE;
    counts.set(delegator, state === "queued" ? { running, queued: queued + 1 } : { running: running + 1, queued });
  }
  return counts;
}

function splitProblem(id: string): [number, string | undefined] {
  const rest = id.slice(PROBLEM.length);
  const colon = rest.indexOf(":");
  return colon < 0 ? [Number(rest), undefined] : [Number(rest.slice(0, colon)), rest.slice(colon + 1)];
}

function problemsRow(problems: readonly Problem[]): TreeRow {
  const label = problems.every(({ severity }) => severity === "information")
    ? t("Configuration notes")
    : problemsText(problems.length);
  return {
    id: PROBLEMS,
    label,
    icon: problemIcon(problems),
    children: "expanded",
    context: "problems",
    spoken: label,
  };
}

function addRow(): TreeRow {
  const label = t("Add Delegator…");
  const description = t("an agent or a model");
  return {
    id: ADD,
    label,
    description,
    icon: { id: "add", color: "charts.blue" },
    tooltip: t("A delegator does the work: an agent on this machine, or a model on a server."),
    children: "none",
    context: "add",
    spoken: `${label} ${description}`,
    command: { id: "understudy.delegators.add", title: label },
  };
}

function problemRow(id: string, problem: Problem): TreeRow {
  const { location } = problem;
  const place = location ? `${fileName(location.uri)}:${location.range.start.line + 1}` : undefined;
  return {
    id,
    // The sidebar is narrow and truncates rows: put the problem first.
    label: problem.message,
    ...(place === undefined ? {} : { description: place }),
    tooltip: [escapeMarkdown(problem.message), escapeMarkdown(problem.hint ?? "")]
      .filter((part) => part !== "")
      .join("\n\n"),
    icon: problemIcon([problem]),
    children: "none",
    context: location ? "problem place" : "problem",
    spoken: [severityName(problem), problem.message, problem.hint ?? "", place ?? ""]
      .filter((p) => p !== "")
      .map((p) => p.replace(/\.$/, ""))
      .join(", "),
    ...(location
      ? {
          command: {
            id: "understudy.openLocation",
            title: t("Go to Problem"),
            arguments: [location.uri, location.range],
          },
        }
      : {}),
  };
}

function entryRow(id: string, entry: DelegatorEntry): TreeRow {
  const { delegator, state } = entry;
  // The sidebar is narrow: put an explanation in parentheses last.
  const [, label = delegator.name, remark = ""] = /^(.+?)(?: \((.+)\))?$/.exec(displayName(entry)) ?? [];
  const source = sourceName(entry);
  const facts = [
    ...stateText(entry),
    defaultText(entry),
    source.toLowerCase() === label.toLowerCase() ? "" : source,
    delegator.model ?? "",
    remark,
  ].filter((fact) => fact !== "");
  const context = ["delegator", entry.scope];
  if (entry.editable) context.push("editable");
  if (entry.location) context.push("file");
  if (delegator.modelServer) context.push("server");
  return {
    id,
    label,
    description: facts.join(" · "),
    tooltip: tooltip(entry),
    icon: icon(entry),
    children: state.problems.length === 0 ? "none" : state.ready ? "collapsed" : "expanded",
    context: context.join(" "),
    spoken: [label, state.ready ? t("ready") : t("not ready"), ...facts].join(", "),
    command: { id: "understudy.delegators.edit", title: t("Edit Delegator"), arguments: [id] },
  };
}

function displayName({ delegator }: DelegatorEntry): string {
  return delegator.displayName ?? delegator.name;
}

/** What the delegator does now; empty if nothing. */
function stateText({ state }: DelegatorEntry): string[] {
  const words: string[] = [];
  if (state.running > 0) words.push(t("{0} running", state.running));
  if (state.queued > 0) words.push(t("{0} queued", state.queued));
  return words;
}

/** What the delegator does unless another one is named; empty if nothing. */
function defaultText({ isDefault, defaultFor = [] }: DelegatorEntry): string {
  const own = defaultFor.length > 0 ? t("default for {0}", defaultFor.join(", ")) : "";
  return isDefault ? [t("default"), own].filter((word) => word !== "").join(", ") : own;
}

function sourceName({ delegator, toolDisplayName }: DelegatorEntry): string {
  const tool = toolDisplayName ?? delegator.tool;
  if (tool && delegator.modelServer) return `${tool} @ ${delegator.modelServer}`;
  return tool ?? delegator.modelServer ?? "";
}

function icon({ delegator, state }: DelegatorEntry): { id: string; color?: string } {
  if (!state.ready)
    return problemIcon(state.problems.length > 0 ? state.problems : [{ severity: "error", message: "" }]);
  return { id: delegator.tool ? "terminal" : "server", color: "charts.green" };
}

function problemIcon(problems: readonly Problem[]): { id: string; color: string } {
  if (problems.some(({ severity }) => severity === "error")) return { id: "error", color: "list.errorForeground" };
  if (problems.some(({ severity }) => severity === "warning"))
    return { id: "warning", color: "list.warningForeground" };
  return { id: "info", color: "charts.blue" };
}

function tooltip(entry: DelegatorEntry): string {
  const { delegator, state, scope, location } = entry;
  const own = displayName(entry) === delegator.name ? "" : ` ${escapeMarkdown(delegator.name)}`;
  const lines = [`**${escapeMarkdown(displayName(entry))}**${own}`, ""];
  const fact = (name: string, value: string | undefined): void => {
    if (value) lines.push(`- ${name}: ${escapeMarkdown(value)}`);
  };
  fact(t("Tool"), entry.toolDisplayName ?? delegator.tool ?? undefined);
  fact(t("Model server"), delegator.modelServer ?? undefined);
  fact(t("Model"), delegator.model);
  fact(t("Source"), scopeName(scope));
  fact(t("File"), location && fileName(location.uri));
  fact(t("Default"), defaultText(entry));
  fact(t("Status"), stateText(entry).join(", "));
  for (const problem of state.problems) {
    lines.push(
      "",
      `$(${problemIcon([problem]).id}) ${escapeMarkdown(problem.message)} ${escapeMarkdown(problem.hint ?? "")}`,
    );
  }
  return lines.join("\n");
}

function severityName({ severity }: Problem): string {
  return severity === "error" ? t("Error") : severity === "warning" ? t("Warning") : t("Information");
}

function fileName(uri: string): string {
  return decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
}
