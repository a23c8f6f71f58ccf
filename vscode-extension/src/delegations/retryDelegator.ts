/** Ask which delegator retries a delegation, and with which options. */

import { pathToFileURL } from "node:url";
import { t } from "../base/l10n.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { Delegation, RetryParams } from "../protocol.ts";
import { overrideOf, overrideSummary, type OverrideValues } from "../state/launchOverride.ts";
import { readFacts } from "../state/overrideRequests.ts";
import type { Store } from "../state/store.ts";
import { delegatorFacts } from "../state/wording.ts";
import { addDelegatorFirst } from "./chooseDelegator.ts";
import { changeOptions, optionsOf, type ChangeOptionsDeps } from "./changeOptions.ts";

/** What is changed of one delegator. */
interface Changed {
  readonly delegator: string;
  readonly values: OverrideValues;
  readonly launch: NonNullable<RetryParams["launch"]>;
  readonly summary: string;
}

/** Cannot be names of delegators. */
const OPTIONS = " options";
const ADD = " add";

type RetryDeps = ChangeOptionsDeps & {
  readonly host: Pick<Host, "commands">;
  readonly store: Pick<Store, "defaultDelegator">;
};

/** Another delegator is preselected: the same one is what Retry is for. Undefined: cancelled. */
export async function pickRetryDelegator(
  deps: RetryDeps,
  delegation: Delegation,
): Promise<Pick<RetryParams, "delegator" | "launch"> | undefined> {
  const title = t("Retry “{0}” with…", delegation.title);
  let changed: Changed | undefined;
  for (;;) {
    const [same, other = same] = retryItems(deps, delegation, changed);
    const active = changed?.delegator ?? other?.id;
    const outcome = await deps.host.windows.pick({
      title,
      placeholder: t("Retries from the original files. Choose a delegator."),
      items: [
        ...retryItems(deps, delegation, changed),
        { id: "separator:options", label: "", separator: true },
        { id: ADD, label: t("Add Delegator…"), icon: "add" },
        { id: OPTIONS, label: t("Change Options for This Delegation…"), icon: "settings" },
      ],
      ...(active === undefined ? {} : { active }),
    });
    if (outcome.kind !== "picked") return undefined;
    let [delegator = ""] = outcome.ids;
    if (delegator === ADD) {
      delegator = (await addDelegatorFirst(deps)) ?? "";
      if (delegator === "") continue;
    }
    if (delegator !== OPTIONS)
      return changed?.delegator === delegator ? { delegator, launch: changed.launch } : { delegator };
    const whose = await deps.host.windows.pick({
      title,
      back: true,
      placeholder: t("Choose the delegator whose options to change."),
      items: retryItems(deps, delegation, changed),
    });
    const name = whose.kind === "picked" ? whose.ids[0] : undefined;
    if (name !== undefined) changed = await changeOptionsOf(deps, delegation, name, changed);
  }
}

function retryItems({ store }: RetryDeps, delegation: Delegation, changed: Changed | undefined): PickItem[] {
  const usual = store.defaultDelegator(delegation.recipe, pathToFileURL(delegation.workspace).toString());
  const others = store.delegators.filter(
    ({ delegator, state }) => state.ready && delegator.name !== delegation.delegator,
  );
  const same = store.delegators.find(({ delegator }) => delegator.name === delegation.delegator);
  const changes = (name: string): Partial<PickItem> => (changed?.delegator === name ? { detail: changed.summary } : {});
  const problem = same?.state.ready === false ? (same.state.problems[0]?.message ?? t("not ready")) : undefined;
  return [
    {
      id: delegation.delegator,
      label: delegation.delegator,
      description: [t("same delegator"), ...(usual === delegation.delegator ? [t("default")] : [])].join(" · "),
      icon: "refresh",
      ...(problem === undefined ? {} : { detail: problem }),
      ...changes(delegation.delegator),
    },
    ...[
      ...others.filter(({ delegator }) => delegator.name === usual),
      ...others.filter(({ delegator }) => delegator.name !== usual),
    ].map((entry) => ({
      id: entry.delegator.name,
      label: entry.delegator.displayName ?? entry.delegator.name,
      description: delegatorFacts(entry, usual),
      icon: entry.delegator.tool ? "terminal" : "server",
      ...changes(entry.delegator.name),
    })),
  ];
}

/** Options belong to a delegator: those of another one are forgotten. */
async function changeOptionsOf(
  deps: ChangeOptionsDeps,
  { recipe, workspace }: Delegation,
  delegator: string,
  before: Changed | undefined,
): Promise<Changed | undefined> {
  const found = await readFacts(deps, delegator, workspace);
  if (!found) return before;
  const facts = { ...found, agents: [] }; // a retry has the agent of the first run
  const given = before?.delegator === delegator ? before.values : {};
  const values = await changeOptions(deps, facts, { recipe, workspace, delegator }, given);
  const options = optionsOf(facts, values);
  const launch = overrideOf(options, values);
  return launch && { delegator, values, launch, summary: overrideSummary(options, values) };
}
