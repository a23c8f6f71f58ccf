/** The collapsible part of the form with the options that this delegation changes of its delegator. */

import { t } from "../base/l10n.ts";
import type { ComposeOption } from "../compose/composeMessages.ts";
import type { OverrideValues } from "../state/launchOverride.ts";
import { element } from "../transcriptPage/dom.ts";

export interface OptionsTransport {
  /** The options of the delegator; the values may change which these are. */
  options(): Promise<readonly ComposeOption[]>;
  models(): Promise<readonly string[]>;
  /** ID of an option → what is wrong with its value. */
  check(): Promise<Readonly<Record<string, string>>>;
  changed(): void;
}

type Field = HTMLInputElement | HTMLSelectElement;

interface Row {
  readonly option: ComposeOption;
  readonly field: Field;
  readonly hint: HTMLElement;
  readonly problem: HTMLElement;
}

const MODEL_LIST = "option-models";

export class OptionsSection {
  readonly root: HTMLDetailsElement;
  readonly #transport: OptionsTransport;
  readonly #summary = element("summary", {});
  readonly #hint = element("p", { class: "hint" });
  readonly #fields = element("div", { class: "fields" });
  /** Suggestions for the model; another name can be typed. */
  readonly #models = element("datalist", { id: MODEL_LIST });
  #options: readonly ComposeOption[] = [];
  #rows: readonly Row[] = [];
  #values: OverrideValues = {};
  #delegator = "";
  /** The delegator whose fields were drawn; undefined: nothing yet. */
  #drawn: string | undefined;
  /** Answers to earlier questions are not used. */
  #drawing = 0;
  #checking = 0;

  constructor(transport: OptionsTransport) {
    this.#transport = transport;
    this.root = element("details", { id: "options" }, this.#summary, this.#hint, this.#fields);
    this.root.addEventListener("toggle", () => void this.#draw());
  }

  get values(): OverrideValues {
    return this.#values;
  }

  /** Show the options of a delegator, by its name; "": none is chosen. */
  show(delegator: string, values: OverrideValues): void {
    const same = delegator === this.#delegator && JSON.stringify(values) === JSON.stringify(this.#values);
    this.#delegator = delegator;
    this.#values = values;
    if (!same) this.#drawn = undefined;
    this.#drawSummary();
    if (this.#count() > 0) this.root.open = true;
    void this.#draw();
  }

  #count(): number {
    return Object.values(this.#values).filter((value) => value !== "").length;
  }

  #drawSummary(): void {
    const count = this.#count();
    this.#summary.textContent = count === 0 ? t("Options") : t("Options ({0} changed)", count);
  }

  async #draw(): Promise<void> {
    if (!this.root.open || this.#drawn === this.#delegator) return;
    const delegator = (this.#drawn = this.#delegator);
    const turn = ++this.#drawing;
    this.#checking += 1; // what is being checked is no longer shown
    this.#models.replaceChildren();
    if (delegator === "") {
      this.#fill([]);
      this.#hint.textContent = t("Choose a delegator to change its options for this delegation.");
      return;
    }
    try {
      const options = await this.#transport.options();
      if (turn !== this.#drawing) return;
      this.#fill(options);
      this.#hint.textContent =
        options.length === 0
          ? t("This delegator has no options that one delegation can change.")
          : t("For this delegation only. Empty fields keep the configured value.");
      if (!options.some(({ listsModels }) => listsModels)) return;
      const models = await this.#transport.models().catch(() => []);
      if (turn !== this.#drawing) return;
      this.#models.replaceChildren(...models.map((model) => element("option", { value: model })));
    } catch (error) {
      if (turn !== this.#drawing) return;
      this.#drawn = undefined;
      this.#hint.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  #fill(options: readonly ComposeOption[]): void {
    const focused = this.#rows.find(({ field }) => field === document.activeElement)?.option.id;
    this.#options = options;
    this.#rows = options.map((option) => this.#row(option));
    this.#fields.replaceChildren(
      ...this.#rows.map(({ option, field, hint, problem }) =>
        element("div", {}, element("label", { for: field.id }, option.title), field, hint, problem),
      ),
      this.#models,
    );
    this.#rows.find(({ option }) => option.id === focused)?.field.focus();
  }

  #row(option: ComposeOption): Row {
    const id = `option-${option.id.replaceAll(/[^\w-]/gu, "-")}`;
    const configured = option.own === "" ? t("As configured") : t("As configured: {0}", option.own);
    const hint = element("p", { id: `${id}-hint`, class: "hint" });
    const problem = element("p", { id: `${id}-problem`, class: "problem", role: "alert" });
    const described = { id, "aria-describedby": `${id}-hint ${id}-problem` };
    const field: Field = option.choices
      ? element(
          "select",
          described,
          element("option", { value: "" }, configured),
          ...option.choices.map(({ value, title }) => element("option", { value }, title)),
        )
      : element("input", {
          ...described,
          type: "text",
          spellcheck: "false",
          autocomplete: "off",
          placeholder: option.own === "" && option.placeholder !== "" ? option.placeholder : configured,
          list: option.listsModels ? MODEL_LIST : undefined,
        });
    field.value = this.#values[option.id] ?? "";
    // What the chosen value means says more than what the option is.
    const describe = (): void => {
      const chosen = option.choices?.find(({ value }) => value === field.value);
      hint.textContent = chosen?.description ?? option.description;
    };
    describe();
    field.addEventListener("input", () => {
      describe();
      this.#take(option.id, field.value.trim());
    });
    field.addEventListener("change", () => void this.#check(option));
    return { option, field, hint, problem };
  }

  #take(id: string, value: string): void {
    const others = Object.entries(this.#values).filter(([other]) => other !== id);
    this.#values = Object.fromEntries(value === "" ? others : [...others, [id, value]]);
    this.#drawSummary();
    this.#transport.changed();
  }

  async #check(option: ComposeOption): Promise<void> {
    const turn = ++this.#checking;
    try {
      const options = await this.#transport.options();
      if (turn !== this.#checking) return;
      if (JSON.stringify(options) !== JSON.stringify(this.#options)) this.#fill(options);
      const problems = await this.#transport.check();
      if (turn === this.#checking) this.#showProblems(problems);
    } catch (error) {
      if (turn !== this.#checking) return;
      this.#showProblems({ [option.id]: error instanceof Error ? error.message : String(error) });
    }
  }

  #showProblems(problems: Readonly<Record<string, string>>): void {
    for (const { option, field, problem } of this.#rows) {
      const text = problems[option.id] ?? "";
      if (problem.textContent !== text) problem.textContent = text;
      field.setAttribute("aria-invalid", String(text !== ""));
    }
  }
}
