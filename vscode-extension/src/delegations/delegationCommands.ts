/** Commands on a delegation: the one of a row, transcript or notification, otherwise one that the user chooses. */

import * as path from "node:path";
import { DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { fileUri } from "../base/paths.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { Store } from "../state/store.ts";
import {
  canReply,
  isAlways,
  isFailure,
  isLive,
  isToReview,
  orderedOptions,
  rememberedAnswer,
  stateIcon,
} from "../state/wording.ts";
import { needEngine } from "../state/engineNeeded.ts";
import { canBeStrengthened, isUntested } from "../state/mutationWording.ts";
import { oneLine, shortenMiddle, timeOfDay } from "../state/formatting.ts";
import type { Delegation, PermissionOption } from "../protocol.ts";
import { delegationIdOf, transcriptUri } from "../state/delegationUris.ts";
import { batchesOf, batchOf, isComparable } from "./batchRows.ts";
import { addDelegatorFirst } from "./chooseDelegator.ts";
import { pickDelegators } from "./compareDelegators.ts";
import { statusLine, type DelegationTree, type Group } from "./delegationTree.ts";
import { displayPath } from "../state/formatting.ts";
import { carriedText, confirmStrengthening, followsInstructions } from "../state/instructions.ts";
import { questionText } from "../state/questions.ts";
import type { DelegationNotifications } from "./notifications.ts";
import { pickRetryDelegator } from "./retryDelegator.ts";

export interface DelegationCommandDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "environment">;
  readonly requester: Requester;
  readonly store: Store;
  readonly rows: Pick<DelegationTree, "more">;
  readonly notifications: Pick<DelegationNotifications, "started" | "answer">;
  readonly transcripts: { show(delegation: Delegation): void };
  readonly inWindow: (delegation: Delegation) => boolean;
}

/** Characters of a title in a quick pick: a longer one would push the state out. */
const MAX_PICK_TITLE = 60;

/** Lines of a question that the quick pick shows. */
const MAX_DETAIL_ROWS = 200;

type Applies = (delegation: Delegation) => boolean;
type Action = (delegation: Delegation, ...values: unknown[]) => Promise<unknown>;

