/** An editor for tests: it records what it is told to show, and gives the answers that the test has queued. */

import { mkdtempSync, rmSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import type * as h from "../../src/host/host.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), "understudy-storage-"));
  folders.push(folder);
  return folder;
}

type Answer =
  | { pick: string | readonly string[]; typed?: string; when?: (request: h.PickRequest) => void }
  | { enter: string; when?: (request: h.InputRequest) => void }
  /** The Enter key: the item with the focus, or the text that is in the box. */
  | { key: "Enter" }
  | { back: true }
  | { cancel: true }
  | { press: string; item?: string };

export interface Shown {
  readonly title: string;
  readonly step: number | undefined;
  readonly totalSteps: number | undefined;
  readonly back: boolean;
  readonly value?: string;
  readonly prompt?: string;
  readonly placeholder?: string;
  /** The preselected item of a pick. */
  readonly active?: string;
  readonly items: readonly h.PickItem[];
}

/** A page in a tab: what it was sent, and how it sends and closes. */
export interface FakePanel {
  readonly type: string;
  title: string;
  readonly html: string;
  readonly posted: unknown[];
  revealed: number;
  send(message: unknown): void;
  close(): void;
}

export class FakeHost implements h.Host {
  readonly answers: Answer[] = [];
  /** Buttons of messages to press, in order; when empty, messages are dismissed. */
  readonly buttons: string[] = [];
  /** What the status bar showed for a few seconds. */
  readonly flashes: string[] = [];
  /** Resolves when no panel hides what is behind a message. */
  panelLeft: Promise<void> = Promise.resolve();
  readonly messages: { level: string; text: string; detail?: string }[] = [];
  /** Every quick pick as it was when it was answered. */
  readonly shown: Shown[] = [];
  readonly contexts = new Map<string, unknown>();
  readonly handlers = new Map<string, (...values: unknown[]) => unknown>();
  readonly ran: { id: string; values: unknown[] }[] = [];
  readonly opened: { uri: string; options?: h.ShowOptions }[] = [];
  readonly texts: string[] = [];
  readonly revealed: string[] = [];
  /** Views that got the focus. */
  readonly focused: string[] = [];
  readonly statuses: Parameters<h.StatusItem["set"]>[0][] = [];
  readonly lines: string[] = [];
  /** How often the output channel was shown. */
  outputShown = 0;
  /** The badges of views: the number, and what it means. */
  readonly badges: [number, string][] = [];
  readonly rows = new Map<string, h.TreeDataProvider>();
  readonly settings = new Map<string, unknown>();
  readonly editorSettings = new Map<string, unknown>();
  readonly files = new Map<string, h.VirtualFiles>();
  readonly provided = new Map<string, h.VirtualText>();
  readonly diffs: { title: string; pairs: readonly h.DiffPair[]; options?: h.ShowOptions; tab?: h.DiffsTab }[] = [];
  readonly mergesClosed: string[] = [];
  readonly mergesSaved: string[] = [];
  /** Whether files can be saved. */
  saves = true;
  readonly merges: Parameters<h.ReviewEditors["merge"]>[0][] = [];
  /** The visible bars by ID. */
  readonly bars = new Map<string, { uri: string; content?: Parameters<h.Thread["set"]>[0] }>();
  readonly greyed = new Map<string, (uri: string) => readonly h.GreyedLines[]>();
  /** The user's comments that are shown. */
  comments: readonly h.LineComment[] = [];
  readonly lenses = new Map<string, (uri: string) => readonly h.Lens[]>();
  readonly saved: string[] = [];
  active: h.ActiveEditor | undefined;
  mergeEditor = true;
  readonly found = new Map<string, h.DiagnosticText[]>();
  readonly linksOf = new Map<string, (uri: string, text: string) => readonly h.TextLink[]>();
  readonly foldsOf = new Map<string, (uri: string, text: string) => readonly h.Fold[]>();
  readonly followed: string[] = [];
  readonly panels: FakePanel[] = [];
  /** Open the page of a view, as the editor does when it is shown first. */
  readonly pageViews = new Map<string, () => void>();
  readonly terminalLines: string[] = [];
  /** Title and argument vector of each program that was run. */
  readonly programs: string[][] = [];
  programsSucceed = true;
  pickedFiles: readonly string[] = [];
  /** Glob pattern → the files that are found. */
  readonly foundFiles = new Map<string, readonly string[]>();
  readonly restorers = new Map<string, (state: unknown) => void>();
  readonly progresses: { title: string; reports: string[]; cancel: () => void; over: boolean }[] = [];
  readonly trustGranted = new Emitter<void>();
  readonly foldersChanged = new Emitter<void>();
  readonly settingsChanged = new Emitter<void>();
  readonly visibility = new Emitter<boolean>();
  readonly closed = new Emitter<string>();
  readonly savedOutside = new Emitter<string>();
  readonly closings: { schemes: readonly string[]; titles: readonly string[] }[] = [];
  readonly ownChanged = new Emitter<string>();
  readonly activeChanged = new Emitter<h.ActiveEditor | undefined>();
  readonly selected = new Emitter<h.ActiveEditor>();
  readonly kept = new Map<string, unknown>();
  trusted = true;
  folders: h.Folder[] = [{ uri: "file:///home/ada/greeting", path: "/home/ada/greeting", name: "greeting" }];
  openTexts: h.OpenText[] = [];
  treeVisible = false;
  treeSelection: string[] = [];
  /** The line above the rows of a view. */
  readonly treeMessages = new Map<string, string | undefined>();

