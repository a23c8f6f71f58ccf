/** Register the Review view, its documents, commands and context keys. */

import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { isLive, isToReview } from "../state/wording.ts";
import { canBeStrengthened, droppableTests } from "../state/mutationWording.ts";
import { registerSurvivorHints } from "./survivorHints.ts";
import { registerReviewCommands } from "./reviewCommands.ts";
import { OpenResults } from "./openResults.ts";
import { parseReviewUri } from "./reviewUris.ts";
import { REVIEW_VIEW, ReviewTree } from "./reviewTree.ts";
import { ResultFiles } from "./resultFiles.ts";
import { ReviewEditor } from "./reviewEditor.ts";

/** Memory key of the result under review. */
const CURRENT_KEY = "review";

export function registerReview({ host, sidecar, store, started }: App): Disposable {
  const disposables = new DisposableStore();
  const openResults = disposables.add(new OpenResults({ requester: sidecar, store }));
  const state = {
    get current() {
      return openResults.current;
    },
    delegation: (id: string) => store.delegation(id),
  };
  const rows = disposables.add(new ReviewTree(state));
  /** The follow-up that the user started from the open review, which shows its result next. */
  let following: { readonly from: string; readonly id: string } | undefined;
  const tree = disposables.add(host.windows.tree(REVIEW_VIEW, rows));
  disposables.add(new ResultFiles({ host, openResults }));
  const reviewEditor = disposables.add(new ReviewEditor({ host, store, openResults, requester: sidecar }));
  disposables.add(
    registerReviewCommands({
      host,
      requester: sidecar,
      store,
      openResults,
      tree,
      reviewEditor,
      started: (id) => {
        if (openResults.current) following = { from: openResults.current.id, id };
        started.fire(id);
      },
    }),
  );
  const draw = (): void => {
    rows.refresh();
    const { current } = openResults;
    const hunks = current?.files.flatMap((file) => file.hunks) ?? [];
    const open = hunks.filter(({ state: one }) => one === "pending").length;
    tree.setDescription(
      current ? (open > 0 ? t("{0} of {1} pending", open, hunks.length) : t("no pending changes")) : undefined,
    );
    host.commands.setContext("understudy.canUndoEdit", current?.edited.some(({ undoable }) => undoable) ?? false);
    const reviewed = current && store.delegation(current.id);
    host.commands.setContext("understudy.canStrengthen", reviewed !== undefined && canBeStrengthened(reviewed));
    host.commands.setContext("understudy.canDropTests", reviewed !== undefined && droppableTests(reviewed).length > 0);
  };
  const place = (): void => {
    const { active } = host.documents;
    const at = active && parseReviewUri(active.uri);
    host.commands.setContext("understudy.reviewEditor", at !== undefined && at.id === openResults.current?.id);
  };
  disposables.add(
    openResults.onDidChange(({ id }) => {
      if (openResults.current === undefined || openResults.current.id === id) draw();
      place();
    }),
  );
  disposables.add(
    store.onDidChange(({ delegations }) => openResults.current && delegations.has(openResults.current.id) && draw()),
  );
  disposables.add(
    store.onDidChange(({ delegations }) => {
      if (!following || !delegations.has(following.id)) return;
      const { from, id } = following;
      const next = store.delegation(id);
      if (!next || isLive(next)) return;
      following = undefined;
      // Unless the user has closed the review, or opened another one.
      if (openResults.current?.id === from && isToReview(next)) void host.commands.run("understudy.review.open", id);
    }),
  );
  disposables.add(host.documents.onDidChangeActive(place));
  disposables.add(registerSurvivorHints({ host, store }));
  // A reloaded window continues its review: its tabs are restored.
  disposables.add(
    sidecar.onDidChange(({ kind }) => {
      const id = host.memory.get<string | undefined>(CURRENT_KEY, undefined);
      if (kind !== "running" || openResults.current || id === undefined) return;
      void openResults.review(id).then(
        () => host.commands.setContext("understudy.reviewing", true),
        // If it cannot be read now, continue when the next sidecar runs.
        async (error: unknown) => {
          if (toErrorInfo(error).kind === "unknown_delegation") await host.memory.set(CURRENT_KEY, undefined);
        },
      );
    }),
  );
  disposables.add(
    openResults.onDidChange(() => {
      const id = openResults.current?.id;
      if (host.memory.get<string | undefined>(CURRENT_KEY, undefined) !== id) void host.memory.set(CURRENT_KEY, id);
    }),
  );
  return disposables;
}
