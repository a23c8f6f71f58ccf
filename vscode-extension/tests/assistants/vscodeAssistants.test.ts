import type { ChatModels } from "../../src/host/host.ts";
import { beforeEach, describe, expect, it, vi } from "vitest";

const MISSING = { lm: undefined, chat: undefined, McpStdioServerDefinition: undefined };
const api = { ...MISSING, Uri: { file: (path: string) => ({ fsPath: path }) } };
vi.mock("vscode", () => api);

const { assistantsOf } = await import("../../src/host/vscode/assistants.ts");

const TOOL = { describe: () => ({ title: "x" }), run: () => Promise.resolve("") };
const SOURCE: ChatModels = {
  models: () => [{ id: "a", name: "A", detail: "d", family: "f", inputTokens: 1, outputTokens: 2 }],
  onDidChange: () => ({ dispose: () => {} }),
  tokens: (text) => text.length,
  answer: (model, messages, add) => {
    add(`${model} ${JSON.stringify(messages)}`);
    return Promise.resolve();
  },
};
const lines: string[] = [];
const assistants = assistantsOf((line) => void lines.push(line));
const registerAll = () => [
  assistants.tool("understudy_show", TOOL),
  assistants.participant("understudy.chat", () => Promise.resolve({})),
  assistants.mcpServers("understudy.mcp", {
    servers: () => Promise.resolve([{ label: "U", command: "/u", args: ["mcp"], cwd: "/w", version: "1" }]),
    onDidChange: () => ({ dispose: () => {} }),
  }),
  assistants.models("understudy", SOURCE),
];

describe("the editor's API for assistants", () => {
  beforeEach(() => {
    Object.assign(api, MISSING);
    lines.length = 0;
  });

  it.each([
    ["no namespaces", {}],
    ["empty namespaces", { lm: {}, chat: {} }],
    ["MCP without its type", { lm: { registerMcpServerDefinitionProvider: () => ({}) } }],
  ])("may be missing: %s", (_, parts) => {
    Object.assign(api, parts);
    expect(registerAll()).toEqual([undefined, undefined, undefined, undefined]);
    expect(lines).toEqual([]);
  });

  it("may refuse, as where chat is turned off", () => {
    const refuse = () => {
      throw new Error("not contributed");
    };
    Object.assign(api, {
      lm: {
        registerTool: refuse,
        registerLanguageModelChatProvider: refuse,
        registerMcpServerDefinitionProvider: refuse,
      },
      chat: { createChatParticipant: refuse },
      McpStdioServerDefinition: Object,
    });
    expect(registerAll()).toEqual([undefined, undefined, undefined, undefined]);
    expect(lines).toHaveLength(4);
  });

  it("gets models that answer with text", async () => {
    class Text {
      readonly value: string;
      constructor(value: string) {
        this.value = value;
      }
    }
    interface Model { id: string }
    let provider!: {
      provideLanguageModelChatInformation(): Model[];
      provideLanguageModelChatResponse(...values: unknown[]): Promise<void>;
      provideTokenCount(model: Model | undefined, text: unknown): Promise<number>;
    };
    const lm = { registerLanguageModelChatProvider: (_: string, given: typeof provider) => ({ dispose: () => (provider = given) }) };
    Object.assign(api, { LanguageModelTextPart: Text, LanguageModelChatMessageRole: { User: 1, Assistant: 2 }, lm });
    registerAll()[3]?.dispose();
    const [model] = provider.provideLanguageModelChatInformation();
    expect(model).toEqual({ id: "a", name: "A", detail: "d", family: "f", version: "1", maxInputTokens: 1, maxOutputTokens: 2, capabilities: {} });
    const said: string[] = [];
    const messages = [{ role: 1, content: [new Text("x"), { other: 1 }, new Text("y")] }, { role: 2, content: [new Text("z")] }];
    const token = { isCancellationRequested: false, onCancellationRequested: () => {} };
    await provider.provideLanguageModelChatResponse(model, messages, {}, { report: ({ value }: Text) => said.push(value) }, token);
    expect(said).toEqual(['a [{"role":"user","text":"xy"},{"role":"assistant","text":"z"}]']);
    expect(await provider.provideTokenCount(model, messages[0])).toBe(2);
  }); // prettier-ignore

  it("gets the engine as a definition, with the folder to work in", async () => {
    let provider: { provideMcpServerDefinitions(): Promise<unknown[]> } | undefined;
    class Definition {
      cwd: unknown;
      readonly values: unknown[];
      constructor(...values: unknown[]) {
        this.values = values;
      }
    }
    const registered = { dispose: () => {} };
    Object.assign(api, {
      McpStdioServerDefinition: Definition,
      lm: {
        registerMcpServerDefinitionProvider: (_: string, given: typeof provider) => {
          provider = given;
          return registered;
        },
      },
    });
    expect(registerAll()[2]).toBe(registered);
    expect(await provider?.provideMcpServerDefinitions()).toEqual([
      expect.objectContaining({ values: ["U", "/u", ["mcp"], {}, "1"], cwd: { fsPath: "/w" } }),
    ]);
  });
});
