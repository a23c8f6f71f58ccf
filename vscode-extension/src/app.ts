/**
 * The parts put together. Every feature is one function that gets the `App`, registers itself and gives back what ends
 * it; a new one is a line in `FEATURES`.
 */

import * as path from "node:path";
import { Bag, Emitter, oneAtATime, soon, type Disposable } from "./base/emitter.ts";
import { t } from "./base/l10n.ts";
import { carriesWheels, install, InstallError, installed } from "./client/install.ts";
import { locate } from "./client/locate.ts";
import { environment } from "./client/process.ts";
import { Sidecar } from "./client/sidecar.ts";
import type { Connect } from "./client/wire.ts";
import { registerMachine } from "./health/machine.ts";
import { report } from "./health/report.ts";
import { mismatchWords, registerStatus } from "./health/status.ts";
import { settleTrust } from "./health/trust.ts";
import type { Host } from "./host/host.ts";
import { Store } from "./model/store.ts";
import { registerReview } from "./review/feature.ts";
import { DelegatorRows, DELEGATORS_VIEW } from "./views/delegators.ts";
import { registerDelegatorCommands } from "./views/delegatorCommands.ts";
import { registerDelegations } from "./views/delegationFeature.ts";

/** A handler for commands of code actions and lenses that the sidecar offers under a request's name. */
export type Interceptor = (values: readonly unknown[]) => Promise<unknown>;

/** What every feature gets. */
export interface App {
  readonly host: Host;
  /** Asks and hears the sidecar, whichever process that is at the moment. */
  readonly sidecar: Sidecar;
  readonly store: Store;
  /**
   * Request name → what the extension does instead of the sidecar when a code action or lens of the sidecar is chosen
   * (`understudy/delegations/start` shows progress). Undefined from the handler: let the sidecar do it.
   */
  readonly interceptors: Map<string, Interceptor>;
  /** Tell it the id of what was started in this window: progress, questions and the end are shown to its person. */
  readonly started: Emitter<string>;
}

/** In the order in which they are registered. */
const FEATURES: readonly ((app: App) => Disposable)[] = [
  registerDelegators,
  registerDelegations,
  registerReview,
  registerHealth,
  registerTrust,
];

export interface AppParts {
  readonly host: Host;
  readonly connect: (intercept: (command: string, values: readonly unknown[]) => Promise<unknown>) => Connect;
}

/** Put everything together. Returns at once: nothing waits for the sidecar. */
export function createApp(parts: AppParts, bag: Bag): App {
  const { host } = parts;
  const interceptors = new Map<string, Interceptor>();
  const sidecar = bag.add(
    new Sidecar({
      locate: async () =>
        locate({
          setting: host.workspace.setting("path", ""),
          homePath: host.environment.homePath,
          variables: host.environment.variables,
          platform: host.environment.platform,
          trusted: host.workspace.trusted,
          folders: host.workspace.folders.map((folder) => folder.path),
          installed: await installed(host.environment.storagePath),
        }),
      launch: ({ command }) => ({
        command,
        args: ["serve"],
        cwd: host.environment.homePath,
        env: environment(host.environment.variables, shut(host)),
        trusted: host.workspace.trusted,
      }),
      connect: parts.connect(async (command, values) => interceptors.get(command)?.(values)),
      log: (line) => host.output.info(line),
    }),
  );
  const store = bag.add(
    new Store({
      asker: sidecar,
      hearer: sidecar,
      workspaces: () => host.workspace.folders.map((folder) => folder.uri),
      log: (line) => host.output.warn(line),
    }),
  );
  bag.add(
    sidecar.onDidChange(({ kind }) => {
      if (kind === "running") void store.attach();
      else store.detach();
    }),
  );
  bag.add(host.workspace.onDidChangeFolders(() => void store.foldersChanged()));
  const app: App = { host, sidecar, store, interceptors, started: bag.add(new Emitter()) };
  for (const feature of FEATURES) bag.add(feature(app));
  return app;
}

