/**
 * Transcripts as documents: read-only, streaming while a delegation runs. A document follows the journal from its first
 * event while it is open, and waits for a sidecar when there is none, as after a reload of the window.
 */

import { existsSync } from "node:fs";
import * as path from "node:path";
import { Bag, Emitter, type Disposable } from "../base/emitter.ts";
import { inert } from "../base/inert.ts";
import { t } from "../base/l10n.ts";
import { errorInfo } from "../client/wire.ts";
import type { Fold, Host, Lens, TextLink } from "../host/host.ts";
import type { Store } from "../model/store.ts";
import { isLive, isToReview, orderedOptions } from "../model/words.ts";
import type { Delegation, Event } from "../protocol.ts";
import { delegationOf, TRANSCRIPT } from "../views/delegationIds.ts";
import { TranscriptText, type FileLink, type Rendered } from "./render.ts";

/** Between two drawings of a document that grows; longer ones are drawn less often. */
export const DRAW_MS = 150;
/** Characters for which a drawing may take another millisecond. */
const CHARACTERS_A_MS = 2_000;
const LONGEST_PAUSE_MS = 2_000;

export interface TranscriptParts {
  readonly host: Pick<Host, "documents" | "review" | "commands" | "output">;
  readonly store: Pick<Store, "delegation" | "loaded" | "follow" | "read" | "onDidChange">;
  readonly now?: () => number;
  /** Whether a file is there. */
  readonly exists?: (file: string) => boolean;
}

/** Drawings that are remembered: the editor may be some behind, and asks about the one that it shows. */
const REMEMBERED = 16;
/** After the editor has asked what can be folded, until it knows. */
const FOLD_MS = 300;
const NOTHING: Rendered = { text: "", folds: [], links: [] };

interface Open {
  readonly id: string;
  /** As the editor writes it; learnt from the editor. */
  uri: string;
  readonly text: TranscriptText;
  /** `seq` of the last event in it. */
  last: number;
  rendered: Rendered;
  /** What was drawn last, the newest first: the editor may still show an older one. */
  drawn: Rendered[];
  following?: Disposable;
  beginning?: Promise<void>;
  timer?: NodeJS.Timeout;
  folding?: NodeJS.Timeout;
  /** The text about whose folds the editor has asked. */
  foldable?: string;
  drawnAt: number;
  lenses: string;
  /** Starts of folds that were folded once: what a person opens stays open. */
  readonly folded: Set<string>;
  /** Whether it ran while it was open: then it is followed to its end. */
  live: boolean;
}

export class Transcripts implements Disposable {
  readonly #parts: TranscriptParts;
  readonly #now: () => number;
  readonly #exists: (file: string) => boolean;
  readonly #bag = new Bag();
  readonly #open = new Map<string, Open>();
  readonly #changed = new Emitter<readonly string[]>();
  readonly #lenses = new Emitter<void>();

