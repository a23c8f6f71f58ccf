// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EMPTY_DRAFT, type ComposeDraft, type ComposeFile, type ComposeOption } from "../../src/compose/composeMessages.ts"; // prettier-ignore
import { ComposePage, type ComposeTransport } from "../../src/composePage/composePage.ts";
import { settled } from "../support/flushPromises.ts";

const CHOICES = {
  recipes: [
    { name: "ask", title: "Ask", writesFile: false, takesSelection: true, needs: ["task" as const] },
    { name: "implement", title: "Implement", writesFile: false, takesSelection: true, needs: ["task" as const], defaultDelegator: "slow" }, // prettier-ignore
    { name: "tests", title: "Write tests", writesFile: false, takesSelection: false, needs: ["file" as const] },
    { name: "write", title: "Write a file", writesFile: true, takesSelection: true, needs: ["task" as const] },
  ],
  delegators: [
    { name: "quick", title: "Quick" },
    { name: "slow", title: "Slow" },
  ],
  folders: [
    { name: "file:///shop", title: "shop" },
    { name: "file:///till", title: "till" },
  ],
};
const file = (name: string): ComposeFile => ({ uri: `file:///shop/${name}`, name });

let root: HTMLElement;
let sent: { method: string; params: unknown }[];
let draft: ComposeDraft;
let answers: Record<string, () => Promise<unknown>>;

function open(first: Partial<ComposeDraft> = {}, more: { current?: ComposeFile; isBox?: boolean } = {}): ComposePage {
  const transport = {
    request: (method: string, params: unknown) => {
      sent.push({ method, params });
      return answers[method]?.() ?? Promise.resolve([]);
    },
    changed: (now: ComposeDraft) => void (draft = now),
  };
  return new ComposePage(root, transport as ComposeTransport, {
    draft: { ...EMPTY_DRAFT, ...first },
    choices: CHOICES,
    current: more.current,
    isBox: more.isBox ?? false,
    translations: {},
  });
}

const field = (id: string): HTMLElement => root.querySelector<HTMLElement>(`#${id}`)!;
const press = async (name: string): Promise<void> => {
  const found = [...root.querySelectorAll("button")].find(
    (one) => (one.getAttribute("aria-label") ?? one.textContent) === name,
  );
  found!.click();
  await settled();
};
const key = async (target: HTMLElement, init: KeyboardEventInit): Promise<void> => {
  target.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init }));
  await settled();
};
const chips = (): (string | null)[] => [...root.querySelectorAll(".chips span")].map((one) => one.textContent);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  root = document.createElement("div");
  document.body.replaceChildren(root);
  sent = [];
  answers = {};
});

afterEach(() => void vi.useRealTimers());

