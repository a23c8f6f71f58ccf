/** Register the Review view, its documents, commands and context keys. */

import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Delegation } from "../protocol.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { takesInstructions } from "../state/instructions.ts";
import { isLive, isToReview } from "../state/wording.ts";
import { canBeStrengthened, droppableTests, isUntested } from "../state/mutationWording.ts";
import { registerSurvivorHints } from "./survivorHints.ts";
import { comparePanel } from "./comparePanel.ts";
import { registerReviewCommands } from "./reviewCommands.ts";
import { LineComments } from "./lineComments.ts";
import { OpenResults } from "./openResults.ts";
import { parseReviewUri } from "./reviewUris.ts";
import { REVIEW_VIEW, ReviewTree } from "./reviewTree.ts";
import { ResultFiles } from "./resultFiles.ts";
import { ReviewEditor } from "./reviewEditor.ts";
import { isPending, verifiedChanges } from "./hunks.ts";
import { headline } from "./reviewWording.ts";
import { displayPath } from "../state/formatting.ts";

/** Memory key of the result under review. */
export const CURRENT_KEY = "review";
/** Memory key of the follow-up that the user started from the open review, which shows its result next. */
const FOLLOWING_KEY = "review.following";

interface Following {
  readonly from: string;
  readonly id: string;
}

export function registerReview({ host, sidecar, store, started }: App): Disposable {
  const disposables = new DisposableStore();
  const openResults = disposables.add(new OpenResults({ requester: sidecar, store }));
  const state = {
    get current() {
      return openResults.current;
    },
    delegation: (id: string) => store.delegation(id),
    takesInstructions: (delegation: Delegation) => takesInstructions(store, delegation),
  };
  const rows = disposables.add(new ReviewTree(state));
  /** Whether the review of an earlier window was not read yet. */
  let restoring = host.memory.get<string | undefined>(CURRENT_KEY, undefined) !== undefined;
  const tree = disposables.add(host.windows.tree(REVIEW_VIEW, rows));
  disposables.add(new ResultFiles({ host, openResults }));
  const reviewEditor = disposables.add(new ReviewEditor({ host, store, openResults, requester: sidecar }));
  const comments = disposables.add(new LineComments({ host, openResults }));
  const commands = disposables.add(
    registerReviewCommands({
      host,
      requester: sidecar,
      store,
      openResults,
      tree,
      reviewEditor,
      comments,
      started: (id) => {
        if (openResults.current) void host.memory.set(FOLLOWING_KEY, { from: openResults.current.id, id });
        started.fire(id);
      },
      visited: () => place(),
    }),
  );
  const compare = disposables.add(
    comparePanel({
      host,
      requester: sidecar,
      subscriber: sidecar,
      decide: (id, decisions) => commands.decide(id, decisions),
    }),
  );
  disposables.add(
    host.commands.register("understudy.review.compare", (group) => {
      if (typeof group === "string") compare.show({ show: "compare", name: group });
    }),
  );
  /** Whether the agent of the drawn review follows instructions. */
  let instructable = false;
  const draw = (): void => {
    rows.refresh();
    const { current } = openResults;
    const hunks = current?.files.flatMap((file) => file.hunks) ?? [];
    const open = hunks.filter(({ state: one }) => one === "pending").length;
    tree.setDescription(
      current ? (open > 0 ? t("{0} of {1} pending", open, hunks.length) : t("no pending changes")) : undefined,
    );
    const reviewed = current && store.delegation(current.id);
    tree.setMessage(reviewed ? headline(reviewed, Date.now()).join(" · ") : undefined);
    host.commands.setContext("understudy.canUndoEdit", current?.edited.some(({ undoable }) => undoable) ?? false);
    const verified = current ? verifiedChanges(current.files).length : 0;
    host.commands.setContext("understudy.hasAccepted", hunks.some(({ state: one }) => one === "accepted")); // prettier-ignore
    host.commands.setContext("understudy.reviewPending", open > 0);
    host.commands.setContext("understudy.canAcceptVerified", verified > 0 && verified < open);
    instructable = reviewed !== undefined && takesInstructions(store, reviewed);
    host.commands.setContext("understudy.canSendBack", instructable);
    const strengthened = instructable && reviewed !== undefined && canBeStrengthened(reviewed);
    host.commands.setContext("understudy.canStrengthen", strengthened && !isUntested(reviewed));
    host.commands.setContext("understudy.canAskForTests", strengthened && isUntested(reviewed));
    host.commands.setContext("understudy.canDropTests", reviewed !== undefined && droppableTests(reviewed).length > 0);
  };
  const place = (): void => {
    const { active } = host.documents;
    const at = active && parseReviewUri(active.uri);
    const shown = at?.id === openResults.current?.id ? openResults.current : undefined;
    const file = commands.activeFile();
    host.commands.setContext("understudy.reviewEditor", (at && shown) !== undefined || file !== undefined);
    // The header of a file in a multi-file diff is a proposed API: the title of the editor has Accept for the active file.
    host.commands.setContext("understudy.pendingFile", file?.hunks.some(isPending) ?? false);
    // The diff of a binary file alone has no text editor, and the editor does not always report its tab.
    const binaries = openResults.current?.files.filter(({ binary, hunks }) => binary && hunks.some(isPending)) ?? [];
    host.commands.setContext(
      "understudy.pendingBinaries",
      binaries.map((one) => `/${displayPath(one.path)}`),
    );
  };
  disposables.add(
    openResults.onDidChange(({ id }) => {
      if (openResults.current === undefined || openResults.current.id === id) draw();
      place();
    }),
  );
  disposables.add(
    store.onDidChange(({ delegations, delegators }) => {
      const reviewed = openResults.current && store.delegation(openResults.current.id);
      if (!reviewed) return;
      if (reviewed.rescueRef !== undefined) {
        void host.commands.run("understudy.review.close", reviewed.id); // discarded: nothing can be decided
        return;
      }
      // Only for a reason: drawing while the review opens would lose the selection.
      const differs = delegators && takesInstructions(store, reviewed) !== instructable;
      if (differs || delegations.has(reviewed.id)) draw();
    }),
  );
  /** When the follow-up has finished, show its result, unless the user has closed the review or opened another one. */
  const follow = (): void => {
    const following = host.memory.get<Following | undefined>(FOLLOWING_KEY, undefined);
    const next = following && store.delegation(following.id);
    // After a reload, the review is read first.
    if (!next || isLive(next) || (openResults.current === undefined && restoring)) return;
    void host.memory.set(FOLLOWING_KEY, undefined);
    if (openResults.current?.id === following.from && isToReview(next)) {
      void host.commands.run("understudy.review.open", next.id);
    }
  };
  disposables.add(store.onDidChange(follow));
  disposables.add(host.documents.onDidChangeActive(place));
  disposables.add(registerSurvivorHints({ host, store }));
  // A reloaded window continues its review: its tabs are restored.
  disposables.add(
    sidecar.onDidChange(({ kind }) => {
      const id = host.memory.get<string | undefined>(CURRENT_KEY, undefined);
      if (kind !== "running" || openResults.current || id === undefined) return;
      void openResults.review(id).then(
        () => {
          restoring = false;
          host.commands.setContext("understudy.reviewing", true);
          follow();
        },
        // If it cannot be read now, continue when the next sidecar runs.
        async (error: unknown) => {
          if (toErrorInfo(error).kind !== "unknown_delegation") return;
          restoring = false;
          await host.memory.set(CURRENT_KEY, undefined);
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