  constructor(parts: TranscriptParts) {
    this.#parts = parts;
    this.#now = parts.now ?? Date.now;
    this.#exists = parts.exists ?? existsSync;
    const { documents, review } = parts.host;
    this.#bag.add(
      documents.provideFiles(TRANSCRIPT, {
        read: (uri) => this.#read(uri),
        onDidChange: this.#changed.signal,
      }),
    );
    this.#bag.add(documents.links(TRANSCRIPT, (uri, text) => this.#links(uri, text)));
    this.#bag.add(documents.folds(TRANSCRIPT, (uri, text) => this.#folds(uri, text)));
    this.#bag.add(
      review.lenses(TRANSCRIPT, { lenses: (uri) => this.#lensesOf(uri), onDidChange: this.#lenses.signal }),
    );
    this.#bag.add(documents.onDidClose((uri) => this.#close(uri)));
    this.#bag.add(documents.onDidChangeOwn((uri) => this.#shown(uri)));
    this.#bag.add(documents.onDidChangeActive((editor) => editor && this.#shown(editor.uri)));
    this.#bag.add(
      parts.store.onDidChange((change) => {
        for (const open of this.#open.values()) {
          if (!open.following) this.#begin(open);
          if (change.delegations.has(open.id)) this.#draw(open);
        }
      }),
    );
  }

  dispose(): void {
    for (const open of this.#open.values()) this.#end(open);
    this.#open.clear();
    this.#bag.dispose();
    this.#changed.dispose();
    this.#lenses.dispose();
  }

  async #read(uri: string): Promise<Uint8Array> {
    const id = delegationOf(uri);
    if (id === undefined) throw new Error(`no transcript: ${uri}`);
    let open = this.#open.get(id);
    if (!open) {
      open = {
        id,
        uri,
        text: new TranscriptText(),
        last: 0,
        rendered: NOTHING,
        drawn: [],
        drawnAt: 0,
        lenses: "",
        folded: new Set(),
        live: false,
      };
      this.#open.set(id, open);
    }
    this.#begin(open);
    // The first look has the whole history, when somebody can tell it.
    if (open.drawnAt === 0) await open.beginning;
    this.#render(open);
    return new TextEncoder().encode(open.rendered.text);
  }

  /** Follow the journal as soon as there is somebody to tell it. */
  #begin(open: Open): void {
    if (open.following || open.beginning || !this.#parts.store.loaded) return;
    const { store } = this.#parts;
    open.beginning = (async () => {
      try {
        if (!store.delegation(open.id)) await store.read(open.id);
        const take = (events: readonly Event[]): void => {
          open.text.add(events);
          open.last = events.at(-1)?.seq ?? open.last;
          this.#draw(open);
        };
        // What a sidecar told before it ended in the middle of a long history is there already.
        const following = await store.follow(open.id, take, open.last);
        if (this.#open.get(open.id) === open) open.following = following;
        else following.dispose();
      } catch (error) {
        // It is tried again with the next news of a sidecar.
        this.#parts.host.output.warn(`transcript of ${open.id}: ${errorInfo(error).message}`);
      } finally {
        delete open.beginning;
      }
    })();
  }

  /** Draw soon: at once after a pause, else when the time for it has come. */
  #draw(open: Open): void {
    if (open.drawnAt === 0) return; // nobody has read it yet
    const pause = Math.min(LONGEST_PAUSE_MS, Math.max(DRAW_MS, open.rendered.text.length / CHARACTERS_A_MS));
    const wait = Math.max(0, open.drawnAt + pause - this.#now());
    open.timer ??= setTimeout(() => {
      delete open.timer;
      const before = open.rendered.text;
      this.#render(open);
      if (open.rendered.text !== before) this.#changed.fire([open.uri]);
      this.#drawLenses(open);
    }, wait);
  }

  /** Only when they are others: a lens that is drawn anew cannot be pressed in that moment. */
  #drawLenses(open: Open): void {
    const now = JSON.stringify(this.#lensesOf(open.uri));
    if (now === open.lenses) return;
    open.lenses = now;
    this.#lenses.fire();
  }

  #render(open: Open): void {
    const delegation = this.#parts.store.delegation(open.id);
    if (delegation && isLive(delegation)) open.live = true;
    const rendered = open.text.render(delegation, this.#now());
    const text = delegation ? rendered.text : `${t("Waiting for Understudy …")}\n`;
    if (text === open.rendered.text) return void (open.drawnAt = this.#now());
    open.rendered = { ...rendered, text };
    open.drawn = [open.rendered, ...open.drawn].slice(0, REMEMBERED);
    open.drawnAt = this.#now();
  }

  /** The editor shows what was drawn: keep its end in sight, and fold what tools said. */
  #shown(uri: string): void {
    const id = delegationOf(uri);
    const open = uri.startsWith(`${TRANSCRIPT}:`) && id !== undefined ? this.#open.get(id) : undefined;
    if (!open) return;
    open.uri = uri;
    this.#drawLenses(open);
    if (open.live) this.#parts.host.documents.follow(uri);
    this.#foldSoon(open);
  }

  #foldSoon(open: Open): void {
    open.folding ??= setTimeout(() => {
      delete open.folding;
      this.#fold(open);
    }, FOLD_MS);
  }

  /** Fold what is over and was not folded before, in the active editor: no other can be told to. */
  #fold(open: Open): void {
    const { uri } = open;
    const { documents, commands } = this.#parts.host;
    if (documents.active?.uri !== uri) return;
    const rendered = this.#rendered(uri);
    // A busy editor asks late, and folds nothing before.
    if (!rendered || open.foldable !== rendered.text) return;
    const lines = rendered.text.split("\n");
    const fresh = rendered.folds.filter(({ start, end }) => {
      const key = `${start} ${lines[start]?.slice(2)}`;
      // What still grows is folded when it has its end.
      if (open.folded.has(key) || (open.live && end >= lines.length - 2)) return false;
      open.folded.add(key);
      return true;
    });
    if (fresh.length > 0) {
      void commands.run("editor.fold", { selectionLines: fresh.map(({ start }) => start), levels: 1 });
    }
  }

  #close(uri: string): void {
    const id = delegationOf(uri);
    const open = uri.startsWith(`${TRANSCRIPT}:`) && id !== undefined ? this.#open.get(id) : undefined;
    if (!open) return;
    this.#end(open);
    this.#open.delete(open.id);
  }

  #end(open: Open): void {
    clearTimeout(open.timer);
    clearTimeout(open.folding);
    open.following?.dispose();
  }

  #folds(uri: string, text: string): readonly Fold[] {
    const rendered = this.#rendered(uri, text);
    const id = delegationOf(uri);
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
    const open = this.#of(uri);
    const delegation = open && this.#parts.store.delegation(open.id);
    if (!open || !delegation) return [];
    return (this.#rendered(uri, text)?.links ?? []).flatMap((link) => {
      const target = this.#target(delegation, link);
      if (target === undefined) return [];
      const range = {
        start: { line: link.line, character: link.start },
        end: { line: link.line, character: link.end },
      };
      return [{ range, ...target }];
    });
  }

  /** The person's own file where there is one; else the file of the result. */
  #target(delegation: Delegation, link: FileLink): { target: string; tooltip: string } | undefined {
    const roots = [delegation.workspace, ...(delegation.rescueRef === undefined ? [delegation.worktree ?? ""] : [])];
    for (const root of roots) {
      if (root === "") continue;
      const file = path.resolve(root, link.path);
      const inside = roots.some((other) => other !== "" && (file === other || file.startsWith(other + path.sep)));
      if (!inside || !this.#exists(file)) continue;
      const own = root === delegation.workspace;
      return { target: fileUri(file), tooltip: own ? t("Open your file") : t("Open the file of the result") };
    }
    return undefined;
  }

  #lensesOf(uri: string): readonly Lens[] {
    const open = this.#of(uri);
    const delegation = open && this.#parts.store.delegation(open.id);
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
      lenses.push(lens(0, iconed("debug-stop", t("Cancel")), "understudy.delegations.cancel"));
    } else {
      if (isToReview(delegation)) {
        lenses.push(lens(0, iconed("diff-multiple", t("Review")), "understudy.review.open"));
      }
      if (delegation.result && delegation.rescueRef === undefined) {
        lenses.push(lens(0, iconed("reply", t("Reply…")), "understudy.delegations.reply"));
      }
      lenses.push(lens(0, iconed("refresh", t("Try Again…")), "understudy.delegations.retry"));
      if (delegation.rescueRef !== undefined) {
        lenses.push(lens(0, iconed("discard", t("Restore")), "understudy.delegations.restore"));
      }
    }
    const question = this.#rendered(uri)?.question;
    if (question !== undefined && delegation.waitingFor) {
      const { requestId } = delegation.waitingFor;
      for (const option of orderedOptions(delegation.waitingFor)) {
        const icon = option.kind.startsWith("allow") ? "check" : "close";
        const title = iconed(icon, inert(option.title));
        lenses.push(lens(question, title, "understudy.delegations.answer", requestId, option.id));
      }
    }
    return lenses;
  }

  /** What belongs to the text that the editor shows; undefined when that is none of ours any more. */
  #rendered(uri: string, text = this.#parts.host.documents.open([uri])[0]?.text): Rendered | undefined {
    return this.#of(uri)?.drawn.find((drawn) => drawn.text === text);
  }

  #of(uri: string): Open | undefined {
    const id = delegationOf(uri);
    return id === undefined ? undefined : this.#open.get(id);
  }
}

/** A lens swallows an ordinary space after its icon. */
function iconed(icon: string, title: string): string {
  return `$(${icon})\u00a0${title}`;
}

function fileUri(file: string): string {
  return `file://${file.split(path.sep).map(encodeURIComponent).join("/")}`;
}
