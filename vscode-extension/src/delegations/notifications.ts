/**
 * What people are told while delegations run, and at their end: progress of what this window started, questions of
 * whatever runs in its folders, the item in the status bar, and the end. What was started here is remembered, so that
 * a reloaded window shows its progress again and tells of ends that it has missed.
 */

import { Bag, type Disposable } from "../base/emitter.ts";
import { inert } from "../base/inert.ts";
import { t } from "../base/l10n.ts";
import { markdown } from "../base/markdown.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { Host, StatusItem } from "../host/host.ts";
import type { Change, Store } from "../model/store.ts";
import {
  endLevel,
  endWords,
  isAlways,
  isLive,
  isToReview,
  joinedLines,
  nowWords,
  oneLine,
  orderedOptions,
  stateName,
} from "../model/words.ts";
import type { Delegation, PermissionRequest } from "../protocol.ts";

/** Ids that were started here and whose end was not told yet. */
const STARTED = "delegations.started";
/** More ends at once than this are told as one. */
const MOST_AT_ONCE = 3;

export interface RunsParts {
  readonly host: Pick<Host, "windows" | "commands" | "memory" | "output">;
  readonly asker: Asker;
  readonly store: Pick<Store, "delegations" | "delegation" | "loaded" | "read" | "onDidChange">;
  readonly here: (delegation: Delegation) => boolean;
}

export class Runs implements Disposable {
  readonly #parts: RunsParts;
  readonly #bag = new Bag();
  readonly #item: StatusItem;
  /** Started here and not told yet. */
  readonly #started: Set<string>;
  readonly #shown = new Map<string, () => void>();
  readonly #telling = new Set<string>();
  readonly #asked = new Set<string>();
  #status = "";
  #resumed = false;

  constructor(parts: RunsParts) {
    this.#parts = parts;
    this.#started = new Set(parts.host.memory.get<string[]>(STARTED, []));
    this.#item = this.#bag.add(parts.host.windows.statusItem("understudy.running", t("Delegations"), 49));
    this.#item.hide();
    this.#bag.add(parts.store.onDidChange((change) => this.#take(change)));
  }

  /** Somebody started it in this window: show its progress, and tell of its end. */
  async started(id: string): Promise<void> {
    this.#started.add(id);
    const kept = this.#keep();
    const delegation = this.#parts.store.delegation(id) ?? (await this.#parts.store.read(id));
    await kept;
    if (delegation) this.#look(delegation);
  }

  /** Put a question to the person; true when it was answered. */
  async answer(delegation: Delegation, option: string): Promise<boolean> {
    const { asker, host } = this.#parts;
    const request = delegation.waitingFor;
    if (!request) {
      await host.windows.message("info", t("“{0}” asks nothing any more.", delegation.title));
      return false;
    }
    try {
      await asker.ask("understudy/delegations/answer", { id: delegation.id, requestId: request.requestId, option });
      return true;
    } catch (error) {
      if (errorInfo(error).kind !== "conflict") throw error;
      await host.windows.message("info", t("“{0}” was answered already; the first answer counts.", request.title));
      return false;
    }
  }