export function registerDelegationCommands(deps: DelegationCommandDeps): DisposableStore {
  const { host, requester, store, rows, notifications: notifications, inWindow } = deps;
  const disposables = new DisposableStore();

  /** Register a command on one delegation. */
  const on = (name: string, placeholder: string, fits: Applies, work: Action): void => {
    disposables.add(
      host.commands.register(`understudy.delegations.${name}`, async (place, ...values) => {
        const id = delegationIdOf(place);
        const delegation =
          id === undefined
            ? (activeDelegation(deps, fits) ?? (await pickDelegation(deps, placeholder, fits)))
            : (store.delegation(id) ?? (await store.read(id)));
        if (delegation) await work(delegation, ...values);
      }),
    );
  };

  /** Register a command on all selected rows, otherwise on those that the user chooses. */
  const onMany = (
    name: string,
    placeholder: string,
    fits: Applies,
    work: (found: readonly Delegation[]) => Promise<unknown>,
  ): void => {
    disposables.add(
      host.commands.register(`understudy.delegations.${name}`, async (place, selected) => {
        const rowIds = Array.isArray(selected) ? (selected as unknown[]) : [place];
        const ids = rowIds.map(delegationIdOf).filter((id) => id !== undefined);
        const active = activeDelegation(deps, fits);
        const found =
          ids.length > 0
            ? ids.map((id) => store.delegation(id)).filter((one) => one && (ids.length === 1 || fits(one)))
            : active
              ? [active]
              : await pickDelegations(deps, placeholder, fits);
        if (found.length > 0) await work(found.filter((one) => one !== undefined));
      }),
    );
  };

  on(
    "open",
    t("Choose a delegation"),
    () => true,
    (delegation) => {
      deps.transcripts.show(delegation);
      host.commands.setContext("understudy.followed", true); // a step of the walkthrough
      return Promise.resolve();
    },
  );
  on(
    "openText",
    t("Choose a delegation"),
    () => true,
    (delegation) => host.documents.show(transcriptUri(delegation), { preview: true }),
  );
  on(
    "showLog",
    t("Choose a delegation"),
    () => true,
    async (delegation) => {
      const log = delegation.error?.logPaths?.[0] ?? (await programLog(deps, delegation.id));
      if (log === undefined) deps.transcripts.show(delegation);
      else await host.documents.show(fileUri(log), { preview: true });
    },
  );
  on(
    "attach",
    t("Choose a delegation with a terminal"),
    ({ terminal }) => terminal !== undefined,
    async ({ id, title }) => {
      const { argv } = await requester.request("understudy/delegations/attach", { id });
      host.windows.runProgram(oneLine(title, 40), argv);
    },
  );
  on("cancel", t("Choose the delegation to cancel"), isLive, async ({ id }) => {
    await requester.request("understudy/delegations/cancel", { id });
    await store.read(id);
  });
  on("stopChecks", t("Choose the delegation whose checks to stop"), isChecking, async ({ id }) => {
    await requester.request("understudy/delegations/cancel", { id, onlyChecks: true });
    await host.commands.run("understudy.review.open", id);
  });
  on(
    "answer",
    t("Choose a question"),
    ({ waitingFor }) => waitingFor !== undefined,
    async (delegation, requestId, option, remember) => {
      const same = requestId === undefined || requestId === delegation.waitingFor?.requestId;
      if (typeof option === "string" && same) await notifications.answer(delegation, option, remember === true);
      else await pickAnswer(deps, delegation);
    },
  );
  on("reply", t("Choose the delegation to reply to"), canReply, async (delegation) => {
    if (!(await followsInstructions(deps, delegation))) return;
    const { files } = delegation.head
      ? await requester.request("understudy/delegations/diff", { id: delegation.id })
      : { files: [] };
    const outcome = await host.windows.input({
      title: t("Reply to “{0}”", delegation.title),
      prompt: [t("What should change? Rejected changes and their reasons are included."), carriedText(files)]
        .join(" ")
        .trim(),
      validate: (value) => (value.trim() === "" ? t("Enter instructions.") : undefined),
    });
    if (outcome.kind !== "accepted") return;
    const { id } = await requester.request("understudy/delegations/reply", { id: delegation.id, text: outcome.value });
    await notifications.started(id);
  });
  const strengthen = async (delegation: Delegation): Promise<void> => {
    if (!(await followsInstructions(deps, delegation)) || !(await confirmStrengthening(deps, delegation))) return;
    const { id } = await requester.request("understudy/delegations/strengthen", { id: delegation.id });
    await notifications.started(id);
  };
  on("strengthen", t("Choose the result whose tests to strengthen"), canBeStrengthened, strengthen);
  on(
    "askForTests",
    t("Choose the result to ask for tests of"),
    (one) => canBeStrengthened(one) && isUntested(one),
    strengthen,
  );
  on("retry", t("Choose the delegation to retry"), isFinished, async ({ id: parent }) => {
    const { id } = await requester.request("understudy/delegations/retry", { id: parent });
    await notifications.started(id);
  });
  onMany("dismiss", t("Choose the delegations to dismiss"), isFailure, async (found) => {
    for (const { id } of found) await requester.request("understudy/delegations/dismissRun", { id });
  });
  disposables.add(
    host.commands.register("understudy.delegations.dismissAll", async () => {
      for (const { id } of store.delegations.filter((one) => isFailure(one) && inWindow(one))) {
        await requester.request("understudy/delegations/dismissRun", { id });
      }
    }),
  );
  on("retryWith", t("Choose the delegation to retry"), isFinished, async (delegation) => {
    const chosen = await pickRetryDelegator(deps, delegation);
    if (chosen === undefined) return;
    const { id } = await requester.request("understudy/delegations/retry", { id: delegation.id, ...chosen });
    await notifications.started(id);
  });
  on("alsoTry", t("Choose the delegation to try with other delegators, too"), isFinished, async (delegation) => {
    for (const delegator of await pickOthers(deps, delegation)) {
      const params = { id: delegation.id, delegator, compare: true };
      const { id } = await requester.request("understudy/delegations/retry", params);
      await notifications.started(id);
    }
    await store.read(delegation.id);
  });
  onMany("discard", t("Choose the results to discard"), canDiscard, async (found) => {
    const discard = t("Discard");
    const titles = found.length > 1 ? [...found.map(({ title }) => `• ${oneLine(title, 100)}`), ""] : [];
    const kept = t("The worktree is removed. “Restore Result” restores it unchanged. Your own files are not affected.");
    const detail = [...titles, kept].join("\n");
    const options = { buttons: [discard], modal: true, detail };
    const [only] = found;
    const text =
      found.length === 1 && only
        ? t("Discard the result of “{0}”?", only.title)
        : t("Discard {0} results?", found.length);
    if ((await host.windows.message("warning", text, options)) !== discard) return;
    const discarded: { readonly id: string; readonly rescueRef: string }[] = [];
    for (const { id } of found) {
      discarded.push({ id, ...(await requester.request("understudy/delegations/discard", { id })) });
      await store.read(id);
    }
    void offerToRestore(discarded);
  });
  const offerToRestore = async (
    discarded: readonly { readonly id: string; readonly rescueRef: string }[],
  ): Promise<void> => {
    const restore = t("Restore");
    const text = discarded.length === 1 ? t("Result discarded.") : t("{0} results discarded.", discarded.length);
    if ((await host.windows.message("info", text, { buttons: [restore] })) !== restore) return;
    for (const { id, rescueRef } of discarded) {
      if (store.delegation(id)?.rescueRef !== rescueRef) continue; // restored meanwhile
      await requester.request("understudy/worktrees/restore", { rescueRef });
      await store.read(id);
    }
  };
  on(
    "restore",
    t("Choose the result to restore"),
    ({ rescueRef }) => rescueRef !== undefined,
    async ({ id, rescueRef, title }) => {
      if (rescueRef === undefined) {
        await host.windows.message("info", t("“{0}” was not discarded.", title));
        return;
      }
      await requester.request("understudy/worktrees/restore", { rescueRef });
      await store.read(id);
    },
  );
  on(
    "copyId",
    t("Choose a delegation"),
    () => true,
    ({ id }) => host.environment.copyToClipboard(id),
  );
  on(
    "openWorktree",
    t("Choose the result to open"),
    ({ worktree, rescueRef }) => worktree !== undefined && rescueRef === undefined,
    async ({ id, worktree }) => {
      if (worktree === undefined || !(await confirmOpen(deps, id))) return;
      await host.windows.openFolder(worktree);
    },
  );
  /** The members of the batch whose row this is. */
  const batch = (row: unknown): readonly Delegation[] => {
    const group = batchOf(row);
    return group === undefined ? [] : (batchesOf(store.delegations).get(group) ?? []);
  };
  disposables.add(
    host.commands.register("understudy.delegations.cancelBatch", async (row) => {
      const group = batchOf(row);
      if (group === undefined) return;
      await requester.request("understudy/groups/cancel", { id: group });
      for (const { id } of batch(row)) await store.read(id);
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegations.reviewNext", async (row) => {
      const next = batch(row).find(isToReview);
      if (next) await host.commands.run("understudy.review.open", next.id);
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegations.compare", async (row) => {
      const group = batchOf(row) ?? (await pickComparable(deps));
      if (group !== undefined) await host.commands.run("understudy.review.compare", group);
    }),
  );
  disposables.add(
    host.commands.register("understudy.delegations.more", async (group) => {
      if (rows.more((group ?? "done") as Group)) await store.readMore();
    }),
  );
  return disposables;
}

