/** Register the status item, the commands on the sidecar, crash messages and workspace trust. */

import * as path from "node:path";
import type { App } from "../appContext.ts";
import { type Disposable, DisposableStore, serialize } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { sidecarEnvironment } from "../sidecar/childProcess.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { install, InstallError, hasWheels } from "../sidecar/installer.ts";
import { registerDiagnostics } from "./diagnosticsPage.ts";
import { createReport } from "./issueReport.ts";
import { registerStatus, mismatchText } from "./statusBar.ts";
import { trustSync } from "./workspaceTrust.ts";

export function registerHealth(app: App): Disposable {
  const { host, sidecar, store } = app;
  const disposables = new DisposableStore();
  disposables.add(registerStatus({ host, sidecar, store }));
  disposables.add(host.commands.register("understudy.restart", () => sidecar.restart()));
  disposables.add(
    host.commands.register("understudy.openSettings", () =>
      host.commands.run("workbench.action.openSettings", "@ext:understudy.understudy"),
    ),
  );
  disposables.add(host.commands.register("understudy.showOutput", () => host.output.show()));
  disposables.add(
    host.commands.register("understudy.openConfiguration", async () => {
      const uri = await sidecar.request("understudy/configuration/init", {}).then(
        ({ location }) => location.uri,
        (error: unknown) => {
          const { kind, location } = toErrorInfo(error);
          if (kind !== "already_exists" || !location) throw error;
          return location.uri;
        },
      );
      await host.documents.show(uri);
    }),
  );
  let installing: Promise<boolean> | undefined;
  disposables.add(
    host.commands.register(
      "understudy.install",
      () => (installing ??= installSidecar(app).finally(() => (installing = undefined))),
    ),
  );
  disposables.add(
    host.commands.register("understudy.reportIssue", async () => {
      const text = await createReport({
        environment: host.environment,
        output: host.output,
        requester: sidecar,
        state: () => sidecar.state,
        store,
        folders: () => host.workspace.folders.map((folder) => folder.path),
      });
      await host.documents.showText(text, "markdown");
    }),
  );
  disposables.add(registerDiagnostics({ host, requester: sidecar, store }));
  disposables.add(host.workspace.onDidGrantTrust(() => void sidecar.restart()));
  let path = host.workspace.setting("path", "");
  disposables.add(
    host.workspace.onDidChangeSettings(() => {
      const next = host.workspace.setting("path", "");
      if (next === path) return;
      path = next;
      void sidecar.restart();
    }),
  );
  let told = "";
  disposables.add(
    sidecar.onDidChange((state) => {
      if (state.kind === "off") told = ""; // the user has restarted the sidecar

      // The first crash is repaired at once without a message; a second one is reported.
      const crashed = state.kind === "failed" || (state.kind === "crashed" && state.againInMs > 0);
      if (!crashed && state.kind !== "mismatch") return;
      const text = state.kind === "mismatch" ? mismatchText(state) : t("Understudy keeps crashing: {0}", state.cause);
      if (told === text) return;
      told = text;
      const more = t("Show Options");
      void host.windows.message("error", text, { buttons: [more] }).then(async (answer) => {
        if (answer === more) await host.commands.run("understudy.showStatus");
      });
    }),
  );
  return disposables;
}

export function registerTrust({ host, sidecar, store }: App): Disposable {
  const disposables = new DisposableStore();
  const sync = trustSync({ requester: sidecar, host });
  const settle = serialize(() => sync());
  disposables.add(host.commands.register("understudy.trust", () => sync(true)));
  disposables.add(sidecar.onDidChange(({ kind }) => kind === "running" && settle()));
  disposables.add(store.onDidChange((change) => change.trust && settle()));
  disposables.add(host.workspace.onDidChangeFolders(() => sidecar.state.kind === "running" && settle()));
  return disposables;
}

/** Install the engine, with progress that can be cancelled. Returns whether it runs: what needed it continues then. */
async function installSidecar({ host, sidecar }: App): Promise<boolean> {
  const isRunning = (): boolean => sidecar.state.kind === "running";
  if (isRunning()) return true;
  const named: string = host.workspace.setting<string>("path", "");
  if (named !== "" && sidecar.state.kind === "missing") {
    const settings = t("Open Settings");
    const text = t("The setting understudy.path is {0}, which is not a program.", named);
    void host.windows.message("error", text, { buttons: [settings] }).then(async (answer) => {
      if (answer === settings) await host.commands.run("workbench.action.openSettings", "understudy.path");
    });
    return false;
  }
  const { extensionPath, extensionVersion, storagePath, variables } = host.environment;
  const wheelsPath = path.join(extensionPath, "wheels");
  try {
    await host.windows.progress(
      { title: t("Installing Understudy"), where: "notification", cancellable: true },
      (progress) =>
        install(
          {
            wheelsPath,
            storagePath,
            version: extensionVersion,
            python: host.workspace.setting("python", ""),
            // Not the Python of a workspace: the engine must not change with it.
            env: sidecarEnvironment(
              variables,
              host.workspace.folders.map((folder) => folder.path),
            ),
            log: (line) => host.output.info(line),
          },
          (message, percent) => progress.report(message, percent),
          progress.signal,
        ),
    );
  } catch (error) {
    if (!(error instanceof InstallError)) throw error;
    host.output.error(error.message);
    const [choose, show] = [t("Open Settings"), t("Show Output")];
    const text = error.hint ? `${error.message} ${error.hint}` : error.message;
    const buttons = [choose, ...((await hasWheels(wheelsPath)) ? [show] : [])];
    void host.windows.message("error", text, { buttons }).then(async (answer) => {
      if (answer === show) host.output.show();
      if (answer === choose) await host.commands.run("workbench.action.openSettings", "understudy.python");
    });
    return false;
  }
  await sidecar.restart();
  return isRunning(); // otherwise, the view and the status bar show why
}