  environment: h.Environment = {
    extensionPath: path.join(import.meta.dirname, "../.."),
    extensionVersion: "0.1.0",
    storagePath: newFolder(),
    editorName: "Test",
    editorVersion: "1.100.0",
    platform: process.platform,
    language: "en",
    translations: {},
    variables: process.env,
    homePath: os.homedir(),
    pageAsset: (name) => `/* ${name} */`,
    copyToClipboard: () => Promise.resolve(),
    openExternal: () => Promise.resolve(),
  };

  readonly workspace: h.Workspace = withThis(this, (self) => ({
    get trusted() {
      return self.trusted;
    },
    onDidGrantTrust: self.trustGranted.subscribe,
    get folders() {
      return self.folders;
    },
    onDidChangeFolders: self.foldersChanged.subscribe,
    findFiles: (glob: string) => Promise.resolve(self.foundFiles.get(glob) ?? []),
    setting: <T>(name: string, fallback: T) => (self.settings.get(name) as T | undefined) ?? fallback,
    editorSetting: <T>(name: string, fallback: T) => (self.editorSettings.get(name) as T | undefined) ?? fallback,
    setEditorSetting: (name: string, value: boolean) => {
      self.editorSettings.set(name, value);
      self.settingsChanged.fire();
      return Promise.resolve();
    },
    onDidChangeSettings: self.settingsChanged.subscribe,
  }));

