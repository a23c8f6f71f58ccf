/** The view of delegators: what each one is, whether it can work now, and where a problem stands. */

import { Emitter, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { markdown } from "../base/markdown.ts";
import type { Row, Rows } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { toolName } from "../model/words.ts";
import type { Delegation, DelegatorEntry, Problem } from "../protocol.ts";

export const DELEGATORS_VIEW = "understudy.delegators";

const ENTRY = "delegator:";
const PROBLEMS = "problems";
const PROBLEM = "problem:";
const ADD = "add";

/** The id of a delegator's row, and back; menu commands get it as their first argument. */
export const rowOf = (name: string): string => ENTRY + name;
export const nameOf = (row: unknown): string | undefined =>
  typeof row === "string" && row.startsWith(ENTRY) ? row.slice(ENTRY.length) : undefined;

type RowStore = Pick<Store, "delegators" | "delegator" | "problems" | "delegations" | "loaded" | "onDidChange">;

export class DelegatorRows implements Rows, Disposable {
  readonly #store: RowStore;
  /** How many run and wait in line for each, as they are drawn: events tell of it sooner than the list does. */
  #busy = new Map<string, Busy>();
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly #subscription: Disposable;
  readonly onDidChange = this.#changed.signal;

  constructor(store: RowStore) {
    this.#store = store;
    this.#subscription = store.onDidChange((change) => {
      const before = this.#busy;
      if (change.delegationList || change.delegations.size > 0) this.#busy = busy(store.delegations);
      if (change.delegators || change.modelServers) this.#changed.fire(undefined);
      else this.#redraw(before);
    });
  }

  children(id?: string): readonly string[] {
    if (id === undefined) {
      const entries = this.#store.delegators.map(({ delegator }) => rowOf(delegator.name));
      // What Understudy brings itself is always there: who has nothing of their own is led on.
      const first = entries.length > 0 && this.#store.delegators.every(({ scope }) => scope === "builtin");
      return [...(this.#store.problems.length > 0 ? [PROBLEMS] : []), ...(first ? [ADD] : []), ...entries];
    }
    if (id === PROBLEMS) return this.#store.problems.map((_, index) => `${PROBLEM}${index}`);
    const name = nameOf(id);
    const entry = name === undefined ? undefined : this.#store.delegator(name);
    return entry ? entry.state.problems.map((_, index) => `${PROBLEM}${index}:${name}`) : [];
  }

  parent(id: string): string | undefined {
    if (!id.startsWith(PROBLEM)) return undefined;
    const [, name] = splitProblem(id);
    return name === undefined ? PROBLEMS : rowOf(name);
  }

  row(id: string): Row | undefined {
    if (id === PROBLEMS) return problemsRow(this.#store.problems);
    if (id === ADD) return addRow();
    if (id.startsWith(PROBLEM)) {
      const [index, name] = splitProblem(id);
      const problems = name === undefined ? this.#store.problems : this.#store.delegator(name)?.state.problems;
      const problem = problems?.[index];
      return problem && problemRow(id, problem);
    }
    const name = nameOf(id);
    const entry = name === undefined ? undefined : this.#store.delegator(name);
    return entry && entryRow(id, this.#now(entry));
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#changed.dispose();
  }

  #now(entry: DelegatorEntry): DelegatorEntry {
    if (!this.#store.loaded) return entry;
    return { ...entry, state: { ...entry.state, ...(this.#busy.get(entry.delegator.name) ?? IDLE) } };
  }

  #redraw(before: ReadonlyMap<string, Busy>): void {
    const different = this.#store.delegators
      .map(({ delegator }) => delegator.name)
      .filter((name) => {
        const [was, is] = [before.get(name) ?? IDLE, this.#busy.get(name) ?? IDLE];
        return was.running !== is.running || was.queued !== is.queued;
      });
    if (different.length > 0) this.#changed.fire(different.map(rowOf));
  }
}

interface Busy {
  readonly running: number;
  readonly queued: number;
}

const IDLE: Busy = { running: 0, queued: 0 };

function busy(delegations: readonly Delegation[]): Map<string, Busy> {
  const counts = new Map<string, Busy>();
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

function problemsRow(problems: readonly Problem[]): Row {
  const label = problems.every(({ severity }) => severity === "information")
    ? t("About the configuration")
    : problems.length === 1
      ? t("One problem in the configuration")
      : t("{0} problems in the configuration", problems.length);
  return {
    id: PROBLEMS,
    label,
    icon: iconOf(problems),
    children: "expanded",
    context: "problems",
    spoken: label,
  };
}

function addRow(): Row {
  const label = t("Add a Delegator…");
  const description = t("an agent or a model");
  return {
    id: ADD,
    label,
    description,
    icon: { id: "add", color: "charts.blue" },
    tooltip: t("A delegator is who does the work: an agent on this machine, or a model on a server."),
    children: "none",
    context: "add",
    spoken: `${label} ${description}`,
    command: { id: "understudy.delegators.add", title: label },
  };
}

function problemRow(id: string, problem: Problem): Row {
  const { location } = problem;
  const place = location ? `${fileName(location.uri)}:${location.range.start.line + 1}` : undefined;
  return {
    id,
    // A sidebar is narrow, and the end of a long row is not seen: what is wrong comes first.
    label: problem.message,
    ...(place === undefined ? {} : { description: place }),
    tooltip: [markdown(problem.message), markdown(problem.hint ?? "")].filter((part) => part !== "").join("\n\n"),
    icon: iconOf([problem]),
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
            title: t("Open the Place"),
            arguments: [location.uri, location.range],
          },
        }
      : {}),
  };
}

function entryRow(id: string, entry: DelegatorEntry): Row {
  const { delegator, state } = entry;
  // A sidebar is narrow: what a name explains in parentheses comes after it.
  const [, label = delegator.name, remark = ""] = /^(.+?)(?: \((.+)\))?$/.exec(nameShown(entry)) ?? [];
  const source = sourceName(entry);
  const facts = [
    ...stateWords(entry),
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
  };
}

function nameShown({ delegator }: DelegatorEntry): string {
  return delegator.displayName ?? delegator.name;
}

/** What happens with it now, in words; empty when nothing does. */
function stateWords({ state }: DelegatorEntry): string[] {
  const words: string[] = [];
  if (state.running > 0) words.push(t("{0} running", state.running));
  if (state.queued > 0) words.push(t("{0} queued", state.queued));
  if (state.circuit === "open") {
    words.push(state.openUntil ? t("paused until {0}", clock(state.openUntil)) : t("paused"));
  }
  if (state.circuit === "half_open") words.push(t("on probation"));
  return words;
}

function sourceName({ delegator }: DelegatorEntry): string {
  const tool = delegator.tool ? toolName(delegator.tool) : undefined;
  if (tool && delegator.modelServer) return `${tool} @ ${delegator.modelServer}`;
  return tool ?? delegator.modelServer ?? delegator.remoteAgent?.platform ?? "";
}

function icon({ delegator, state }: DelegatorEntry): { id: string; color?: string } {
  if (!state.ready) return iconOf(state.problems.length > 0 ? state.problems : [{ severity: "error", message: "" }]);
  if (state.circuit === "open") return { id: "debug-pause", color: "list.warningForeground" };
  if (state.running > 0) return { id: "sync~spin", color: "charts.blue" };
  return { id: delegator.tool ? "terminal" : "server", color: "charts.green" };
}

function iconOf(problems: readonly Problem[]): { id: string; color: string } {
  if (problems.some(({ severity }) => severity === "error")) return { id: "error", color: "list.errorForeground" };
  if (problems.some(({ severity }) => severity === "warning"))
    return { id: "warning", color: "list.warningForeground" };
  return { id: "info", color: "charts.blue" };
}

function tooltip(entry: DelegatorEntry): string {
  const { delegator, state, scope, location } = entry;
  const own = nameShown(entry) === delegator.name ? "" : ` ${markdown(delegator.name)}`;
  const lines = [`**${markdown(nameShown(entry))}**${own}`, ""];
  const fact = (name: string, value: string | undefined): void => {
    if (value) lines.push(`- ${name}: ${markdown(value)}`);
  };
  fact(t("Tool"), delegator.tool ? toolName(delegator.tool) : undefined);
  fact(t("Model server"), delegator.modelServer ?? undefined);
  fact(t("Model"), delegator.model);
  fact(t("From"), scopeName(scope));
  fact(t("File"), location && fileName(location.uri));
  fact(t("Now"), stateWords(entry).join(", "));
  for (const problem of state.problems) {
    lines.push("", `$(${iconOf([problem]).id}) ${markdown(problem.message)} ${markdown(problem.hint ?? "")}`);
  }
  return lines.join("\n");
}

function scopeName(scope: DelegatorEntry["scope"]): string {
  if (scope === "builtin") return t("Understudy itself");
  return scope === "user" ? t("your configuration") : t("this workspace");
}

function severityName({ severity }: Problem): string {
  return severity === "error" ? t("Error") : severity === "warning" ? t("Warning") : t("Information");
}

function fileName(uri: string): string {
  return decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
}

function clock(time: string): string {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
