/** Choose the recipes that a delegator runs by default. */

import { t } from "../base/l10n.ts";
import type { Folder, Host } from "../host/host.ts";
import type { DelegatorEntry } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import { defaultsOf, EVERYTHING, USER_SCOPE } from "../state/delegatorDraft.ts";
import type { Store } from "../state/store.ts";
import { scopeQuestion } from "../state/saveScope.ts";

export interface DefaultDelegatorDeps {
  readonly requester: Requester;
  readonly windows: Pick<Host["windows"], "pick" | "message">;
  readonly store: Pick<Store, "delegators" | "recipes">;
  /** Folders to save in: empty in an untrusted window. */
  readonly folders: () => readonly Folder[];
}

/**
 * Ask for the recipes and where to save, and set what changed. `also`: a recipe that is selected, too. Returns whether
 * the delegator is now the default for something, or undefined if the user cancelled.
 */
export async function chooseDefaults(
  { requester, windows, store, folders }: DefaultDelegatorDeps,
  entry: DelegatorEntry,
  also?: string,
): Promise<boolean | undefined> {
  const { name } = entry.delegator;
  const title = t("Use {0} by Default For", entry.delegator.displayName ?? name);
  const before = new Set(defaultsOf(entry));
  const owner = (recipe: string): string | undefined =>
    store.delegators.find((one) => defaultsOf(one).includes(recipe))?.delegator.name;
  const item = (
    id: string,
    label: string,
    what: string,
  ): { id: string; label: string; picked: boolean; description: string } => {
    const other = owner(id);
    const now = other === undefined || other === name ? [] : [t("currently {0}", other)];
    return { id, label, picked: before.has(id) || id === also, description: [what, ...now].join(" · ") };
  };
  // A recipe that names its delegator has no default.
  const recipes = store.recipes.filter(({ delegator }) => !delegator);
  const chosen = await windows.pick({
    title,
    many: true,
    placeholder: t("Select the recipes that it runs unless you choose another delegator"),
    items: [
      item(EVERYTHING, t("Everything else"), t("recipes without a default of their own")),
      ...recipes.map((recipe) => item(recipe.name, recipe.title, recipe.name)),
    ],
  });
  if (chosen.kind !== "picked") return undefined;
  const after = new Set(chosen.ids);
  const changed = [EVERYTHING, ...recipes.map((recipe) => recipe.name)].filter(
    (id) => before.has(id) !== after.has(id),
  );
  if (changed.length === 0) return after.size > 0;
  const [first] = folders();
  let scope = USER_SCOPE;
  if (first) {
    const active = entry.scope === "workspace" ? first.uri : USER_SCOPE;
    const outcome = await windows.pick(scopeQuestion({ title }, folders(), active));
    if (outcome.kind !== "picked") return undefined;
    scope = outcome.ids[0] ?? USER_SCOPE;
  }
  const workspace = scope === USER_SCOPE ? first?.uri : scope;
  for (const id of changed) {
    const wanted = after.has(id) ? name : undefined;
    const { delegator } = await requester.request("understudy/delegators/setDefault", {
      ...(wanted === undefined ? {} : { delegator: wanted }),
      ...(id === EVERYTHING ? {} : { recipe: id }),
      scope: scope === USER_SCOPE ? "user" : "workspace",
      ...(workspace === undefined ? {} : { workspace }),
    });
    if (delegator === wanted || (wanted === undefined && delegator !== name)) continue;
    const whose = recipes.find((recipe) => recipe.name === id)?.title ?? t("Everything else");
    const text = t("{0}: another configuration takes precedence here and sets {1}.", whose, delegator ?? t("none"));
    await windows.message("warning", text);
  }
  return after.size > 0;
}
