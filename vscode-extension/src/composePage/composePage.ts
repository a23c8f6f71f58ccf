/** The form of a new delegation. It keeps no state besides its draft, which it reports on every change. */

import { t } from "../base/l10n.ts";
import {
  MAX_FILES,
  MAX_TASK_CHARACTERS,
  type ComposeChoices,
  type ComposeDraft,
  type ComposeFile,
  type ComposeRequests,
  type ComposeStart,
} from "../compose/composeMessages.ts";
import { button, element } from "../transcriptPage/dom.ts";
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

export class ComposePage {
  readonly #transport: ComposeTransport;
  readonly #task = element("textarea", { id: "task", rows: "12", maxlength: String(MAX_TASK_CHARACTERS) });
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
  readonly #options: OptionsSection;
  readonly #chips = element("ul", { class: "chips", "aria-label": t("Attached files") });
  readonly #problem = element("p", { class: "problem", role: "alert" });
  readonly #status = element("p", { class: "status", role: "status" });
  /** Leads to the delegation that was started last. */
  readonly #open = element("button", { type: "button", class: "secondary", hidden: true }, t("Open Transcript"));
  readonly #buttons: readonly HTMLButtonElement[];
  #files: readonly ComposeFile[] = [];
  #choices: ComposeChoices;
  /** ID of that delegation. */
  #started = "";
  /** The names in the draft: they may not be listed yet. */
  #chosen = { recipe: "", delegator: "", folder: "" };

