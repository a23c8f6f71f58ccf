/** Add, edit, test and remove model servers, and set their API keys. */

import { t } from "../base/l10n.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Host, PickItem } from "../host/host.ts";
import { DEFAULT_PROTOCOL, type ModelServerEntry, type ConnectionTest, type ServerPreset } from "../protocol.ts";
import { scopeName } from "../state/saveScope.ts";
import { VALID_NAME } from "./names.ts";
import { runSteps, type Step } from "../base/wizard.ts";

export interface ModelServerDeps {
  readonly requester: Requester;
  readonly windows: Pick<Host["windows"], "pick" | "input" | "message" | "progress">;
}

interface Draft {
  /** Absent until the user has chosen one. */
  readonly preset?: ServerPreset;
  readonly url: string;
  readonly name: string;
}

type Question = "kind" | "url" | "name";

/** Ask, save and test. Returns undefined if the user cancelled. */
export async function addModelServer(deps: ModelServerDeps): Promise<ModelServerEntry | undefined> {
  let draft: Draft | undefined = { url: "", name: "" };
  for (let first: Question = "kind"; ; first = "url") {
    draft = await runSteps<Draft, Question>(createSteps(deps), first, draft, () => 3);
    if (!draft) return undefined;
    const made = await createAndTest(deps, draft);
    if (made !== "change") return made;
  }
}

/** Save a server that runs at its usual address. Returns undefined if it could not be saved or reached. */
export async function createFromPreset(
  deps: ModelServerDeps,
  preset: ServerPreset,
): Promise<ModelServerEntry | undefined> {
  const name = freeName(preset.kind, await takenNames(deps));
  const made = await createAndTest(deps, { preset, url: preset.baseUrl, name });
  return made === "change" ? addModelServer(deps) : made;
}

async function takenNames({ requester }: ModelServerDeps): Promise<ReadonlySet<string>> {
  const { modelServers } = await requester.request("understudy/modelServers/list", {});
  return new Set(modelServers.map(({ modelServer }) => modelServer.name));
}

function freeName(base: string, taken: ReadonlySet<string>): string {
  let free = base;
  for (let number = 2; taken.has(free); number += 1) free = `${base}-${number}`;
  return free;
}

/** Save and test. `change`: the user wants other answers; the server was removed again. */
async function createAndTest(deps: ModelServerDeps, draft: Draft): Promise<ModelServerEntry | "change" | undefined> {
  if (!draft.preset) return undefined;
  const { kind, title, protocols, needsKey, keyVariable, keyInEnvironment } = draft.preset;
  // Never for an address that the user has changed: the key would go to another host.
  const usual = draft.url === draft.preset.baseUrl;
  const fromEnv = keyInEnvironment && usual ? keyVariable : undefined;
  const other = draft.preset.baseUrl === "";
  let entry: ModelServerEntry;
  try {
    entry = await deps.requester.request("understudy/modelServers/create", {
      modelServer: {
        name: draft.name,
        kind,
        baseUrl: draft.url,
        ...(other ? {} : { displayName: title }),
        ...(protocols.join() === DEFAULT_PROTOCOL ? {} : { protocols }),
        ...(fromEnv ? { apiKey: { fromEnv } } : {}),
      },
    });
  } catch (error) {
    const { message, hint } = toErrorInfo(error);
    await deps.windows.message("error", hint ? `${message} ${hint}` : message);
    return undefined;
  }
  if (!fromEnv && (needsKey || other)) await setKey(deps, draft.name, {}, "optional");
  const connectionTest = await testServer(deps, draft.name);
  const wrong = connectionTest.steps.find((step) => !step.ok);
  if (!wrong) return entry;
  const [change, keep] = [t("Edit"), t("Save Anyway")];
  const answer = await deps.windows.message("warning", t("Can't reach {0}.", draft.name), {
    buttons: [change, keep],
    modal: true,
    detail: wrong.message,
  });
  if (answer === keep) return entry;
  await removeModelServer(deps, entry);
  return answer === change ? "change" : undefined;
}

const ADD = " add"; // not the name of a server

