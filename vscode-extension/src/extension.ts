/** Entry points that the editor calls. */

import { createApp } from "./app.ts";
import { type App } from "./appContext.ts";
import { DisposableStore } from "./base/events.ts";
import { languageClient } from "./sidecar/languageClient.ts";
import { createHost } from "./host/vscode/vscodeHost.ts";

let disposables: DisposableStore | undefined;
let app: App | undefined;

/** Returns the app for the tests that run inside the editor. */
export function activate(context: Parameters<typeof createHost>[0]): App {
  const own = (disposables = new DisposableStore());
  const host = createHost(context, own);
  app = createApp(
    {
      host,
      connect: (intercept) =>
        languageClient({ channel: host.output.raw, log: (line) => host.output.info(`sidecar: ${line}`), intercept }),
    },
    own,
  );
  return app;
}

export async function deactivate(): Promise<void> {
  await app?.sidecar.end();
  disposables?.dispose();
}
