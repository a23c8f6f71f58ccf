/** Help to install an agent: show its command and login, and look for it again. */

import { t } from "../base/l10n.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { Install, ToolEntry } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";

export interface InstallAgentDeps {
  readonly requester: Requester;
  readonly windows: Pick<Host["windows"], "pick" | "runInTerminal">;
  readonly environment: Pick<Host["environment"], "openExternal" | "copyToClipboard">;
}

/** Explain until the agent is found. Returns it, or undefined if the user went back. Nothing runs unless chosen. */
export async function installAgent(
  { requester, windows, environment }: InstallAgentDeps,
  tool: ToolEntry,
  first: "run" | "login" = "run",
): Promise<ToolEntry | undefined> {
  const { install, displayName } = tool;
  if (!install) return undefined;
  const title = t("Install {0}", displayName);
  let placeholder = install.about;
  let active: string = first;
  for (;;) {
    const outcome = await windows.pick({ title, back: true, placeholder, active, items: choices(install) });
    if (outcome.kind !== "picked") return undefined;
    const [chosen = ""] = outcome.ids;
    active = "check";
    switch (chosen) {
      case "run":
        windows.runInTerminal(title, install.command);
        placeholder = t("When the terminal is done, choose Check Again.");
        break;
      case "copy":
        await environment.copyToClipboard(install.command);
        placeholder = t("Copied. Run it in a terminal, then choose Check Again.");
        break;
      case "login":
        if (install.loginCommand === undefined) await environment.openExternal(install.url);
        else windows.runInTerminal(t("Log in to {0}", displayName), install.loginCommand);
        placeholder = t("When you have logged in, choose Check Again.");
        break;
      case "more":
        await environment.openExternal(install.url);
        break;
      default: {
        const { tools } = await requester.request("understudy/tools/list", { refresh: true });
        const found = tools.find(({ name }) => name === tool.name);
        if (found?.found) return found;
        placeholder =
          found?.problems[0]?.message ??
          t("{0} was not found. If its folder was added to PATH just now, restart the editor.", displayName);
      }
    }
  }
}

function choices(install: Install): PickItem[] {
  return [
    { id: "run", label: t("Run in Terminal"), icon: "terminal", detail: install.command },
    { id: "copy", label: t("Copy Command"), icon: "copy", detail: install.command },
    {
      id: "login",
      label: t("Log In"),
      icon: "key",
      detail: install.login,
      ...(install.loginCommand === undefined ? {} : { description: install.loginCommand }),
    },
    { id: "check", label: t("Check Again"), icon: "refresh" },
    { id: "more", label: t("Open Instructions"), icon: "link-external", detail: install.url },
  ];
}
