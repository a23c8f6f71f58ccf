/**
 * Pass VS Code's workspace trust on to the sidecar. The sidecar's own trust covers a digest of everything that
 * trusting allows. Trust granted in the editor is passed on once; when the digest changes, the user is asked and sees
 * the changes.
 */

import { t } from "../base/l10n.ts";
import { toErrorInfo, type Repair, type Requester } from "../sidecar/connection.ts";
import type { Folder, Host } from "../host/host.ts";
import type { TrustResult } from "../protocol.ts";

export interface TrustDeps {
  readonly requester: Requester;
  readonly host: Pick<Host, "windows" | "commands" | "workspace" | "memory" | "output">;
}

const DECLINED_KEY = "trust.seen";
/** How long a command waits for the decision on the editor's page. */
const DECISION_MS = 300_000;

/** Asks the user for the trust that is missing: that of the editor, or that of the sidecar. */
export const trustRepair = (): Repair => ({ title: t("Review Trust…"), command: "understudy.trust", asks: true });

/**
 * Return the function to call when the sidecar has started, and when it reports that trust changed. `again`: the user
 * wants something that needs trust; ask again about what was declined. It returns whether the sidecar trusts every
 * folder now.
 */
export function trustSync({ requester, host }: TrustDeps): (again?: boolean) => Promise<boolean> {
  /** The open questions by folder: what fails while one is open waits for its answer instead of asking twice. */
  const open = new Map<string, Promise<boolean>>();

  /** Ask, unless trust granted in the editor covers it; return whether the user trusts the folder. */
  async function ask({ uri, name }: Folder, now: TrustResult, again: boolean): Promise<boolean> {
    const asked = host.memory.get<Record<string, string>>(DECLINED_KEY, {});
    const before = asked[uri];
    const declined = before === now.digest;
    if (declined && !again) return false;
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
        return false;
      }
    }
    await requester.request("understudy/workspace/trust", { workspace: uri, trusted: true, digest: now.digest });
    await host.memory.set(DECLINED_KEY, { ...asked, [uri]: "" });
    return true;
  }

  return async (again = false) => {
    if (!host.workspace.trusted && !(again && (await askEditorTrust(host)))) return false;
    let all = true;
    for (const folder of host.workspace.folders) {
      const { uri, name } = folder;
      try {
        const now = await requester.request("understudy/workspace/trust", { workspace: uri });
        if (now.trusted) {
          // Trust given in a terminal counts, too: when it is revoked, the editor must ask instead of giving it again.
          const asked = host.memory.get<Record<string, string>>(DECLINED_KEY, {});
          if (asked[uri] === undefined) await host.memory.set(DECLINED_KEY, { ...asked, [uri]: "" });
          continue;
        }
        const asking = open.get(uri) ?? ask(folder, now, again).finally(() => open.delete(uri));
        open.set(uri, asking);
        all = (await asking) && all;
      } catch (error) {
        all = false;
        const info = toErrorInfo(error);
        // It changed between the two requests: the sidecar sends another notification.
        if (info.kind === "conflict") continue;
        if (again) throw error;
        host.output.warn(`workspace/trust of ${name}: ${info.message}`);
      }
    }
    return all;
  };
}

/**
 * The editor gives its trust in a page of its own; the sidecar restarts when it does. Returns whether it was given: what
 * needed it continues then, unless the user has probably forgotten it.
 */
async function askEditorTrust({ windows, commands, workspace }: TrustDeps["host"]): Promise<boolean> {
  const manage = t("Manage Workspace Trust");
  const text = t("This window is in Restricted Mode, so Understudy runs nothing here.");
  const detail = t("What you started continues when you trust the folder.");
  if ((await windows.message("warning", text, { buttons: [manage], modal: true, detail })) !== manage) return false;
  await commands.run("workbench.trust.manage");
  if (workspace.trusted) return true;
  return new Promise((resolve) => {
    const end = (given: boolean): void => {
      clearTimeout(late);
      granted.dispose();
      resolve(given);
    };
    const late = setTimeout(end, DECISION_MS, false);
    const granted = workspace.onDidGrantTrust(() => end(true));
  });
}

function bulleted(lines: readonly string[]): string[] {
  return lines.map((line) => `• ${line}`);
}
