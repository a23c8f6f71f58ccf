/**
 * Assemble the extension. Each feature is one function: it receives the `App`, registers itself and returns a
 * disposable. To add a feature, add it to `FEATURES`.
 */

import { DisposableStore, Emitter, type Disposable } from "./base/events.ts";
import { installedProgram } from "./sidecar/installer.ts";
import { locate } from "./sidecar/locator.ts";
import { sidecarEnvironment } from "./sidecar/childProcess.ts";
import { Sidecar } from "./sidecar/sidecar.ts";
import type { Connect } from "./sidecar/connection.ts";
import type { Host } from "./host/host.ts";
import { Store } from "./state/store.ts";
import { registerAssistants } from "./assistants/registerAssistants.ts";
import { registerReview } from "./review/registerReview.ts";
import { registerDelegations } from "./delegations/registerDelegations.ts";
import type { App, Interceptor } from "./appContext.ts";
import { registerDelegators } from "./delegators/registerDelegators.ts";
import { remedyRepair } from "./state/remedies.ts";
import { untrustedFolders } from "./state/workspaceFolders.ts";
import { registerChecks } from "./checks/registerChecks.ts";
import { trustRepair } from "./health/workspaceTrust.ts";
import { registerHealth, registerTrust } from "./health/registerHealth.ts";

/** In order of registration. */
const FEATURES: readonly ((app: App) => Disposable)[] = [
  registerDelegators,
  registerDelegations,
  registerReview,
  registerChecks,
  registerHealth,
  registerTrust,
  registerAssistants,
];

export interface AppDeps {
  readonly host: Host;
  readonly connect: (intercept: (command: string, values: readonly unknown[]) => Promise<unknown>) => Connect;
}

/** Assemble the extension. Returns at once: activation does not wait for the sidecar. */
export function createApp(deps: AppDeps, disposables: DisposableStore): App {
  const { host } = deps;
  const interceptors = new Map<string, Interceptor>();
  const sidecar = disposables.add(
    new Sidecar({
      locate: async () =>
        locate({
          setting: host.workspace.setting("path", ""),
          homePath: host.environment.homePath,
          variables: host.environment.variables,
          platform: host.environment.platform,
          folders: host.workspace.folders.map((folder) => folder.path),
          installed: await installedProgram(host.environment.storagePath),
        }),
      launch: ({ command }) => ({
        command,
        args: ["serve"],
        cwd: host.environment.homePath,
        env: sidecarEnvironment(host.environment.variables, untrustedFolders(host)),
        trusted: host.workspace.trusted,
      }),
      connect: deps.connect(async (command, values) => interceptors.get(command)?.(values)),
      log: (line) => host.output.info(line),
      repair: ({ kind, remedy }) =>
        kind === "untrusted_workspace" ? trustRepair() : remedy ? remedyRepair(remedy) : undefined,
    }),
  );
  const store = disposables.add(
    new Store({
      requester: sidecar,
      subscriber: sidecar,
      workspaces: () => host.workspace.folders.map((folder) => folder.uri),
      log: (line) => host.output.warn(line),
    }),
  );
  disposables.add(
    sidecar.onDidChange(({ kind }) => {
      if (kind === "running") void store.attach();
      else store.detach();
    }),
  );
  disposables.add(host.workspace.onDidChangeFolders(() => void store.foldersChanged()));
  const app: App = { host, sidecar, store, interceptors, started: disposables.add(new Emitter()) };
  for (const feature of FEATURES) disposables.add(feature(app));
  return app;
}
