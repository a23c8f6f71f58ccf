/**
 * The workbench as a user operates it: mostly by keyboard and by visible text.
 *
 * Methods wait for what they need and throw an error that explains what is missing. Selectors of VS Code's elements
 * belong in this module only; a test that needs another one adds a method.
 */
import fs from "node:fs";
import path from "node:path";
import type { Locator, Page } from "playwright-core";
import { fileName, until } from "./environment.ts";
import type { Code } from "./vscodeServer.ts";
import { kill, type World } from "./fixture.ts";

const THEMES = ["Dark Modern", "Dark High Contrast", "Light High Contrast", "Light Modern"] as const;
type Theme = (typeof THEMES)[number];
const THROUGH_TOASTS = ".notifications-toasts, .notifications-toasts * { pointer-events: none !important; }";
const LOADED = ".monaco-workbench .statusbar .statusbar-item";

export class Workbench {
  readonly page: Page;
  readonly code: Code;
  readonly world: World;
  readonly #artifacts: string;
  /** How the last menu was opened. */
  #reopen = async (): Promise<void> => {};

  constructor(page: Page, code: Code, artifacts: string) {
    this.page = page;
    this.code = code;
    this.world = code.world;
    this.#artifacts = artifacts;
  }

  // Windows.

  /** Open the repository (or another folder), with one of its files if given. */
  async open(file?: string, folder = this.world.repository): Promise<void> {
    const payload = file === undefined ? [] : [["openFile", this.code.remote(path.join(folder, file))] as const];
    await this.page.goto(this.code.address(folder, payload));
    await this.loaded();
    if (file !== undefined) await this.editor(path.basename(file)).waitFor();
  }

  async loaded(): Promise<void> {
    await this.page.locator(LOADED).first().waitFor();
    await this.page.locator(".activitybar .action-item").first().waitFor();
  }

  /** "Developer: Reload Window": the extension host ends and another one starts. */
  async reload(): Promise<void> {
    await this.page.evaluate("window.before_reload = true");
    await this.command("Developer: Reload Window");
    await until(async () => (await this.page.evaluate("window.before_reload")) === undefined, "the window reloads");
    await this.loaded();
  }

