/** Change options of the chosen delegator for one delegation: a list of those that its tool has, each with its value. */

import { t } from "../base/l10n.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { ErrorInfo, StartParams } from "../protocol.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { checkValue, choicesOf, plainDescription, shortDescription, type Option } from "../state/delegatorOptions.ts";
import { errorText } from "../state/formatting.ts";
import {
  agentOf,
  agentOptions,
  isModel,
  optionId,
  overrideOf,
  overrideOptions,
  ownValue,
  titleOfValue,
  type OverrideValues,
} from "../state/launchOverride.ts";
import { readModels, refusedOptions, type DelegatorFacts, type OverrideDeps } from "../state/overrideRequests.ts";

export interface ChangeOptionsDeps extends OverrideDeps {
  readonly host: { readonly windows: Pick<Host["windows"], "pick" | "input"> };
}

const DONE = "done";
const RESET = "reset";
const TYPED = "typed";
const WRONG = "wrong";
/** Time without typing before the sidecar checks a value, in milliseconds. */
const TYPING_MS = 150;

/** Ask until the user is done; returns the changed values. `params` is the start without them. */
export async function changeOptions(
  deps: ChangeOptionsDeps,
  facts: DelegatorFacts,
  params: StartParams,
  given: OverrideValues,
): Promise<OverrideValues> {
  const title = t("Options for This Delegation");
  let values = given;
  let answered = false;
  for (;;) {
    const options = optionsOf(facts, values);
    const changed = options.filter((option) => valueOf(option, values) !== "");
    const outcome = await deps.host.windows.pick({
      title,
      back: true,
      placeholder: t("Changes apply to this delegation only, not to {0}.", facts.delegator.name),
      items: [
        { id: DONE, label: t("Done"), icon: "check" },
        ...(changed.length > 0 ? [{ id: RESET, label: t("Undo All Changes"), icon: "discard" }] : []),
        { id: "separator:options", label: "", separator: true },
        ...options.map((option) => optionItem(option, facts, values)),
      ],
      active: answered ? DONE : options[0] ? optionId(options[0]) : DONE,
    });
    const chosen = outcome.kind === "picked" ? outcome.ids[0] : DONE;
    if (chosen === RESET) values = {};
    const option = options.find((one) => optionId(one) === chosen);
    if (option) {
      values = await askOption({ deps, facts, params, title }, option, values);
      answered = true;
    } else if (chosen !== RESET) return values;
  }
}

/** The options of the list, which the values may change. */
export function optionsOf(facts: DelegatorFacts, values: OverrideValues): readonly Option[] {
  const { delegator, server, known, agents } = facts;
  return [...overrideOptions(delegator, server, known, values), ...agentOptions(agents)];
}

function valueOf(option: Option, values: OverrideValues): string {
  return values[optionId(option)] ?? "";
}

function optionItem(option: Option, { delegator }: DelegatorFacts, values: OverrideValues): PickItem {
  const [own, value] = [ownValue(option, delegator), titleOfValue(option, valueOf(option, values))];
  const configured = own === "" ? t("as configured") : own;
  return {
    id: optionId(option),
    label: option.title,
    icon: value === "" ? "circle-outline" : "edit",
    description: value === "" ? configured : own === "" ? value : t("{0} instead of {1}", value, own),
    detail: shortDescription(option),
  };
}

interface Question {
  readonly deps: ChangeOptionsDeps;
  readonly facts: DelegatorFacts;
  readonly params: StartParams;
  readonly title: string;
}