/** Ask for delegators that have not worked on this yet. */
async function pickOthers({ host, store }: DelegationCommandDeps, delegation: Delegation): Promise<readonly string[]> {
  const { groupId } = delegation;
  const tried = store.delegations.filter((one) => one.id === delegation.id || (groupId && one.groupId === groupId));
  const others = store.delegators.filter(
    ({ delegator, state }) => state.ready && tried.every((one) => one.delegator !== delegator.name),
  );
  if (others.length === 0) {
    const add = t("Add Delegator…");
    const text = t("Every delegator that is ready has worked on this.");
    const answer = await host.windows.message("info", text, { buttons: [add] });
    const added = answer === add ? await addDelegatorFirst({ host }) : undefined;
    return added === undefined ? [] : [added];
  }
  const title = t("Also Try “{0}” with…", delegation.title);
  return pickDelegators(host, title, others, t("Starts from the same files. Compare the results afterwards."));
}

/** Ask which results to compare; the only ones are meant without asking. */
async function pickComparable({ host, store }: DelegationCommandDeps): Promise<string | undefined> {
  const groups = [...batchesOf(store.delegations)].filter(([, members]) => isComparable(members));
  if (groups.length === 0) {
    await host.windows.message(
      "info",
      t("There are no results to compare. Choose “Also Try with…” in the menu of a delegation that has finished."),
    );
    return undefined;
  }
  if (groups.length === 1) return groups[0]?.[0];
  const outcome = await host.windows.pick({
    title: t("Compare Results"),
    placeholder: t("Choose the results to compare"),
    items: groups.map(([id, members]) => ({
      id,
      label: members[0]?.title ?? id,
      description: members.map(({ delegator }) => delegator).join(", "),
    })),
  });
  return outcome.kind === "picked" ? outcome.ids[0] : undefined;
}

