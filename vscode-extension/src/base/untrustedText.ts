/**
 * Show untrusted text as plain text. In messages, progress and prompts the editor turns `[text](command:…)` into
 * links that run a command with arguments. In quick picks, lenses and the status bar it replaces `$(name)` with an
 * icon, or with nothing if it does not know the name. Text of agents, models, servers and files must pass through
 * here.
 */

/** WORD JOINER: invisible, and allows no line break. */
const JOINER = "\u2060";
/** C0 without tab and line feed, DEL, C1, and characters that change the text direction. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Replace control characters and characters that change the text direction. */
export function sanitize(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, "\ufffd");
}

/** Sanitize a text and break its links and icons, so that it is shown as written. */
export function escapeMarkup(text: string): string {
  return sanitize(text)
    .replace(/\](?=\()/g, `]${JOINER}`)
    .replace(/\$(?=\()/g, `$${JOINER}`);
}
