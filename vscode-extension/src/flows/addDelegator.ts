/**
 * Add Delegator, and Edit, which is the same filled in: what works → model → options → name → where it is kept → tried
 * with a real round trip → saved. It asks through `Windows` and knows the sidecar by its requests alone.
 */

import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { Folder, Host, PickItem } from "../host/host.ts";
import { folderOf } from "../model/folders.ts";
import type { Delegator, DelegatorEntry, Model, ModelServerEntry, ProbeResult, ToolEntry } from "../protocol.ts";
import { NAME } from "./names.ts";
import { addModelServer, removeModelServer, setKey } from "./modelServer.ts";
import { honoursOf, optionsFor, type Option } from "./options.ts";
import { runSteps, type Step } from "./steps.ts";

export interface AddParts {
  readonly asker: Asker;
  readonly windows: Pick<Host["windows"], "pick" | "input" | "message" | "progress">;
  /** Names that are taken. */
  readonly names: () => ReadonlySet<string>;
  /** Folders in which things may be saved: those of a trusted window. */
  readonly folders: () => readonly Folder[];
  /** Programs below it are shown as below `~`. */
  readonly homePath: string;
}

/** No server has a model with such a name. */
const AGAIN = " again";

type Question = "source" | "model" | "options" | "name" | "scope";

/** As which folder's configuration something is seen. */
interface Where {
  readonly workspace?: string;
}

interface Draft {
  readonly delegator: Delegator;
  readonly scope: "user" | "workspace";
  /** URI of the folder it is for, or as seen from which it is tried. */
  readonly folder?: string;
  /** The entry that is edited. */
  readonly entry?: DelegatorEntry;
}

/** What a row of answers needs to remember besides the answers. */
interface Asked extends AddParts {
  /** Model server → as seen from which folder it was listed. */
  readonly seenFrom: Map<string, Where>;
  /** Model servers that were made on the way. */
  readonly made: ModelServerEntry[];
}

/** Ask, try and save; the saved entry, or undefined when it was cancelled. */
export async function addDelegator(given: AddParts, entry?: DelegatorEntry): Promise<DelegatorEntry | undefined> {
  const parts: Asked = { ...given, seenFrom: new Map(), made: [] };
  const steps = questions(parts, entry);
  const folder = folderOf(entry?.location?.uri, parts.folders());
  let draft: Draft = {
    delegator: entry?.delegator ?? { name: "" },
    scope: entry?.scope === "workspace" ? "workspace" : "user",
    ...(folder ? { folder: folder.uri } : {}),
    ...(entry ? { entry } : {}),
  };
  let first: Question = "source";
  let saved: DelegatorEntry | undefined;
  while (!saved) {
    const asked = await runSteps(steps, first, draft, () => (mayChooseScope(parts, draft) ? 5 : 4));
    if (!asked) break;
    draft = asked;
    const outcome = await attempt(parts, draft);
    if (outcome.kind === "dropped") break;
    if (outcome.kind === "saved") saved = outcome.entry;
    else first = outcome.from;
  }
  for (const server of parts.made) {
    if (server.modelServer.name !== saved?.delegator.modelServer) void offerToRemove(parts, server);
  }
  return saved;
}

type Attempt =
  | { readonly kind: "saved"; readonly entry: DelegatorEntry }
  | { readonly kind: "change"; readonly from: Question }
  | { readonly kind: "dropped" };

/** Try it as it stands, and save it when it works, or when the person wants it all the same. */
async function attempt(parts: AddParts, draft: Draft): Promise<Attempt> {
  const { name } = draft.delegator;
  const delegator = strip(draft.delegator);
  const tried = await tryWith(parts, name, { name, delegator, scope: draft.scope, ...whereOf(draft) });
  if (!tried.ok) {
    const [change, save] = [t("Change"), t("Save Anyway")];
    const options = { buttons: [change, save], modal: true, detail: tried.detail };
    const answer = await parts.windows.message("warning", tried.message, options);
    if (answer === change) return { kind: "change", from: "source" };
    if (answer !== save) return { kind: "dropped" };
  }
  try {
    const entry = await save(parts, draft);
    if (tried.ok) void parts.windows.message("info", t("{0} is saved, and works: {1}", name, tried.message));
    return { kind: "saved", entry };
  } catch (error) {
    const { kind, message, hint } = errorInfo(error);
    const change = t("Change");
    const text = hint ? `${message} ${hint}` : message;
    if ((await parts.windows.message("error", text, { buttons: [change] })) !== change) return { kind: "dropped" };
    return { kind: "change", from: kind === "already_exists" ? "name" : "options" };
  }
}

