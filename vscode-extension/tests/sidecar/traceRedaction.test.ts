import { describe, expect, it, vi } from "vitest";
import { languageClient } from "../../src/sidecar/languageClient.ts";
import { redactKeys } from "../../src/sidecar/traceRedaction.ts";

const KEY = String.raw`sk-"quoted\and more`;
const params = { name: "router", key: KEY, workspace: "file:///home/ada" };

interface Channel {
  readonly logLevel: number;
  trace(text: string, ...values: unknown[]): void;
  info(text: string): void;
}

/** Frozen, with a getter and with methods that need `this`, as an editor may create it. */
function channel() {
  const lines: string[] = [];
  const made: Channel = Object.freeze({
    lines,
    get logLevel() {
      return 1;
    },
    trace(text: string) {
      this.lines.push(text);
    },
    info(text: string) {
      this.lines.push(text);
    },
  });
  return { lines, made };
}

const options: { traceOutputChannel?: Channel; outputChannel?: Channel }[] = [];
vi.mock("vscode-languageclient/node", () => ({
  LanguageClient: class {
    constructor(_id: string, _name: string, _server: unknown, given: object) {
      options.push(given);
    }

    start = () => Promise.reject(new Error("not in this test"));
    stop = () => Promise.resolve();
    dispose = () => Promise.resolve();
  },
  CancellationTokenSource: {},
  CloseAction: {},
  ErrorAction: {},
  RevealOutputChannelOn: {},
}));

describe("the message trace", () => {
  it.each([
    [
      "text",
      `[Trace] Sending request 'understudy/modelServers/setKey - (7)'.\nParams: ${JSON.stringify(params, null, 4)}`,
    ],
    ["JSON", JSON.stringify({ isLSPMessage: true, type: "send-request", message: { id: 7, params } })],
    ["JSON", JSON.stringify({ apiKey: KEY, keys: "kept" })],
  ])("contains no key, as %s", (_, text) => {
    const { lines, made } = channel();
    redactKeys(made).trace(text);
    expect(lines.join()).not.toMatch(/quoted|more/);
    expect(lines.join().replaceAll("<secret>", "")).toBe(text.replaceAll(JSON.stringify(KEY), '""'));
  });

  it("is the editor's own channel otherwise", () => {
    const { lines, made } = channel();
    const traced = redactKeys(made);
    traced.info('"key": "x"');
    expect(lines).toEqual(['"key": "x"']);
    expect(traced.logLevel).toBe(1);
    expect("logLevel" in traced).toBe(true);
  });

  it("is used by the language client", async () => {
    const { lines, made } = channel();
    const launch = { command: "/bin/true", args: [], cwd: "/", env: {}, trusted: false };
    const parts = { channel: made, log: () => {}, intercept: () => Promise.resolve(undefined) };
    const connect = languageClient(parts);
    await expect(connect(launch, () => {}, new AbortController().signal)).rejects.toThrow();
    options[0]?.traceOutputChannel?.trace(JSON.stringify(params));
    expect(lines).toEqual([expect.stringContaining('"key":"<secret>"')]);
    expect(options[0]?.outputChannel).toBe(made);
  });
});
