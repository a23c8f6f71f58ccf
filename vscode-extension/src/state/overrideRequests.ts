/** What the sidecar knows about the options of a delegator that one delegation can change. */

import type { AgentEntry, Delegator, ErrorInfo, ModelServer, StartParams, ToolsResult } from "../protocol.ts";
import { toErrorInfo, type Requester } from "../sidecar/connection.ts";
import type { Store } from "./store.ts";

export interface OverrideDeps {
  readonly requester: Requester;
  readonly store: Pick<Store, "delegators" | "modelServers">;
}

/** What `overrideOptions` needs to know. */
export interface DelegatorFacts {
  readonly delegator: Delegator;
  readonly server: ModelServer | undefined;
  readonly known: ToolsResult;
  /** The agents that the delegation can name. */
  readonly agents: readonly AgentEntry[];
}

/** Read the facts about a delegator; undefined if it does not exist. `workspace` is a URI. */
export async function readFacts(
  { requester, store }: OverrideDeps,
  name: string,
  workspace: string | undefined,
): Promise<DelegatorFacts | undefined> {
  const delegator = store.delegators.find((entry) => entry.delegator.name === name)?.delegator;
  if (!delegator) return undefined;
  const params = workspace === undefined ? {} : { workspace };
  const [known, agents] = await Promise.all([
    requester.request("understudy/tools/list", params),
    // Files of agents that cannot be read do not keep the other options from being shown.
    requester.request("understudy/agents/list", params).then(
      (result) => result.agents.filter(({ kind }) => kind === "agent"),
      () => [],
    ),
  ]);
  const server = store.modelServers.find(({ modelServer }) => modelServer.name === delegator.modelServer)?.modelServer;
  return { delegator, server, known, agents };
}

/** The models that the delegator's model server lists; none without a server. */
export async function readModels(
  { requester }: OverrideDeps,
  { modelServer }: Delegator,
  workspace: string | undefined,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  if (!modelServer) return [];
  const params = { name: modelServer, ...(workspace === undefined ? {} : { workspace }) };
  const { models } = await requester.request("understudy/modelServers/models", params, signal);
  return models.map(({ id }) => id);
}

/** Why the sidecar refuses the options of a start; undefined if it accepts them, or if something else is wrong. */
export async function refusedOptions(
  { requester }: OverrideDeps,
  params: StartParams,
  signal?: AbortSignal,
): Promise<ErrorInfo | undefined> {
  try {
    await requester.request("understudy/delegations/preview", params, signal);
    return undefined;
  } catch (error) {
    const info = toErrorInfo(error);
    return info.parameter?.startsWith("launch.") || info.parameter === "agent" ? info : undefined;
  }
}
