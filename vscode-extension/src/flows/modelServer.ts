/** Adding a model server in place, and setting its key. */

import { t } from "../base/l10n.ts";
import { errorInfo, type Asker } from "../client/wire.ts";
import type { Host } from "../host/host.ts";
import type { ModelServerEntry, ProbeResult } from "../protocol.ts";
import { NAME } from "./names.ts";
import { runSteps, type Step } from "./steps.ts";

export interface ModelServerParts {
  readonly asker: Asker;
  readonly windows: Pick<Host["windows"], "pick" | "input" | "message" | "progress">;
}

/** Kind, what people call it, and where it is found when nobody says otherwise. */
export const KINDS: readonly { kind: string; label: string; url: string; key: boolean }[] = [
  { kind: "ollama", label: "Ollama", url: "http://127.0.0.1:11434/v1", key: false },
  { kind: "lmstudio", label: "LM Studio", url: "http://127.0.0.1:1234/v1", key: false },
  { kind: "llamacpp", label: "llama.cpp server", url: "http://127.0.0.1:8080/v1", key: false },
  { kind: "vllm", label: "vLLM", url: "http://127.0.0.1:8000/v1", key: false },
  { kind: "openrouter", label: "OpenRouter", url: "https://openrouter.ai/api/v1", key: true },
  { kind: "deepseek", label: "DeepSeek", url: "https://api.deepseek.com/v1", key: true },
  { kind: "openai", label: "OpenAI", url: "https://api.openai.com/v1", key: true },
  { kind: "custom", label: "", url: "", key: true },
];

interface Draft {
  readonly kind: string;
  readonly url: string;
  readonly name: string;
}

type Question = "kind" | "url" | "name";

/** Ask, save and probe; undefined when it was cancelled or taken back. */
export async function addModelServer(parts: ModelServerParts): Promise<ModelServerEntry | undefined> {
  let draft: Draft | undefined = { kind: "", url: "", name: "" };
  for (let first: Question = "kind"; ; first = "url") {
    draft = await runSteps<Draft, Question>(questions(parts), first, draft, () => 3);
    if (!draft) return undefined;
    const made = await makeServer(parts, draft);
    if (made !== "change") return made;
  }
}

/** Save and probe; `change`: the person wants to answer differently, and it is gone again. */
async function makeServer(parts: ModelServerParts, draft: Draft): Promise<ModelServerEntry | "change" | undefined> {
  const kind = KINDS.find((known) => known.kind === draft.kind);
  let entry: ModelServerEntry;
  try {
    entry = await parts.asker.ask("understudy/modelServers/create", {
      modelServer: {
        name: draft.name,
        kind: draft.kind,
        baseUrl: draft.url,
        ...(kind?.label ? { displayName: kind.label } : {}),
      },
    });
  } catch (error) {
    const { message, hint } = errorInfo(error);
    await parts.windows.message("error", hint ? `${message} ${hint}` : message);
    return undefined;
  }
  if (kind?.key) await setKey(parts, draft.name, {}, "optional");
  const probe = await probeServer(parts, draft.name);
  const wrong = probe.steps.find((step) => !step.ok);
  if (!wrong) return entry;
  const [change, keep] = [t("Change"), t("Keep It")];
  const answer = await parts.windows.message("warning", t("{0} does not answer as it should.", draft.name), {
    buttons: [change, keep],
    modal: true,
    detail: wrong.message,
  });
  if (answer === keep) return entry;
  await removeModelServer(parts, entry);
  return answer === change ? "change" : undefined;
}

/** Take one away that was made a moment ago; its key, if it was given one, has changed it since. */
export async function removeModelServer(parts: ModelServerParts, { modelServer }: ModelServerEntry): Promise<void> {
  await parts.asker.ask("understudy/modelServers/delete", { name: modelServer.name });
}

/** Ask for the API key of a server and store it; false when there was none. */
export async function setKey(
  parts: ModelServerParts,
  name: string,
  where: { readonly workspace?: string } = {},
  need: "required" | "optional" = "required",
): Promise<boolean> {
  const kept = t("Kept in the keyring of this machine, or in a file that only you can read; never in the workspace.");
  const outcome = await parts.windows.input({
    title: t("API Key of {0}", name),
    prompt: need === "optional" ? t("{0} Leave it empty where none is needed.", kept) : kept,
    password: true,
    validate: (key) => (need === "required" && key.trim() === "" ? t("Paste the key.") : undefined),
  });
  if (outcome.kind !== "accepted" || outcome.value.trim() === "") return false;
  await parts.asker.ask("understudy/modelServers/setKey", { name, key: outcome.value.trim(), ...where });
  return true;
}

async function probeServer(parts: ModelServerParts, name: string): Promise<ProbeResult> {
  try {
    return await parts.windows.progress({ title: t("Asking {0} …", name), where: "notification" }, ({ signal }) =>
      parts.asker.ask("understudy/modelServers/probe", { name }, signal),
    );
  } catch (error) {
    return { ok: false, steps: [{ name: "endpoint", ok: false, message: errorInfo(error).message, seconds: 0 }] };
  }
}

function questions(parts: ModelServerParts): Record<Question, Step<Draft, Question>> {
  const title = t("Add Model Server");
  return {
    async kind(draft, place) {
      const outcome = await parts.windows.pick({
        ...place,
        back: true,
        title,
        placeholder: t("What kind of server?"),
        active: draft.kind,
        items: KINDS.map(({ kind, label, url }) => ({
          id: kind,
          label: label || t("Another one that speaks the OpenAI API"),
          description: url,
        })),
      });
      if (outcome.kind !== "picked") return outcome.kind === "back" ? { kind: "back" } : { kind: "cancelled" };
      const known = KINDS.find(({ kind }) => kind === outcome.ids[0]);
      const kind = known?.kind ?? "custom";
      const same = kind === draft.kind;
      return {
        kind: "next",
        to: "url",
        state: { ...draft, kind, url: same ? draft.url : (known?.url ?? ""), name: same ? draft.name : kind },
      };
    },
    async url(draft, place) {
      const outcome = await parts.windows.input({
        ...place,
        title,
        prompt: t("Its address, up to and without /chat/completions."),
        value: draft.url,
        placeholder: "http://127.0.0.1:8000/v1",
        validate: validateUrl,
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", to: "name", state: { ...draft, url: outcome.value.trim().replace(/\/+$/, "") } };
    },
    async name(draft, place) {
      const { modelServers } = await parts.asker.ask("understudy/modelServers/list", {});
      const taken = new Set(modelServers.map(({ modelServer }) => modelServer.name));
      let free = draft.name;
      for (let number = 2; taken.has(free); number += 1) free = `${draft.name}-${number}`;
      const outcome = await parts.windows.input({
        ...place,
        title,
        prompt: t("A name for the server."),
        value: free,
        validate: (name) => {
          if (!NAME.test(name))
            return t("Small letters, digits, dots, hyphens and underscores; a letter or digit first.");
          return taken.has(name) ? t("There is a model server of this name.") : undefined;
        },
      });
      if (outcome.kind !== "accepted") return { kind: outcome.kind };
      return { kind: "next", state: { ...draft, name: outcome.value } };
    },
  };
}

export function validateUrl(value: string): string | undefined {
  let url: URL;
  try {
    url = new URL(value.trim());
  } catch {
    return t("An address such as http://127.0.0.1:8000/v1.");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return t("It begins with http:// or https://.");
  if (url.username || url.password) return t("A key does not belong into the address; it is asked for later.");
  if (/\/chat\/completions\/?$/.test(url.pathname)) return t("Leave /chat/completions out.");
  return undefined;
}
