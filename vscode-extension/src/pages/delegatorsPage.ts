/** The Delegators page: one search over what is configured, what was found and what can be added; and their forms. */

import { nothing, type TemplateResult } from "lit";
import { t } from "../base/l10n.ts";
import type { ConnectionTest, DelegatorEntry, ModelServerEntry, ServerPreset, ToolEntry } from "../protocol.ts";
import { defaultsOf, suggestName, USER_SCOPE, type DelegatorDraft } from "../state/delegatorDraft.ts";
import type { PageStart, PageTarget } from "../state/pageClient.ts";
import { readConfigured, readMachine, readModels, whereOf, type Found, type Where } from "./delegatorData.ts";
import { DelegatorForm, draftForTool } from "./delegatorForm.ts";
import { modelFacts, search, sectionsOf, testText, type Row, type Section } from "./delegatorRows.ts";
import { html, PageElement, problemTemplate, type Failure } from "./pageElement.ts";
import { ServerForm } from "./serverForm.ts";

/** Models of a row that are listed at once; the search finds the others. */
const MOST_MODELS = 20;

const NOTHING_FOUND: Found = {
  delegators: [],
  servers: [],
  serverPlaces: new Map(),
  models: new Map(),
  recipes: [],
  tools: { tools: [], backends: [] },
  presets: [],
};

interface Action {
  readonly title: string;
  readonly primary?: boolean;
  readonly run: () => void;
}

/** What the user sees of a test that was run from a row. */
type Outcome = ConnectionTest | { readonly busy: true } | Failure;

export class DelegatorsPage extends PageElement {
  start!: PageStart;
  #found: Found = NOTHING_FOUND;
  /** What could not be read. */
  #problem: unknown;
  #reading = true;
  #query = "";
  #form: DelegatorForm | ServerForm | undefined;
  /** Row → the outcome of its test. */
  readonly #tests = new Map<string, Outcome>();
  /** The row whose removal waits for a confirmation. */
  #removing = "";
  #notice = "";

  override connectedCallback(): void {
    super.connectedCallback();
    this.client.onNotification((notification) => {
      if (notification.method === "page/show") this.show(notification.params);
      else if (notification.params.collections.some((name) => name !== "delegations")) void this.#readAgain();
    });
    void this.#read();
  }

  /** Show a part of the page; a form that is open stays, unless another one is asked for. */
  show({ show, name = "" }: PageTarget): void {
    const entry = this.#found.delegators.find(({ delegator }) => delegator.name === name);
    if (show === "edit" && entry) this.#edit(entry);
    else if (show === "test" && entry) {
      this.#close();
      void this.#testDelegator(entry);
      this.focusOn(`[data-row="delegator:${name}"] button`);
    } else if (show === "add") {
      if (!this.#form) this.focusOn("#search");
      this.#scrollTo("found");
    } else {
      this.#close();
      this.focusOn(show === "servers" ? "#servers button" : "#search");
      if (show === "servers") this.#scrollTo("servers");
    }
  }

  #scrollTo(section: Section["id"]): void {
    void this.updateComplete.then(() => this.querySelector(`#${section}`)?.scrollIntoView());
  }

