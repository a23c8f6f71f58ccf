/** The user's comments on lines of a result. They go to the agent when the result is sent back. */

import { DisposableStore, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import type { Host, LineComment } from "../host/host.ts";
import type { OpenResults } from "./openResults.ts";
import { parseReviewUri, RESULT, reviewUri } from "./reviewUris.ts";

/** Memory key: comments by delegation, oldest first. They outlive the window. */
const COMMENTS_KEY = "review.comments";

/** Delegations whose comments are kept. */
const MAX_DELEGATIONS = 20;

/** A comment on a line of the result, zero-based; `path` is the display path. */
export interface ResultComment {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

type Kept = Readonly<Record<string, readonly ResultComment[]>>;

export interface LineCommentDeps {
  readonly host: Pick<Host, "review" | "commands" | "memory">;
  readonly openResults: Pick<OpenResults, "current" | "onDidChange">;
}

export class LineComments implements Disposable {
  readonly #deps: LineCommentDeps;
  readonly #disposables = new DisposableStore();
  #shown: { set(comments: readonly LineComment[]): void } | undefined;
  /** What is shown, as text. */
  #drawn = "[]";

  constructor(deps: LineCommentDeps) {
    this.#deps = deps;
    const { commands } = deps.host;
    this.#disposables.add(commands.register("understudy.review.addComment", (value) => this.#add(value)));
    this.#disposables.add(commands.register("understudy.review.removeComment", (value) => this.#remove(value)));
    this.#disposables.add(deps.openResults.onDidChange(() => this.#draw()));
  }

  /** The comments on a result, file by file. */
  of(id: string): readonly ResultComment[] {
    return (this.#kept[id] ?? []).toSorted((a, b) => (a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1));
  }

  /** Forget the comments on a result, because they were sent. */
  async clear(id: string): Promise<void> {
    await this.#keep(id, []);
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  get #kept(): Kept {
    return this.#deps.host.memory.get<Kept>(COMMENTS_KEY, {});
  }

  async #add(value: unknown): Promise<void> {
    const comment = commentOf(value);
    if (!comment || comment.text === "") return;
    const { id, ...kept } = comment;
    await this.#keep(id, [...this.of(id), kept]);
  }

  async #remove(value: unknown): Promise<void> {
    const comment = commentOf(value);
    if (!comment) return;
    const { id, ...removed } = comment;
    const is = (one: ResultComment): boolean => JSON.stringify(one) === JSON.stringify(removed);
    await this.#keep(
      id,
      this.of(id).filter((one) => !is(one)),
    );
  }

  async #keep(id: string, comments: readonly ResultComment[]): Promise<void> {
    const others = Object.entries(this.#kept).filter(([other]) => other !== id);
    const entries = [...others, ...(comments.length > 0 ? [[id, comments] as const] : [])];
    await this.#deps.host.memory.set(COMMENTS_KEY, Object.fromEntries(entries.slice(-MAX_DELEGATIONS)));
    this.#draw();
  }

  #draw(): void {
    const { host, openResults } = this.#deps;
    const { current } = openResults;
    // Only during a review: the editor asks for each document that it opens which lines can be commented on.
    if (current) {
      this.#shown ??= host.review.comments(RESULT, (uri) => parseReviewUri(uri)?.id === openResults.current?.id);
    }
    const comments = current
      ? this.of(current.id).map(({ path, line, text }) => ({ uri: reviewUri(RESULT, current.id, path), line, text }))
      : [];
    const drawn = JSON.stringify(comments);
    if (drawn === this.#drawn) return; // drawing again would expand what the user collapsed
    this.#drawn = drawn;
    this.#shown?.set(comments);
  }
}

/** `tests/test_a.py:14: match on the class only`, for instructions. */
export function commentText({ path, line, text }: ResultComment): string {
  return `${path}:${line + 1}: ${text}`;
}

/** How many comments go along, for a prompt; empty if none. */
export function commentCount(comments: readonly ResultComment[]): string {
  if (comments.length === 0) return "";
  return comments.length === 1 ? t("1 comment") : t("{0} comments", comments.length);
}

function commentOf(value: unknown): (ResultComment & { readonly id: string }) | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { uri, line, text } = value as Partial<LineComment>;
  const place = uri === undefined ? undefined : parseReviewUri(uri);
  if (!place || line === undefined || text === undefined) return undefined;
  return { id: place.id, path: place.path, line, text: text.trim() };
}
