/** What the elements of our pages have in common. Text only ever becomes a text node or an attribute. */

import { html as template, LitElement, type TemplateResult } from "lit";
import { t } from "../base/l10n.ts";
import type { PageError } from "../base/pageRequests.ts";
import { sanitize } from "../base/untrustedText.ts";
import type { PageClient } from "../state/pageClient.ts";

/** Lit's `html`, with every text sanitized. Pass texts one by one: those in an array are not. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): TemplateResult {
  return template(strings, ...values.map((value) => (typeof value === "string" ? sanitize(value) : value)));
}

/** Without a shadow root: labels, the style and the editor's search work on the page as a whole. */
export abstract class PageElement extends LitElement {
  client!: PageClient;

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  /** Focus the first element that matches, when it has been drawn. */
  protected focusOn(selector: string): void {
    void this.updateComplete.then(() => this.querySelector<HTMLElement>(selector)?.focus());
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What failed, and how to try it again. */
export interface Failure {
  readonly error: unknown;
  readonly again: () => void;
}

/** An error with its remedy, or a way to try again. */
export function problemTemplate(client: PageClient, { error, again }: Failure): TemplateResult {
  const { repair } = (error instanceof Error ? (error.cause as PageError | undefined) : undefined) ?? {};
  const press =
    repair === undefined ? again : () => void client.request("page/repair", {}).then(again, () => undefined);
  return html`<p class="problem" role="alert">${reasonOf(error)}</p>
    <button type="button" class="secondary" @click=${press}>${repair ?? t("Retry")}</button>`;
}
