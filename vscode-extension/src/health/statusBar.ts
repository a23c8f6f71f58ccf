/** The status bar item, and the menu that it opens. */

import { DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Sidecar, SidecarState } from "../sidecar/sidecar.ts";
import type { Host, PickItem, StatusItem } from "../host/host.ts";
import type { Store } from "../state/store.ts";
import { dollars } from "../state/formatting.ts";
import { isLive, problemsText } from "../state/wording.ts";
import { PROTOCOL_VERSION, type LedgerTotals, type Problem } from "../protocol.ts";

/** Context key: the `kind` of the sidecar's state. The welcome views depend on it. */
export const SIDECAR_CONTEXT = "understudy.sidecar";

export interface StatusDeps {
  readonly host: Pick<Host, "windows" | "commands" | "workspace" | "output">;
  readonly sidecar: Pick<Sidecar, "state" | "onDidChange"> & Requester;
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
  let today: LedgerTotals | undefined;
  /** How many delegations had finished when the costs were read; undefined: they must be read. */
  let counted: number | undefined;
  const readCosts = async (): Promise<void> => {
    const finished = store.delegations.filter((one) => !isLive(one)).length;
    if (sidecar.state.kind !== "running") counted = undefined;
    if (sidecar.state.kind !== "running" || counted === finished) return;
    counted = finished;
    const start = new Date();
    start.setHours(0, 0, 0, 0);
    try {
      const since = start.toISOString();
      today = (await sidecar.request("understudy/ledger/read", { since, limit: 1 })).totals;
      draw();
    } catch (error) {
      host.output.debug(`costs of today: ${toErrorInfo(error).message}`);
    }
  };
  const draw = (): void => {
    host.commands.setContext(SIDECAR_CONTEXT, sidecar.state.kind);
    let running = 0;
    let waiting = 0;
    for (const { state } of store.delegations) {
      if (state === "waiting") waiting += 1;
      else if (state !== "finished") running += 1;
    }
    const words = describe(sidecar.state, { running, waiting, problems: problemCount(store.problems), today });
    const next = JSON.stringify(words);
    if (next === shown) return;
    shown = next;
    item.set({ ...words, tooltip: escapeMarkdown(words.tooltip), command: "understudy.showStatus" });
  };
  const update = (): void => {
    draw();
    void readCosts();
  };
  disposables.add(sidecar.onDidChange(update));
  disposables.add(store.onDidChange(update));
  let midnight: NodeJS.Timeout;
  const nextDay = (): void => {
    const now = new Date();
    midnight = setTimeout(
      () => {
        [today, counted] = [undefined, undefined];
        update();
        nextDay();
      },
      new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1).getTime() - now.getTime(),
    );
  };
  nextDay();
  disposables.add({ dispose: () => clearTimeout(midnight) });
  disposables.add(host.commands.register("understudy.showStatus", () => showMenu(deps)));
  draw();
  return disposables;
}

/** Text of the item for each state. */
export function describe(
  state: SidecarState,
  count: { running: number; waiting: number; problems: number; today?: LedgerTotals | undefined },
): StatusText {
  const name = "Understudy";
  const spent = Number(count.today?.costUsd ?? 0);
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
      if (count.today && count.today.attempts > 0) lines.push(costsOfToday(count.today));
      const spoken = ["Understudy", ...lines.slice(1)].join(", ");
      const cost = spent > 0 ? ` ${dollars(spent)}` : "";
      if (count.waiting > 0) {
        const text = `$(bell-dot) ${name} ${count.waiting}${cost === "" ? "" : ` ·${cost}`}`;
        return { text, tooltip: lines.join("\n\n"), spoken, severity: "warning" };
      }
      // The item of the delegations shows that they run.
      return { text: `$(check) ${name}${cost}`, tooltip: lines.join("\n\n"), spoken };
    }
  }
}

/** `Today: $0.42, 7 attempts, the cost of 2 is unknown`. */
function costsOfToday({ costUsd, attempts, costsUnknown }: LedgerTotals): string {
  const facts = [attempts === 1 ? t("1 attempt") : t("{0} attempts", attempts)];
  if (costsUnknown > 0) facts.push(t("the cost of {0} is unknown", costsUnknown));
  return t("Today: {0}", [dollars(Number(costUsd)), ...facts].join(", "));
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
