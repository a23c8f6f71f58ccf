/**
 * Transcripts as read-only documents that grow while a delegation runs. An open document follows the journal from its
 * first event. Without a sidecar it waits for one, for example after a reload of the window.
 */

import { existsSync } from "node:fs";
import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { escapeMarkup } from "../base/untrustedText.ts";
import { t } from "../base/l10n.ts";
import { toErrorInfo } from "../sidecar/connection.ts";
import type { FileChange, Fold, Host, Lens, TextLink } from "../host/host.ts";
import type { Store } from "../state/store.ts";
import { takesInstructions } from "../state/instructions.ts";
import { remedyOf, remedyTitle } from "../state/remedies.ts";
import { canReply, isLive, isToReview, orderedOptions } from "../state/wording.ts";
import type { Event } from "../protocol.ts";
import { delegationIdOf, TRANSCRIPT_SCHEME } from "../state/delegationUris.ts";
import { linkTarget } from "./linkTarget.ts";
import { TranscriptText, type Rendered } from "./transcriptText.ts";

/** Time between two updates of a document; longer documents are updated less often. */
export const DRAW_MS = 150;
/** Each this many characters add a millisecond to that time. */
const CHARACTERS_PER_MS = 2_000;
const MAX_DRAW_MS = 2_000;

export interface TranscriptDeps {
  readonly host: Pick<Host, "documents" | "review" | "commands" | "output">;
  readonly store: Pick<Store, "delegation" | "delegator" | "loaded" | "follow" | "read" | "onDidChange">;
  readonly now?: () => number;
  /** Whether a file exists. */
  readonly exists?: (file: string) => boolean;
}

/** Number of recent versions that are kept: the editor may still ask about an older one. */
const MAX_DRAWN = 16;
/** Delay between the editor's request for folding ranges and the command that folds them. */
const FOLD_DELAY_MS = 300;
const EMPTY: Rendered = { text: "", folds: [], links: [] };

interface OpenTranscript {
  readonly id: string;
  /** The URI as the editor writes it. */
  uri: string;
  readonly text: TranscriptText;
  /** `seq` of the last event in the text. */
  last: number;
  rendered: Rendered;
  /** Recent versions, newest first: the editor may still show an older one. */
  drawn: Rendered[];
  following?: Disposable;
  starting?: Promise<void>;
  timer?: NodeJS.Timeout;
  folding?: NodeJS.Timeout;
  /** The text for which the editor requested folding ranges. */
  foldable?: string;
  drawnAt: number;
  lenses: string;
  /** Lines that were folded once: if the user unfolds them, they stay unfolded. */
  readonly folded: Set<string>;
  /** Whether it was running while open: then editors follow its end. */
  live: boolean;
}

export class TranscriptDocuments implements Disposable {
  readonly #deps: TranscriptDeps;
  readonly #now: () => number;
  readonly #exists: (file: string) => boolean;
  readonly #disposables = new DisposableStore();
  readonly #open = new Map<string, OpenTranscript>();
  readonly #changed = new Emitter<readonly FileChange[]>();
  readonly #lenses = new Emitter<void>();