/** List the model servers, with buttons to edit each, set its key, open its file and remove it. */
export async function manageModelServers(deps: ManageDeps): Promise<void> {
  const { requester, windows } = deps;
  const folder = deps.folder();
  const where = folder === undefined ? {} : { workspace: folder };
  for (;;) {
    const { modelServers } = await requester.request("understudy/modelServers/list", where);
    const outcome = await windows.pick({
      title: t("Model Servers"),
      placeholder:
        modelServers.length > 0 ? t("Choose a model server to test it") : t("No model server is configured."),
      items: [...modelServers.map(serverItem), { id: ADD, label: t("Add Model Server…"), icon: "add" }],
    });
    if (outcome.kind === "picked" && outcome.ids[0] === ADD) {
      await addModelServer(deps);
      continue;
    }
    const name = outcome.kind === "picked" ? outcome.ids[0] : outcome.kind === "button" ? outcome.item : undefined;
    const entry = modelServers.find(({ modelServer }) => modelServer.name === name);
    if (!entry || name === undefined) return;
    if (outcome.kind === "picked") {
      await reportTest(deps, name, where);
      return;
    }
    switch (outcome.kind === "button" ? outcome.button : "") {
      case "open":
        if (entry.location) await deps.show(entry.location.uri);
        return;
      case "key":
        if (await setKey(deps, name, where)) await reportTest(deps, name, where);
        return;
      case "edit":
        await editModelServer(deps, entry, where);
        break;
      case "remove":
        await confirmRemoval(deps, entry, where);
    }
  }
}

export interface ManageDeps extends ModelServerDeps {
  /** URI of the folder whose configuration applies. */
  readonly folder: () => string | undefined;
  readonly show: (uri: string) => Promise<void>;
}

interface Where {
  readonly workspace?: string;
}

function serverItem({ modelServer, scope, editable, location, state }: ModelServerEntry): PickItem {
  const problem = state.problems[0]?.message;
  const where = scopeName(scope);
  const key = modelServer.apiKey ? t("with an API key") : t("without an API key");
  return {
    id: modelServer.name,
    label: modelServer.displayName ?? modelServer.name,
    icon: problem === undefined ? "server" : "warning",
    description: modelServer.baseUrl,
    detail: problem ?? [...(modelServer.displayName ? [modelServer.name] : []), where, key].join(" · "),
    buttons: [
      ...(editable
        ? [
            { id: "edit", icon: "edit", tooltip: t("Edit Address") },
            { id: "key", icon: "key", tooltip: t("Set API Key…") },
          ]
        : []),
      ...(location ? [{ id: "open", icon: "go-to-file", tooltip: t("Open File") }] : []),
      ...(editable ? [{ id: "remove", icon: "trash", tooltip: t("Remove") }] : []),
    ],
  };
}

/** Change the address of a server. */
async function editModelServer(deps: ModelServerDeps, entry: ModelServerEntry, where: Where): Promise<void> {
  const { modelServer, revision } = entry;
  const outcome = await deps.windows.input({
    title: t("Edit Model Server {0}", modelServer.name),
    prompt: t("Base URL (without /chat/completions)."),
    value: modelServer.baseUrl,
    validate: validateUrl,
  });
  if (outcome.kind !== "accepted") return;
  const baseUrl = outcome.value.trim().replace(/\/+$/u, "");
  if (baseUrl === modelServer.baseUrl) return;
  const changed = { ...modelServer, baseUrl };
  const params = { name: modelServer.name, modelServer: changed, revision, ...where };
  await deps.requester.request("understudy/modelServers/update", params);
  await reportTest(deps, modelServer.name, where);
}

async function confirmRemoval(deps: ModelServerDeps, entry: ModelServerEntry, where: Where): Promise<void> {
  const { name } = entry.modelServer;
  const { delegators } = await deps.requester.request("understudy/delegators/list", where);
  const users = delegators.filter(({ delegator }) => delegator.modelServer === name).map((one) => one.delegator.name);
  const remove = t("Remove");
  const detail = [
    t("Its file and its stored key are deleted."),
    ...(users.length > 0 ? [t("These delegators will stop working: {0}.", users.join(", "))] : []),
  ].join(" ");
  const question = { buttons: [remove], modal: true, detail };
  if ((await deps.windows.message("warning", t("Remove the model server {0}?", name), question)) !== remove) return;
  await deps.requester.request("understudy/modelServers/delete", { name, revision: entry.revision, ...where });
}

async function reportTest(deps: ModelServerDeps, name: string, where: Where): Promise<void> {
  const { ok, steps } = await testServer(deps, name, where);
  const said = (ok ? steps.at(-1) : steps.find((step) => !step.ok))?.message ?? "";
  if (ok) void deps.windows.message("info", t("{0} works: {1}", name, said));
  else void deps.windows.message("warning", t("{0} does not work: {1}", name, said));
}

