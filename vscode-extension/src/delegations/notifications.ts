/**
 * Notify the user of delegations: results of those started in this window, questions of those in its folders, and the
 * status bar item. The item and the row of the view are the only places that show progress. Started delegations are
 * remembered: after a reload, results that arrived meanwhile are reported.
 */

import { DisposableStore, type Disposable } from "../base/events.ts";
import { escapeMarkup } from "../base/untrustedText.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Host, StatusItem } from "../host/host.ts";
import type { Change, Store } from "../state/store.ts";
import {
  answeredBy,
  countText,
  endSeverity,
  endMessage,
  isAlways,
  isFailure,
  isLive,
  isToReview,
  activityText,
  orderedOptions,
  stateName,
  verdictName,
} from "../state/wording.ts";
import { joinLines, oneLine, shortenMiddle, timeOfDay } from "../state/formatting.ts";
import { questionText } from "../state/questions.ts";
import { COMPOSE_PANEL } from "../compose/composePanel.ts";
import { CURRENT_KEY } from "../review/registerReview.ts";
import { remedyOf, remedyTitle } from "../state/remedies.ts";
import type { Delegation, Event, PermissionRequest } from "../protocol.ts";

/** Memory key of the IDs started in this window whose result was not reported yet. */
const STARTED_KEY = "delegations.started";

/** Delegations that the status bar names; the tooltip has all of them. */
const MOST_NAMED = 2;

/** Results that arrive within this time are one message, in milliseconds. */
const TOGETHER_MS = 1_000;

export interface NotificationDeps {
  readonly host: Pick<Host, "windows" | "commands" | "memory" | "output" | "workspace">;
  readonly requester: Requester;
  readonly store: Pick<Store, "delegations" | "delegation" | "loaded" | "read" | "onDidChange" | "onEvents">;
  readonly inWindow: (delegation: Delegation) => boolean;
  /** Instead of `TOGETHER_MS`. */
  readonly togetherMs?: number;
}

export class DelegationNotifications implements Disposable {
  readonly #deps: NotificationDeps;
  readonly #disposables = new DisposableStore();
  readonly #item: StatusItem;
  /** Started in this window, result not reported yet. */
  readonly #started: Set<string>;
  readonly #announcing = new Set<string>();
  /** What a message has asked. */
  readonly #asked = new Map<string, { readonly delegation: Delegation; readonly request: PermissionRequest }>();
  /** Finished, and reported with what finishes at the same time. */
  #ended: Delegation[] = [];
  #reporting: NodeJS.Timeout | undefined;
  #status = "";
  #resumed = false;

  constructor(deps: NotificationDeps) {
    this.#deps = deps;
    this.#started = new Set(deps.host.memory.get<string[]>(STARTED_KEY, []));
    this.#item = this.#disposables.add(deps.host.windows.statusItem("understudy.running", t("Delegations"), 49));
    this.#item.hide();
    this.#disposables.add(deps.store.onDidChange((change) => this.#onChange(change)));
    this.#disposables.add(deps.store.onEvents(({ id, events }) => this.#reportExpired(id, events)));
  }

  /** Report the result of a delegation started in this window; the status bar item shows that it runs. */
  async started(id: string): Promise<void> {
    this.#started.add(id);
    const kept = this.#save();
    const delegation = this.#deps.store.delegation(id) ?? (await this.#deps.store.read(id));
    await kept;
    if (!delegation) return;
    this.#update(delegation);
    this.#updateStatusItem();
  }

