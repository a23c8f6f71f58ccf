/** Ask which delegator does the work, among those that can. */

import { t } from "../base/l10n.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { PreviewResult } from "../protocol.ts";
import { errorText, oneLine } from "../state/formatting.ts";
import type { Store } from "../state/store.ts";
import { delegatorFacts } from "../state/wording.ts";

export interface ChooseDeps {
  readonly host: Pick<Host, "windows" | "commands" | "memory">;
  readonly store: Pick<Store, "delegators" | "defaultDelegator">;
}

/** What a default delegator depends on. */
export interface DefaultPlace {
  readonly recipe: string;
  /** URI of the folder to work in. */
  readonly folder: string | undefined;
}

/** Memory key of the delegator chosen last. It is preselected if there is no default. */
export const LAST_DELEGATOR_KEY = "delegate.last";
export const ADD = "add";
export const CHOOSE_DEFAULT = "default";
export const DELEGATOR_PREFIX = "who:";

export async function pickAnotherDelegator(
  deps: ChooseDeps,
  preview: PreviewResult | undefined,
  now: string | undefined,
  where: DefaultPlace,
): Promise<string | undefined> {
  const current = now ?? preview?.explain.delegator;
  const names = deps.store.delegators.map(({ delegator }) => delegator.name);
  return pickDelegator(deps, names, { back: true, where, ...(current === undefined ? {} : { current }) });
}

/** Ask which of the capable delegators to use, and remember the answer. */
export async function askDelegator(
  deps: ChooseDeps,
  names: readonly string[],
  where: DefaultPlace,
  why: string,
): Promise<string | undefined> {
  const name = await pickDelegator(deps, names, { back: false, where, why });
  if (name !== undefined) await deps.host.memory.set(LAST_DELEGATOR_KEY, name);
  return name;
}

async function pickDelegator(
  deps: ChooseDeps,
  names: readonly string[],
  options: { readonly back: boolean; readonly where: DefaultPlace; readonly current?: string; readonly why?: string },
): Promise<string | undefined> {
  const active = options.current ?? deps.host.memory.get(LAST_DELEGATOR_KEY, "");
  const outcome = await deps.host.windows.pick({
    title: t("Delegate"),
    placeholder: delegatorPlaceholder(names),
    back: options.back,
    items: delegatorItems(deps, names, options.where, options.why),
    ...(active === "" ? {} : { active: DELEGATOR_PREFIX + active }),
  });
  const chosen = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  if (chosen === CHOOSE_DEFAULT) return chooseDefault(deps, options.where.recipe);
  return chosen === ADD ? addDelegatorFirst(deps) : chosen?.slice(DELEGATOR_PREFIX.length);
}

export function delegatorPlaceholder(names: readonly string[]): string {
  return names.length > 0 ? t("Choose a delegator") : t("No delegator can do this yet.");
}

/**
 * The capable delegators, the default of the recipe first, otherwise the one chosen last; an item that adds another one;
 * and, if `why` says that one is missing, one for a default.
 */
export function delegatorItems(
  { store, host }: ChooseDeps,
  names: readonly string[],
  { recipe, folder }: DefaultPlace,
  why?: string,
): PickItem[] {
  const usual = store.defaultDelegator(recipe, folder);
  const last = host.memory.get(LAST_DELEGATOR_KEY, "");
  const able = store.delegators.filter(({ delegator }) => names.includes(delegator.name));
  const entries = [...able.filter(({ state }) => state.ready), ...able.filter(({ state }) => !state.ready)];
  const items = entries.map((entry): PickItem => {
    const { delegator, state } = entry;
    const [problem] = state.problems;
    return {
      id: DELEGATOR_PREFIX + delegator.name,
      label: delegator.displayName ?? delegator.name,
      description: delegatorFacts(entry, usual),
      icon: state.ready ? (delegator.tool ? "terminal" : "server") : "error",
      ...(state.ready || !problem ? {} : { detail: errorText(problem) }),
    };
  });
  const isFirst = ({ id, icon }: PickItem): boolean => id === DELEGATOR_PREFIX + (usual ?? last) && icon !== "error";
  const detail = t("An agent on this machine, or a model on a server.");
  return [
    ...items.filter(isFirst),
    ...items.filter((item) => !isFirst(item)),
    { id: ADD, label: t("Add Delegator…"), icon: "add", ...(items.length > 0 ? {} : { detail }) },
    ...(why !== undefined && items.length > 0
      ? [{ id: CHOOSE_DEFAULT, label: t("Choose a Default…"), icon: "star-empty", detail: oneLine(why, 200) }]
      : []),
  ];
}

/** Choose a default for a recipe without leaving the current question; returns the delegator. */
export async function chooseDefault({ host }: ChooseDeps, recipe: string): Promise<string | undefined> {
  const name = await host.commands.run("understudy.delegators.setDefault", undefined, recipe);
  return typeof name === "string" ? name : undefined;
}

/** Add a delegator without leaving the current question. */
export async function addDelegatorFirst({
  host,
}: {
  readonly host: Pick<Host, "commands">;
}): Promise<string | undefined> {
  const name = await host.commands.run("understudy.delegators.add");
  return typeof name === "string" ? name : undefined;
}
