/** Translate a text with the placeholders `{0}`, `{1}` … into the language of the editor. */
export type Translate = (message: string, ...values: (string | number)[]) => string;

const english: Translate = (message, ...values) =>
  message.replace(/\{(\d+)\}/g, (whole, index: string) => String(values[Number(index)] ?? whole));

/** Translations by the English text; without one, the text stays English. */
export function translateWith(bundle: Readonly<Record<string, string>>): Translate {
  return (message, ...values) =>
    english(Object.hasOwn(bundle, message) ? (bundle[message] ?? message) : message, ...values);
}

let translate: Translate = english;

/** The host calls this once, before anything is shown. */
export function setTranslator(translator: Translate): void {
  translate = translator;
}

/** Translate a text of the UI. The first argument must be a literal, so that scripts/l10n.mjs finds it. */
export const t: Translate = (message, ...values) => translate(message, ...values);
