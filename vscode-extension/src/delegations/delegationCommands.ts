/** What can be done with a delegation: from a row, a transcript, a notification, or, without any, after asking which. */

import { Bag } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import type { Asker } from "../client/wire.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { driverWords, isAlways, isLive, oneLine, orderedOptions, stateIcon } from "../model/words.ts";
import type { Delegation, PermissionOption } from "../protocol.ts";
import { delegationOf, transcriptUri } from "./delegationIds.ts";
import { standing, type DelegationRows, type Group } from "./delegations.ts";
import { shownPath } from "../review/hunks.ts";
import type { Runs } from "./progress.ts";

export interface DelegationCommandParts {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "environment">;
  readonly asker: Asker;
  readonly store: Store;
  readonly rows: Pick<DelegationRows, "more">;
  readonly runs: Pick<Runs, "started" | "answer">;
  readonly here: (delegation: Delegation) => boolean;
}

/** Rows of a question that a list shows. */
const MOST_ROWS = 200;

type Fits = (delegation: Delegation) => boolean;
type Work = (delegation: Delegation, ...values: unknown[]) => Promise<unknown>;

export function registerDelegationCommands(parts: DelegationCommandParts): Bag {
  const { host, asker, store, rows, runs } = parts;
  const bag = new Bag();

  /** Register a command that works on one delegation. */
  const on = (name: string, placeholder: string, fits: Fits, work: Work): void => {
    bag.add(
      host.commands.register(`understudy.delegations.${name}`, async (place, ...values) => {
        const id = delegationOf(place) ?? delegationOf(host.documents.active?.uri);
        const delegation =
          id === undefined ? await choose(parts, placeholder, fits) : (store.delegation(id) ?? (await store.read(id)));
        if (delegation) await work(delegation, ...values);
      }),
    );
  };

  on(
    "open",
    t("Which delegation?"),
    () => true,
    (delegation) => host.documents.show(transcriptUri(delegation), { preview: true }),
  );
  on("cancel", t("Which one is to be cancelled?"), isLive, async ({ id }) => {
    await asker.ask("understudy/delegations/cancel", { id });
    await store.read(id);
  });
  on(
    "answer",
    t("Which question?"),
    ({ waitingFor }) => waitingFor !== undefined,
    async (delegation, requestId, option) => {
      const same = requestId === undefined || requestId === delegation.waitingFor?.requestId;
      if (typeof option === "string" && same) await runs.answer(delegation, option);
      else await ask(parts, delegation);
    },
  );
  on("reply", t("To which one?"), mayReply, async (delegation) => {
    const outcome = await host.windows.input({
      title: t("Reply to “{0}”", delegation.title),
      prompt: t("What is to be done differently? What you rejected, and why, is told along."),
      validate: (value) => (value.trim() === "" ? t("Say what is to be done differently.") : undefined),
    });
    if (outcome.kind !== "accepted") return;
    const { id } = await asker.ask("understudy/delegations/reply", { id: delegation.id, text: outcome.value });
    await runs.started(id);
  });
  on(
    "retry",
    t("Which one is to be tried again?"),
    (delegation) => !isLive(delegation),
    async (delegation) => {
      const delegator = await whom(parts, delegation);
      if (delegator === undefined) return;
      const { id } = await asker.ask("understudy/delegations/retry", { id: delegation.id, delegator });
      await runs.started(id);
    },
  );
  on("discard", t("Which one is to be discarded?"), mayDiscard, async (delegation) => {
    const discard = t("Discard");
    const detail = t("Its files are taken off the disk. “Restore” brings them back as they are. Your own files stay.");
    const options = { buttons: [discard], modal: true, detail };
    const text = t("Discard the result of “{0}”?", delegation.title);
    if ((await host.windows.message("warning", text, options)) !== discard) return;
    await asker.ask("understudy/delegations/discard", { id: delegation.id });
    await store.read(delegation.id);
  });
  on(
    "restore",
    t("Which one is to be restored?"),
    ({ rescueRef }) => rescueRef !== undefined,
    async ({ id, rescueRef, title }) => {
      if (rescueRef === undefined) {
        await host.windows.message("info", t("The files of “{0}” are there.", title));
        return;
      }
      await asker.ask("understudy/worktrees/restore", { rescueRef });
      await store.read(id);
    },
  );
  on(
    "copyId",
    t("Which delegation?"),
    () => true,
    ({ id }) => host.environment.copyToClipboard(id),
  );
  on(
    "openWorktree",
    t("Whose files?"),
    ({ worktree, rescueRef }) => worktree !== undefined && rescueRef === undefined,
    async ({ id, worktree }) => {
      if (worktree === undefined || !(await mayOpen(parts, id))) return;
      await host.windows.openFolder(worktree);
    },
  );
  bag.add(
    host.commands.register("understudy.delegations.more", async (group) => {
      if (rows.more((group ?? "done") as Group)) await store.readMore();
    }),
  );
  return bag;
}

