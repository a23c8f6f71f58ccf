/**
 * Wrap `Windows` so that untrusted text is shown as plain text (see `base/untrustedText.ts`) and features need not
 * escape it. Exceptions: tooltips are Markdown and status bar texts contain icons; the module that composes them
 * escapes the untrusted parts.
 */

import { escapeMarkup, sanitize } from "../base/untrustedText.ts";
import type { PickContent, PickItem, TreeRow, TreeDataProvider, Windows } from "./host.ts";

export function plainTextWindows(windows: Windows): Windows {
  return {
    ...windows,
    tree: (viewId, rows, options) => windows.tree(viewId, sanitizeRows(rows), options),
    pick: ({ typedItem, live, ...request }) =>
      windows.pick({
        ...request,
        ...escapeContent(request),
        items: request.items.map(escapeItem),
        title: escapeMarkup(request.title),
        ...(typedItem
          ? {
              typedItem: (typed: string) => {
                const item = typedItem(typed);
                return item && escapeItem(item);
              },
            }
          : {}),
        ...(live
          ? {
              live: (show: (content: Partial<PickContent>) => void, signal: AbortSignal) =>
                live((content) => show({ ...content, ...escapeContent(content) }), signal),
            }
          : {}),
      }),
    input: ({ validate, ...request }) =>
      windows.input({
        ...request,
        title: escapeMarkup(request.title),
        prompt: escapeMarkup(request.prompt),
        ...(request.placeholder === undefined ? {} : { placeholder: escapeMarkup(request.placeholder) }),
        ...(validate
          ? {
              validate: async (value: string) => {
                const wrong = await validate(value);
                return wrong === undefined ? undefined : escapeMarkup(wrong);
              },
            }
          : {}),
      }),
    async message(level, text, options = {}) {
      const buttons = (options.buttons ?? []).map(escapeMarkup);
      const pressed = await windows.message(level, escapeMarkup(text), {
        ...options,
        buttons,
        ...(options.detail === undefined ? {} : { detail: escapeMarkup(options.detail) }),
      });
      return pressed === undefined ? undefined : options.buttons?.[buttons.indexOf(pressed)];
    },
    flash: (text) => windows.flash(escapeMarkup(text)),
    progress: (options, task) =>
      windows.progress({ ...options, title: escapeMarkup(options.title) }, (progress) =>
        task({
          signal: progress.signal,
          report: (message, percent) => progress.report(escapeMarkup(message), percent),
        }),
      ),
    panel(type, title, html) {
      const panel = windows.panel(type, sanitize(title), html);
      return { ...panel, setTitle: (text) => panel.setTitle(sanitize(text)) };
    },
    statusItem(id, name, priority) {
      const item = windows.statusItem(id, name, priority);
      return { ...item, set: (content) => item.set({ ...content, text: sanitize(content.text) }) };
    },
  };
}

function escapeContent(content: Partial<PickContent>): Partial<PickContent> {
  return {
    ...(content.items ? { items: content.items.map(escapeItem) } : {}),
    ...(content.placeholder === undefined ? {} : { placeholder: escapeMarkup(content.placeholder) }),
  };
}

function escapeItem(item: PickItem): PickItem {
  return {
    ...item,
    label: escapeMarkup(item.label),
    ...(item.description === undefined ? {} : { description: escapeMarkup(item.description) }),
    ...(item.detail === undefined ? {} : { detail: escapeMarkup(item.detail) }),
  };
}

function sanitizeRows(rows: TreeDataProvider): TreeDataProvider {
  return {
    children: (id) => rows.children(id),
    parent: (id) => rows.parent(id),
    onDidChange: rows.onDidChange,
    row(id) {
      const row = rows.row(id);
      return row && sanitizeRow(row);
    },
  };
}

function sanitizeRow(row: TreeRow): TreeRow {
  return {
    ...row,
    label: sanitize(row.label),
    ...(row.description === undefined ? {} : { description: sanitize(row.description) }),
  };
}
