/** The status bar item, and the menu that it opens. */

import { DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import type { Sidecar, SidecarState } from "../sidecar/sidecar.ts";
import type { Host, PickItem, StatusItem } from "../host/host.ts";
import type { Store } from "../state/store.ts";
import { problemsText } from "../state/wording.ts";
import { PROTOCOL_VERSION, type Problem } from "../protocol.ts";

/** Context key: the `kind` of the sidecar's state. The welcome views depend on it. */
export const SIDECAR_CONTEXT = "understudy.sidecar";

export interface StatusDeps {
  readonly host: Pick<Host, "windows" | "commands" | "workspace">;
  readonly sidecar: Pick<Sidecar, "state" | "onDidChange">;
  readonly store: Pick<Store, "delegations" | "onDidChange" | "problems">;
}

export interface StatusText {
  readonly text: string;
  readonly tooltip: string;
  readonly spoken: string;
  readonly severity?: "warning" | "error";
}

export function registerStatus(deps: StatusDeps): DisposableStore {
  const { host, sidecar, store } = deps;
  const disposables = new DisposableStore();
  const item: StatusItem = disposables.add(host.windows.statusItem("understudy.status", "Understudy", 50));
  let shown = "";
  const draw = (): void => {
    host.commands.setContext(SIDECAR_CONTEXT, sidecar.state.kind);
    let running = 0;
    let waiting = 0;
    for (const { state } of store.delegations) {
      if (state === "waiting") waiting += 1;
      else if (state !== "finished") running += 1;
    }
    const words = describe(sidecar.state, { running, waiting, problems: problemCount(store.problems) });
    const next = JSON.stringify(words);
    if (next === shown) return;
    shown = next;
    item.set({ ...words, tooltip: escapeMarkdown(words.tooltip), command: "understudy.showStatus" });
  };
  disposables.add(sidecar.onDidChange(draw));
  disposables.add(store.onDidChange(draw));
  disposables.add(host.commands.register("understudy.showStatus", () => showMenu(deps)));
  draw();
  return disposables;
}

/** Text of the item for each state. */
export function describe(
  state: SidecarState,
  count: { running: number; waiting: number; problems: number },
): StatusText {
  const name = "Understudy";
  switch (state.kind) {
    case "off":
      return {
        text: `$(circle-outline) ${name}`,
        tooltip: t("Understudy has not started."),
        spoken: t("Understudy, not started"),
      };
    case "starting":
      return { text: `$(loading~spin) ${name}`, tooltip: t("Starting Understudy…"), spoken: t("Understudy, starting") };
    case "missing":
      return {
        text: `$(circle-slash) ${name}`,
        tooltip: t("The Understudy engine is not installed on this machine."),
        spoken: t("Understudy, not installed"),
        severity: "warning",
      };
    case "mismatch":
      return {
        text: `$(warning) ${name}`,
        tooltip: mismatchText(state),
        spoken: t("Understudy, incompatible versions"),
        severity: "error",
      };
    case "crashed":
      return {
        text: `$(sync~spin) ${name}`,
        tooltip: t("Understudy stopped and is restarting: {0}. Running delegations are not affected.", state.cause),
        spoken: t("Understudy, restarting"),
        severity: "warning",
      };
    case "failed":
      return {
        text: `$(error) ${name}`,
        tooltip: t("Understudy keeps crashing: {0}. Running delegations are not affected.", state.cause),
        spoken: t("Understudy, stopped"),
        severity: "error",
      };
    case "running": {
      const lines = [t("Understudy {0} is running: {1}", state.serverInfo.version, state.found.command)];
      if (count.running > 0) lines.push(t("{0} running", count.running));
      if (count.waiting > 0) lines.push(t("{0} waiting for you", count.waiting));
      if (count.problems > 0) lines.push(problemsText(count.problems));
      const spoken = ["Understudy", ...lines.slice(1)].join(", ");
      if (count.waiting > 0) {
        const text = `$(bell-dot) ${name} ${count.waiting}`;
        return { text, tooltip: lines.join("\n\n"), spoken, severity: "warning" };
      }
      // The item of the delegations shows that they run.
      return { text: `$(check) ${name}`, tooltip: lines.join("\n\n"), spoken };
    }
  }
}

/** Which side to update, and how. */
export function mismatchText(state: SidecarState & { kind: "mismatch" }): string {
  const said = state.reported || t("{0} does not report its version", state.found.command);
  return state.upgrade === "extension"
    ? t(
        "Incompatible versions: this extension needs protocol {0}, but {1}. Update the extension.",
        PROTOCOL_VERSION,
        said,
      )
    : t(
        "Incompatible versions: this extension needs protocol {1}, but {2}. Update the engine ({0}).",
        state.found.command,
        PROTOCOL_VERSION,
        said,
      );
}

/** Number of errors and warnings. */
function problemCount(problems: readonly Problem[]): number {
  return problems.filter(({ severity }) => severity !== "information").length;
}

/** Menu items for the current state. */
async function showMenu({ host, sidecar, store }: StatusDeps): Promise<void> {
  const { state } = sidecar;
  const items: (PickItem & { run: string; values?: readonly unknown[] })[] = [];
  const offer = (run: string, label: string, icon: string, detail?: string, values?: readonly unknown[]): void => {
    items.push({
      id: String(items.length),
      label,
      icon,
      run,
      ...(detail ? { detail } : {}),
      ...(values ? { values } : {}),
    });
  };
  // Show the full cause in a row: a placeholder is truncated.
  const cause = state.kind === "mismatch" ? mismatchText(state) : undefined;
  if (state.kind === "mismatch" && state.upgrade === "extension") {
    const search = "workbench.extensions.search";
    offer(search, t("Check for Extension Updates"), "extensions", cause, ["understudy.understudy"]);
  }
  const carried = t("Installs the bundled engine into the extension's storage. Nothing is downloaded.");
  if (state.kind === "mismatch" && state.upgrade === "sidecar") {
    offer("understudy.install", t("Install Engine"), "cloud-download", `${cause} ${carried}`);
  }
  if (state.kind === "missing") {
    offer("understudy.install", t("Install Engine"), "cloud-download", carried);
  }
  if (state.kind === "missing" || state.kind === "mismatch") {
    offer("workbench.action.openSettings", t("Set Path…"), "gear", undefined, ["understudy.path"]);
  }
  if (state.kind === "running") {
    // The most likely choice first; pressing Enter by accident must not restart anything.
    const waiting = store.delegations.filter((one) => one.state === "waiting");
    if (waiting.length > 0) {
      const question = waiting.length === 1 ? waiting[0]?.waitingFor?.title : undefined;
      offer("understudy.delegations.answer", t("Answer Question…"), "comment-discussion", question);
    }
    offer("understudy.delegations.focus", t("Show Delegations"), "list-tree");
    offer("understudy.delegators.setDefault", t("Choose Default Delegators…"), "star-empty");
    offer("understudy.modelServers.manage", t("Manage Model Servers…"), "server");
    offer("understudy.checks.manage", t("Manage Checks…"), "beaker");
    offer("understudy.doctor", t("Run Diagnostics"), "pulse", t("Check what delegations need on this machine."));
  }
  offer(
    "understudy.restart",
    state.kind === "off"
      ? t("Start Engine")
      : state.kind === "missing"
        ? t("Look for Engine Again")
        : t("Restart Engine"),
    "debug-restart",
  );
  if (state.kind === "failed") {
    offer("understudy.install", t("Install Engine"), "cloud-download", carried);
  }
  offer("understudy.openSettings", t("Open Settings"), "settings-gear");
  offer("understudy.showOutput", t("Show Output"), "output");
  offer(
    "workbench.action.setLogLevel",
    t("Set Log Level…"),
    "list-filter",
    t("Choose Understudy, then Trace, to log all messages to and from the engine."),
  );
  offer("understudy.reportIssue", t("Report Issue…"), "bug");
  const placeholder = describe(state, { running: 0, waiting: 0, problems: problemCount(store.problems) }).tooltip;
  const outcome = await host.windows.pick({
    title: "Understudy",
    placeholder: placeholder.replaceAll("\n\n", " · "),
    items,
  });
  const chosen = outcome.kind === "picked" ? items.find(({ id }) => id === outcome.ids[0]) : undefined;
  if (chosen) await host.commands.run(chosen.run, ...(chosen.values ?? []));
}
