/** What a run needs of this machine and what is missing, as a document to read: nobody is asked whether to save it. */

import { Bag, Emitter } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import type { Asker } from "../client/wire.ts";
import type { Host } from "../host/host.ts";

export interface MachineParts {
  readonly host: Pick<Host, "windows" | "documents" | "commands">;
  readonly asker: Asker;
}

const MACHINE = "understudy-machine";

export function registerMachine({ host, asker }: MachineParts): Bag {
  const bag = new Bag();
  const changed = bag.add(new Emitter<string>());
  let found = "";
  bag.add(host.documents.provide(MACHINE, { text: () => found, onDidChange: changed.signal }));
  bag.add(
    host.commands.register("understudy.doctor", async () => {
      const { checks } = await host.windows.progress({ title: t("Examining …"), where: "status" }, () =>
        asker.ask("understudy/doctor", {}),
      );
      const wrong = checks.filter(({ ok }) => !ok).length;
      const head = wrong === 0 ? t("Nothing is missing.") : wrong === 1 ? t("One thing is missing.") : t("{0} things are missing.", wrong); // prettier-ignore
      const lines = checks.map(({ name, ok, message, hint }) =>
        [`${ok ? "✓" : "✗"} ${name}: ${message}`, ...(hint ? [`  ${hint}`] : [])].join("\n"),
      );
      found = [head, "", ...lines, ""].join("\n");
      const uri = `${MACHINE}:/${encodeURIComponent(t("This Machine"))}.txt`;
      changed.fire(uri);
      await host.documents.show(uri, { preview: true });
    }),
  );
  return bag;
}
