/** Escape a text so that Markdown shows it unchanged. */
export function escapeMarkdown(text: string): string {
  return text.replace(/[\\`*_{}[\]<>()#+\-!|~$&]/g, String.raw`\$&`);
}
