/** Which row of a quick pick has the focus, while its rows are set again and again. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { DisposableStore } from "../../src/base/events.ts";
import type { PickContent, PickItem, PickOutcome, PickRequest } from "../../src/host/host.ts";

interface Item {
  readonly id: string;
  readonly label: string;
  readonly kind?: number;
  readonly alwaysShow?: boolean;
}
type Listener<T> = (value: T) => void;
const SEPARATOR = -1;

/** Gives the focus away like VS Code: to the first row, after each change of the rows or of the filter. */
class QuickPick {
  value = "";
  focused: Item | undefined;
  #items: readonly Item[] = [];
  readonly #active: Listener<readonly Item[]>[] = [];
  readonly #values: Listener<string>[] = [];
  readonly #accepts: Listener<void>[] = [];
  #isSet = false;

  onDidChangeActive = (listener: Listener<readonly Item[]>): object => this.#on(this.#active, listener);
  onDidChangeValue = (listener: Listener<string>): object => this.#on(this.#values, listener);
  onDidAccept = (listener: Listener<void>): object => this.#on(this.#accepts, listener);
  onDidTriggerButton = (): object => ({ dispose: () => {} });
  onDidTriggerItemButton = (): object => ({ dispose: () => {} });
  onDidHide = (): object => ({ dispose: () => {} });
  show = (): void => {};
  dispose = (): void => {};

  get items(): readonly Item[] {
    return this.#items;
  }
  set items(items: readonly Item[]) {
    this.#items = items;
    this.#isSet = false;
    // Everything that is set in one turn reaches the list together.
    queueMicrotask(() => this.#isSet || this.#focus(this.visible[0]));
  }
  get activeItems(): readonly Item[] {
    return this.focused ? [this.focused] : [];
  }
  set activeItems([item]: readonly Item[]) {
    this.#isSet = true;
    // A row that the filter hides takes the focus from all rows.
    this.focused = this.visible.find((row) => row === item);
  }
  get visible(): readonly Item[] {
    const isShown = ({ label, alwaysShow }: Item): boolean => alwaysShow === true || label.includes(this.value);
    return this.#items.filter((item) => item.kind !== SEPARATOR && isShown(item));
  }
  down(): void {
    const rows = this.visible;
    this.#focus(rows[(rows.findIndex((row) => row === this.focused) + 1) % rows.length]);
  }
  type(text: string): void {
    this.value += text;
    // A filter that hides all rows changes no focus.
    if (this.visible.length > 0) this.#focus(this.visible[0]);
    for (const listener of this.#values) listener(this.value);
  }
  enter(): void {
    for (const listener of this.#accepts) listener();
  }
  #focus(item: Item | undefined): void {
    this.focused = item;
    for (const listener of this.#active) listener(item ? [item] : []);
  }
  #on<T>(listeners: Listener<T>[], listener: Listener<T>): object {
    listeners.push(listener);
    return { dispose: () => {} };
  }
}

let box: QuickPick;
vi.mock("vscode", () => ({
  QuickPickItemKind: { Separator: SEPARATOR },
  QuickInputButtons: { Back: {} },
  ThemeIcon: class {
    id = "";
  },
  window: {
    createQuickPick: () => (box = new QuickPick()),
    tabGroups: { onDidChangeTabs: () => ({ dispose: () => {} }), onDidChangeTabGroups: () => ({ dispose: () => {} }) },
  },
}));

const { windowsOf } = await import("../../src/host/vscode/windows.ts");

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const rows = (...ids: string[]): PickItem[] => ids.map((id) => ({ id, label: id }));
const HEADING: PickItem = { id: "heading", label: "Agents", separator: true };

describe("the focus of a quick pick", () => {
  let draw: (content: Partial<PickContent>) => Promise<void>;
  let outcome: Promise<PickOutcome>;
  const focused = (): string | undefined => box.focused?.id;

  beforeEach(() => {
    draw = () => Promise.reject(new Error("not shown"));
  });

  async function show(request: Partial<PickRequest>): Promise<void> {
    outcome = windowsOf(new DisposableStore()).pick({
      title: "Pick",
      items: [],
      live: (content) => {
        draw = (next) => {
          content(next);
          return settled();
        };
      },
      ...request,
    });
    await settled();
  }

  it("stays on the current value over every redraw", async () => {
    await show({ active: "server:cheap" });
    await draw({ items: [HEADING, ...rows("tool:claude", "server:cheap")] });
    expect(focused()).toBe("server:cheap");
    await draw({ items: [HEADING, ...rows("tool:claude", "server:other", "server:cheap")] });
    expect(focused()).toBe("server:cheap");
    box.enter();
    expect(await outcome).toMatchObject({ ids: ["server:cheap"] });
  });

  it("goes to the current value when it appears, unless the user has moved", async () => {
    await show({ active: "large", items: rows("standard") });
    expect(focused()).toBe("standard");
    await draw({ items: rows("standard", "small", "large") });
    expect(focused()).toBe("large");

    await show({ active: "large", items: rows("standard", "small") });
    box.down();
    expect(focused()).toBe("small");
    await draw({ items: rows("standard", "small", "large") });
    expect(focused()).toBe("small");
  });

  it("stays where the user has moved it when a server answers", async () => {
    await show({});
    await draw({ items: [HEADING, ...rows("one", "two", "three", "four")] });
    for (let times = 0; times < 3; times += 1) box.down();
    expect(focused()).toBe("four");
    await draw({ items: [HEADING, ...rows("zero", "one", "two", "three", "four")] });
    expect(focused()).toBe("four");
    box.down();
    expect(focused()).toBe("zero");
    await draw({ items: [HEADING, ...rows("new", "zero", "one")] });
    expect(focused()).toBe("zero");
  });

  it("stays on what typing has found, and goes to the typed row if nothing was found", async () => {
    const typedItem = (typed: string): PickItem => ({ id: "typed", label: typed });
    await show({ active: "small-1", items: rows("small-1", "large-1", "large-2"), typedItem });
    box.type("lar");
    await settled();
    expect(focused()).toBe("large-1");
    box.down();
    await draw({ items: rows("small-1", "large-0", "large-1", "large-2") });
    expect(focused()).toBe("large-2");
    box.type("ger");
    await settled();
    expect(focused()).toBe("typed");
    await draw({ items: rows("small-1", "larger") });
    expect(focused()).toBe("typed");
    box.enter();
    expect(await outcome).toMatchObject({ ids: ["typed"], typed: "larger" });

    await show({ active: "standard", items: rows("standard"), typedItem });
    box.type("own");
    await settled();
    expect(focused()).toBe("typed");
  });
});
