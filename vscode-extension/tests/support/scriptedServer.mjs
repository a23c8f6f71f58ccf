#!/usr/bin/env node
// A scripted language server. PEER controls its behavior: words separated by commas.
import { readFileSync } from "node:fs";
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";

const words = (process.env.PEER ?? "").split(",");
const contract = readFileSync(new URL("../../../protocol/protocol.gen.ts", import.meta.url), "utf8");
const current = Number(/PROTOCOL_VERSION = (\d+)/u.exec(contract)?.[1]);
const version = words.includes("old") ? 0 : words.includes("new") ? 99 : current;
if (words.includes("broken")) {
  console.error("Traceback (most recent call last):\nModuleNotFoundError: No module named 'understudy'");
  process.exit(3);
}
const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
connection.onRequest("initialize", (params) => ({
  capabilities: {
    experimental: words.includes("foreign")
      ? undefined
      : {
          understudy: {
            protocolVersion: version,
            version: "0.1.0",
            requests: ["understudy/version", "understudy/doctor", "understudy/delegations/get"],
            notifications: ["understudy/event", "understudy/changed"],
          },
        },
  },
  params,
}));
connection.onRequest("understudy/version", (params) => {
  if (JSON.stringify(params) !== "{}") throw new Error(`params: ${JSON.stringify(params)}`);
  return { version: "0.1.0", protocolVersion: version };
});
connection.onRequest("understudy/doctor", () => {
  console.error("the disk is on fire");
  process.exit(4);
});
connection.onRequest("shutdown", () => null);
connection.onNotification("exit", () => process.exit(0));
connection.listen();
