/** `Connect` without an editor: the same process, through the JSON-RPC library that the language client uses. */

import {
  CancellationTokenSource,
  createMessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-jsonrpc/node";
import { spawnSidecar } from "../../src/sidecar/childProcess.ts";
import { ProcessExitError, type Connect, type ServerInfo } from "../../src/sidecar/connection.ts";

export const pipe: Connect = async (launch, ended, abort) => {
  const child = spawnSidecar(launch, () => {});
  abort.addEventListener("abort", () => child.kill(), { once: true });
  const { stdin, stdout } = child.process;
  if (!stdin || !stdout) throw new Error("no pipes");
  const connection = createMessageConnection(new StreamMessageReader(stdout), new StreamMessageWriter(stdin));
  let stopping = false;
  connection.onError(() => {});
  connection.listen();
  const asked = connection.sendRequest<{ capabilities: { experimental?: { understudy?: ServerInfo } } }>("initialize", {
    processId: process.pid,
    rootUri: null,
    capabilities: {},
    initializationOptions: { trusted: launch.trusted },
  });
  asked.catch(() => {});
  const hello = await Promise.race([asked, child.ended.then((ending) => Promise.reject(new ProcessExitError(ending)))]);
  await connection.sendNotification("initialized", {});
  void child.ended.then((ending) => {
    connection.dispose();
    if (!stopping) ended(ending);
  });
  return {
    serverInfo: hello.capabilities.experimental?.understudy,
    async request(method, params, signal) {
      const source = new CancellationTokenSource();
      signal?.addEventListener("abort", () => source.cancel(), { once: true });
      return connection.sendRequest<unknown>(method, params, source.token);
    },
    onNotification: (method, listener) =>
      connection.onNotification(method, (params: unknown) => listener(params as never)),
    async stop() {
      stopping = true;
      await connection.sendRequest("shutdown").catch(() => {});
      await connection.sendNotification("exit").catch(() => {});
      await child.endWithin(3_000);
    },
  };
};
