/** The form of a new or changed model server. The editor asks for its key; the page never has it. */

import { nothing, type TemplateResult } from "lit";
import { t } from "../base/l10n.ts";
import { DEFAULT_PROTOCOL, type ConnectionTest, type ModelServerEntry, type ServerPreset } from "../protocol.ts";
import { freeName, VALID_NAME } from "../state/delegatorDraft.ts";
import type { Where } from "./delegatorData.ts";
import { testText } from "./delegatorRows.ts";
import { html, PageElement, problemTemplate, type Failure } from "./pageElement.ts";

export class ServerForm extends PageElement {
  /** The kind of a new server; with `entry`, that server is changed. */
  preset: ServerPreset | undefined;
  /** The saved server. */
  entry: ModelServerEntry | undefined;
  where: Where = {};
  taken!: ReadonlySet<string>;
  /** Called with the name of the saved server, or without when the user leaves the form. */
  done!: (server?: string) => void;
  #url: string | undefined;
  #name: string | undefined;
  #wrong = { url: "", name: "" };
  #busy = "";
  #test: ConnectionTest | undefined;
  #problem: Failure | undefined;
  /** Whether the key of a new server was not asked for yet. */
  #asksKey = false;

  protected override firstUpdated(): void {
    this.querySelector<HTMLElement>("#url")?.focus();
  }

