/** Which rows of the review are drawn again: an action on a row is lost while the editor draws it. */

import { describe, expect, it } from "vitest";
import type { FileDiff, Hunk } from "../../src/protocol.ts";
import { fileRow, hunkRow } from "../../src/review/hunks.ts";
import { ReviewTree } from "../../src/review/reviewTree.ts";
import { result } from "../support/golden.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const ID = DONE.id;

const hunkOf = (id: string, state: Hunk["state"] = "pending"): Hunk => ({
  ...{ id, state, conflict: false, edited: false },
  ...{ oldStart: 1, oldLines: 1, newStart: 1, newLines: 1 },
});

const fileOf = (path: string, ...hunks: Hunk[]): FileDiff => ({ path, status: "modified", binary: false, hunks });

/** A tree of two files, and what it lets the editor draw again when its files become others. */
function tree(text?: string): { drawn: (...files: FileDiff[]) => unknown[]; row: ReviewTree["row"] } {
  let files: readonly FileDiff[] = [];
  const current = {
    ...{ id: ID, edited: [], knownText: () => text, knownMode: () => undefined },
    get files() {
      return files;
    },
    file: (path: string) => files.find((file) => file.path === path),
    hunk: (path: string, id: string) => {
      const file = files.find((one) => one.path === path);
      const hunk = file?.hunks.find((one) => one.id === id);
      return file && hunk && { id: ID, file, hunk };
    },
  };
  const rows = new ReviewTree({ current, delegation: () => DONE, takesInstructions: () => true });
  return {
    row: (id) => rows.row(id),
    drawn: (...now) => {
      const told: unknown[] = [];
      const subscription = rows.onDidChange((ids) => told.push(ids));
      files = now;
      rows.refresh();
      subscription.dispose();
      return told;
    },
  };
}

describe("the rows of a review", () => {
  const [a, b] = [hunkOf("0a1b2c3d4e5f"), hunkOf("5f4e3d2c1b0a")];

  it("are drawn at first, and then only those that changed", () => {
    const { drawn } = tree();
    expect(drawn(fileOf("a.py", a), fileOf("b.py", b))).toEqual([undefined]);
    expect(drawn(fileOf("a.py", a), fileOf("b.py", b))).toEqual([]);
    const [changed] = drawn(fileOf("a.py", hunkOf(a.id, "accepted")), fileOf("b.py", b));
    expect(changed).toEqual(expect.arrayContaining([fileRow(ID, "a.py"), hunkRow(ID, "a.py", a.id)]));
    expect(changed).not.toEqual(expect.arrayContaining([fileRow(ID, "b.py")]));
    expect(changed).not.toEqual(expect.arrayContaining([hunkRow(ID, "b.py", b.id)]));
  });

  it("show the state of a decided change in a view of the usual width, however long its text is", () => {
    const { drawn, row } = tree("def test_more_than_everything_is_refused():\n");
    drawn(fileOf("a.py", hunkOf(a.id, "rejected"), hunkOf(b.id)));
    const decided = row(hunkRow(ID, "a.py", a.id));
    expect(`${decided?.label} ${decided?.description}`.slice(0, 28)).toMatch(/^def test_more.*… rejected/u);
    expect(decided?.spoken).toMatch(/^rejected, def test_more_than_everything_is_refused\(\):/u);
    expect(row(hunkRow(ID, "a.py", b.id))?.label).toBe("def test_more_than_everything_is_refused():");
  });

  it("name what is missing for a pending change that no test notices", () => {
    const { drawn, row } = tree("def halve(cents):\n");
    const place = { hunk: a.id, path: "a.py", line: 1, lines: 2, function: "halve", why: "no test runs it" };
    const untested: Hunk = { ...a, places: [{ ...place, evidence: "unexecuted" }] };
    const tested: Hunk = { ...b, places: [{ ...place, hunk: b.id, evidence: "noticed" }] };
    drawn(fileOf("a.py", untested, tested));
    const missing = row(hunkRow(ID, "a.py", a.id));
    expect(missing?.description).toMatch(/^not tested · /u);
    expect(missing?.tooltip).toBe("Not tested\n\nhalve: no test runs it");
    expect(row(hunkRow(ID, "a.py", b.id))?.description).not.toContain("not tested");
    drawn(fileOf("a.py", { ...untested, state: "accepted" }));
    expect(row(hunkRow(ID, "a.py", a.id))?.description).not.toContain("not tested");
  });

  it("are all drawn again if one comes, goes or moves", () => {
    const { drawn } = tree();
    drawn(fileOf("a.py", a), fileOf("b.py", b));
    expect(drawn(fileOf("b.py", b), fileOf("a.py", a))).toEqual([undefined]);
    expect(drawn(fileOf("a.py", a))).toEqual([undefined]);
    expect(drawn(fileOf("a.py", a, b))).toEqual([undefined]);
    expect(drawn()).toEqual([undefined]);
  });
});
