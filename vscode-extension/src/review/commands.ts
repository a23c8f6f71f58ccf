/** What a person does in a review: from the view, a bar, a lens, a key or the palette. */

import { lstat, readFile } from "node:fs/promises";
import * as path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Bag, Emitter } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { DiffPair, Host, Tree } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { isToReview, oneLine } from "../model/words.ts";
import type { Decision, Delegation, FileDiff, Hunk } from "../protocol.ts";
import { delegationOf } from "../views/delegationIds.ts";
import type { Desk, Result } from "./desk.ts";
import { compose, hunkAt, linesOf, named, neighbour, reasons, shownPath, type Named, type Spot } from "./hunks.ts";
import { BASE, EVIDENCE, placeOf, RESULT, THEIRS, uriOf, YOURS } from "./places.ts";
import { evidenceName, evidenceUri, readLine, sideUri, spotRange, type Surface } from "./surface.ts";
import { LINK, verdictLine } from "./words.ts";

export interface ReviewCommandParts {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "review" | "environment">;
  readonly asker: Asker;
  readonly store: Pick<Store, "delegation" | "delegations" | "read">;
  readonly desk: Desk;
  readonly tree: Pick<Tree, "reveal" | "selection">;
  readonly surface: Pick<Surface, "renew">;
  /** A delegation was started here: its person is told of its end. */
  readonly started: (id: string) => void;
}

export function registerReviewCommands(parts: ReviewCommandParts): Bag {
  const commands = new ReviewCommands(parts);
  const bag = new Bag();
  const add = (name: string, work: (value: unknown) => Promise<void> | void): void =>
    void bag.add(parts.host.commands.register(`understudy.review.${name}`, work));
  add("open", (value) => commands.open(value));
  add("close", () => commands.close());
  add("show", (value) => commands.show(value));
  add("evidence", (value) => commands.evidence(value));
  add("acceptHunk", (value) => commands.accept(value));
  add("rejectHunk", (value) => commands.reject(value, false));
  add("rejectHunkWithReason", (value) => commands.reject(value, true));
  add("acceptFile", (value) => commands.accept(value, "file"));
  add("rejectFile", (value) => commands.reject(value, false, "file"));
  add("acceptAll", () => commands.acceptAll());
  add("undo", () => commands.undo());
  add("next", () => commands.go(1));
  add("previous", () => commands.go(-1));
  add("sendBack", () => commands.sendBack());
  add("openConflict", (value) => commands.openConflict(value));
  add("mergedByHand", (value) => commands.mergedByHand(value));
  add("check", () => commands.check());
  add("export", () => commands.export());
  bag.add(commands.register());
  return bag;
}

/** Sides of conflicts that are kept; what the editor shows of older ones it has by itself. */
const MOST_SIDES = 60;

class ReviewCommands {
  readonly #parts: ReviewCommandParts;
  /** Where the person was last. */
  #at: Spot | undefined;
  /** The three sides of conflicts, as they were when they were opened: address → text. */
  readonly #sides = new Map<string, string>();
  readonly #sidesChanged = new Emitter<string>();
  /** Files of the person in which a conflict is being resolved. */
  readonly #merging = new Map<string, Named>();
  /** Where the sides of a conflict were shown. */
  readonly #tried = new Set<string>();

  constructor(parts: ReviewCommandParts) {
    this.#parts = parts;
  }

