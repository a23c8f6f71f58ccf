/** The Compare page: one column per result of a group; lines where they agree or differ; accept from any column. */

import { nothing, type TemplateResult } from "lit";
import { t } from "../base/l10n.ts";
import type { ComparedFile, ComparedHunk, ComparedPlace, CompareResult, Delegation, Variant } from "../protocol.ts";
import { costText, displayPath, duration, elapsed } from "../state/formatting.ts";
import { noticedShort, testedPlaces } from "../state/mutationWording.ts";
import type { PageStart } from "../state/pageClient.ts";
import { stateName, verdictSummary } from "../state/wording.ts";
import { html, PageElement, problemTemplate, reasonOf } from "./pageElement.ts";

/** A burst of changes is read once, after this many milliseconds. */
const QUIET_MS = 300;

export class ComparePage extends PageElement {
  start!: PageStart;
  #group = "";
  #result: CompareResult | undefined;
  #problem: unknown;
  /** What could not be decided. */
  #failure = "";
  #busy = false;
  /** Whether places are hidden on which all results agree, or that are decided. */
  #onlyOpen = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    const { group } = (this.client.remembered as { group?: string } | undefined) ?? {};
    this.#group = this.start.target?.name ?? group ?? "";
    this.client.onNotification((notification) => {
      if (notification.method === "page/show") {
        this.#group = notification.params.name ?? this.#group;
        void this.#read();
      } else if (notification.params.collections.includes("delegations")) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => void this.#read(), QUIET_MS);
      }
    });
    void this.#read();
  }

  override render(): TemplateResult {
    const { files = [] } = this.#result ?? {};
    const results = this.#delegations();
    return html`<main class="wide">
      <header>
        <h1>${t("Compare Results")}</h1>
        <label class="check">
          <input
            type="checkbox"
            .checked=${this.#onlyOpen}
            @change=${(event: Event) => {
              this.#onlyOpen = (event.target as HTMLInputElement).checked;
              this.requestUpdate();
            }}
          />
          <span>${t("Only pending differences")}</span>
        </label>
        <button class="secondary" @click=${() => void this.#read()}>${t("Refresh")}</button>
      </header>
      ${this.#problem === undefined ? nothing : problemTemplate(this.client, { error: this.#problem, again: () => void this.#read() })}
      ${this.#failure === "" ? nothing : html`<p class="problem" role="alert">${this.#failure}</p>`}
      ${
        this.#result === undefined && this.#problem === undefined
          ? html`<p class="hint" role="status">${t("Reading the results…")}</p>`
          : nothing
      }
      ${results.length > 0 ? html`<div class="scroll">${this.#summary(results)}</div>` : nothing}
      ${files.map((file) => this.#file(file, results))}
      ${
        results.length > 0 && files.length === 0
          ? html`<p class="hint" role="status">${t("No result has changes to compare yet.")}</p>`
          : nothing
      }
    </main>`;
  }

  // The results

  #summary(results: readonly Delegation[]): TemplateResult {
    const facts: readonly [string, (one: Delegation) => string][] = [
      [t("Verdict"), (one) => (one.state === "finished" ? verdictSummary(one) : stateName(one))],
      [t("Places tested"), placesText],
      [t("Small changes noticed"), caughtText],
      [t("Checks"), checksText],
      [t("Lines"), linesText],
      [t("Files"), (one) => String(one.result?.files.length ?? 0)],
      [t("Cost"), (one) => costText(one) ?? (one.costKnown ? "$0" : t("unknown"))],
      [t("Time"), (one) => duration(elapsed(one, Date.now()))],
    ];
    const problems = new Map(this.#result?.results.map(({ delegation, problem }) => [delegation.id, problem]));
    return html`<table>
      <thead>
        <tr>
          <td></td>
          ${results.map((one) => html`<th scope="col">${nameOf(one, results)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${facts.map(
          ([title, text]) =>
            html`<tr>
              <th scope="row">${title}</th>
              ${results.map((one) => html`<td>${text(one)}</td>`)}
            </tr>`,
        )}
        <tr>
          <th scope="row">${t("Review")}</th>
          ${results.map(
            (one) =>
              html`<td>
                ${
                  problems.get(one.id) !== undefined && one.state === "finished"
                    ? html`<p class="hint">${problems.get(one.id) ?? ""}</p>`
                    : one.state === "finished"
                      ? html`<button
                          class="secondary"
                          aria-label=${t("Open the review of {0}", nameOf(one, results))}
                          @click=${() => this.#review(one.id)}
                        >
                          ${reviewText(one)}
                        </button>`
                      : html`<span class="hint">${t("not finished")}</span>`
                }
              </td>`,
          )}
        </tr>
      </tbody>
    </table>`;
  }

  // Their changes

  #file({ path, flagReason, places }: ComparedFile, all: readonly Delegation[]): TemplateResult | typeof nothing {
    const compared = new Set(this.#result?.results.flatMap((one) => (one.compared ? [one.delegation.id] : [])));
    const results = all.filter(({ id }) => compared.has(id));
    const shown = this.#onlyOpen ? places.filter((place) => !isAgreed(place) && !isDecided(place)) : places;
    if (shown.length === 0) return nothing;
    return html`<section aria-label=${displayPath(path)}>
      <h2>${displayPath(path)}</h2>
      ${flagReason ? html`<p class="problem">${t("Accept with care: it {0}.", flagReason)}</p>` : nothing}
      ${shown.map((place) => this.#place(place, results))}
    </section>`;
  }

  #place(place: ComparedPlace, results: readonly Delegation[]): TemplateResult {
    const names = new Map(results.map((one) => [one.id, nameOf(one, results)]));
    const where =
      place.start === 0 && place.lines === 0
        ? t("Whole file")
        : place.lines === 0
          ? t("After line {0}", place.start)
          : place.lines === 1
            ? t("Line {0}", place.start)
            : t("Lines {0}–{1}", place.start, place.start + place.lines - 1);
    const state = isAgreed(place)
      ? t("all agree")
      : t("{0} variants", place.variants.length + Number(place.unchanged.length > 0));
    const unchanged = place.unchanged.map((id) => names.get(id) ?? id).join(", ");
    return html`<div class="place" role="group" aria-label=${`${where}: ${state}`}>
      <h3>${where} <span class="facts">${state}</span></h3>
      <div class="scroll">
        <div class="columns">${place.variants.map((variant) => this.#variant(variant, names))}</div>
      </div>
      ${unchanged === "" ? nothing : html`<p class="hint">${t("Not changed by {0}.", unchanged)}</p>`}
    </div>`;
  }

  #variant(variant: Variant, names: ReadonlyMap<string, string>): TemplateResult {
    const whose = variant.delegations.map((id) => names.get(id) ?? id).join(", ");
    const { hunks, removed, added, omitted = 0, note, conflictsWith = [] } = variant;
    const pending = hunks.filter(({ state }) => state === "pending");
    const isAccepted = hunks.some(({ state }) => state === "accepted");
    const conflict = hunks.some((hunk) => hunk.conflict);
    const rivals = conflictsWith.map((id) => names.get(id) ?? id).join(", ");
    return html`<div class="variant ${isAccepted ? "accepted" : ""}" role="group" aria-label=${whose}>
      <p class="head">
        <strong>${whose}</strong>
        <span class="facts">${stateText(variant)}</span>
      </p>
      ${note ? html`<p class="hint">${note}</p>` : nothing}
      ${
        removed.length + added.length > 0
          ? html`<div
              class="code"
              role="group"
              tabindex="0"
              aria-label=${t("{0} lines removed, {1} added", removed.length, added.length)}
            >
              ${removed.map((line) => html`<code class="removed">${`- ${line}`}</code>`)}
              ${added.map((line) => html`<code class="added">${`+ ${line}`}</code>`)}
            </div>`
          : nothing
      }
      ${omitted > 0 ? html`<p class="hint">${t("{0} more lines: open the review.", omitted)}</p>` : nothing}
      ${rivals === "" ? nothing : html`<p class="problem">${t("Conflicts with what you accepted from {0}.", rivals)}</p>`}
      ${conflict ? html`<p class="problem">${t("Conflicts with your file: resolve it in the review.")}</p>` : nothing}
      <div class="actions">
        ${
          pending.length > 0 && !isAccepted
            ? html`<button
                class="primary"
                ?disabled=${this.#busy}
                aria-label=${t("Accept the change of {0}", whose)}
                @click=${() => void this.#accept(hunks)}
              >
                ${t("Accept")}
              </button>`
            : nothing
        }
        <button
          class="secondary"
          aria-label=${t("Open this change of {0} in the review", whose)}
          @click=${() => this.#review(hunks[0]?.delegation ?? "", hunks[0])}
        >
          ${t("Open in Review")}
        </button>
      </div>
    </div>`;
  }

  /** Accept it in every result that has it: what the first brought is already there for the others. */
  async #accept(hunks: readonly ComparedHunk[]): Promise<void> {
    this.#busy = true;
    this.#failure = "";
    this.requestUpdate();
    try {
      for (const id of new Set(hunks.map(({ delegation }) => delegation))) {
        const own = hunks.filter(({ delegation, state }) => delegation === id && state === "pending");
        const decisions = own.map(({ path, hunk }) => ({ path, hunk, decision: "accept" as const }));
        if (decisions.length > 0) await this.client.request("page/decide", { id, decisions });
      }
    } catch (error) {
      this.#failure = reasonOf(error);
    }
    this.#busy = false;
    await this.#read();
  }

  #review(id: string, hunk?: ComparedHunk): void {
    const place = hunk ? { path: hunk.path, hunk: hunk.hunk } : {};
    void this.client.request("page/review", { id, ...place }).catch((error: unknown) => {
      this.#failure = reasonOf(error);
      this.requestUpdate();
    });
  }

  #delegations(): readonly Delegation[] {
    return this.#result?.results.map(({ delegation }) => delegation) ?? [];
  }

  async #read(): Promise<void> {
    if (this.#group === "") return;
    const group = this.#group;
    this.client.remember({ group });
    try {
      const result = await this.client.request("understudy/groups/compare", { id: group });
      if (group !== this.#group) return;
      this.#result = result;
      this.#problem = undefined;
    } catch (error) {
      this.#problem = error;
    }
    this.requestUpdate();
  }
}

/** Name of a column; the same delegator may have several. */
function nameOf(one: Delegation, all: readonly Delegation[]): string {
  const model = one.attempts.at(-1)?.model;
  const name = model ? t("{0} ({1})", one.delegator, model) : one.delegator;
  const same = all.filter(({ delegator }) => delegator === one.delegator);
  return same.length < 2 ? name : t("{0}, run {1}", name, same.indexOf(one) + 1);
}

function placesText(delegation: Delegation): string {
  const counts = testedPlaces(delegation);
  return counts ? t("{0} of {1}", counts.tested, counts.all) : "–";
}

function caughtText({ checks }: Delegation): string {
  const [noticed] = checks.flatMap(({ mutation }) => (mutation ? (noticedShort(mutation) ?? []) : []));
  return noticed ?? "–";
}

function checksText({ checks }: Delegation): string {
  const passed = checks.filter(({ ok }) => ok).length;
  return checks.length === 0 ? t("none ran") : t("{0} of {1} passed", passed, checks.length);
}

function linesText({ result }: Delegation): string {
  const sum = (of: "additions" | "deletions"): number => (result?.files ?? []).reduce((all, file) => all + file[of], 0);
  return t("+{0} −{1}", sum("additions"), sum("deletions"));
}

function reviewText({ review: { pending } }: Delegation): string {
  if (pending === 0) return t("Open Review");
  return pending === 1 ? t("Review 1 Change") : t("Review {0} Changes", pending);
}

function isAgreed({ variants, unchanged }: ComparedPlace): boolean {
  return variants.length === 1 && unchanged.length === 0;
}

function isDecided({ variants }: ComparedPlace): boolean {
  return variants.some(({ hunks }) => hunks.some(({ state }) => state === "accepted"))
    ? true
    : variants.every(({ hunks }) => hunks.every(({ state }) => state !== "pending"));
}

/** What was decided, otherwise whether tests notice it. */
function stateText({ hunks }: Variant): string {
  const has = (state: ComparedHunk["state"]): boolean => hunks.some((hunk) => hunk.state === state);
  if (has("accepted")) return t("accepted");
  if (!has("pending")) return has("superseded") ? t("sent back") : t("rejected");
  if (hunks.every(({ tested }) => tested === true)) return t("tested");
  return hunks.some(({ tested }) => tested === false) ? t("not tested") : "";
}
