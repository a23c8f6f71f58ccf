/** Convert between the data of the host interface and the types of `vscode`. */

import * as vscode from "vscode";
import type { Range } from "../../protocol.ts";
import type * as h from "../host.ts";

/** Prefix of our settings and document schemes. */
export const EXTENSION_ID = "understudy";

/** Scheme of the empty side of a diff. */
export const EMPTY = `${EXTENSION_ID}-empty`;

export function toShowOptions(options: h.ShowOptions): vscode.TextDocumentShowOptions {
  return {
    preview: options.preview ?? true,
    ...(options.range ? { selection: toRange(options.range) } : {}),
  };
}

export function toMarkdown(text: string, trusted: readonly string[] = []): vscode.MarkdownString {
  const result = new vscode.MarkdownString(text, true);
  if (trusted.length > 0) result.isTrusted = { enabledCommands: [...trusted] };
  return result;
}

export function toCommand(link: h.CommandLink): vscode.Command {
  return { command: link.id, title: link.title, arguments: [...(link.arguments ?? [])] };
}

export function toColor(id: string): vscode.ThemeColor {
  return new vscode.ThemeColor(id);
}

export function toRange({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}

export function fromRange({ start, end }: vscode.Range): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}
