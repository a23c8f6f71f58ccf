/** The form of a new or changed delegator. Its fields are the options that the contract declares for it. */

import { nothing, type TemplateResult } from "lit";
import { t } from "../base/l10n.ts";
import type { ConnectionTest, Delegator, ModelServer, PermissionRule, ToolEntry } from "../protocol.ts";
import {
  defaultsOf,
  EVERYTHING,
  suggestName,
  USER_SCOPE,
  VALID_NAME,
  withoutEmptyFields,
  withSource,
  type DelegatorDraft,
} from "../state/delegatorDraft.ts";
import {
  checkValue,
  choicesOf,
  getValue,
  optionsFor,
  plainDescription,
  setValue,
  supportedBy,
  withSupportedOptions,
  type Option,
} from "../state/delegatorOptions.ts";
import type { PageStart } from "../state/pageClient.ts";
import { readingPlaces, readModels, whereOf, type Found, type Where } from "./delegatorData.ts";
import { isCustom, modelFacts, testText } from "./delegatorRows.ts";
import { html, PageElement, problemTemplate, type Failure } from "./pageElement.ts";

/** Models that are listed at once; a few typed letters find the others. */
const MOST_MODELS = 200;
/** The ID of the field with the model, which is an option of most tools and of all model servers. */
const MODEL = "model";
const NAME = "name";

/** What does not change how the delegator works: saved without another test. */
const UNTESTED: readonly (keyof Delegator)[] = ["fallback", "permissions", "displayName", "name"];

export class DelegatorForm extends PageElement {
  places!: PageStart["places"];
  /** Called with the saved delegator and what its test said, or without when the user leaves the form. */
  done!: (saved?: { readonly name: string; readonly text: string }) => void;
  /** Called with the draft after each change. */
  changed!: (draft: DelegatorDraft) => void;
  #found!: Found;
  #draft!: DelegatorDraft;
  /** Texts that the user has entered; they may be invalid. */
  readonly #texts = new Map<string, string>();
  /** ID of a field → what is wrong with it. */
  #wrong: ReadonlyMap<string, string> = new Map();
  #busy = "";
  #test: ConnectionTest | undefined;
  #problem: Failure | undefined;
  /** Whether something was entered that must not be lost. */
  #touched = false;

  set found(found: Found) {
    this.#found = found;
    this.requestUpdate();
  }

  set draft(draft: DelegatorDraft) {
    this.#draft = draft;
    this.requestUpdate();
    void this.#readModels();
  }

  protected override firstUpdated(): void {
    this.querySelector<HTMLElement>("[data-first]")?.focus();
  }

  /** Options are drawn again when more is known: the chosen one is set afterwards. */
  protected override updated(): void {
    for (const field of this.querySelectorAll<HTMLSelectElement>("select[data-value]")) {
      field.value = field.dataset["value"] ?? "";
    }
  }