  readonly windows: h.Windows = {
    tree: (viewId, rows) => {
      this.rows.set(viewId, rows);
      return withThis(this, (self) => ({
        get visible() {
          return self.treeVisible;
        },
        get selection() {
          return self.treeSelection;
        },
        onDidChangeVisibility: self.visibility.subscribe,
        reveal: (id: string) => Promise.resolve(void self.revealed.push(id)),
        setMessage: (message: string | undefined) => void self.treeMessages.set(viewId, message),
        setDescription: () => {},
        setBadge: (count: number, tooltip: string) => void self.badges.push([count, tooltip]),
        dispose: () => {},
      }));
    },
    pick: (request) => this.#pick(request),
    input: (request) => this.#input(request),
    message: (level, text, options) => {
      this.messages.push({ level, text, ...(options?.detail === undefined ? {} : { detail: options.detail }) });
      const next = options?.buttons?.find((button) => button === this.buttons[0]);
      if (next !== undefined) this.buttons.shift();
      return Promise.resolve(next);
    },
    flash: (text) => void this.flashes.push(text),
    progress: async (options, task) => {
      const controller = new AbortController();
      const shown = { title: options.title, reports: [] as string[], cancel: () => controller.abort(), over: false };
      this.progresses.push(shown);
      const result = await task({ report: (text) => void shown.reports.push(text), signal: controller.signal });
      shown.over = true;
      return result;
    },
    statusItem: () => ({
      set: (content) => void this.statuses.push(content),
      hide: () => {},
      dispose: () => {},
    }),
    panel: (type, title, html) => this.#panel(type, title, html),
    restorePanels: (type, restore) => {
      this.restorers.set(type, (state) => restore(state, (html) => this.#panel(type, "", html)));
      return { dispose: () => void this.restorers.delete(type) };
    },
    leftPanel: () => this.panelLeft,
    pageView: (viewId, open) => {
      this.pageViews.set(viewId, () => open((html) => this.#panel(viewId, "", html)));
      return { dispose: () => void this.pageViews.delete(viewId) };
    },
    focusView: (viewId) => Promise.resolve(void this.focused.push(viewId)),
    pickFiles: () => Promise.resolve(this.pickedFiles),
    runInTerminal: (_title, line) => void this.terminalLines.push(line),
    runProgram: (title, argv) => void this.programs.push([title, ...argv]),
    runToEnd: (title, commands, folder) => {
      this.programs.push([title, folder, ...commands.map((argv) => argv.join(" "))]);
      return Promise.resolve(this.programsSucceed);
    },
    openFolder: () => Promise.resolve(),
  };

  readonly hints = new Map<string, readonly h.DiagnosticText[]>();
  tabs: readonly string[] = [];
  readonly documents: h.Documents = withThis(this, (self) => ({
    get active() {
      return self.active;
    },
    onDidChangeActive: self.activeChanged.subscribe,
    onDidSelect: self.selected.subscribe,
    get tabs() {
      return self.tabs;
    },
    open: (uris?: readonly string[]) => self.openTexts.filter((text) => (uris ? uris.includes(text.uri) : text.dirty)),
    diagnostics: (uri: string) => self.found.get(uri) ?? [],
    setHints: (uri: string, hints: readonly h.DiagnosticText[]) => void self.hints.set(uri, hints),
    show: (uri: string, options?: h.ShowOptions) =>
      Promise.resolve(void self.opened.push(options ? { uri, options } : { uri })),
    save: (uri: string) => {
      if (!self.saves) return Promise.resolve(false);
      const index = self.openTexts.findIndex((text) => text.uri === uri);
      const text = self.openTexts[index];
      if (text) self.openTexts[index] = { ...text, dirty: false };
      return Promise.resolve(self.saved.push(uri) > 0);
    },
    preview: (uri: string) => Promise.resolve(void self.opened.push({ uri })),
    showText: (text: string) => Promise.resolve(void self.texts.push(text)),
    provide: (scheme: string, source: h.VirtualText) => {
      self.provided.set(scheme, source);
      return { dispose: () => {} };
    },
    provideFiles: (scheme: string, source: h.VirtualFiles) => {
      self.files.set(scheme, source);
      return { dispose: () => {} };
    },
    follow: (uri: string) => void self.followed.push(uri),
    onDidClose: self.closed.subscribe,
    onDidSave: self.savedOutside.subscribe,
    onDidChangeOwn: self.ownChanged.subscribe,
    links: (scheme: string, source: (uri: string, text: string) => readonly h.TextLink[]) => {
      self.linksOf.set(scheme, source);
      return { dispose: () => {} };
    },
    folds: (scheme, source) => {
      this.foldsOf.set(scheme, source);
      return { dispose: () => void this.foldsOf.delete(scheme) };
    },
    edit: () => Promise.resolve(true),
  }));

  /** The title of the active multi-file diff, if that is the active tab. */
  activeDiffs: string | undefined;
  readonly review: h.ReviewEditors = {
    diff: (pair, options) =>
      Promise.resolve(void this.diffs.push({ title: pair.label, pairs: [pair], ...(options ? { options } : {}) })),
    diffs: (title, pairs, tab) => Promise.resolve(void this.diffs.push({ title, pairs, ...(tab ? { tab } : {}) })),
    isActive: (title) => this.activeDiffs === title,
    saveMerge: (output) => Promise.resolve(this.mergesSaved.push(output) > 0 && this.saves),
    closeMerge: (output) => Promise.resolve(void this.mergesClosed.push(output)),
    merge: (sides) => Promise.resolve(this.mergeEditor && this.merges.push(sides) > 0),
    close: (schemes, titles) => Promise.resolve(void this.closings.push({ schemes, titles })),
    lenses: (scheme, source) => {
      this.lenses.set(scheme, (uri) => source.lenses(uri));
      return { dispose: () => {} };
    },
    thread: (id, uri) => {
      const bar: { uri: string; content?: Parameters<h.Thread["set"]>[0] } = { uri };
      this.bars.set(id, bar);
      return { set: (content) => void (bar.content = content), dispose: () => void this.bars.delete(id) };
    },
    grey: (scheme, source) => {
      this.greyed.set(scheme, (uri) => source.lines(uri));
      return { dispose: () => {} };
    },
    comments: () => ({ set: (comments) => void (this.comments = comments) }),
  };

  /** Whether the editor has chat, tools of language models and MCP servers. */
  hasAssistants = true;
  readonly tools = new Map<string, h.LanguageTool>();
  readonly mcpSources = new Map<string, Parameters<h.Assistants["mcpServers"]>[1]>();
  readonly chatModels = new Map<string, h.ChatModels>();
  readonly participants = new Map<string, h.ChatHandler>();
  readonly assistants: h.Assistants = {
    tool: (name, tool) => this.#keep(this.tools, name, tool),
    mcpServers: (id, source) => this.#keep(this.mcpSources, id, source),
    participant: (id, answer) => this.#keep(this.participants, id, answer),
    models: (vendor, source) => this.#keep(this.chatModels, vendor, source),
    modelVendors: () =>
      Promise.resolve([...this.chatModels].flatMap(([vendor, source]) => source.models().map(() => vendor))),
  };

  readonly commands: h.Commands = {
    register: (id, handler) => {
      if (this.handlers.has(id)) throw new Error(`command '${id}' already exists`);
      this.handlers.set(id, handler);
      return { dispose: () => void this.handlers.delete(id) };
    },
    run: (id, ...values) => {
      this.ran.push({ id, values });
      return Promise.resolve(this.handlers.get(id)?.(...values));
    },
    setContext: (key, value) => void this.contexts.set(key, value),
    dispose: () => {},
  };

  readonly output: h.Output = {
    trace: () => {},
    debug: (text) => void this.lines.push(text),
    info: (text) => void this.lines.push(text),
    warn: (text) => void this.lines.push(text),
    error: (text) => void this.lines.push(text),
    show: () => void (this.outputShown += 1),
    tail: (count) => this.lines.slice(-count),
    raw: undefined,
  };

  readonly secrets: h.Secrets = {
    get: (key) => Promise.resolve(this.kept.get(`secret:${key}`) as string | undefined),
    set: (key, value) => Promise.resolve(void this.kept.set(`secret:${key}`, value)),
    delete: (key) => Promise.resolve(void this.kept.delete(`secret:${key}`)),
  };

  readonly memory: h.Memory = {
    get: <T>(key: string, fallback: T) => (this.kept.get(key) as T | undefined) ?? fallback,
    set: (key, value) => Promise.resolve(void this.kept.set(key, value)),
  };

  #keep<T>(where: Map<string, T>, name: string, value: T): { dispose(): void } | undefined {
    if (!this.hasAssistants) return undefined;
    where.set(name, value);
    return { dispose: () => void where.delete(name) };
  }

  #panel(type: string, title: string, html: string): h.Panel {
    const messages = new Emitter<unknown>();
    const closed = new Emitter<void>();
    const panel: FakePanel = {
      type,
      title,
      html,
      posted: [],
      revealed: 0,
      send: (message) => messages.fire(message),
      close: () => closed.fire(),
    };
    this.panels.push(panel);
    return {
      post: (message) => void panel.posted.push(structuredClone(message)),
      onMessage: messages.subscribe,
      onDidClose: closed.subscribe,
      reveal: () => void (panel.revealed += 1),
      setTitle: (text) => void (panel.title = text),
    };
  }

  async #pick(request: h.PickRequest): Promise<h.PickOutcome> {
    const answer = this.#next(request.title);
    let items = request.items;
    if (request.live) await this.#settle(request, (next) => (items = next));
    const { active } = request;
    this.shown.push({ ...shown(request, items), ...(typeof active === "string" ? { active } : {}) });
    if ("back" in answer) return { kind: "back" };
    if ("cancel" in answer) return { kind: "cancelled" };
    if ("press" in answer) {
      return { kind: "button", button: answer.press, ...(answer.item === undefined ? {} : { item: answer.item }) };
    }
    if ("key" in answer) {
      const focused = items.find(({ id }) => id === active) ?? items.find(({ separator }) => !separator);
      if (!focused) throw new Error(`${request.title}: there is no item`);
      return { kind: "picked", ids: [focused.id], typed: "" };
    }
    if (!("pick" in answer)) throw new Error(`${request.title}: a pick was shown, and a text was to be entered`);
    const ids = typeof answer.pick === "string" ? [answer.pick] : [...answer.pick];
    const typed = answer.typed ?? "";
    const typedItem = typed === "" ? undefined : request.typedItem?.(typed);
    for (const id of ids) {
      if (![...items, ...(typedItem ? [typedItem] : [])].some((item) => item.id === id && !item.separator)) {
        throw new Error(`${request.title}: no item ${id} among ${items.map((item) => item.id).join(", ")}`);
      }
    }
    answer.when?.(request);
    return { kind: "picked", ids, typed };
  }

  async #input(request: h.InputRequest): Promise<h.InputOutcome> {
    for (;;) {
      const answer = this.#next(request.title);
      this.shown.push({ ...shown(request, []), value: request.value ?? "", prompt: request.prompt });
      if ("back" in answer) return { kind: "back" };
      if ("cancel" in answer) return { kind: "cancelled" };
      if ("press" in answer && request.button) {
        request.button.press(answer.press);
        return { kind: "cancelled" };
      }
      const value = "key" in answer ? (request.value ?? "") : "enter" in answer ? answer.enter : undefined;
      if (value === undefined) throw new Error(`${request.title}: a text was asked for: ${request.prompt}`);
      const wrong = await request.validate?.(value);
      if ("enter" in answer) answer.when?.(request);
      if (wrong === undefined) return { kind: "accepted", value };
      this.messages.push({ level: "validation", text: wrong });
    }
  }

  /** A user who waits until a list has stopped growing. */
  #settle(request: h.PickRequest, take: (items: readonly h.PickItem[]) => void): Promise<void> {
    return new Promise((resolve) => {
      request.live?.((content) => {
        if (content.items) take(content.items);
        if (content.busy === false) resolve();
      }, new AbortController().signal);
    });
  }

  #next(title: string): Answer {
    const answer = this.answers.shift();
    if (!answer) throw new Error(`${title}: no answer is queued`);
    return answer;
  }
}

function shown(request: h.StepHeader & { placeholder?: string }, items: readonly h.PickItem[]): Shown {
  return {
    title: request.title,
    step: request.step,
    totalSteps: request.totalSteps,
    back: request.back ?? false,
    ...(request.placeholder === undefined ? {} : { placeholder: request.placeholder }),
    items,
  };
}

function withThis<S, T>(self: S, make: (self: S) => T): T {
  return make(self);
}
