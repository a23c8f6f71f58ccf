/**
 * Pass VS Code's workspace trust on to the sidecar. The sidecar's own trust covers a digest of everything that
 * trusting allows. Trust granted in the editor is passed on once; when the digest changes, the user is asked and sees
 * the changes.
 */

import { t } from "../base/l10n.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Host } from "../host/host.ts";

export interface TrustDeps {
  readonly requester: Requester;
  readonly host: Pick<Host, "windows" | "workspace" | "memory" | "output">;
}

const DECLINED_KEY = "trust.seen";

/** The command that gives the trust that is missing: that of the editor, or that of the sidecar. */
export function trustRepair({ workspace }: Pick<Host, "workspace">): { title: string; command: string } {
  return workspace.trusted
    ? { title: t("Review Trust…"), command: "understudy.trust" }
    : { title: t("Manage Workspace Trust"), command: "workbench.trust.manage" };
}

/**
 * Call when the sidecar has started, and when it reports that trust changed. `again` asks again about what the user
 * has declined. Returns whether the sidecar trusts every folder now.
 */
export async function syncWorkspaceTrust({ requester, host }: TrustDeps, again = false): Promise<boolean> {
  if (!host.workspace.trusted) return false;
  let all = true;
  for (const { uri, name } of host.workspace.folders) {
    try {
      const now = await requester.request("understudy/workspace/trust", { workspace: uri });
      if (now.trusted) continue;
      const asked = host.memory.get<Record<string, string>>(DECLINED_KEY, {});
      const before = asked[uri];
      const declined = before === now.digest;
      if (declined && !again) {
        all = false;
        continue;
      }
      // The user has answered before, in this window, another one or a terminal. The editor's trust is older than the
      // change, or than the revocation.
      const changed = now.changed.length > 0;
      if (changed || before !== undefined) {
        const trust = t("Trust");
        const known = now.effects.filter((line) => !now.changed.some((one) => one.endsWith(line)));
        const allows = changed ? t("Trusting it still allows:") : t("Trusting it allows:");
        const detail = [...bulleted(now.changed), ...(changed ? [""] : []), allows, ...bulleted(known)].join("\n");
        const text = changed
          ? t("The Understudy configuration of {0} has changed since you trusted it.", name)
          : declined
            ? t("Understudy does not trust {0}.", name)
            : t("Trust in {0} was revoked in a terminal or in another editor.", name);
        const answer = await host.windows.message("warning", text, { buttons: [trust], modal: true, detail });
        if (answer !== trust) {
          await host.memory.set(DECLINED_KEY, { ...asked, [uri]: now.digest });
          all = false;
          continue;
        }
      }
      await requester.request("understudy/workspace/trust", { workspace: uri, trusted: true, digest: now.digest });
      await host.memory.set(DECLINED_KEY, { ...asked, [uri]: "" });
    } catch (error) {
      all = false;
      const info = toErrorInfo(error);
      // It changed between the two requests: the sidecar sends another notification.
      if (info.kind !== "conflict") host.output.warn(`workspace/trust of ${name}: ${info.message}`);
    }
  }
  return all;
}

function bulleted(lines: readonly string[]): string[] {
  return lines.map((line) => `• ${line}`);
}
