/**
 * The form of a new delegation, as the box of the sidebar or with all options in a tab. It keeps no state besides its
 * draft, which it reports on every change.
 */

import { t } from "../base/l10n.ts";
import {
  filesOf,
  MAX_FILES,
  MAX_TASK_CHARACTERS,
  type ComposeChoices,
  type ComposeDraft,
  type ComposeFile,
  type ComposeRecipe,
  type ComposeRequests,
  type ComposeStart,
  recipeOf,
} from "../compose/composeMessages.ts";
import { button, element } from "../transcriptPage/dom.ts";
import { FileCompletion } from "./fileCompletion.ts";
import { OptionsSection } from "./optionsSection.ts";

export interface ComposeTransport {
  request<M extends keyof ComposeRequests>(
    method: M,
    params: ComposeRequests[M]["params"],
  ): Promise<ComposeRequests[M]["result"]>;
  /** Store the draft after each change. */
  changed(draft: ComposeDraft): void;
}

/** Types of dragged data that contain URIs, one per line; editors use several. */
const URI_TYPES = ["application/vnd.code.uri-list", "text/uri-list"];
const PICTURE = /\.(?:avif|bmp|gif|heic|ico|jpe?g|png|tiff?|webp)$/iu;
/** Time without a change before the cost is estimated, in milliseconds. */
const ESTIMATE_MS = 700;

