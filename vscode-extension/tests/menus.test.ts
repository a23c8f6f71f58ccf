/** What the menus of `package.json` offer on the rows and bars that the views really show. */

import { describe, expect, it } from "vitest";
import manifest from "../package.json" with { type: "json" };
import texts from "../package.nls.json" with { type: "json" };
import { DelegationTree } from "../src/delegations/delegationTree.ts";
import type { Delegation, FileDiff, Hunk } from "../src/protocol.ts";
import { fileRow, hunkRow } from "../src/review/hunks.ts";
import { ReviewTree } from "../src/review/reviewTree.ts";
import { delegationRowId } from "../src/state/delegationUris.ts";
import { result } from "./support/golden.ts";
import { holds, type ContextKeys } from "./support/whenClause.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const ID = DONE.id;
const GHOSTWRITER = result("understudy/delegators/list", "delegators-list.valid").delegators[0]!;
const NOTHING = { pending: 0, accepted: 0, rejected: 0 };

interface Item {
  readonly command?: string;
  readonly when?: string;
  readonly group?: string;
}

const titleOf = (id: string): string => {
  const key = manifest.contributes.commands.find(({ command }) => command === id)?.title.slice(1, -1) ?? "";
  return (texts as Record<string, string>)[key] ?? id;
};

/** The titles that a menu offers, sorted as the editor sorts them: as buttons, and in the menu that opens. */
function offered(menu: keyof typeof manifest.contributes.menus, keys: ContextKeys, buttons: "inline" | "navigation") {
  const items = (manifest.contributes.menus[menu] as readonly Item[]).filter(({ when }) => holds(when, keys));
  const sorted = items.sort((one, other) => ((one.group ?? "") < (other.group ?? "") ? -1 : 1));
  const isButton = ({ group }: Item): boolean => group?.split("@")[0] === buttons;
  const titles = (some: readonly Item[]): string[] => some.map(({ command = "" }) => titleOf(command));
  return {
    buttons: titles(sorted.filter(isButton)),
    menu: titles(sorted.filter((item) => !isButton(item))),
  };
}

const onRow = (view: "delegations" | "review", context: string | undefined) =>
  offered("view/item/context", { view: `understudy.${view}`, viewItem: context }, "inline");

describe("the menus of a delegation", () => {
  function menusOf(change: Partial<Delegation>, without: readonly (keyof Delegation)[] = [], instructable = true) {
    const delegation = { ...structuredClone(DONE), ...change };
    for (const name of without) Reflect.deleteProperty(delegation, name);
    const store = {
      delegations: [delegation],
      delegation: () => delegation,
      delegator: () => ({ ...GHOSTWRITER, followsInstructions: instructable }),
      recipes: [],
      hasMore: false,
      loaded: true,
      onDidChange: () => ({ dispose: () => {} }),
    };
    const tree = new DelegationTree({ store, inWindow: () => true });
    return { ...onRow("delegations", tree.row(delegationRowId(ID))?.context), tree };
  }

  it("have the next steps of a failed run, and Dismiss", () => {
    const failed = menusOf({ verdict: "failed", review: NOTHING, result: { files: [] } });
    expect(failed.buttons).toEqual(["Retry", "Dismiss"]);
    expect(failed.menu).toEqual(expect.arrayContaining(["Retry", "Retry with…", "Show Log", "Dismiss"]));
    const dismissed = menusOf({ verdict: "failed", review: NOTHING, result: { files: [] }, dismissed: true });
    expect(dismissed.buttons).toEqual(["Retry"]);
    expect(onRow("delegations", failed.tree.row("group:now")?.context).buttons).toEqual(["Dismiss All Failed Runs"]);
    expect(onRow("delegations", failed.tree.row("group:done")?.context).buttons).toEqual([]);
  });

  it("leave room for the verdict beside the title, also when the row shows its buttons", () => {
    const title = "Write tests: a_module_with_a_long_name.py and its friends";
    const changes: Partial<Delegation>[] = [
      {},
      { verdict: "checks_failed" },
      { rescueRef: "refs/rescue/1" },
      ...(["failed", "no_changes", "timed_out", "budget_exhausted", "interrupted"] as const).flatMap((verdict) => [
        { verdict, review: NOTHING, result: { files: [] } },
        { verdict, review: NOTHING },
        { verdict },
      ]),
    ];
    for (const change of changes) {
      const { buttons, tree } = menusOf({ ...change, title });
      const { label = "", description = "" } = tree.row(delegationRowId(ID)) ?? {};
      const verdict = description.split(" · ")[0] ?? "";
      expect(label.length + verdict.length + 4 * buttons.length, `${label} ${verdict}`).toBeLessThanOrEqual(36);
      expect(label.length).toBeGreaterThan(8);
    }
  });

  it("stop a run, and answer its question", () => {
    const ended = ["verdict", "result", "finishedAt"] as const;
    expect(menusOf({ state: "running" }, ended).buttons).toEqual(["Cancel Delegation"]);
    expect(menusOf({ state: "waiting" }, ended).buttons).toEqual(["Answer Question…", "Cancel Delegation"]);
  });

  it("review, discard and restore a result", () => {
    const { buttons, menu } = menusOf({});
    expect(buttons).toEqual(["Review…", "Open Transcript"]);
    expect(menu).toEqual(
      expect.arrayContaining(["Discard Result…", "Open Transcript as Text", "Reply to Delegation…"]),
    );
    expect(menu).not.toContain("Dismiss");
    const { menu: without } = menusOf({}, [], false); // its agent follows no instructions
    expect(menu.filter((title) => !without.includes(title))).toEqual(["Reply to Delegation…"]);
    expect(without).toContain("Retry with…");
    const discarded = menusOf({ rescueRef: "refs/rescue/1" });
    expect(discarded.buttons).toEqual(["Restore Result"]);
    expect(discarded.menu).not.toContain("Discard Result…");
  });
});

