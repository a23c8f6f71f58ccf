/** Text as Markdown that shows exactly this text. */
export function markdown(text: string): string {
  return text.replace(/[\\`*_{}[\]<>()#+\-!|~$&]/g, String.raw`\$&`);
}