/** What the agent's program printed in the last attempt, first of all its errors; undefined if it printed nothing. */
async function programLog({ requester }: DelegationCommandDeps, id: string): Promise<string | undefined> {
  const { files } = await requester.request("understudy/delegations/logs", { id });
  const last = files.at(-1)?.attempt;
  const logs = files.filter(({ attempt }) => attempt === last).map((file) => file.path);
  return logs.find((file) => path.basename(file).startsWith("stderr")) ?? logs[0];
}

/** The choice that also saves a rule. */
const REMEMBER = "remember";

/** Show a permission request of an agent with all its details. */
async function pickAnswer(
  { host, notifications: notifications }: DelegationCommandDeps,
  delegation: Delegation,
): Promise<void> {
  const request = delegation.waitingFor;
  if (!request) {
    await notifications.answer(delegation, "");
    return;
  }
  const ordered = orderedOptions(request);
  const item = (option: PermissionOption): PickItem => ({
    id: option.id,
    label: option.title,
    icon: option.kind.startsWith("allow") ? "check" : "close",
    ...(isAlways(option) ? { description: t("without asking again") } : {}),
    ...(option.id === request.deadlineAction && request.deadline !== undefined
      ? { detail: t("Chosen automatically if you do not answer by {0}.", timeOfDay(request.deadline)) }
      : {}),
  });
  const detail = questionText(request)
    .split("\n")
    .flatMap((text) => wrapLine(text.trim(), 90));
  // The user must see all of a request before allowing it.
  const whole = detail.length <= MAX_DETAIL_ROWS && oneLine(request.title, Infinity).length <= 300;
  const offered = ordered.filter((option) => whole || request.kind === "question" || !option.kind.startsWith("allow"));
  const once = offered.filter((option) => !isAlways(option));
  const always = offered.filter(isAlways);
  const remembered = whole ? rememberedAnswer(request) : undefined;
  const remember: readonly PickItem[] = remembered
    ? [
        {
          id: REMEMBER,
          label: remembered.title,
          icon: "check-all",
          description: t("saved as a rule for {0}", delegation.delegator),
        },
      ]
    : [];
  const show: PickItem = {
    id: "show",
    label: t("Show Transcript"),
    icon: "book",
    ...(whole
      ? {}
      : {
          detail: t("The question is too long for this list. Read it in the transcript, where you can also allow it."),
        }),
  };
  const line = (id: string, label: string): PickItem => ({ id, label, separator: true });
  const outcome = await host.windows.pick({
    title: t("{0} asks: {1}", delegation.delegator, oneLine(request.title, 60)),
    placeholder: oneLine(request.title, 300),
    items: [
      ...once.map(item),
      ...(always.length + remember.length > 0
        ? [line("line:always", t("from now on")), ...always.map(item), ...remember]
        : []),
      line("line:detail", t("question")),
      ...detail.slice(0, MAX_DETAIL_ROWS).map((text, index) => ({ id: `detail:${index}`, label: text })),
      show,
    ],
  });
  const chosen = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  if (chosen === "show" || chosen?.startsWith("detail:"))
    await host.commands.run("understudy.delegations.open", delegation.id);
  else if (chosen === REMEMBER && remembered) await notifications.answer(delegation, remembered.option.id, true);
  else if (chosen !== undefined) await notifications.answer(delegation, chosen);
}