describe("the menus of a review", () => {
  const hunk: Hunk = {
    id: "0a1b2c3d4e5f",
    ...{ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1 },
    ...{ state: "pending", conflict: false, edited: false },
  };

  function menusOf(row: string, change: Partial<Hunk> = {}, delegation: Delegation = DONE, instructable = true) {
    const file: FileDiff = { path: "a.py", status: "modified", binary: false, hunks: [{ ...hunk, ...change }] };
    const edited = change.edited ? [{ path: "a.py", at: "2026-11-21T00:50:00Z", undoable: true }] : [];
    const current = {
      ...{ id: ID, files: [file], edited, file: () => file },
      hunk: () => ({ id: ID, file, hunk: file.hunks[0]! }),
      knownText: () => undefined,
      knownMode: () => undefined,
    };
    const tree = new ReviewTree({ current, delegation: () => delegation, takesInstructions: () => instructable });
    return onRow("review", tree.row(row)?.context);
  }
  const HUNK = hunkRow(ID, "a.py", hunk.id);
  const FILE = fileRow(ID, "a.py");

  it("decide on a pending change, and undo what was decided", () => {
    expect(menusOf(HUNK).buttons).toEqual(["Accept Change", "Reject Change"]);
    expect(menusOf(HUNK, { state: "accepted" }).buttons).toEqual(["Undo"]);
    expect(menusOf(HUNK, { state: "rejected" }).buttons).toEqual(["Undo", "Accept Change"]);
    expect(menusOf(HUNK, { state: "superseded" }).buttons).toEqual([]);
  });

  it("resolve a conflict, and mark it as resolved on its row", () => {
    const conflict = menusOf(HUNK, { conflict: true });
    expect(conflict.buttons).toEqual(["Resolve Conflict…", "Mark as Resolved", "Reject Change"]);
    expect(conflict.menu).toContain("Mark as Resolved");
    expect(menusOf(HUNK).menu).not.toContain("Mark as Resolved");
  });

  it("decide on a file, edit its result, and undo that", () => {
    const buttons = ["Accept All Changes in This File", "Reject All Changes in This File"];
    expect(menusOf(FILE).buttons).toEqual(buttons);
    expect(menusOf(FILE).menu).toContain("Edit Result");
    expect(menusOf(FILE, { edited: true }).buttons).toEqual(["Undo Edit", ...buttons]);
    expect(menusOf(FILE, { state: "accepted" })).toMatchObject({ buttons: [] });
    expect(menusOf(FILE, { state: "accepted" }).menu).toContain("Undo");
  });

  it("decide on everything at the verdict, and add a check where none ran", () => {
    const verdict = `verdict:${ID}`;
    const all = ["Send Back…", "Accept All Changes", "Reject All Changes"];
    expect(menusOf(verdict).menu.slice(0, 3)).toEqual(all);
    const { menu } = menusOf(verdict, {}, DONE, false); // its agent follows no instructions
    expect(menu).not.toContain("Send Back…");
    expect(menu).toContain("Retry with…");
    expect(menusOf(verdict, { state: "rejected" }).menu).not.toContain("Reject All Changes");
    const unchecked = { ...DONE, reservations: ["no_checks" as const] };
    expect(menusOf(`reservation:${ID}:no_checks`, {}, unchecked).buttons).toEqual(["Add Check…"]);
  });

  it.each([
    ["pending", ["Accept", "Reject", "Reject with Reason…"]],
    ["conflict", ["Resolve…", "Accept", "Reject"]],
    ["accepted", ["Undo"]],
    ["rejected", ["Undo"]],
    ["comment", ["Remove Comment"]],
    ["verdict", ["Accept All", "Send Back…", "Evidence"]],
    ["verdictWithoutChecks", ["Accept All", "Send Back…", "Evidence", "Add Check…"]],
  ])("are on the bar of a change: %s", (context, titles) => {
    const review = { "understudy.reviewPending": true, "understudy.canSendBack": true };
    const keys = { ...review, commentController: "understudy", commentThread: context };
    expect(offered("comments/commentThread/title", keys, "inline")).toEqual({ buttons: titles, menu: [] });
  });

  it("have words on bars, not icons", () => {
    const used = (manifest.contributes.menus["comments/commentThread/title"] as readonly Item[]).map(
      (one) => one.command,
    );
    const icons = manifest.contributes.commands.filter((one) => used.includes(one.command) && "icon" in one);
    expect(icons.map(({ command }) => command)).toEqual(["understudy.review.removeComment"]);
  });

  it("are in the title of an editor: accept the file, edit its result, mark its conflict as resolved", () => {
    const title = (keys: ContextKeys): string[] => offered("editor/title", keys, "navigation").buttons;
    const review = { "understudy.reviewEditor": true, resourceScheme: "understudy-result" };
    expect(title({ ...review, "understudy.pendingFile": true })).toEqual([
      "Evidence",
      "Accept All Changes in This File",
      "Edit Result",
    ]);
    expect(title(review)).toEqual(["Evidence", "Edit Result"]);
    const pending = { "understudy.reviewPending": true, "understudy.canSendBack": true };
    const words = ["Accept All", "Send Back…", "Reject All…", "Evidence"];
    expect(title({ ...review, ...pending })).toEqual(expect.arrayContaining(words));
    expect(title({ ...review, ...pending, "understudy.canAcceptVerified": true })).toContain("Accept All Verified");
    const binary = { resourceScheme: "understudy-result", "understudy.pendingBinaries": ["/a.png"] };
    expect(title({ ...binary, resourcePath: "/a.png" })).toEqual(["Accept All Changes in This File"]);
    expect(title({ ...binary, resourcePath: "/a.py" })).toEqual([]);
    const copy = { resourceScheme: "understudy-edit", "understudy.canUndoEdit": true, "understudy.reviewEditor": true };
    expect(title(copy)).toEqual(["Evidence", "Undo Edit"]);
    const keys = { "understudy.conflictFiles": ["/p/a.py"], resourceScheme: "file" };
    expect(title({ ...keys, resourcePath: "/p/a.py" })).toEqual(["Mark as Resolved"]);
    expect(title({ ...keys, resourcePath: "/p/b.py" })).toEqual([]);
  });
});