  override render(): TemplateResult {
    if (this.#form)
      return html`<main>
        <h1>${t("Delegators")}</h1>
        ${this.#form}
      </main>`;
    const sections = search(sectionsOf(this.#found), this.#query);
    return html`<main>
      <header>
        <h1>${t("Delegators")}</h1>
        <input
          id="search"
          type="search"
          spellcheck="false"
          aria-label=${t("Search delegators, agents, model servers and models")}
          placeholder=${t("Search: ollama, gpt, local, api key…")}
          .value=${this.#query}
          @input=${(event: Event) => {
            this.#query = (event.target as HTMLInputElement).value;
            this.requestUpdate();
          }}
        />
        <button class="secondary" ?disabled=${this.#reading} @click=${() => void this.#read()}>${t("Refresh")}</button>
      </header>
      <div role="status">
        ${this.#notice === "" ? nothing : html`<p class="good">${this.#notice}</p>`}
        ${this.#reading ? html`<p class="hint">${t("Looking for agents and model servers…")}</p>` : nothing}
      </div>
      ${this.#problem === undefined ? nothing : problemTemplate(this.client, { error: this.#problem, again: () => void this.#read() })}
      ${sections.map((section) => this.#section(section))}
      ${
        sections.length === 0 && !this.#reading && this.#problem === undefined
          ? html`<p class="hint" role="status">
              ${t("Nothing found. Any OpenAI-compatible server or command can be added.")}
            </p>`
          : nothing
      }
    </main>`;
  }

  #section({ id, title, rows }: Section): TemplateResult {
    return html`<section id=${id} aria-labelledby="${id}-title">
      <h2 id="${id}-title">${title}</h2>
      <ul class="rows">
        ${rows.map((row) => this.#row(row))}
      </ul>
    </section>`;
  }

  #row(row: Row): TemplateResult {
    const { id, title, facts, detail = "", mark, problems } = row;
    const state = mark === "ready" ? t("ready") : mark === "problem" ? t("not ready") : "";
    return html`<li data-row=${id}>
      <div class="head">
        <span class="mark is-${mark}" aria-hidden="true"></span>
        <strong>${title}</strong>
        <span class="spoken">${state}</span>
        <span class="facts">${facts.join(" · ")}</span>
      </div>
      ${detail === "" ? nothing : html`<p class="hint">${detail}</p>`}
      ${problems.map((problem) => html`<p class="problem">${problem}</p>`)} ${this.#install(row)} ${this.#models(row)}
      <div class="actions">${this.#buttons(row)}</div>
      ${this.#outcome(id)}
    </li>`;
  }

  #buttons(row: Row): readonly TemplateResult[] {
    const confirm = this.#removing === row.id;
    const actions = confirm ? this.#confirmation(row) : this.#actions(row);
    return actions.map(
      ({ title, primary = false, run }) =>
        html`<button
          class=${primary ? "primary" : "secondary"}
          aria-label=${t("{0}: {1}", title, row.title)}
          @click=${run}
        >
          ${title}
        </button>`,
    );
  }

  #actions({ id, subject }: Row): readonly Action[] {
    const remove = { title: t("Delete…"), run: () => this.#ask(id) };
    const open = (uri: string | undefined): readonly Action[] =>
      uri === undefined
        ? []
        : [{ title: t("Open File"), run: () => void this.client.request("page/openFile", { uri }) }];
    switch (subject.kind) {
      case "delegator": {
        const { entry } = subject;
        const server = entry.delegator.modelServer;
        return [
          ...(entry.editable ? [{ title: t("Edit"), run: () => this.#edit(entry) }] : []),
          { title: t("Test"), run: () => void this.#testDelegator(entry) },
          ...(server
            ? [
                {
                  title: t("Set API Key…"),
                  run: () => void this.#enterKey(id, server, () => this.#testDelegator(entry)),
                },
              ]
            : []),
          { title: t("Duplicate"), run: () => this.#duplicate(entry) },
          ...open(entry.location?.uri),
          ...(entry.editable ? [remove] : []),
        ];
      }
      case "server": {
        const { entry } = subject;
        const { name } = entry.modelServer;
        return [
          { title: t("Add Delegator"), run: () => this.#addFor(name) },
          { title: t("Test"), run: () => void this.#testServer(entry) },
          ...(entry.editable
            ? [
                { title: t("Edit"), run: () => this.#editServer(entry) },
                { title: t("Set API Key…"), run: () => void this.#enterKey(id, name, () => this.#testServer(entry)) },
              ]
            : []),
          ...open(entry.location?.uri),
          ...(entry.editable ? [remove] : []),
        ];
      }
      case "preset": {
        const { preset } = subject;
        return [{ title: t("Add"), run: () => this.#addServer(preset) }];
      }
      case "agent":
        return [{ title: t("Add"), run: () => this.#addAgent(subject.tool) }];
      case "install":
        return [];
    }
  }

  /** How to install an agent; nothing runs unless the user chooses it. */
  #install({ subject }: Row): TemplateResult | typeof nothing {
    const install = subject.kind === "install" ? subject.tool.install : undefined;
    if (subject.kind !== "install" || !install) return nothing;
    const { name: tool, displayName } = subject.tool;
    const steps = [
      { step: "install", title: t("Run in Terminal") },
      { step: "copy", title: t("Copy Command") },
      { step: "login", title: t("Log In") },
      { step: "instructions", title: t("Open Instructions") },
    ] as const;
    return html`<details>
      <summary>${t("Install {0}", displayName)}</summary>
      <p><code>${install.command}</code></p>
      <p class="hint">${install.login}</p>
      <div class="actions">
        ${steps.map(
          ({ step, title }) =>
            html`<button
              class="secondary"
              @click=${() => void this.client.request("page/installAgent", { tool, step })}
            >
              ${title}
            </button>`,
        )}
        <button class="secondary" @click=${() => void this.#read()}>${t("Check Again")}</button>
      </div>
    </details>`;
  }

  #models({ subject, models }: Row): TemplateResult | typeof nothing {
    if (models.length === 0) return nothing;
    const add = (model: string): void => {
      if (subject.kind === "server") this.#addFor(subject.entry.modelServer.name, model);
      else if (subject.kind === "preset") this.#addServer(subject.preset, model);
    };
    return html`<details ?open=${this.#query !== ""}>
      <summary>${models.length === 1 ? t("1 model") : t("{0} models", models.length)}</summary>
      <ul class="models">
        ${models.slice(0, MOST_MODELS).map(
          (model) =>
            html`<li>
              <button class="link" aria-label=${t("Add a delegator with {0}", model.id)} @click=${() => add(model.id)}>
                ${model.id}
              </button>
              <span class="facts">${modelFacts(model)}</span>
            </li>`,
        )}
      </ul>
      ${
        models.length > MOST_MODELS
          ? html`<p class="hint">${t("{0} more: search for them.", models.length - MOST_MODELS)}</p>`
          : nothing
      }
    </details>`;
  }

  #outcome(id: string): TemplateResult {
    const outcome = this.#tests.get(id);
    if (outcome && "error" in outcome) return problemTemplate(this.client, outcome);
    if (outcome === undefined) return html`<div role="status"></div>`;
    if ("busy" in outcome) return html`<div role="status"><p class="hint">${t("Testing…")}</p></div>`;
    return html`<div role="status"><p class=${outcome.ok ? "good" : "problem"}>${testText(outcome)}</p></div>`;
  }

  // Actions

  #edit(entry: DelegatorEntry): void {
    const uri = entry.location?.uri ?? "";
    const folder = this.start.places.find(({ id }) => id !== USER_SCOPE && uri.startsWith(`${id}/`));
    const place = entry.scope === "workspace" && folder ? folder.id : USER_SCOPE;
    this.#openForm({ delegator: entry.delegator, place, entry, defaults: defaultsOf(entry) });
  }

  #duplicate(entry: DelegatorEntry): void {
    const { displayName, ...delegator } = entry.delegator;
    const taken = new Set(this.#found.delegators.map((one) => one.delegator.name));
    const name = suggestName({ name: "", tool: entry.delegator.name }, taken);
    const named = displayName ? { displayName: t("{0} (copy)", displayName) } : {};
    this.#openForm({ delegator: { ...delegator, ...named, name }, place: USER_SCOPE, defaults: [] });
  }

  #addFor(modelServer: string, model = ""): void {
    const delegator = { name: "", modelServer, ...(model === "" ? {} : { model }) };
    this.#openForm({ delegator, place: USER_SCOPE, defaults: [] });
  }

  #addAgent(tool: ToolEntry): void {
    this.#openForm({ delegator: draftForTool(tool, this.#found.tools.tools), place: USER_SCOPE, defaults: [] });
  }

  #openForm(draft: DelegatorDraft): void {
    const form = new DelegatorForm();
    form.client = this.client;
    form.places = this.start.places;
    form.found = this.#found;
    form.changed = (now) => this.client.remember({ draft: now });
    form.done = (saved) => {
      this.#close();
      if (!saved) {
        this.focusOn("#search");
        return;
      }
      this.#notice = saved.text;
      this.#tests.delete(`delegator:${saved.name}`);
      this.#query = "";
      void this.#readAgain().then(() => this.focusOn(`[data-row="delegator:${saved.name}"] button`));
    };
    form.draft = draft;
    this.#notice = "";
    this.#form = form;
    this.requestUpdate();
  }

  #editServer(entry: ModelServerEntry): void {
    const { name } = entry.modelServer;
    const form = this.#serverForm((server) => {
      this.#close();
      this.#notice = server === undefined ? "" : t("{0} saved.", server);
      void this.#readServer(name); // it may be at another address now
      void this.#readAgain().then(() => this.focusOn(`[data-row="server:${name}"] button`));
    });
    form.entry = entry;
    form.where = this.#whereOf(name);
    this.#form = form;
    this.requestUpdate();
  }

  /** A server that runs at its usual address needs no question; others get a form. */
  #addServer(preset: ServerPreset, model = ""): void {
    const form = this.#serverForm((server) => {
      this.#close();
      if (server !== undefined) void this.#readAgain().then(() => this.#addFor(server, model));
    });
    form.preset = preset;
    this.#form = form;
    this.requestUpdate();
    if (preset.running) void form.save();
  }

  #serverForm(done: (server?: string) => void): ServerForm {
    const form = new ServerForm();
    form.client = this.client;
    form.taken = new Set(this.#found.servers.map(({ modelServer }) => modelServer.name));
    form.done = done;
    return form;
  }

  #close(): void {
    this.#form = undefined;
    this.client.remember(undefined);
    this.requestUpdate();
  }

  async #enterKey(row: string, server: string, test: () => Promise<void>): Promise<void> {
    try {
      if (await this.client.request("page/enterKey", { server, ...this.#whereOf(server) })) await test();
    } catch (error) {
      this.#tests.set(row, { error, again: () => void this.#enterKey(row, server, test) });
      this.requestUpdate();
    }
  }

  #testDelegator({ delegator: { name }, location, scope }: DelegatorEntry): Promise<void> {
    const folder = this.start.places.find(({ id }) => location?.uri.startsWith(`${id}/`));
    const where = scope === "workspace" && folder ? whereOf(folder.id) : {};
    return this.#test(`delegator:${name}`, () => this.client.request("understudy/delegators/test", { name, ...where }));
  }

  async #testServer({ modelServer: { name } }: ModelServerEntry): Promise<void> {
    const where = this.#whereOf(name);
    await this.#test(`server:${name}`, () => this.client.request("understudy/modelServers/test", { name, ...where }));
    await this.#readServer(name);
  }

  async #test(row: string, ask: () => Promise<ConnectionTest>): Promise<void> {
    this.#tests.set(row, { busy: true });
    this.requestUpdate();
    const again = (): void => void this.#test(row, ask);
    this.#tests.set(row, await ask().catch((error: unknown) => ({ error, again })));
    this.requestUpdate();
  }

  #ask(row: string): void {
    this.#removing = row;
    this.requestUpdate();
    this.focusOn(`[data-row="${row}"] .actions button`);
  }

  #confirmation(row: Row): readonly Action[] {
    const cancel = {
      title: t("Cancel"),
      run: () => {
        this.#removing = "";
        this.requestUpdate();
      },
    };
    const users = row.subject.kind === "server" ? this.#usersOf(row.subject.entry.modelServer.name) : [];
    const title = users.length > 0 ? t("Delete Anyway ({0} will stop working)", users.join(", ")) : t("Delete");
    return [cancel, { title, primary: true, run: () => void this.#remove(row) }];
  }

  #usersOf(server: string): readonly string[] {
    const users = this.#found.delegators.filter(({ delegator }) => delegator.modelServer === server);
    return users.map(({ delegator }) => delegator.name);
  }

  async #remove({ id, subject }: Row): Promise<void> {
    this.#removing = "";
    try {
      if (subject.kind === "delegator") {
        const { entry } = subject;
        const folder = this.start.places.find((place) => entry.location?.uri.startsWith(`${place.id}/`));
        const where = folder ? whereOf(folder.id) : {};
        const { name } = entry.delegator;
        await this.client.request("understudy/delegators/delete", { name, revision: entry.revision, ...where });
      } else if (subject.kind === "server") {
        const { modelServer, revision } = subject.entry;
        const where = this.#whereOf(modelServer.name);
        await this.client.request("understudy/modelServers/delete", { name: modelServer.name, revision, ...where });
      }
      this.#tests.delete(id);
    } catch (error) {
      this.#tests.set(id, { error, again: () => this.#ask(id) });
    }
    await this.#readAgain();
    this.focusOn("#search");
  }

  #whereOf(server: string): Where {
    return this.#found.serverPlaces.get(server) ?? {};
  }

  // Reading

  /** Everything, the machine included. */
  async #read(): Promise<void> {
    const first = this.#found === NOTHING_FOUND;
    this.#reading = true;
    this.#problem = undefined;
    this.requestUpdate();
    await this.#readAgain();
    if (first && this.#problem === undefined) this.#restore();
    try {
      this.#take(await readMachine(this.client));
    } catch (error) {
      this.#problem = error;
    }
    this.#reading = false;
    this.requestUpdate();
    if (this.start.target?.show === "add" && first && window.scrollY === 0) this.#scrollTo("found");
    await Promise.all(this.#found.servers.map(({ modelServer }) => this.#readServer(modelServer.name)));
  }

  /** What is configured. */
  async #readAgain(): Promise<void> {
    try {
      const before = this.#found.servers.map(({ modelServer }) => modelServer.name);
      this.#take(await readConfigured(this.client, this.start.places));
      if (this.#found.tools === NOTHING_FOUND.tools) return;
      const fresh = this.#found.servers.filter(({ modelServer }) => !before.includes(modelServer.name));
      for (const { modelServer } of fresh) void this.#readServer(modelServer.name);
    } catch (error) {
      this.#problem = error;
      this.requestUpdate();
    }
  }

  async #readServer(name: string): Promise<void> {
    const models = await readModels(this.client, name, this.#whereOf(name));
    this.#take({ models: new Map([...this.#found.models, [name, models]]) });
  }

  #take(part: Partial<Found>): void {
    this.#found = { ...this.#found, ...part };
    if (this.#form instanceof DelegatorForm) this.#form.found = this.#found;
    this.requestUpdate();
  }

  /** Go to what was asked for, otherwise to where the page was before it was hidden. */
  #restore(): void {
    const { draft } = (this.client.remembered as { draft?: DelegatorDraft } | undefined) ?? {};
    if (this.start.target) this.show(this.start.target);
    else if (draft) this.#openForm(draft);
  }
}
