/** What the engine knows to do about a problem, as buttons. `delegations/applyRemedies.ts` does it. */

import { t } from "../base/l10n.ts";
import type { Delegation, Remedy } from "../protocol.ts";
import type { Repair } from "../sidecar/connection.ts";

/** The title of the button. */
export function remedyTitle({ kind, paths = [], name = "" }: Remedy): string {
  const names = paths.map((path) => path.slice(path.lastIndexOf("/") + 1)).join(", ");
  switch (kind) {
    case "link_folders":
      return t("Link {0}", names);
    case "copy_files":
      return t("Copy {0}", names);
    case "set_up_worktrees":
      return t("Install Packages in Worktrees");
    case "make_environment":
      return t("Create .venv in Terminal");
    case "install_packages":
      return t("Install in Terminal");
    case "add_check":
      return t("Add Check…");
    case "trust":
      return t("Review Trust…");
    case "install_tool":
      return t("Install {0}…", name);
    case "log_in":
      return t("Log in to {0}…", name);
    case "set_key":
      return t("Set API Key…");
    case "choose_model":
      return t("Choose Model…");
    case "add_delegator":
      return t("Add Delegator…");
    case "resume_queue":
      return t("Resume Queue");
  }
}

/** The button of an error. `workspace`: absent for the first folder of the window. */
export function remedyRepair(remedy: Remedy, workspace?: string): Repair {
  const values = workspace === undefined ? [remedy] : [remedy, workspace];
  return { title: remedyTitle(remedy), command: "understudy.remedy", arguments: values };
}

/** What helps a finished delegation: to get a result, or to get it checked. */
export function remedyOf({
  state,
  error,
  reservationFacts = [],
}: Pick<Delegation, "state" | "error" | "reservationFacts">): Remedy | undefined {
  if (state !== "finished") return undefined;
  return error?.remedy ?? reservationFacts.find(({ remedy }) => remedy !== undefined)?.remedy;
}