/** Remove a server that was just added. No revision is sent: setting its key has changed the file. */
export async function removeModelServer(deps: ModelServerDeps, { modelServer }: ModelServerEntry): Promise<void> {
  await deps.requester.request("understudy/modelServers/delete", { name: modelServer.name });
}

/** Ask for the API key of a server and store it. Returns false if none was entered. */
export async function setKey(
  deps: ModelServerDeps,
  name: string,
  where: { readonly workspace?: string } = {},
  need: "required" | "optional" = "required",
): Promise<boolean> {
  const kept = t(
    "Stored in the keyring of this machine, or in a file that only you can read. Never stored in the workspace.",
  );
  const outcome = await deps.windows.input({
    title: t("API Key for {0}", name),
    prompt: need === "optional" ? t("{0} Leave empty if the server needs no key.", kept) : kept,
    password: true,
    validate: (key) => (need === "required" && key.trim() === "" ? t("Paste the key.") : undefined),
  });
  if (outcome.kind !== "accepted" || outcome.value.trim() === "") return false;
  await deps.requester.request("understudy/modelServers/setKey", { name, key: outcome.value.trim(), ...where });
  return true;
}

async function testServer(deps: ModelServerDeps, name: string, where: Where = {}): Promise<ConnectionTest> {
  try {
    return await deps.windows.progress({ title: t("Testing {0}…", name), where: "notification" }, ({ signal }) =>
      deps.requester.request("understudy/modelServers/test", { name, ...where }, signal),
    );
  } catch (error) {
    return { ok: false, steps: [{ name: "endpoint", ok: false, message: toErrorInfo(error).message, seconds: 0 }] };
  }
}

function createSteps(deps: ModelServerDeps): Record<Question, Step<Draft, Question>> {
  const title = t("Add Model Server");
  return {
    async kind(draft, place) {
      const { presets } = await deps.requester.request("understudy/modelServers/presets", {});
      const outcome = await deps.windows.pick({
        ...place,
        back: true,
        title,
        placeholder: t("What kind of server?"),
        ...(draft.preset ? { active: draft.preset.kind } : {}),
        items: [...presets.filter(({ running }) => running), ...presets.filter(({ running }) => !running)].map(
          presetItem,
        ),
      });
      if (outcome.kind !== "picked") return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
      const preset = presets.find(({ kind }) => kind === outcome.ids[0]);
      if (!preset) return { kind: "again", state: draft };
      const same = preset.kind === draft.preset?.kind;
      const answers = same ? draft : { url: preset.baseUrl, name: preset.kind };
      return { kind: "next", to: "url", state: { ...answers, preset } };
    },
    async url(draft, place) {
      const outcome = await deps.windows.input({
        ...place,
        title,
        prompt: t("Base URL (without /chat/completions)."),
        value: draft.url,
        placeholder: "http://127.0.0.1:8000/v1",
        validate: validateUrl,
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", to: "name", state: { ...draft, url: outcome.value.trim().replace(/\/+$/, "") } };
    },
    async name(draft, place) {
      const taken = await takenNames(deps);
      const free = freeName(draft.name, taken);
      const outcome = await deps.windows.input({
        ...place,
        title,
        prompt: t("Name of the server."),
        value: free,
        validate: (name) => {
          if (!VALID_NAME.test(name))
            return t("Use lowercase letters, digits, dots, hyphens and underscores. Start with a letter or digit.");
          return taken.has(name) ? t("A model server with this name already exists.") : undefined;
        },
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", state: { ...draft, name: outcome.value } };
    },
  };
}

function presetItem({ kind, title, baseUrl, running, models, keyVariable, keyInEnvironment }: ServerPreset): PickItem {
  const names = (models ?? []).join(", ");
  const detail = running
    ? names === ""
      ? t("Running on this machine")
      : t("Running on this machine: {0}", names)
    : keyInEnvironment && keyVariable
      ? t("Uses the key in {0}", keyVariable)
      : undefined;
  return { id: kind, label: title, description: baseUrl, ...(detail === undefined ? {} : { detail }) };
}

export function validateUrl(value: string): string | undefined {
  let url: URL;
  try {
    url = new URL(value.trim());
  } catch {
    return t("Enter a URL such as http://127.0.0.1:8000/v1.");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return t("The URL must begin with http:// or https://.");
  if (url.username || url.password) return t("Do not put a key in the URL. You can enter it later.");
  if (/\/chat\/completions\/?$/.test(url.pathname)) return t("Remove /chat/completions from the URL.");
  return undefined;
}