/** Ask for the value of one option until the sidecar accepts it; returns all values. */
async function askOption(question: Question, option: Option, values: OverrideValues): Promise<OverrideValues> {
  const { delegator } = question.facts;
  const choices = choicesOf(option);
  const listsModels = isModel(option) && delegator.modelServer;
  if (!choices && !listsModels) return enterValue(question, option, values);
  let refused: ErrorInfo | undefined;
  for (;;) {
    const own = ownValue(option, delegator);
    const kept: PickItem = {
      id: "",
      label: t("As Configured"),
      icon: "circle-outline",
      ...(own === "" ? {} : { description: own }),
    };
    const wrong: PickItem[] = refused
      ? [{ id: WRONG, label: refused.message, icon: "error", ...(refused.hint ? { detail: refused.hint } : {}) }]
      : [];
    const listed = (choices ?? []).map(({ value, title, description }): PickItem => ({
      id: `value:${value}`,
      label: title,
      ...(description ? { detail: description } : {}),
    }));
    const outcome = await question.deps.host.windows.pick({
      title: question.title,
      back: true,
      placeholder: choices ? promptOf(option) : t("Choose a model on {0}, or type a name", delegator.modelServer ?? ""),
      items: [...wrong, kept, ...listed],
      active: `value:${valueOf(option, values)}`,
      ...(choices ? {} : modelsOf(question, [...wrong, kept])),
    });
    if (outcome.kind !== "picked") return values;
    const [chosen = ""] = outcome.ids;
    if (chosen === WRONG) continue;
    const value = chosen === TYPED ? outcome.typed : chosen.replace(/^value:/u, "");
    const next = { ...values, [optionId(option)]: value };
    refused = await refusal(question, next);
    if (!refused) return next;
  }
}

/** The models of the server as items, read while the list is shown; any other one can be typed. */
function modelsOf({ deps, facts, params }: Question, first: readonly PickItem[]) {
  return {
    busy: true,
    typedItem: (typed: string): PickItem => ({ id: TYPED, label: typed, icon: "edit", description: t("as typed") }),
    live: (
      show: (content: { items?: readonly PickItem[]; busy?: boolean; placeholder?: string }) => void,
      signal: AbortSignal,
    ): void => {
      readModels(deps, facts.delegator, params.workspace ?? undefined, signal).then(
        (models) => show({ items: [...first, ...models.map((id) => ({ id: `value:${id}`, label: id }))], busy: false }),
        (error: unknown) => {
          const problem: PickItem = { id: WRONG, label: toErrorInfo(error).message, icon: "warning" };
          show({ items: [...first, problem], busy: false, placeholder: t("Type the name of a model.") });
        },
      );
    },
  };
}

async function enterValue(question: Question, option: Option, values: OverrideValues): Promise<OverrideValues> {
  const own = ownValue(option, question.facts.delegator);
  const entered = (text: string): OverrideValues => ({ ...values, [optionId(option)]: text.trim() });
  let latest = new AbortController();
  const outcome = await question.deps.host.windows.input({
    title: question.title,
    back: true,
    prompt: own === "" ? promptOf(option) : t("{0} Leave it empty to keep {1}.", promptOf(option), own),
    value: valueOf(option, values),
    ...(option.placeholder === undefined ? {} : { placeholder: option.placeholder }),
    validate: async (text) => {
      latest.abort();
      const { signal } = (latest = new AbortController());
      const wrong = text.trim() === "" ? undefined : checkValue(option, text.trim());
      if (wrong !== undefined) return wrong;
      await new Promise((resolve) => setTimeout(resolve, TYPING_MS));
      // Another text is being checked: the answer to this one is not used.
      const refused = signal.aborted ? undefined : await refusal(question, entered(text), signal);
      return refused && errorText(refused);
    },
  });
  return outcome.kind === "accepted" ? entered(outcome.value) : values;
}

function promptOf(option: Option): string {
  return `${option.title}: ${plainDescription(option)}`;
}

function refusal(
  { deps, facts, params }: Question,
  values: OverrideValues,
  signal?: AbortSignal,
): Promise<ErrorInfo | undefined> {
  const options = optionsOf(facts, values);
  const [launch, agent] = [overrideOf(options, values), agentOf(options, values)];
  if (!launch && agent === undefined) return Promise.resolve(undefined);
  const changed = { ...params, ...(launch ? { launch } : {}), ...(agent === undefined ? {} : { agent }) };
  return refusedOptions(deps, changed, signal);
}
