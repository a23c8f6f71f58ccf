import type { Step, StepResult } from "../base/wizard.ts";
import { t } from "../base/l10n.ts";
import type { Host, Folder, PickItem } from "../host/host.ts";
import type {
  Delegator,
  DelegatorEntry,
  Model,
  ModelServerEntry,
  ServerPreset,
  SupportedOption,
  ToolEntry,
  ConnectionTest,
} from "../protocol.ts";
import { SidecarError, toErrorInfo, type Requester } from "../sidecar/connection.ts";
import { installAgent } from "./installAgent.ts";
import { VALID_NAME } from "./names.ts";
import { scopeQuestion, USER_SCOPE } from "../state/saveScope.ts";
import { addModelServer, createFromPreset, setKey } from "./modelServers.ts";
import {
  checkValue,
  choicesOf,
  getValue,
  optionsFor,
  plainDescription,
  shortDescription,
  setValue,
  supportedBy,
  withSupportedOptions,
  type Option,
} from "../state/delegatorOptions.ts";

export interface AddDelegatorDeps {
  readonly requester: Requester;
  readonly windows: Pick<Host["windows"], "pick" | "input" | "message" | "progress" | "runInTerminal">;
  /** Names that are already used. */
  readonly names: () => ReadonlySet<string>;
  /** Folders to save in: empty in an untrusted window. */
  readonly folders: () => readonly Folder[];
  /** Paths below it are shown with `~`. */
  readonly homePath: string;
  readonly environment: Pick<Host["environment"], "openExternal" | "copyToClipboard">;
  readonly commands: Pick<Host["commands"], "run">;
  /** Gets the outcome of each test of a saved delegator: why it failed. */
  readonly tested?: (entry: DelegatorEntry, failure: string | undefined) => void;
  /** Gets the steps of failed tests. */
  readonly output: Pick<Host["output"], "warn" | "show">;
}

/** Cannot be the name of a model. */
export const RETRY_ID = " again";
export type Question = "source" | "command" | "model" | "options" | "name" | "scope";

/** The folder whose configuration applies. */
export interface WorkspaceParam {
  readonly workspace?: string;
}

export interface Draft {
  readonly delegator: Delegator;
  readonly scope: "user" | "workspace";
  /** URI of the folder to save in, or whose configuration applies to the test. */
  readonly folder?: string;
  /** The entry to edit. */
  readonly entry?: DelegatorEntry;
}

/** State that the questions share besides the answers. */
export interface WizardContext extends AddDelegatorDeps {
  /** Model server → the folder whose configuration defines it. */
  readonly listedFrom: Map<string, WorkspaceParam>;
  /** All model servers of these configurations. */
  listedServers: readonly ModelServerEntry[];
  /** Model servers added during this run. */
  readonly createdServers: ModelServerEntry[];
}

export function canChooseScope(deps: AddDelegatorDeps, draft: Draft): boolean {
  return draft.entry === undefined && deps.folders().length > 0;
}

export function createSteps(
  deps: WizardContext,
  entry: DelegatorEntry | undefined,
): Record<Question, Step<Draft, Question>> {
  const title = entry ? t("Edit Delegator {0}", entry.delegator.name) : t("Add Delegator");
  return {
    source: askSource(deps, title),
    command: askCommand(deps, title),
    model: askModel(deps, title),
    options: askOptions(deps, title),
    name: askName(deps, title),
    scope: askScope(deps, title),
  };
}

