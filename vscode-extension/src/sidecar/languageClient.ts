/**
 * The only file that speaks `vscode-languageclient`: one process, one connection, no restarts of its own.
 *
 * The library is four fifths of all the code that we carry. It is a bundle of its own, read while the sidecar's process
 * starts, so that activation does not pay for it.
 */

import type {
  InitializeParams,
  LanguageClient,
  LanguageClientOptions,
  ServerOptions,
} from "vscode-languageclient/node";
import { t } from "../base/l10n.ts";
import { start } from "./process.ts";
import { START_TIMEOUT_MS } from "./sidecar.ts";
import { withoutKeys } from "./trace.ts";
import { EndedError, errorInfo, type Connect, type Greeting, type Wire } from "./wire.ts";

/** Between a broken connection, or the word that it may end, and the end of the process; longer, and it hangs. */
const ENDS_MS = 1_000;
/** What the language client may take to say goodbye. */
const GOODBYE_MS = 2_000;

export interface LanguageClientParts {
  /** `Output.raw`: the editor's own log channel. */
  readonly channel: unknown;
  readonly log: (line: string) => void;
  /**
   * Sees every command of a code action or lens that the sidecar would run itself (ids are request names). A result
   * other than undefined is the command's, and the sidecar does not hear of it.
   */
  readonly intercept: (command: string, values: readonly unknown[]) => Promise<unknown>;
}

export function languageClient(parts: LanguageClientParts): Connect {
  return async (launch, ended, giveUp) => {
    // Who hears of the end of a start that fails tells what it said.
    const early: string[] = [];
    let log = (line: string): void => void early.push(line);
    const child = start(launch, (line) => log(line));
    giveUp.addEventListener("abort", () => child.kill(), { once: true });
    if (giveUp.aborted) child.kill();
    const library = await load().catch((error: unknown) => {
      child.kill();
      throw error;
    });
    const { CancellationTokenSource, CloseAction, ErrorAction, RevealOutputChannelOn } = library;
    let stopping = false;
    let broken = false;
    const channel = parts.channel as LanguageClientOptions["outputChannel"];
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
      initializationOptions: { trusted: launch.trusted, review: false, subscribes: true }, // shown by us
      ...(channel ? { outputChannel: channel, traceOutputChannel: withoutKeys(channel) } : {}),
      stdioOptions: { stdout: () => {}, stderr: () => {} }, // process.ts reads standard error
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          broken = true;
          if (!stopping) void child.endWithin(ENDS_MS, t("it does not listen any more"));
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
      middleware: {
        executeCommand: async (command, values: unknown[], next) => {
          const own = await parts.intercept(command, values);
          return own === undefined ? ((await next(command, values)) as unknown) : own;
        },
      },
    };
    const client = quietClient(library, () => Promise.resolve(child.process), options);
    const stop = async (): Promise<void> => {
      stopping = true;
      await client.stop(GOODBYE_MS).catch(() => {});
      await client.dispose(GOODBYE_MS).catch(() => {});
      await child.endWithin(ENDS_MS);
    };
    try {
      await within(
        START_TIMEOUT_MS,
        Promise.race([client.start(), child.ended.then((e) => Promise.reject(new EndedError(e)))]),
      );
    } catch (error) {
      // A connection that broke is told before the end of the process that broke it, and that end is the cause.
      if (!(error instanceof EndedError)) await child.endWithin(ENDS_MS, errorInfo(error).message);
      await stop();
      throw new EndedError(await child.ended);
    }
    log = parts.log;
    early.forEach(log);
    const told = child.ended.then(async (ending) => {
      if (stopping) return;
      await stop();
      ended(ending);
    });
    const experimental = client.initializeResult?.capabilities.experimental as { understudy?: Greeting } | undefined;
    return {
      greeting: experimental?.understudy,
      async request(method, params, signal) {
        const source = new CancellationTokenSource();
        const abort = (): void => source.cancel();
        signal?.addEventListener("abort", abort, { once: true });
        if (signal?.aborted) abort();
        try {
          return await client.sendRequest<unknown>(method, params, source.token);
        } catch (error) {
          // Whoever asked is to hear why it ended, which is known in a moment.
          if (broken) await told;
          throw error;
        } finally {
          signal?.removeEventListener("abort", abort);
          source.dispose();
        }
      },
      onNotification: (method, listener) =>
        client.onNotification(method, (params: unknown) => listener(params as never)),
      stop,
    } satisfies Wire;
  };
}

type Library = typeof import("vscode-languageclient/node");

function load(): Promise<Library> {
  return import("vscode-languageclient/node");
}

/** Leaves to us what people are told and asked: the status item explains a fault, our own questions and progress follow events. */
function quietClient(library: Library, server: ServerOptions, options: LanguageClientOptions): LanguageClient {
  class QuietClient extends library.LanguageClient {
    override error(message: string, data?: unknown): void {
      // Before it runs and afterwards, the end of the process says why, and in one line.
      if (this.state === library.State.Running) super.error(message, data, false);
    }

    protected override fillInitializeParams(params: InitializeParams): void {
      super.fillInitializeParams(params);
      const { window } = params.capabilities;
      delete window?.showMessage;
      delete window?.workDoneProgress;
    }
  }
  return new QuietClient("understudy", "Understudy", server, options);
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer to initialize within ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
