/** What can be done with a delegator: from its menu, or, without a row, after asking which one. */

import { Bag } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import { addDelegator, suggest, tryOut, type AddParts } from "../flows/addDelegator.ts";
import { setKey } from "../flows/modelServer.ts";
import type { Host, Tree } from "../host/host.ts";
import { folderOf } from "../model/folders.ts";
import type { Store } from "../model/store.ts";
import { driverWords } from "../model/words.ts";
import type { DelegatorEntry, Range } from "../protocol.ts";
import { DELEGATORS_VIEW, nameOf, rowOf } from "./delegators.ts";

export interface DelegatorCommandParts {
  readonly host: Pick<Host, "windows" | "documents" | "commands" | "workspace" | "environment">;
  readonly asker: Asker;
  readonly store: Store;
  readonly tree: Pick<Tree, "reveal" | "selection">;
}

export function registerDelegatorCommands(parts: DelegatorCommandParts): Bag {
  const { host, asker, store, tree } = parts;
  const bag = new Bag();
  const addParts: AddParts = {
    asker,
    windows: host.windows,
    names: () => new Set(store.delegators.map(({ delegator }) => delegator.name)),
    folders: () => (host.workspace.trusted ? host.workspace.folders : []),
    homePath: host.environment.homePath,
  };
  /** As seen from the folder that the entry belongs to. */
  const seen = (entry: DelegatorEntry): { workspace?: string } => {
    const folder = folderOf(entry.location?.uri, addParts.folders());
    return folder === undefined ? {} : { workspace: folder.uri };
  };

  /** Run with the delegator of a row, else of the selection, else of a choice. */
  const withEntry =
    (work: (entry: DelegatorEntry) => Promise<void>, fits: (entry: DelegatorEntry) => boolean = () => true) =>
    async (row?: unknown): Promise<void> => {
      const name = nameOf(row) ?? (await choose(parts, fits));
      const entry = name === undefined ? undefined : store.delegator(name);
      if (entry) await work(entry);
    };

  const select = async (name: string): Promise<void> => {
    await store.refresh(["delegators", "modelServers"]);
    store.flush();
    await host.windows.focusView(DELEGATORS_VIEW);
    await tree.reveal(rowOf(name), { focus: true });
  };

  const openFile = async (entry: DelegatorEntry): Promise<void> => {
    if (!entry.location) {
      await host.windows.message("info", t("{0} belongs to Understudy itself and has no file.", shownName(entry)));
      return;
    }
    const place = entry.state.problems.find((problem) => problem.location?.uri === entry.location?.uri)?.location;
    await host.documents.show(entry.location.uri, { range: (place ?? entry.location).range });
  };

  const duplicate = async (entry: DelegatorEntry): Promise<void> => {
    const names = addParts.names();
    const copy = { ...entry.delegator, name: suggest({ name: "", tool: entry.delegator.name }, names) };
    const made = await asker.ask("understudy/delegators/create", {
      delegator: copy,
      scope: entry.scope === "workspace" ? "workspace" : "user",
      ...seen(entry),
    });
    await select(made.delegator.name);
  };

  bag.add(
    host.commands.register("understudy.delegators.add", async () => {
      const made = await addDelegator(addParts);
      if (made) await select(made.delegator.name);
      return made?.delegator.name; // whoever was about to delegate goes on with it
    }),
  );
  bag.add(
    host.commands.register(
      "understudy.delegators.edit",
      withEntry(async (entry) => {
        if (entry.editable) {
          const changed = await addDelegator(addParts, entry);
          if (changed) await select(changed.delegator.name);
        } else if (entry.location) {
          await openFile(entry); // a person wrote it by hand: it is theirs to change
        } else {
          const copy = t("Duplicate");
          const text = t("{0} belongs to Understudy itself. Make one of your own from it?", shownName(entry));
          if ((await host.windows.message("info", text, { buttons: [copy] })) === copy) await duplicate(entry);
        }
      }),
    ),
  );
  bag.add(host.commands.register("understudy.delegators.duplicate", withEntry(duplicate)));
  bag.add(
    host.commands.register(
      "understudy.delegators.delete",
      withEntry(
        async (entry) => {
          const { name } = entry.delegator;
          const remove = t("Delete");
          const detail = t("Its file is removed. Delegations that it did stay.");
          const options = { buttons: [remove], modal: true, detail };
          if ((await host.windows.message("warning", t("Delete the delegator {0}?", name), options)) !== remove) return;
          await asker.ask("understudy/delegators/delete", { name, revision: entry.revision, ...seen(entry) });
          await store.refresh(["delegators"]);
        },
        (entry) => entry.editable,
      ),
    ),
  );
  bag.add(
    host.commands.register(
      "understudy.delegators.test",
      withEntry(async (entry) => {
        if ((await tryOut(addParts, entry)) === "change") {
          await host.commands.run("understudy.delegators.edit", rowOf(entry.delegator.name));
        }
        await store.refresh(["delegators", "modelServers"]);
      }),
    ),
  );
  bag.add(
    host.commands.register(
      "understudy.delegators.setKey",
      withEntry(
        async (entry) => {
          const server = entry.delegator.modelServer;
          if (!server) {
            const text = t("{0} uses no model server; its tool keeps its own key.", entry.delegator.name);
            await host.windows.message("info", text);
            return;
          }
          if (await setKey(addParts, server, seen(entry))) await tryOut(addParts, entry);
        },
        (entry) => Boolean(entry.delegator.modelServer),
      ),
    ),
  );
  bag.add(
    host.commands.register(
      "understudy.delegators.openFile",
      withEntry(openFile, (entry) => !!entry.location),
    ),
  );
  bag.add(
    host.commands.register("understudy.delegators.refresh", async () => {
      await asker.ask("understudy/tools/list", { refresh: true });
      await store.refresh(["delegators", "modelServers", "recipes"]);
    }),
  );
  bag.add(
    host.commands.register("understudy.openLocation", async (uri, range) => {
      if (typeof uri !== "string") return;
      try {
        await host.documents.show(uri, range === undefined ? {} : { range: range as Range });
      } catch (error) {
        await host.windows.message("error", errorInfo(error).message);
      }
    }),
  );
  return bag;
}

/** Without what a name explains in parentheses. */
function shownName({ delegator }: DelegatorEntry): string {
  return (delegator.displayName ?? delegator.name).replace(/ \(.*\)$/, "");
}

async function choose(
  { host, store }: DelegatorCommandParts,
  fits: (entry: DelegatorEntry) => boolean,
): Promise<string | undefined> {
  const items = store.delegators.filter(fits).map(({ delegator }) => ({
    id: delegator.name,
    label: delegator.displayName ?? delegator.name,
    description: driverWords(delegator),
  }));
  if (items.length === 0) {
    await host.windows.message("info", t("There is no delegator for this yet."));
    return undefined;
  }
  const outcome = await host.windows.pick({ title: t("Understudy"), placeholder: t("Which delegator?"), items });
  return outcome.kind === "picked" ? outcome.ids[0] : undefined;
}