function askSource(deps: WizardContext, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    let tools: readonly ToolEntry[] = [];
    let servers: readonly ModelServerEntry[] = [];
    let running: readonly ServerPreset[] = [];
    const connectionTests = new Map<string, ConnectionTest>();
    let repair: SidecarError["repair"];
    const current = draft.delegator.tool
      ? `tool:${draft.delegator.tool}`
      : draft.delegator.modelServer
        ? `server:${draft.delegator.modelServer}`
        : undefined;
    const fill = async (
      show: (content: { items: readonly PickItem[]; busy: boolean }) => void,
      signal: AbortSignal,
    ): Promise<void> => {
      const draw = (busy: boolean): void => {
        const items = sourceItems({ tools, servers, running, connectionTests, homePath: deps.homePath });
        show({ items: withCurrent(items, current, tools), busy });
      };
      const [foundTools, foundServers, foundPresets] = await Promise.allSettled([
        deps.requester.request("understudy/tools/list", { refresh: true }, signal),
        listServers(deps, signal),
        deps.requester.request("understudy/modelServers/presets", {}, signal),
      ]);
      if (foundTools.status === "rejected" && foundServers.status === "rejected") {
        // Nothing can be added, for example because the engine is not installed.
        const error: unknown = foundTools.reason;
        if (error instanceof SidecarError) ({ repair } = error);
        const { message } = toErrorInfo(error);
        const label = repair?.title ?? t("Retry");
        const icon = repair ? "tools" : "refresh";
        if (!signal.aborted) show({ items: [{ id: RETRY_ID, label, icon, detail: message }], busy: false });
        return;
      }
      if (foundTools.status === "fulfilled") ({ tools } = foundTools.value);
      if (foundServers.status === "fulfilled") deps.listedServers = servers = foundServers.value;
      if (foundPresets.status === "fulfilled") running = notConfigured(foundPresets.value.presets, servers);
      draw(servers.length > 0);
      await Promise.all(
        servers.map(async ({ modelServer: { name } }) => {
          try {
            const where = deps.listedFrom.get(name);
            connectionTests.set(
              name,
              await deps.requester.request("understudy/modelServers/test", { name, ...where }, signal),
            );
          } catch (error) {
            const { message } = toErrorInfo(error);
            connectionTests.set(name, { ok: false, steps: [{ name: "endpoint", ok: false, message, seconds: 0 }] });
          }
          if (!signal.aborted) draw(true);
        }),
      );
      if (!signal.aborted) draw(false);
    };
    const outcome = await deps.windows.pick({
      ...place,
      title,
      placeholder: t("Choose an agent or a model server"),
      items: [],
      busy: true,
      ...(current === undefined ? {} : { active: current }),
      live: (show, signal) => void fill(show, signal),
    });
    if (outcome.kind !== "picked") return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
    const chosen = outcome.ids[0] ?? "";
    if (chosen === RETRY_ID) {
      if (repair) await deps.commands.run(repair.command);
      return { kind: "again", state: draft };
    }
    const found = running.find(({ kind }) => chosen === `running:${kind}`);
    if (found || chosen === "new-server") {
      const made = found ? await createFromPreset(deps, found) : await addModelServer(deps);
      if (!made) return { kind: "again", state: draft };
      deps.createdServers.push(made);
      return { kind: "next", to: "model", state: withSource(draft, { modelServer: made.modelServer.name }) };
    }
    const name = chosen.slice(chosen.indexOf(":") + 1);
    if (!chosen.startsWith("server:")) {
      const listed = tools.find((tool) => tool.name === name);
      if (chosen === current && !listed) return { kind: "next", to: "model", state: draft };
      const tool = chosen.startsWith("install:") && listed ? await installAgent(deps, listed) : listed;
      return tool ? fromTool(draft, tool, tools.find(isCustom)) : { kind: "again", state: draft };
    }
    const wrong = connectionTests.get(name)?.steps.find((step) => !step.ok);
    if (wrong?.name === "key") await setKey(deps, name, deps.listedFrom.get(name));
    return { kind: "next", to: "model", state: withSource(draft, { modelServer: name }) };
  };
}

function fromTool(draft: Draft, tool: ToolEntry, generic: ToolEntry | undefined): StepResult<Draft, Question> {
  if (tool.runnable || !generic) {
    const to = isCustom(tool) ? "command" : "model";
    return { kind: "next", to, state: withSource(draft, { tool: tool.name }) };
  }
  // An agent that Understudy cannot drive by itself: start with the command that is known, or with its program.
  const state = withSource(draft, { tool: generic.name });
  const command = tool.command ?? [tool.path ?? tool.name, "{prompt}"];
  const delegator = state.delegator.launch?.command ? state.delegator : { ...state.delegator, launch: { command } };
  return { kind: "next", to: "command", state: { ...state, delegator } };
}

