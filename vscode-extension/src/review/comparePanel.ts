/** The Compare page in a tab: decisions and links are those of the review. */

import { t } from "../base/l10n.ts";
import type { Decision } from "../protocol.ts";
import { PagePanel, type PagePanelDeps } from "../state/pagePanel.ts";

export const COMPARE_PANEL = "understudy.comparePage";

export interface ComparePanelDeps extends PagePanelDeps {
  readonly decide: (id: string, decisions: readonly Decision[]) => Promise<void>;
}

export function comparePanel({ decide, ...deps }: ComparePanelDeps): PagePanel {
  const { commands } = deps.host;
  return new PagePanel(deps, {
    type: COMPARE_PANEL,
    title: t("Compare Results"),
    page: "compare",
    requests: new Set(["understudy/groups/compare"]),
    answers: {
      "page/decide": async ({ id, decisions }) => {
        await decide(id, decisions);
        return {};
      },
      "page/review": async ({ id, path, hunk }) => {
        await commands.run("understudy.review.open", id);
        if (path !== undefined && hunk !== undefined) {
          await commands.run("understudy.review.show", `hunk:${id}:${path}:${hunk}`);
        }
        return {};
      },
    },
  });
}
