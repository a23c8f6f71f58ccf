/** Add or edit a delegator: source → model → options → name → scope → test with a real task → save. */

import { isDeepStrictEqual } from "node:util";
import { t } from "../base/l10n.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { folderOf } from "../state/workspaceFolders.ts";
import type { Delegator, DelegatorEntry, ModelServerEntry, ConnectionTest } from "../protocol.ts";
import { removeModelServer } from "./modelServers.ts";
import { runSteps } from "../base/wizard.ts";
import {
  type AddDelegatorDeps,
  canChooseScope,
  createSteps,
  type Draft,
  type Question,
  type WizardContext,
  type WorkspaceParam,
} from "./addDelegatorSteps.ts";

/** Ask, test and save. Returns the saved entry, or undefined if the user cancelled. */
export async function addDelegator(
  given: AddDelegatorDeps,
  entry?: DelegatorEntry,
): Promise<DelegatorEntry | undefined> {
  const deps: WizardContext = { ...given, listedFrom: new Map(), listedServers: [], createdServers: [] };
  const steps = createSteps(deps, entry);
  const folder = folderOf(entry?.location?.uri, deps.folders());
  let draft: Draft = {
    delegator: entry?.delegator ?? { name: "" },
    scope: entry?.scope === "workspace" ? "workspace" : "user",
    ...(folder ? { folder: folder.uri } : {}),
    ...(entry ? { entry } : {}),
  };
  let first: Question = "source";
  let answered: readonly Question[] = [];
  let saved: DelegatorEntry | undefined;
  while (!saved) {
    const asked = await runSteps(steps, first, draft, () => (canChooseScope(deps, draft) ? 5 : 4), answered);
    if (!asked) break;
    draft = asked;
    const outcome = await testAndSave(deps, draft);
    if (outcome.kind === "dropped") break;
    if (outcome.kind === "saved") saved = outcome.entry;
    else ({ from: first, answered = [] } = outcome);
  }
  for (const server of deps.createdServers) {
    if (server.modelServer.name !== saved?.delegator.modelServer) void offerToRemove(deps, server);
  }
  return saved;
}

type SaveOutcome =
  | { readonly kind: "saved"; readonly entry: DelegatorEntry }
  /** `answered`: the questions before it, to which the user can go back. */
  | { readonly kind: "change"; readonly from: Question; readonly answered?: readonly Question[] }
  | { readonly kind: "dropped" };

/** Test the delegator; save it if it works or the user wants to save it anyway. */
async function testAndSave(deps: AddDelegatorDeps, draft: Draft): Promise<SaveOutcome> {
  const { name } = draft.delegator;
  const delegator = withoutEmptyFields(draft.delegator);
  const tested = await runTest(deps, name, { name, delegator, scope: draft.scope, ...workspaceParam(draft) });
  if (!tested.ok) {
    const [change, save] = [t("Edit"), t("Save Anyway")];
    const answer = await showFailure(deps, tested, [change, save], { modal: true });
    if (answer === change) {
      // What fails of a custom command is most likely the command.
      const custom = draft.delegator.launch?.command !== undefined;
      return custom ? { kind: "change", from: "command", answered: ["source"] } : { kind: "change", from: "source" };
    }
    if (answer !== save) return { kind: "dropped" };
  }
  try {
    const unchanged = draft.entry && isDeepStrictEqual(withoutEmptyFields(draft.entry.delegator), delegator);
    const entry = draft.entry && unchanged ? draft.entry : await save(deps, draft);
    const text = unchanged
      ? t("{0} is unchanged. {1}", name, tested.message)
      : t("{0} saved. {1}", name, tested.message);
    if (tested.ok || !tested.cancelled) deps.tested?.(entry, tested.ok ? undefined : tested.message);
    if (tested.ok) void deps.windows.message("info", text);
    return { kind: "saved", entry };
  } catch (error) {
    const { kind, message, hint } = toErrorInfo(error);
    const change = t("Edit");
    const text = hint ? `${message} ${hint}` : message;
    if ((await deps.windows.message("error", text, { buttons: [change] })) !== change) return { kind: "dropped" };
    return { kind: "change", from: kind === "already_exists" ? "name" : "options" };
  }
}