function registerDelegators({ host, sidecar, store }: App): Disposable {
  const bag = new Bag();
  const rows = bag.add(new DelegatorRows(store));
  const tree = bag.add(host.windows.tree(DELEGATORS_VIEW, rows));
  bag.add(registerDelegatorCommands({ host, asker: sidecar, store, tree }));
  bag.add(
    store.onDidChange((change) => {
      if (!change.delegators && !change.delegationList) return;
      host.commands.setContext("understudy.loaded", store.loaded);
      const own = store.delegators.some(({ scope }) => scope !== "builtin");
      host.commands.setContext("understudy.hasDelegators", own);
    }),
  );
  // A window without a folder starts nothing before somebody looks.
  const start = (): void => void sidecar.start();
  if (host.workspace.folders.length > 0 || tree.visible) bag.add(soon(start)); // activation does not pay for it
  bag.add(tree.onDidChangeVisibility((visible) => visible && sidecar.state.kind === "off" && start()));
  return bag;
}

function registerHealth(app: App): Disposable {
  const { host, sidecar, store } = app;
  const bag = new Bag();
  bag.add(registerStatus({ host, sidecar, store }));
  bag.add(host.commands.register("understudy.restart", () => sidecar.restart()));
  bag.add(host.commands.register("understudy.showOutput", () => host.output.show()));
  let installing: Promise<void> | undefined;
  bag.add(
    host.commands.register(
      "understudy.install",
      () => (installing ??= installSidecar(app).finally(() => (installing = undefined))),
    ),
  );
  bag.add(
    host.commands.register("understudy.reportIssue", async () => {
      const text = await report({
        environment: host.environment,
        output: host.output,
        asker: sidecar,
        state: () => sidecar.state,
        store,
        folders: () => host.workspace.folders.map((folder) => folder.path),
      });
      await host.documents.showText(text, "markdown");
    }),
  );
  bag.add(registerMachine({ host, asker: sidecar }));
  bag.add(host.workspace.onDidGrantTrust(() => void sidecar.restart()));
  let path = host.workspace.setting("path", "");
  bag.add(
    host.workspace.onDidChangeSettings(() => {
      const next = host.workspace.setting("path", "");
      if (next === path) return;
      path = next;
      void sidecar.restart();
    }),
  );
  let told = "";
  bag.add(
    sidecar.onDidChange((state) => {
      if (state.kind === "off") told = ""; // a person began anew
      // The first crash is mended before anybody could read of it; the second one means that something is wrong.
      const crashed = state.kind === "failed" || (state.kind === "crashed" && state.againInMs > 0);
      if (!crashed && state.kind !== "mismatch") return;
      const text = state.kind === "mismatch" ? mismatchWords(state) : t("Understudy keeps stopping: {0}", state.cause);
      if (told === text) return;
      told = text;
      const more = t("What Now?");
      void host.windows.message("error", text, { buttons: [more] }).then(async (answer) => {
        if (answer === more) await host.commands.run("understudy.showStatus");
      });
    }),
  );
  return bag;
}

function registerTrust({ host, sidecar, store }: App): Disposable {
  const bag = new Bag();
  const settle = oneAtATime(() => settleTrust({ asker: sidecar, host })); // nobody is asked twice at once
  bag.add(sidecar.onDidChange(({ kind }) => kind === "running" && settle()));
  bag.add(store.onDidChange((change) => change.trust && settle()));
  bag.add(host.workspace.onDidChangeFolders(() => sidecar.state.kind === "running" && settle()));
  return bag;
}

/** Folders of which no program is run. */
function shut({ workspace }: Host): readonly string[] {
  return workspace.trusted ? [] : workspace.folders.map((folder) => folder.path);
}

/** Asked for by a person, with progress and a way to cancel it. */
async function installSidecar({ host, sidecar }: App): Promise<void> {
  const { extensionPath, extensionVersion, storagePath, platform, variables } = host.environment;
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
            platform,
            env: environment(variables, shut(host)),
            log: (line) => host.output.info(line),
          },
          (message, percent) => progress.report(message, percent),
          progress.signal,
        ),
    );
  } catch (error) {
    if (!(error instanceof InstallError)) throw error;
    host.output.error(error.message);
    const show = t("Show the Output");
    const text = error.hint ? `${error.message} ${error.hint}` : error.message;
    const buttons = (await carriesWheels(wheelsPath)) ? [show] : [];
    if ((await host.windows.message("error", text, { buttons })) === show) host.output.show();
    return;
  }
  await sidecar.restart();
}
