/** Export a result as a branch, a commit or a patch. */

import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";

export interface ExportDeps {
  readonly host: Pick<Host, "windows" | "documents" | "environment">;
  readonly requester: Requester;
}

/** Ask for the form and export what was not rejected. */
export async function exportResult({ host, requester }: ExportDeps, id: string): Promise<void> {
  const title = t("Export Result");
  const outcome = await host.windows.pick({
    title,
    placeholder: t("Rejected changes are not exported"),
    items: [
      { id: "branch", label: t("Branch"), detail: t("A new branch in your repository"), icon: "git-branch" },
      { id: "commit", label: t("Commit"), detail: t("A commit that is not on any branch"), icon: "git-commit" },
      { id: "patch", label: t("Patch"), detail: t("A patch for git apply"), icon: "diff" },
    ],
  });
  const to = outcome.kind === "picked" ? outcome.ids[0] : undefined;
  if (to === "patch") {
    const { patch = "" } = await requester.request("understudy/delegations/export", { id, to });
    await host.documents.showText(patch, "diff");
  } else if (to === "commit") {
    const { commit = "" } = await requester.request("understudy/delegations/export", { id, to });
    const copy = t("Copy Commit ID");
    const text = t("Exported as commit {0}.", commit.slice(0, 12));
    const answer = await host.windows.message("info", text, { buttons: [copy] });
    if (answer === copy) await host.environment.copyToClipboard(commit);
  } else if (to === "branch") {
    await exportBranch({ host, requester }, id, title);
  }
}

async function exportBranch({ host, requester }: ExportDeps, id: string, title: string): Promise<void> {
  let refused: { name: string; why: string } | undefined;
  for (;;) {
    const wrong = refused;
    const name = await host.windows.input({
      title,
      prompt: wrong?.why ?? t("Name of the new branch"),
      value: wrong?.name ?? `understudy/${id}`,
      validate: (text) => (text.trim() === "" ? t("Enter a branch name.") : undefined),
    });
    if (name.kind !== "accepted") return;
    const branch = name.value.trim();
    try {
      await requester.request("understudy/delegations/export", { id, to: "branch", branch });
    } catch (error) {
      const { kind, message } = toErrorInfo(error);
      if (kind !== "already_exists" && kind !== "invalid_params") throw error;
      refused = { name: branch, why: message }; // only git knows its rules for names: ask again
      continue;
    }
    await host.windows.message("info", t("Exported to the branch {0}.", branch));
    return;
  }
}
