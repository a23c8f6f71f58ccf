/** Commands of a review, from the view, a bar, a lens, a key or the palette. */

import { createHash } from "node:crypto";
import * as path from "node:path";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { DiffPair, Host, Tree } from "../host/host.ts";
import { carriedText, confirmStrengthening, followsInstructions, takesInstructions } from "../state/instructions.ts";
import type { Store } from "../state/store.ts";
import { needEngine } from "../state/engineNeeded.ts";
import { isToReview } from "../state/wording.ts";
import { displayPath, oneLine } from "../state/formatting.ts";
import type { Decision, Delegation, FileDiff, Range } from "../protocol.ts";
import { delegationIdOf } from "../state/delegationUris.ts";
import { Conflicts } from "./conflicts.ts";
import { Decisions, pendingCount } from "./decisions.ts";
import { DocumentSaver } from "./documentSaver.ts";
import { commitAccepted, exportResult } from "./exportResult.ts";
import type { OpenResults, OpenResult } from "./openResults.ts";
import { isEditable } from "./resultFiles.ts";
import { undoChoices, undoTokenId } from "./undoChoices.ts";
import {
  hunkAt,
  onlyNewFile,
  isPending,
  linesOf,
  parseRowId,
  adjacentHunk,
  rejectionReasons,
  verifiedChanges,
  type ReviewTarget,
  type HunkRef,
} from "./hunks.ts";
import { BASE, EDIT, EMPTY, EVIDENCE, parseReviewUri, RESULT, THEIRS, reviewUri, YOURS } from "./reviewUris.ts";
import { documentUri, evidenceUri, hunkRange, LENS_SETTING, type ReviewEditor } from "./reviewEditor.ts";
import { dropIdleTests } from "./dropTests.ts";
import { commentCount, commentText, type LineComments } from "./lineComments.ts";
import { verdictLine } from "./reviewWording.ts";

/** Commands that are also buttons without an icon: a menu shows the icon of a command instead of its title. */
const BUTTONS = new Set([
  ...["acceptHunk", "rejectHunk", "rejectHunkWithReason", "undoChange", "openConflict"],
  ...["acceptAll", "acceptVerified", "rejectAll", "sendBack", "evidence"],
]);

/** Memory key of the tab that shows the review: it outlives the window. */
const TAB_KEY = "review.tab";

export interface ReviewCommandDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "review" | "environment" | "memory" | "workspace">;
  readonly requester: Requester;
  readonly store: Pick<Store, "delegation" | "delegations" | "delegator" | "loaded" | "onDidChange" | "read">;
  readonly openResults: OpenResults;
  readonly tree: Pick<Tree, "reveal" | "selection">;
  readonly reviewEditor: Pick<ReviewEditor, "resetBar">;
  readonly comments: Pick<LineComments, "of" | "clear">;
  /** Called when a delegation was started here: its result is reported to the user. */
  readonly started: (id: string) => void;
  /** Called when the tab was shown or a change was visited: `activeFile` may be another one. */
  readonly visited: () => void;
}

export interface RegisteredReviewCommands extends Disposable {
  /** The file of the review that the commands in the title of the active editor apply to. */
  activeFile(): FileDiff | undefined;
  /** Decide on hunks of any result, as its review does. */
  decide(id: string, decisions: readonly Decision[]): Promise<void>;
}

export function registerReviewCommands(deps: ReviewCommandDeps): RegisteredReviewCommands {
  const disposables = new DisposableStore();
  const commands = disposables.add(new ReviewCommands(deps));
  const add = (name: string, work: (value: unknown) => Promise<void> | void): void => {
    for (const command of BUTTONS.has(name) ? [name, `button.${name}`] : [name])
      disposables.add(deps.host.commands.register(`understudy.review.${command}`, work));
  };
  add("open", (value) => commands.open(value));
  add("close", (value) => commands.close(value));
  add("show", (value) => commands.show(value));
  add("evidence", (value) => commands.evidence(value));
  add("acceptHunk", (value) => commands.accept(value));
  add("rejectHunk", (value) => commands.reject(value, false));
  add("rejectHunkWithReason", (value) => commands.reject(value, true));
  add("acceptFile", (value) => commands.accept(value, "file"));
  add("rejectFile", (value) => commands.reject(value, false, "file"));
  add("acceptAll", () => commands.acceptAll());
  add("acceptVerified", () => commands.acceptVerified());
  add("rejectAll", () => commands.rejectAll());
  add("undo", (value) => commands.undo(value));
  add("undoLast", () => commands.undoLast());
  add("undoChange", (value) => commands.undoChange(value));
  add("edit", (value) => commands.edit(value));
  add("undoEdit", (value) => commands.undoEdit(value));
  add("next", () => commands.goTo(1));
  add("previous", () => commands.goTo(-1));
  add("sendBack", (value) => commands.sendBack(value));
  add("strengthen", () => commands.strengthen());
  add("askForTests", () => commands.strengthen());
  add("dropTests", (value) => commands.dropTests(value));
  add("openConflict", (value) => commands.openConflict(value));
  add("markResolved", (value) => commands.markResolved(value));
  add("check", () => commands.check());
  add("useLenses", () => commands.useLenses());
  add("button.addCheck", async (value) => {
    await deps.host.commands.run("understudy.checks.add", value);
  });
  add("export", () => commands.export());
  add("commit", (value) => commands.commit(value));
  return {
    activeFile: () => commands.activeFile(),
    decide: (id, decisions) => commands.decide(id, decisions),
    dispose: () => disposables.dispose(),
  };
}