/** For another source keep only what applies to it: the sidecar would refuse the rest. */
function withSource(draft: Draft, source: { tool?: string; modelServer?: string }): Draft {
  const { tool, modelServer, name, displayName, limits } = draft.delegator;
  if ((tool ?? undefined) === source.tool && (modelServer ?? undefined) === source.modelServer) return draft;
  // A tool may also use a model server. That pairing is configured in the file; keep it while the tool is the same.
  if (source.tool !== undefined && tool === source.tool) return draft;
  const kept: Delegator = { name, ...(displayName ? { displayName } : {}), ...(limits ? { limits } : {}) };
  return { ...draft, delegator: { ...kept, ...source } };
}

interface Sources {
  readonly tools: readonly ToolEntry[];
  readonly servers: readonly ModelServerEntry[];
  /** Model servers on this machine that are not configured. */
  readonly running: readonly ServerPreset[];
  readonly connectionTests: ReadonlyMap<string, ConnectionTest>;
  readonly homePath: string;
}

/** Agents on this machine, agents to install, model servers, and last what the user has to describe. */
function sourceItems({ tools, servers, running, connectionTests, homePath }: Sources): PickItem[] {
  const custom = tools.filter((tool) => tool.runnable && isCustom(tool));
  const agents = tools.filter((tool) => !custom.includes(tool));
  // Tools without a program of their own last, then those that can only be run as a command.
  const rank = (tool: ToolEntry): number => (tool.runnable ? Number(tool.path === undefined) : 2);
  const usable = agents.filter(({ found }) => found).sort((one, other) => rank(one) - rank(other));
  const missing = agents
    .filter((tool) => !tool.found && (tool.runnable || tool.install))
    .sort((one, other) => Number(other.runnable) - Number(one.runnable));
  const items: PickItem[] = [];
  if (usable.length > 0) items.push(heading(t("Agents on this machine")));
  for (const tool of usable) {
    const asCommand = tool.command ? t("Runs as a custom command.") : t("Runs as a custom command, which you enter.");
    const detail = tool.runnable ? toolDetail(tool, homePath) : asCommand;
    items.push({
      id: tool.runnable ? `tool:${tool.name}` : `agent:${tool.name}`,
      label: tool.displayName,
      icon: "terminal",
      ...(tool.version === undefined ? {} : { description: tool.version }),
      ...(detail === undefined ? {} : { detail }),
    });
  }
  if (missing.length > 0) items.push(heading(t("Agents to install")));
  for (const tool of missing) {
    const problem = tool.problems[0];
    items.push({
      id: tool.install === undefined ? `tool:${tool.name}` : `install:${tool.name}`,
      label: tool.install === undefined ? tool.displayName : t("Install {0}…", tool.displayName),
      icon: "cloud-download",
      detail: problem
        ? [problem.message, problem.hint ?? ""].join(" ").trim()
        : (tool.install?.about ?? t("Not found on PATH.")),
    });
  }
  items.push(heading(t("Model servers")));
  for (const { modelServer, state } of servers) {
    const connectionTest = connectionTests.get(modelServer.name);
    const wrong = connectionTest?.steps.find((step) => !step.ok)?.message ?? state.problems[0]?.message;
    items.push({
      id: `server:${modelServer.name}`,
      label: modelServer.displayName ?? modelServer.name,
      icon: connectionTest ? (connectionTest.ok ? "pass" : "warning") : "server",
      description: modelServer.baseUrl,
      ...(wrong === undefined ? {} : { detail: wrong }),
    });
  }
  for (const { kind, title, baseUrl, models = [] } of running) {
    const names = models.join(", ");
    const detail = names === "" ? t("Running on this machine") : t("Running on this machine: {0}", names);
    items.push({ id: `running:${kind}`, label: title, icon: "server", description: baseUrl, detail });
  }
  items.push({ id: "new-server", label: t("Add Model Server…"), icon: "add" });
  if (custom.length > 0) items.push(heading(t("Any other program")));
  for (const { name, description } of custom) {
    const detail = description === undefined ? {} : { detail: description };
    items.push({ id: `tool:${name}`, label: t("Custom Command…"), icon: "terminal", ...detail });
  }
  return items;
}

