/** A text with `{0}`, `{1}` … in it, in the language of the editor. The texts are collected by scripts/l10n.mjs. */
export type Translate = (message: string, ...values: (string | number)[]) => string;

const english: Translate = (message, ...values) =>
  message.replace(/\{(\d+)\}/g, (whole, index: string) => String(values[Number(index)] ?? whole));

let translate: Translate = english;

/** Set once by the host, before anything is shown. */
export function setTranslator(translator: Translate): void {
  translate = translator;
}

/** Translate a text for people. The first argument is a literal, so that it can be found. */
export const t: Translate = (message, ...values) => translate(message, ...values);
