/** The item in the status bar that explains itself, and what the person can do about it. */

import { Bag } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { markdown } from "../base/markdown.ts";
import type { Sidecar, SidecarState } from "../client/sidecar.ts";
import type { Host, PickItem, StatusItem } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { PROTOCOL_VERSION, type Problem } from "../protocol.ts";

/** Context key: the `kind` of the sidecar's state; the views' welcomes depend on it. */
export const SIDECAR_KEY = "understudy.sidecar";

export interface StatusParts {
  readonly host: Pick<Host, "windows" | "commands" | "workspace">;
  readonly sidecar: Pick<Sidecar, "state" | "onDidChange">;
  readonly store: Pick<Store, "delegations" | "onDidChange" | "problems">;
}

export interface Words {
  readonly text: string;
  readonly tooltip: string;
  readonly spoken: string;
  readonly severity?: "warning" | "error";
}

export function registerStatus(parts: StatusParts): Bag {
  const { host, sidecar, store } = parts;
  const bag = new Bag();
  const item: StatusItem = bag.add(host.windows.statusItem("understudy.status", "Understudy", 50));
  let shown = "";
  const draw = (): void => {
    host.commands.setContext(SIDECAR_KEY, sidecar.state.kind);
    let running = 0;
    let waiting = 0;
    for (const { state } of store.delegations) {
      if (state === "waiting") waiting += 1;
      else if (state !== "finished") running += 1;
    }
    const words = describe(sidecar.state, { running, waiting, problems: wrong(store.problems) });
    const next = JSON.stringify(words);
    if (next === shown) return;
    shown = next;
    item.set({ ...words, tooltip: markdown(words.tooltip), command: "understudy.showStatus" });
  };
  bag.add(sidecar.onDidChange(draw));
  bag.add(store.onDidChange(draw));
  bag.add(host.commands.register("understudy.showStatus", () => explain(parts)));
  draw();
  return bag;
}

/** What the item says in each state. */
export function describe(state: SidecarState, count: { running: number; waiting: number; problems: number }): Words {
  const name = "Understudy";
  switch (state.kind) {
    case "off":
      return {
        text: `$(circle-outline) ${name}`,
        tooltip: t("Understudy is not started."),
        spoken: t("Understudy, not started"),
      };
    case "starting":
      return { text: `$(loading~spin) ${name}`, tooltip: t("Understudy starts …"), spoken: t("Understudy, starting") };
    case "missing":
      return {
        text: `$(circle-slash) ${name}`,
        tooltip: t("Understudy is not installed on this machine. Select to install it."),
        spoken: t("Understudy, not installed"),
        severity: "warning",
      };
    case "mismatch":
      return {
        text: `$(warning) ${name}`,
        tooltip: mismatchWords(state),
        spoken: t("Understudy, versions do not fit"),
        severity: "error",
      };
    case "crashed":
      return {
        text: `$(sync~spin) ${name}`,
        tooltip: t("Understudy stopped and is started again: {0}. Delegations go on meanwhile.", state.cause),
        spoken: t("Understudy, restarting"),
        severity: "warning",
      };
    case "failed":
      return {
        text: `$(error) ${name}`,
        tooltip: t(
          "Understudy keeps stopping: {0}. Delegations go on meanwhile. Select to see what can be done.",
          state.cause,
        ),
        spoken: t("Understudy, stopped"),
        severity: "error",
      };
    case "running": {
      const lines = [t("Understudy {0} runs: {1}", state.greeting.version, state.found.command)];
      if (count.running > 0) lines.push(t("{0} running", count.running));
      if (count.waiting > 0) lines.push(t("{0} waiting for you", count.waiting));
      if (count.problems > 0) lines.push(t("{0} problems in the configuration", count.problems));
      const spoken = ["Understudy", ...lines.slice(1)].join(", ");
      if (count.waiting > 0) {
        const text = `$(bell-dot) ${name} ${count.waiting}`;
        return { text, tooltip: lines.join("\n\n"), spoken, severity: "warning" };
      }
      const text = count.running > 0 ? `$(sync~spin) ${name} ${count.running}` : `$(check) ${name}`;
      return { text, tooltip: lines.join("\n\n"), spoken };
    }
  }
}

/** Which side to upgrade, and how. */
export function mismatchWords(state: SidecarState & { kind: "mismatch" }): string {
  const said = state.said || t("{0} does not say its version", state.found.command);
  return state.upgrade === "extension"
    ? t("Upgrade the Understudy extension: it speaks protocol {0}, but {1}.", PROTOCOL_VERSION, said)
    : t(
        "Upgrade Understudy ({0}): the extension speaks protocol {1}, but {2}.",
        state.found.command,
        PROTOCOL_VERSION,
        said,
      );
}

/** How many are more than a piece of information. */
function wrong(problems: readonly Problem[]): number {
  return problems.filter(({ severity }) => severity !== "information").length;
}

/** A menu of what fits the state. */
async function explain({ host, sidecar, store }: StatusParts): Promise<void> {
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
  // The cause in full: a placeholder is cut where the box ends.
  const cause = state.kind === "mismatch" ? mismatchWords(state) : undefined;
  if (state.kind === "mismatch" && state.upgrade === "extension") {
    const search = "workbench.extensions.search";
    offer(search, t("Look for a Newer Extension"), "extensions", cause, ["understudy.understudy"]);
  }
  const carried = t("Into the extension's own storage, from what the extension carries; nothing is downloaded.");
  if (state.kind === "mismatch" && state.upgrade === "sidecar") {
    offer("understudy.install", t("Install Understudy's Engine"), "cloud-download", `${cause} ${carried}`);
  }
  if (state.kind === "missing") {
    offer("understudy.install", t("Install Understudy's Engine"), "cloud-download", carried);
  }
  if (state.kind === "missing" || state.kind === "mismatch") {
    offer("workbench.action.openSettings", t("Set Its Path …"), "gear", undefined, ["understudy.path"]);
  }
  if (state.kind === "running") {
    // What somebody is most likely to want; a slip of the Enter key restarts nothing.
    const waiting = store.delegations.filter((one) => one.state === "waiting");
    if (waiting.length > 0) {
      const question = waiting.length === 1 ? waiting[0]?.waitingFor?.title : undefined;
      offer("understudy.delegations.answer", t("Answer a Question …"), "comment-discussion", question);
    }
    offer("understudy.delegations.focus", t("Show Delegations"), "list-tree");
    offer("understudy.doctor", t("Examine This Machine"), "pulse", t("What a run needs, and what is missing."));
  }
  offer(
    "understudy.restart",
    state.kind === "off" || state.kind === "missing" ? t("Start the Engine") : t("Restart the Engine"),
    "debug-restart",
  );
  if (state.kind === "failed") {
    offer("understudy.install", t("Install Understudy's Engine"), "cloud-download", carried);
  }
  offer("understudy.showOutput", t("Show the Output"), "output");
  offer(
    "workbench.action.setLogLevel",
    t("Set the Log Level …"),
    "list-filter",
    t("Understudy, Trace: every message between the extension and Understudy."),
  );
  offer("understudy.reportIssue", t("Report an Issue …"), "bug");
  const placeholder = describe(state, { running: 0, waiting: 0, problems: wrong(store.problems) }).tooltip;
  const outcome = await host.windows.pick({
    title: "Understudy",
    placeholder: placeholder.replaceAll("\n\n", " · "),
    items,
  });
  const chosen = outcome.kind === "picked" ? items.find(({ id }) => id === outcome.ids[0]) : undefined;
  if (chosen) await host.commands.run(chosen.run, ...(chosen.values ?? []));
}