/** Test a saved delegator and report the outcome. `change`: the user wants to edit it. */
export async function testDelegator(deps: AddDelegatorDeps, entry: DelegatorEntry): Promise<"kept" | "change"> {
  const { name } = entry.delegator;
  const workspace = entry.scope === "workspace" ? folderOf(entry.location?.uri, deps.folders())?.uri : undefined;
  const tested = await runTest(deps, name, workspace === undefined ? { name } : { name, workspace });
  if (!tested.ok && tested.cancelled) return "kept";
  deps.tested?.(entry, tested.ok ? undefined : tested.message);
  if (tested.ok) {
    void deps.windows.message("info", t("{0} works: {1}", name, tested.message));
    return "kept";
  }
  const change = t("Edit");
  return (await showFailure(deps, tested, [change])) === change ? "change" : "kept";
}

/** Show why a test failed, once; "Show Output" shows all steps and asks again beside it. */
async function showFailure(
  deps: AddDelegatorDeps,
  { message, detail }: { readonly message: string; readonly detail: string },
  buttons: readonly string[],
  options: { readonly modal?: boolean } = {},
): Promise<string | undefined> {
  const show = t("Show Output");
  const dialog = { ...options, buttons: [...buttons, show], ...(options.modal && detail !== "" ? { detail } : {}) };
  const answer = await deps.windows.message("warning", message, dialog);
  if (answer !== show) return answer;
  deps.output.show();
  return buttons.length > 0 ? deps.windows.message("warning", message, { buttons }) : undefined;
}

type TestOutcome =
  | { readonly ok: true; readonly message: string }
  | { readonly ok: false; readonly message: string; readonly detail: string; readonly cancelled: boolean };

async function runTest(
  deps: AddDelegatorDeps,
  name: string,
  params: Parameters<typeof deps.requester.request<"understudy/delegators/test">>[1],
): Promise<TestOutcome> {
  let result: ConnectionTest;
  try {
    result = await deps.windows.progress(
      { title: t("Testing {0}…", name), where: "notification", cancellable: true },
      ({ signal }) => deps.requester.request("understudy/delegators/test", params, signal),
    );
  } catch (error) {
    const { kind, message, hint } = toErrorInfo(error);
    const cancelled = kind === "cancelled";
    const text = cancelled ? t("The test of {0} was cancelled.", name) : t("{0} could not be tested.", name);
    deps.output.warn(`delegators/test of ${name}: ${message} ${hint ?? ""}`);
    return { ok: false, message: text, detail: cancelled ? "" : [message, hint ?? ""].join(" ").trim(), cancelled };
  }
  if (result.ok) return { ok: true, message: result.steps.at(-1)?.message ?? "" };
  const failed = result.steps.find((step) => !step.ok);
  const message = t("{0} does not work: {1}", name, failed?.message ?? "");
  deps.output.warn(
    [
      `delegators/test of ${name}:`,
      ...result.steps.map(
        (step) => `  ${step.ok ? "✓" : "✗"} ${step.name}: ${step.message} (${step.seconds.toFixed(1)} s)`,
      ),
    ].join("\n"),
  );
  // The message has the reason; here is what worked before it.
  const detail = result.steps
    .filter(({ ok }) => ok)
    .map((step) => `✓ ${step.message}`)
    .join("\n");
  return { ok: false, message, detail, cancelled: false };
}

/** Offer to remove a model server that was added for a delegator that was not saved. */
async function offerToRemove(deps: AddDelegatorDeps, server: ModelServerEntry): Promise<void> {
  const remove = t("Remove Server");
  const text = t("The model server {0} was saved, but no delegator uses it.", server.modelServer.name);
  if ((await deps.windows.message("info", text, { buttons: [remove] })) !== remove) return;
  try {
    await removeModelServer(deps, server);
  } catch (error) {
    await deps.windows.message("error", toErrorInfo(error).message);
  }
}

async function save(deps: AddDelegatorDeps, draft: Draft): Promise<DelegatorEntry> {
  const delegator = withoutEmptyFields(draft.delegator);
  if (draft.entry) {
    const { name } = draft.entry.delegator;
    const { revision } = draft.entry;
    return deps.requester.request("understudy/delegators/update", {
      name,
      delegator,
      revision,
      ...workspaceParam(draft),
    });
  }
  return deps.requester.request("understudy/delegators/create", {
    delegator,
    scope: draft.scope,
    ...workspaceParam(draft),
  });
}

function workspaceParam(draft: Draft): WorkspaceParam {
  return draft.folder === undefined ? {} : { workspace: draft.folder };
}

/** Leave out empty fields to keep the file short. */
function withoutEmptyFields(delegator: Delegator): Delegator {
  const kept = Object.entries(delegator).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return Object.fromEntries(kept) as unknown as Delegator;
}