  /**
   * Answer a permission request; `remember` also adds the proposed rule to the delegator. Returns false if it was
   * already answered.
   */
  async answer(delegation: Delegation, option: string, remember = false): Promise<boolean> {
    const { requester, host } = this.#deps;
    const request = delegation.waitingFor;
    if (!request) {
      await host.windows.message("info", t("“{0}” no longer needs an answer.", delegation.title));
      return false;
    }
    // An answer in the user's own words, to a question that permits nothing.
    let note: string | undefined;
    if (request.options.some(({ id, takesText }) => id === option && takesText === true)) {
      const written = await host.windows.input({
        title: t("{0} asks: {1}", delegation.delegator, oneLine(request.title, 60)),
        prompt: oneLine(request.title, 300),
        validate: (value) => (value.trim() === "" ? t("Enter an answer.") : undefined),
      });
      if (written.kind !== "accepted") return false;
      note = written.value;
    }
    try {
      await requester.request("understudy/delegations/answer", {
        id: delegation.id,
        requestId: request.requestId,
        option,
        ...(note === undefined ? {} : { note }),
        ...(remember ? { remember } : {}),
      });
      return true;
    } catch (error) {
      if (toErrorInfo(error).kind !== "conflict") throw error;
      await host.windows.message("info", t("“{0}” was already answered. The first answer counts.", request.title));
      return false;
    }
  }

