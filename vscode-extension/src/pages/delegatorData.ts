/** Read what the Delegators page lists, from the configurations of all folders; the first folder wins. */

import type { DelegatorEntry, Model, ModelServerEntry, Recipe, ServerPreset, ToolsResult } from "../protocol.ts";
import { USER_SCOPE } from "../state/delegatorDraft.ts";
import type { PageClient, PageStart } from "../state/pageClient.ts";
import { reasonOf } from "./pageElement.ts";

/** The folder whose configuration applies; empty: that of the user. */
export interface Where {
  readonly workspace?: string;
}

/** Everything that the page has read. */
export interface Found {
  readonly delegators: readonly DelegatorEntry[];
  readonly servers: readonly ModelServerEntry[];
  /** Model server → the folder whose configuration defines it. */
  readonly serverPlaces: ReadonlyMap<string, Where>;
  /** Model server → its models, or why they cannot be listed. */
  readonly models: ReadonlyMap<string, readonly Model[] | string>;
  readonly recipes: readonly Recipe[];
  readonly tools: ToolsResult;
  readonly presets: readonly ServerPreset[];
}

export function whereOf(place: string): Where {
  return place === USER_SCOPE ? {} : { workspace: place };
}

/** Places to read from: every folder, or the user's configuration alone. */
export function readingPlaces(places: PageStart["places"]): readonly Where[] {
  const folders = places.filter(({ id }) => id !== USER_SCOPE).map(({ id }) => ({ workspace: id }));
  return folders.length > 0 ? folders : [{}];
}

/** What is configured: fast, and read again after every change. */
export async function readConfigured(
  client: PageClient,
  places: PageStart["places"],
): Promise<Pick<Found, "delegators" | "servers" | "serverPlaces" | "recipes">> {
  const from = readingPlaces(places);
  const [delegators, servers, { recipes }] = await Promise.all([
    Promise.all(from.map((where) => client.request("understudy/delegators/list", where))),
    Promise.all(from.map((where) => client.request("understudy/modelServers/list", where))),
    client.request("understudy/recipes/list", {}),
  ]);
  const serverPlaces = new Map<string, Where>();
  for (const [index, { modelServers }] of servers.entries()) {
    for (const { modelServer } of modelServers) {
      if (!serverPlaces.has(modelServer.name)) serverPlaces.set(modelServer.name, from[index] ?? {});
    }
  }
  return {
    delegators: firstOfEach(
      delegators.flatMap((one) => one.delegators),
      ({ delegator }) => delegator.name,
    ),
    servers: firstOfEach(
      servers.flatMap((one) => one.modelServers),
      ({ modelServer }) => modelServer.name,
    ),
    serverPlaces,
    recipes,
  };
}

/** What is on this machine: asks programs for their versions and addresses for their models. */
export async function readMachine(client: PageClient): Promise<Pick<Found, "tools" | "presets">> {
  const [tools, { presets }] = await Promise.all([
    client.request("understudy/tools/list", { refresh: true }),
    client.request("understudy/modelServers/presets", {}),
  ]);
  return { tools, presets };
}

/** The models of a server, or why it does not list them. */
export async function readModels(client: PageClient, name: string, where: Where): Promise<readonly Model[] | string> {
  try {
    return (await client.request("understudy/modelServers/models", { name, ...where })).models;
  } catch (error) {
    return reasonOf(error);
  }
}

function firstOfEach<T>(things: readonly T[], nameOf: (thing: T) => string): T[] {
  const named = new Map<string, T>();
  for (const thing of things) if (!named.has(nameOf(thing))) named.set(nameOf(thing), thing);
  return [...named.values()];
}
