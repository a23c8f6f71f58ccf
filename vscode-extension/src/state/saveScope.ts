/** The places where something can be saved: for the user, or in the `.understudy` folder of a workspace. */

import { t } from "../base/l10n.ts";
import type { Folder, PickRequest, StepHeader } from "../host/host.ts";
import type { DelegatorEntry } from "../protocol.ts";
import { USER_SCOPE } from "./delegatorDraft.ts";

/** Ask where to save. `active`: the ID of the item that is selected at first. */
export function scopeQuestion(header: StepHeader, folders: readonly Folder[], active: string): PickRequest {
  return {
    ...header,
    placeholder: t("Save for"),
    active,
    items: [
      {
        id: USER_SCOPE,
        label: t("All your workspaces"),
        icon: "account",
        detail: t("In your user configuration."),
      },
      ...folders.map(({ uri, name }) => ({
        id: uri,
        label: folders.length === 1 ? t("This workspace") : name,
        icon: "root-folder",
        ...(folders.length === 1 ? { description: name } : {}),
        detail: t("In its .understudy folder. You can share it with everyone who works on this project."),
      })),
    ],
  };
}

/** Where something is saved, in a list or a tooltip. */
export function scopeName(scope: DelegatorEntry["scope"]): string {
  if (scope === "builtin") return t("built in");
  return scope === "user" ? t("user configuration") : t("this workspace");
}