describe("the menus of a view", () => {
  it("send a result back if its agent follows instructions", () => {
    const title = (keys: ContextKeys): string[] => offered("view/title", keys, "navigation").buttons;
    const review = { view: "understudy.review" };
    expect(title({ ...review, "understudy.canSendBack": true })).toContain("Send Back…");
    expect(title(review)).not.toContain("Send Back…");
  });

  it("add a delegator, and lead to what is managed", () => {
    const { buttons, menu } = offered("view/title", { view: "understudy.delegators" }, "navigation");
    expect(buttons).toEqual(["Add Delegator…", "Refresh Delegators"]);
    // The box is the one door: the page is what it has no room for.
    expect(offered("view/title", { view: "understudy.delegations" }, "navigation").buttons).toEqual([]);
    expect(offered("view/title", { view: "understudy.box" }, "navigation").buttons).toEqual(["New Delegation…"]);
    expect(menu.slice(0, 3)).toEqual(["Manage Model Servers…", "Manage Checks…", "Open Settings"]);
  });
});

describe("the palette", () => {
  const menus = manifest.contributes.menus.commandPalette as readonly Item[];
  const isOffered = (id: string, keys: ContextKeys): boolean =>
    menus.filter(({ command }) => command === id).every(({ when }) => holds(when, keys));

  it("always offers what manages Understudy, and Undo Last Accept, but nothing that needs a row", () => {
    const always = ["openSettings", "showStatus", "modelServers.manage", "checks.manage", "checks.add"];
    const undo = ["review.undo", "review.undoLast", "delegators.setDefault", "delegate", "delegate.compose"];
    for (const name of [...always, ...undo]) expect(isOffered(`understudy.${name}`, {}), name).toBe(true);
    const installs = (state: string): boolean => isOffered("understudy.install", { "understudy.sidecar": state });
    expect(["missing", "mismatch", "failed", "running"].map(installs)).toEqual([true, true, true, false]);
    for (const name of ["review.undoChange", "review.show", "delegations.more", "openLocation"])
      expect(isOffered(`understudy.${name}`, { "understudy.reviewing": true }), name).toBe(false);
    for (const name of ["review.rejectAll", "review.acceptAll"]) {
      expect(isOffered(`understudy.${name}`, {}), name).toBe(false);
      expect(isOffered(`understudy.${name}`, { "understudy.reviewing": true }), name).toBe(true);
    }
  });

  it("has one rule for each command", () => {
    const named = menus.map(({ command }) => command);
    expect(named.filter((command, index) => named.indexOf(command) !== index)).toEqual([]);
  });

  it("finds Undo Last Accept before the undo of git: it begins with the name of the extension", () => {
    const titles = manifest.contributes.commands
      .filter(({ command }) => isOffered(command, {}))
      .map(({ command, category }) => `${category}: ${titleOf(command)}`)
      .filter((title) => title.startsWith("Understudy: Undo"));
    expect(titles).toEqual(["Understudy: Undo…", "Understudy: Undo Last Accept"]);
  });
});

