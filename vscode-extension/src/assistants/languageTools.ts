/** Tools of language models in the editor: delegate, wait, show, diff, list, ask. They read and add, and decide nothing. */

import { randomUUID } from "node:crypto";
import * as path from "node:path";
import type { App } from "../appContext.ts";
import { t } from "../base/l10n.ts";
import { fileUri } from "../base/paths.ts";
import { previewText, textRequestOf } from "../delegations/textRequests.ts";
import type { LanguageTool } from "../host/host.ts";
import type { Delegation, StartParams } from "../protocol.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import { checkText, isLive, toolAndModel, verdictSummary } from "../state/wording.ts";
import { quoted } from "../state/modelText.ts";

export type ToolDeps = Pick<App, "host" | "sidecar" | "store" | "started">;

/** How long a call waits for the end of a delegation. */
export const WAIT_SECONDS = 45;
/** Characters of one answer. */
const MAX_CHARACTERS = 60_000;
const MAX_FILES = 100;

interface ToolInput {
  readonly task?: unknown;
  readonly question?: unknown;
  readonly files?: unknown;
  readonly recipe?: unknown;
  readonly delegator?: unknown;
  readonly id?: unknown;
}

/** Name, as in `package.json`, → tool. */
export function languageTools(deps: ToolDeps): ReadonlyMap<string, LanguageTool> {
  const reads = (title: (id: string) => string, run: (id: string, signal: AbortSignal) => Promise<string>): LanguageTool => ({
    describe: (input) => ({ title: title(quoted(textOf(fields(input).id))) }),
    run: async (input, signal) => named(await run(needed(fields(input).id, "id"), signal)),
  }); // prettier-ignore
  return new Map<string, LanguageTool>([
    [
      "understudy_start",
      {
        describe: (input) => ({
          title: t("Delegating"),
          question: confirmation(deps, t("Delegate this to a cheaper agent?"), input, fields(input).task),
        }),
        run: async (input, signal) => {
          const params = startParams(deps, input, textOf(fields(input).recipe) || "implement");
          return named(describe(await start(deps, params, needed(fields(input).task, "task"), signal)));
        },
      },
    ],
    [
      "understudy_ask",
      {
        describe: (input) => ({
          title: t("Asking"),
          question: confirmation(deps, t("Send this question and the files to a model?"), input, fields(input).question),
        }),
        run: async (input, signal) => ask(deps, input, signal),
      },
    ],
    ["understudy_wait", reads((id) => t("Waiting for {0}", id), async (id, signal) => describe(await wait(deps, id, signal)))],
    [
      "understudy_show",
      reads(
        (id) => t("Reading {0}", id),
        async (id, signal) => describe(await deps.sidecar.request("understudy/delegations/get", { id }, signal)),
      ),
    ],
    [
      "understudy_diff",
      reads(
        (id) => t("Reading the changes of {0}", id),
        async (id, signal) => {
          const { patch } = await deps.sidecar.request("understudy/delegations/export", { id, to: "patch" }, signal);
          return patch === undefined || patch === "" ? "Nothing changed." : patch;
        },
      ),
    ],
    [
      "understudy_list_delegators",
      { describe: () => ({ title: t("Listing delegators") }), run: async (_, signal) => list(deps, signal) },
    ],
  ]); // prettier-ignore
}

async function start({ sidecar, started }: ToolDeps, params: StartParams, task: string, signal: AbortSignal): Promise<Delegation> {
  await sidecar.start();
  const { id } = await sidecar.request("understudy/delegations/start", { ...params, task, idempotencyKey: randomUUID() }, signal);
  started.fire(id); // its questions and its result are reported to the user, too
  return sidecar.request("understudy/delegations/get", { id }, signal);
} // prettier-ignore

async function ask(deps: ToolDeps, input: unknown, signal: AbortSignal): Promise<string> {
  const { sidecar, store } = deps;
  await sidecar.start();
  const question = needed(fields(input).question, "question");
  const params = { ...startParams(deps, input, "ask"), task: question };
  const request = textRequestOf(store, params);
  if (request && (await previewText(sidecar, request, signal))) {
    return named((await sidecar.request("understudy/text/run", request, signal)).text);
  }
  const { id } = await start(deps, params, question, signal);
  return named(describe(await wait(deps, id, signal)));
}

/** Wait for the end, but not longer than agents wait. */
async function wait({ sidecar }: ToolDeps, id: string, signal: AbortSignal): Promise<Delegation> {
  await sidecar.start();
  return sidecar.request("understudy/delegations/wait", { id, timeoutSeconds: WAIT_SECONDS }, signal);
}

