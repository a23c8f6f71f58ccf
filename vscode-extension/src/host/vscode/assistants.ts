/** Language-model tools, MCP servers and the chat participant, each only where the editor has that part of the API. */

import * as vscode from "vscode";
import type { Disposable } from "../../base/events.ts";
import { toErrorInfo } from "../../sidecar/connection.ts";
import type * as h from "../host.ts";
import { fromRange, toCommand } from "./convert.ts";

/** What VS Code has since 1.101. */
interface McpDefinition {
  cwd?: vscode.Uri;
}
interface McpApi {
  readonly registerMcpServerDefinitionProvider?: (
    id: string,
    provider: {
      readonly onDidChangeMcpServerDefinitions: (listener: () => unknown, self?: unknown) => Disposable;
      provideMcpServerDefinitions(): Promise<McpDefinition[]>;
    },
  ) => vscode.Disposable;
}
interface McpTypes {
  readonly McpStdioServerDefinition?: new (
    label: string,
    command: string,
    args: string[],
    env: Record<string, string>,
    version: string,
  ) => McpDefinition;
}

/** What VS Code has since 1.104. */
interface ModelInformation {
  readonly id: string;
  readonly name: string;
  readonly family: string;
  readonly version: string;
  readonly detail?: string;
  readonly maxInputTokens: number;
  readonly maxOutputTokens: number;
  readonly capabilities: { readonly toolCalling?: boolean; readonly imageInput?: boolean };
}
interface ModelMessage {
  readonly role: vscode.LanguageModelChatMessageRole;
  readonly content: readonly unknown[];
}
interface ModelApi {
  readonly registerLanguageModelChatProvider?: (
    vendor: string,
    provider: {
      readonly onDidChangeLanguageModelChatInformation: (listener: () => unknown, self?: unknown) => Disposable;
      provideLanguageModelChatInformation(): readonly ModelInformation[];
      provideLanguageModelChatResponse(
        model: ModelInformation,
        messages: readonly ModelMessage[],
        options: unknown,
        progress: vscode.Progress<vscode.LanguageModelTextPart>,
        token: vscode.CancellationToken,
      ): Promise<void>;
      provideTokenCount(model: ModelInformation, text: string | ModelMessage): Promise<number>;
    },
  ) => vscode.Disposable;
}

/** Parts of the API that an editor may leave out, whatever its version. */
interface AssistantApi {
  readonly lm?: Partial<Pick<typeof vscode.lm, "registerTool" | "selectChatModels">> & McpApi & ModelApi;
  readonly chat?: Partial<typeof vscode.chat>;
}

export function assistantsOf(log: (line: string) => void): h.Assistants {
  const api = vscode as unknown as AssistantApi & McpTypes;
  /** An editor in which chat is turned off may have the function, and refuse the call. */
  const attempt = (what: string, register: () => Disposable | undefined): Disposable | undefined => {
    try {
      return register();
    } catch (error) {
      log(`The editor does not take ${what}: ${toErrorInfo(error).message}`);
      return undefined;
    }
  };
  return {
    tool: (name, tool) => attempt(`the tool ${name}`, () => api.lm?.registerTool?.(name, toTool(tool))),
    mcpServers: (id, source) =>
      attempt("MCP servers", () => {
        const Definition = api.McpStdioServerDefinition;
        if (!Definition) return undefined;
        return api.lm?.registerMcpServerDefinitionProvider?.(id, {
          onDidChangeMcpServerDefinitions: (listener, self) => source.onDidChange(() => void listener.call(self)),
          provideMcpServerDefinitions: async () =>
            (await source.servers()).map((one) => {
              const made = new Definition(one.label, one.command, [...one.args], {}, one.version);
              if (one.cwd !== undefined) made.cwd = vscode.Uri.file(one.cwd);
              return made;
            }),
        });
      }),
    models: (vendor, source) =>
      attempt("language models", () =>
        api.lm?.registerLanguageModelChatProvider?.(vendor, {
          onDidChangeLanguageModelChatInformation: (listener, self) =>
            source.onDidChange(() => void listener.call(self)),
          provideLanguageModelChatInformation: () => source.models().map(toModel),
          provideLanguageModelChatResponse: ({ id }, messages, _, progress, token) =>
            source.answer(
              id,
              messages.map(toMessage),
              (text) => progress.report(new vscode.LanguageModelTextPart(text)),
              toSignal(token),
            ),
          provideTokenCount: (_, text) =>
            Promise.resolve(source.tokens(typeof text === "string" ? text : toMessage(text).text)),
        }),
      ),
    modelVendors: async () => ((await api.lm?.selectChatModels?.()) ?? []).map(({ vendor }) => vendor),
    participant: (id, answer) => attempt("the chat participant", () => api.chat?.createChatParticipant?.(id, toHandler(id, answer))), // prettier-ignore
  };
}

function toTool(tool: h.LanguageTool): vscode.LanguageModelTool<unknown> {
  return {
    prepareInvocation: ({ input }) => {
      const { title, question } = tool.describe(input);
      const asked = question && { title: question.title, message: new vscode.MarkdownString(question.text) };
      return { invocationMessage: title, ...(asked ? { confirmationMessages: asked } : {}) };
    },
    invoke: async ({ input }, token) => {
      const text = await tool.run(input, toSignal(token));
      return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(text)]);
    },
  };
}

function toModel({ id, name, detail, family, inputTokens, outputTokens }: h.ChatModel): ModelInformation {
  const limits = { maxInputTokens: inputTokens, maxOutputTokens: outputTokens };
  return { id, name, detail, family, version: "1", ...limits, capabilities: {} };
}

function toMessage({ role, content }: ModelMessage): h.ChatMessage {
  const texts = content.flatMap((part) => (part instanceof vscode.LanguageModelTextPart ? [part.value] : []));
  const isUser = role === vscode.LanguageModelChatMessageRole.User;
  return { role: isUser ? "user" : "assistant", text: texts.join("") };
}

function toHandler(id: string, answer: h.ChatHandler): vscode.ChatRequestHandler {
  return async (request, context, stream, token) => {
    const { remember, error } = await answer(
      {
        prompt: request.prompt,
        ...(request.command === undefined ? {} : { command: request.command }),
        files: request.references.flatMap(({ value }) => toFile(value) ?? []),
        ...previousOf(id, context.history),
      },
      {
        markdown: (text) => stream.markdown(text),
        progress: (text) => stream.progress(text),
        button: (command) => stream.button(toCommand(command)),
      },
      toSignal(token),
    );
    return {
      ...(error === undefined ? {} : { errorDetails: { message: error } }),
      ...(remember === undefined ? {} : { metadata: { remember } }),
    };
  };
}

function toFile(value: unknown): h.ChatRequest["files"][number] | undefined {
  if (value instanceof vscode.Uri) return { uri: value.toString() };
  if (value instanceof vscode.Location) return { uri: value.uri.toString(), range: fromRange(value.range) };
  return undefined;
}

function previousOf(id: string, history: vscode.ChatContext["history"]): { readonly previous?: string } {
  const last = history.findLast((turn) => turn instanceof vscode.ChatResponseTurn && turn.participant === id);
  const remember: unknown = (last as vscode.ChatResponseTurn | undefined)?.result.metadata?.["remember"];
  return typeof remember === "string" ? { previous: remember } : {};
}

function toSignal(token: vscode.CancellationToken): AbortSignal {
  const controller = new AbortController();
  if (token.isCancellationRequested) controller.abort();
  token.onCancellationRequested(() => controller.abort());
  return controller.signal;
}
