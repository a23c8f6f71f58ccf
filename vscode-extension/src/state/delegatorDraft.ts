/** A delegator that is being added or changed. */

import type { Delegator, DelegatorEntry } from "../protocol.ts";

/** Valid names of delegators and model servers, as in the sidecar. Names become file names on every platform. */
export const VALID_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** The ID of the default for recipes that have none of their own; no recipe has this name. */
export const EVERYTHING = "";

/** The ID of the place to save for the user; the IDs of the others are the URIs of their folders. */
export const USER_SCOPE = "user";

export interface DelegatorDraft {
  readonly delegator: Delegator;
  /** `USER_SCOPE`, or the URI of the folder to save in. */
  readonly place: string;
  /** The entry to change; absent: a new one. */
  readonly entry?: DelegatorEntry;
  /** The recipes whose default it shall be, and `EVERYTHING`. */
  readonly defaults: readonly string[];
}

/** The recipes that a delegator is the default of, and `EVERYTHING`. */
export function defaultsOf({ isDefault, defaultFor = [] }: DelegatorEntry): readonly string[] {
  return [...(isDefault ? [EVERYTHING] : []), ...defaultFor];
}

/** For another agent or server keep only what applies to it: the sidecar would refuse the rest. */
export function withSource(delegator: Delegator, source: { tool?: string; modelServer?: string }): Delegator {
  const { tool, modelServer, name, displayName, limits } = delegator;
  if ((tool ?? undefined) === source.tool && (modelServer ?? undefined) === source.modelServer) return delegator;
  // A tool may also use a model server. That pairing is configured in the file; keep it while the tool is the same.
  if (source.tool !== undefined && tool === source.tool) return delegator;
  return { name, ...(displayName ? { displayName } : {}), ...(limits ? { limits } : {}), ...source };
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
  return freeName(base, taken);
}

export function freeName(base: string, taken: ReadonlySet<string>): string {
  let free = base;
  for (let number = 2; taken.has(free); number += 1) free = `${base}-${number}`;
  return free;
}

/** Leave out empty fields to keep the file short. */
export function withoutEmptyFields(delegator: Delegator): Delegator {
  const kept = Object.entries(delegator).filter(
    ([, value]) =>
      value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0),
  );
  return Object.fromEntries(kept) as unknown as Delegator;
}
