/** URIs of review documents: `understudy-result://<delegation>/<display path>`, and likewise for the other sides. */
export const BASE = "understudy-base";
export const RESULT = "understudy-result";
/** The writable copy of a file of the result. */
export const EDIT = "understudy-edit";

/** The user's text when the conflict was opened, and the base with only the conflicting changes applied. */
export const YOURS = "understudy-yours";
export const THEIRS = "understudy-theirs";
export const EVIDENCE = "understudy-evidence";
/** The result side of a deleted file, without text. */
export const EMPTY = "understudy-empty";
/** Names a file in a row, for its icon only: a row of a file that cannot be written would have a padlock. */
export const ROW = "understudy-row";

export type Side = "base" | "result";

export interface ReviewUri {
  readonly scheme: string;
  readonly id: string;
  /** See `displayPath`. */
  readonly path: string;
}

export function reviewUri(scheme: string, id: string, path: string): string {
  return `${scheme}://${[id, ...path.split("/")].map(encodeURIComponent).join("/")}`;
}

/** Editors normalize URIs: compare the parsed parts, not the strings. */
export function parseReviewUri(uri: string): ReviewUri | undefined {
  const [, scheme, rest] = /^(understudy-(?:base|result|empty|edit|yours|theirs)):\/\/([^?#]*)/u.exec(uri) ?? [];
  if (scheme === undefined || rest === undefined) return undefined;
  try {
    const [id = "", ...path] = rest.split("/").map(decodeURIComponent);
    return { scheme, id, path: path.join("/") };
  } catch {
    return undefined;
  }
}
