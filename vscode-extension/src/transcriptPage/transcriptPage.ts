/**
 * The transcript of one delegation as a page: a client of the contract without a framework. It folds events itself, so
 * it shows the same with any transport: a webview's messages, or a server's in a browser.
 */

import { t } from "../base/l10n.ts";
import { fold } from "../state/fold.ts";
import { remedyOf, remedyTitle } from "../state/remedies.ts";
import { canReply, countText, isFailure, isLive, isToReview, retryMayHelp } from "../state/wording.ts";
import { TranscriptBlocks, type Block } from "../transcript/transcriptBlocks.ts";
import { transcriptHead } from "../transcript/transcriptLines.ts";
import type { EditorAction, PageNotification, PageRequest } from "../transcript/pageMessages.ts";
import type { Delegation, Event, Requests } from "../protocol.ts";
import { button, details, element } from "./dom.ts";
import { fillRow } from "./rows.ts";

/** Rows in the document at most; earlier and later ones are shown on request. */
export const MAX_ROWS = 400;
/** Rows that "Show Earlier" adds. */
export const MORE_ROWS = 200;
/** Time between two updates, in milliseconds. */
export const DRAW_MS = 100;
/** After the reader scrolls, their place is remembered this much later, in milliseconds. */
const REMEMBER_MS = 300;
/** A reader this near to the end, in pixels, is at the end. */
const END_DISTANCE = 40;
/** Keys that scroll up. */
const KEYS_UP = new Set(["ArrowUp", "PageUp", "Home"]);

export interface Transport {
  request<M extends PageRequest>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]>;
  onNotification(listener: (notification: PageNotification) => void): void;
}

/** What a page in an editor can do besides. */
export interface EditorActions {
  readonly run: (action: EditorAction) => void;
  readonly openFile: (path: string) => void;
}

export interface PageOptions {
  /** ID of the delegation. */
  readonly id: string;
  /** Whether messages and replies to the agent have an effect (default: yes). */
  readonly instructable?: boolean;
  readonly editor?: EditorActions;
  /** Where the reader was: the index of the first visible block; absent: at the end, or not shown before. */
  readonly at?: number;
  /** Called with the place of the reader when it changes. */
  readonly remember?: (at: number | undefined) => void;
}

