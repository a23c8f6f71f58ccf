/** Export a result as a branch, a commit or a patch; commit what was accepted of it on the user's branch. */

import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import { displayPath } from "../state/formatting.ts";

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

/** Files that the question before a commit lists. */
const MOST_FILES = 20;

/** Show the message and the files, let the user change the title, and commit. */
export async function commitAccepted({ host, requester }: ExportDeps, id: string): Promise<void> {
  let message: string | undefined;
  for (;;) {
    const shown = await requester.request("understudy/delegations/commit", {
      id,
      dryRun: true,
      ...(message === undefined ? {} : { message }),
    });
    ({ message } = shown);
    const mixed = new Set(shown.mixed);
    const files = shown.files.map((file) =>
      mixed.has(file) ? t("{0} (with your own changes)", displayPath(file)) : displayPath(file),
    );
    const more = files.length > MOST_FILES ? [t("and {0} more", files.length - MOST_FILES)] : [];
    const [commit, edit] = [t("Commit"), t("Edit Title…")];
    const text = files.length === 1 ? t("Commit 1 file?") : t("Commit {0} files?", files.length);
    const detail = [message.trim(), "", ...files.slice(0, MOST_FILES), ...more].join("\n");
    const answer = await host.windows.message("info", text, { modal: true, buttons: [commit, edit], detail });
    if (answer === edit) {
      const [title = "", ...body] = message.split("\n");
      const changed = await host.windows.input({
        title: t("Commit with Evidence"),
        prompt: t("First line of the message"),
        value: title,
        validate: (line) => (line.trim() === "" ? t("Enter a title.") : undefined),
      });
      if (changed.kind === "accepted") message = [changed.value.trim(), ...body].join("\n");
      continue;
    }
    if (answer !== commit) return;
    // The hooks of the user may take their time.
    const done = await host.windows.progress({ title: t("Committing…"), where: "notification" }, () =>
      requester.request("understudy/delegations/commit", { id, ...(message === undefined ? {} : { message }) }),
    );
    await host.windows.message("info", t("Committed {0}.", (done.commit ?? "").slice(0, 12)));
    return;
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