/** Add what the delegator uses now, if it is not among the items: it cannot be found, or is no longer configured. */
function withCurrent(
  items: readonly PickItem[],
  current: string | undefined,
  tools: readonly ToolEntry[],
): readonly PickItem[] {
  if (current === undefined || items.some(({ id }) => id === current)) return items;
  const name = current.slice(current.indexOf(":") + 1);
  const label = tools.find((tool) => tool.name === name)?.displayName ?? name;
  const detail = t("This delegator uses it now. It was not found.");
  return [{ id: current, label, icon: "warning", detail }, ...items];
}

/** A tool that is nothing but the command of the user. */
function isCustom({ supports }: ToolEntry): boolean {
  return supports?.launch.some(isCommand) ?? false;
}

const isCommand = ({ required, slots }: SupportedOption): boolean => required === true && slots !== undefined;

/** The presets that run on this machine and have no entry with their address. */
function notConfigured(presets: readonly ServerPreset[], servers: readonly ModelServerEntry[]): ServerPreset[] {
  const known = new Set(servers.map(({ modelServer }) => modelServer.baseUrl.replace(/\/+$/u, "")));
  return presets.filter(({ running, baseUrl }) => running && !known.has(baseUrl.replace(/\/+$/u, "")));
}

/** Ask for the command of a tool that is nothing else. */
function askCommand(deps: WizardContext, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const known = await deps.requester.request("understudy/tools/list", {});
    const option = optionsFor(draft.delegator, supportedBy(draft.delegator, undefined, known)).find(isCommand);
    if (!option) return { kind: "next", to: "model", state: draft };
    const slots = (option.slots ?? []).map(({ value, title: meaning }) => `${value} (${meaning})`).join(", ");
    const outcome = await deps.windows.input({
      ...place,
      title,
      prompt: t("Program and arguments. Placeholders: {0}.", slots),
      value: getValue(option, draft.delegator),
      ...(option.placeholder === undefined ? {} : { placeholder: option.placeholder }),
      validate: (text) => checkValue(option, text.trim()),
    });
    if (outcome.kind !== "accepted") return { kind: outcome.kind };
    const delegator = setValue(option, draft.delegator, outcome.value.trim());
    const usesModel = delegator.launch?.command?.some((word) => word.includes("{model}")) ?? false;
    return { kind: "next", to: usesModel ? "model" : "options", state: { ...draft, delegator } };
  };
}

/** What the tool does, or where it is installed. */
function toolDetail({ description, path }: ToolEntry, homePath: string): string | undefined {
  return description ?? (path?.startsWith(`${homePath}/`) ? `~${path.slice(homePath.length)}` : path);
}