  /** Run a command from the palette. */
  async command(title: string): Promise<void> {
    await this.palette(`>${title}`);
    await until(async () => {
      if (!(await this.quickInput().isVisible())) await this.palette(`>${title}`);
      if (!(await this.focusedQuickRow()).includes(title.split(": ").at(-1) ?? title)) return false;
      await this.#press("Enter");
      // What is typed next would go to the palette if it were still open.
      await until(async () => !(await this.#quickValue()).startsWith(">"), "the palette closes", 10_000);
      return true;
    }, `${title} is run`);
  }

  /** The titles that the palette offers for a text. */
  async commands(text: string): Promise<string[]> {
    await this.palette(`>${text}`);
    await this.quickRows().first().waitFor();
    const titles = await this.quickRowTexts();
    await this.escape();
    return titles;
  }

  /** Close the active editor. */
  async closeEditor(): Promise<void> {
    await this.palette(">View: Close Editor");
    await this.pick("View: Close Editor", ">View: Close Editor");
  }

  /** Type a text into the palette. A view that takes the focus meanwhile closes it: users open it again, too. */
  async palette(text: string): Promise<void> {
    await until(async () => {
      await this.page.keyboard.press("F1");
      await this.quickInput().fill(text, { timeout: 5_000 });
      return true;
    }, "the palette is open");
  }

  // Quick picks and input boxes, by keyboard.

  quickInput(): Locator {
    return this.page
      .locator(".quick-input-widget:visible .quick-input-box input, .quick-input-widget:visible input.input")
      .first();
  }

  quickRows(): Locator {
    return this.page.locator(".quick-input-widget:visible .quick-input-list .monaco-list-row");
  }

  /** The text of each row: label, description, detail, separators. */
  async quickRowTexts(): Promise<string[]> {
    return (await this.quickRows().allInnerTexts()).map(oneLine);
  }

  async focusedQuickRow(): Promise<string> {
    const focused = this.page.locator(".quick-input-widget:visible .quick-input-list .monaco-list-row.focused");
    return oneLine(await focused.first().innerText({ timeout: 10_000 }));
  }

  /** Wait for the step whose title (with its "2/6") contains a text. */
  async step(title: string): Promise<void> {
    const shown = this.page.locator(".quick-input-widget:visible .quick-input-titlebar", { hasText: title });
    await shown.waitFor().catch(async (error: unknown) => {
      const now = await this.page
        .locator(".quick-input-widget:visible")
        .innerText({ timeout: 500 })
        .catch(() => "no quick input");
      throw new Error(`The step “${title}” was not shown; shown is: ${now}`, { cause: error });
    });
  }

  /**
   * Filter the rows by typing, go to the one that contains `text`, press Enter; then wait for another step, or none.
   * If the same step returns (`stays`), that is not visible: the test must wait for the effect.
   */
  async pick(text: string, typed = text, stays = false): Promise<void> {
    await this.quickInput().waitFor();
    await this.quickInput().fill(typed);
    await this.quickRows().filter({ hasText: text }).first().waitFor();
    await until(async () => {
      if ((await this.focusedQuickRow()).includes(text)) return true;
      await this.#press("ArrowDown");
      return false;
    }, `“${text}” is focused`);
    if (stays) await this.#press("Enter");
    else await this.#next();
  }

  /** Replace the text of an input box and press Enter; `again`: a box with the same text is shown next. */
  async answer(text: string, again = false): Promise<void> {
    await this.quickInput().waitFor();
    // All steps use one element: a step that is still being shown replaces the text with its own.
    await until(async () => {
      await this.quickInput().fill(text, { timeout: 5_000 });
      await this.page.evaluate("new Promise(requestAnimationFrame)");
      return (await this.#quickValue()) === text;
    }, `“${text}” is in the input box`);
    if (again) await this.#press("Enter");
    else await this.#next();
  }

  /**
   * Press Enter in the open step, with the row that is focused or the text that is there; then wait for another one.
   * `several`: in a list of checkboxes, Enter takes those that are checked, and no row needs to be focused.
   */
  async accept(several = false): Promise<void> {
    await this.quickInput().waitFor();
    if (several) {
      await this.quickRows().first().waitFor();
    } else if (await this.page.locator(".quick-input-widget:visible .quick-input-list").isVisible()) {
      await this.focusedQuickRow(); // Enter does nothing before the rows are there
    }
    await this.#next();
  }

  /** Press Escape in the open step and wait for another one, or none. */
  async escape(): Promise<void> {
    await this.quickInput().waitFor();
    await this.#next("Escape");
  }

  /** Press a key in the open quick input, and focus it before: what opened by itself may have taken the focus. */
  async #press(key: string): Promise<void> {
    await this.quickInput().press(key, { timeout: 10_000 });
  }

  /** Press a key and wait until another step is shown, or none: text typed too early would go to the old one. */
  async #next(key = "Enter"): Promise<void> {
    const before = await this.#shownStep();
    await this.#press(key);
    await until(async () => (await this.#shownStep()) !== before, "another step is shown");
  }

  /** All that tells the open step from another one; empty if none is open. */
  async #shownStep(): Promise<string> {
    // Read at once: a wait for the text of a widget that has just been closed would never end.
    return this.page.locator(".quick-input-widget:visible").evaluateAll((widgets) =>
      widgets
        .map((one: any) => {
          // Without the message below the input: it changes late when what was typed becomes valid.
          const message = one.querySelector(".quick-input-message")?.innerText ?? "";
          const { placeholder, value } = one.querySelector("input") ?? {};
          return `${one.innerText.replace(message, "")} ${placeholder} ${value}`;
        })
        .join(),
    );
  }

  /** The text in the open quick input; empty if none is open. */
  async #quickValue(): Promise<string> {
    const inputs = this.page.locator(".quick-input-widget:visible .quick-input-box input");
    return (await inputs.evaluateAll((all) => all.map((one) => (one as HTMLInputElement).value))).join();
  }

  /** The message below an input box: why the text is not accepted. */
  async quickMessage(): Promise<string> {
    return oneLine(await this.page.locator(".quick-input-widget:visible .quick-input-message").innerText());
  }

  /**
   * Press an element. What lies over it for a moment does not get the press: a tooltip closes when the pointer is
   * elsewhere, and a notification lets it through.
   */
  async #click(target: Locator, options: { readonly button?: "right" } = {}): Promise<void> {
    await until(async () => {
      try {
        await target.click({ timeout: 5_000, ...options });
      } catch (error) {
        if (!String(error).includes("intercepts pointer events")) throw error;
        await this.page.mouse.move(700, 5);
        const inToast = await target.evaluate((one) => (one as Element).closest(".notifications-toasts") !== null);
        const through = inToast ? undefined : await this.page.addStyleTag({ content: THROUGH_TOASTS });
        await target.click({ timeout: 5_000, ...options }).finally(() => through?.evaluate((one: any) => one.remove()));
      }
      return true;
    }, `${target} is pressed`);
  }

