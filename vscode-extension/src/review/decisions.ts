/** Send decisions on a result: ask for the confirmations they need, and report conflicts and the end of the review. */

import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import { displayPath, oneLine } from "../state/formatting.ts";
import type { Decision, DecideResult, FileDiff } from "../protocol.ts";
import { isPending } from "./hunks.ts";
import type { DocumentSaver } from "./documentSaver.ts";
import type { OpenResult } from "./openResults.ts";

export interface DecisionDeps {
  readonly host: Pick<Host, "windows" | "commands">;
  /** Whether the result can be sent back to its agent. */
  readonly canSendBack: (id: string) => Promise<boolean>;
  readonly saver: DocumentSaver;
}

export class Decisions {
  readonly #deps: DecisionDeps;

  constructor(deps: DecisionDeps) {
    this.#deps = deps;
  }

  /** Send decisions. Ask first if a file has a flag reason, and report conflicts. */
  async send(result: OpenResult, wishes: readonly Decision[]): Promise<void> {
    const { host } = this.#deps;
    const before = pendingCount(result);
    const asked = flaggedBy(result, wishes);
    let meant = wishes;
    if (asked.length > 0) {
      const others = result.files.filter((file) => file.flagReason === undefined && file.hunks.some(isPending));
      const everything = wishes.some((wish) => wish.path === undefined);
      const [all, rest] = [t("Accept All"), t("Accept Only the Other Files")];
      const answer = await host.windows.message(
        "warning",
        t("Once accepted, some of these files affect what runs on your machine."),
        {
          modal: true,
          // One line each: a file name may contain line feeds with text of its own.
          detail: asked
            .map(({ path: name, flagReason: flagged }) => `${oneLine(displayPath(name), 200)} ${flagged ?? ""}`)
            .join("\n"),
          buttons: everything && others.length > 0 ? [rest, all] : [all],
        },
      );
      if (answer === undefined) return;
      if (answer === rest) meant = others.map((file) => ({ path: file.path, decision: "accept" as const }));
    }
    const flagged = asked.length > 0 && meant === wishes;
    const done = await this.#deps.saver.saving(result, () => result.decide(meant, flagged));
    const unsaved = await this.#unsavedText(result, done);
    if (done.conflicts.length > 0) {
      void this.#reportConflicts(result, done, unsaved);
    } else if (before > 0 && pendingCount(result) === 0) {
      void this.#reportDone(result, done.undoToken, unsaved);
    } else if (done.undoToken !== undefined) {
      const { hunks, undoToken } = done;
      const count = hunks.filter((hunk) => hunk.undoToken === undoToken).length;
      void this.#reportAccepted(result.id, count, undoToken, unsaved);
    }
  }