/** Try a saved delegator with progress, and tell how it went. `change`: the person wants the questions again. */
export async function tryOut(parts: AddParts, entry: DelegatorEntry): Promise<"kept" | "change"> {
  const { name } = entry.delegator;
  const workspace = entry.scope === "workspace" ? folderOf(entry.location?.uri, parts.folders())?.uri : undefined;
  const tried = await tryWith(parts, name, workspace === undefined ? { name } : { name, workspace });
  if (tried.ok) {
    void parts.windows.message("info", t("{0} works: {1}", name, tried.message));
    return "kept";
  }
  if (tried.cancelled) return "kept";
  const change = t("Change");
  return (await parts.windows.message("warning", tried.message, { buttons: [change] })) === change ? "change" : "kept";
}

type Tried =
  | { readonly ok: true; readonly message: string }
  | { readonly ok: false; readonly message: string; readonly detail: string; readonly cancelled: boolean };

async function tryWith(
  parts: AddParts,
  name: string,
  params: Parameters<typeof parts.asker.ask<"understudy/delegators/test">>[1],
): Promise<Tried> {
  let result: ProbeResult;
  try {
    result = await parts.windows.progress(
      { title: t("Trying {0} …", name), where: "notification", cancellable: true },
      ({ signal }) => parts.asker.ask("understudy/delegators/test", params, signal),
    );
  } catch (error) {
    const { kind, message, hint } = errorInfo(error);
    const cancelled = kind === "cancelled";
    const text = cancelled ? t("{0} was not tried to the end.", name) : t("{0} could not be tried.", name);
    return { ok: false, message: text, detail: cancelled ? "" : [message, hint ?? ""].join(" ").trim(), cancelled };
  }
  if (result.ok) return { ok: true, message: result.steps.at(-1)?.message ?? "" };
  const failed = result.steps.find((step) => !step.ok);
  const message = t("{0} does not work: {1}", name, failed?.message ?? "");
  const detail = result.steps.map((step) => `${step.ok ? "✓" : "✗"} ${step.message}`).join("\n");
  return { ok: false, message, detail, cancelled: false };
}

/** A server that was made for a delegator that was not made: the person hears of it, and says whether it goes. */
async function offerToRemove(parts: AddParts, server: ModelServerEntry): Promise<void> {
  const remove = t("Remove It");
  const text = t("The model server {0} is saved, though no delegator was made for it.", server.modelServer.name);
  if ((await parts.windows.message("info", text, { buttons: [remove] })) !== remove) return;
  try {
    await removeModelServer(parts, server);
  } catch (error) {
    await parts.windows.message("error", errorInfo(error).message);
  }
}

async function save(parts: AddParts, draft: Draft): Promise<DelegatorEntry> {
  const delegator = strip(draft.delegator);
  if (draft.entry) {
    const { name } = draft.entry.delegator;
    const { revision } = draft.entry;
    return parts.asker.ask("understudy/delegators/update", { name, delegator, revision, ...whereOf(draft) });
  }
  return parts.asker.ask("understudy/delegators/create", { delegator, scope: draft.scope, ...whereOf(draft) });
}

function whereOf(draft: Draft): Where {
  return draft.folder === undefined ? {} : { workspace: draft.folder };
}

/** Without fields that say nothing, so that the file stays short. */
function strip(delegator: Delegator): Delegator {
  const kept = Object.entries(delegator).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return Object.fromEntries(kept) as unknown as Delegator;
}

function mayChooseScope(parts: AddParts, draft: Draft): boolean {
  return draft.entry === undefined && parts.folders().length > 0;
}

function questions(parts: Asked, entry: DelegatorEntry | undefined): Record<Question, Step<Draft, Question>> {
  const title = entry ? t("Edit Delegator {0}", entry.delegator.name) : t("Add Delegator");
  return {
    source: askSource(parts, title),
    model: askModel(parts, title),
    options: askOptions(parts, title),
    name: askName(parts, title),
    scope: askScope(parts, title),
  };
}