export class TranscriptPage {
  readonly #transport: Transport;
  readonly #options: PageOptions;
  readonly #blocks = new TranscriptBlocks();
  readonly #rows = new Map<Block, { readonly row: HTMLElement; shown: string }>();
  readonly #title = element("h1");
  readonly #state = element("p", { class: "state", role: "status" });
  readonly #facts = element("p", { class: "facts" });
  readonly #progress = element("progress");
  readonly #counted = element("span");
  readonly #count = element("p", { class: "count", hidden: true }, this.#progress, this.#counted);
  readonly #toolbar = element("div", { class: "toolbar", role: "group", "aria-label": t("Actions") });
  readonly #problem = element("p", { class: "problem", role: "alert", hidden: true });
  readonly #earlier: HTMLButtonElement;
  readonly #later: HTMLButtonElement;
  readonly #latest: HTMLButtonElement;
  readonly #input = element("textarea", {
    rows: "2",
    "aria-label": t("Message to the agent"),
    placeholder: t("Message the agent (Enter to send, Shift+Enter for a new line)"),
  });
  readonly #form: HTMLFormElement;
  readonly #log = element("div", { class: "log", role: "log", "aria-live": "off", "aria-busy": "true" });
  #instructable: boolean;
  #delegation: Delegation | undefined;
  /** `seq` of the last event in the blocks. */
  #last = 0;
  /** The blocks in the document: from the first index up to, but not including, the second. */
  #from = 0;
  #to = 0;
  /** Whether the reader stays at the end when it grows: only they end that, by scrolling up. */
  #following = false;
  /** Where the page was scrolled to. */
  #top = 0;
  #connecting = false;
  /** Whether something changed while connecting. */
  #again = false;
  #loaded = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #remembering: ReturnType<typeof setTimeout> | undefined;
  #drawnAt = 0;
  #buttons = "";

  constructor(root: HTMLElement, transport: Transport, options: PageOptions) {
    this.#transport = transport;
    this.#options = options;
    this.#instructable = options.instructable ?? true;
    this.#earlier = button(t("Show Earlier"), "secondary", () => this.#showEarlier());
    this.#later = button(t("Show Later"), "secondary", () => this.#showLater());
    this.#latest = button(t("Jump to End"), "secondary", () => this.#jumpToEnd());
    this.#latest.classList.add("latest");
    this.#earlier.hidden = this.#later.hidden = this.#latest.hidden = true;
    const submit = element("button", { type: "submit", class: "primary" }, t("Send"));
    this.#form = element("form", { class: "say", hidden: true }, this.#input, submit);
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#say(submit);
    });
    this.#input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.#say(submit);
    });
    this.#log.setAttribute("aria-label", t("Transcript"));
    this.#state.textContent = t("Waiting for Understudy…");
    root.append(
      element("header", {}, this.#title, this.#state, this.#facts, this.#count, this.#toolbar, this.#problem),
      element("main", {}, this.#task(), this.#earlier, this.#log, this.#later),
      this.#latest,
      this.#form,
    );
    window.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    window.addEventListener("resize", () => this.#stayAtEnd());
    window.addEventListener(
      "wheel",
      ({ deltaY }) => {
        if (deltaY < 0) this.#leaveEnd();
      },
      { passive: true },
    );
    window.addEventListener("keydown", ({ key, target }) => {
      if (KEYS_UP.has(key) && target !== this.#input) this.#leaveEnd();
    });
    transport.onNotification((notification) => this.#receive(notification));
    void this.#connect();
  }

  /** Whether messages and replies to the agent have an effect. */
  setInstructable(instructable: boolean): void {
    this.#instructable = instructable;
    this.#schedule();
  }

  #receive(notification: PageNotification): void {
    if (notification.method === "understudy/changed") {
      void this.#connect();
      return;
    }
    const { id, events } = notification.params;
    const fresh = events.filter(({ seq }) => seq > this.#last);
    if (id !== this.#options.id || fresh.length === 0) return;
    this.#blocks.add(fresh);
    this.#last = fresh.at(-1)?.seq ?? this.#last;
    this.#fold(fresh);
    this.#schedule();
  }

  #fold(events: readonly Event[]): void {
    const known = this.#delegation;
    const newer = events.filter(({ seq }) => known && seq > known.lastSeq);
    if (!known || newer.length === 0) return;
    const { delegation, stale } = fold(known, newer);
    this.#delegation = delegation;
    // Only the server knows how many changes are pending, and what events of a newer version mean.
    if (stale || newer.some(({ type }) => type === "finished")) void this.#connect();
  }

  /** Read the delegation, then the events that are missing. */
  async #connect(): Promise<void> {
    this.#again = this.#connecting;
    if (this.#connecting) return;
    this.#connecting = true;
    const { id } = this.#options;
    try {
      const read = await this.#transport.request("understudy/delegations/get", { id });
      if (read.lastSeq >= (this.#delegation?.lastSeq ?? 0)) this.#delegation = read;
      await this.#transport.request("understudy/delegations/subscribe", { id, after: { [id]: this.#last } });
      if (!this.#loaded) this.#showFirst();
      this.#showProblem("");
    } catch (error) {
      // `understudy/changed` tries again.
      this.#showProblem(error instanceof Error ? error.message : String(error));
    } finally {
      this.#connecting = false;
      this.#schedule();
    }
    if (this.#again) void this.#connect();
  }

  /** Everything until now is known: go to the place of the reader, the end of a run, or the beginning of a result. */
  #showFirst(): void {
    this.#loaded = true;
    const { at } = this.#options;
    const count = this.#blocks.all.length;
    this.#following = at === undefined && this.#delegation !== undefined && isLive(this.#delegation);
    this.#from = this.#following ? Math.max(0, count - MAX_ROWS) : Math.max(0, (at ?? 0) - MORE_ROWS);
    this.#draw();
    const block = at === undefined ? undefined : this.#blocks.all[at];
    if (block) this.#rows.get(block)?.row.scrollIntoView({ block: "start" });
    // From here on, new rows are read aloud.
    this.#log.setAttribute("aria-busy", "false");
    this.#log.setAttribute("aria-live", "polite");
  }

  #schedule(): void {
    const wait = Math.max(0, this.#drawnAt + DRAW_MS - Date.now());
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw();
    }, wait);
  }

  #draw(): void {
    this.#drawnAt = Date.now();
    if (this.#delegation) this.#drawHead(this.#delegation);
    if (!this.#loaded) return;
    const { all } = this.#blocks;
    if (this.#following) this.#from = Math.max(0, all.length - MAX_ROWS);
    this.#to = Math.min(all.length, this.#from + MAX_ROWS);
    this.#drawRows(all.slice(this.#from, this.#to));
    this.#earlier.hidden = this.#from === 0;
    this.#later.hidden = this.#to === all.length;
    this.#stayAtEnd();
    this.#showJump();
  }

  #drawRows(blocks: readonly Block[]): void {
    const shown = new Set(blocks);
    for (const [block, { row }] of this.#rows) {
      if (shown.has(block)) continue;
      row.remove();
      this.#rows.delete(block);
    }
    let before: HTMLElement | undefined;
    for (const block of blocks) {
      let made = this.#rows.get(block);
      if (!made) {
        made = { row: element("div", { class: "row", "data-kind": block.kind }), shown: "" };
        this.#rows.set(block, made);
      }
      const { row } = made;
      const asks = block.question !== undefined && block.question.requestId === this.#delegation?.waitingFor?.requestId;
      const version = `${block.version} ${asks}`;
      if (made.shown !== version) {
        made.shown = version;
        fillRow(row, block, asks, {
          answer: async (requestId, option, remember = false) => {
            const answered = { id: this.#options.id, requestId, option, ...(remember ? { remember } : {}) };
            await this.#send("understudy/delegations/answer", answered);
          },
          ...(this.#options.editor ? { openFile: this.#options.editor.openFile } : {}),
        });
      }
      const place = before ? before.nextSibling : this.#log.firstChild;
      if (place !== row) this.#log.insertBefore(row, place);
      before = row;
    }
  }

  #drawHead(delegation: Delegation): void {
    const { title, name, facts, workspace } = transcriptHead(delegation, Date.now());
    setText(this.#title, title);
    setText(this.#state, name);
    this.#state.dataset["state"] = delegation.verdict ?? delegation.state;
    setText(this.#facts, [...facts, workspace].join(" · "));
    const { count } = delegation;
    this.#count.hidden = count === undefined;
    if (count) {
      const text = countText(count);
      this.#progress.max = Math.max(1, count.total);
      this.#progress.value = count.done;
      this.#progress.setAttribute("aria-label", text);
      setText(this.#counted, text);
    }
    document.title = this.#title.textContent;
    // What was typed stays until it can be sent: as a reply, after the end.
    this.#form.hidden = !this.#instructable || !isLive(delegation) || delegation.state === "checking";
    const buttons = this.#actions(delegation);
    const now = JSON.stringify(buttons.map(([text]) => text));
    if (now === this.#buttons) return; // a button cannot be pressed while it is replaced
    this.#buttons = now;
    const focused = this.#toolbar.contains(document.activeElement);
    this.#toolbar.replaceChildren(...buttons.map(([text, kind, press]) => button(text, kind, press)));
    if (focused) this.#toolbar.querySelector("button")?.focus();
  }

  /** The next steps, the most likely one first. */
  #actions(delegation: Delegation): [string, "primary" | "secondary", () => void][] {
    const { id } = this.#options;
    const { editor } = this.#options;
    const found: [string, "primary" | "secondary", () => void][] = [];
    const add = (text: string, press: () => void): void =>
      void found.push([text, found.length === 0 ? "primary" : "secondary", press]);
    const edit = (text: string, action: EditorAction): void => {
      if (editor) add(text, () => editor.run(action));
    };
    if (delegation.waitingFor) {
      found.push([t("Show Question"), "secondary", () => this.#showQuestion()]);
    }
    if (isLive(delegation)) {
      // Never the most prominent button: a question has one.
      found.push([t("Cancel"), "secondary", () => void this.#send("understudy/delegations/cancel", { id })]);
    } else {
      const remedy = remedyOf(delegation);
      if (remedy) edit(remedyTitle(remedy), "remedy");
      if (isToReview(delegation)) edit(t("Review"), "review");
      if (delegation.reservations.includes("no_checks") && remedy?.kind !== "add_check")
        edit(t("Add Check…"), "addCheck");
      const failed = isFailure(delegation);
      const replies = this.#instructable && canReply(delegation);
      if (replies && !failed) edit(t("Reply…"), "reply");
      if (delegation.rescueRef !== undefined) edit(t("Restore"), "restore");
      // Trying again is the next step only after a failure, and with the same delegator only if that may help.
      const mayHelp = retryMayHelp(delegation);
      const others: typeof found = editor ? [[t("Retry with…"), "secondary", () => editor.run("retryWith")]] : [];
      const same: typeof found = [
        [t("Retry"), "secondary", () => void this.#send("understudy/delegations/retry", { id })],
      ];
      const again = mayHelp || !failed ? [...same, ...others] : [...others, ...same];
      if (failed && found.length === 0 && again[0]) again[0][1] = "primary";
      found.push(...again);
      if (replies && failed) edit(t("Reply…"), "reply");
      if (failed) edit(t("Show Log"), "showLog");
    }
    if (editor) found.push([t("Open as Text"), "secondary", () => editor.run("openText")]);
    return found;
  }

  /** Send what the user typed; it stays in the field if that fails. */
  async #say(submit: HTMLButtonElement): Promise<void> {
    const text = this.#input.value;
    if (text.trim() === "" || submit.disabled) return;
    submit.disabled = true;
    try {
      if (await this.#send("understudy/delegations/say", { id: this.#options.id, text })) this.#input.value = "";
    } finally {
      submit.disabled = false;
    }
  }

  /** Returns whether the request succeeded. */
  async #send<M extends PageRequest>(method: M, params: Requests[M]["params"]): Promise<boolean> {
    try {
      await this.#transport.request(method, params);
      this.#showProblem("");
      return true;
    } catch (error) {
      this.#showProblem(error instanceof Error ? error.message : String(error));
      return false;
    }
  }

  /** The task as the agent received it, read when the user opens it. */
  #task(): HTMLElement {
    return details([t("Task as sent")], () => {
      const text = element("pre", { tabindex: "0" }, t("Reading…"));
      this.#transport.request("understudy/delegations/logs", { id: this.#options.id }).then(
        ({ prompt, promptOmittedBytes = 0 }) => {
          const rest = promptOmittedBytes > 0 ? `\n${t("… {0} bytes omitted", promptOmittedBytes)}` : "";
          setText(text, prompt === undefined ? t("The task was not sent yet, or is no longer stored.") : prompt + rest);
        },
        (error: unknown) => setText(text, error instanceof Error ? error.message : String(error)),
      );
      return [text];
    });
  }

  #showProblem(text: string): void {
    setText(this.#problem, text);
    this.#problem.hidden = text === "";
  }

  #showEarlier(): void {
    const first = this.#blocks.all[this.#from];
    const row = first && this.#rows.get(first)?.row;
    const top = row?.getBoundingClientRect().top ?? 0;
    this.#following = false;
    this.#from = Math.max(0, this.#from - MORE_ROWS);
    this.#draw();
    if (row) window.scrollBy(0, row.getBoundingClientRect().top - top); // what the reader saw stays where it is
  }

  #showLater(): void {
    const last = this.#blocks.all[this.#to - 1];
    const row = last && this.#rows.get(last)?.row;
    const top = row?.getBoundingClientRect().top ?? 0;
    this.#from = Math.min(this.#from + MORE_ROWS, Math.max(0, this.#blocks.all.length - MAX_ROWS));
    this.#draw();
    if (row) window.scrollBy(0, row.getBoundingClientRect().top - top);
  }

  /** Go to the question that waits for an answer, wherever the reader is. */
  #showQuestion(): void {
    const index = this.#blocks.all.findLastIndex(({ question }) => question !== undefined);
    const block = this.#blocks.all[index];
    if (!block) return;
    this.#following = false;
    if (index < this.#from || index >= this.#to) this.#from = Math.max(0, index - MORE_ROWS);
    this.#draw();
    const row = this.#rows.get(block)?.row;
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("button")?.focus({ preventScroll: true });
  }

  #jumpToEnd(): void {
    this.#following = true;
    this.#draw();
  }

  #isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = document.documentElement;
    return scrollHeight - scrollTop - clientHeight < END_DISTANCE;
  }

  #stayAtEnd(): void {
    if (this.#following) window.scrollTo(0, document.documentElement.scrollHeight);
    this.#top = window.scrollY;
  }

  /** The reader scrolls up, if there is something above. */
  #leaveEnd(): void {
    if (window.scrollY > 0) this.#following = false;
  }

  #showJump(): void {
    this.#latest.hidden = this.#following || (this.#to === this.#blocks.all.length && this.#isAtEnd());
  }

  /**
   * The page was scrolled, by the reader or because it grew. Growing never moves it up, away from the end; a reader who
   * drags the scrollbar does. One who comes back to the end follows it again.
   */
  #onScroll(): void {
    if (!this.#loaded) return;
    const top = window.scrollY;
    const atEnd = this.#isAtEnd();
    if (top < this.#top - 1 && !atEnd) this.#following = false;
    const live = this.#delegation !== undefined && isLive(this.#delegation);
    const reached = top > this.#top && atEnd;
    this.#top = top;
    if (reached && !this.#later.hidden) this.#showLater();
    else if (reached && live) this.#following = true;
    this.#showJump();
    this.#remembering ??= setTimeout(() => {
      this.#remembering = undefined;
      this.#options.remember?.(this.#following ? undefined : this.#firstVisible());
    }, REMEMBER_MS);
  }

  #firstVisible(): number {
    const head = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
    for (let index = this.#from; index < this.#to; index += 1) {
      const block = this.#blocks.all[index];
      const box = block && this.#rows.get(block)?.row.getBoundingClientRect();
      if (box && box.bottom > head) return index;
    }
    return this.#from;
  }
}

/** Set a text if it changed: screen readers read a live region whenever it is set. */
function setText(target: HTMLElement, text: string): void {
  const made = element("span", {}, text).textContent;
  if (target.textContent !== made) target.textContent = made;
}