  register(): Bag {
    const { documents } = this.#parts.host;
    const bag = new Bag();
    const source = {
      text: (uri: string) => this.#sides.get(sideKey(uri)) ?? "",
      onDidChange: this.#sidesChanged.signal,
    };
    for (const scheme of [YOURS, THEIRS]) bag.add(documents.provide(scheme, source));
    bag.add(this.#sidesChanged);
    bag.add(documents.onDidSave((uri) => void this.#saved(uri)));
    return bag;
  }

  async open(value: unknown): Promise<void> {
    const { host, store, desk, tree } = this.#parts;
    const id = delegationOf(value) ?? (await this.#choose());
    if (id === undefined) return;
    const delegation = await this.#delegation(id);
    if (delegation.state !== "finished") {
      await host.windows.message("info", t("“{0}” is not finished yet.", delegation.title));
      return;
    }
    if (delegation.head === undefined || (delegation.result?.files.length ?? 0) === 0) {
      await host.windows.message("info", t("“{0}” changed nothing, so there is nothing to review.", delegation.title));
      return;
    }
    const before = desk.current?.id;
    const result = await host.windows.progress({ title: t("Reading the result …"), where: "status" }, () =>
      desk.review(id),
    );
    this.#at = undefined;
    host.commands.setContext("understudy.reviewing", true);
    const pairs = result.files.map((file) => pairOf(id, file));
    // Of one review at a time: the tabs of another one look the same.
    if (before !== undefined && before !== id) await this.#closeTabs(before);
    await host.review.diffs(titleOf(delegation), pairs);
    // The view is there once its condition holds; until then there is nothing to reveal in it.
    await tree.reveal(`verdict:${id}`, { expand: true }).catch(() => {});
    await store.read(id);
  }

  async close(): Promise<void> {
    const { host, desk } = this.#parts;
    const id = desk.current?.id;
    desk.close();
    this.#at = undefined;
    this.#merging.clear();
    host.commands.setContext("understudy.reviewing", false);
    host.commands.setContext("understudy.reviewEditor", false);
    if (id !== undefined) await this.#closeTabs(id);
  }

  async show(value: unknown): Promise<void> {
    const place = named(value);
    if (!place) return;
    const result = await this.#parts.desk.result(place.id);
    const file = result.file(place.path);
    if (!file) return;
    const spot =
      place.kind === "hunk" ? result.spot(place.path, place.hunk) : result.spots.find((one) => one.file === file);
    if (!spot) return;
    this.#parts.surface.renew(spot);
    await this.#go(spot);
  }

  async evidence(value: unknown): Promise<void> {
    const id = delegationOf(value) ?? this.#parts.desk.current?.id;
    if (id !== undefined) await this.#parts.host.documents.preview(evidenceUri(id));
  }

  async accept(value: unknown, whole?: "file"): Promise<void> {
    const target = await this.#target(value, whole);
    if (!target || (await this.#unsaved(target.result, [target.named.path]))) return;
    await this.#decide(target.result, [{ ...chosen(target.named), decision: "accept" }]);
    if (value === undefined) await this.#onward(target);
  }

  async reject(value: unknown, why: boolean, whole?: "file"): Promise<void> {
    const target = await this.#target(value, whole);
    if (!target || (await this.#unsaved(target.result, [target.named.path]))) return;
    const spot = target.named.kind === "hunk" ? target.result.spot(target.named.path, target.named.hunk) : undefined;
    let reason: string | undefined;
    if (why) {
      const outcome = await this.#parts.host.windows.input({
        title: t("Reject with a Reason"),
        prompt: t("What is wrong with it? The agent is told so when you send the result back."),
        placeholder: t("Keep the old name"),
        ...(spot?.hunk.reason === undefined ? {} : { value: spot.hunk.reason }),
        validate: (text) => (text.trim() === "" ? t("Say why, or reject without a reason.") : undefined),
      });
      if (outcome.kind !== "accepted") return;
      reason = outcome.value.trim();
    }
    await this.#decide(target.result, [
      { ...chosen(target.named), decision: "reject", ...(reason === undefined ? {} : { reason }) },
    ]);
    if (value === undefined) await this.#onward(target);
  }

  async acceptAll(): Promise<void> {
    const result = await this.#current();
    if (!result) return;
    const paths = result.files.filter(({ hunks }) => hunks.some(({ state }) => state === "pending")).map((f) => f.path);
    if (paths.length === 0) {
      await this.#parts.host.windows.message("info", t("Everything is decided already."));
      return;
    }
    if (await this.#unsaved(result, paths)) return;
    await this.#decide(result, [{ decision: "accept" }]);
  }

  async undo(): Promise<void> {
    const { host } = this.#parts;
    const result = await this.#current();
    if (!result) return;
    const token = result.undoToken;
    if (token === undefined) {
      await host.windows.message("info", t("Nothing of this review is in your files that could be taken back."));
      return;
    }
    await result.undo(token);
  }

  async go(step: 1 | -1): Promise<void> {
    const result = await this.#current();
    if (!result) return;
    const spot = neighbour(result.spots, this.#here(result) ?? this.#at, step);
    if (spot) await this.#go(spot);
  }

  async sendBack(): Promise<void> {
    const { host, asker } = this.#parts;
    const result = await this.#currentSaved();
    if (!result) return;
    const { spots } = result;
    const rejected = spots.filter(({ hunk }) => hunk.state === "rejected");
    const said = reasons(spots);
    const open = spots.filter(({ hunk }) => hunk.state === "pending").length;
    const along = [
      ...(rejected.length > 0 ? [t("{0} rejected", rejected.length)] : []),
      ...(open > 0 ? [t("{0} undecided", open)] : []),
    ];
    const outcome = await host.windows.input({
      title: t("Send Back"),
      prompt:
        along.length > 0
          ? t("What should be different? Goes along: {0}, with every reason you gave.", along.join(", "))
          : t("What should be different?"),
      value: said
        .map(({ reason, places }) => `${places.map((place) => oneLine(place, 60)).join(", ")}: ${reason}`)
        .join("; "),
      validate: (text) => (text.trim() === "" ? t("Say what should be different.") : undefined),
    });
    if (outcome.kind !== "accepted") return;
    const { id } = await asker.ask("understudy/delegations/reply", { id: result.id, text: outcome.value.trim() });
    this.#parts.started(id); // its progress says that it is on its way
    await result.read();
  }

  async openConflict(value: unknown): Promise<void> {
    const { host } = this.#parts;
    const target = await this.#target(value);
    if (!target) return;
    const { result, named: place } = target;
    const file = result.file(place.path);
    if (!file) return;
    this.#tried.add(`${result.id}:${file.path}`);
    const delegation = await this.#delegation(result.id);
    const name = shownPath(file.path);
    const open = file.hunks.filter(({ conflict, state }) => conflict && state === "pending");
    if (open.some((hunk) => result.conflict(hunk.id)?.inTheWay)) {
      await host.windows.message(
        "warning",
        t("At {0} is something that is no file. Move it away, then accept again.", name),
      );
      return;
    }
    const mine = path.join(delegation.workspace, ...name.split("/"));
    const output = pathToFileURL(mine).toString();
    const here = await stateOf(mine);
    const yours = here === "other" ? undefined : (host.documents.open([output])[0]?.text ?? (await textOf(mine)));
    const [base, theirs] = await Promise.all([result.content(file.path, "base"), result.content(file.path, "result")]);
    const lines = !file.binary && base.mode !== LINK && theirs.mode !== LINK;
    if (!lines || base.text === undefined || theirs.text === undefined || yours === undefined) {
      await this.#unmergeable(result, file, here === "file" ? output : undefined);
      return;
    }
    // What is in the files already, and what is to come into them; nothing that was rejected or is undecided.
    const wanted = file.hunks.filter((hunk) => hunk.state === "accepted" || open.includes(hunk));
    const baseUri = uriOf(BASE, result.id, shownPath(file.from ?? file.path));
    const sides = { yours: uriOf(YOURS, result.id, name), theirs: uriOf(THEIRS, result.id, name) };
    this.#side(sides.yours, yours);
    this.#side(sides.theirs, compose(base.text, theirs.text, wanted));
    this.#merging.set(mine, { kind: "file", id: result.id, path: file.path });
    if (await host.review.merge({ base: baseUri, ...sides, output })) return;
    // Without a merge editor: what either side changed, with the person's own file to write in.
    await host.review.diffs(t("{0}: three sides", name), [
      { label: t("Result"), base: baseUri, result: sides.theirs },
      { label: t("Yours"), base: baseUri, result: output },
    ]);
  }

  /** What did not merge is in the person's file by now. */
  async mergedByHand(value: unknown): Promise<void> {
    const target = await this.#target(value);
    if (!target) return;
    const { result, named: place } = target;
    const file = result.file(place.path);
    const found = file?.hunks.filter(
      (hunk) => hunk.conflict && hunk.state === "pending" && (place.kind === "file" || place.hunk === hunk.id),
    );
    if (!file || !found || found.length === 0) {
      await this.#parts.host.windows.message("info", t("Nothing here that does not merge."));
      return;
    }
    await this.#decide(
      result,
      found.map(({ id }) => ({ path: file.path, hunk: id, decision: "accept" as const, byHand: true })),
    );
  }

  /** There are no lines to merge: a file that one side has not, or that is no text. */
  async #unmergeable(result: Result, file: FileDiff, yours: string | undefined): Promise<void> {
    const { host } = this.#parts;
    const name = shownPath(file.path);
    await host.review.diff({
      label: t("{0}: result and yours", path.posix.basename(name)),
      ...(file.status === "deleted" ? {} : { result: sideUri(result.id, file) }),
      ...(yours === undefined ? {} : { base: yours }),
    });
    const [keep, byHand] = [t("Keep Mine"), t("Merged by Hand")];
    const answer = await host.windows.message(
      "info",
      t("{0} cannot be merged line by line. Keep what you have, or bring the change in yourself and say so.", name),
      { buttons: [keep, byHand] },
    );
    const row = `file:${result.id}:${file.path}`;
    if (answer === keep) await host.commands.run("understudy.review.rejectFile", row);
    if (answer === byHand) await host.commands.run("understudy.review.mergedByHand", row);
  }

  /** A file in which a conflict is being resolved was saved. */
  async #saved(uri: string): Promise<void> {
    const { host, desk } = this.#parts;
    const file = uri.startsWith("file:") ? fileURLToPath(uri) : undefined;
    const place = file === undefined ? undefined : this.#merging.get(file);
    if (file === undefined || !place) return;
    // One question at a time; the next save asks again where this one was not answered.
    this.#merging.delete(file);
    const result = await desk.result(place.id);
    const changed = result.file(place.path);
    if (!changed || !conflicts(changed)) return;
    const [yes, no] = [t("It Is Merged"), t("Not Yet")];
    const answer = await host.windows.message(
      "info",
      t("{0} is saved. Is the change that did not merge in it now?", path.basename(file)),
      { buttons: [yes, no] },
    );
    if (answer === yes) await host.commands.run("understudy.review.mergedByHand", `file:${place.id}:${place.path}`);
    else this.#merging.set(file, place);
  }

  async check(): Promise<void> {
    const { host, asker } = this.#parts;
    const result = await this.#currentSaved();
    if (!result) return;
    await host.windows.progress({ title: t("Running the checks again …"), where: "notification" }, () =>
      asker.ask("understudy/delegations/check", { id: result.id }),
    );
    await this.#parts.store.read(result.id);
  }

  async export(): Promise<void> {
    const { host, asker } = this.#parts;
    const result = await this.#current();
    if (!result) return;
    const title = t("Export the Result");
    const outcome = await host.windows.pick({
      title,
      placeholder: t("Without what was rejected"),
      items: [
        { id: "branch", label: t("Branch"), detail: t("A new branch of your repository"), icon: "git-branch" },
        { id: "commit", label: t("Commit"), detail: t("A commit that no branch names"), icon: "git-commit" },
        { id: "patch", label: t("Patch"), detail: t("A text that git apply understands"), icon: "diff" },
      ],
    });
    const to = outcome.kind === "picked" ? outcome.ids[0] : undefined;
    if (to === "patch") {
      const { patch = "" } = await asker.ask("understudy/delegations/export", { id: result.id, to });
      await host.documents.showText(patch, "diff");
    } else if (to === "commit") {
      const { commit = "" } = await asker.ask("understudy/delegations/export", { id: result.id, to });
      const copy = t("Copy Its Id");
      const text = t("The result is the commit {0}.", commit.slice(0, 12));
      const answer = await host.windows.message("info", text, { buttons: [copy] });
      if (answer === copy) await host.environment.copyToClipboard(commit);
    } else if (to === "branch") {
      await this.#exportBranch(result.id, title);
    }
  }

  async #exportBranch(id: string, title: string): Promise<void> {
    const { host, asker } = this.#parts;
    let refused: { name: string; why: string } | undefined;
    for (;;) {
      const wrong = refused;
      const name = await host.windows.input({
        title,
        prompt: wrong?.why ?? t("Name of the new branch"),
        value: wrong?.name ?? `understudy/${id}`,
        validate: (text) => (text.trim() === "" ? t("A branch needs a name.") : undefined),
      });
      if (name.kind !== "accepted") return;
      const branch = name.value.trim();
      try {
        await asker.ask("understudy/delegations/export", { id, to: "branch", branch });
      } catch (error) {
        const { kind, message } = errorInfo(error);
        if (kind !== "already_exists" && kind !== "invalid_params") throw error;
        refused = { name: branch, why: message }; // only git knows its rules: the name is asked for again
        continue;
      }
      await host.windows.message("info", t("The result is on the branch {0}.", branch));
      return;
    }
  }

  /** Decide; ask again where a file deserves a second look, and tell what did not merge. */
  async #decide(result: Result, wishes: readonly Decision[]): Promise<void> {
    const { host } = this.#parts;
    const before = open(result);
    const asked = flaggedBy(result, wishes);
    let meant = wishes;
    if (asked.length > 0) {
      const others = result.files.filter((file) => file.flagged === undefined && file.hunks.some(isUndecided));
      const everything = wishes.some((wish) => wish.path === undefined);
      const [all, rest] = [t("Accept All the Same"), t("Accept Only the Others")];
      const answer = await host.windows.message(
        "warning",
        t("Some of this is executed or obeyed once it is in your files."),
        {
          modal: true,
          // A line for each: a name may hold line feeds, and words of its own below them.
          detail: asked
            .map(({ path: name, flagged }) => `${oneLine(shownPath(name), 200)} ${flagged ?? ""}`)
            .join("\n"),
          buttons: everything && others.length > 0 ? [rest, all] : [all],
        },
      );
      if (answer === undefined) return;
      if (answer === rest) meant = others.map((file) => ({ path: file.path, decision: "accept" as const }));
    }
    const done = await result.decide(meant, asked.length > 0 && meant === wishes);
    if (done.conflicts.length > 0) {
      void this.#tellConflicts(result, done.conflicts);
    } else if (before > 0 && open(result) === 0) {
      void this.#tellDone(result);
    }
  }

  async #tellConflicts(result: Result, found: readonly { path: string; hunk: string }[]): Promise<void> {
    const { host } = this.#parts;
    const names = [...new Set(found.map((conflict) => shownPath(conflict.path)))].join(", ");
    const [resolve, byHand] = [t("Resolve…"), t("Merged by Hand")];
    const text = t(
      "Your version of {0} and the result do not merge: both have changed since the work began. Your file is as it was.",
      names,
    );
    const [first] = found;
    if (!first) return;
    // Who has been in the merge editor may have said there what is in the file.
    const tried = found.every(({ path: name }) => this.#tried.has(`${result.id}:${name}`));
    const answer = await host.windows.message("warning", text, { buttons: tried ? [resolve, byHand] : [resolve] });
    const row = `hunk:${result.id}:${first.path}:${first.hunk}`;
    if (answer === resolve) await host.commands.run("understudy.review.openConflict", row);
    if (answer === byHand) await host.commands.run("understudy.review.mergedByHand", row);
  }

  async #tellDone(result: Result): Promise<void> {
    const { host } = this.#parts;
    const { spots } = result;
    const rejected = spots.filter(({ hunk }) => hunk.state === "rejected").length;
    const accepted = spots.filter(({ hunk }) => hunk.state === "accepted").length;
    const [back, close] = [t("Send Back…"), t("Close Review")];
    const answer = await host.windows.message(
      "info",
      t("Everything is decided: {0} accepted, {1} rejected.", accepted, rejected),
      { buttons: rejected > 0 ? [back, close] : [close] },
    );
    if (answer === back) await host.commands.run("understudy.review.sendBack");
    if (answer === close) await host.commands.run("understudy.review.close");
  }