  constructor(deps: TranscriptDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? Date.now;
    this.#exists = deps.exists ?? existsSync;
    const { documents, review } = deps.host;
    this.#disposables.add(
      documents.provideFiles(TRANSCRIPT_SCHEME, {
        read: (uri) => this.#read(uri),
        onDidChange: this.#changed.subscribe,
      }),
    );
    this.#disposables.add(documents.links(TRANSCRIPT_SCHEME, (uri, text) => this.#links(uri, text)));
    this.#disposables.add(documents.folds(TRANSCRIPT_SCHEME, (uri, text) => this.#folds(uri, text)));
    this.#disposables.add(
      review.lenses(TRANSCRIPT_SCHEME, { lenses: (uri) => this.#lensesOf(uri), onDidChange: this.#lenses.subscribe }),
    );
    this.#disposables.add(documents.onDidClose((uri) => this.#close(uri)));
    this.#disposables.add(documents.onDidChangeOwn((uri) => this.#onShown(uri)));
    this.#disposables.add(documents.onDidChangeActive((editor) => editor && this.#onShown(editor.uri)));
    this.#disposables.add(
      deps.store.onDidChange((change) => {
        for (const open of this.#open.values()) {
          if (!open.following) this.#startFollowing(open);
          if (change.delegations.has(open.id)) this.#draw(open);
        }
      }),
    );
  }

  dispose(): void {
    for (const open of this.#open.values()) this.#end(open);
    this.#open.clear();
    this.#disposables.dispose();
    this.#changed.dispose();
    this.#lenses.dispose();
  }

  async #read(uri: string): Promise<Uint8Array> {
    const id = delegationIdOf(uri);
    if (id === undefined) throw new Error(`no transcript: ${uri}`);
    let open = this.#open.get(id);
    if (!open) {
      open = {
        id,
        uri,
        text: new TranscriptText(),
        last: 0,
        rendered: EMPTY,
        drawn: [],
        drawnAt: 0,
        lenses: "",
        folded: new Set(),
        live: false,
      };
      this.#open.set(id, open);
    }
    this.#startFollowing(open);
    // Show the whole history at first, if a sidecar is running.
    if (open.drawnAt === 0) await open.starting;
    this.#render(open);
    return new TextEncoder().encode(open.rendered.text);
  }

  /** Follow the journal as soon as a sidecar is running. */
  #startFollowing(open: OpenTranscript): void {
    if (open.following || open.starting || !this.#deps.store.loaded) return;
    const { store } = this.#deps;
    open.starting = (async () => {
      try {
        if (!store.delegation(open.id)) await store.read(open.id);
        const take = (events: readonly Event[]): void => {
          open.text.add(events);
          open.last = events.at(-1)?.seq ?? open.last;
          this.#draw(open);
        };
        // Events from before a restart of the sidecar are already in the text.
        const following = await store.follow(open.id, take, open.last);
        if (this.#open.get(open.id) === open) open.following = following;
        else following.dispose();
      } catch (error) {
        // The next change of the store tries again.
        this.#deps.host.output.warn(`transcript of ${open.id}: ${toErrorInfo(error).message}`);
      } finally {
        delete open.starting;
      }
    })();
  }

  /** Update the document: at once after a pause, otherwise when the pause is over. */
  #draw(open: OpenTranscript): void {
    if (open.drawnAt === 0) return; // it was not read yet
    const pause = Math.min(MAX_DRAW_MS, Math.max(DRAW_MS, open.rendered.text.length / CHARACTERS_PER_MS));
    const wait = Math.max(0, open.drawnAt + pause - this.#now());
    open.timer ??= setTimeout(() => {
      delete open.timer;
      const before = open.rendered.text;
      this.#render(open);
      if (open.rendered.text !== before) this.#changed.fire([{ uri: open.uri, kind: "changed" }]);
      this.#drawLenses(open);
    }, wait);
  }

  /** Fire only if they changed: a lens cannot be pressed while it is redrawn. */
  #drawLenses(open: OpenTranscript): void {
    const now = JSON.stringify(this.#lensesOf(open.uri));
    if (now === open.lenses) return;
    open.lenses = now;
    this.#lenses.fire();
  }

  #render(open: OpenTranscript): void {
    const delegation = this.#deps.store.delegation(open.id);
    if (delegation && isLive(delegation)) open.live = true;
    const rendered = open.text.render(delegation, this.#now());
    const text = delegation ? rendered.text : `${t("Waiting for Understudy…")}\n`;
    if (text === open.rendered.text) return void (open.drawnAt = this.#now());
    open.rendered = { ...rendered, text };
    open.drawn = [open.rendered, ...open.drawn].slice(0, MAX_DRAWN);
    open.drawnAt = this.#now();
  }

  /** The editor shows a new version: scroll to its end, and fold the output of tools. */
  #onShown(uri: string): void {
    const id = delegationIdOf(uri);
    const open = uri.startsWith(`${TRANSCRIPT_SCHEME}:`) && id !== undefined ? this.#open.get(id) : undefined;
    if (!open) return;
    open.uri = uri;
    this.#drawLenses(open);
    if (open.live) this.#deps.host.documents.follow(uri);
    this.#foldSoon(open);
  }

  #foldSoon(open: OpenTranscript): void {
    open.folding ??= setTimeout(() => {
      delete open.folding;
      this.#fold(open);
    }, FOLD_DELAY_MS);
  }

  /** Fold new blocks in the active editor; other editors cannot be folded. */
  #fold(open: OpenTranscript): void {
    const { uri } = open;
    const { documents, commands } = this.#deps.host;
    if (documents.active?.uri !== uri) return;
    const rendered = this.#rendered(uri);
    // A busy editor asks late, and cannot fold before.
    if (!rendered || open.foldable !== rendered.text) return;
    const lines = rendered.text.split("\n");
    const fresh = rendered.folds.filter(({ start, end }) => {
      const key = `${start} ${lines[start]?.slice(2)}`;
      // A block that may still grow is folded later.
      if (open.folded.has(key) || (open.live && end >= lines.length - 2)) return false;
      open.folded.add(key);
      return true;
    });
    if (fresh.length > 0) {
      void commands.run("editor.fold", { selectionLines: fresh.map(({ start }) => start), levels: 1 });
    }
  }

  #close(uri: string): void {
    const id = delegationIdOf(uri);
    const open = uri.startsWith(`${TRANSCRIPT_SCHEME}:`) && id !== undefined ? this.#open.get(id) : undefined;
    if (!open) return;
    this.#end(open);
    this.#open.delete(open.id);
  }

  #end(open: OpenTranscript): void {
    clearTimeout(open.timer);
    clearTimeout(open.folding);
    open.following?.dispose();
  }

  #folds(uri: string, text: string): readonly Fold[] {
    const rendered = this.#rendered(uri, text);
    const id = delegationIdOf(uri);
    const open = id === undefined ? undefined : this.#open.get(id);
    if (open && rendered) {
      open.foldable = rendered.text;
      clearTimeout(open.folding);
      delete open.folding;
      this.#foldSoon(open);
    }
    return rendered?.folds ?? [];
  }

  #links(uri: string, text: string): readonly TextLink[] {
    const open = this.#openFor(uri);
    const delegation = open && this.#deps.store.delegation(open.id);
    if (!open || !delegation) return [];
    return (this.#rendered(uri, text)?.links ?? []).flatMap((link) => {
      const target = linkTarget(delegation, link.path, this.#exists);
      if (target === undefined) return [];
      const range = {
        start: { line: link.line, character: link.start },
        end: { line: link.line, character: link.end },
      };
      return [{ range, ...target }];
    });
  }

  #lensesOf(uri: string): readonly Lens[] {
    const open = this.#openFor(uri);
    const delegation = open && this.#deps.store.delegation(open.id);
    if (!open || !delegation) return [];
    const at = (line: number): Lens["range"] => ({
      start: { line, character: 0 },
      end: { line, character: 0 },
    });
    const lens = (line: number, title: string, id: string, ...values: unknown[]): Lens => ({
      range: at(line),
      command: { id, title, arguments: [delegation.id, ...values] },
    });
    const lenses: Lens[] = [];
    if (isLive(delegation)) {
      lenses.push(lens(0, withIcon("debug-stop", t("Cancel")), "understudy.delegations.cancel"));
      if (delegation.terminal) lenses.push(lens(0, withIcon("terminal", t("Attach")), "understudy.delegations.attach"));
    } else {
      const remedy = remedyOf(delegation);
      if (remedy) lenses.push(lens(0, withIcon("tools", remedyTitle(remedy)), "understudy.delegations.remedy"));
      if (isToReview(delegation)) {
        lenses.push(lens(0, withIcon("diff-multiple", t("Review")), "understudy.review.open"));
      }
      if (delegation.reservations.includes("no_checks")) {
        lenses.push(lens(0, withIcon("add", t("Add Check…")), "understudy.checks.add"));
      }
      if (canReply(delegation) && takesInstructions(this.#deps.store, delegation)) {
        lenses.push(lens(0, withIcon("reply", t("Reply…")), "understudy.delegations.reply"));
      }
      lenses.push(lens(0, withIcon("refresh", t("Retry with…")), "understudy.delegations.retryWith"));
      if (delegation.rescueRef !== undefined) {
        lenses.push(lens(0, withIcon("discard", t("Restore")), "understudy.delegations.restore"));
      }
    }
    const question = this.#rendered(uri)?.question;
    if (question !== undefined && delegation.waitingFor) {
      const { requestId } = delegation.waitingFor;
      for (const option of orderedOptions(delegation.waitingFor)) {
        const icon = option.kind.startsWith("allow") ? "check" : "close";
        const title = withIcon(icon, escapeMarkup(option.title));
        lenses.push(lens(question, title, "understudy.delegations.answer", requestId, option.id));
      }
    }
    return lenses;
  }

  /** The version that the editor shows; undefined if it is not one of the recent ones. */
  #rendered(uri: string, text = this.#deps.host.documents.open([uri])[0]?.text): Rendered | undefined {
    return this.#openFor(uri)?.drawn.find((drawn) => drawn.text === text);
  }

  #openFor(uri: string): OpenTranscript | undefined {
    const id = delegationIdOf(uri);
    return id === undefined ? undefined : this.#open.get(id);
  }
}

/** The editor drops an ordinary space after an icon. */
function withIcon(icon: string, title: string): string {
  return `$(${icon})\u00a0${title}`;
}
