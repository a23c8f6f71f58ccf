/**
 * Text recipes without a delegation: the sidecar sends one request to a model server, and the answer grows in a
 * rendered document. Unsaved text is included: the sidecar sees what the editor shows.
 */

import { randomUUID } from "node:crypto";
import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import type { PreviewResult, StartParams, TextParams, TextResult } from "../protocol.ts";
import { toErrorInfo, type Requester, type Subscriber } from "../sidecar/connection.ts";
import { costText, duration, errorText, oneLine, tokensText } from "../state/formatting.ts";
import { answerText } from "../state/modelText.ts";
import type { Store } from "../state/store.ts";

/** Scheme of answers: `understudy-answer:/<key>/<title>.md`. */
export const ANSWER_SCHEME = "understudy-answer";
/** Time between two updates of a document, in milliseconds. */
export const DRAW_MS = 100;
/** Answers that are kept for documents that are open or shown again. */
const MAX_ANSWERS = 50;
const TITLE_CHARACTERS = 60;

/** What a text request has in common with a start; every other field needs a delegation. */
const FIELDS = ["recipe", "task", "files", "range", "diagnostics", "input", "delegator", "launch", "limits", "workspace"] as const; // prettier-ignore

/** Kinds of errors that mean: only a delegation can do this, such as one on an agent CLI. */
const NEEDS_DELEGATION: ReadonlySet<string> = new Set(["config_invalid", "unknown_method"]);

export interface TextRequestDeps {
  readonly requester: Requester;
  readonly subscriber: Subscriber;
  readonly host: Pick<Host, "windows" | "documents">;
}

interface Answer {
  uri: string;
  text: string;
  timer?: NodeJS.Timeout;
}

/** The text request that a start means; undefined if only a delegation can do it. */
export function textRequestOf(
  { recipes, delegators }: Pick<Store, "recipes" | "delegators">,
  params: StartParams,
): TextParams | undefined {
  const known: ReadonlySet<string> = new Set(FIELDS);
  const set = Object.entries(params).filter(([, value]) => value !== undefined && value !== null);
  if (recipes.find(({ name }) => name === params.recipe)?.returns !== "text") return undefined;
  if (!set.every(([name]) => known.has(name))) return undefined;
  const able = delegators.filter(({ delegator }) => !delegator.tool && delegator.modelServer);
  const named = params.delegator ?? undefined;
  if (!able.some(({ delegator }) => named === undefined || delegator.name === named)) return undefined;
  return Object.fromEntries(set) as unknown as TextParams;
}

/** What a text request would send; undefined if only a delegation can do it. */
export async function previewText(
  requester: Requester,
  params: TextParams,
  signal?: AbortSignal,
): Promise<PreviewResult | undefined> {
  try {
    return await requester.request("understudy/text/preview", params, signal);
  } catch (error) {
    if (NEEDS_DELEGATION.has(toErrorInfo(error).kind)) return undefined;
    throw error;
  }
}

export class TextRequests implements Disposable {
  readonly #deps: TextRequestDeps;
  readonly #disposables = new DisposableStore();
  readonly #changed = this.#disposables.add(new Emitter<string>());
  /** Key → answer, oldest first. */
  readonly #answers = new Map<string, Answer>();

  constructor(deps: TextRequestDeps) {
    this.#deps = deps;
    this.#disposables.add(
      deps.host.documents.provide(ANSWER_SCHEME, {
        text: (uri) => {
          const answer = this.#answers.get(keyOf(uri));
          return answer ? answerText(answer.text) : t("This answer is no longer available.");
        },
        onDidChange: this.#changed.subscribe,
      }),
    );
    this.#disposables.add(
      deps.subscriber.on("understudy/text", ({ stream, text, restart }) => {
        const answer = this.#answers.get(stream);
        if (!answer) return;
        answer.text = restart === true ? text : answer.text + text;
        answer.timer ??= setTimeout(() => this.#draw(answer), DRAW_MS);
      }),
    );
  }

  /** Ask, and show the answer as it arrives; the ID in the ledger, "" if the user cancelled. */
  async run(params: TextParams, title: string): Promise<string> {
    const { host, requester } = this.#deps;
    const key = randomUUID();
    const name = oneLine(title, TITLE_CHARACTERS).replaceAll("/", " ");
    const answer: Answer = { uri: `${ANSWER_SCHEME}:/${key}/${encodeURIComponent(name)}.md`, text: "" };
    this.#keep(key, answer);
    return host.windows.progress({ title, where: "notification", cancellable: true }, async (progress) => {
      const { signal } = progress;
      progress.report(t("Waiting for the answer…"));
      try {
        await host.documents.preview(answer.uri);
        const result = await requester.request("understudy/text/run", { ...params, stream: key }, signal);
        answer.text = `${result.text.trimEnd()}\n\n---\n\n${summaryOf(result)}\n`;
        return result.id;
      } catch (error) {
        const cancelled = signal.aborted;
        const why = cancelled ? t("Cancelled.") : errorText(toErrorInfo(error));
        answer.text = `${answer.text.trimEnd()}\n\n---\n\n${why}\n`.trimStart();
        if (cancelled) return "";
        throw error;
      } finally {
        this.#draw(answer);
      }
    });
  }

  dispose(): void {
    for (const { timer } of this.#answers.values()) clearTimeout(timer);
    this.#answers.clear();
    this.#disposables.dispose();
  }

  #keep(key: string, answer: Answer): void {
    this.#answers.set(key, answer);
    const [oldest] = this.#answers;
    if (this.#answers.size > MAX_ANSWERS && oldest) {
      clearTimeout(oldest[1].timer);
      this.#answers.delete(oldest[0]);
    }
  }

  #draw(answer: Answer): void {
    clearTimeout(answer.timer);
    delete answer.timer;
    this.#changed.fire(answer.uri);
  }
}

/** Identify an answer by its key: editors escape the rest of the URI differently. */
const keyOf = (uri: string): string => uri.split("/")[1] ?? "";

/** Who answered, how long it took and what it cost, then the warnings. */
function summaryOf(result: TextResult): string {
  const { delegator, model, usage, seconds, costUsd, notes } = result;
  const cost = costUsd === undefined ? t("cost unknown") : (costText({ costUsd, attempts: [] }) ?? "$0");
  const facts = [`${delegator} (${model})`, tokensText({ usage }), cost, duration(seconds * 1000)];
  return [facts.filter((fact) => fact !== undefined).join(" · "), ...notes].join("\n\n");
}