  dispose(): void {
    for (const end of this.#shown.values()) end();
    this.#bag.dispose();
  }

  #take(change: Change): void {
    if (!this.#parts.store.loaded) return;
    if (!this.#resumed) {
      this.#resumed = true;
      this.#resume();
    }
    for (const id of change.delegationList ? this.#parts.store.delegations.map((one) => one.id) : change.delegations) {
      const delegation = this.#parts.store.delegation(id);
      if (delegation) this.#look(delegation);
    }
    this.#draw();
  }

  /** After a reload: progress goes on, and ends that nobody was there to hear are told. */
  #resume(): void {
    const ended: Delegation[] = [];
    for (const id of [...this.#started]) {
      const delegation = this.#parts.store.delegation(id);
      if (delegation === undefined) this.#started.delete(id);
      else if (!isLive(delegation)) ended.push(delegation);
    }
    if (ended.length > MOST_AT_ONCE) {
      for (const { id } of ended) this.#started.delete(id);
      const show = t("Show Them");
      const text = t("{0} delegations have ended meanwhile.", ended.length);
      void this.#parts.host.windows.message("info", text, { buttons: [show] }).then(async (answer) => {
        if (answer === show) await this.#parts.host.commands.run("understudy.delegations.focus");
      });
    }
    void this.#keep();
  }

  #look(delegation: Delegation): void {
    const { id } = delegation;
    if (this.#started.has(id)) {
      if (!isLive(delegation)) void this.#tell(id);
      else if (!this.#shown.has(id)) this.#show(delegation);
    }
    const request = delegation.waitingFor;
    if (request && (this.#started.has(id) || this.#parts.here(delegation))) {
      const key = `${id} ${request.requestId} ${request.attempt}`;
      if (this.#asked.has(key)) return;
      this.#asked.add(key);
      void this.#ask(delegation, request).catch((error: unknown) => this.#fail(error));
    }
  }

  /** Progress with a button that cancels, until the end. */
  #show(delegation: Delegation): void {
    const { host, store } = this.#parts;
    const { id } = delegation;
    const words = (now: Delegation): string =>
      now.waitingFor ? t("{0} asks: {1}", now.delegator, oneLine(now.waitingFor.title, 80)) : oneLine(nowWords(now));
    let end = (): void => {};
    const over = new Promise<void>((resolve) => (end = resolve));
    this.#shown.set(id, end);
    const options = { title: delegation.title, where: "notification", cancellable: true } as const;
    void host.windows.progress(options, async (progress) => {
      let last = "";
      const report = (text: string): void => {
        if (text === last) return;
        last = text;
        progress.report(text);
      };
      report(words(delegation));
      const watching = store.onDidChange((change) => {
        const now = change.delegations.has(id) || change.delegationList ? store.delegation(id) : undefined;
        if (now && !progress.signal.aborted) report(words(now));
        if (store.delegation(id) === undefined) end();
      });
      progress.signal.addEventListener("abort", () => {
        this.#parts.asker.ask("understudy/delegations/cancel", { id }).catch((error: unknown) => this.#fail(error));
      });
      await over;
      watching.dispose();
      this.#shown.delete(id);
    });
  }

  async #tell(id: string): Promise<void> {
    if (this.#telling.has(id)) return;
    this.#telling.add(id);
    try {
      // What there is to decide is known to the sidecar alone.
      const delegation = (await this.#parts.store.read(id)) ?? this.#parts.store.delegation(id);
      this.#shown.get(id)?.();
      if (!this.#started.delete(id) || !delegation) return;
      await this.#keep();
      void this.#tellEnd(delegation).catch((error: unknown) => this.#fail(error));
    } finally {
      this.#telling.delete(id);
    }
  }

  async #tellEnd(delegation: Delegation): Promise<void> {
    const { host } = this.#parts;
    const review = t("Review");
    const open = delegation.verdict === "answered" ? t("Show the Answer") : t("Open Transcript");
    const retry = t("Try Again…");
    const level = endLevel(delegation.verdict);
    const buttons = isToReview(delegation) ? [review, open] : level === "error" ? [open, retry] : [open];
    const answer = await host.windows.message(level, endWords(delegation), { buttons });
    if (answer === review) await host.commands.run("understudy.review.open", delegation.id);
    if (answer === open) await host.commands.run("understudy.delegations.open", delegation.id);
    if (answer === retry) await host.commands.run("understudy.delegations.retry", delegation.id);
  }

  /** One question, as a message. What holds for ever is not among its buttons: a message is answered too quickly. */
  async #ask(delegation: Delegation, request: PermissionRequest): Promise<void> {
    const { host } = this.#parts;
    const detail = joinedLines(request.detail);
    const whole = detail === joinedLines(request.detail, Infinity) && oneLine(request.title, Infinity).length <= 120;
    // What is cut off could be the part that matters: it is read as a whole before it is allowed.
    const options = orderedOptions(request).filter(
      (option) => !isAlways(option) && (whole || !option.kind.startsWith("allow")),
    );
    const show = t("Show");
    const titles = new Map<string, string>();
    for (const option of options) {
      const title = oneLine(option.title, 40);
      // Of two buttons that read alike nobody knows which one they press.
      if (title !== show && !titles.has(title)) titles.set(title, option.id);
    }
    const text = t("{0} asks, in “{1}”: {2}", delegation.delegator, delegation.title, oneLine(request.title));
    const answer = await host.windows.message("warning", detail === "" ? text : `${text}: ${detail}`, {
      buttons: [...titles.keys(), show],
    });
    const option = answer === undefined ? undefined : titles.get(answer);
    if (option !== undefined) {
      const now = this.#parts.store.delegation(delegation.id);
      const same = now?.waitingFor?.requestId === request.requestId;
      await this.answer(same ? now : { ...delegation, waitingFor: request }, option);
    } else if (answer === show) {
      await host.commands.run("understudy.delegations.open", delegation.id);
    }
  }

  #draw(): void {
    const live = this.#parts.store.delegations.filter(
      (delegation) => isLive(delegation) && (this.#started.has(delegation.id) || this.#parts.here(delegation)),
    );
    const first = live.find(({ state }) => state === "waiting") ?? live[0];
    if (!first) {
      if (this.#status !== "") this.#item.hide();
      this.#status = "";
      return;
    }
    const words = first.waitingFor
      ? t("{0} asks: {1}", first.delegator, oneLine(first.waitingFor.title, 40))
      : `${oneLine(first.title, 40)}: ${oneLine(nowWords(first), 40)}`;
    const more = live.length > 1 ? ` (+${live.length - 1})` : "";
    const icon = first.waitingFor ? "$(comment-discussion)" : "$(robot)";
    const content = {
      text: `${icon} ${inert(words)}${more}`,
      tooltip: live.map(tooltipLine).join("\n\n"),
      spoken: t("Delegations: {0}", words + more),
      command: first.waitingFor ? "understudy.delegations.answer" : "understudy.delegations.focus",
      trustedCommands: [
        "understudy.delegations.open",
        "understudy.delegations.cancel",
        "understudy.delegations.answer",
      ],
    };
    const next = JSON.stringify(content);
    if (next === this.#status) return;
    this.#status = next;
    this.#item.set(content);
  }

  async #keep(): Promise<void> {
    await this.#parts.host.memory.set(STARTED, [...this.#started]);
  }

  #fail(error: unknown): void {
    const { message, hint } = errorInfo(error);
    this.#parts.host.output.error(message);
    void this.#parts.host.windows.message("error", hint ? `${message} ${hint}` : message);
  }
}

function tooltipLine(delegation: Delegation): string {
  const link = (title: string, command: string): string =>
    `[${title}](command:${command}?${encodeURIComponent(JSON.stringify([delegation.id]))})`;
  const links = [link(t("Open"), "understudy.delegations.open"), link(t("Cancel"), "understudy.delegations.cancel")];
  if (delegation.waitingFor) links.unshift(link(t("Answer"), "understudy.delegations.answer"));
  const now = delegation.waitingFor
    ? `${stateName(delegation)} · ${oneLine(delegation.waitingFor.title, 80)}`
    : oneLine(nowWords(delegation), 80);
  return `${markdown(delegation.title)} · ${markdown(now)}  \n${links.join(" · ")}`;
}