describe("the page of a new delegation", () => {
  it("asks for the folder if the window has several and no file says it", async () => {
    answers["page/pickFiles"] = () => Promise.resolve([file("a.py")]);
    const page = open();
    const folder = field("folder") as HTMLSelectElement;
    expect(folder.parentElement!.hidden).toBe(false);
    expect([...folder.options].map(({ text }) => text)).toEqual(["shop", "till"]);
    folder.value = "file:///till";
    folder.dispatchEvent(new Event("change"));
    expect(draft.folder).toBe("file:///till");
    await press("Add Files…");
    expect(folder.parentElement!.hidden).toBe(true);
    await press("Remove a.py");
    expect(folder.parentElement!.hidden).toBe(false);
    page.setChoices({ ...CHOICES, folders: CHOICES.folders.slice(0, 1) });
    expect(folder.parentElement!.hidden).toBe(true);
  });

  it("shows the draft, reports each change, and asks for a path only if the recipe writes a file", () => {
    open({ task: "One\nTwo", delegator: "quick", files: [file("a.py")] });
    expect((field("task") as HTMLTextAreaElement).value).toBe("One\nTwo");
    expect((field("recipe") as HTMLSelectElement).selectedOptions[0]?.text).toBe("Implement (guessed)");
    expect((field("delegator") as HTMLSelectElement).value).toBe("quick");
    expect(field("target").parentElement!.hidden).toBe(true);
    const recipe = field("recipe") as HTMLSelectElement;
    recipe.value = "write";
    recipe.dispatchEvent(new Event("change"));
    expect(field("target").parentElement!.hidden).toBe(false);
    (field("target") as HTMLInputElement).value = "src/x.py";
    field("target").dispatchEvent(new Event("input"));
    expect(draft).toMatchObject({ recipe: "write", target: "src/x.py", task: "One\nTwo" });
    for (const one of root.querySelectorAll<HTMLElement>("textarea, select, input")) {
      expect(root.querySelector(`label[for="${one.id}"]`), one.id).not.toBeNull();
    }
  });

  it("names the default delegator of the recipe, and says when there is none", () => {
    open();
    const first = (): string | undefined => (field("delegator") as HTMLSelectElement).options[0]?.text;
    expect(first()).toBe("Default: Slow");
    const recipe = field("recipe") as HTMLSelectElement;
    recipe.value = "ask";
    recipe.dispatchEvent(new Event("change"));
    expect(first()).toBe("No default: you choose when you delegate");
    expect(draft).toMatchObject({ recipe: "ask", delegator: "" });
  });

  it("adds files once, removes them with the keyboard, and moves the focus to the next", async () => {
    open({ files: [file("a.py"), file("b.py")] });
    answers["page/pickFiles"] = () => Promise.resolve([file("b.py"), file("<i>c</i>.py")]);
    await press("Add Files…");
    expect(chips()).toEqual(["a.py", "b.py", "<i>c</i>.py"]);
    expect(root.querySelector("i")).toBeNull();
    await key(root.querySelector(".chips button")!, { key: "Delete" });
    expect(document.activeElement?.getAttribute("aria-label")).toBe("Remove b.py");
    expect(root.querySelector("[role=status]")!.textContent).toBe("a.py was removed.");
    await key(document.activeElement as HTMLElement, { key: "Backspace" });
    await press("Remove <i>c</i>.py");
    expect(document.activeElement).toBe(field("task"));
    expect(draft.files).toEqual([]);
  });

  it("takes dropped files, and leaves dropped text to the field", async () => {
    open();
    answers["page/droppedFiles"] = () => Promise.resolve([file("d.py")]);
    const drop = async (data: Record<string, string>): Promise<boolean> => {
      const event = new Event("drop", { bubbles: true, cancelable: true });
      Object.assign(event, { dataTransfer: { getData: (type: string) => data[type] ?? "" } });
      root.dispatchEvent(event);
      await settled();
      return event.defaultPrevented;
    };
    expect(await drop({ "text/plain": "file:///x" })).toBe(false);
    expect(await drop({ "text/uri-list": "file:///shop/d.py\r\nhttps://example.test" })).toBe(true);
    expect(sent).toEqual([{ method: "page/droppedFiles", params: { uris: ["file:///shop/d.py"] } }]);
    expect(chips()).toEqual(["d.py"]);
  });

  it("sends with Ctrl+Enter or Cmd+Enter, once at a time, and shows why it failed", async () => {
    open();
    await key(field("task"), { key: "Enter", ctrlKey: true });
    expect(root.querySelector("[role=alert]")!.textContent).toBe("Describe the task.");
    (field("task") as HTMLTextAreaElement).value = "Do it.";
    let fail: (error: Error) => void = () => {};
    answers["page/send"] = () => new Promise((_, reject) => (fail = reject));
    await key(field("task"), { key: "Enter", metaKey: true });
    await key(field("task"), { key: "Enter", ctrlKey: true });
    expect(sent.map(({ method }) => method)).toEqual(["page/send"]);
    expect(sent[0]?.params).toMatchObject({ task: "Do it.", recipe: "" });
    fail(new Error("No delegator."));
    await settled();
    expect(root.querySelector("[role=alert]")!.textContent).toBe("No delegator.");
    expect([...root.querySelectorAll("button")].some(({ disabled }) => disabled)).toBe(false);
    await key(field("task"), { key: "Enter" });
    expect(sent).toHaveLength(1);
  });

  it("starts with Enter in the box, where Shift+Enter begins a line, and guesses the recipe while the user types", async () => {
    open({}, { isBox: true, current: file("a.py") });
    const task = field("task") as HTMLTextAreaElement;
    const recipe = (): string | undefined => (field("recipe") as HTMLSelectElement).selectedOptions[0]?.text;
    const type = (text: string): void => {
      task.value = text;
      task.dispatchEvent(new Event("input"));
    };
    expect(recipe(), "a file without words").toBe("Write tests (guessed)");
    type("Make it faster.");
    expect(recipe()).toBe("Implement (guessed)");
    type("Why is it slow?");
    expect(recipe()).toBe("Ask (guessed)");
    await key(task, { key: "Enter", shiftKey: true });
    await key(task, { key: "Enter", isComposing: true });
    await key(field("recipe"), { key: "Enter" });
    expect(sent).toEqual([]);
    answers["page/send"] = () => Promise.resolve("");
    await key(task, { key: "Enter" });
    expect(sent).toMatchObject([{ method: "page/send", params: { task: "Why is it slow?", recipe: "", files: [] } }]);
    await press("More Options…");
    expect(sent.at(-1)?.method).toBe("page/openTab");
    for (const one of root.querySelectorAll<HTMLElement>("textarea, select, input")) {
      expect(root.querySelector(`label[for="${one.id}"]`), one.id).not.toBeNull();
    }
  });

  it("shows the file of the active editor until it is removed or another one is named", async () => {
    const page = open({}, { current: file("a.py") });
    expect(chips()).toEqual(["a.py"]);
    page.setCurrent({ ...file("b.py"), lines: "3–9" });
    expect(chips(), "the guess, tests, is for whole files").toEqual(["b.py"]);
    (field("task") as HTMLTextAreaElement).value = "Explain it.";
    field("task").dispatchEvent(new Event("input"));
    expect(chips()).toEqual(["b.py:3–9"]);
    await press("Remove b.py");
    expect(chips()).toEqual([]);
    expect(draft.without).toBe("file:///shop/b.py");
    page.setCurrent(file("c.py"));
    answers["page/pickFiles"] = () => Promise.resolve([file("d.py")]);
    await press("Add Files…");
    expect(chips()).toEqual(["d.py"]);
    await press("Remove d.py");
    expect(chips(), "it does not come back by itself").toEqual([]);
  });

  it("lets a recipe that needs a file ask for it, and says what is missing otherwise", async () => {
    open({ recipe: "tests" });
    answers["page/send"] = () => Promise.resolve("");
    await press("Delegate");
    expect(sent.map(({ method }) => method)).toEqual(["page/send"]);
    const recipe = field("recipe") as HTMLSelectElement;
    recipe.value = "ask";
    recipe.dispatchEvent(new Event("change"));
    await press("Delegate");
    expect(sent).toHaveLength(1);
    expect(root.querySelector("[role=alert]")!.textContent).toBe("Describe the task.");
  });

  it("says that pictures are not attached", async () => {
    open();
    const alert = (): string | null => root.querySelector("[role=alert]")!.textContent;
    const paste = new Event("paste", { bubbles: true });
    Object.assign(paste, { clipboardData: { files: [{ type: "image/png" }] } });
    root.dispatchEvent(paste);
    expect(alert()).toContain("Pictures are not attached");
    answers["page/droppedFiles"] = () => Promise.resolve([file("d.py")]);
    const drop = new Event("drop", { bubbles: true, cancelable: true });
    const uris = "file:///shop/a.PNG\nfile:///shop/d.py";
    Object.assign(drop, {
      dataTransfer: { files: [], getData: (type: string) => (type === "text/uri-list" ? uris : "") },
    });
    root.dispatchEvent(drop);
    await settled();
    expect(sent).toEqual([{ method: "page/droppedFiles", params: { uris: ["file:///shop/d.py"] } }]);
    expect(alert()).toContain("Pictures are not attached");
  });

  describe("while the user types", () => {
    it("completes a file after @ with the keyboard, and attaches it", async () => {
      open({}, { isBox: true });
      const task = field("task") as HTMLTextAreaElement;
      const list = field("found");
      answers["page/findFiles"] = () => Promise.resolve([file("shop/total.py"), file("tools/to.py")]);
      const type = async (text: string, at = text.length): Promise<void> => {
        task.value = text;
        task.setSelectionRange(at, at);
        task.dispatchEvent(new Event("input"));
        await vi.advanceTimersByTimeAsync(200);
      };
      const press = (name: string): boolean =>
        task.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
      await type("mail me@to");
      expect(list.hidden, "an address").toBe(true);
      await type("Test @to now", 8);
      expect(sent.at(-1)).toEqual({ method: "page/findFiles", params: { text: "to" } });
      expect([...list.children].map((row) => row.getAttribute("aria-label"))).toEqual(["shop/total.py", "tools/to.py"]);
      press("ArrowDown");
      expect(task.getAttribute("aria-activedescendant")).toBe("found-1");
      expect(list.children[1]?.getAttribute("aria-selected")).toBe("true");
      press("ArrowDown");
      press("Enter");
      await vi.advanceTimersByTimeAsync(0);
      expect(task.value).toBe("Test shop/total.py now");
      expect(list.hidden).toBe(true);
      expect(draft.files.map(({ name }) => name)).toEqual(["shop/total.py"]);
      expect(sent.some(({ method }) => method === "page/send")).toBe(false);
      await type("@");
      press("Escape");
      expect(list.hidden).toBe(true);
    });

    it("estimates the cost when the user stops typing, if there is something to send", async () => {
      open();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(sent).toEqual([]);
      answers["page/estimate"] = () => Promise.resolve("quick · ~$0.02");
      const task = field("task") as HTMLTextAreaElement;
      for (const text of ["D", "Do", "Do it."]) {
        task.value = text;
        task.dispatchEvent(new Event("input"));
        await vi.advanceTimersByTimeAsync(300);
      }
      await vi.advanceTimersByTimeAsync(1_000);
      expect(sent).toMatchObject([{ method: "page/estimate", params: { task: "Do it." } }]);
      expect(field("estimate").textContent).toBe("quick · ~$0.02");
    });

    it("estimates again for another file, but not for another selection", async () => {
      const page = open({ task: "Do it." }, { current: file("a.py") });
      const move = async (current: ComposeFile): Promise<number> => {
        page.setCurrent(current);
        await vi.advanceTimersByTimeAsync(1_000);
        return sent.length;
      };
      expect(await move(file("a.py"))).toBe(1);
      expect(await move({ ...file("a.py"), lines: "3–9" })).toBe(1);
      expect(await move(file("b.py"))).toBe(2);
    });
  });

  it("leads to the transcript of what it has started", async () => {
    open();
    const link = (): HTMLButtonElement | undefined =>
      [...root.querySelectorAll("button")].find((one) => one.textContent === "Open Transcript" && !one.hidden);
    (field("task") as HTMLTextAreaElement).value = "Do it.";
    answers["page/send"] = () => Promise.resolve("");
    await key(field("task"), { key: "Enter", ctrlKey: true });
    expect(link()).toBeUndefined();
    answers["page/send"] = () => Promise.resolve("20261121-020000-aaaaa");
    await key(field("task"), { key: "Enter", ctrlKey: true });
    link()?.click();
    expect(sent.at(-1)).toEqual({ method: "page/openTranscript", params: { id: "20261121-020000-aaaaa" } });
    answers["page/send"] = () => Promise.reject(new Error("No delegator."));
    await key(field("task"), { key: "Enter", ctrlKey: true });
    expect(link()).toBeUndefined();
  });

  describe("options", () => {
    const MODEL: ComposeOption = {
      id: "delegator.model",
      title: "Model",
      description: "Which model.",
      placeholder: "",
      own: "sonnet",
      listsModels: true,
    };
    const MODE: ComposeOption = {
      ...MODEL,
      id: "delegator.mode",
      title: "Mode",
      own: "",
      listsModels: false,
      choices: [{ value: "acp", title: "ACP", description: "Over ACP." }],
    };
    const section = (): HTMLDetailsElement => field("options") as HTMLDetailsElement;
    const unfold = async (): Promise<void> => {
      section().open = true;
      section().dispatchEvent(new Event("toggle"));
      await settled();
    };
    const enter = async (id: string, value: string): Promise<void> => {
      const target = field(id) as HTMLInputElement;
      target.value = value;
      target.dispatchEvent(new Event("input"));
      target.dispatchEvent(new Event("change"));
      await settled();
    };
    beforeEach(() => {
      answers["page/options"] = () => Promise.resolve([MODEL, MODE]);
      answers["page/models"] = () => Promise.resolve(["opus", "sonnet"]);
      answers["page/checkOptions"] = () => Promise.resolve({});
    });

    it("asks for nothing while it is closed, and names what is missing", async () => {
      open();
      expect(section().open).toBe(false);
      expect(sent).toEqual([]);
      await unfold();
      expect(section().textContent).toContain("Choose a delegator to change its options");
      expect(sent).toEqual([]);
      answers["page/options"] = () => Promise.resolve([]);
      const list = field("delegator") as HTMLSelectElement;
      list.value = "quick";
      list.dispatchEvent(new Event("change"));
      await settled();
      expect(section().textContent).toContain("This delegator has no options");
    });

    it("shows a labelled field for each, stores what is changed, and shows at the field why it is refused", async () => {
      open({ delegator: "quick" });
      await unfold();
      const model = field("option-delegator-model") as HTMLInputElement;
      expect(model.placeholder).toBe("As configured: sonnet");
      expect([...root.querySelectorAll("datalist option")].map((one) => one.getAttribute("value"))).toEqual([
        "opus",
        "sonnet",
      ]);
      expect(model.getAttribute("list")).toBe(root.querySelector("datalist")!.id);
      for (const one of root.querySelectorAll<HTMLElement>("#options input, #options select")) {
        expect(root.querySelector(`label[for="${one.id}"]`), one.id).not.toBeNull();
        for (const id of one.getAttribute("aria-describedby")!.split(" ")) expect(field(id), id).not.toBeNull();
      }
      answers["page/checkOptions"] = () => Promise.resolve({ "delegator.model": "No such model." });
      await enter("option-delegator-model", "wrong");
      expect(draft.options).toEqual({ "delegator.model": "wrong" });
      expect(root.querySelector("summary")!.textContent).toBe("Options (1 changed)");
      expect(model.getAttribute("aria-invalid")).toBe("true");
      expect(field("option-delegator-model-problem").textContent).toBe("No such model.");
      answers["page/checkOptions"] = () => Promise.resolve({});
      await enter("option-delegator-model", "");
      expect(draft.options).toEqual({});
      expect(model.getAttribute("aria-invalid")).toBe("false");
      expect(root.querySelector("summary")!.textContent).toBe("Options");
    });

    it("draws the fields again when a value changes which there are, and keeps the focus", async () => {
      open({ delegator: "quick", options: { "delegator.model": "opus" } });
      expect(section().open).toBe(true);
      section().dispatchEvent(new Event("toggle"));
      await settled();
      expect((field("option-delegator-model") as HTMLInputElement).value).toBe("opus");
      expect(sent.filter(({ method }) => method === "page/options")).toHaveLength(1);
      field("option-delegator-mode").focus();
      answers["page/options"] = () => Promise.resolve([MODE]);
      expect(field("option-delegator-mode-hint").textContent).toBe("Which model.");
      await enter("option-delegator-mode", "acp");
      expect(field("option-delegator-mode-hint").textContent).toBe("Over ACP.");
      expect(root.querySelector("#option-delegator-model")).toBeNull();
      expect(document.activeElement).toBe(field("option-delegator-mode"));
      expect(draft.options).toEqual({ "delegator.model": "opus", "delegator.mode": "acp" });
    });

    it("forgets them with the delegator, and after a start", async () => {
      const page = open({ delegator: "quick", options: { "delegator.model": "opus" } });
      await settled();
      const list = field("delegator") as HTMLSelectElement;
      list.value = "slow";
      list.dispatchEvent(new Event("change"));
      await settled();
      expect(draft).toMatchObject({ delegator: "slow", options: {} });
      await enter("option-delegator-model", "haiku");
      page.setDraft({ ...EMPTY_DRAFT, delegator: "slow" });
      await settled();
      expect((field("option-delegator-model") as HTMLInputElement).value).toBe("");
    });

    it("says why the options cannot be read, and tries again when opened again", async () => {
      answers["page/options"] = () => Promise.reject(new Error("No engine."));
      open({ delegator: "quick" });
      await unfold();
      expect(section().textContent).toContain("No engine.");
      answers["page/options"] = () => Promise.resolve([MODEL]);
      await unfold();
      expect(field("option-delegator-model")).not.toBeNull();
    });
  });
});
