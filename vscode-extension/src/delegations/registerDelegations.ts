/** Register the Delegations view, notifications, transcripts and commands. */

import type { App } from "../appContext.ts";
import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { isLive } from "../state/wording.ts";
import { belongsTo } from "../state/workspaceFolders.ts";
import { TranscriptDocuments } from "../transcript/transcriptDocuments.ts";
import { TranscriptPanels } from "../transcript/transcriptPanels.ts";
import { registerDelegateCommands } from "./delegateCommands.ts";
import { registerDelegationCommands } from "./delegationCommands.ts";
import { DELEGATIONS_VIEW, DelegationTree } from "./delegationTree.ts";
import { DelegationNotifications } from "./notifications.ts";
import { registerRemedies } from "./applyRemedies.ts";

export function registerDelegations(app: App): Disposable {
  const { host, sidecar, store } = app;
  const disposables = new DisposableStore();
  const inWindow = belongsTo(host.workspace);
  const manyFolders = (): boolean => host.workspace.folders.length > 1;
  const rows = disposables.add(new DelegationTree({ store, inWindow: inWindow, manyFolders }));
  const tree = disposables.add(host.windows.tree(DELEGATIONS_VIEW, rows, { many: true }));
  rows.setVisible(tree.visible);
  // Opening the view is the first use. Not again if it fails or is cancelled: the view and all commands offer it.
  let installed = false;
  const installOnce = (): void => {
    if (installed || !tree.visible || sidecar.state.kind !== "missing") return;
    installed = true;
    void host.commands.run("understudy.install");
  };
  disposables.add(
    tree.onDidChangeVisibility((visible) => {
      rows.setVisible(visible);
      // A window without a folder starts the sidecar only when a view is opened.
      if (visible && sidecar.state.kind === "off") void sidecar.start();
      installOnce();
    }),
  );
  disposables.add(sidecar.onDidChange(installOnce));
  const notifications = disposables.add(
    new DelegationNotifications({ host, requester: sidecar, store, inWindow: inWindow }),
  );
  disposables.add(app.started.subscribe((id) => void notifications.started(id)));
  disposables.add(new TranscriptDocuments({ host, store }));
  const transcripts = disposables.add(new TranscriptPanels({ host, requester: sidecar, store }));
  disposables.add(
    registerDelegationCommands({
      host,
      requester: sidecar,
      store,
      rows,
      notifications: notifications,
      transcripts,
      inWindow: inWindow,
    }),
  );
  disposables.add(registerDelegateCommands(app, (id) => notifications.started(id)));
  disposables.add(registerRemedies(app));
  let badge = "";
  let hasTerminals = false;
  disposables.add(
    store.onDidChange((change) => {
      if (change.delegationList) host.commands.setContext("understudy.hasDelegations", store.delegations.length > 0);
      const terminals = store.delegations.some((one) => isLive(one) && one.terminal !== undefined);
      if (terminals !== hasTerminals) host.commands.setContext("understudy.hasTerminals", (hasTerminals = terminals));
      const [attention, review] = [rows.count("attention"), rows.count("review")];
      const words = [
        ...(attention > 0 ? [t("{0} needing attention", attention)] : []),
        ...(review > 0 ? [t("{0} to review", review)] : []),
      ].join(", ");
      if (words === badge) return;
      badge = words;
      tree.setBadge(attention + review, words);
    }),
  );
  return disposables;
}
