/**
 * Text of others where the editor would do more with it than show it. In messages, progress and prompts it makes links
 * of `[words](command:…)`, and one click runs that command with arguments; in picks, lenses and the status bar it draws
 * icons for `$(name)`, and nothing at all for a name that it does not know. Agents, models, servers and files name
 * things, so whatever they say passes through here.
 */

/** Nobody sees it, no line breaks at it, and nothing is read across it. */
const JOINER = "\u2060";
/** C0 without tab and line feed, DEL, C1; and what turns the direction in which the rest is read. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Without what makes a text read otherwise than it is. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, "\ufffd");
}

/** Shown as it is written: no links, no icons. */
export function inert(text: string): string {
  return visible(text)
    .replace(/\](?=\()/g, `]${JOINER}`)
    .replace(/\$(?=\()/g, `$${JOINER}`);
}