function askModel(deps: WizardContext, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const { tool, modelServer } = draft.delegator;
    const server = tool ? undefined : (modelServer ?? undefined);
    const current = draft.delegator.model ?? "";
    const standard: PickItem = {
      id: "",
      label: t("Default model of the tool"),
      icon: "star",
    };
    // The current model is there at once, and also if it is not listed.
    const itemsWith = (others: readonly PickItem[]): PickItem[] => [
      ...(current === "" || others.some(({ id }) => id === current) ? [] : [{ id: current, label: current }]),
      ...(server ? [] : [standard]),
      ...others,
    ];
    const outcome = await deps.windows.pick({
      ...place,
      title,
      placeholder: server ? t("Choose a model on {0}, or type a name", server) : t("Choose a model, or type a name"),
      items: itemsWith([]),
      busy: true,
      active: current,
      typedItem: (typed) => ({ id: "typed", label: typed, icon: "edit", description: t("as typed") }),
      live: (show, signal) => {
        void (async () => {
          try {
            const models = server
              ? (
                  await deps.requester.request(
                    "understudy/modelServers/models",
                    { name: server, ...deps.listedFrom.get(server) },
                    signal,
                  )
                ).models
              : [];
            show({ items: itemsWith(models.map(modelItem)), busy: false });
          } catch (error) {
            // Show errors as a row: a placeholder is truncated at the end of the box.
            const { message } = toErrorInfo(error);
            const again: PickItem = { id: RETRY_ID, label: t("Retry"), icon: "refresh", detail: message };
            show({
              items: itemsWith([again]),
              busy: false,
              placeholder: t("Type the name of a model."),
            });
          }
        })();
      },
    });
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const chosen = outcome.ids[0] ?? "";
    if (chosen === RETRY_ID) return { kind: "again", state: draft };
    const model = chosen === "typed" ? outcome.typed : chosen;
    if (model === "" && server) return { kind: "again", state: draft };
    return { kind: "next", to: "options", state: { ...draft, delegator: { ...draft.delegator, model } } };
  };
}

function modelItem(model: Model): PickItem {
  const facts = [
    model.contextTokens === undefined ? "" : t("{0}-token context", model.contextTokens.toLocaleString()),
    model.price?.input === undefined
      ? ""
      : t("${0} in, ${1} out per million tokens", model.price.input, model.price.output ?? "?"),
  ].filter((fact) => fact !== "");
  return { id: model.id, label: model.id, ...(facts.length > 0 ? { description: facts.join(" · ") } : {}) };
}

function askOptions(deps: WizardContext, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const { delegator } = draft;
    const known = await deps.requester.request("understudy/tools/list", {});
    const server = [...deps.createdServers, ...deps.listedServers].find(
      ({ modelServer }) => modelServer.name === delegator.modelServer,
    )?.modelServer;
    // The model has a question of its own.
    const options = optionsFor(delegator, supportedBy(delegator, server, known)).filter(({ name }) => name !== "model");
    const missing = options.filter((option) => option.required && getValue(option, delegator) === "");
    const outcome = await deps.windows.pick({
      ...place,
      title,
      placeholder: missing[0]
        ? t("{0} is required. All other options are optional.", missing[0].title)
        : t("You can skip all of these."),
      active: missing[0]?.name ?? "",
      items: [
        ...(missing.length > 0 ? [] : [{ id: "", label: t("Continue"), icon: "arrow-right" }, heading("")]),
        ...options.map((option) => ({
          id: option.name,
          label: option.title,
          description: valueText(option, delegator),
          detail: shortDescription(option),
        })),
      ],
    });
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const option = outcome.ids[0] ?? "";
    if (option === "") return { kind: "next", to: "name", state: draft };
    const asked = options.find(({ name }) => name === option);
    if (!asked) return { kind: "again", state: draft };
    const answered = await askOption(deps, title, asked)(draft, { ...place, back: true });
    if (answered.kind === "cancelled") return answered;
    if (answered.kind === "back" || answered.kind === "next") return { kind: "again", state: draft };
    if (asked.group !== "delegator") return answered;
    const changed = answered.state.delegator;
    const kept = withSupportedOptions(changed, supportedBy(changed, server, known));
    return { kind: "again", state: { ...answered.state, delegator: kept } };
  };
}

/** The value of an option as the user has seen it. */
function valueText(option: Option, delegator: Delegator): string {
  const value = getValue(option, delegator);
  if (value === "") return option.required ? t("required") : t("not set");
  return choicesOf(option)?.find((choice) => choice.value === value)?.title ?? value;
}