  /** Whether edits of the result are not saved: what is decided must be what is seen. Offers to save them. */
  async #unsaved(result: Result, paths: readonly string[]): Promise<boolean> {
    const { host } = this.#parts;
    const shown = new Set(paths.map(shownPath));
    const dirty = host.documents.open().filter(({ uri, dirty: changed }) => {
      const place = placeOf(uri);
      return changed && place?.scheme === RESULT && place.id === result.id && shown.has(place.path);
    });
    if (dirty.length === 0) return false;
    const save = t("Save Them");
    const answer = await host.windows.message(
      "warning",
      t("Your edits of the result are not saved yet. Once they are, they are a part of it, and you can decide."),
      { buttons: [save] },
    );
    if (answer === save) for (const { uri } of dirty) await host.documents.save(uri);
    return true;
  }

  /** What a command is about: a row, a bar or a lens names it; else it is what the cursor, or the view's selection, is on. */
  async #target(value: unknown, whole?: "file"): Promise<{ result: Result; named: Named } | undefined> {
    const { desk, host, tree } = this.#parts;
    const told = named(value);
    if (told) {
      const result = await desk.result(told.id);
      return { result, named: whole ? { kind: "file", id: told.id, path: told.path } : told };
    }
    const result = await this.#current();
    if (!result) return undefined;
    const here = this.#here(result, whole === undefined);
    if (here) return { result, named: whole ? asFile(here) : asNamed(here) };
    const selected = this.#inEditor(result) ? undefined : named(tree.selection[0]);
    if (selected?.id === result.id) return { result, named: whole ? { ...selected, kind: "file" } : selected };
    await host.windows.message("info", t("Put the cursor on a change, or select one in the Review view."));
    return undefined;
  }

  #inEditor(result: Result): boolean {
    const { active } = this.#parts.host.documents;
    const place = active && placeOf(active.uri);
    return place?.id === result.id;
  }

  /** The change at the cursor; `exactly`: on it, or on the line beside it. */
  #here(result: Result, exactly = false): Spot | undefined {
    const { documents } = this.#parts.host;
    const { active } = documents;
    const place = active && placeOf(active.uri);
    if (!active || place?.id !== result.id) return undefined;
    const side = place.scheme === BASE ? "base" : "result";
    const file = result.fileShown(place.path, side);
    if (!file) return undefined;
    const read = result.known(file.path, side) ?? "";
    const line = readLine(active.selection.start.line, read, documents.open([active.uri])[0]?.text ?? read);
    const lineSide = side === "base" ? "old" : "new";
    const last = this.#at?.id === result.id && this.#at.file.path === file.path ? this.#at.hunk : undefined;
    const hunk = hunkAt(file, line, lineSide, last);
    if (!hunk) return undefined;
    const { start, end } = linesOf(hunk, lineSide);
    const on = file.hunks.length === 1 || (start - 1 <= line && line <= end + 1);
    return exactly && !on ? undefined : { id: result.id, file, hunk };
  }

  async #go(spot: Spot): Promise<void> {
    const { host, tree } = this.#parts;
    this.#at = spot;
    const range = spotRange(spot);
    if (!host.documents.select(sideUri(spot.id, spot.file), range)) {
      await host.review.diff(pairOf(spot.id, spot.file), { range: { start: range.start, end: range.start } });
    }
    await tree.reveal(`hunk:${spot.id}:${spot.file.path}:${spot.hunk.id}`).catch(() => {});
  }

  /** After a decision by key: to what is undecided next. */
  async #onward({ result, named: place }: { result: Result; named: Named }): Promise<void> {
    const from = result.spots.find(
      ({ file, hunk }) => file.path === place.path && (place.kind === "file" || hunk.id === place.hunk),
    );
    if (open(result) === 0) return;
    const next = neighbour(result.spots, from, 1);
    if (next) await this.#go(next);
  }

  async #current(): Promise<Result | undefined> {
    const { desk, host } = this.#parts;
    if (!desk.current) await host.commands.run("understudy.review.open");
    return desk.current;
  }

  /** The review, when none of its files has edits that are not saved: what goes out must be what is seen. */
  async #currentSaved(): Promise<Result | undefined> {
    const result = await this.#current();
    const paths = result?.files.map((file) => file.path) ?? [];
    return result && !(await this.#unsaved(result, paths)) ? result : undefined;
  }

  async #choose(): Promise<string | undefined> {
    const { host, store, desk } = this.#parts;
    const waiting = store.delegations.filter(isToReview);
    // The one that is open, unless it is done with and others wait.
    if (desk.current && (open(desk.current) > 0 || waiting.length === 0)) return desk.current.id;
    if (waiting.length === 0) {
      await host.windows.message("info", t("No result waits for a review."));
      return undefined;
    }
    const outcome = await host.windows.pick({
      title: t("Review"),
      placeholder: t("Which result?"),
      items: waiting.map((delegation) => ({
        id: delegation.id,
        label: delegation.title,
        description: delegation.delegator,
        detail: verdictLine(delegation),
      })),
    });
    return outcome.kind === "picked" ? outcome.ids[0] : undefined;
  }

  async #delegation(id: string): Promise<Delegation> {
    const found = this.#parts.store.delegation(id) ?? (await this.#parts.store.read(id));
    return found ?? this.#parts.asker.ask("understudy/delegations/get", { id });
  }

  async #closeTabs(id: string): Promise<void> {
    const titles = [titleOf(await this.#delegation(id)), evidenceName()];
    await this.#parts.host.review.close([BASE, RESULT, YOURS, THEIRS, EVIDENCE], titles);
  }

  #side(uri: string, text: string): void {
    this.#sides.set(sideKey(uri), text);
    for (const oldest of this.#sides.keys()) {
      if (this.#sides.size <= MOST_SIDES) break;
      this.#sides.delete(oldest);
    }
    this.#sidesChanged.fire(uri);
  }
}