  constructor(root: HTMLElement, transport: ComposeTransport, { draft, choices }: ComposeStart) {
    this.#transport = transport;
    this.#choices = choices;
    const send = button(t("Delegate"), "primary", () => void this.#send());
    const show = button(t("Show Full Prompt"), "secondary", () => void this.#showPrompt());
    const pick = button(t("Add Files…"), "secondary", () => void this.#addFrom("page/pickFiles"));
    const active = button(t("Add Active Editor"), "secondary", () => void this.#addFrom("page/activeFile"));
    this.#buttons = [send, show, pick, active];
    this.#task.setAttribute("aria-describedby", "hint");
    this.#options = new OptionsSection({
      options: () => transport.request("page/options", this.#draft()),
      models: () => transport.request("page/models", this.#draft()),
      check: () => transport.request("page/checkOptions", this.#draft()),
      changed: () => this.#report(),
    });
    this.#targetRow = element("div", {}, label("target", t("File to write")), this.#target);
    this.#folderRow = element("div", {}, label("folder", t("Folder")), this.#folder);
    root.replaceChildren(
      element(
        "main",
        {},
        element("h1", {}, t("New Delegation")),
        label("task", t("Task")),
        this.#task,
        element(
          "p",
          { id: "hint", class: "hint" },
          t(
            "Press Ctrl+Enter to delegate. To attach files, drop them here; hold Shift when dragging from the Explorer.",
          ),
        ),
        element("h2", {}, t("Files")),
        this.#chips,
        element("div", { class: "actions" }, pick, active),
        element(
          "div",
          { class: "fields" },
          element("div", {}, label("recipe", t("Recipe")), this.#recipe),
          element("div", {}, label("delegator", t("Delegator")), this.#delegator),
          this.#folderRow,
          this.#targetRow,
        ),
        this.#options.root,
        element("div", { class: "actions" }, send, show),
        this.#problem,
        this.#status,
        this.#open,
      ),
    );
    this.#open.addEventListener("click", () => {
      void transport.request("page/openTranscript", { id: this.#started });
    });
    for (const field of [this.#task, this.#target]) field.addEventListener("input", () => this.#report());
    this.#recipe.addEventListener("change", () => this.#choose());
    this.#delegator.addEventListener("change", () => this.#choose());
    this.#folder.addEventListener("change", () => this.#choose());
    root.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      void this.#send();
    });
    root.addEventListener("dragover", (event) => event.preventDefault());
    root.addEventListener("drop", (event) => {
      const uris = URI_TYPES.flatMap((type) => event.dataTransfer?.getData(type).split(/[\r\n]+/u) ?? []);
      const dropped = uris.filter((uri) => uri.startsWith("file:"));
      if (dropped.length === 0) return; // text is dropped into the field
      event.preventDefault();
      void this.#add(this.#transport.request("page/droppedFiles", { uris: dropped }));
    });
    this.setDraft(draft);
    this.#task.focus();
  }

  setChoices(choices: ComposeChoices): void {
    this.#choices = choices;
    this.#drawChoices();
  }

  setDraft({ task, recipe, delegator, target, files, folder, options }: ComposeDraft): void {
    this.#task.value = task;
    this.#target.value = target;
    this.#chosen = { recipe, delegator, folder };
    this.#files = files;
    this.#drawChoices();
    this.#options.show(delegator, options);
    this.#drawChips();
    this.#transport.changed(this.#draft());
  }

  #draft(): ComposeDraft {
    const [task, target] = [this.#task.value, this.#target.value];
    return { task, target, ...this.#chosen, files: this.#files, options: this.#options.values };
  }

  #report(): void {
    this.#problem.textContent = "";
    this.#transport.changed(this.#draft());
  }

  #choose(): void {
    const before = this.#chosen.delegator;
    this.#chosen = { recipe: this.#recipe.value, delegator: this.#delegator.value, folder: this.#folder.value };
    this.#drawChoices();
    // Options belong to a delegator: another one has others.
    if (this.#chosen.delegator !== before) this.#options.show(this.#chosen.delegator, {});
    this.#report();
  }

  #drawChoices(): void {
    const { recipes, delegators, folders } = this.#choices;
    const listed = (name: string): boolean => recipes.some((recipe) => recipe.name === name);
    if (recipes.length > 0 && !listed(this.#chosen.recipe)) {
      this.#chosen = { ...this.#chosen, recipe: listed("implement") ? "implement" : (recipes[0]?.name ?? "") };
    }
    fill(this.#recipe, recipes, this.#chosen.recipe);
    const recipe = recipes.find(({ name }) => name === this.#chosen.recipe);
    const usual = recipe?.defaultDelegator;
    const title = delegators.find(({ name }) => name === usual)?.title ?? usual;
    const first = title === undefined ? t("No default: you choose when you delegate") : t("Default: {0}", title);
    fill(this.#delegator, [{ name: "", title: first }, ...delegators], this.#chosen.delegator);
    this.#targetRow.hidden = recipe?.writesFile !== true;
    fill(this.#folder, folders, this.#chosen.folder);
    this.#drawFolder();
  }

  /** Attached files say which folder it is. */
  #drawFolder(): void {
    this.#folderRow.hidden = this.#choices.folders.length < 2 || this.#files.length > 0;
  }

  #drawChips(): void {
    this.#drawFolder();
    this.#chips.replaceChildren(
      ...this.#files.map((file, index) => {
        const remove = button("×", "secondary", () => this.#remove(index));
        remove.setAttribute("aria-label", t("Remove {0}", file.name));
        remove.title = t("Remove {0}", file.name);
        remove.addEventListener("keydown", ({ key }) => {
          if (key === "Delete" || key === "Backspace") this.#remove(index);
        });
        return element("li", {}, element("span", {}, file.name), remove);
      }),
    );
    this.#chips.hidden = this.#files.length === 0;
  }

  /** The focus moves to the next file, so that several can be removed with the keyboard. */
  #remove(index: number): void {
    const removed = this.#files[index];
    this.#files = this.#files.filter((_, other) => other !== index);
    this.#drawChips();
    this.#report();
    const rest = this.#chips.querySelectorAll("button");
    (rest[Math.min(index, rest.length - 1)] ?? this.#task).focus();
    if (removed) this.#status.textContent = t("{0} was removed.", removed.name);
  }

  #addFrom(method: "page/pickFiles" | "page/activeFile"): Promise<void> {
    return this.#add(this.#transport.request(method, {}));
  }

  #add(answer: Promise<readonly ComposeFile[]>): Promise<void> {
    return this.#try(async () => {
      const known = new Set(this.#files.map(({ uri }) => uri));
      const added = (await answer).filter(({ uri }) => !known.has(uri));
      this.#files = [...this.#files, ...added].slice(0, MAX_FILES);
      this.#drawChips();
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
      if (this.#task.value.trim() === "" && this.#files.length === 0) {
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
  list.replaceChildren(...items.map(({ name, title }) => element("option", { value: name }, title)));
  list.value = items.some(({ name }) => name === chosen) ? chosen : (items[0]?.name ?? "");
}