  // The sidebar.

  /** Open a view container of the activity bar by its name. */
  async openContainer(name = "Understudy"): Promise<void> {
    // The whole item: its badge covers the link.
    const tab = this.page.locator(`.activitybar .action-item:has(a[aria-label^="${name}"])`);
    await tab.first().waitFor();
    const title = this.page.locator(".sidebar .composite.title", { hasText: new RegExp(name, "i") });
    // Repeat it: the editor may open another container at the same time, and a second press would close this one.
    await until(async () => {
      if (await title.isVisible()) return true;
      await this.#click(tab.first());
      return title.waitFor({ timeout: 2_000 }).then(
        () => true,
        () => false,
      );
    }, `“${name}” is open`);
  }

  /** Expand a view of the open container, as the one of the delegators is collapsed at first. */
  async expand(title: string): Promise<void> {
    const header = this.view(title).locator(".pane-header");
    await header.waitFor();
    const isExpanded = async (): Promise<boolean> => (await header.getAttribute("aria-expanded")) === "true";
    await this.pressUntil(header, isExpanded, `${title} is expanded`);
  }

  /** A view of the open container, by its title. */
  view(title: string): Locator {
    const header = this.page.locator(".pane-header", {
      has: this.page.locator("h3", { hasText: new RegExp(`^${title}`, "i") }),
    });
    return this.page.locator(".split-view-view .pane").filter({ has: header });
  }

  /** The rendered rows of a tree view. */
  rows(view: string): Locator {
    return this.view(view).locator(".monaco-list-row");
  }

  /** The text of the rows: label and description. */
  async rowTexts(view: string): Promise<string[]> {
    return (await this.rows(view).allInnerTexts()).map(oneLine);
  }

  /** What a screen reader reads for the rows. */
  async rowLabels(view: string): Promise<string[]> {
    return this.rows(view).evaluateAll((rows) => rows.map((row) => row.getAttribute("aria-label") ?? ""));
  }

  row(view: string, text: string): Locator {
    return this.rows(view).filter({ hasText: text }).first();
  }

  /** Wait until a row of a view contains this text. */
  async waitForRow(view: string, text: string): Promise<Locator> {
    const row = this.row(view, text);
    await this.expand(view);
    await row.waitFor().catch(async (error: unknown) => {
      throw new Error(`No row of ${view} reads “${text}”; they read: ${JSON.stringify(await this.rowTexts(view))}`, {
        cause: error,
      });
    });
    return row;
  }

  /** The text of the selected row of a view. */
  async selectedRow(view: string): Promise<string> {
    return oneLine(await this.view(view).locator(".monaco-list-row.selected").first().innerText({ timeout: 1_000 }));
  }

  /**
   * Press something until what it opens is there. On a busy machine, VS Code can lose a press on something that it is
   * drawing again; a user would press again, too.
   */
  async pressUntil(target: Locator, opened: Locator | (() => Promise<boolean>), what = "it opens"): Promise<void> {
    const isOpen = typeof opened === "function" ? opened : (): Promise<boolean> => opened.isVisible();
    for (let attempt = 0; attempt < 4; attempt++) {
      if (await isOpen().catch(() => false)) return;
      await this.#click(target);
      await until(isOpen, what, 8_000).catch(() => {});
    }
    await until(isOpen, what, 1_000);
  }

  /** Press an inline action of a row, by its title. */
  async rowAction(view: string, text: string, action: string): Promise<void> {
    const row = await this.waitForRow(view, text);
    // A row that appears above moves this one away from the pointer, which hides its actions: point to it again.
    await until(async () => {
      await row.hover({ timeout: 5_000 });
      await row.locator(`.actions .action-item a[aria-label^="${action}"]`).first().click({ timeout: 5_000 });
      return true;
    }, `“${action}” of “${text}” is pressed`);
  }

  /** Open the context menu of a row and choose an item. */
  async rowMenu(view: string, text: string, item: string): Promise<void> {
    await this.#openMenu(async () => this.#click(await this.waitForRow(view, text), { button: "right" }));
    await this.menu(item);
  }

