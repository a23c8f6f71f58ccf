/** Show the result of `doctor` as a page: each finding with what it means here, and a button that does what is missing. */

import { type Disposable, DisposableStore } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { pageHtml } from "../base/pageHtml.ts";
import { sanitize } from "../base/untrustedText.ts";
import type { DoctorCheck, Remedy } from "../protocol.ts";
import { editorHint, type Requester } from "../sidecar/connection.ts";
import type { Host, Panel } from "../host/host.ts";
import { oneLine } from "../state/formatting.ts";
import { remedyTitle } from "../state/remedies.ts";
import type { Store } from "../state/store.ts";
import { toolAndModel } from "../state/wording.ts";

export interface DiagnosticsDeps {
  readonly host: Pick<Host, "windows" | "commands" | "environment">;
  readonly requester: Requester;
  readonly store: Pick<Store, "delegators">;
}

const PANEL = "understudy.diagnostics";

/** What is wrong, what could be better, and what is fine, in this order. */
const MARKS = ["✗", "→", "✓"] as const;

interface Row {
  readonly mark: (typeof MARKS)[number];
  readonly name: string;
  readonly text: string;
  readonly hint: string;
  /** The title of its button; "": it has none. */
  readonly button: string;
  readonly run: () => Promise<unknown>;
}

export function registerDiagnostics({ host, requester, store }: DiagnosticsDeps): Disposable {
  const disposables = new DisposableStore();
  let panel: Panel | undefined;
  let rows: readonly Row[] = [];
  const { windows, commands } = host;

  const examine = async (): Promise<void> => {
    const { checks } = await windows.progress({ title: t("Running diagnostics…"), where: "status" }, () =>
      requester.request("understudy/doctor", {}),
    );
    rows = [...checks.map(rowOf), ...delegatorRows()].sort((a, b) => MARKS.indexOf(a.mark) - MARKS.indexOf(b.mark));
    show(checks.filter(({ ok }) => !ok).length);
  };
  const rowOf = ({ name, ok, message, hint, remedy }: DoctorCheck): Row => ({
    mark: !ok ? "✗" : remedy ? "→" : "✓",
    name: nameOf(name),
    text: oneLine(message, Infinity),
    hint: oneLine(editorHint({ ...(hint === undefined ? {} : { hint }), ...(remedy ? { remedy } : {}) }), Infinity),
    button: remedy ? remedyTitle(remedy) : "",
    run: async () => remedy && act(remedy),
  });
  const act = async (remedy: Remedy): Promise<void> => {
    if ((await commands.run("understudy.remedy", remedy)) === true) await examine();
  };
  const delegatorRows = (): Row[] =>
    store.delegators.map((entry) => {
      const { name } = entry.delegator;
      const [problem] = entry.state.problems;
      return {
        mark: entry.state.ready ? "✓" : "✗",
        name: t("Delegator {0}", name),
        text: problem?.message ?? toolAndModel(entry),
        hint: problem ? editorHint(problem) : "",
        button: entry.state.ready ? t("Test") : t("Edit…"),
        run: () =>
          commands.run(
            entry.state.ready ? "understudy.delegators.test" : "understudy.delegators.edit",
            `delegator:${name}`,
          ),
      };
    });
  /** What the page shows; it asks again whenever its tab is shown again. */
  let content: object = {};
  const show = (wrong: number): void => {
    const head = wrong === 0 ? t("All checks passed.") : wrong === 1 ? t("1 check failed.") : t("{0} checks failed.", wrong); // prettier-ignore
    const shown = rows.map(({ mark, name, text, hint, button }) => ({
      ...{ mark, button },
      ...{ name: sanitize(name), text: sanitize(text), hint: sanitize(hint) },
    }));
    content = { head, rows: shown, again: t("Run Again") };
    if (panel) {
      panel.post(content);
      panel.reveal();
      return;
    }
    panel = windows.panel(PANEL, t("Diagnostics"), pageHtml(SCRIPT, STYLE, host.environment.language));
    const own = new DisposableStore();
    own.add(
      panel.onMessage((message) => {
        if (message === "ready") panel?.post(content);
        else if (message === "again") void commands.run("understudy.doctor");
        else if (typeof message === "number") void commands.run("understudy.doctor.run", message);
      }),
    );
    own.add(
      panel.onDidClose(() => {
        panel = undefined;
        own.dispose();
      }),
    );
  };
  disposables.add(commands.register("understudy.doctor", examine));
  // A command, so that errors are shown like those of others.
  disposables.add(commands.register("understudy.doctor.run", (row) => rows[Number(row)]?.run()));
  return disposables;
}

/** What a check of the engine is about, in the words of the editor. */
function nameOf(check: string): string {
  const names: Record<string, string> = {
    platform: t("Operating system"),
    python: t("Python of the engine"),
    git: t("Git"),
    state: t("Storage"),
    changes: t("Changes seen by other windows"),
    isolation: t("Processes of agents"),
    keyring: t("API keys"),
    configuration: t("Configuration"),
    repository: t("Folder"),
    trust: t("Trust"),
    interpreter: t("Python of the project"),
    packages: t("Packages of the project"),
    checks: t("Checks of results"),
    tools: t("Agents on this machine"),
    delegations: t("Delegations"),
    worktrees: t("Copies for agents"),
    import: t("Other tools"),
  };
  return names[check] ?? check;
}

/** Draws what it is sent, as text only, and sends back the number of the row whose button was pressed. */
const SCRIPT = `
const editor = acquireVsCodeApi();
const element = (name, text, kind) => {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const button = (text, message, kind) => {
  const made = element("button", text, kind);
  made.addEventListener("click", () => editor.postMessage(message));
  return made;
};
addEventListener("message", ({ data }) => {
  const rows = data.rows.map((row, number) => {
    const item = element("li", "");
    const mark = element("span", row.mark, row.mark === "✗" ? "bad mark" : row.mark === "✓" ? "good mark" : "mark");
    mark.setAttribute("aria-hidden", "true");
    const words = element("div", "");
    words.append(element("strong", row.name), element("p", row.text));
    if (row.hint) words.append(element("p", row.hint, "hint"));
    if (row.button) words.append(button(row.button, number, row.mark === "✓" ? "secondary" : ""));
    item.append(mark, words);
    return item;
  });
  const list = element("ul", "");
  list.append(...rows);
  document.body.replaceChildren(element("h1", data.head), list, button(data.again, "again", "secondary"));
});
editor.postMessage("ready");
`;

const STYLE = `
body { padding: 8px 24px 24px; max-width: 900px; overflow-wrap: anywhere; }
h1 { font-size: 1.4em; font-weight: 600; }
ul { list-style: none; padding: 0; }
li { display: flex; gap: 10px; padding: 8px 0; border-top: 1px solid var(--vscode-widget-border, var(--vscode-contrastBorder, transparent)); }
li > div { flex: 1; }
p { margin: 2px 0; }
.mark { width: 1.2em; text-align: center; }
.bad { color: var(--vscode-errorForeground); }
.good { color: var(--vscode-testing-iconPassed, inherit); }
.hint { color: var(--vscode-descriptionForeground); }
button { margin-top: 6px; padding: 4px 10px; border: 1px solid var(--vscode-button-border, transparent); border-radius: 2px;
  color: var(--vscode-button-foreground); background: var(--vscode-button-background); font: inherit; cursor: pointer; }
button.secondary { color: var(--vscode-button-secondaryForeground); background: var(--vscode-button-secondaryBackground); }
button:hover { background: var(--vscode-button-hoverBackground); }
button.secondary:hover { background: var(--vscode-button-secondaryHoverBackground); }
button:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
`;