  dispose(): void {
    clearTimeout(this.#reporting);
    this.#disposables.dispose();
  }

  #onChange(change: Change): void {
    if (!this.#deps.store.loaded) return;
    if (!this.#resumed) {
      this.#resumed = true;
      this.#resume();
    }
    for (const id of change.delegationList ? this.#deps.store.delegations.map((one) => one.id) : change.delegations) {
      const delegation = this.#deps.store.delegation(id);
      if (delegation) this.#update(delegation);
    }
    this.#updateStatusItem();
  }

  /** After a reload: report results that arrived meanwhile. */
  #resume(): void {
    for (const id of [...this.#started]) {
      if (this.#deps.store.delegation(id) === undefined) this.#started.delete(id);
    }
    void this.#save();
  }

  #update(delegation: Delegation): void {
    const { id } = delegation;
    if (this.#started.has(id) && !isLive(delegation)) void this.#announce(id);
    const request = delegation.waitingFor;
    if (request && (this.#started.has(id) || this.#deps.inWindow(delegation))) {
      const key = `${id} ${request.requestId} ${request.attempt}`;
      if (this.#asked.has(key)) return;
      this.#asked.set(key, { delegation, request });
      void this.#askPermission(delegation, request, key).catch((error: unknown) => this.#showError(error));
    }
  }

  async #announce(id: string): Promise<void> {
    if (this.#announcing.has(id)) return;
    this.#announcing.add(id);
    try {
      // Only the sidecar knows how many changes are pending.
      const delegation = (await this.#deps.store.read(id)) ?? this.#deps.store.delegation(id);
      if (!this.#started.delete(id) || !delegation) return;
      await this.#save();
      this.#ended.push(delegation);
      this.#reporting ??= setTimeout(() => {
        this.#reporting = undefined;
        void this.#reportEnded().catch((error: unknown) => this.#showError(error));
      }, this.#deps.togetherMs ?? TOGETHER_MS);
    } finally {
      this.#announcing.delete(id);
    }
  }

  /** One message, and none over the task that the user is writing. */
  async #reportEnded(): Promise<void> {
    const { windows, commands } = this.#deps.host;
    await windows.leftPanel(COMPOSE_PANEL);
    const all = this.#ended;
    this.#ended = [];
    const [first, ...others] = all;
    if (first && others.length === 0) return this.#announceEnd(first);
    const ended = all.filter((one) => this.#notifies(isFailure(one) ? "failure" : "result"));
    if (ended.length === 0) return; // reported with those of another message, or not wanted
    const counts = new Map<string, number>();
    for (const { verdict } of ended) {
      const name = verdict === undefined ? t("Finished") : verdictName(verdict);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const levels = ended.map(({ verdict }) => endSeverity(verdict));
    const level = (["error", "warning"] as const).find((one) => levels.includes(one)) ?? "info";
    const named = [...counts].map(([name, count]) => `${count} × ${name}`).join(", ");
    const toReview = ended.filter(isToReview);
    const [review, show] = [t("Review"), t("Show Delegations")];
    const text = t("{0} delegations finished: {1}.", ended.length, named);
    const answer = await windows.message(level, text, { buttons: toReview.length > 0 ? [review, show] : [show] });
    if (answer === review) await commands.run("understudy.review.open", toReview[0]?.id);
    if (answer === show) await commands.run("understudy.delegations.focus");
  }

  /** Say what happened to a question that a message asked, and that no one answered in time. */
  #reportExpired(id: string, events: readonly Event[]): void {
    for (const event of events) {
      if (event.type !== "permission_answered" || event.by !== "deadline") continue;
      const asked = this.#asked.get(`${id} ${event.requestId} ${event.attempt}`);
      if (!asked) continue;
      const { request, delegation } = asked;
      const title = request.options.find((option) => option.id === event.option)?.title ?? event.option;
      const show = t("Open Transcript");
      const text = t(
        "“{0}” asked: {1}. The answer is “{2}”, {3}.",
        shortenMiddle(delegation.title, 60),
        oneLine(request.title),
        title,
        answeredBy(event.by),
      );
      void this.#deps.host.windows.message("warning", text, { buttons: [show] }).then(async (answer) => {
        if (answer === show) await this.#deps.host.commands.run("understudy.delegations.open", id);
      });
    }
  }

  async #announceEnd(delegation: Delegation): Promise<void> {
    const { host } = this.#deps;
    // A review that is open is not replaced.
    const reviewed = host.memory.get<string | undefined>(CURRENT_KEY, undefined) ?? delegation.id;
    const opens = reviewed === delegation.id && host.workspace.setting<boolean>("review.openAutomatically", false);
    if (opens && isToReview(delegation)) {
      await host.commands.run("understudy.review.open", delegation.id);
      return;
    }
    if (!this.#notifies(isFailure(delegation) ? "failure" : "result")) return;
    const review = t("Review");
    const open = delegation.verdict === "answered" ? t("Show Answer") : t("Open Transcript");
    const [retry, retryWith, log] = [t("Retry"), t("Retry with…"), t("Show Log")];
    const level = endSeverity(delegation.verdict);
    const remedy = remedyOf(delegation);
    const fix = remedy ? [remedyTitle(remedy)] : [];
    const buttons = isFailure(delegation)
      ? [...fix, ...(isToReview(delegation) ? [review] : []), ...(remedy ? [] : [retry]), retryWith, log]
      : isToReview(delegation)
        ? [...fix, review, open]
        : [open];
    const answer = await host.windows.message(level, endMessage(delegation), { buttons });
    if (answer !== undefined && answer === fix[0])
      await host.commands.run("understudy.delegations.remedy", delegation.id);
    if (answer === review) await host.commands.run("understudy.review.open", delegation.id);
    if (answer === open) await host.commands.run("understudy.delegations.open", delegation.id);
    if (answer === log) await host.commands.run("understudy.delegations.showLog", delegation.id);
    if (answer === retry) await host.commands.run("understudy.delegations.retry", delegation.id);
    if (answer === retryWith) await host.commands.run("understudy.delegations.retryWith", delegation.id);
  }

  /** Show a question as a message. It has no “always” buttons: messages are answered too quickly for those. */
  async #askPermission(delegation: Delegation, request: PermissionRequest, key: string): Promise<void> {
    const { host } = this.#deps;
    if (!this.#notifies("question")) return;
    const question = questionText(request);
    const detail = joinLines(question);
    const whole = detail === joinLines(question, Infinity) && oneLine(request.title, Infinity).length <= 120;
    // If the text is truncated, the user must open the transcript before allowing it.
    const options = orderedOptions(request).filter(
      (option) => !isAlways(option) && (whole || request.kind === "question" || !option.kind.startsWith("allow")),
    );
    const show = t("Show");
    const titles = new Map<string, string>();
    for (const option of options) {
      const button = oneLine(option.title, 40);
      // The user could not distinguish two buttons with the same text.
      if (button !== show && !titles.has(button)) titles.set(button, option.id);
    }
    const asked = askedOnce(oneLine(request.title), detail, request.command);
    const text = t("{0} asks in “{1}”: {2}", delegation.delegator, delegation.title, asked);
    const answer = await host.windows.message("warning", text, {
      buttons: [...titles.keys(), show],
    });
    const option = answer === undefined ? undefined : titles.get(answer);
    if (option !== undefined) {
      const now = this.#deps.store.delegation(delegation.id);
      const same = now?.waitingFor?.requestId === request.requestId;
      try {
        await this.answer(same ? now : { ...delegation, waitingFor: request }, option);
      } catch (error) {
        this.#showError(error);
        // The agent did not get the answer, for example because the sidecar ended: the user is asked again.
        this.#asked.delete(key);
        const later = this.#deps.store.delegation(delegation.id);
        if (later) this.#update(later);
      }
    } else if (answer === show) {
      await host.commands.run("understudy.delegations.open", delegation.id);
    }
  }

  /** Whether the user wants notifications of this kind. The view, the badge and the status bar show everything. */
  #notifies(kind: "question" | "failure" | "result"): boolean {
    const wanted = this.#deps.host.workspace.setting<string>("notifications", "all");
    return wanted === "all" || (wanted === "questionsAndFailures" && kind !== "result");
  }

  #updateStatusItem(): void {
    const live = this.#deps.store.delegations.filter(
      (delegation) => isLive(delegation) && (this.#started.has(delegation.id) || this.#deps.inWindow(delegation)),
    );
    // What waits for the user first, and what waits for a slot last.
    const first =
      ["waiting", "running", "checking"].flatMap((now) => live.filter(({ state }) => state === now))[0] ?? live[0];
    if (!first) {
      if (this.#status !== "") this.#item.hide();
      this.#status = "";
      return;
    }
    const atWork = live.filter((one) => one !== first && (one.state === "running" || one.state === "checking"));
    const named = first.waitingFor ? [first] : [first, ...atWork].slice(0, MOST_NAMED);
    const words = named
      .map((one) =>
        one.waitingFor
          ? questionLine(one, one.waitingFor)
          : `${shortenMiddle(one.title, named.length > 1 ? 24 : 40)} · ${oneLine(one.count ? countText(one.count) : activityText(one), 48)}`,
      )
      .join(" | ");
    const more = live.length > named.length ? ` ${t("(and {0} more)", live.length - named.length)}` : "";
    const icon = first.waitingFor ? "$(comment-discussion)" : "$(robot)";
    const content = {
      text: `${icon} ${escapeMarkup(words)}${more}`,
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

  async #save(): Promise<void> {
    await this.#deps.host.memory.set(STARTED_KEY, [...this.#started]);
  }

  #showError(error: unknown): void {
    const { message, hint } = toErrorInfo(error);
    this.#deps.host.output.error(message);
    // In a window that ends, no message can be shown, and the log has it.
    this.#deps.host.windows.message("error", hint ? `${message} ${hint}` : message).catch(() => {});
  }
}

/** What is asked, by whom and until when, for the status bar. */
function questionLine({ delegator }: Delegation, { title, deadline }: PermissionRequest): string {
  const asked = t("{0} asks: {1}", delegator, oneLine(title, 40));
  return deadline === undefined ? asked : `${asked} (${t("until {0}", timeOfDay(deadline))})`;
}

function tooltipLine(delegation: Delegation): string {
  const link = (title: string, command: string): string =>
    `[${title}](command:${command}?${encodeURIComponent(JSON.stringify([delegation.id]))})`;
  const links = [link(t("Open"), "understudy.delegations.open"), link(t("Cancel"), "understudy.delegations.cancel")];
  if (delegation.waitingFor) links.unshift(link(t("Answer"), "understudy.delegations.answer"));
  const now = delegation.waitingFor
    ? `${stateName(delegation)} · ${oneLine(delegation.waitingFor.title, 80)}`
    : oneLine(activityText(delegation), 80);
  return `${escapeMarkdown(delegation.title)} · ${escapeMarkdown(now)}  \n${links.join(" · ")}`;
}

/**
 * What is asked, without repeating it: the title of a permission is often its command, or contains it. The title is the
 * agent's, so the details, which say what happens, are never left out for it.
 */
function askedOnce(title: string, detail: string, command: string | undefined): string {
  if (title.includes(detail)) return title;
  const isRepeated = detail.includes(title) || (command !== undefined && title.includes(command));
  return isRepeated ? detail : `${title}: ${detail}`;
}