  /** The items of a row's context menu. */
  async rowMenuItems(view: string, text: string): Promise<string[]> {
    await this.#openMenu(async () => this.#click(await this.waitForRow(view, text), { button: "right" }));
    const items = (await this.menuItems().allInnerTexts()).map(oneLine).filter(Boolean);
    await this.page.keyboard.press("Escape");
    return items;
  }

  menuItems(): Locator {
    return this.page.locator(".monaco-menu .action-item .action-label");
  }

  /** Open a menu by `open`, again if the press was lost, or if something took the focus, which closes a menu. */
  async #openMenu(open: () => Promise<void>): Promise<void> {
    this.#reopen = open;
    await until(async () => {
      if (await this.menuItems().first().isVisible()) return true;
      await open();
      await this.menuItems().first().waitFor({ timeout: 5_000 });
      return true;
    }, "a menu is open");
  }

  /**
   * Choose an item of the open menu. VS Code ignores a click that comes right after the one that opened the menu. A
   * menu that something else closed by taking the focus is opened again.
   */
  async menu(item: string): Promise<void> {
    const target = this.page.locator(".monaco-menu .action-item", { hasText: item }).first();
    let clicked = false;
    await until(async () => {
      if (!clicked && !(await target.isVisible())) await this.#openMenu(this.#reopen);
      clicked = await target.click({ timeout: 5_000 }).then(
        () => true,
        () => clicked,
      );
      await target.waitFor({ state: "hidden", timeout: 2_000 }).catch(() => {});
      return clicked && !(await target.isVisible());
    }, `the item “${item}” of the menu is chosen`);
  }

  /** Press a button in the title of a view, by its accessible name. */
  async viewAction(view: string, action: string): Promise<void> {
    await until(async () => {
      await this.view(view).locator(".pane-header").hover({ timeout: 5_000 });
      const target = this.view(view).locator(`.pane-header .action-item a[aria-label^="${action}"]`);
      await target.first().click({ timeout: 5_000 });
      return true;
    }, `“${action}” of ${view} is pressed`);
  }

  /** Press a button in the title of the active editor, by its accessible name. */
  async editorAction(action: string): Promise<void> {
    const title = this.page.locator(".editor-group-container.active .editor-actions");
    await this.#click(title.locator(`.action-item a[aria-label^="${action}"]`).first());
  }

  /** The welcome text of an empty view. */
  welcome(view: string): Locator {
    return this.view(view).locator(".welcome-view-content");
  }

  /** The message above the rows of a view, and the number of the container's badge. */
  async badge(container = "Understudy"): Promise<string> {
    return (
      await this.page
        .locator(`.activitybar .action-item:has(a[aria-label^="${container}"]) .badge-content`)
        .allInnerTexts()
    ).join("");
  }

  // Notifications, dialogs, the status bar.

  /** The notification that contains a text. */
  notification(text: string | RegExp): Locator {
    return this.page.locator(".notifications-toasts .notification-list-item", { hasText: text }).last();
  }

  async notifications(): Promise<string[]> {
    return (await this.page.locator(".notifications-toasts .notification-list-item-message").allInnerTexts()).map(
      oneLine,
    );
  }

  /** Press a button of the notification that contains a text. */
  async notificationAction(text: string | RegExp, action: string): Promise<void> {
    await this.notification(text).waitFor();
    await this.#click(this.notification(text).locator(".monaco-button", { hasText: action }).first());
  }

  async clearNotifications(): Promise<void> {
    await this.command("Notifications: Clear All Notifications");
  }

  /** What a failed test should tell where its pictures are not kept: what is in front, all messages, and the focus. */
  async shown(): Promise<string> {
    const texts = async (selector: string): Promise<string> =>
      (await this.page.locator(selector).allInnerTexts()).map((text) => oneLine(text).slice(0, 200)).join(" | ");
    const parts = {
      dialog: await texts(".monaco-dialog-box:visible"),
      "quick input": await texts(".quick-input-widget:visible"),
      menu: await texts(".monaco-menu:visible, .action-widget:visible"),
      messages: await texts(
        ".notifications-center .notification-list-item, .notifications-toasts .notification-list-item",
      ),
      tabs: await texts(".tab.active"),
      status: (await this.statusBar()).join(", "),
      focus: await this.page.evaluate(
        `(({ tagName, className, ariaLabel }) => [tagName, String(className).slice(0, 80), ariaLabel ?? ""].join(" "))(document.activeElement)`,
      ),
    };
    return Object.entries(parts)
      .filter(([, text]) => text)
      .map(([name, text]) => `${name}: ${String(text)}`)
      .join("; ");
  }

  dialog(): Locator {
    return this.page.locator(".monaco-dialog-box");
  }

  async dialogAction(action: string): Promise<void> {
    await this.#click(this.dialog().locator(".monaco-button", { hasText: action }).first());
  }

  /** The status bar item that contains a text. */
  statusItem(text: string | RegExp): Locator {
    return this.page.locator(".statusbar .statusbar-item", { hasText: text }).first();
  }

  async statusBar(): Promise<string[]> {
    return (await this.page.locator(".statusbar .statusbar-item").allInnerTexts()).map(oneLine).filter(Boolean);
  }

  // Editors.

  async openFile(name: string): Promise<void> {
    await this.palette(name);
    await this.quickRows()
      .filter({ hasText: path.basename(name) })
      .first()
      .waitFor();
    await this.#press("Enter");
    await this.editor(path.basename(name)).waitFor();
  }

  /** The tab of an open editor. */
  editor(title: string): Locator {
    return this.page
      .locator(`.tabs-container .tab[data-resource-name="${title}"], .tabs-container .tab:has-text("${title}")`)
      .first();
  }

  async tabs(): Promise<string[]> {
    return (await this.page.locator(".tabs-container .tab").allInnerTexts()).map(oneLine);
  }

  /** The rendered lines of the active editor, in order. */
  async editorText(within: Locator = this.page.locator(".editor-group-container.active")): Promise<string> {
    const lines = await within.locator(".monaco-editor .view-line").evaluateAll((all) =>
      all
        .map((line) => [parseFloat((line as HTMLElement).style.top), line.textContent] as const)
        .sort((a, b) => a[0] - b[0])
        .map(([, text]) => text),
    );
    return lines.join("\n").replaceAll("\u00a0", " ");
  }

  async waitForText(text: string): Promise<void> {
    await until(async () => (await this.editorText()).includes(text), `the editor shows “${text}”`);
  }

  /** Move the cursor of the active editor to a line (from 1) and column. */
  async goTo(line: number, column = 1): Promise<void> {
    // Any quick access accepts a place of the active editor, wherever the focus is.
    await this.palette(`:${line}:${column}`);
    await this.#next();
    await until(
      async () => (await this.statusBar()).some((item) => item.startsWith(`Ln ${line}, Col ${column}`)),
      `the cursor is on line ${line}`,
    );
  }

  /** Type into the editor with the focus, literally: no suggestions, no closing brackets. */
  async type(text: string): Promise<void> {
    // The focus returns a moment after a quick input was closed; until then, the text would be lost.
    await this.page.locator(".editor-instance .monaco-editor.focused").first().waitFor();
    await this.page.keyboard.insertText(text);
  }

  async save(): Promise<void> {
    await this.page.keyboard.press("Control+s");
  }

  /** The code actions at the cursor, as Ctrl+. shows them. */
  async codeActions(): Promise<string[]> {
    const rows = this.page.locator(".action-widget .monaco-list-row.action");
    // Nothing is offered while the sidecar is starting; a user presses the key again.
    await until(async () => {
      await this.page.keyboard.press("Control+.");
      await rows.first().waitFor({ timeout: 8_000 });
      return true;
    }, "code actions are offered");
    return (await rows.allInnerTexts()).map(oneLine);
  }

  /** Choose a code action by keyboard. */
  async codeAction(title: string): Promise<void> {
    const titles = await this.codeActions();
    if (!titles.some((one) => one.includes(title)))
      throw new Error(`There is no code action “${title}”, only ${titles.join(" | ")}`);
    const focused = this.page.locator(".action-widget .monaco-list-row.action.focused");
    await until(async () => {
      // What takes the focus closes the list; keys would go to the editor.
      if (!(await this.page.locator(".action-widget:focus-within").isVisible())) await this.codeActions();
      const chosen = oneLine(await focused.innerText({ timeout: 5_000 })).includes(title);
      await this.page.keyboard.press(chosen ? "Enter" : "ArrowDown");
      return chosen;
    }, `“${title}” is chosen`);
  }

  /** Open the context menu of the active editor by keyboard; return its items. */
  async editorMenu(): Promise<string[]> {
    await this.#openMenu(async () => {
      await this.#click(this.page.locator(".editor-group-container.active .monaco-editor .view-lines").first());
      await this.page.keyboard.press("Shift+F10");
    });
    return (await this.menuItems().allInnerTexts()).map(oneLine).filter(Boolean);
  }

  /** A code lens of the active editor. */
  codeLens(text: string | RegExp): Locator {
    return this.page.locator(".codelens-decoration a", { hasText: text });
  }

  /** The bar below a change, or another comment thread, by its text. */
  bar(text: string | RegExp): Locator {
    return this.page.locator(".editor-instance .review-widget", { hasText: text }).first();
  }

  /** The glyphs of bars next to the lines, from top to bottom: pressing one expands a collapsed bar. */
  barSigns(): Locator {
    return this.page.locator(".editor-instance .comment-range-glyph.comment-thread");
  }

  /** Press a button of a bar, by its accessible name. */
  async barAction(text: string | RegExp, action: string): Promise<void> {
    await this.#click(this.bar(text).locator(`.action-item a[aria-label^="${action}"]`).first());
  }

  /** The text of both sides of the visible diff editors, the file's side first. */
  async diffs(): Promise<{ original: string; modified: string }[]> {
    const editors = await this.page.locator(".monaco-diff-editor").all();
    return Promise.all(
      editors.map(async (one) => ({
        original: await this.editorText(one.locator(".editor.original")),
        modified: await this.editorText(one.locator(".editor.modified")),
      })),
    );
  }

  /** The text of a part of the merge editor, by its title. */
  mergeText(title: string): Promise<string> {
    return this.editorText(
      this.page.locator(".editor-group-container.active .code-view").filter({
        has: this.page.locator(".header .title", { hasText: title }),
      }),
    );
  }

  /** The files of the open multi-file diff, from its headers. */
  async diffFiles(): Promise<string[]> {
    return (await this.page.locator(".multiDiffEntry .header .file-path").allInnerTexts()).map(oneLine);
  }

  /** The inner document of the n-th webview in a tab: VS Code nests two frames. */
  webview(index = 0) {
    const tabs = this.page.frameLocator('iframe.webview.ready:not([src*="purpose=webviewView"])');
    return tabs.nth(index).frameLocator("iframe#active-frame");
  }

  /** The form at the top of the sidebar. */
  box() {
    return this.page
      .frameLocator('iframe.webview.ready[src*="purpose=webviewView"]')
      .first()
      .frameLocator("iframe#active-frame");
  }

  /** The squiggles of the active editor; reading the Problems view would require opening it. */
  squiggles(severity: "error" | "warning" | "info" | "hint"): Locator {
    return this.page.locator(`.editor-group-container.active .monaco-editor .squiggly-${severity}`);
  }

  async theme(name: Theme): Promise<void> {
    const ids = { "Dark High Contrast": "Default High Contrast", "Light High Contrast": "Default High Contrast Light" };
    const id = name in ids ? ids[name as keyof typeof ids] : `Default ${name}`;
    const kind = {
      "Dark Modern": "vs-dark",
      "Light Modern": "vs",
      "Dark High Contrast": "hc-black",
      "Light High Contrast": "hc-light",
    }[name];
    // Repeat it: the editor misses a change of the file when it has only begun to watch it.
    await until(async () => {
      this.code.configure({ "workbench.colorTheme": id });
      return this.page
        .locator(`.monaco-workbench.${kind}`)
        .waitFor({ timeout: 10_000 })
        .then(
          () => true,
          () => false,
        );
    }, `the theme is ${name}`);
  }

  /** Save a picture in each kind of theme; the last one is that of a new window. */
  async shotInThemes(name: string): Promise<void> {
    for (const theme of THEMES) {
      await this.theme(theme);
      await this.shot(`${name} ${theme}`);
    }
  }

  // The sidecar.

  /** Kill the window's language server like a crash; return its process ID. */
  async killSidecar(): Promise<number> {
    const one = await until(() => this.world.sidecars().at(-1), "a sidecar runs");
    kill(one.pid, "SIGKILL");
    await until(() => !this.world.sidecars().some(({ pid }) => pid === one.pid), "the sidecar is dead");
    return one.pid;
  }

  // Artifacts.

  /** Save a picture of the window, or of a part of it, under a name. */
  async shot(name: string, part?: Locator): Promise<string> {
    fs.mkdirSync(this.#artifacts, { recursive: true });
    // Move the pointer away from the last pressed element, so that its tooltip is not in the picture.
    await this.page.mouse.move(200, 5);
    const file = path.join(this.#artifacts, `${fileName(name)}.png`);
    await (part ?? this.page).screenshot({ path: file });
    return file;
  }
}

const oneLine = (text: string): string => text.replaceAll(/[\s\u00a0]+/g, " ").trim();
