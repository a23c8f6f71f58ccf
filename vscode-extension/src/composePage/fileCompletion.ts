/** Completes the name of a file after `@` in a text field: a list below the field, of which arrows choose a row. */

import { t } from "../base/l10n.ts";
import type { ComposeFile } from "../compose/composeMessages.ts";
import { element } from "../transcriptPage/dom.ts";

/** Time without typing before files are searched, in milliseconds. */
const TYPING_MS = 120;

export class FileCompletion {
  readonly list = element("ul", { id: "found", role: "listbox", "aria-label": t("Files"), hidden: true });
  readonly #field: HTMLTextAreaElement;
  readonly #find: (text: string) => Promise<readonly ComposeFile[]>;
  readonly #choose: (file: ComposeFile) => void;
  #files: readonly ComposeFile[] = [];
  #at = 0;
  /** Answers to earlier searches are not used. */
  #turn = 0;

  /** `choose` gets the file after its name has replaced what was typed. */
  constructor(
    field: HTMLTextAreaElement,
    find: (text: string) => Promise<readonly ComposeFile[]>,
    choose: (file: ComposeFile) => void,
  ) {
    this.#field = field;
    this.#find = find;
    this.#choose = choose;
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", this.list.id);
    field.addEventListener("input", () => void this.#search());
    field.addEventListener("blur", () => this.#show([]));
    field.addEventListener("keydown", (event) => this.#press(event));
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  }

  /** What was typed after `@` before the cursor. */
  #typed(): string | undefined {
    const { value, selectionStart, selectionEnd } = this.#field;
    return selectionStart === selectionEnd
      ? /(?:^|\s)@([^\s@]*)$/u.exec(value.slice(0, selectionStart))?.[1]
      : undefined;
  }

  async #search(): Promise<void> {
    const turn = ++this.#turn;
    const typed = this.#typed();
    if (typed === undefined) {
      this.#show([]);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, TYPING_MS));
    if (turn !== this.#turn) return;
    const found = await this.#find(typed).catch(() => []);
    if (turn === this.#turn) this.#show(found);
  }

  #show(files: readonly ComposeFile[]): void {
    this.#turn += 1;
    this.#files = files;
    this.list.replaceChildren(
      ...files.map((file, index) => {
        const slash = file.name.lastIndexOf("/") + 1;
        const folder = element("span", { class: "hint" }, file.name.slice(0, slash));
        const row = element(
          "li",
          { id: `found-${index}`, role: "option", title: file.name },
          file.name.slice(slash),
          folder,
        );
        row.setAttribute("aria-label", file.name);
        row.addEventListener("click", () => this.#take(file));
        return row;
      }),
    );
    this.list.hidden = files.length === 0;
    this.#focus(0);
  }

  #focus(index: number): void {
    this.#at = index;
    for (const [place, row] of [...this.list.children].entries())
      row.setAttribute("aria-selected", String(place === index));
    const row = this.list.children[index];
    if (row) this.#field.setAttribute("aria-activedescendant", row.id);
    else this.#field.removeAttribute("aria-activedescendant");
    if (row instanceof HTMLElement) {
      const { scrollTop, clientHeight } = this.list;
      this.list.scrollTop = Math.max(
        Math.min(scrollTop, row.offsetTop),
        row.offsetTop + row.offsetHeight - clientHeight,
      );
    }
  }

  #press(event: KeyboardEvent): void {
    const file = this.#files[this.#at];
    if (!file || event.isComposing) return;
    const count = this.#files.length;
    const plain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === "ArrowDown") this.#focus((this.#at + 1) % count);
    else if (event.key === "ArrowUp") this.#focus((this.#at + count - 1) % count);
    else if (event.key === "Escape") this.#show([]);
    else if ((event.key === "Enter" || event.key === "Tab") && plain) this.#take(file);
    else return;
    event.preventDefault();
    event.stopPropagation(); // Enter would start
  }

  #take(file: ComposeFile): void {
    const { value, selectionStart: at } = this.#field;
    const start = at - (this.#typed() ?? "").length - 1;
    this.#field.setRangeText(`${file.name} `, start, value.startsWith(" ", at) ? at + 1 : at, "end");
    this.#show([]);
    this.#choose(file);
  }
}
