/** Permission requests of agents as text. */

import { t } from "../base/l10n.ts";
import type { PermissionRequest } from "../protocol.ts";
import { displayPath, oneLine } from "./formatting.ts";

/**
 * What an agent asks for: first the effect, from the fields that its driver reports, then the agent's own text. Lines
 * that would only repeat the effect are left out, so that a short question still fits where it must be shown completely.
 */
export function questionText(
  request: Pick<PermissionRequest, "kind" | "command" | "paths" | "detail"> & Partial<Pick<PermissionRequest, "title">>,
): string {
  const { command, detail } = request;
  if (request.kind === "question") return detail.trim() === request.title?.trim() ? "" : detail.trimEnd();
  const paths = (request.paths ?? []).map((path) => oneLine(displayPath(path), Infinity));
  const stated = new Set([command, ...(request.paths ?? [])]);
  const rest = detail.split("\n").filter((line) => !stated.has(line.trim().replace(/^\w+: /, "")));
  return [...effect(request.kind, command, paths.join(", ")), ...rest].join("\n").trimEnd();
}

function effect(kind: PermissionRequest["kind"], command: string | undefined, files: string): string[] {
  const run = command === undefined ? [] : [t("Runs: {0}", command)];
  switch (kind) {
    case "execute":
      return [
        ...(command === undefined ? [t("Runs a command")] : run),
        ...(files === "" ? [] : [t("Files: {0}", files)]),
      ];
    case "read":
      return [files === "" ? t("Reads files") : t("Reads: {0}", files), ...run];
    case "edit":
      return [files === "" ? t("Changes files") : t("Changes: {0}", files), ...run];
    case "fetch":
      return [t("Accesses the network"), ...run, ...(files === "" ? [] : [t("Files: {0}", files)])];
    default:
      return [...run, ...(files === "" ? [] : [t("Files: {0}", files)])];
  }
}
