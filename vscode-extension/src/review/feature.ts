/** Review in this window: its view, its documents, its commands, and the keys under which they are offered. */

import type { App } from "../app.ts";
import { Bag, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { errorInfo } from "../client/wire.ts";
import { registerReviewCommands } from "./commands.ts";
import { Desk } from "./desk.ts";
import { placeOf } from "./places.ts";
import { REVIEW_VIEW, ReviewRows } from "./rows.ts";
import { Surface } from "./surface.ts";

/** What is under review in this workspace. */
const KEPT = "review";

export function registerReview({ host, sidecar, store, started }: App): Disposable {
  const bag = new Bag();
  const desk = bag.add(new Desk({ asker: sidecar, store }));
  const state = {
    get current() {
      return desk.current;
    },
    delegation: (id: string) => store.delegation(id),
  };
  const rows = bag.add(new ReviewRows(state));
  const tree = bag.add(host.windows.tree(REVIEW_VIEW, rows));
  const surface = bag.add(new Surface({ host, store, desk }));
  bag.add(
    registerReviewCommands({ host, asker: sidecar, store, desk, tree, surface, started: (id) => started.fire(id) }),
  );
  const draw = (): void => {
    rows.refresh();
    const { current } = desk;
    const hunks = current?.files.flatMap((file) => file.hunks) ?? [];
    const open = hunks.filter(({ state: one }) => one === "pending").length;
    tree.setDescription(
      current ? (open > 0 ? t("{0} of {1} undecided", open, hunks.length) : t("decided")) : undefined,
    );
    host.commands.setContext("understudy.canUndo", current?.undoToken !== undefined);
  };
  const place = (): void => {
    const { active } = host.documents;
    const at = active && placeOf(active.uri);
    host.commands.setContext("understudy.reviewEditor", at !== undefined && at.id === desk.current?.id);
  };
  bag.add(
    desk.onDidChange(({ id }) => {
      if (desk.current === undefined || desk.current.id === id) draw();
      place();
    }),
  );
  bag.add(store.onDidChange(({ delegations }) => desk.current && delegations.has(desk.current.id) && draw()));
  bag.add(host.documents.onDidChangeActive(place));
  // A window that is loaded again goes on with its review: its tabs are still there.
  bag.add(
    sidecar.onDidChange(({ kind }) => {
      const id = host.memory.get<string | undefined>(KEPT, undefined);
      if (kind !== "running" || desk.current || id === undefined) return;
      void desk.review(id).then(
        () => host.commands.setContext("understudy.reviewing", true),
        // What cannot be read at the moment is gone on with when the next sidecar runs.
        async (error: unknown) => {
          if (errorInfo(error).kind === "unknown_delegation") await host.memory.set(KEPT, undefined);
        },
      );
    }),
  );
  bag.add(
    desk.onDidChange(() => {
      const id = desk.current?.id;
      if (host.memory.get<string | undefined>(KEPT, undefined) !== id) void host.memory.set(KEPT, id);
    }),
  );
  return bag;
}