async function list({ sidecar, host }: ToolDeps, signal: AbortSignal): Promise<string> {
  await sidecar.start();
  const [folder] = host.workspace.folders;
  const { delegators } = await sidecar.request("understudy/delegators/list", folder ? { workspace: folder.uri } : {}, signal);
  return named(
    delegators
      .map((entry) => {
        const wrong = entry.state.problems.find(({ severity }) => severity === "error")?.message;
        return [entry.delegator.name, toolAndModel(entry), entry.isDefault ? "default" : "", wrong ?? ""]
          .filter((part) => part !== "")
          .join(", ");
      })
      .join("\n"),
  );
} // prettier-ignore

/** What a model needs to know about a delegation, and what to do next. */
export function describe(delegation: Delegation): string {
  const { id, title, delegator, state, activity, waitingFor, result, checks, error } = delegation;
  const head = `${id} (${title}), by ${delegator}`;
  if (isLive(delegation)) {
    if (waitingFor) return `${head}: asks the user for permission: ${waitingFor.title}. The user answers in the editor; then call understudy_wait.`;
    return `${head}: ${state}${activity === undefined ? "" : `, ${activity}`}. Call understudy_wait with id "${id}".`;
  }
  const text = result?.text ?? result?.summary;
  const files = (result?.files ?? []).slice(0, MAX_FILES);
  return [
    `${head}: ${verdictSummary(delegation)}.`,
    ...(error?.hint ? [error.hint] : []),
    ...checks.map((check) => `Check ${check.name}: ${checkText(check)}`),
    ...files.map((file) => `${file.status} ${file.path} (+${file.additions} -${file.deletions})`),
    ...(text === undefined ? [] : [text]),
    ...(delegation.review.pending > 0
      ? [`The user's files do not have these changes: they decide in the editor. understudy_diff shows them.`]
      : []),
  ].join("\n");
} // prettier-ignore

function startParams({ host }: ToolDeps, input: unknown, recipe: string): StartParams {
  const [folder] = host.workspace.folders;
  const { delegator } = fields(input);
  const uris = filesOf(input).map((one) => uriOf(one, folder?.path));
  return {
    recipe,
    ...(uris.length > 0 ? { files: uris } : {}),
    ...(typeof delegator === "string" && delegator !== "" ? { delegator } : {}),
    ...(folder && uris.length === 0 ? { workspace: folder.uri } : {}),
  };
}

function filesOf(input: unknown): readonly string[] {
  const { files } = fields(input);
  return (Array.isArray(files) ? files : [])
    .filter((one): one is string => typeof one === "string" && one !== "")
    .slice(0, MAX_FILES);
}

function uriOf(file: string, folder: string | undefined): string {
  if (file.startsWith("file:")) return file;
  if (!path.isAbsolute(file) && folder === undefined) throw new Error(t("Open a folder first, or name files by their absolute paths."));
  return fileUri(path.resolve(folder ?? path.sep, file));
} // prettier-ignore

/** The whole path of a file that would be sent, without detours that hide where it is. */
function shownPath(file: string, folder: string | undefined): string {
  try {
    return quoted(decodeURIComponent(new URL(uriOf(file, folder)).pathname), Infinity);
  } catch {
    return quoted(file, Infinity); // the call fails
  }
}

function confirmation(
  { host }: ToolDeps,
  title: string,
  input: unknown,
  words: unknown,
): { title: string; text: string } {
  const { delegator, recipe } = fields(input);
  const [folder] = host.workspace.folders;
  const lines = [
    quoted(textOf(words), 2_000),
    ...filesOf(input).map((file) => `- ${shownPath(file, folder?.path)}`),
    ...(textOf(recipe) === "" ? [] : [t("Recipe: {0}", quoted(textOf(recipe)))]),
    ...(textOf(delegator) === "" ? [] : [t("Delegator: {0}", quoted(textOf(delegator)))]),
  ];
  return { title, text: lines.join("\n\n") };
}

const fields = (input: unknown): ToolInput => (typeof input === "object" && input !== null ? input : {});
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const named = (text: string): string =>
  text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}\n[cut: ${text.length} characters]` : text;

function needed(value: unknown, name: string): string {
  const text = textOf(value).trim();
  if (text === "") throw new Error(`\`${name}\` is missing.`);
  return text;
}

/** Errors as a model reads them: what failed, and what to do. */
export function toldErrors(tool: LanguageTool): LanguageTool {
  return {
    describe: (input) => tool.describe(input),
    run: async (input, signal) => {
      try {
        return await tool.run(input, signal);
      } catch (error) {
        const { message, hint } = toErrorInfo(error);
        throw new Error(hint ? `${message} ${hint}` : message, { cause: error });
      }
    },
  };
}