  override render(): TemplateResult {
    const { delegator, entry } = this.#draft;
    const options = this.#options();
    const command = options.find(isCommand);
    const model = options.find(({ name, group }) => name === MODEL && group === "delegator");
    const others = options.filter((option) => option !== command && option !== model);
    const needed = others.filter(({ required }) => required);
    const rest = others.filter(({ required }) => !required);
    const title = entry ? t("Edit Delegator {0}", entry.delegator.name) : t("Add Delegator");
    return html`<form
      novalidate
      @submit=${(event: Event) => {
        event.preventDefault();
        void this.#save();
      }}
      @keydown=${(event: KeyboardEvent) => {
        if (event.key === "Escape" && !this.#touched) this.done(); // Escape also closes lists
      }}
    >
      <h2>${title}</h2>
      ${this.#source()} ${command ? this.#field(command) : nothing}
      ${model || delegator.modelServer ? this.#model(model) : nothing} ${needed.map((option) => this.#field(option))}
      <div class="fields">${this.#name()} ${entry ? nothing : this.#place()}</div>
      ${this.#optional(rest)} ${this.#fallback()} ${this.#permissions()} ${this.#defaults()}
      <div class="actions">
        <button type="submit" class="primary" ?disabled=${this.#busy !== ""}>${this.#saveTitle()}</button>
        ${
          this.#test && !this.#test.ok
            ? html`<button type="button" class="secondary" @click=${() => void this.#save(true)}>
                ${t("Save Anyway")}
              </button>`
            : nothing
        }
        ${this.#test && !this.#test.ok && delegator.modelServer ? this.#keyButton(delegator.modelServer) : nothing}
        <button type="button" class="secondary" @click=${() => this.done()}>${t("Cancel")}</button>
      </div>
      <div role="status">
        ${this.#busy === "" ? nothing : html`<p class="hint">${this.#busy}</p>`}
        ${this.#test ? this.#outcome(this.#test) : nothing}
      </div>
      ${this.#problem ? problemTemplate(this.client, this.#problem) : nothing}
    </form>`;
  }

  /** The reason and what worked before it, each a sentence. */
  #outcome(test: ConnectionTest): TemplateResult {
    const before = test.ok ? [] : test.steps.filter(({ ok }) => ok);
    return html`<p class=${test.ok ? "good" : "problem"}>${testText(test)}</p>
      ${
        before.length > 0
          ? html`<ul class="steps">
              ${before.map(({ message }) => html`<li>${message}</li>`)}
            </ul>`
          : nothing
      }`;
  }

  // Fields

  #source(): TemplateResult {
    const { delegator } = this.#draft;
    const current = delegator.tool ? `tool:${delegator.tool}` : `server:${delegator.modelServer ?? ""}`;
    const tools = this.#found.tools.tools.filter((tool) => tool.runnable && (tool.found || isCustom(tool)));
    const items = [
      ...tools.map((tool) => ({ id: `tool:${tool.name}`, label: tool.displayName })),
      ...this.#found.servers.map(({ modelServer }) => ({
        id: `server:${modelServer.name}`,
        label: t("Model server {0}", modelServer.displayName ?? modelServer.name),
      })),
    ];
    // What it uses now may be gone; that must not change it.
    if (!items.some(({ id }) => id === current)) {
      items.unshift({ id: current, label: t("{0} (not found)", current.slice(current.indexOf(":") + 1)) });
    }
    return html`<label for="source">${t("Agent or model server")}</label>
      <select
        id="source"
        data-value=${current}
        ?data-first=${this.#draft.entry !== undefined}
        @change=${(event: Event) => this.#setSource((event.target as HTMLSelectElement).value)}
      >
        ${items.map(({ id, label }) => html`<option value=${id}>${label}</option>`)}
      </select>`;
  }

  #setSource(chosen: string): void {
    const name = chosen.slice(chosen.indexOf(":") + 1);
    const source = chosen.startsWith("tool:") ? { tool: name } : { modelServer: name };
    this.#texts.clear();
    this.#set(withSource(this.#draft.delegator, source));
    void this.#readModels();
  }

  #model(option: Option | undefined): TemplateResult {
    const { delegator } = this.#draft;
    const server = delegator.modelServer ?? undefined;
    const listed = server === undefined ? [] : this.#found.models.get(server);
    const models = typeof listed === "object" ? listed : [];
    const typed = delegator.model ?? "";
    const letters = typed.toLowerCase();
    const fitting = models.some(({ id }) => id === typed)
      ? models
      : models.filter(({ id }) => id.toLowerCase().includes(letters));
    const hint =
      server === undefined
        ? option && plainDescription(option)
        : listed === undefined
          ? t("Asking {0} for its models…", server)
          : typeof listed === "string"
            ? t("Type the name of a model. {0}", listed)
            : t("Choose one of {0} models, or type a name.", models.length);
    return html`<label for="model">${t("Model")}</label>
      <input
        id="model"
        ?data-first=${this.#draft.entry === undefined}
        type="text"
        spellcheck="false"
        autocomplete="off"
        .value=${typed}
        placeholder=${server === undefined ? t("Default model of the tool") : ""}
        aria-describedby="model-hint model-problem"
        aria-invalid=${String(this.#wrong.has(MODEL))}
        @input=${(event: Event) => this.#set({ ...delegator, model: (event.target as HTMLInputElement).value.trim() })}
        @keydown=${(event: KeyboardEvent) => {
          if (event.key !== "ArrowDown" || fitting.length === 0) return;
          event.preventDefault();
          this.querySelector<HTMLElement>("#models")?.focus();
        }}
      />
      ${
        fitting.length > 0
          ? html`<select
              id="models"
              data-value=${typed}
              size=${Math.min(8, Math.max(2, fitting.length))}
              aria-label=${t("Models of {0}", server ?? "")}
              @change=${(event: Event) => this.#set({ ...delegator, model: (event.target as HTMLSelectElement).value })}
            >
              ${fitting.slice(0, MOST_MODELS).map((model) => {
                const facts = modelFacts(model);
                const label = facts === "" ? model.id : t("{0} ({1})", model.id, facts);
                return html`<option value=${model.id}>${label}</option>`;
              })}
            </select>`
          : nothing
      }
      <p class="hint" id="model-hint">${hint ?? ""}</p>
      ${typeof listed === "string" ? this.#serverButtons(server ?? "") : nothing} ${this.#wrongText(MODEL)}`;
  }

  #keyButton(server: string): TemplateResult {
    const where = this.#found.serverPlaces.get(server) ?? {};
    const enterKey = async (): Promise<void> => {
      this.#problem = undefined;
      try {
        if (await this.client.request("page/enterKey", { server, ...where })) await this.#readModels();
      } catch (error) {
        this.#problem = { error, again: () => void enterKey() };
      }
      this.requestUpdate();
    };
    return html`<button type="button" class="secondary" @click=${() => void enterKey()}>${t("Set API Key…")}</button>`;
  }

  #serverButtons(server: string): TemplateResult {
    return html`<div class="actions">
      ${this.#keyButton(server)}
      <button type="button" class="secondary" @click=${() => void this.#readModels()}>${t("Retry")}</button>
    </div>`;
  }

  async #readModels(): Promise<void> {
    const server = this.#draft.delegator.modelServer ?? undefined;
    if (server === undefined) return;
    const models = await readModels(this.client, server, this.#found.serverPlaces.get(server) ?? {});
    this.found = { ...this.#found, models: new Map([...this.#found.models, [server, models]]) };
  }

  #field(option: Option): TemplateResult {
    const id = fieldId(option);
    const value = this.#textOf(option);
    const choices = choicesOf(option);
    const chosen = choices?.find((choice) => choice.value === value);
    const take = (event: Event): void => this.#take(option, (event.target as HTMLInputElement).value.trim());
    const described = `${id}-hint ${id}-problem`;
    const label = html`<label for=${id}>${option.required ? t("{0} (required)", option.title) : option.title}</label>`;
    const control = choices
      ? html`<select id=${id} data-value=${value} aria-describedby=${described} @change=${take}>
          <option value="">${t("Not set")}</option>
          ${choices.map((choice) => html`<option value=${choice.value}>${choice.title}</option>`)}
        </select>`
      : html`<input
          id=${id}
          type="text"
          spellcheck="false"
          autocomplete="off"
          .value=${value}
          placeholder=${option.placeholder ?? option.default ?? ""}
          aria-describedby=${described}
          aria-invalid=${String(this.#wrong.has(id))}
          ?data-first=${isCommand(option) && this.#draft.entry === undefined}
          @input=${take}
          @change=${() => this.#check(option)}
        />`;
    // What the chosen value means says more than what the option is.
    return html`<div>
      ${label} ${control}
      <p class="hint" id="${id}-hint">${chosen?.description ?? plainDescription(option)}</p>
      ${
        option.slots
          ? html`<dl class="slots" aria-label=${t("Placeholders")}>
              ${option.slots.map(
                (slot) =>
                  html`<div>
                    <dt><code>${slot.value}</code></dt>
                    <dd>${slot.title}</dd>
                  </div>`,
              )}
            </dl>`
          : nothing
      }
      ${this.#wrongText(id)}
    </div>`;
  }

  #wrongText(id: string): TemplateResult {
    return html`<p class="problem" id="${id}-problem" role="alert">${this.#wrong.get(id) ?? ""}</p>`;
  }

  #optional(options: readonly Option[]): TemplateResult | typeof nothing {
    if (options.length === 0) return nothing;
    const count = options.filter((option) => this.#textOf(option) !== "").length;
    return html`<details>
      <summary>${count === 0 ? t("Options") : t("Options ({0} set)", count)}</summary>
      <div class="fields">${options.map((option) => this.#field(option))}</div>
    </details>`;
  }

  #name(): TemplateResult {
    return html`<div>
      <label for="name">${t("Name")}</label>
      <input
        id="name"
        type="text"
        spellcheck="false"
        autocomplete="off"
        .value=${this.#nameText()}
        aria-describedby="name-problem"
        aria-invalid=${String(this.#wrong.has(NAME))}
        @input=${(event: Event) => {
          this.#texts.set(NAME, (event.target as HTMLInputElement).value.trim());
          this.#wrong = new Map([...this.#wrong].filter(([id]) => id !== NAME));
          this.#report();
        }}
      />
      ${this.#wrongText(NAME)}
    </div>`;
  }

  #nameText(): string {
    const { delegator } = this.#draft;
    return this.#texts.get(NAME) ?? (delegator.name || suggestName(delegator, this.#taken()));
  }

  #taken(): ReadonlySet<string> {
    const own = this.#draft.entry?.delegator.name;
    return new Set(this.#found.delegators.map(({ delegator }) => delegator.name).filter((name) => name !== own));
  }

  #place(): TemplateResult | typeof nothing {
    if (this.places.length < 2) return nothing;
    const chosen = this.places.find(({ id }) => id === this.#draft.place);
    return html`<div>
      <label for="place">${t("Save for")}</label>
      <select
        id="place"
        data-value=${this.#draft.place}
        aria-describedby="place-hint"
        @change=${(event: Event) => this.#update({ place: (event.target as HTMLSelectElement).value })}
      >
        ${this.places.map(({ id, label }) => html`<option value=${id}>${label}</option>`)}
      </select>
      <p class="hint" id="place-hint">${chosen?.detail ?? ""}</p>
    </div>`;
  }

  #fallback(): TemplateResult {
    const chosen = this.#draft.delegator.fallback ?? [];
    const others = this.#found.delegators
      .map(({ delegator }) => delegator.name)
      .filter((name) => name !== this.#nameText() && !chosen.includes(name));
    const set = (names: readonly string[]): void => this.#set({ ...this.#draft.delegator, fallback: [...names] });
    return html`<details ?open=${chosen.length > 0}>
      <summary>${chosen.length === 0 ? t("Fallbacks") : t("Fallbacks ({0})", chosen.length)}</summary>
      <p class="hint">
        ${t("They take over, in this order, when this delegator cannot work: login, quota, server or model.")}
      </p>
      <ol class="list">
        ${chosen.map(
          (name, index) =>
            html`<li>
              <span>${name}</span>
              ${
                index > 0
                  ? html`<button
                      type="button"
                      class="secondary"
                      aria-label=${t("Move {0} up", name)}
                      @click=${() => set(chosen.with(index - 1, name).with(index, chosen[index - 1] ?? name))}
                    >
                      ${t("Move Up")}
                    </button>`
                  : nothing
              }
              <button
                type="button"
                class="secondary"
                aria-label=${t("Remove {0}", name)}
                @click=${() => set(chosen.filter((one) => one !== name))}
              >
                ${t("Remove")}
              </button>
            </li>`,
        )}
      </ol>
      ${
        others.length > 0
          ? html`<select
              aria-label=${t("Add a fallback")}
              @change=${(event: Event) => {
                const field = event.target as HTMLSelectElement;
                set([...chosen, field.value]);
                field.value = "";
              }}
            >
              <option value="">${t("Add a fallback…")}</option>
              ${others.map((name) => html`<option value=${name}>${name}</option>`)}
            </select>`
          : nothing
      }
    </details>`;
  }

  #permissions(): TemplateResult | typeof nothing {
    const rules = this.#draft.delegator.permissions ?? [];
    const before = this.#draft.entry?.delegator.permissions?.length ?? 0;
    if (rules.length === 0 && before === 0) return nothing;
    const without = (rule: PermissionRule): void =>
      this.#set({ ...this.#draft.delegator, permissions: rules.filter((one) => one !== rule) });
    return html`<details open>
      <summary>${t("Permission Rules ({0})", rules.length)}</summary>
      <p class="hint">
        ${t("They answer what the agent asks for; the first that matches decides. Without one, you are asked.")}
      </p>
      <ol class="list" id="rules">
        ${rules.map((rule) => {
          const text = ruleText(rule);
          return html`<li>
            <span>${text}</span>
            <button type="button" class="secondary" aria-label=${t("Remove {0}", text)} @click=${() => without(rule)}>
              ${t("Remove")}
            </button>
          </li>`;
        })}
      </ol>
    </details>`;
  }

  #defaults(): TemplateResult {
    const { defaults } = this.#draft;
    const own = this.#draft.entry?.delegator.name;
    const owner = (recipe: string): string | undefined =>
      this.#found.delegators.find((one) => defaultsOf(one).includes(recipe))?.delegator.name;
    // A recipe that names its delegator has no default.
    const recipes = [
      { name: EVERYTHING, title: t("Everything else") },
      ...this.#found.recipes.filter(({ delegator }) => !delegator),
    ];
    return html`<details>
      <summary>${defaults.length === 0 ? t("Default For") : t("Default For ({0})", defaults.length)}</summary>
      <p class="hint">${t("It runs these recipes unless you choose another delegator.")}</p>
      <div class="checks">
        ${recipes.map(({ name, title }) => {
          const now = owner(name);
          const label = now === undefined || now === own ? title : t("{0} (now {1})", title, now);
          return html`<label class="check">
            <input
              type="checkbox"
              .checked=${defaults.includes(name)}
              @change=${(event: Event) => {
                const others = defaults.filter((one) => one !== name);
                this.#update({ defaults: (event.target as HTMLInputElement).checked ? [...others, name] : others });
              }}
            />
            <span>${label}</span>
          </label>`;
        })}
      </div>
    </details>`;
  }

  // The draft

  #server(): ModelServer | undefined {
    const name = this.#draft.delegator.modelServer;
    return this.#found.servers.find(({ modelServer }) => modelServer.name === name)?.modelServer;
  }

  #options(): readonly Option[] {
    const { delegator } = this.#draft;
    return optionsFor(delegator, supportedBy(delegator, this.#server(), this.#found.tools));
  }

  #textOf(option: Option): string {
    return this.#texts.get(fieldId(option)) ?? getValue(option, this.#draft.delegator);
  }

  #take(option: Option, text: string): void {
    this.#texts.set(fieldId(option), text);
    const { delegator } = this.#draft;
    if (text !== "" && checkValue(option, text) !== undefined) {
      this.#report();
      return;
    }
    const changed = setValue(option, delegator, text);
    // The mode decides which other options there are.
    const supports = supportedBy(changed, this.#server(), this.#found.tools);
    this.#set(option.group === "delegator" ? withSupportedOptions(changed, supports) : changed);
  }

  #check(option: Option): void {
    const problem = checkValue(option, this.#textOf(option));
    const others = [...this.#wrong].filter(([id]) => id !== fieldId(option));
    this.#wrong = new Map(problem === undefined ? others : [...others, [fieldId(option), problem]]);
    this.requestUpdate();
  }

  #set(delegator: Delegator): void {
    this.#update({ delegator });
  }

  #update(part: Partial<DelegatorDraft>): void {
    this.#draft = { ...this.#draft, ...part };
    this.#report();
  }

  #report(): void {
    this.#touched = true;
    // What was tested, or wrong, is no longer what is on the page.
    this.#test = undefined;
    this.#problem = undefined;
    this.changed({
      ...this.#draft,
      delegator: { ...this.#draft.delegator, name: this.#texts.get(NAME) ?? this.#draft.delegator.name },
    });
    this.requestUpdate();
  }

  #saveTitle(): string {
    return this.#needsTest(this.#delegator()) ? t("Test and Save") : t("Save");
  }

  /** The delegator as it would be saved. */
  #delegator(): Delegator {
    return withoutEmptyFields({ ...this.#draft.delegator, name: this.#nameText() });
  }

  #needsTest(delegator: Delegator): boolean {
    const before = this.#draft.entry;
    if (!before) return true;
    const tested = (one: Delegator): string =>
      JSON.stringify(
        Object.entries(withoutEmptyFields(one))
          .filter(([field]) => !UNTESTED.includes(field as keyof Delegator))
          .sort(([one], [other]) => (one < other ? -1 : 1)),
      );
    return tested(before.delegator) !== tested(delegator);
  }

  #validate(): boolean {
    const wrong = new Map<string, string>();
    const take = (id: string, problem: string | undefined): void => {
      if (problem !== undefined) wrong.set(id, problem);
    };
    for (const option of this.#options()) {
      if (option.name !== MODEL || option.group !== "delegator")
        take(fieldId(option), checkValue(option, this.#textOf(option)));
    }
    const { delegator } = this.#draft;
    if (!delegator.tool && !delegator.model) take(MODEL, t("Choose a model, or type its name."));
    const name = this.#nameText();
    if (!VALID_NAME.test(name)) {
      take(NAME, t("Use lowercase letters, digits, dots, hyphens and underscores. Start with a letter or digit."));
    } else if (this.#taken().has(name)) take(NAME, t("A delegator with this name already exists."));
    this.#wrong = wrong;
    this.requestUpdate();
    const [first] = wrong.keys();
    if (first === undefined) return true;
    const field = this.querySelector<HTMLElement>(`#${first}`);
    const hidden = field?.closest("details");
    if (hidden) hidden.open = true;
    field?.focus();
    return false;
  }

  #where(): Where & { readonly scope: "user" | "workspace" } {
    const { place } = this.#draft;
    if (place !== USER_SCOPE) return { scope: "workspace", ...whereOf(place) };
    return { scope: "user", ...readingPlaces(this.places)[0] };
  }

  async #save(anyway = false): Promise<void> {
    if (this.#busy !== "" || !this.#validate()) return;
    const delegator = this.#delegator();
    const { entry } = this.#draft;
    const { scope, ...where } = this.#where();
    let text = t("{0} saved.", delegator.name);
    try {
      if (!anyway && this.#needsTest(delegator)) {
        this.#setBusy(t("Testing {0}…", delegator.name));
        const test = await this.client.request("understudy/delegators/test", {
          name: entry?.delegator.name ?? delegator.name,
          delegator,
          scope,
          ...where,
        });
        this.#test = test;
        if (!test.ok) return;
        text = t("{0} saved. {1}", delegator.name, testText(test));
      }
      this.#setBusy(t("Saving…"));
      if (!entry) await this.client.request("understudy/delegators/create", { delegator, scope, ...where });
      else if (JSON.stringify(withoutEmptyFields(entry.delegator)) !== JSON.stringify(delegator)) {
        const { name } = entry.delegator;
        await this.client.request("understudy/delegators/update", {
          name,
          delegator,
          revision: entry.revision,
          ...where,
        });
      }
      const overruled = await this.#saveDefaults(delegator.name, { scope, ...where });
      await this.client.request("page/saved", { delegator: delegator.name });
      this.done({ name: delegator.name, text: [text, ...overruled].join(" ") });
    } catch (error) {
      this.#problem = { error, again: () => void this.#save(anyway) };
    } finally {
      this.#setBusy("");
      void this.updateComplete.then(() => this.querySelector("[role=status]")?.scrollIntoView({ block: "nearest" }));
    }
  }

  /** Set what changed; returns sentences about defaults that another configuration decides. */
  async #saveDefaults(name: string, where: Where & { readonly scope: "user" | "workspace" }): Promise<string[]> {
    const { defaults, entry } = this.#draft;
    const before = entry ? defaultsOf(entry) : [];
    const changed = [...new Set([...before, ...defaults])].filter(
      (id) => before.includes(id) !== defaults.includes(id),
    );
    const overruled: string[] = [];
    for (const id of changed) {
      const wanted = defaults.includes(id) ? name : undefined;
      const { delegator } = await this.client.request("understudy/delegators/setDefault", {
        ...(wanted === undefined ? {} : { delegator: wanted }),
        ...(id === EVERYTHING ? {} : { recipe: id }),
        ...where,
      });
      if (delegator === wanted || (wanted === undefined && delegator !== name)) continue;
      const whose = this.#found.recipes.find((recipe) => recipe.name === id)?.title ?? t("Everything else");
      overruled.push(
        t("{0}: another configuration takes precedence here and sets {1}.", whose, delegator ?? t("none")),
      );
    }
    return overruled;
  }

  #setBusy(text: string): void {
    this.#busy = text;
    this.requestUpdate();
  }
}

/** A draft for an agent, with the command that is known if Understudy cannot drive it by itself. */
export function draftForTool(tool: ToolEntry, tools: readonly ToolEntry[]): Delegator {
  const generic = tools.find(isCustom);
  if (tool.runnable || !generic) return { name: "", tool: tool.name };
  return { name: "", tool: generic.name, launch: { command: tool.command ?? [tool.path ?? tool.name, "{prompt}"] } };
}

/** A rule as a phrase: what is decided, and about what. */
function ruleText({ decision, kind, command, exact, path }: PermissionRule): string {
  const subject =
    command !== undefined && command !== null
      ? exact
        ? t("the command “{0}”", command)
        : t("commands that begin with “{0}”", command)
      : path !== undefined && path !== null
        ? t("{0} of {1}", kind ?? t("anything"), path)
        : (kind ?? t("anything"));
  if (decision === "allow") return t("Allow {0}", subject);
  return decision === "reject" ? t("Reject {0}", subject) : t("Ask about {0}", subject);
}

const isCommand = ({ required, slots }: Option): boolean => required === true && slots !== undefined;

function fieldId({ group, name }: Option): string {
  return `${group}-${name}`.replaceAll(/[^\w-]/gu, "-");
}