function askSource(parts: Asked, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    let tools: readonly ToolEntry[] = [];
    let servers: readonly ModelServerEntry[] = [];
    const probed = new Map<string, ProbeResult>();
    const current = draft.delegator.tool
      ? `tool:${draft.delegator.tool}`
      : draft.delegator.modelServer
        ? `server:${draft.delegator.modelServer}`
        : undefined;
    const fill = async (
      show: (content: { items: readonly PickItem[]; busy: boolean }) => void,
      signal: AbortSignal,
    ): Promise<void> => {
      const draw = (busy: boolean): void => show({ items: sourceItems(tools, servers, probed, parts.homePath), busy });
      const [foundTools, foundServers] = await Promise.allSettled([
        parts.asker.ask("understudy/tools/list", { refresh: true }, signal),
        serversSeen(parts, signal),
      ]);
      if (foundTools.status === "fulfilled") ({ tools } = foundTools.value);
      if (foundServers.status === "fulfilled") servers = foundServers.value;
      draw(servers.length > 0);
      await Promise.all(
        servers.map(async ({ modelServer: { name } }) => {
          try {
            const where = parts.seenFrom.get(name);
            probed.set(name, await parts.asker.ask("understudy/modelServers/probe", { name, ...where }, signal));
          } catch (error) {
            const { message } = errorInfo(error);
            probed.set(name, { ok: false, steps: [{ name: "endpoint", ok: false, message, seconds: 0 }] });
          }
          if (!signal.aborted) draw(true);
        }),
      );
      if (!signal.aborted) draw(false);
    };
    const outcome = await parts.windows.pick({
      ...place,
      title,
      placeholder: t("What does the work?"),
      items: [],
      busy: true,
      ...(current === undefined ? {} : { active: current }),
      live: (show, signal) => void fill(show, signal),
    });
    if (outcome.kind !== "picked") return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
    const chosen = outcome.ids[0] ?? "";
    if (chosen === "new-server") {
      const made = await addModelServer(parts);
      if (!made) return { kind: "again", state: draft };
      parts.made.push(made);
      return { kind: "next", to: "model", state: withSource(draft, { modelServer: made.modelServer.name }) };
    }
    const name = chosen.slice(chosen.indexOf(":") + 1);
    if (chosen.startsWith("tool:")) return { kind: "next", to: "model", state: withSource(draft, { tool: name }) };
    const wrong = probed.get(name)?.steps.find((step) => !step.ok);
    if (wrong?.name === "key") await setKey(parts, name, parts.seenFrom.get(name));
    return { kind: "next", to: "model", state: withSource(draft, { modelServer: name }) };
  };
}

/** Another source: what was set for the old one would be refused, so only what fits is kept. */
function withSource(draft: Draft, source: { tool?: string; modelServer?: string }): Draft {
  const { tool, modelServer, name, displayName, limits } = draft.delegator;
  if ((tool ?? undefined) === source.tool && (modelServer ?? undefined) === source.modelServer) return draft;
  // A tool may use a model server, too; that pairing is written in the file and stays while the tool does.
  if (source.tool !== undefined && tool === source.tool) return draft;
  const kept: Delegator = { name, ...(displayName ? { displayName } : {}), ...(limits ? { limits } : {}) };
  return { ...draft, delegator: { ...kept, ...source } };
}

function sourceItems(
  tools: readonly ToolEntry[],
  servers: readonly ModelServerEntry[],
  probed: ReadonlyMap<string, ProbeResult>,
  homePath: string,
): PickItem[] {
  // Agents of the machine first; what fits everywhere, and what is there without being added, last.
  const last = ["generic", "ghostwriter"];
  const usable = tools
    .filter((tool) => tool.found && tool.runnable)
    .sort((one, other) => last.indexOf(one.name) - last.indexOf(other.name));
  const others = tools.filter((tool) => !tool.found && tool.runnable);
  const items: PickItem[] = [];
  if (usable.length > 0) items.push(heading(t("Agents on this machine")));
  for (const tool of usable) {
    const detail = about(tool, homePath);
    items.push({
      id: `tool:${tool.name}`,
      label: tool.displayName,
      icon: "terminal",
      ...(tool.version === undefined ? {} : { description: tool.version }),
      ...(detail === undefined ? {} : { detail }),
    });
  }
  items.push(heading(t("Model servers")));
  for (const { modelServer, state } of servers) {
    const probe = probed.get(modelServer.name);
    const wrong = probe?.steps.find((step) => !step.ok)?.message ?? state.problems[0]?.message;
    items.push({
      id: `server:${modelServer.name}`,
      label: modelServer.displayName ?? modelServer.name,
      icon: probe ? (probe.ok ? "pass" : "warning") : "server",
      description: modelServer.baseUrl,
      ...(wrong === undefined ? {} : { detail: wrong }),
    });
  }
  items.push({ id: "new-server", label: t("Add a model server …"), icon: "add" });
  if (others.length > 0) items.push(heading(t("Not found on this machine")));
  for (const tool of others) {
    const problem = tool.problems[0];
    items.push({
      id: `tool:${tool.name}`,
      label: tool.displayName,
      icon: "circle-slash",
      detail: problem ? [problem.message, problem.hint ?? ""].join(" ").trim() : t("It is not on PATH."),
    });
  }
  return items;
}

