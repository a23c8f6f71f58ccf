/**
 * The only module that uses `vscode-languageclient`: one process, one connection, no restarts.
 *
 * The library is four fifths of our code. It is a bundle of its own, loaded while the sidecar's process starts, so
 * that it does not slow activation down.
 */

import type {
  InitializeParams,
  LanguageClient,
  LanguageClientOptions,
  ServerOptions,
} from "vscode-languageclient/node";
import { t } from "../base/l10n.ts";
import { spawnSidecar } from "./childProcess.ts";
import { START_TIMEOUT_MS } from "./sidecar.ts";
import { redactKeys } from "./traceRedaction.ts";
import { ProcessExitError, toErrorInfo, type Connect, type ServerInfo, type Connection } from "./connection.ts";

/** Time to exit after the connection broke or the shutdown; then the process is killed. */
const EXIT_MS = 1_000;
/** Time limit for the shutdown request. */
const SHUTDOWN_MS = 2_000;

export interface LanguageClientDeps {
  /** `Output.raw`: the log channel of the editor. */
  readonly channel: unknown;
  readonly log: (line: string) => void;
  /**
   * Called for each command of a code action or lens that the sidecar would execute (command IDs are request names).
   * If it returns a result, the sidecar does not receive the command.
   */
  readonly intercept: (command: string, values: readonly unknown[]) => Promise<unknown>;
}

export function languageClient(deps: LanguageClientDeps): Connect {
  return async (launch, ended, abort) => {
    // A failed start reports its output in the error.
    const early: string[] = [];
    let log = (line: string): void => void early.push(line);
    const child = spawnSidecar(launch, (line) => log(line));
    abort.addEventListener("abort", () => child.kill(), { once: true });
    if (abort.aborted) child.kill();
    const library = await load().catch((error: unknown) => {
      child.kill();
      throw error;
    });
    const { CancellationTokenSource, CloseAction, ErrorAction, RevealOutputChannelOn } = library;
    let stopping = false;
    let broken = false;
    const channel = deps.channel as LanguageClientOptions["outputChannel"];
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
      initializationOptions: { trusted: launch.trusted, review: false, subscribes: true }, // the extension has its own review
      ...(channel ? { outputChannel: channel, traceOutputChannel: redactKeys(channel) } : {}),
      stdioOptions: { stdout: () => {}, stderr: () => {} }, // childProcess.ts reads standard error
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          broken = true;
          if (!stopping) void child.endWithin(EXIT_MS, t("it stopped responding"));
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
      middleware: {
        executeCommand: async (command, values: unknown[], next) => {
          const own = await deps.intercept(command, values);
          return own === undefined ? ((await next(command, values)) as unknown) : own;
        },
      },
    };
    const client = quietClient(library, () => Promise.resolve(child.process), options);
    const stop = async (): Promise<void> => {
      stopping = true;
      await client.stop(SHUTDOWN_MS).catch(() => {});
      await client.dispose(SHUTDOWN_MS).catch(() => {});
      await child.endWithin(EXIT_MS);
    };
    try {
      await withTimeout(
        START_TIMEOUT_MS,
        Promise.race([client.start(), child.ended.then((e) => Promise.reject(new ProcessExitError(e)))]),
      );
    } catch (error) {
      // A broken connection is reported before the exit of the process, which is the actual cause.
      if (!(error instanceof ProcessExitError)) await child.endWithin(EXIT_MS, toErrorInfo(error).message);
      await stop();
      throw new ProcessExitError(await child.ended);
    }
    log = deps.log;
    early.forEach(log);
    const told = child.ended.then(async (exit) => {
      if (stopping) return;
      await stop();
      ended(exit);
    });
    const experimental = client.initializeResult?.capabilities.experimental as { understudy?: ServerInfo } | undefined;
    return {
      serverInfo: experimental?.understudy,
      async request(method, params, signal) {
        const source = new CancellationTokenSource();
        const abort = (): void => source.cancel();
        signal?.addEventListener("abort", abort, { once: true });
        if (signal?.aborted) abort();
        try {
          return await client.sendRequest<unknown>(method, params, source.token);
        } catch (error) {
          // Wait for the cause of the exit, so that the caller can report it.
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
    } satisfies Connection;
  };
}

type Library = typeof import("vscode-languageclient/node");

function load(): Promise<Library> {
  return import("vscode-languageclient/node");
}

/** Suppress messages and progress of the library: the status item and our own notifications show them. */
function quietClient(library: Library, server: ServerOptions, options: LanguageClientOptions): LanguageClient {
  class QuietClient extends library.LanguageClient {
    override error(message: string, data?: unknown): void {
      // Before and after that state, the exit of the process explains the error in one line.
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

async function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T> {
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