/** Put the question of an agent to the person, with all that it says. */
async function ask({ host, runs }: DelegationCommandParts, delegation: Delegation): Promise<void> {
  const request = delegation.waitingFor;
  if (!request) {
    await runs.answer(delegation, "");
    return;
  }
  const ordered = orderedOptions(request);
  const item = (option: PermissionOption): PickItem => ({
    id: option.id,
    label: option.title,
    icon: option.kind.startsWith("allow") ? "check" : "close",
    ...(isAlways(option) ? { description: t("from now on, without asking") } : {}),
    ...(option.id === request.onDeadline && request.deadline !== undefined
      ? { detail: t("What happens when nobody answers by {0}.", clock(request.deadline)) }
      : {}),
  });
  const detail = request.detail.split("\n").flatMap((text) => wrapped(text.trim(), 90));
  // Whole: nobody should allow what they could read only half of.
  const whole = detail.length <= MOST_ROWS && oneLine(request.title, Infinity).length <= 300;
  const offered = ordered.filter((option) => whole || !option.kind.startsWith("allow"));
  const once = offered.filter((option) => !isAlways(option));
  const always = offered.filter(isAlways);
  const show: PickItem = {
    id: "show",
    label: t("Show the Transcript"),
    icon: "book",
    ...(whole ? {} : { detail: t("All of it is there, and there it can be allowed: it is too long for this list.") }),
  };
  const line = (id: string, label: string): PickItem => ({ id, label, separator: true });
  const outcome = await host.windows.pick({
    title: t("{0} asks: {1}", delegation.delegator, oneLine(request.title, 60)),
    placeholder: oneLine(request.title, 300),
    items: [
      ...once.map(item),
      ...(always.length > 0 ? [line("line:always", t("for ever")), ...always.map(item)] : []),
      line("line:detail", t("what it says")),
      ...detail.slice(0, MOST_ROWS).map((text, index) => ({ id: `detail:${index}`, label: text })),
      show,
    ],
  });
  const chosen = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  if (chosen === "show" || chosen?.startsWith("detail:"))
    await host.commands.run("understudy.delegations.open", delegation.id);
  else if (chosen !== undefined) await runs.answer(delegation, chosen);
}

/**
 * Whether the files of a result may be opened as a folder. The editor asks whether it is to be trusted, but not below a
 * folder that is; and then it obeys settings and programs that an agent has written.
 */
async function mayOpen({ host, asker }: DelegationCommandParts, id: string): Promise<boolean> {
  const files = await asker.ask("understudy/delegations/diff", { id }).then(
    (diff) => diff.files,
    () => undefined, // there is no result: what it left may be anything
  );
  const flagged = files?.filter((file) => file.flagged !== undefined);
  if (flagged?.length === 0) return true;
  const open = t("Open");
  const text = t(
    "An editor obeys or runs some files as soon as their folder is open and trusted, and an agent wrote these.",
  );
  const detail = flagged?.map((file) => `${oneLine(shownPath(file.path), 200)} ${file.flagged ?? ""}`).join("\n");
  const options = { modal: true, buttons: [open], ...(detail === undefined ? {} : { detail }) };
  return (await host.windows.message("warning", text, options)) === open;
}

/** Who tries again: the same one, or another. Undefined: nobody. */
async function whom({ host, store }: DelegationCommandParts, delegation: Delegation): Promise<string | undefined> {
  const entries = store.delegators.filter(({ state }) => state.ready);
  const same = store.delegator(delegation.delegator);
  const items: PickItem[] = [
    {
      id: delegation.delegator,
      label: delegation.delegator,
      description: t("the same again"),
      icon: "refresh",
      ...(same?.state.ready === false ? { detail: same.state.problems[0]?.message ?? t("not ready") } : {}),
    },
    ...entries
      .filter(({ delegator }) => delegator.name !== delegation.delegator)
      .map(({ delegator }) => ({
        id: delegator.name,
        label: delegator.displayName ?? delegator.name,
        description: driverWords(delegator),
        icon: delegator.tool ? "terminal" : "server",
      })),
  ];
  const outcome = await host.windows.pick({
    title: t("Try “{0}” Again", delegation.title),
    placeholder: t("From the state it started from. Who does it?"),
    items,
  });
  return outcome.kind === "picked" ? outcome.ids[0] : undefined;
}

async function choose(
  { host, store, here }: DelegationCommandParts,
  placeholder: string,
  fits: Fits,
): Promise<Delegation | undefined> {
  const fitting = store.delegations.filter(fits);
  const own = fitting.filter(here);
  const found = own.length > 0 ? own : fitting;
  if (found.length === 0) {
    await host.windows.message("info", t("There is no delegation for this."));
    return undefined;
  }
  const only = found[0];
  if (found.length === 1 && only?.waitingFor) return only;
  const items = found.map((delegation) => ({
    id: delegation.id,
    label: delegation.title,
    description: `${standing(delegation)} · ${delegation.delegator}`,
    icon: stateIcon(delegation).id,
  }));
  const outcome = await host.windows.pick({ title: t("Understudy"), placeholder, items });
  return outcome.kind === "picked" ? store.delegation(outcome.ids[0] ?? "") : undefined;
}

/** A long line as several, broken at spaces where there are some. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  for (let rest = text; rest !== "";) {
    const space = rest.length > most ? rest.lastIndexOf(" ", most) : rest.length;
    const end = space > 0 ? space : most;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return lines;
}

function mayReply(delegation: Delegation): boolean {
  return !isLive(delegation) && delegation.rescueRef === undefined && delegation.result !== undefined;
}

function mayDiscard(delegation: Delegation): boolean {
  return !isLive(delegation) && delegation.worktree !== undefined && delegation.rescueRef === undefined;
}

function clock(time: string): string {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