/** Where it is; of what is in no place of its own, what it does. */
function about({ name, path }: ToolEntry, homePath: string): string | undefined {
  if (name === "generic") return t("A program of your own that edits files.");
  if (name === "ghostwriter") return t("Comes with Understudy: writes property tests, without a model.");
  return path?.startsWith(`${homePath}/`) ? `~${path.slice(homePath.length)}` : path;
}

function askModel(parts: Asked, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const { tool, modelServer } = draft.delegator;
    const server = tool ? undefined : (modelServer ?? undefined);
    const standard: PickItem = {
      id: "",
      label: t("The tool's own default"),
      icon: "star",
    };
    const outcome = await parts.windows.pick({
      ...place,
      title,
      placeholder: server ? t("Which model of {0}? Type to filter, or type a name.", server) : t("Which model?"),
      items: server ? [] : [standard],
      busy: true,
      ...(draft.delegator.model ? { active: draft.delegator.model } : {}),
      typedItem: (typed) => ({ id: "typed", label: typed, icon: "edit", description: t("as typed") }),
      live: (show, signal) => {
        void (async () => {
          try {
            const models = server
              ? (
                  await parts.asker.ask(
                    "understudy/modelServers/models",
                    { name: server, ...parts.seenFrom.get(server) },
                    signal,
                  )
                ).models
              : modelsOfTool(await parts.asker.ask("understudy/tools/list", {}, signal), tool ?? "");
            const items = models.map(modelItem);
            show({ items: server ? items : [standard, ...items], busy: false });
          } catch (error) {
            // What is wrong is a row, because a placeholder is cut where the box ends.
            const { message } = errorInfo(error);
            const again: PickItem = { id: AGAIN, label: t("Ask Again"), icon: "refresh", detail: message };
            show({
              items: server ? [again] : [standard, again],
              busy: false,
              placeholder: t("Type the model's name."),
            });
          }
        })();
      },
    });
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const chosen = outcome.ids[0] ?? "";
    if (chosen === AGAIN) return { kind: "again", state: draft };
    const model = chosen === "typed" ? outcome.typed : chosen;
    if (model === "" && server) return { kind: "again", state: draft };
    return { kind: "next", to: "options", state: { ...draft, delegator: { ...draft.delegator, model } } };
  };
}

function modelsOfTool(result: { tools: readonly ToolEntry[] }, name: string): Model[] {
  return (result.tools.find((tool) => tool.name === name)?.models ?? []).map((id) => ({ id }));
}

function modelItem(model: Model): PickItem {
  const facts = [
    model.contextTokens === undefined ? "" : t("{0} tokens of context", model.contextTokens.toLocaleString()),
    model.price?.["input"] === undefined
      ? ""
      : t("${0} in, ${1} out per million tokens", model.price["input"], model.price["output"] ?? "?"),
  ].filter((fact) => fact !== "");
  return { id: model.id, label: model.id, ...(facts.length > 0 ? { description: facts.join(" · ") } : {}) };
}

function askOptions(parts: AddParts, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const known = await parts.asker.ask("understudy/tools/list", {});
    const options = optionsFor(draft.delegator, honoursOf(draft.delegator, known));
    const missing = options.filter((option) => option.required && option.get(draft.delegator) === "");
    const outcome = await parts.windows.pick({
      ...place,
      title,
      placeholder: missing[0]
        ? t("{0} is needed; everything else may stay as it is.", missing[0].label)
        : t("Everything here may stay as it is."),
      active: missing[0]?.id ?? "",
      items: [
        ...(missing.length > 0 ? [] : [{ id: "", label: t("Continue"), icon: "arrow-right" }, heading("")]),
        ...options.map((option) => ({
          id: option.id,
          label: option.label,
          description: valueWords(option, draft.delegator),
          detail: option.detail,
        })),
      ],
    });
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const option = outcome.ids[0] ?? "";
    if (option === "") return { kind: "next", to: "name", state: draft };
    const asked = options.find(({ id }) => id === option);
    if (!asked) return { kind: "again", state: draft };
    const answered = await askOption(parts, title, asked)(draft, { ...place, back: true });
    if (answered.kind === "cancelled") return answered;
    return { kind: "again", state: answered.kind === "back" ? draft : answered.state };
  };
}