  /** A sentence about accepted changes that are in an editor only, after a space; empty if there are none. */
  async #unsavedText(result: OpenResult, { decided }: DecideResult): Promise<string> {
    const files = result.files.filter((file) =>
      file.hunks.some(({ id, state }) => state === "accepted" && decided.includes(id)),
    );
    const names = await this.#deps.saver.unsaved(
      result,
      files.map((file) => file.path),
    );
    return names.length === 0
      ? ""
      : ` ${t("Not saved, because you have unsaved changes there: {0}.", names.join(", "))}`;
  }

  async #reportConflicts(
    result: OpenResult,
    { conflicts, hunks, undoToken }: DecideResult,
    unsaved: string,
  ): Promise<void> {
    const { host } = this.#deps;
    const names = [...new Set(conflicts.map((conflict) => displayPath(conflict.path)))].join(", ");
    const [resolve, undo] = [t("Resolve…"), t("Undo")];
    const accepted = undoToken === undefined ? 0 : hunks.filter((hunk) => hunk.undoToken === undoToken).length;
    const [first] = conflicts;
    if (!first) return;
    const text =
      accepted === 0
        ? t("{0} has a conflict: you and the agent both changed it. Your file was not modified.", names)
        : t("{0} has a conflict: you and the agent both changed it. {1}", names, acceptedText(accepted));
    const buttons = accepted === 0 ? [resolve] : [resolve, undo];
    const answer = await host.windows.message("warning", text + unsaved, { buttons });
    const row = `hunk:${result.id}:${first.path}:${first.hunk}`;
    if (answer === resolve) await host.commands.run("understudy.review.openConflict", row);
    if (answer === undo) await host.commands.run("understudy.review.undo", undoToken);
  }

  async #reportAccepted(id: string, count: number, token: string, unsaved: string): Promise<void> {
    const { host } = this.#deps;
    if (unsaved === "") {
      // The review shows it, with its own button to undo.
      host.windows.flash(acceptedText(count));
      return;
    }
    const undo = t("Undo");
    // After each single change, these would be in the way: they are also in the menu of the view.
    const buttons = count > 1 ? [...afterAccept().keys(), undo] : [undo];
    const answer = await host.windows.message("info", acceptedText(count) + unsaved, { buttons });
    if (answer === undo) await host.commands.run("understudy.review.undo", token);
    await this.#runAfterAccept(answer, id);
  }

  async #runAfterAccept(answer: string | undefined, id: string): Promise<void> {
    const command = answer === undefined ? undefined : afterAccept().get(answer);
    if (command !== undefined) await this.#deps.host.commands.run(command, id);
  }

  async #reportDone(result: OpenResult, token: string | undefined, unsaved: string): Promise<void> {
    const { host } = this.#deps;
    const { hunks: spots } = result;
    const rejected = spots.filter(({ hunk }) => hunk.state === "rejected").length;
    const accepted = spots.filter(({ hunk }) => hunk.state === "accepted").length;
    const [back, retry, close, undo] = [t("Send Back…"), t("Retry with…"), t("Close Review"), t("Undo")];
    const again = rejected === 0 ? [] : [(await this.#deps.canSendBack(result.id)) ? back : retry];
    const remedies = accepted === 0 ? [] : [...afterAccept().keys()];
    const answer = await host.windows.message(
      "info",
      t("Review complete: {0} accepted, {1} rejected.", accepted, rejected) + unsaved,
      { buttons: [...remedies, ...(token === undefined ? [] : [undo]), ...again, close] },
    );
    await this.#runAfterAccept(answer, result.id);
    if (answer === back) await host.commands.run("understudy.review.sendBack", result.id);
    if (answer === retry) await host.commands.run("understudy.delegations.retryWith", result.id);
    if (answer === undo) await host.commands.run("understudy.review.undo", token);
    if (answer === close) await host.commands.run("understudy.review.close", result.id);
  }
}

/** Title of a button → the command that it runs for the result. */
function afterAccept(): ReadonlyMap<string, string> {
  return new Map([
    [t("Run My Checks"), "understudy.checks.run"],
    [t("Commit…"), "understudy.review.commit"],
  ]);
}

function acceptedText(count: number): string {
  return count === 1 ? t("1 change accepted.") : t("{0} changes accepted.", count);
}

/** The number of hunks without a decision. */
export function pendingCount(result: OpenResult): number {
  return result.hunks.filter(({ hunk }) => hunk.state === "pending").length;
}

/** Files with a flag reason that these decisions would accept. */
function flaggedBy(result: OpenResult, wishes: readonly Decision[]): readonly FileDiff[] {
  const accepts = ({ path: name, hunk, decision, mergedManually }: Decision, file: FileDiff): boolean =>
    decision === "accept" &&
    mergedManually !== true &&
    (name === undefined || name === file.path) &&
    file.hunks.some((one) => (hunk === undefined ? isPending(one) : hunk === one.id && one.state !== "accepted"));
  return result.files.filter((file) => file.flagReason !== undefined && wishes.some((wish) => accepts(wish, file)));
}
