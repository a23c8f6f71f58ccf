/** Register the Delegators view and its commands, and start the sidecar when the view needs it. */

import type { App } from "../appContext.ts";
import { type Disposable, DisposableStore, defer } from "../base/events.ts";
import { registerDelegatorCommands } from "./delegatorCommands.ts";
import { DelegatorTree, DELEGATORS_VIEW } from "./delegatorTree.ts";

export function registerDelegators({ host, sidecar, store }: App): Disposable {
  const disposables = new DisposableStore();
  const rows = disposables.add(new DelegatorTree(store));
  const tree = disposables.add(host.windows.tree(DELEGATORS_VIEW, rows));
  disposables.add(registerDelegatorCommands({ host, requester: sidecar, subscriber: sidecar, store, tree }));
  disposables.add(
    store.onDidChange((change) => {
      if (!change.delegators && !change.delegationList) return;
      host.commands.setContext("understudy.loaded", store.loaded);
      const own = store.delegators.some(({ scope }) => scope !== "builtin");
      host.commands.setContext("understudy.hasDelegators", own);
    }),
  );
  // A window without a folder starts the sidecar only when a view is opened.
  const start = (): void => void sidecar.start();
  if (host.workspace.folders.length > 0 || tree.visible) disposables.add(defer(start)); // do not slow activation down
  disposables.add(tree.onDidChangeVisibility((visible) => visible && sidecar.state.kind === "off" && start()));
  return disposables;
}
