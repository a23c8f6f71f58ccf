/** How a delegation is named in rows, commands and addresses of documents. */

/** Scheme of transcripts: `understudy-transcript:/<id>/<title>.md`. */
export const TRANSCRIPT = "understudy-transcript";

const ROW = "delegation:";
const ID = /^\d{8}-\d{6}-[a-z0-9]+$/i;

export const rowOfDelegation = (id: string): string => ROW + id;

/**
 * The delegation that a command is about, whatever named it: a row, an id, a document of ours (`understudy-…:/<id>/…`).
 */
export function delegationOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  if (value.startsWith(ROW)) return value.slice(ROW.length);
  if (ID.test(value)) return value;
  const found = /^understudy-[a-z]+:\/+([^/?#]+)/.exec(value)?.[1];
  const id = found === undefined ? undefined : decodeURIComponent(found).replace(/\.md$/, "");
  return id !== undefined && ID.test(id) ? id : undefined;
}

/** The address of a delegation's transcript; its last part is what the tab reads. */
export function transcriptUri({ id, title }: { readonly id: string; readonly title: string }): string {
  // A slash would begin a folder; the division slash looks the same.
  const name =
    title
      .replaceAll("/", "∕")
      .replaceAll(/[\\\p{Cc}]/gu, " ")
      .replace(/[.\s]+$/, "")
      .trim() || id;
  return `${TRANSCRIPT}:/${id}/${encodeURIComponent(`${name}.md`)}`;
}
