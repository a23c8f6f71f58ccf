import { beforeEach, describe, expect, it, vi } from "vitest";

const MISSING = { lm: undefined, chat: undefined, McpStdioServerDefinition: undefined };
const api = { ...MISSING, Uri: { file: (path: string) => ({ fsPath: path }) } };
vi.mock("vscode", () => api);

const { assistantsOf } = await import("../../src/host/vscode/assistants.ts");

const TOOL = { describe: () => ({ title: "x" }), run: () => Promise.resolve("") };
const lines: string[] = [];
const assistants = assistantsOf((line) => void lines.push(line));
const registerAll = () => [
  assistants.tool("understudy_show", TOOL),
  assistants.participant("understudy.chat", () => Promise.resolve({})),
  assistants.mcpServers("understudy.mcp", {
    servers: () => Promise.resolve([{ label: "U", command: "/u", args: ["mcp"], cwd: "/w", version: "1" }]),
    onDidChange: () => ({ dispose: () => {} }),
  }),
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
    expect(registerAll()).toEqual([undefined, undefined, undefined]);
    expect(lines).toEqual([]);
  });

  it("may refuse, as where chat is turned off", () => {
    const refuse = () => {
      throw new Error("not contributed");
    };
    Object.assign(api, {
      lm: { registerTool: refuse, registerMcpServerDefinitionProvider: refuse },
      chat: { createChatParticipant: refuse },
      McpStdioServerDefinition: Object,
    });
    expect(registerAll()).toEqual([undefined, undefined, undefined]);
    expect(lines).toHaveLength(3);
  });

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
