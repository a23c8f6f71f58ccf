// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import type { ComposeDraft, ComposeFile, ComposeOption } from "../../src/compose/composeMessages.ts";
import { ComposePage, type ComposeTransport } from "../../src/composePage/composePage.ts";
import { settled } from "../support/flushPromises.ts";

const CHOICES = {
  recipes: [
    { name: "ask", title: "Ask", writesFile: false },
    { name: "implement", title: "Implement", writesFile: false, defaultDelegator: "slow" },
    { name: "write", title: "Write a file", writesFile: true },
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
const EMPTY: ComposeDraft = { task: "", recipe: "", delegator: "", target: "", files: [], folder: "", options: {} };
const file = (name: string): ComposeFile => ({ uri: `file:///shop/${name}`, name });

let root: HTMLElement;
let sent: { method: string; params: unknown }[];
let draft: ComposeDraft;
let answers: Record<string, () => Promise<unknown>>;

function open(first: Partial<ComposeDraft> = {}): ComposePage {
  const transport = {
    request: (method: string, params: unknown) => {
      sent.push({ method, params });
      return answers[method]?.() ?? Promise.resolve([]);
    },
    changed: (now: ComposeDraft) => void (draft = now),
  };
  return new ComposePage(root, transport as ComposeTransport, {
    draft: { ...EMPTY, ...first },
    choices: CHOICES,
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
  root = document.createElement("div");
  document.body.replaceChildren(root);
  sent = [];
  answers = {};
});

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
    expect(draft).toMatchObject({ recipe: "implement", delegator: "quick" });
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
    expect(sent[0]?.params).toMatchObject({ task: "Do it.", recipe: "implement" });
    fail(new Error("No delegator."));
    await settled();
    expect(root.querySelector("[role=alert]")!.textContent).toBe("No delegator.");
    expect([...root.querySelectorAll("button")].some(({ disabled }) => disabled)).toBe(false);
    await key(field("task"), { key: "Enter" });
    expect(sent).toHaveLength(1);
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
      page.setDraft({ ...EMPTY, delegator: "slow" });
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
