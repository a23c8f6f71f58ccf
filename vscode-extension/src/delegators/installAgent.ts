/** Help to install an agent: show its command and login, and look for it again. */

import { t } from "../base/l10n.ts";
import type { Host, PickItem } from "../host/host.ts";
import type { Install, ToolEntry } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import type { InstallStep } from "../state/pageClient.ts";

export interface InstallAgentDeps {
  readonly requester: Requester;
  readonly windows: Pick<Host["windows"], "pick" | "runInTerminal">;
  readonly environment: Pick<Host["environment"], "openExternal" | "copyToClipboard">;
}

/** Do one step: the commands run in terminals that the user sees. */
export async function takeInstallStep(
  windows: Pick<Host["windows"], "runInTerminal">,
  environment: InstallAgentDeps["environment"],
  { displayName, install }: { readonly displayName: string; readonly install: Install },
  step: InstallStep,
): Promise<void> {
  const { command, loginCommand, url } = install;
  if (step === "install") windows.runInTerminal(t("Install {0}", displayName), command);
  else if (step === "copy") await environment.copyToClipboard(command);
  else if (step === "login" && loginCommand !== undefined) {
    windows.runInTerminal(t("Log in to {0}", displayName), loginCommand);
  } else await environment.openExternal(url);
}

/** Explain until the agent is found. Returns it, or undefined if the user went back. Nothing runs unless chosen. */
export async function installAgent(
  { requester, windows, environment }: InstallAgentDeps,
  tool: ToolEntry,
  first: "install" | "login" = "install",
): Promise<ToolEntry | undefined> {
  const { install, displayName } = tool;
  if (!install) return undefined;
  const title = t("Install {0}", displayName);
  let placeholder = install.about;
  const next: Partial<Record<InstallStep, string>> = {
    install: t("When the terminal is done, choose Check Again."),
    copy: t("Copied. Run it in a terminal, then choose Check Again."),
    login: t("When you have logged in, choose Check Again."),
  };
  let active: string = first;
  for (;;) {
    const outcome = await windows.pick({ title, back: true, placeholder, active, items: choices(install) });
    if (outcome.kind !== "picked") return undefined;
    const [chosen = ""] = outcome.ids;
    active = "check";
    switch (chosen) {
      case "install":
      case "copy":
      case "login":
      case "instructions":
        await takeInstallStep(windows, environment, { displayName, install }, chosen);
        placeholder = next[chosen] ?? placeholder;
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
    { id: "install", label: t("Run in Terminal"), icon: "terminal", detail: install.command },
    { id: "copy", label: t("Copy Command"), icon: "copy", detail: install.command },
    {
      id: "login",
      label: t("Log In"),
      icon: "key",
      detail: install.login,
      ...(install.loginCommand === undefined ? {} : { description: install.loginCommand }),
    },
    { id: "check", label: t("Check Again"), icon: "refresh" },
    { id: "instructions", label: t("Open Instructions"), icon: "link-external", detail: install.url },
  ];
}
