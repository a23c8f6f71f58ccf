/**
 * Windows in which words are only words (see `base/inert.ts`). `vscode.ts` puts it around its own, so that no feature
 * has to think of it. Tooltips are Markdown, and the text of a status item has icons: those are composed by who knows
 * which part is whose.
 */

import { inert, visible } from "../base/inert.ts";
import type { PickContent, PickItem, Row, Rows, Windows } from "./host.ts";

export function inertWindows(windows: Windows): Windows {
  return {
    ...windows,
    tree: (viewId, rows, options) => windows.tree(viewId, visibleRows(rows), options),
    pick: ({ typedItem, live, ...request }) =>
      windows.pick({
        ...request,
        ...inertContent(request),
        items: request.items.map(inertItem),
        title: inert(request.title),
        ...(typedItem
          ? {
              typedItem: (typed: string) => {
                const item = typedItem(typed);
                return item && inertItem(item);
              },
            }
          : {}),
        ...(live
          ? {
              live: (show: (content: Partial<PickContent>) => void, signal: AbortSignal) =>
                live((content) => show({ ...content, ...inertContent(content) }), signal),
            }
          : {}),
      }),
    input: ({ validate, ...request }) =>
      windows.input({
        ...request,
        title: inert(request.title),
        prompt: inert(request.prompt),
        ...(request.placeholder === undefined ? {} : { placeholder: inert(request.placeholder) }),
        ...(validate
          ? {
              validate: async (value: string) => {
                const wrong = await validate(value);
                return wrong === undefined ? undefined : inert(wrong);
              },
            }
          : {}),
      }),
    async message(level, text, options = {}) {
      const buttons = (options.buttons ?? []).map(inert);
      const pressed = await windows.message(level, inert(text), {
        ...options,
        buttons,
        ...(options.detail === undefined ? {} : { detail: inert(options.detail) }),
      });
      return pressed === undefined ? undefined : options.buttons?.[buttons.indexOf(pressed)];
    },
    progress: (options, task) =>
      windows.progress({ ...options, title: inert(options.title) }, (progress) =>
        task({
          signal: progress.signal,
          report: (message, percent) => progress.report(inert(message), percent),
        }),
      ),
    statusItem(id, name, priority) {
      const item = windows.statusItem(id, name, priority);
      return { ...item, set: (content) => item.set({ ...content, text: visible(content.text) }) };
    },
  };
}

function inertContent(content: Partial<PickContent>): Partial<PickContent> {
  return {
    ...(content.items ? { items: content.items.map(inertItem) } : {}),
    ...(content.placeholder === undefined ? {} : { placeholder: inert(content.placeholder) }),
  };
}

function inertItem(item: PickItem): PickItem {
  return {
    ...item,
    label: inert(item.label),
    ...(item.description === undefined ? {} : { description: inert(item.description) }),
    ...(item.detail === undefined ? {} : { detail: inert(item.detail) }),
  };
}

function visibleRows(rows: Rows): Rows {
  return {
    children: (id) => rows.children(id),
    parent: (id) => rows.parent(id),
    onDidChange: rows.onDidChange,
    row(id) {
      const row = rows.row(id);
      return row && visibleRow(row);
    },
  };
}

function visibleRow(row: Row): Row {
  return {
    ...row,
    label: visible(row.label),
    ...(row.description === undefined ? {} : { description: visible(row.description) }),
  };
}
