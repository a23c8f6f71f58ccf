/**
 * The editor's workspace trust, told to the sidecar, which keeps its own: bound to what trusting allows. What the
 * person has trusted in the editor is recorded once; when it changed since, they are asked, and see what is different.
 */

import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { Host } from "../host/host.ts";

export interface TrustParts {
  readonly asker: Asker;
  readonly host: Pick<Host, "windows" | "workspace" | "memory" | "output">;
}

const SEEN = "trust.seen";

/** Call it when a sidecar greeted, and when the sidecar says that trust changed. */
export async function settleTrust({ asker, host }: TrustParts): Promise<void> {
  if (!host.workspace.trusted) return;
  for (const { uri, name } of host.workspace.folders) {
    try {
      const now = await asker.ask("understudy/workspace/trust", { workspace: uri });
      if (now.trusted) continue;
      const asked = host.memory.get<Record<string, string>>(SEEN, {});
      const before = asked[uri];
      if (before === now.seen) continue; // this very state was turned down
      // Somebody's answer is there already, from another window or a terminal if not from this one: the editor's trust
      // is older than what has changed since, and than a trust that was withdrawn.
      const changed = now.changed.length > 0;
      if (changed || before !== undefined) {
        const trust = t("Trust It");
        const known = now.allows.filter((line) => !now.changed.some((one) => one.endsWith(line)));
        const allows = changed ? t("As before, it allows:") : t("It allows:");
        const detail = [...list(now.changed), ...(changed ? [""] : []), allows, ...list(known)].join("\n");
        const text = changed
          ? t("What {0} configures for Understudy has changed since you trusted it.", name)
          : t("Your trust in {0} was withdrawn, in a terminal or in another editor.", name);
        const answer = await host.windows.message("warning", text, { buttons: [trust], modal: true, detail });
        if (answer !== trust) {
          await host.memory.set(SEEN, { ...asked, [uri]: now.seen });
          continue;
        }
      }
      await asker.ask("understudy/workspace/trust", { workspace: uri, trusted: true, seen: now.seen });
      await host.memory.set(SEEN, { ...asked, [uri]: "" });
    } catch (error) {
      const info = errorInfo(error);
      // Somebody changed it between the two requests: the sidecar says so, and we are called again.
      if (info.kind !== "conflict") host.output.warn(`workspace/trust of ${name}: ${info.message}`);
    }
  }
}

function list(lines: readonly string[]): string[] {
  return lines.map((line) => `• ${line}`);
}
