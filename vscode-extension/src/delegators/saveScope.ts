/** The question where to save: for the user, or in the `.understudy` folder of a workspace. */

import { t } from "../base/l10n.ts";
import type { Folder, PickRequest, StepHeader } from "../host/host.ts";

/** The ID of the item for the user; the IDs of the others are the URIs of their folders. */
export const USER_SCOPE = "user";

export function scopeQuestion(header: StepHeader, folders: readonly Folder[], active: string): PickRequest {
  return {
    ...header,
    placeholder: t("Save for"),
    active,
    items: [
      {
        id: USER_SCOPE,
        label: t("You"),
        icon: "account",
        detail: t("In your user configuration, for all workspaces."),
      },
      ...folders.map(({ uri, name }) => ({
        id: uri,
        label: folders.length === 1 ? t("This workspace") : name,
        icon: "root-folder",
        detail: t("In its .understudy folder. You can share it with everyone who works on this project."),
      })),
    ],
  };
}