class ReviewCommands implements Disposable {
  readonly #deps: ReviewCommandDeps;
  /** The hunk visited last. */
  #last: HunkRef | undefined;
  /** Where the cursor was after that: as long as it stays there, that hunk is meant, even if the editor did not move it. */
  #lastCursor = "";
  /** The hunk that is being opened. */
  #opening: HunkRef | undefined;
  readonly #conflicts: Conflicts;
  readonly #decisions: Decisions;
  readonly #saver: DocumentSaver;

  constructor(deps: ReviewCommandDeps) {
    this.#deps = deps;
    this.#saver = new DocumentSaver({ host: deps.host, delegation: (id) => this.#delegation(id) });
    this.#decisions = new Decisions({
      host: deps.host,
      saver: this.#saver,
      canSendBack: async (id) => takesInstructions(deps.store, await this.#delegation(id)),
    });
    this.#conflicts = new Conflicts({
      host: deps.host,
      openResults: deps.openResults,
      store: deps.store,
      delegation: (id) => this.#delegation(id),
      decide: (result, decisions) => this.#decisions.send(result, decisions),
    });
  }

  dispose(): void {
    this.#conflicts.dispose();
  }

  async decide(id: string, decisions: readonly Decision[]): Promise<void> {
    await this.#decisions.send(await this.#deps.openResults.result(id), decisions);
  }

  /** At the cursor. Only a binary file has none: then the one that was visited last, or the only one. */
  activeFile(): FileDiff | undefined {
    const { host, store, openResults } = this.#deps;
    const { current } = openResults;
    const delegation = current && store.delegation(current.id);
    if (!delegation) return undefined;
    const here = this.#atCursor(current);
    if (here) return here.file;
    if (host.documents.active || !host.review.isActive(reviewTitle(delegation))) return undefined;
    const [only, ...others] = current.files;
    const visited = this.#last?.id === current.id ? current.file(this.#last.file.path) : undefined;
    const file = visited ?? (others.length === 0 ? only : undefined);
    // A text file without a cursor is collapsed or scrolled past: the user may look at another one.
    return file?.binary ? file : undefined;
  }

  async open(value: unknown): Promise<void> {
    const { host, store, openResults, requester, tree } = this.#deps;
    const id = delegationIdOf(value) ?? (await this.#pickResult());
    if (id === undefined) return;
    let delegation = await this.#delegation(id);
    if (delegation.state === "checking" && delegation.head !== undefined) {
      const stop = t("Stop Checks and Decide Now");
      const text = t("The checks of “{0}” still run. You can decide when they have ended.", delegation.title);
      if ((await host.windows.message("info", text, { buttons: [stop] })) !== stop) return;
      delegation = await requester.request("understudy/delegations/cancel", { id, onlyChecks: true });
    }
    if (delegation.state !== "finished") {
      await host.windows.message("info", t("“{0}” is not finished yet.", delegation.title));
      return;
    }
    if (delegation.head === undefined || (delegation.result?.files.length ?? 0) === 0) {
      await host.windows.message("info", t("“{0}” has no changes to review.", delegation.title));
      return;
    }
    const before = openResults.current?.id;
    const result = await host.windows.progress({ title: t("Reading the result…"), where: "status" }, () =>
      openResults.review(id),
    );
    this.#last = undefined;
    host.commands.setContext("understudy.reviewing", true);
    // Only one review at a time: tabs of two reviews look the same.
    if (before !== undefined && before !== id) await this.#closeTabs(before);
    await this.#showReview(result);
    // The view appears once its condition holds; until then there is nothing to reveal.
    await tree.reveal(`verdict:${id}`, { expand: true }).catch(() => {});
    await store.read(id);
  }

  /** Close the review; a message about another one closes nothing. */
  async close(value: unknown): Promise<void> {
    const { host, openResults } = this.#deps;
    const id = openResults.current?.id;
    if ((delegationIdOf(value) ?? id) !== id) return;
    openResults.close();
    this.#last = undefined;
    this.#conflicts.clear();
    host.commands.setContext("understudy.reviewing", false);
    host.commands.setContext("understudy.reviewEditor", false);
    if (id !== undefined) await this.#closeTabs(id);
  }

  async show(value: unknown): Promise<void> {
    const place = parseRowId(value);
    if (!place) return;
    const result = await this.#deps.openResults.result(place.id);
    const file = result.file(place.path);
    if (!file) return;
    const hunkRef =
      place.kind === "hunk" ? result.hunk(place.path, place.hunk) : result.hunks.find((one) => one.file === file);
    if (!hunkRef) return;
    this.#deps.reviewEditor.resetBar(hunkRef);
    await this.#reveal(hunkRef);
  }

  async evidence(value: unknown): Promise<void> {
    const id = delegationIdOf(value) ?? this.#deps.openResults.current?.id;
    if (id !== undefined) await this.#deps.host.documents.preview(evidenceUri(await this.#delegation(id)));
  }

  async accept(value: unknown, whole?: "file"): Promise<void> {
    const target = await this.#targetOf(value, whole);
    if (!target || (await this.#hasUnsavedEdits(target.result, [target.named.path]))) return;
    await this.#decisions.send(target.result, [{ ...decisionTarget(target.named), decision: "accept" }]);
    if (value === undefined && !hasConflict(target)) await this.#revealNext(target);
  }

  async reject(value: unknown, why: boolean, whole?: "file"): Promise<void> {
    const target = await this.#targetOf(value, whole);
    if (!target || (await this.#hasUnsavedEdits(target.result, [target.named.path]))) return;
    const hunkRef = target.named.kind === "hunk" ? target.result.hunk(target.named.path, target.named.hunk) : undefined;
    let reason: string | undefined;
    if (why) {
      const outcome = await this.#deps.host.windows.input({
        title: t("Reject with Reason"),
        prompt: t("What is wrong with this change? The agent gets the reason when you send the result back."),
        placeholder: t("For example: keep the old name"),
        ...(hunkRef?.hunk.reason === undefined ? {} : { value: hunkRef.hunk.reason }),
        validate: (text) => (text.trim() === "" ? t("Enter a reason, or use Reject Change instead.") : undefined),
      });
      if (outcome.kind !== "accepted") return;
      reason = outcome.value.trim();
    }
    await this.#decisions.send(target.result, [
      { ...decisionTarget(target.named), decision: "reject", ...(reason === undefined ? {} : { reason }) },
    ]);
    if (value === undefined) await this.#revealNext(target);
  }

  async acceptAll(): Promise<void> {
    const result = await this.#current();
    if (!result) return;
    const paths = result.files.filter(({ hunks }) => hunks.some(({ state }) => state === "pending")).map((f) => f.path);
    if (paths.length === 0) {
      await this.#deps.host.windows.message("info", t("There are no pending changes."));
      return;
    }
    if (await this.#hasUnsavedEdits(result, paths)) return;
    await this.#decisions.send(result, [{ decision: "accept" }]);
  }

  /** Accept the pending changes of which every place is tested; the others stay pending. */
  async acceptVerified(): Promise<void> {
    const result = await this.#current();
    if (!result) return;
    const verified = verifiedChanges(result.files);
    if (verified.length === 0) {
      await this.#deps.host.windows.message("info", t("There are no pending changes of which every place is tested."));
      return;
    }
    if (await this.#hasUnsavedEdits(result, [...new Set(verified.map(({ path }) => path))])) return;
    await this.#decisions.send(
      result,
      verified.map((change) => ({ ...change, decision: "accept" as const })),
    );
  }

  /** Reject every pending change; what was accepted stays. */
  async rejectAll(): Promise<void> {
    const { host } = this.#deps;
    const result = await this.#currentSaved();
    if (!result) return;
    const count = pendingCount(result);
    if (count === 0) {
      await host.windows.message("info", t("There are no pending changes."));
      return;
    }
    const reject = t("Reject All");
    const text = count === 1 ? t("Reject the pending change?") : t("Reject all {0} pending changes?", count);
    const detail = t("Your files are not changed. Each rejection can be undone.");
    if ((await host.windows.message("warning", text, { buttons: [reject], modal: true, detail })) !== reject) return;
    const pending = result.hunks.filter(({ hunk }) => hunk.state === "pending");
    await this.#decisions.send(
      result,
      pending.map(({ file, hunk }) => ({ path: file.path, hunk: hunk.id, decision: "reject" as const })),
    );
  }

  /** Undo an accept by its token; without one, ask what to undo. */
  async undo(value: unknown): Promise<void> {
    const { host, openResults } = this.#deps;
    const id = undoTokenId(value);
    if (id !== undefined) {
      // The message with the button stays when the accept is undone elsewhere: VS Code cannot close it.
      const result = await openResults.result(id);
      const { undoable } = await result.read();
      if (undoable.some(({ undoToken }) => undoToken === value)) await this.#undo(result, value as string);
      else await host.windows.message("info", t("This accept is already undone."));
      return;
    }
    const result = await this.#resultToUndo(
      (current) => undoChoices(current).length > 0,
      ({ accepted, rejected }) => accepted + rejected > 0,
    );
    if (!result) return;
    const choices = undoChoices(result);
    const title = t("Undo");
    const outcome = await host.windows.pick({
      title,
      placeholder: t("Choose what to undo. Your later edits are kept."),
      items: choices.map(({ item }) => item),
    });
    const choice = outcome.kind === "picked" && choices.find(({ item }) => item.id === outcome.ids[0]);
    if (choice) await this.#saver.saving(result, choice.undo);
  }

  /** Undo an accept, or some of its hunks. */
  async #undo(result: OpenResult, token: string, hunks?: readonly string[]): Promise<void> {
    await this.#saver.saving(result, () => result.undo(token, hunks));
  }

  /** Undo the newest accept of the review, or of another result; the accepts before it stay. */
  async undoLast(): Promise<void> {
    const result = await this.#resultToUndo(
      ({ undoable }) => undoable.length > 0,
      ({ accepted }) => accepted > 0,
    );
    const [last] = result?.undoable ?? [];
    if (result && last) await this.#undo(result, last.undoToken);
  }

  /** Undo the decision on a change, or on all changes of a file. */
  async undoChange(value: unknown): Promise<void> {
    const target = await this.#targetOf(value);
    if (!target) return;
    const { result, named } = target;
    const hunks = (result.file(named.path)?.hunks ?? []).filter(
      (hunk) => named.kind === "file" || hunk.id === named.hunk,
    );
    const tokens = new Set(hunks.flatMap(({ undoToken }) => undoToken ?? []));
    const rejected = hunks.filter(({ state }) => state === "rejected");
    if (tokens.size + rejected.length === 0) {
      await this.#deps.host.windows.message("info", t("There is no decision to undo here."));
      return;
    }
    for (const token of tokens) {
      await this.#undo(
        result,
        token,
        hunks.filter(({ undoToken }) => undoToken === token).map(({ id }) => id),
      );
    }
    if (rejected.length > 0) {
      await this.#decisions.send(
        result,
        rejected.map(({ id }) => ({ path: named.path, hunk: id, decision: "pending" as const })),
      );
    }
  }

  /** Open a writable copy of a file of the result; saving it amends the result. */
  async edit(value: unknown): Promise<void> {
    const { host } = this.#deps;
    const target = await this.#fileToEdit(value);
    if (!target) return;
    const { result, path: name } = target;
    const content = await result.content(name, "result");
    if (!isEditable(content)) {
      await host.windows.message("info", t("{0} is not a text file of the result.", displayPath(name)));
      return;
    }
    const file = result.file(name);
    const at = typeof value === "string" ? parseRowId(value) : undefined;
    const hunkRef = at?.kind === "hunk" ? result.hunk(name, at.hunk) : undefined;
    const shown = displayPath(name);
    await host.review.diff(
      {
        label: t("{0}: Edit Result", path.posix.basename(shown)),
        ...(file?.status === "added" ? {} : { base: reviewUri(BASE, result.id, displayPath(file?.from ?? name)) }),
        result: reviewUri(EDIT, result.id, shown),
      },
      { preview: false, ...(hunkRef ? { range: hunkRange(hunkRef) } : {}) },
    );
  }

  /** Restore the version of a file before the user's last edit. */
  async undoEdit(value: unknown): Promise<void> {
    const { host } = this.#deps;
    const target = await this.#targetFile(value);
    const result = target?.result ?? (await this.#current());
    if (!result) return;
    const edited = result.edited.filter(({ undoable }) => undoable).map((file) => file.path);
    let name = target && edited.includes(target.path) ? target.path : undefined;
    if (name === undefined && edited.length > 0) {
      name = await this.#pickFile(t("Undo Edit"), t("Choose the file whose last edit to undo"), edited);
      if (name === undefined) return;
    }
    if (name === undefined) {
      await host.windows.message("info", t("There is no edit to undo."));
      return;
    }
    if (await this.#hasUnsavedEdits(result, [name])) return;
    await result.undoEdit(name);
  }

  async goTo(step: 1 | -1): Promise<void> {
    const result = await this.#current();
    if (!result) return;
    const hunkRef = adjacentHunk(result.hunks, this.#opening ?? this.#atCursor(result) ?? this.#last, step);
    if (hunkRef) await this.#reveal(hunkRef);
  }

  /** Send the review back, or the result that a message or a row is about. */
  async sendBack(value: unknown): Promise<void> {
    const { host, requester, openResults } = this.#deps;
    const id = delegationIdOf(value);
    if (id !== undefined && id !== openResults.current?.id) await this.open(id);
    if (id !== undefined && id !== openResults.current?.id) return;
    const result = await this.#currentSaved();
    if (!result || !(await followsInstructions(this.#deps, await this.#delegation(result.id)))) return;
    const { hunks: spots } = result;
    const rejected = spots.filter(({ hunk }) => hunk.state === "rejected");
    const said = rejectionReasons(spots).map(
      ({ reason, places }) => `${places.map((place) => oneLine(place, 60)).join(", ")}: ${reason}`,
    );
    const comments = this.#deps.comments.of(result.id);
    const along = [
      ...(rejected.length > 0 ? [t("{0} rejected", rejected.length)] : []),
      ...(comments.length > 0 ? [commentCount(comments)] : []),
    ];
    const outcome = await host.windows.input({
      title: t("Send Back"),
      prompt: [
        along.length > 0
          ? t("What should change? The agent also gets your reasons. Changes: {0}.", along.join(", "))
          : t("What should change?"),
        carriedText(result.files),
      ]
        .join(" ")
        .trim(),
      value: [...said, ...comments.map(commentText)].map((text) => oneLine(text, Infinity)).join("; "),
      validate: (text) => (text.trim() === "" ? t("Enter instructions.") : undefined),
    });
    if (outcome.kind !== "accepted") return;
    const reply = await requester.request("understudy/delegations/reply", {
      id: result.id,
      text: outcome.value.trim(),
    });
    this.#deps.started(reply.id); // the status bar shows that it runs
    await this.#deps.comments.clear(result.id);
    await result.read();
  }

  async strengthen(): Promise<void> {
    const result = await this.#currentSaved();
    if (!result) return;
    const delegation = await this.#delegation(result.id);
    if (!(await followsInstructions(this.#deps, delegation))) return;
    if (!(await confirmStrengthening(this.#deps, delegation))) return;
    const { id } = await this.#deps.requester.request("understudy/delegations/strengthen", { id: result.id });
    this.#deps.started(id); // the status bar shows that it runs
    await result.read();
  }

  /** Drop new tests that notice nothing: of the result under review, or of the delegation of a row. */
  async dropTests(value: unknown): Promise<void> {
    const { openResults } = this.#deps;
    const id = delegationIdOf(value) ?? openResults.current?.id;
    if (id === undefined || (id === openResults.current?.id && !(await this.#currentSaved()))) return;
    const checkAgain = await dropIdleTests(this.#deps, await this.#delegation(id));
    await this.#deps.store.read(id);
    if (openResults.current?.id === id) await openResults.current.read();
    if (checkAgain) await this.#check(id);
  }

  async check(): Promise<void> {
    const result = await this.#currentSaved();
    if (result) await this.#check(result.id);
  }

  async #check(id: string): Promise<void> {
    // Its row and the status bar show the progress.
    await this.#deps.requester.request("understudy/delegations/check", { id });
    await this.#deps.store.read(id);
  }

  /** Show actions as lenses instead of bars, which also turns them on in other diffs. */
  async useLenses(): Promise<void> {
    const { windows, workspace } = this.#deps.host;
    const on = t("Turn On");
    const answer = await windows.message("info", t("Show the actions of a review in one line above each change?"), {
      modal: true,
      detail: t("This turns on code lenses in all diffs: the setting {0}.", LENS_SETTING),
      buttons: [on],
    });
    if (answer === on) await workspace.setEditorSetting(LENS_SETTING, true);
  }

  async export(): Promise<void> {
    const result = await this.#current();
    if (result) await exportResult(this.#deps, result.id);
  }

  async commit(value: unknown): Promise<void> {
    const id = delegationIdOf(value) ?? (await this.#current())?.id;
    if (id !== undefined) await commitAccepted(this.#deps, id);
  }

  async openConflict(value: unknown): Promise<void> {
    const target = await this.#targetOf(value);
    if (target) await this.#conflicts.open(target.result, target.named.path);
  }

  async markResolved(value: unknown): Promise<void> {
    const row = typeof value === "string" ? this.#conflicts.rowOf(value) : undefined;
    const target = await this.#targetOf(row ?? value);
    if (target) await this.#conflicts.markResolved(target.result, target.named);
  }

  /** Whether the result has unsaved edits; offers to save them. The user must decide on what they see. */
  async #hasUnsavedEdits(result: OpenResult, paths: readonly string[]): Promise<boolean> {
    const { host } = this.#deps;
    const shown = new Set(paths.map(displayPath));
    const dirty = host.documents.open().filter(({ uri, dirty: changed }) => {
      const place = parseReviewUri(uri);
      return changed && place?.scheme === EDIT && place.id === result.id && shown.has(place.path);
    });
    if (dirty.length === 0) return false;
    const save = t("Save");
    const answer = await host.windows.message(
      "warning",
      t("You have unsaved edits in this result. Save them before you decide."),
      { buttons: [save] },
    );
    if (answer === save) for (const { uri } of dirty) await host.documents.save(uri);
    return true;
  }

  /**
   * The target of a command: the row, bar or lens it came from, otherwise the cursor or the active binary file,
   * otherwise the selection of the view.
   */
  async #targetOf(value: unknown, whole?: "file"): Promise<{ result: OpenResult; named: ReviewTarget } | undefined> {
    const { openResults, host, tree } = this.#deps;
    const told = parseRowId(value);
    if (told) {
      const result = await openResults.result(told.id);
      return { result, named: whole ? { kind: "file", id: told.id, path: told.path } : told };
    }
    const titled = whole && typeof value === "string" ? parseReviewUri(value) : undefined;
    if (titled) {
      // The title of an editor names its file.
      const result = await openResults.result(titled.id);
      const file = result.fileByDisplayPath(titled.path, titled.scheme === BASE ? "base" : "result");
      if (file) return { result, named: { kind: "file", id: titled.id, path: file.path } };
    }
    const result = await this.#current();
    if (!result) return undefined;
    const here = this.#atCursor(result, whole === undefined);
    if (here) return { result, named: whole ? fileTarget(here) : hunkTarget(here) };
    // Before the selection: the title and the keys offer what applies to the active file.
    const file = this.#inEditor(result) ? undefined : this.activeFile();
    const visited = file?.hunks.find(({ id }) => file.path === this.#last?.file.path && id === this.#last.hunk.id);
    const hunk = visited ?? file?.hunks.find(isPending) ?? file?.hunks[0];
    if (file && hunk) {
      const hunkRef = { id: result.id, file, hunk };
      return { result, named: whole ? fileTarget(hunkRef) : hunkTarget(hunkRef) };
    }
    const selected = this.#inEditor(result) ? undefined : parseRowId(tree.selection[0]);
    if (selected?.id === result.id) return { result, named: whole ? { ...selected, kind: "file" } : selected };
    await host.windows.message("info", t("Place the cursor on a change, or select one in the Review view."));
    return undefined;
  }

  /** The file of a row, a bar or a document, otherwise of the cursor or the selection. */
  async #targetFile(value: unknown): Promise<{ result: OpenResult; path: string } | undefined> {
    const { openResults, host, tree } = this.#deps;
    for (const one of [value, host.documents.active?.uri, tree.selection[0]]) {
      const row = parseRowId(one);
      if (row) return { result: await openResults.result(row.id), path: row.path };
      const place = typeof one === "string" ? parseReviewUri(one) : undefined;
      if (!place) continue;
      const result = await openResults.result(place.id);
      const found = result.wirePath(place.path, place.scheme === BASE ? "base" : "result");
      if (found !== undefined) return { result, path: found };
    }
    return undefined;
  }

  async #fileToEdit(value: unknown): Promise<{ result: OpenResult; path: string } | undefined> {
    const target = await this.#targetFile(value);
    if (target) return target;
    const result = await this.#current();
    if (!result) return undefined;
    const paths = [
      ...result.files.filter(({ binary, status }) => !binary && status !== "deleted").map((file) => file.path),
      ...result.edited.filter((file) => !result.file(file.path)).map((file) => file.path),
    ];
    const [first] = paths;
    const found =
      paths.length > 1 ? await this.#pickFile(t("Edit Result"), t("Choose the file to edit"), paths) : first;
    return found === undefined ? undefined : { result, path: found };
  }

  async #pickFile(title: string, placeholder: string, paths: readonly string[]): Promise<string | undefined> {
    const items = paths.map((name) => ({ id: name, label: displayPath(name), icon: "file" }));
    const outcome = await this.#deps.host.windows.pick({ title, placeholder, items });
    return outcome.kind === "picked" ? outcome.ids[0] : undefined;
  }

  /** The review, or another result, with something to undo. `decided`: the same of a result that is not open. */
  async #resultToUndo(
    open: (result: OpenResult) => boolean,
    decided: (review: Delegation["review"]) => boolean,
  ): Promise<OpenResult | undefined> {
    const { host, requester, store, openResults } = this.#deps;
    const { current } = openResults;
    if (current && open(current)) return current;
    const others = store.delegations.filter(
      ({ id, review, rescueRef }) => id !== current?.id && decided(review) && rescueRef === undefined,
    );
    const [only] = others;
    if (!only) {
      await needEngine(requester, store);
      await host.windows.message("info", t("There is nothing to undo."));
      return undefined;
    }
    if (others.length === 1) return openResults.result(only.id);
    const outcome = await host.windows.pick({
      title: t("Undo"),
      placeholder: t("Choose a result"),
      items: others.map(({ id, title, delegator }) => ({ id, label: title, description: delegator })),
    });
    const id = outcome.kind === "picked" ? outcome.ids[0] : undefined;
    return id === undefined ? undefined : openResults.result(id);
  }

  #inEditor(result: OpenResult): boolean {
    const { active } = this.#deps.host.documents;
    const place = active && parseReviewUri(active.uri);
    return place?.id === result.id;
  }

  #cursor(): string {
    const { active } = this.#deps.host.documents;
    return active ? JSON.stringify([active.uri, active.selection]) : "";
  }

  /** The change at the cursor. `exactly`: on it or on an adjacent line. */
  #atCursor(result: OpenResult, exactly = false): HunkRef | undefined {
    const { documents } = this.#deps.host;
    const { active } = documents;
    const place = active && parseReviewUri(active.uri);
    if (!active || place?.id !== result.id) return undefined;
    const side = place.scheme === BASE ? "base" : "result";
    const file = result.fileByDisplayPath(place.path, side);
    if (!file) return undefined;
    if (this.#last?.id === result.id && this.#lastCursor === this.#cursor()) {
      const visited = result.hunk(this.#last.file.path, this.#last.hunk.id);
      if (visited) return visited;
    }
    const { line } = active.selection.start;
    const lineSide = side === "base" ? "old" : "new";
    const last = this.#last?.id === result.id && this.#last.file.path === file.path ? this.#last.hunk : undefined;
    const hunk = hunkAt(file, line, lineSide, last);
    if (!hunk) return undefined;
    const { start, end } = linesOf(hunk, lineSide);
    const on = file.hunks.length === 1 || (start - 1 <= line && line <= end + 1);
    return exactly && !on ? undefined : { id: result.id, file, hunk };
  }

  async #reveal(hunkRef: HunkRef): Promise<void> {
    const { tree } = this.#deps;
    this.#last = hunkRef;
    this.#opening = hunkRef;
    const range = hunkRef.file.binary ? {} : { range: hunkRange(hunkRef) };
    try {
      const result = await this.#deps.openResults.result(hunkRef.id);
      await this.#showReview(result, { pair: diffPair(hunkRef.id, hunkRef.file), ...range });
      this.#lastCursor = this.#cursor();
      this.#deps.visited();
    } finally {
      if (this.#opening === hunkRef) this.#opening = undefined;
    }
    if (this.#last !== hunkRef) return; // another one was asked for meanwhile
    await tree.reveal(`hunk:${hunkRef.id}:${hunkRef.file.path}:${hunkRef.hunk.id}`).catch(() => {});
  }

  /**
   * Show the tab of a review. Files that an edit added or removed need another tab, which replaces it. A new file is
   * shown as it is if there is no other file.
   */
  async #showReview(result: OpenResult, at?: { pair: DiffPair; range?: Range }): Promise<void> {
    const { host } = this.#deps;
    const only = onlyNewFile(result.files);
    if (only) {
      const range = at?.range ? { range: at.range } : {};
      await host.documents.show(documentUri(result.id, only), { preview: false, ...range });
      this.#deps.visited();
      return;
    }
    const pairs = result.files.map((file) => diffPair(result.id, file));
    const id = `${result.id}/${createHash("sha256").update(JSON.stringify(pairs)).digest("hex").slice(0, 16)}`;
    const opened = host.memory.get(TAB_KEY, "") === id;
    await host.review.diffs(reviewTitle(await this.#delegation(result.id)), pairs, {
      id,
      opened,
      ...(at === undefined ? {} : { at }),
    });
    this.#deps.visited();
    if (!opened) await host.memory.set(TAB_KEY, id);
  }

  /** After a decision by key: go to the next pending change. */
  async #revealNext({ result, named: place }: { result: OpenResult; named: ReviewTarget }): Promise<void> {
    const from = result.hunks.find(
      ({ file, hunk }) => file.path === place.path && (place.kind === "file" || hunk.id === place.hunk),
    );
    if (pendingCount(result) === 0) return;
    const next = adjacentHunk(result.hunks, from, 1);
    if (next) await this.#reveal(next);
  }

  async #current(): Promise<OpenResult | undefined> {
    const { openResults, host } = this.#deps;
    if (!openResults.current) await host.commands.run("understudy.review.open");
    return openResults.current;
  }

  /** The review, unless it has unsaved edits: what is sent must be what the user sees. */
  async #currentSaved(): Promise<OpenResult | undefined> {
    const result = await this.#current();
    const paths = result?.files.map((file) => file.path) ?? [];
    return result && !(await this.#hasUnsavedEdits(result, paths)) ? result : undefined;
  }

  async #pickResult(): Promise<string | undefined> {
    const { host, requester, store, openResults } = this.#deps;
    const waiting = store.delegations.filter(isToReview);
    // Ask if another result could be meant, too. The open review is the first choice.
    const { current } = openResults;
    const complete = current !== undefined && pendingCount(current) === 0;
    if (current && (waiting.length === 0 || (!complete && waiting.every(({ id }) => id === current.id))))
      return current.id;
    waiting.sort((one, other) => Number(other.id === current?.id) - Number(one.id === current?.id));
    if (waiting.length === 0) {
      await needEngine(requester, store);
      await host.windows.message("info", t("There are no results to review."));
      return undefined;
    }
    const outcome = await host.windows.pick({
      title: t("Review"),
      placeholder: t("Choose a result to review"),
      items: waiting.map((delegation) => ({
        id: delegation.id,
        label: delegation.title,
        description: delegation.id === current?.id ? t("open now") : delegation.delegator,
        detail: verdictLine(delegation),
      })),
    });
    return outcome.kind === "picked" ? outcome.ids[0] : undefined;
  }

  async #delegation(id: string): Promise<Delegation> {
    const found = this.#deps.store.delegation(id) ?? (await this.#deps.store.read(id));
    return found ?? this.#deps.requester.request("understudy/delegations/get", { id });
  }

  async #closeTabs(id: string): Promise<void> {
    const titles = [reviewTitle(await this.#delegation(id))];
    await this.#deps.host.review.close([BASE, RESULT, EMPTY, EDIT, YOURS, THEIRS, EVIDENCE], titles);
  }
}

/** Both sides of a file. A side that does not exist is absent. */
export function diffPair(id: string, file: FileDiff): DiffPair {
  const name = displayPath(file.path);
  return {
    label: t("{0}: Review", path.posix.basename(name)),
    ...(file.status === "added" ? {} : { base: reviewUri(BASE, id, displayPath(file.from ?? file.path)) }),
    result: documentUri(id, file),
  };
}

/** Without the verdict: it changes with edits and checks, but the title of a tab does not. */
function reviewTitle(delegation: Delegation): string {
  return t("Review: {0}", delegation.title);
}

/** Whether what should be accepted has a conflict: the user stays there, to resolve it. */
function hasConflict({ result, named }: { result: OpenResult; named: ReviewTarget }): boolean {
  const hunks = result.file(named.path)?.hunks ?? [];
  return hunks.some(
    ({ id, conflict, state }) => conflict && state === "pending" && (named.kind === "file" || id === named.hunk),
  );
}

function decisionTarget(place: ReviewTarget): { path: string; hunk?: string } {
  return place.kind === "hunk" ? { path: place.path, hunk: place.hunk } : { path: place.path };
}

const hunkTarget = ({ id, file, hunk }: HunkRef): ReviewTarget => ({
  kind: "hunk",
  id,
  path: file.path,
  hunk: hunk.id,
});
const fileTarget = ({ id, file }: HunkRef): ReviewTarget => ({ kind: "file", id, path: file.path });
