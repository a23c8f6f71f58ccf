/** Show the result of `doctor` as a page: its lines are wrapped, and the editor does not ask to save it. */

import { DisposableStore, Emitter } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { Host } from "../host/host.ts";
import { oneLine } from "../state/formatting.ts";

export interface DiagnosticsDeps {
  readonly host: Pick<Host, "windows" | "documents" | "commands">;
  readonly requester: Requester;
}

const DIAGNOSTICS_SCHEME = "understudy-diagnostics";

export function registerDiagnostics({ host, requester }: DiagnosticsDeps): DisposableStore {
  const disposables = new DisposableStore();
  const changed = disposables.add(new Emitter<string>());
  let found = "";
  disposables.add(host.documents.provide(DIAGNOSTICS_SCHEME, { text: () => found, onDidChange: changed.subscribe }));
  disposables.add(
    host.commands.register("understudy.doctor", async () => {
      const { checks } = await host.windows.progress({ title: t("Running diagnostics…"), where: "status" }, () =>
        requester.request("understudy/doctor", {}),
      );
      const wrong = checks.filter(({ ok }) => !ok).length;
      const head = wrong === 0 ? t("All checks passed.") : wrong === 1 ? t("1 check failed.") : t("{0} checks failed.", wrong); // prettier-ignore
      const lines = checks.map(({ name, ok, message, hint }) => {
        const said = `- ${ok ? "✓" : "✗"} **${escapeMarkdown(name)}**: ${escapeMarkdown(oneLine(message, Infinity))}`;
        return hint ? `${said}  \n  ${escapeMarkdown(oneLine(hint, Infinity))}` : said;
      });
      found = [`# ${head}`, "", ...lines, ""].join("\n");
      const uri = `${DIAGNOSTICS_SCHEME}:/${encodeURIComponent(t("Diagnostics"))}.md`;
      changed.fire(uri);
      await host.documents.preview(uri);
    }),
  );
  return disposables;
}
