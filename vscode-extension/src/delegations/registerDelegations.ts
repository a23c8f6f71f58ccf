/** Everything about delegations, put together: the view, what people are told, transcripts, commands, Delegate. */

import type { App } from "../app.ts";
import { Bag, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { isHere } from "../model/here.ts";
import { Transcripts } from "../transcript/transcripts.ts";
import { registerDelegateCommands } from "./delegateCommands.ts";
import { registerDelegationCommands } from "./delegationCommands.ts";
import { DELEGATIONS_VIEW, DelegationRows } from "./delegations.ts";
import { Runs } from "./progress.ts";

export function registerDelegations(app: App): Disposable {
  const { host, sidecar, store } = app;
  const bag = new Bag();
  const here = isHere(host.workspace);
  const rows = bag.add(new DelegationRows({ store, here }));
  const tree = bag.add(host.windows.tree(DELEGATIONS_VIEW, rows));
  rows.setVisible(tree.visible);
  bag.add(
    tree.onDidChangeVisibility((visible) => {
      rows.setVisible(visible);
      // A window without a folder starts nothing before somebody looks.
      if (visible && sidecar.state.kind === "off") void sidecar.start();
    }),
  );
  const runs = bag.add(new Runs({ host, asker: sidecar, store, here }));
  bag.add(app.started.signal((id) => void runs.started(id)));
  bag.add(new Transcripts({ host, store }));
  bag.add(registerDelegationCommands({ host, asker: sidecar, store, rows, runs, here }));
  bag.add(registerDelegateCommands(app, (id) => runs.started(id)));
  let badge = "";
  bag.add(
    store.onDidChange((change) => {
      if (change.delegationList) host.commands.setContext("understudy.hasDelegations", store.delegations.length > 0);
      const [waiting, review] = [rows.count("waiting"), rows.count("review")];
      const words = [
        ...(waiting > 0 ? [t("{0} waiting for you", waiting)] : []),
        ...(review > 0 ? [t("{0} to review", review)] : []),
      ].join(", ");
      if (words === badge) return;
      badge = words;
      tree.setBadge(waiting + review, words);
    }),
  );
  return bag;
}
