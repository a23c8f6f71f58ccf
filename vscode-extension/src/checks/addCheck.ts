/** Add a check: choose what the project's files suggest, or a command; run it on the current files; save it. */

import { t } from "../base/l10n.ts";
import { joinWords, splitWords } from "../base/commandWords.ts";
import { editorHint, toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Folder, Host, PickItem } from "../host/host.ts";
import { remedyTitle } from "../state/remedies.ts";
import { USER_SCOPE } from "../state/delegatorDraft.ts";
import { scopeQuestion } from "../state/saveScope.ts";
import type { Check, CheckEntry, CheckProposal, CheckTrial } from "../protocol.ts";

export interface AddCheckDeps {
  readonly requester: Requester;
  readonly host: Pick<Host, "windows" | "workspace" | "documents" | "commands">;
}

/** What a check may contain besides words: filled when it runs. */
const SLOTS = ["{python}", "{tests}"];
/** Words that would be one argument here: a check is not run by a shell. */
const SHELL_WORDS = new Set(["&&", "||", "|", ";", ">", "<", "&"]);
const CUSTOM = "custom";

/** Ask, try and save. Returns undefined if nothing was saved. */
export async function addCheck(deps: AddCheckDeps, folder: Folder): Promise<CheckEntry | undefined> {
  const { requester, host } = deps;
  const workspace = folder.uri;
  const found = await requester.request("understudy/checks/list", { workspace });
  const names = new Set(found.checks.map(({ check }) => check.name));
  let check = await chooseCheck(deps, found.proposals, names, folder);
  while (check) {
    const trial = await runTrial(deps, check, workspace);
    if (!trial) return undefined; // cancelled, or the reason was shown
    const next = trial.ok ? "save" : await askAfterFailure(deps, check, trial);
    if (next === "drop") return undefined;
    if (next === "fix") {
      if ((await host.commands.run("understudy.remedy", trial.remedy, folder.path)) !== true) return undefined;
      continue;
    }
    if (next === "edit") {
      check = await askCommand(deps, check, names);
      continue;
    }
    const scope = await askScope(deps, check, trial, folder);
    if (!scope) return undefined;
    try {
      return await requester.request("understudy/checks/create", { check, scope, workspace });
    } catch (error) {
      const { message, hint } = toErrorInfo(error);
      await host.windows.message("error", [message, hint ?? ""].join(" ").trim());
      return undefined;
    }
  }
  return undefined;
}

async function chooseCheck(
  deps: AddCheckDeps,
  proposals: readonly CheckProposal[],
  names: ReadonlySet<string>,
  folder: Folder,
): Promise<Check | undefined> {
  const offered = proposals.filter(({ configured }) => !configured);
  const custom: PickItem = {
    id: CUSTOM,
    label: t("Custom Command…"),
    icon: "terminal",
    detail: t("Any program that exits with code 0 if the result is good."),
  };
  const outcome = await deps.host.windows.pick({
    title: t("Add Check"),
    placeholder:
      offered.length > 0
        ? t("Which command must pass on each result?")
        : t("No test runner was found in this project."),
    items: [
      ...offered.map(({ title, check, shownBy, problem, hint, remedy }, index) => ({
        id: String(index),
        label: title,
        icon: problem === undefined ? "beaker" : "warning",
        description: commandText(check),
        detail:
          problem === undefined
            ? t("Found in {0}", shownBy)
            : [problem, remedy ? t("Asks to do this: {0}.", remedyTitle(remedy)) : editorHint({ hint: hint ?? "" })]
                .join(" ")
                .trim(),
      })),
      custom,
    ],
  });
  if (outcome.kind !== "picked") return undefined;
  const chosen = offered[Number(outcome.ids[0])];
  if (chosen?.remedy && !(await doFirst(deps, chosen, folder))) return undefined;
  return chosen?.check ?? askCommand(deps, undefined, names);
}

/** Do what a check needs, if the user agrees; it would fail without that. */
async function doFirst(
  { host }: AddCheckDeps,
  { title, problem = "", remedy }: CheckProposal,
  folder: Folder,
): Promise<boolean> {
  if (!remedy) return true;
  const button = remedyTitle(remedy);
  const text = t("{0} cannot run yet.", title);
  if ((await host.windows.message("info", text, { buttons: [button], modal: true, detail: problem })) !== button) {
    return false;
  }
  return (await host.commands.run("understudy.remedy", remedy, folder.path)) === true;
}

/** Ask for a command, starting with that of `before`. */
async function askCommand(
  { host }: AddCheckDeps,
  before: Check | undefined,
  names: ReadonlySet<string>,
): Promise<Check | undefined> {
  const outcome = await host.windows.input({
    title: t("Add Check"),
    prompt: t("Program and arguments. {python} is the project's interpreter, {tests} the tests that a result changes."),
    placeholder: "{python} -m pytest",
    value: before ? joinWords(before.argv) : "",
    validate: checkCommand,
  });
  const argv = outcome.kind === "accepted" ? splitWords(outcome.value) : undefined;
  if (!argv) return undefined;
  return before ? { ...before, argv } : { name: freeName(argv, names), argv };
}

