/** What the editor calls. */

import { createApp, type App } from "./app.ts";
import { Bag } from "./base/emitter.ts";
import { languageClient } from "./client/languageClient.ts";
import { createHost } from "./host/vscode.ts";

let bag: Bag | undefined;
let app: App | undefined;

/** Returns what tests inside the editor look at. */
export function activate(context: Parameters<typeof createHost>[0]): App {
  const own = (bag = new Bag());
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
  bag?.dispose();
}
