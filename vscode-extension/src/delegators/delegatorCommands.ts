/** Commands on a delegator: the one of a row, otherwise one that the user chooses. */

import { DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { toErrorInfo, type Requester, type Subscriber } from "../sidecar/connection.ts";
import { chooseDefaults } from "./defaultDelegator.ts";
import { DelegatorsPanel, enterKey } from "./delegatorsPanel.ts";
import type { Folder, Host, Tree } from "../host/host.ts";
import { suggestName } from "../state/delegatorDraft.ts";
import { needEngine } from "../state/engineNeeded.ts";
import { folderOf } from "../state/workspaceFolders.ts";
import type { Store } from "../state/store.ts";
import { toolAndModel } from "../state/wording.ts";
import type { DelegatorEntry, Range } from "../protocol.ts";
import { DELEGATORS_VIEW, delegatorName, delegatorRow } from "./delegatorTree.ts";

export interface DelegatorCommandDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "workspace" | "environment" | "output">;
  readonly requester: Requester;
  readonly subscriber: Subscriber;
  readonly store: Store;
  readonly tree: Pick<Tree, "reveal" | "selection" | "visible">;
}

export function registerDelegatorCommands(deps: DelegatorCommandDeps): DisposableStore {
  const { host, requester, store, tree } = deps;
  const disposables = new DisposableStore();
  /** Folders to save in: empty in an untrusted window. */
  const folders = (): readonly Folder[] => (host.workspace.trusted ? host.workspace.folders : []);
  /** The folder that the entry belongs to. */
  const seen = (entry: DelegatorEntry): { workspace?: string } => {
    const folder = folderOf(entry.location?.uri, folders());
    return folder === undefined ? {} : { workspace: folder.uri };
  };

  /** Run with the delegator of a row, otherwise of the selection, otherwise of a quick pick. */
  const withEntry =
    (work: (entry: DelegatorEntry) => Promise<void>, fits: (entry: DelegatorEntry) => boolean = () => true) =>
    async (row?: unknown): Promise<void> => {
      const name = delegatorName(row) ?? (await pickDelegator(deps, fits));
      const entry = name === undefined ? undefined : store.delegator(name);
      if (entry) await work(entry);
    };

  const select = async (name: string): Promise<void> => {
    await store.refresh(["delegators", "modelServers"]);
    store.flush();
    await host.windows.focusView(DELEGATORS_VIEW);
    await tree.reveal(delegatorRow(name), { focus: true });
  };

  /** The focus stays on the page. */
  const saved = async (name: string): Promise<void> => {
    await store.refresh(["delegators", "modelServers"]);
    store.flush();
    if (tree.visible) await tree.reveal(delegatorRow(name));
  };
  const tested = (name: string, failure: string | undefined): void => {
    const entry = store.delegator(name);
    if (entry) store.noteTest(entry, failure);
  };
  const panel = disposables.add(new DelegatorsPanel({ host, requester, subscriber: deps.subscriber, saved, tested }));

  const openFile = async (entry: DelegatorEntry): Promise<void> => {
    if (!entry.location) {
      await host.windows.message("info", t("{0} is built in and has no file.", shortName(entry)));
      return;
    }
    const place = entry.state.problems.find((problem) => problem.location?.uri === entry.location?.uri)?.location;
    await host.documents.show(entry.location.uri, { range: (place ?? entry.location).range });
  };

  const duplicate = async (entry: DelegatorEntry): Promise<void> => {
    const names = new Set(store.delegators.map(({ delegator }) => delegator.name));
    const copy = { ...entry.delegator, name: suggestName({ name: "", tool: entry.delegator.name }, names) };
    const made = await requester.request("understudy/delegators/create", {
      delegator: copy,
      scope: entry.scope === "workspace" ? "workspace" : "user",
      ...seen(entry),
    });
    await select(made.delegator.name);
  };

  disposables.add(
    host.commands.register("understudy.delegators.add", () => panel.showUntilSaved({ show: "add" })), // Delegate uses the result
  );
  disposables.add(
    host.commands.register(
      "understudy.delegators.edit",
      withEntry(async (entry) => {
        if (entry.editable) {
          await panel.showUntilSaved({ show: "edit", name: entry.delegator.name }); // a remedy compares the models then
        } else if (entry.location) {
          await openFile(entry); // written by hand: only the user changes it
        } else {
          const copy = t("Duplicate");
          const text = t("{0} is built in and cannot be edited. Duplicate it?", shortName(entry));
          if ((await host.windows.message("info", text, { buttons: [copy] })) === copy) await duplicate(entry);
        }
      }),
    ),
  );
  disposables.add(
    host.commands.register("understudy.delegators.setDefault", async (row, recipe) => {
      const name = delegatorName(row) ?? (await pickDelegator(deps, () => true));
      const entry = name === undefined ? undefined : store.delegator(name);
      if (!entry) return undefined;
      const { windows } = host;
      const also = typeof recipe === "string" ? recipe : undefined;
      const chosen = await chooseDefaults({ requester, windows, store, folders }, entry, also);
      if (chosen !== undefined) await store.refresh(["delegators"]);
      return chosen ? name : undefined; // Delegate uses the result
    }),
  );
  disposables.add(host.commands.register("understudy.delegators.duplicate", withEntry(duplicate)));
  disposables.add(
    host.commands.register(
      "understudy.delegators.delete",
      withEntry(
        async (entry) => {
          const { name } = entry.delegator;
          if (!entry.editable) {
            const open = t("Open File");
            const text = t("{0} was written by hand, and such files are not changed. Delete it in its file.", name);
            if ((await host.windows.message("info", text, { buttons: [open] })) === open) await openFile(entry);
            return;
          }
          const remove = t("Delete");
          const detail = t("Its file is deleted. Its delegations are kept.");
          const options = { buttons: [remove], modal: true, detail };
          if ((await host.windows.message("warning", t("Delete the delegator {0}?", name), options)) !== remove) return;
          await requester.request("understudy/delegators/delete", { name, revision: entry.revision, ...seen(entry) });
          await store.refresh(["delegators"]);
        },
        (entry) => entry.editable || !!entry.location,
      ),
    ),
  );
  disposables.add(
    host.commands.register(
      "understudy.delegators.test",
      withEntry((entry) => {
        panel.show({ show: "test", name: entry.delegator.name });
        return Promise.resolve();
      }),
    ),
  );
  disposables.add(
    host.commands.register(
      "understudy.delegators.setKey",
      withEntry(
        async (entry) => {
          const server = entry.delegator.modelServer;
          if (!server) {
            const text = t("{0} does not use a model server. Its tool manages its own key.", entry.delegator.name);
            await host.windows.message("info", text);
            return;
          }
          if (!(await enterKey(host.windows, requester, server, seen(entry)))) return;
          panel.show({ show: "test", name: entry.delegator.name });
        },
        (entry) => Boolean(entry.delegator.modelServer),
      ),
    ),
  );
  disposables.add(
    host.commands.register(
      "understudy.delegators.openFile",
      withEntry(openFile, (entry) => !!entry.location),
    ),
  );
  disposables.add(host.commands.register("understudy.modelServers.manage", () => panel.show({ show: "servers" })));
  disposables.add(
    host.commands.register("understudy.delegators.refresh", async () => {
      await requester.request("understudy/tools/list", { refresh: true });
      await store.refresh(["delegators", "modelServers", "recipes"]);
    }),
  );
  disposables.add(
    host.commands.register("understudy.openLocation", async (uri, range) => {
      if (typeof uri !== "string") return;
      try {
        await host.documents.show(uri, range === undefined ? {} : { range: range as Range });
      } catch (error) {
        await host.windows.message("error", toErrorInfo(error).message);
      }
    }),
  );
  return disposables;
}

/** Remove an explanation in parentheses from the display name. */
function shortName({ delegator }: DelegatorEntry): string {
  return (delegator.displayName ?? delegator.name).replace(/ \(.*\)$/, "");
}

async function pickDelegator(
  { host, requester, store }: DelegatorCommandDeps,
  fits: (entry: DelegatorEntry) => boolean,
): Promise<string | undefined> {
  const items = store.delegators.filter(fits).map((entry) => ({
    id: entry.delegator.name,
    label: entry.delegator.displayName ?? entry.delegator.name,
    description: toolAndModel(entry),
  }));
  if (items.length === 0) {
    await needEngine(requester, store);
    await host.windows.message("info", t("No delegator is available for this command."));
    return undefined;
  }
  const outcome = await host.windows.pick({ title: t("Understudy"), placeholder: t("Choose a delegator"), items });
  return outcome.kind === "picked" ? outcome.ids[0] : undefined;
}