export class ComposePage {
  readonly #transport: ComposeTransport;
  readonly #task: HTMLTextAreaElement;
  readonly #recipe = element("select", { id: "recipe" });
  readonly #delegator = element("select", { id: "delegator" });
  readonly #folder = element("select", { id: "folder" });
  readonly #folderRow: HTMLElement;
  readonly #target = element("input", {
    id: "target",
    type: "text",
    placeholder: "src/example.py",
    spellcheck: "false",
  });
  readonly #targetRow: HTMLElement;
  readonly #budget = element("input", {
    id: "budget",
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    placeholder: t("Budget in $"),
    title: t("The delegation ends when it has cost this much, as far as the prices are known."),
  });
  /** What would be sent, and what that may cost. */
  readonly #estimate = element("p", { class: "hint", id: "estimate" });
  readonly #options: OptionsSection;
  /** Leads from the box to the tab, which has the options. */
  readonly #more: HTMLButtonElement;
  readonly #chips = element("ul", { class: "chips", "aria-label": t("Attached files") });
  readonly #problem = element("p", { class: "problem", role: "alert" });
  readonly #status = element("p", { class: "status", role: "status" });
  /** Leads to the delegation that was started last. */
  readonly #open = element("button", { type: "button", class: "secondary", hidden: true }, t("Open Transcript"));
  readonly #buttons: readonly HTMLButtonElement[];
  #files: readonly ComposeFile[] = [];
  #without = "";
  /** The file of the editor. */
  #current: ComposeFile | undefined;
  #choices: ComposeChoices;
  #estimating: ReturnType<typeof setTimeout> | undefined;
  /** What was estimated last. */
  #estimated = "";
  /** ID of that delegation. */
  #started = "";
  /** The names in the draft: they may not be listed yet. */
  #chosen = { recipe: "", delegator: "", folder: "" };

  constructor(root: HTMLElement, transport: ComposeTransport, { draft, choices, current, isBox }: ComposeStart) {
    this.#transport = transport;
    this.#choices = choices;
    this.#current = current;
    const size = { rows: isBox ? "2" : "12", maxlength: String(MAX_TASK_CHARACTERS) };
    const placeholder = t("What should be done? Type @ to name files.");
    this.#task = element("textarea", { id: "task", placeholder, ...size });
    this.#task.setAttribute("aria-describedby", "hint");
    const send = button(t("Delegate"), "primary", () => void this.#send());
    const pick = button(t("Add Files…"), "secondary", () => void this.#pickFiles());
    const show = button(t("Show Full Prompt"), "secondary", () => void this.#showPrompt());
    this.#more = button("", "secondary", () => void transport.request("page/openTab", {}));
    this.#buttons = [send, show, pick];
    this.#options = new OptionsSection({
      options: () => transport.request("page/options", this.#draft()),
      models: () => transport.request("page/models", this.#draft()),
      check: () => transport.request("page/checkOptions", this.#draft()),
      changed: () => this.#report(),
    });
    this.#targetRow = element("div", {}, label("target", t("File to write")), this.#target);
    this.#folderRow = element("div", {}, label("folder", t("Folder")), this.#folder);
    const find = (text: string) => transport.request("page/findFiles", { text });
    const completion = new FileCompletion(this.#task, find, (file) => void this.#add(Promise.resolve([file])));
    const hint = isBox
      ? t("Press Enter to delegate, Shift+Enter for a new line. Type @ to complete file names.")
      : t("Press Ctrl+Enter to delegate. Type @ to complete files, or drop them here; hold Shift when dragging from the Explorer."); // prettier-ignore
    const fields = element(
      "div",
      { class: "fields" },
      element("div", {}, label("recipe", t("Recipe")), this.#recipe),
      element("div", {}, label("delegator", t("Delegator")), this.#delegator),
      this.#folderRow,
      this.#targetRow,
      element("div", {}, label("budget", t("Budget")), this.#budget),
    );
    root.replaceChildren(
      element(
        "main",
        isBox ? { class: "box" } : {},
        ...(isBox ? [] : [element("h1", {}, t("New Delegation"))]),
        label("task", isBox ? t("What should be done?") : t("Task")),
        this.#task,
        completion.list,
        element("p", { id: "hint", class: "hint" }, hint),
        ...(isBox ? [] : [element("h2", {}, t("Files"))]),
        element("div", { class: "attached" }, this.#chips, pick),
        fields,
        ...(isBox ? [] : [this.#options.root]),
        element("div", { class: "actions" }, send, isBox ? this.#more : show),
        this.#estimate,
        this.#problem,
        this.#status,
        this.#open,
      ),
    );
    this.#open.addEventListener("click", () => {
      void transport.request("page/openTranscript", { id: this.#started });
    });
    this.#task.addEventListener("input", () => this.#report());
    for (const field of [this.#target, this.#budget]) field.addEventListener("input", () => this.#report());
    for (const list of [this.#recipe, this.#delegator, this.#folder]) {
      list.addEventListener("change", () => this.#choose());
    }
    root.addEventListener("keydown", (event) => {
      const always = event.ctrlKey || event.metaKey;
      const starts = always || (isBox && event.target === this.#task && !event.shiftKey && !event.isComposing);
      if (event.key !== "Enter" || !starts) return;
      event.preventDefault();
      void this.#send();
    });
    root.addEventListener("dragover", (event) => event.preventDefault());
    root.addEventListener("drop", (event) => this.#drop(event));
    root.addEventListener("paste", ({ clipboardData }) => {
      if ([...(clipboardData?.files ?? [])].some(({ type }) => type.startsWith("image/"))) this.#refusePictures();
    });
    // The view gets the focus, not a field in it.
    window.addEventListener("focus", () => {
      if (document.activeElement === document.body) this.#task.focus();
    });
    this.setDraft(draft);
    if (!isBox) this.#task.focus();
  }

  setChoices(choices: ComposeChoices): void {
    this.#choices = choices;
    this.#drawChoices();
  }

  setCurrent(current: ComposeFile | undefined): void {
    this.#current = current;
    this.#drawChoices();
    this.#estimateLater();
  }

  setDraft({ task, recipe, delegator, target, files, without, budget, folder, options }: ComposeDraft): void {
    if (this.#task.value !== task) this.#task.value = task; // the cursor stays where it is
    if (this.#target.value !== target) this.#target.value = target;
    if (this.#budget.value !== budget) this.#budget.value = budget;
    this.#chosen = { recipe, delegator, folder };
    this.#files = files;
    this.#without = without;
    this.#options.show(delegator, options);
    this.#drawChoices();
    this.#estimateLater();
  }

  #draft(): ComposeDraft {
    const [task, target, budget] = [this.#task.value, this.#target.value, this.#budget.value];
    const [files, without, options] = [this.#files, this.#without, this.#options.values];
    return { task, target, budget, ...this.#chosen, files, without, options };
  }

  #report(): void {
    this.#problem.textContent = "";
    this.#drawChoices(); // another text may mean another recipe
    this.#transport.changed(this.#draft());
    this.#estimateLater();
  }

  #estimateLater(): void {
    clearTimeout(this.#estimating);
    this.#estimating = setTimeout(() => {
      const draft = this.#draft();
      // Another selection in the same file is not worth a request.
      const subject = JSON.stringify([draft, this.#wanted(), filesOf(draft, this.#current).map(({ uri }) => uri)]);
      if (subject === this.#estimated) return;
      this.#estimated = subject;
      const { task, file, needs } = this.#given();
      const isEnough = (task || file) && needs.every((one) => (one === "file" ? file : task));
      const answer = isEnough ? this.#transport.request("page/estimate", draft) : Promise.resolve("");
      answer.then(
        (text) => {
          if (subject === this.#estimated) this.#estimate.textContent = text;
        },
        () => undefined, // sending says what is wrong
      );
    }, ESTIMATE_MS);
  }

  #choose(): void {
    const before = this.#chosen.delegator;
    this.#chosen = { recipe: this.#recipe.value, delegator: this.#delegator.value, folder: this.#folder.value };
    // Options belong to a delegator: another one has others.
    if (this.#chosen.delegator !== before) this.#options.show(this.#chosen.delegator, {});
    this.#report();
  }

  #drawChoices(): void {
    const { recipes, delegators, folders } = this.#choices;
    const guessed = recipeOf({ ...this.#draft(), recipe: "" }, this.#current, recipes);
    const guess = { name: "", title: guessed ? t("{0} (guessed)", guessed.title) : t("Recipe") };
    fill(this.#recipe, [guess, ...recipes], this.#chosen.recipe);
    const recipe = this.#wanted();
    const usual = recipe?.defaultDelegator;
    const title = delegators.find(({ name }) => name === usual)?.title ?? usual;
    const first = title === undefined ? t("No default: you choose when you delegate") : t("Default: {0}", title);
    fill(this.#delegator, [{ name: "", title: first }, ...delegators], this.#chosen.delegator);
    this.#targetRow.hidden = recipe?.writesFile !== true;
    const changed = Object.values(this.#options.values).filter((value) => value !== "").length;
    this.#more.textContent = changed === 0 ? t("More Options…") : t("More Options… ({0} changed)", changed);
    fill(this.#folder, folders, this.#chosen.folder);
    this.#drawChips(); // a recipe may work on the selected lines only
    for (const list of [this.#recipe, this.#delegator]) list.title = list.selectedOptions[0]?.text ?? "";
  }

  #wanted(): ComposeRecipe | undefined {
    return recipeOf(this.#draft(), this.#current, this.#choices.recipes);
  }

  /** Whether there is a task and a file, and what the recipe needs. */
  #given(): { readonly task: boolean; readonly file: boolean; readonly needs: ComposeRecipe["needs"] } {
    const draft = this.#draft();
    const file = filesOf(draft, this.#current).length > 0;
    return { task: draft.task.trim() !== "", file, needs: this.#wanted()?.needs ?? [] };
  }

  /** Attached files say which folder it is. */
  #drawFolder(): void {
    const files = filesOf(this.#draft(), this.#current);
    this.#folderRow.hidden = this.#choices.folders.length < 2 || files.length > 0;
  }

  #drawChips(): void {
    this.#drawFolder();
    const files = filesOf(this.#draft(), this.#current);
    const isCurrent = files !== this.#files && files.length > 0;
    this.#chips.replaceChildren(
      ...files.map((file, index) => {
        const remove = button("×", "secondary", () => this.#remove(index));
        remove.setAttribute("aria-label", t("Remove {0}", file.name));
        remove.title = t("Remove {0}", file.name);
        remove.addEventListener("keydown", ({ key }) => {
          if (key === "Delete" || key === "Backspace") this.#remove(index);
        });
        const lines = this.#wanted()?.takesSelection ? file.lines : undefined;
        const shown = lines === undefined ? file.name : `${file.name}:${lines}`;
        const title = isCurrent ? t("{0}, the file of the active editor", file.name) : file.name;
        return element("li", { class: isCurrent ? "current" : undefined, title }, element("span", {}, shown), remove);
      }),
    );
    this.#chips.hidden = files.length === 0;
  }

  /** The focus moves to the next file, so that several can be removed with the keyboard. */
  #remove(index: number): void {
    const removed = filesOf(this.#draft(), this.#current)[index];
    // Without the files that the user has named, the current one must not come back.
    this.#without = this.#current?.uri ?? "";
    this.#files = this.#files.filter((_, other) => other !== index);
    this.#report();
    const rest = this.#chips.querySelectorAll("button");
    (rest[Math.min(index, rest.length - 1)] ?? this.#task).focus();
    if (removed) this.#status.textContent = t("{0} was removed.", removed.name);
  }

  #pickFiles(): Promise<void> {
    return this.#add(this.#transport.request("page/pickFiles", {}));
  }

  #drop(event: DragEvent): void {
    const given = event.dataTransfer;
    const uris = URI_TYPES.flatMap((type) => given?.getData(type).split(/[\r\n]+/u) ?? []);
    const dropped = [...new Set(uris)].filter((uri) => uri.startsWith("file:"));
    const files = dropped.filter((uri) => !PICTURE.test(uri));
    const pictures =
      files.length < dropped.length || [...(given?.files ?? [])].some(({ type }) => type.startsWith("image/"));
    if (dropped.length === 0 && !pictures) return; // text is dropped into the field
    event.preventDefault();
    if (files.length === 0) this.#refusePictures();
    else
      void this.#add(this.#transport.request("page/droppedFiles", { uris: files })).then(
        () => pictures && this.#refusePictures(),
      );
  }

  #refusePictures(): void {
    this.#problem.textContent = t("Pictures are not attached: delegators get text. Describe what the picture shows.");
  }

  #add(answer: Promise<readonly ComposeFile[]>): Promise<void> {
    return this.#try(async () => {
      const known = new Set(this.#files.map(({ uri }) => uri));
      const added = (await answer).filter(({ uri }) => !known.has(uri));
      this.#files = [...this.#files, ...added].slice(0, MAX_FILES);
      this.#report();
      this.#status.textContent = added.length === 1 ? t("1 file was added.") : t("{0} files were added.", added.length);
    });
  }

  #showPrompt(): Promise<void> {
    return this.#try(async () => {
      this.#status.textContent = await this.#transport.request("page/showPrompt", this.#draft());
    });
  }

  #send(): Promise<void> {
    return this.#try(async () => {
      const { task, file, needs } = this.#given();
      // A missing file is asked for.
      if (!task && (needs.includes("task") || !(file || needs.includes("file")))) {
        this.#task.focus();
        throw new Error(t("Describe the task."));
      }
      this.#started = await this.#transport.request("page/send", this.#draft());
      this.#open.hidden = this.#started === "";
      this.#status.textContent = this.#started === "" ? "" : t("The delegation was started.");
    });
  }

  /** Do one thing at a time, and show why it failed. */
  async #try(work: () => Promise<void>): Promise<void> {
    if (this.#buttons.some(({ disabled }) => disabled)) return;
    const focused = document.activeElement;
    this.#problem.textContent = "";
    this.#status.textContent = "";
    this.#open.hidden = true;
    for (const one of this.#buttons) one.disabled = true;
    try {
      await work();
    } catch (error) {
      this.#problem.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      for (const one of this.#buttons) one.disabled = false;
      // A button that was disabled has lost the focus.
      if (focused instanceof HTMLButtonElement && document.activeElement === document.body) focused.focus();
    }
  }
}

function label(target: string, text: string): HTMLLabelElement {
  return element("label", { for: target }, text);
}

function fill(list: HTMLSelectElement, items: readonly { name: string; title: string }[], chosen: string): void {
  const now = items.map(({ name, title }) => `${name}\0${title}`).join("\0");
  // A list that is open must not be replaced.
  if (list.dataset["items"] !== now) {
    list.dataset["items"] = now;
    list.replaceChildren(...items.map(({ name, title }) => element("option", { value: name }, title)));
  }
  list.value = items.some(({ name }) => name === chosen) ? chosen : (items[0]?.name ?? "");
}
