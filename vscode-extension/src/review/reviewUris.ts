/** The virtual documents of a review: `understudy-result://<delegation>/<path as people write it>`, and likewise the other sides. */

export const BASE = "understudy-base";
export const RESULT = "understudy-result";
/** What the person had when a conflict was found, and the base with only the conflicting change in it. */
export const YOURS = "understudy-yours";
export const THEIRS = "understudy-theirs";
export const EVIDENCE = "understudy-evidence";

export type Side = "base" | "result";

export interface Place {
  readonly scheme: string;
  readonly id: string;
  /** As people write it (`shownPath`). */
  readonly path: string;
}

export function uriOf(scheme: string, id: string, path: string): string {
  return `${scheme}://${[id, ...path.split("/")].map(encodeURIComponent).join("/")}`;
}

/** The editor spells a URI in its own way: compare places, not strings. */
export function placeOf(uri: string): Place | undefined {
  const [, scheme, rest] = /^(understudy-(?:base|result|yours|theirs)):\/\/([^?#]*)/u.exec(uri) ?? [];
  if (scheme === undefined || rest === undefined) return undefined;
  try {
    const [id = "", ...path] = rest.split("/").map(decodeURIComponent);
    return { scheme, id, path: path.join("/") };
  } catch {
    return undefined;
  }
}
