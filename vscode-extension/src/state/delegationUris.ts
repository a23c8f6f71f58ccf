/** IDs of delegations in rows, commands and document URIs. */

/** Scheme of transcripts: `understudy-transcript:/<id>/<title>.md`. */
export const TRANSCRIPT_SCHEME = "understudy-transcript";

const ROW = "delegation:";
const ID = /^\d{8}-\d{6}-[a-z0-9]+$/i;

export const delegationRowId = (id: string): string => ROW + id;

/** The delegation ID in the ID of a row or bar, a plain ID, or a URI of one of our documents (`understudy-…:/<id>/…`). */
export function delegationIdOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  if (value.startsWith(ROW)) return value.slice(ROW.length);
  const review = /^(?:verdict|reservation|check):([^:]+)/u.exec(value)?.[1];
  if (review !== undefined) return review;
  if (ID.test(value)) return value;
  const found = /^understudy-[a-z]+:\/+([^/?#]+)/.exec(value)?.[1];
  const id = found === undefined ? undefined : decodeURIComponent(found).replace(/\.md$/, "");
  return id !== undefined && ID.test(id) ? id : undefined;
}

/** URI of a transcript; its last part becomes the title of the tab. */
export function transcriptUri({ id, title }: { readonly id: string; readonly title: string }): string {
  // A slash would start a folder; the division slash looks the same.
  const name =
    title
      .replaceAll("/", "∕")
      .replaceAll(/[\\\p{Cc}]/gu, " ")
      .replace(/[.\s]+$/, "")
      .trim() || id;
  return `${TRANSCRIPT_SCHEME}:/${id}/${encodeURIComponent(`${name}.md`)}`;
}