  override render(): TemplateResult {
    const title = this.entry
      ? t("Edit Model Server {0}", this.entry.modelServer.name)
      : t("Add Model Server: {0}", this.preset?.title ?? "");
    const set = (part: "url" | "name") => (event: Event) => {
      const text = (event.target as HTMLInputElement).value.trim();
      if (part === "url") this.#url = text;
      else this.#name = text;
      this.requestUpdate();
    };
    return html`<form
      novalidate
      @submit=${(event: Event) => {
        event.preventDefault();
        void this.save();
      }}
      @keydown=${(event: KeyboardEvent) => {
        if (event.key === "Escape" && this.#url === undefined && this.#name === undefined) this.done();
      }}
    >
      <h2>${title}</h2>
      <label for="url">${t("Base URL (without /chat/completions)")}</label>
      <input
        id="url"
        type="text"
        spellcheck="false"
        autocomplete="off"
        .value=${this.#address()}
        placeholder="http://127.0.0.1:8000/v1"
        aria-describedby="url-problem"
        aria-invalid=${String(this.#wrong.url !== "")}
        @input=${set("url")}
      />
      <p class="problem" id="url-problem" role="alert">${this.#wrong.url}</p>
      ${
        this.entry
          ? nothing
          : html`<label for="server-name">${t("Name")}</label>
              <input
                id="server-name"
                type="text"
                spellcheck="false"
                autocomplete="off"
                .value=${this.#ownName()}
                aria-describedby="server-name-problem"
                aria-invalid=${String(this.#wrong.name !== "")}
                @input=${set("name")}
              />
              <p class="problem" id="server-name-problem" role="alert">${this.#wrong.name}</p>
              ${this.#keyHint()}`
      }
      <div class="actions">
        <button type="submit" class="primary" ?disabled=${this.#busy !== ""}>${t("Save and Test")}</button>
        ${
          this.#test && this.preset
            ? html`<button type="button" class="secondary" @click=${() => this.done(this.entry?.modelServer.name)}>
                ${t("Continue Anyway")}
              </button>`
            : nothing
        }
        <button type="button" class="secondary" @click=${() => this.done()}>${t("Back")}</button>
      </div>
      <div role="status">
        ${this.#busy === "" ? nothing : html`<p class="hint">${this.#busy}</p>`}
        ${this.#test ? html`<p class=${this.#test.ok ? "good" : "problem"}>${testText(this.#test)}</p>` : nothing}
      </div>
      ${this.#problem ? problemTemplate(this.client, this.#problem) : nothing}
    </form>`;
  }

  #keyHint(): TemplateResult | typeof nothing {
    const { keyUrl, needsKey } = this.preset ?? {};
    if (this.#usesVariable())
      return html`<p class="hint">${t("Uses the key in {0}", this.preset?.keyVariable ?? "")}</p>`;
    if (!needsKey) return nothing;
    return html`<p class="hint">
      ${t("The editor asks for the API key when you save.")}
      ${
        keyUrl
          ? html`<button
              type="button"
              class="link"
              @click=${() => void this.client.request("page/openLink", { uri: keyUrl })}
            >
              ${t("Where to get one")}
            </button>`
          : nothing
      }
    </p>`;
  }

  #address(): string {
    return this.#url ?? this.entry?.modelServer.baseUrl ?? this.preset?.baseUrl ?? "";
  }

  #ownName(): string {
    return this.#name ?? freeName(this.preset?.kind ?? "", this.taken);
  }

  /** Never for an address that the user has changed: the key would go to another host. */
  #usesVariable(): boolean {
    return (this.preset?.keyInEnvironment ?? false) && this.#address() === this.preset?.baseUrl;
  }

  /** Save what is on the page and test it; the form ends if the server works. */
  async save(): Promise<void> {
    if (this.#busy !== "") return;
    const name = this.entry?.modelServer.name ?? this.#ownName();
    const nameProblem = VALID_NAME.test(name)
      ? t("A model server with this name already exists.")
      : t("Use lowercase letters, digits, dots, hyphens and underscores. Start with a letter or digit.");
    this.#wrong = {
      url: checkUrl(this.#address()) ?? "",
      name: this.entry || (VALID_NAME.test(name) && !this.taken.has(name)) ? "" : nameProblem,
    };
    this.requestUpdate();
    if (this.#wrong.url !== "" || this.#wrong.name !== "") {
      this.focusOn(this.#wrong.url !== "" ? "#url" : "#server-name");
      return;
    }
    this.#problem = undefined;
    this.#test = undefined;
    try {
      this.#setBusy(t("Saving…"));
      await this.#store(name);
      this.#setBusy(t("Testing {0}…", name));
      this.#test = await this.client.request("understudy/modelServers/test", { name, ...this.where });
      if (this.#test.ok) this.done(name);
    } catch (error) {
      this.#problem = { error, again: () => void this.save() };
    } finally {
      this.#setBusy("");
    }
  }

  async #store(name: string): Promise<void> {
    const baseUrl = this.#address().replace(/\/+$/u, "");
    if (!this.entry) await this.#create(name, baseUrl);
    else if (this.entry.modelServer.baseUrl !== baseUrl) {
      const { modelServer, revision } = this.entry;
      const changed = { ...modelServer, baseUrl };
      this.entry = await this.client.request("understudy/modelServers/update", {
        name,
        modelServer: changed,
        revision,
        ...this.where,
      });
    }
    if (!this.#asksKey) return;
    if (await this.client.request("page/enterKey", { server: name })) {
      this.entry = await this.client.request("understudy/modelServers/get", { name }); // its file names the key now
    }
    this.#asksKey = false;
  }

  async #create(name: string, baseUrl: string): Promise<void> {
    const { preset } = this;
    if (!preset) return;
    const { kind, title, protocols, keyVariable, needsKey } = preset;
    const other = preset.baseUrl === "";
    const fromEnv = this.#usesVariable() ? keyVariable : undefined;
    this.entry = await this.client.request("understudy/modelServers/create", {
      modelServer: {
        name,
        kind,
        baseUrl,
        ...(other ? {} : { displayName: title }),
        ...(protocols.join() === DEFAULT_PROTOCOL ? {} : { protocols }),
        ...(fromEnv === undefined ? {} : { apiKey: { fromEnv } }),
      },
    });
    this.#asksKey = fromEnv === undefined && (needsKey || other);
  }

  #setBusy(text: string): void {
    this.#busy = text;
    this.requestUpdate();
  }
}

export function checkUrl(value: string): string | undefined {
  let url: URL;
  try {
    url = new URL(value.trim());
  } catch {
    return t("Enter a URL such as http://127.0.0.1:8000/v1.");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return t("The URL must begin with http:// or https://.");
  if (url.username || url.password) return t("Do not put a key in the URL. You can enter it later.");
  if (/\/chat\/completions\/?$/.test(url.pathname)) return t("Remove /chat/completions from the URL.");
  return undefined;
}