/** The two sides of a file; one that does not exist is absent. */
export function pairOf(id: string, file: FileDiff): DiffPair {
  const name = shownPath(file.path);
  return {
    label: t("{0}: review", path.posix.basename(name)),
    ...(file.status === "added" ? {} : { base: uriOf(BASE, id, shownPath(file.from ?? file.path)) }),
    ...(file.status === "deleted" ? {} : { result: uriOf(RESULT, id, name) }),
  };
}

/** Files whose accept wants the person's word first, among those that these decisions would bring in. */
function flaggedBy(result: Result, wishes: readonly Decision[]): readonly FileDiff[] {
  const accepts = ({ path: name, hunk, decision, byHand }: Decision, file: FileDiff): boolean =>
    decision === "accept" &&
    byHand !== true &&
    (name === undefined || name === file.path) &&
    file.hunks.some((one) => (hunk === undefined ? isUndecided(one) : hunk === one.id && one.state !== "accepted"));
  return result.files.filter((file) => file.flagged !== undefined && wishes.some((wish) => accepts(wish, file)));
}

const isUndecided = ({ state }: Hunk): boolean => state === "pending";

function conflicts(file: FileDiff): boolean {
  return file.hunks.some((hunk) => hunk.conflict && isUndecided(hunk));
}

/** Not what it came to: that changes with an edit and with the next run of the checks, and a tab's title does not. */
function titleOf(delegation: Delegation): string {
  return t("Review: {0}", delegation.title);
}

function open(result: Result): number {
  return result.spots.filter(({ hunk }) => hunk.state === "pending").length;
}

function chosen(place: Named): { path: string; hunk?: string } {
  return place.kind === "hunk" ? { path: place.path, hunk: place.hunk } : { path: place.path };
}

const asNamed = ({ id, file, hunk }: Spot): Named => ({ kind: "hunk", id, path: file.path, hunk: hunk.id });
const asFile = ({ id, file }: Spot): Named => ({ kind: "file", id, path: file.path });

function sideKey(uri: string): string {
  const place = placeOf(uri);
  return place ? `${place.scheme} ${place.id} ${place.path}` : uri;
}

/** Undefined: no text in UTF-8, as far as an editor shows such. */
async function textOf(file: string): Promise<string | undefined> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(file));
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** What is written to a link goes where it leads: it is never opened to be written in. */
async function stateOf(file: string): Promise<"file" | "other" | undefined> {
  try {
    return (await lstat(file)).isFile() ? "file" : "other";
  } catch {
    return undefined;
  }
}