describe("the keys of a review", () => {
  const active = (keys: ContextKeys): string[] =>
    manifest.contributes.keybindings.filter(({ when }) => holds(when, keys)).map(({ command }) => titleOf(command));

  it("decide in an editor, not in a list, whose focused row no command gets", () => {
    const visit = ["Next Pending Change", "Previous Pending Change"];
    const editor = { "understudy.reviewing": true, "understudy.reviewEditor": true };
    expect(active(editor)).toEqual(["Accept Change", "Reject Change", "Reject Change with Reason…", ...visit]);
    expect(active({ ...editor, listFocus: true, focusedView: "understudy.review" })).toEqual(visit);
    expect(active({ "understudy.reviewing": true })).toEqual([]);
  });
});

describe("a clause", () => {
  it("is evaluated as the editor evaluates it", () => {
    const keys = { a: "x y", b: true, list: ["x y"] };
    expect(holds("a == x || b && !c", keys)).toBe(true);
    expect(holds("!(b || c)", keys)).toBe(false);
    expect(holds("a =~ /\\by\\b/ && a in list", keys)).toBe(true);
    expect(holds("c != 1 && false", keys)).toBe(false);
    expect(() => holds("(a", keys)).toThrow("open parenthesis");
    expect(() => holds("a b", keys)).toThrow("was read up to b");
  });

  it("of the manifest can be evaluated", () => {
    const { menus, viewsWelcome, keybindings } = manifest.contributes;
    const used = [...Object.values(menus).flat(), ...viewsWelcome, ...keybindings] as readonly Item[];
    for (const { when } of used) expect(() => holds(when, {}), when).not.toThrow();
  });
});
