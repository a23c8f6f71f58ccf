/** Create a report for an issue. Keys, names, addresses and source code are removed. */

import { realPath } from "../base/paths.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { SidecarState } from "../sidecar/sidecar.ts";
import type { Environment, Output } from "../host/host.ts";
import type { Store } from "../state/store.ts";

export interface ReportDeps {
  readonly environment: Environment;
  readonly output: Pick<Output, "tail">;
  readonly requester: Requester;
  readonly state: () => SidecarState;
  readonly store: Pick<Store, "delegators" | "delegations" | "problems">;
  /** Paths of the workspace folders; they are removed from the report. */
  readonly folders: () => readonly string[];
}

const LOG_LINES = 300;

/** Create the report as Markdown. The user reads it and decides where to send it. */
export async function createReport(deps: ReportDeps): Promise<string> {
  const { environment, store } = deps;
  const state = deps.state();
  const doctor = await deps.requester.request("understudy/doctor", {}).then(
    ({ checks }) => checks.map(({ name, ok, message }) => `- ${ok ? "ok" : "NOT OK"} ${name}: ${message}`).join("\n"),
    (error: unknown) => `- not asked: ${toErrorInfo(error).message}`,
  );
  const verdicts = new Map<string, number>();
  for (const { state: at, verdict } of store.delegations) {
    const key = verdict ?? at;
    verdicts.set(key, (verdicts.get(key) ?? 0) + 1);
  }
  const text = `# Understudy issue report

Please read this before you send it. Keys, folder names and names of people have been removed.

## What happened?


## What did you expect?


## Versions

- extension ${environment.extensionVersion}
- ${environment.editorName} ${environment.editorVersion}, ${environment.platform}${remoteText(environment.remoteName)}
- sidecar: ${describeState(state)}

## Diagnostics

${doctor}

## Configuration

- delegators: ${store.delegators.length}, not ready: ${store.delegators.filter((entry) => !entry.state.ready).length}
- tools: ${[...new Set(store.delegators.map(({ delegator }) => delegator.tool ?? "model server"))].join(", ") || "none"}
- configuration problems: ${store.problems.length}
- delegations: ${[...verdicts].map(([name, count]) => `${count} ${name}`).join(", ") || "none"}

## Last lines of the log

\`\`\`text
${deps.output.tail(LOG_LINES).join("\n")}
\`\`\`
`;
  return redact(text, { folders: deps.folders(), homePath: environment.homePath, variables: environment.variables });
}

/** The kind of remote. Some editors add the name of the machine. */
function remoteText(name: string | undefined): string {
  return name === undefined ? "" : `, remote: ${/^[a-z][a-z-]*$/.test(name) ? name : "yes"}`;
}

function describeState(state: SidecarState): string {
  switch (state.kind) {
    case "running":
      return `${state.serverInfo.version}, protocol ${state.serverInfo.protocolVersion}, found by ${state.found.origin}`;
    case "crashed":
    case "failed":
      return `${state.kind}: ${state.cause}\n${state.exit.lines.map((line) => `    ${line}`).join("\n")}`;
    case "mismatch":
      return `mismatch, upgrade the ${state.upgrade}: ${state.reported}`;
    default:
      return state.kind;
  }
}

/** Remove secrets, and everything that identifies the machine or its user. */
export function redact(
  text: string,
  known: {
    readonly folders: readonly string[];
    readonly homePath: string;
    readonly variables: Readonly<Record<string, string | undefined>>;
  },
): string {
  let result = text;
  const secret = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|PASSPHRASE/i;
  for (const [name, value] of Object.entries(known.variables)) {
    if (secret.test(name) && value !== undefined && value.length >= 6) result = result.replaceAll(value, `<${name}>`);
  }
  result = result
    .replace(
      /-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\w\s+/=]*)/g,
      "<private key>",
    )
    .replace(/\b(?:sk|pk|rk|gh[pousr]|glpat|xox[abprs]|AKIA|ASIA|AIza|hf|gsk)[-_A-Za-z0-9]{12,}/g, "<key>")
    .replace(/\b(?:github_pat|npm|pypi|xai|nvapi|pplx|r8|ya29|dop_v1|csk)[-_.][-_.A-Za-z0-9]{12,}/g, "<key>")
    .replace(/\beyJ[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]+){1,2}/g, "<key>")
    // The query of a URL may contain anything, and is not needed to understand a problem.
    .replace(/([?&][\w.~%[\]-]+=)[^&\s"'<>)]+/g, "$1<value>")
    .replace(/\b((?:set-)?cookie["']?\s*[:=]\s*)[^\n]+/gi, "$1<secret>")
    .replace(/(authorization["']?\s*[:=]\s*["']?)[a-z]+\s+[^\s"',;]+/gi, "$1<secret>")
    .replace(
      /(?<!\w)(\w{0,40}(?:authorization|(?:api|access|private|secret|auth)[-_ ]?key\w{0,40}|token|password|passwd|passphrase|secret|credentials?)|pass|pwd)(["']?\s*[:=]\s*)["']?(?!<)[^\s"',;]+["']?/gi,
      "$1$2<secret>",
    )
    .replace(
      /(?<!\w)([A-Z0-9_]{0,60}(?:KEY|TOKEN|SECRET|PASSWORD)[A-Z0-9_]{0,60}\s*[=:]\s*)(?!<)[^\s"',;]+/g,
      "$1<secret>",
    )
    .replace(/(["']key["']\s*[:=]\s*)["'][^"'\n]*["']?/gi, "$1<secret>")
    .replace(/(--?(?:api-?key|token|password|secret|key)\s+)(?![-<])[^\s"',;]+/gi, "$1<secret>")
    .replace(/\bbearer\s+(?!<)[^\s"',;]+/gi, "Bearer <secret>")
    .replace(/(?<!\w)(\w{1,20}:\/\/)[^\s/?#"'<>]{1,500}@/g, "$1<login>@")
    .replace(/(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,200}/g, "<mail>");
  [...known.folders]
    .sort((a, b) => b.length - a.length)
    .forEach((folder, index) => {
      const real = realPath(folder);
      for (const spelt of [folder, encodeURI(folder), real, encodeURI(real)]) {
        result = result.replaceAll(spelt, `<folder ${index + 1}>`);
      }
    });
  if (known.homePath.length > 1) result = result.replaceAll(known.homePath, "~");
  for (const name of ["USER", "LOGNAME", "USERNAME", "HOSTNAME", "COMPUTERNAME"]) {
    const value = known.variables[name];
    if (value === undefined || value.length < 3 || value === "root") continue;
    const escaped = value.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
    result = result.replace(new RegExp(`(?<![\\w.-])${escaped}(?![\\w-])`, "g"), `<${name.toLowerCase()}>`);
  }
  return result.replace(/(\/home\/|\/Users\/|\\Users\\)[^/\\\s"':]+/g, "$1<user>");
}