/**
 * Confirm that the files of a result may be opened as a folder. The editor asks whether to trust it, except below a
 * trusted folder; then it applies settings and runs programs that an agent wrote.
 */
async function confirmOpen({ host, requester }: DelegationCommandDeps, id: string): Promise<boolean> {
  const files = await requester.request("understudy/delegations/diff", { id }).then(
    (diff) => diff.files,
    () => undefined, // there is no result: the worktree may contain anything
  );
  const flagged = files?.filter((file) => file.flagReason !== undefined);
  if (flagged?.length === 0) return true;
  const open = t("Open");
  const text = t("The result contains files that the editor may run when you open its folder and trust it.");
  const detail = flagged?.map((file) => `${oneLine(displayPath(file.path), 200)} ${file.flagReason ?? ""}`).join("\n");
  const options = { modal: true, buttons: [open], ...(detail === undefined ? {} : { detail }) };
  return (await host.windows.message("warning", text, options)) === open;
}

/** The delegation of the active document, if the command applies to it. */
function activeDelegation({ host, store }: DelegationCommandDeps, fits: Applies): Delegation | undefined {
  const id = delegationIdOf(host.documents.active?.uri);
  const found = id === undefined ? undefined : store.delegation(id);
  return found && fits(found) ? found : undefined;
}

async function pickDelegation(
  deps: DelegationCommandDeps,
  placeholder: string,
  fits: Applies,
): Promise<Delegation | undefined> {
  const found = fitting(deps, fits);
  const only = found[0];
  if (found.length === 1 && only?.waitingFor) return only;
  return (await askDelegations(deps, placeholder, found, false))[0];
}

async function pickDelegations(deps: DelegationCommandDeps, placeholder: string, fits: Applies): Promise<Delegation[]> {
  return askDelegations(deps, placeholder, fitting(deps, fits), true);
}

/** The delegations of this window that a command applies to, otherwise those of other windows. */
function fitting({ store, inWindow }: DelegationCommandDeps, fits: Applies): readonly Delegation[] {
  const found = store.delegations.filter(fits);
  const own = found.filter(inWindow);
  return own.length > 0 ? own : found;
}

async function askDelegations(
  { host, requester, store }: DelegationCommandDeps,
  placeholder: string,
  found: readonly Delegation[],
  many: boolean,
): Promise<Delegation[]> {
  if (found.length === 0) {
    await needEngine(requester, store);
    await host.windows.message("info", t("No delegation is available for this command."));
    return [];
  }
  const items = found.map((delegation) => ({
    id: delegation.id,
    label: shortenMiddle(delegation.title, MAX_PICK_TITLE),
    description: `${statusLine(delegation)} · ${delegation.delegator}`,
    icon: stateIcon(delegation).id,
  }));
  const outcome = await host.windows.pick({ title: t("Understudy"), placeholder, items, many });
  const ids = outcome.kind === "picked" ? outcome.ids : [];
  return ids.map((id) => store.delegation(id)).filter((one) => one !== undefined);
}

/** Break a long line into several, at spaces if possible. */
function wrapLine(text: string, most: number): string[] {
  const lines: string[] = [];
  for (let rest = text; rest !== "";) {
    const space = rest.length > most ? rest.lastIndexOf(" ", most) : rest.length;
    const end = space > 0 ? space : most;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return lines;
}

/** Whether its agent has ended, and the result waits for its checks. */
const isChecking = ({ state, head }: Delegation): boolean => state === "checking" && head !== undefined;

const isFinished = (delegation: Delegation): boolean => !isLive(delegation);

function canDiscard(delegation: Delegation): boolean {
  return !isLive(delegation) && delegation.worktree !== undefined && delegation.rescueRef === undefined;
}