function askOption(deps: AddDelegatorDeps, title: string, option: Option): Step<Draft, Question> {
  return async (draft, place) => {
    const value = getValue(option, draft.delegator);
    const prompt = `${option.title}: ${plainDescription(option)}`;
    const taken = (text: string): { kind: "again"; state: Draft } => ({
      kind: "again",
      state: { ...draft, delegator: setValue(option, draft.delegator, text) },
    });
    const choices = choicesOf(option);
    if (choices) {
      const outcome = await deps.windows.pick({
        ...place,
        title,
        placeholder: prompt,
        active: value,
        items: [
          { id: "", label: t("Not set"), icon: "circle-slash" },
          ...choices.map((choice) => ({
            id: choice.value,
            label: choice.title,
            ...(choice.description === undefined ? {} : { detail: choice.description }),
          })),
        ],
      });
      if (outcome.kind === "picked") return taken(outcome.ids[0] ?? "");
      return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
    }
    const outcome = await deps.windows.input({
      ...place,
      title,
      prompt,
      value,
      ...(option.placeholder === undefined ? {} : { placeholder: option.placeholder }),
      validate: (text) => checkValue(option, text.trim()),
    });
    if (outcome.kind === "accepted") return taken(outcome.value.trim());
    return { kind: outcome.kind };
  };
}

function askName(deps: AddDelegatorDeps, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const own = draft.entry?.delegator.name;
    const taken = deps.names();
    const outcome = await deps.windows.input({
      ...place,
      title,
      prompt: t("Name: lowercase letters, digits, dots, hyphens, underscores."),
      value: draft.delegator.name || suggestName(draft.delegator, taken),
      validate: (name) => {
        if (!VALID_NAME.test(name))
          return t("Use lowercase letters, digits, dots, hyphens and underscores. Start with a letter or digit.");
        return name !== own && taken.has(name) ? t("A delegator with this name already exists.") : undefined;
      },
    });
    if (outcome.kind !== "accepted") return { kind: outcome.kind };
    const state = { ...draft, delegator: { ...draft.delegator, name: outcome.value } };
    return canChooseScope(deps, draft) ? { kind: "next", to: "scope", state } : { kind: "next", state };
  };
}

function askScope(deps: AddDelegatorDeps, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const folders = deps.folders();
    const active = draft.scope === "workspace" ? (draft.folder ?? "") : USER_SCOPE;
    const outcome = await deps.windows.pick(scopeQuestion({ ...place, title }, folders, active));
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const folder = folders.find(({ uri }) => uri === outcome.ids[0]);
    if (!folder) return { kind: "next", state: { ...draft, scope: "user" } };
    return { kind: "next", state: { ...draft, scope: "workspace", folder: folder.uri } };
  };
}

/** An unused name, derived from the source and model. */
export function suggestName(delegator: Delegator, taken: ReadonlySet<string>): string {
  // A custom command is known by its program.
  const program = delegator.launch?.command?.[0]?.replace(/^.*\//u, "");
  const words = [program ?? delegator.tool ?? delegator.modelServer ?? "", delegator.model ?? ""];
  const base =
    words
      .join("-")
      .toLowerCase()
      .replace(/[^a-z0-9.]+/g, "-")
      .replace(/^[-.]+|[-.]+$/g, "")
      .slice(0, 50) || "delegator";
  let name = base;
  for (let number = 2; taken.has(name); number += 1) name = `${base}-${number}`;
  return name;
}

function heading(label: string): PickItem {
  return { id: `heading:${label}`, label, separator: true };
}

/** Model servers of all folders. If two have the same name, the first folder wins. */
async function listServers(deps: WizardContext, signal: AbortSignal): Promise<ModelServerEntry[]> {
  const places: WorkspaceParam[] = deps.folders().map(({ uri }) => ({ workspace: uri }));
  const found: ModelServerEntry[] = [];
  for (const where of places.length > 0 ? places : [{}]) {
    const { modelServers } = await deps.requester.request("understudy/modelServers/list", where, signal);
    for (const server of modelServers) {
      if (found.some(({ modelServer }) => modelServer.name === server.modelServer.name)) continue;
      found.push(server);
      deps.listedFrom.set(server.modelServer.name, where);
    }
  }
  return found;
}