/** What is wrong with a command, as a sentence. */
export function checkCommand(text: string): string | undefined {
  const words = splitWords(text);
  if (!words) return t("Missing closing quotation mark.");
  if (!words[0]) return t("Enter a command.");
  for (const word of words) {
    if (/^\{\w+\}$/u.test(word) && !SLOTS.includes(word))
      return t("Unknown placeholder {0}. Use {1}.", word, SLOTS.join(t(" or ")));
    if (SHELL_WORDS.has(word))
      return t("{0} works only in a shell. Put the commands into a script and enter its path.", word);
  }
  return undefined;
}

/** A name from the program, or from the module that Python runs. */
function freeName(argv: readonly string[], names: ReadonlySet<string>): string {
  const module = argv.indexOf("-m");
  const word = (module > 0 ? argv[module + 1] : argv[0]) ?? "";
  const base =
    word
      .replace(/^.*[\\/]/u, "")
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/gu, "-")
      .replace(/^[-._]+|[-._]+$/gu, "")
      .slice(0, 50) || "check";
  let name = base;
  for (let number = 2; names.has(name); number += 1) name = `${base}-${number}`;
  return name;
}

/** Run a check on the current files. Undefined: it could not be tried; the user knows why. */
export async function runTrial(
  { requester, host }: AddCheckDeps,
  check: Check | string,
  workspace: string,
): Promise<CheckTrial | undefined> {
  const name = typeof check === "string" ? check : check.name;
  const params = typeof check === "string" ? { name, workspace } : { name, check, workspace };
  try {
    return await host.windows.progress(
      { title: t("Running {0} on your current files…", name), where: "notification", cancellable: true },
      ({ signal }) => requester.request("understudy/checks/test", params, signal),
    );
  } catch (error) {
    const { kind, message, hint } = toErrorInfo(error);
    if (kind === "cancelled") return undefined;
    if (kind === "untrusted_workspace") throw error; // shown with the command that gives trust
    await host.windows.message("error", [message, hint ?? ""].join(" ").trim());
    return undefined;
  }
}

async function askAfterFailure(
  { host }: AddCheckDeps,
  check: Check,
  trial: CheckTrial,
): Promise<"fix" | "save" | "edit" | "drop"> {
  const [edit, show, keep] = [t("Edit Command"), t("Show Output"), t("Save Anyway")];
  const fix = trial.remedy ? [remedyTitle(trial.remedy)] : [];
  const text = t("{0} fails on your current files: {1}.", check.name, outcomeText(trial));
  const answer = await host.windows.message("warning", text, {
    buttons: [...fix, edit, show, keep],
    modal: true,
    detail: [lastLines(trial.outputTail, DETAIL_LINES), ...trial.notes].join("\n"),
  });
  if (answer === show) await showOutput(host, trial);
  if (answer !== undefined && answer === fix[0]) return "fix";
  return answer === keep ? "save" : answer === edit ? "edit" : "drop";
}

async function askScope(
  { host }: AddCheckDeps,
  check: Check,
  trial: CheckTrial,
  folder: Folder,
): Promise<"user" | "workspace" | undefined> {
  const title = trial.ok ? t("{0} passes: {1}", check.name, outcomeText(trial)) : t("Add Check");
  // What runs a project's tests belongs to the project.
  const outcome = await host.windows.pick(scopeQuestion({ title }, [folder], folder.uri));
  if (outcome.kind !== "picked") return undefined;
  return outcome.ids[0] === USER_SCOPE ? "user" : "workspace";
}

/** What a person needs to know about a run: tests and time. */
export function outcomeText({ ok, timedOut, exitCode, seconds, passed, failed, skipped }: CheckTrial): string {
  const time = t("{0} s", seconds.toFixed(1));
  const tests = [
    failed ? t("{0} failed", failed) : "",
    passed ? t("{0} passed", passed) : "",
    skipped ? t("{0} skipped", skipped) : "",
  ].filter((part) => part !== "");
  if (timedOut) return t("not finished after {0}", time);
  if (!ok && exitCode === undefined) return t("it could not be started");
  if (!ok && tests.length === 0) return t("exit code {0} after {1}", exitCode ?? "", time);
  return [...tests, time].join(" · ");
}

export async function showOutput(host: Pick<Host, "documents">, trial: CheckTrial): Promise<void> {
  await host.documents.showText(`$ ${joinWords(trial.argv)}\n\n${trial.outputTail}\n`, "log");
}

const DETAIL_LINES = 12;

function lastLines(text: string, most: number): string {
  return text.trimEnd().split("\n").slice(-most).join("\n");
}

export function commandText({ argv, cwd }: Check): string {
  const command = joinWords(argv);
  return cwd ? t("{0} (in {1})", command, cwd) : command;
}
