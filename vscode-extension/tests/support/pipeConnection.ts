/** `Connect` without an editor: the same process, spoken to with the wire stack that the language client is made of. */

import {
  CancellationTokenSource,
  createMessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-jsonrpc/node";
import { start } from "../../src/client/process.ts";
import { EndedError, type Connect, type Greeting } from "../../src/client/wire.ts";

export const pipe: Connect = async (launch, ended, giveUp) => {
  const child = start(launch, () => {});
  giveUp.addEventListener("abort", () => child.kill(), { once: true });
  const { stdin, stdout } = child.process;
  if (!stdin || !stdout) throw new Error("no pipes");
  const connection = createMessageConnection(new StreamMessageReader(stdout), new StreamMessageWriter(stdin));
  let stopping = false;
  connection.onError(() => {});
  connection.listen();
  const asked = connection.sendRequest<{ capabilities: { experimental?: { understudy?: Greeting } } }>("initialize", {
    processId: process.pid,
    rootUri: null,
    capabilities: {},
    initializationOptions: { trusted: launch.trusted },
  });
  asked.catch(() => {});
  const hello = await Promise.race([asked, child.ended.then((ending) => Promise.reject(new EndedError(ending)))]);
  await connection.sendNotification("initialized", {});
  void child.ended.then((ending) => {
    connection.dispose();
    if (!stopping) ended(ending);
  });
  return {
    greeting: hello.capabilities.experimental?.understudy,
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