/** What an option is set to, in the words in which it was chosen. */
function valueWords(option: Option, delegator: Delegator): string {
  const value = option.get(delegator);
  if (value === "") return option.required ? t("required") : t("not set");
  return option.choices?.find((choice) => choice.value === value)?.label ?? value;
}

function askOption(parts: AddParts, title: string, option: Option): Step<Draft, Question> {
  return async (draft, place) => {
    const value = option.get(draft.delegator);
    const taken = (text: string): { kind: "again"; state: Draft } => ({
      kind: "again",
      state: { ...draft, delegator: option.set(draft.delegator, text) },
    });
    if (option.choices) {
      const outcome = await parts.windows.pick({
        ...place,
        title,
        placeholder: `${option.label}: ${option.detail}`,
        active: value,
        items: [
          { id: "", label: t("Not set"), icon: "circle-slash" },
          ...option.choices.map(({ value: id, ...choice }) => ({ id, ...choice })),
        ],
      });
      if (outcome.kind === "picked") return taken(outcome.ids[0] ?? "");
      return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
    }
    const outcome = await parts.windows.input({
      ...place,
      title,
      prompt: `${option.label}: ${option.detail}`,
      value,
      ...(option.placeholder === undefined ? {} : { placeholder: option.placeholder }),
      validate: (text) => (text.trim() === "" && !option.required ? undefined : option.check?.(text.trim())),
    });
    if (outcome.kind === "accepted") return taken(outcome.value.trim());
    return { kind: outcome.kind };
  };
}

function askName(parts: AddParts, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const own = draft.entry?.delegator.name;
    const taken = parts.names();
    const outcome = await parts.windows.input({
      ...place,
      title,
      prompt: t("A name for it: small letters, digits, dots and hyphens."),
      value: draft.delegator.name || suggest(draft.delegator, taken),
      validate: (name) => {
        if (!NAME.test(name))
          return t("Small letters, digits, dots, hyphens and underscores; a letter or digit first.");
        return name !== own && taken.has(name) ? t("There is a delegator of this name.") : undefined;
      },
    });
    if (outcome.kind !== "accepted") return { kind: outcome.kind };
    const state = { ...draft, delegator: { ...draft.delegator, name: outcome.value } };
    return mayChooseScope(parts, draft) ? { kind: "next", to: "scope", state } : { kind: "next", state };
  };
}

function askScope(parts: AddParts, title: string): Step<Draft, Question> {
  return async (draft, place) => {
    const folders = parts.folders();
    const outcome = await parts.windows.pick({
      ...place,
      title,
      placeholder: t("Who gets it?"),
      active: draft.scope === "workspace" ? (draft.folder ?? "") : "user",
      items: [
        { id: "user", label: t("You"), icon: "account", detail: t("In your own configuration, in every workspace.") },
        ...folders.map(({ uri, name }) => ({
          id: uri,
          label: folders.length === 1 ? t("This workspace") : name,
          icon: "root-folder",
          detail: t("In its .understudy folder, to be shared with everyone who works here."),
        })),
      ],
    });
    if (outcome.kind === "back") return { kind: "back" };
    if (outcome.kind !== "picked") return { kind: "cancelled" };
    const folder = folders.find(({ uri }) => uri === outcome.ids[0]);
    if (!folder) return { kind: "next", state: { ...draft, scope: "user" } };
    return { kind: "next", state: { ...draft, scope: "workspace", folder: folder.uri } };
  };
}

/** A free name made of what it is. */
export function suggest(delegator: Delegator, taken: ReadonlySet<string>): string {
  const parts = [delegator.tool ?? delegator.modelServer ?? "", delegator.model ?? ""];
  const base =
    parts
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

/** Model servers as seen from each folder; of two with one name the first folder's. */
async function serversSeen(parts: Asked, signal: AbortSignal): Promise<ModelServerEntry[]> {
  const places: Where[] = parts.folders().map(({ uri }) => ({ workspace: uri }));
  const found: ModelServerEntry[] = [];
  for (const where of places.length > 0 ? places : [{}]) {
    const { modelServers } = await parts.asker.ask("understudy/modelServers/list", where, signal);
    for (const server of modelServers) {
      if (found.some(({ modelServer }) => modelServer.name === server.modelServer.name)) continue;
      found.push(server);
      parts.seenFrom.set(server.modelServer.name, where);
    }
  }
  return found;
}
