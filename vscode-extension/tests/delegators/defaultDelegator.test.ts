import { beforeEach, describe, expect, it } from "vitest";
import { chooseDefaults, type DefaultDelegatorDeps } from "../../src/delegators/defaultDelegator.ts";
import type { DelegatorEntry } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

const [LISTED] = result("understudy/delegators/list", "delegators-list.valid").delegators;
const { recipes: RECIPES } = result("understudy/recipes/list", "recipes-list.valid");
const [FIRST, SECOND] = RECIPES.filter(({ delegator }) => !delegator).map(({ name }) => name);

let host: FakeHost;
let peer: GoldenSidecar;
let deps: DefaultDelegatorDeps;
let entry: DelegatorEntry;

beforeEach(() => {
  host = new FakeHost();
  entry = { ...LISTED!, delegator: { name: "big", tool: "claude" }, defaultFor: [FIRST!] };
  const other: DelegatorEntry = { ...LISTED!, delegator: { name: "small", tool: "claude" }, isDefault: true };
  peer = new GoldenSidecar().answer("understudy/delegators/setDefault", ({ delegator }) =>
    delegator ? { delegator } : {},
  );
  const store = { delegators: [entry, other], recipes: RECIPES };
  deps = { requester: peer, windows: host.windows, store, folders: () => host.folders };
});

describe("the defaults of a delegator", () => {
  it("are shown, and only what changed is saved", async () => {
    host.answers.push({ pick: ["", SECOND!] }, { pick: "user" });
    expect(await chooseDefaults(deps, entry)).toBe(true);
    const items = host.shown[0]?.items ?? [];
    expect(items.filter(({ picked }) => picked).map(({ id }) => id)).toEqual([FIRST]);
    expect(items[0]?.description).toContain("currently small");
    const where = { scope: "user", workspace: host.folders[0]?.uri };
    expect(peer.params("understudy/delegators/setDefault")).toEqual([
      { delegator: "big", ...where },
      { recipe: FIRST, ...where },
      { delegator: "big", recipe: SECOND, ...where },
    ]);
    expect(host.messages).toEqual([]);
  });

  it("can be saved in the workspace, and preselect the recipe that has none", async () => {
    host.answers.push({ pick: [FIRST!, SECOND!] }, { pick: host.folders[0]!.uri });
    await chooseDefaults(deps, entry, SECOND);
    expect(host.shown[0]?.items.filter(({ picked }) => picked).map(({ id }) => id)).toEqual([FIRST, SECOND]);
    expect(peer.params("understudy/delegators/setDefault")).toMatchObject([{ recipe: SECOND, scope: "workspace" }]);
  });

  it("warn when another configuration applies, and do nothing when nothing changed or the user cancels", async () => {
    peer.answer("understudy/delegators/setDefault", { delegator: "shared" });
    host.answers.push({ pick: [FIRST!, ""] }, { pick: "user" });
    await chooseDefaults(deps, entry);
    expect(host.messages.map(({ text }) => text).join()).toContain("and sets shared");
    host.answers.push({ pick: FIRST! });
    expect(await chooseDefaults(deps, entry)).toBe(true);
    host.answers.push({ pick: "" }, { cancel: true });
    expect(await chooseDefaults(deps, entry)).toBeUndefined();
    expect(peer.params("understudy/delegators/setDefault")).toHaveLength(1);
  });
});
