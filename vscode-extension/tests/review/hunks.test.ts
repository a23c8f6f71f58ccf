import { describe, expect, it } from "vitest";
import type { FileDiff, Hunk } from "../../src/protocol.ts";
import {
  applyHunks,
  firstLine,
  fileRow,
  hunkAt,
  hunkRow,
  linesOf,
  parseRowId,
  adjacentHunk,
  rejectionReasons,
  hunkRefs,
} from "../../src/review/hunks.ts";
import { displayPath } from "../../src/state/formatting.ts";
import { parseReviewUri, RESULT, reviewUri } from "../../src/review/reviewUris.ts";
import { result } from "../support/golden.ts";

const DIFF = result("understudy/delegations/diff", "delegations-diff.valid");
const ID = "20261121-004512-k3f9q";

function hunk(id: string, old: [number, number], now: [number, number], more: Partial<Hunk> = {}): Hunk {
  const [oldStart, oldLines] = old;
  const [newStart, newLines] = now;
  return { id, oldStart, oldLines, newStart, newLines, state: "pending", conflict: false, edited: false, ...more };
}

function file(path: string, hunks: Hunk[], status: FileDiff["status"] = "modified"): FileDiff {
  return { path, status, binary: false, hunks };
}

describe("row IDs", () => {
  it("identify a file or a hunk, whatever the path contains", () => {
    expect(parseRowId(hunkRow(ID, 'a:b/"c".py', "0a1b2c3d4e5f"))).toEqual({
      kind: "hunk",
      id: ID,
      path: 'a:b/"c".py',
      hunk: "0a1b2c3d4e5f",
    });
    expect(parseRowId(fileRow(ID, "a:b.py"))).toEqual({ kind: "file", id: ID, path: "a:b.py" });
    expect(parseRowId(`check:${ID}:pytest`)).toBeUndefined();
    expect(parseRowId(undefined)).toBeUndefined();
  });

  it("become URIs and back, also as the editor normalizes them", () => {
    for (const path of ["tests/a b.py", "naïve#?.png", "100%/x.py", "a:b+c.py"]) {
      expect(parseReviewUri(reviewUri(RESULT, ID, path))).toEqual({ scheme: RESULT, id: ID, path });
    }
    expect(parseReviewUri(`understudy-result://${ID}/a%20b%3Ac.py`)?.path).toBe("a b:c.py");
    expect(parseReviewUri("file:///home/ada/x.py")).toBeUndefined();
  });

  it("are shown as display paths", () => {
    expect(displayPath('"na\\303\\257ve.png"')).toBe("naïve.png");
    expect(displayPath('"a\\"b\\tc\\\\d"')).toBe('a"b\tc\\d');
    expect(displayPath("plain/path.py")).toBe("plain/path.py");
    expect(displayPath('"\\377.txt"')).toBe("\ufffd.txt");
  });
});

describe("the order of a review", () => {
  const all = hunkRefs(ID, DIFF.files);

  it("visits pending hunks file by file, and wraps around", () => {
    const paths = all.map((spot) => `${spot.file.path} ${spot.hunk.state}`);
    expect(paths).toEqual([
      "tests/test_wrapping_ghost.py pending",
      "greeting/wrap.py rejected",
      '"na\\303\\257ve.png" pending',
    ]);
    const first = adjacentHunk(all, undefined, 1);
    expect(first?.hunk.id).toBe("0a1b2c3d4e5f");
    const second = adjacentHunk(all, first, 1);
    expect(second?.hunk.id).toBe("99aabbccddee");
    expect(adjacentHunk(all, second, 1)?.hunk.id).toBe("0a1b2c3d4e5f");
    expect(adjacentHunk(all, first, -1)?.hunk.id).toBe("99aabbccddee");
    expect(adjacentHunk(all, undefined, -1)?.hunk.id).toBe("99aabbccddee");
  });

  it("visits all hunks if none is pending, and none if there are none", () => {
    const done = hunkRefs(
      ID,
      DIFF.files.map((one) => ({ ...one, hunks: one.hunks.map((each) => ({ ...each, state: "accepted" as const })) })),
    );
    expect(adjacentHunk(done, done[0], 1)?.file.path).toBe("greeting/wrap.py");
    expect(adjacentHunk([], undefined, 1)).toBeUndefined();
  });

  it("finds its position after a hunk was split", () => {
    const gone = { id: ID, file: file("gone.py", []), hunk: hunk("ffffffffffff", [1, 1], [1, 1]) };
    expect(adjacentHunk(all, gone, 1)?.hunk.id).toBe("0a1b2c3d4e5f");
  });

  it("finds the hunk at a line of either side", () => {
    const one = file("a.py", [hunk("a", [3, 2], [3, 4]), hunk("b", [20, 0], [22, 1]), hunk("c", [30, 3], [32, 0])]);
    expect(linesOf(one.hunks[0]!)).toEqual({ start: 2, end: 5 });
    expect(linesOf(one.hunks[1]!, "old")).toEqual({ start: 19, end: 19 });
    expect(linesOf(one.hunks[2]!)).toEqual({ start: 31, end: 31 });
    expect(hunkAt(one, 4, "new")?.id).toBe("a");
    expect(hunkAt(one, 10, "new")?.id).toBe("a");
    expect(hunkAt(one, 0, "new")?.id).toBe("a");
    expect(hunkAt(one, 31, "old")?.id).toBe("c");
    expect(hunkAt(file("a.py", []), 0, "new")).toBeUndefined();
  });

  it("distinguishes a mode change from lines at the same position by the last visited hunk", () => {
    const both = file("run.sh", [hunk("mode", [0, 0], [0, 0]), hunk("lines", [1, 1], [1, 1])]);
    const [mode, lines] = both.hunks;
    expect(hunkAt(both, 0, "new")?.id).toBe("lines");
    expect(hunkAt(both, 0, "new", mode)?.id).toBe("mode");
    expect(hunkAt(both, 0, "new", lines)?.id).toBe("lines");
    expect(hunkAt(both, 9, "new", mode)?.id).toBe("lines");
  });
});

describe("the label of a hunk", () => {
  it("is its first line with a word", () => {
    expect(firstLine(hunk("a", [1, 0], [2, 3]), "", "x\n\n   # two\nthree\n")).toBe("# two");
    expect(firstLine(hunk("a", [1, 1], [0, 0]), "gone = 1\n", "")).toBe("gone = 1");
    expect(firstLine(hunk("a", [1, 1], [1, 1]), undefined, undefined)).toBe("");
  });

  it("is applied to the base alone for a conflict", () => {
    const base = "1\n2\n3\n4\n5\n";
    const now = "1\ntwo\n3\n4\n4b\n5\nend";
    const hunks = [hunk("a", [2, 1], [2, 1]), hunk("b", [4, 0], [5, 1]), hunk("c", [5, 0], [7, 1])];
    expect(applyHunks(base, now, hunks)).toBe(now);
    expect(applyHunks(base, now, [hunks[1]!])).toBe("1\n2\n3\n4\n4b\n5\n");
    expect(applyHunks(base, now, [])).toBe(base);
    expect(applyHunks(base, "1\n3\n4\n5\n", [hunk("d", [2, 1], [1, 0])])).toBe("1\n3\n4\n5\n");
  });
});

describe("rejection reasons", () => {
  it("are collected once, with their places", () => {
    const rejected = (id: string, line: number, reason?: string): Hunk =>
      hunk(id, [line, 1], [line, 1], { state: "rejected", ...(reason === undefined ? {} : { reason }) });
    const found = rejectionReasons(
      hunkRefs(ID, [
        file("a.py", [rejected("a", 4, "Keep the old name."), rejected("b", 9), hunk("c", [12, 1], [12, 1])]),
        file("b.py", [rejected("d", 1, "Keep the old name.")], "added"),
        file("c.py", [rejected("e", 2, "Too long.")]),
      ]),
    );
    expect(found).toEqual([
      { reason: "Keep the old name.", places: ["a.py:4", "b.py"] },
      { reason: "Too long.", places: ["c.py:2"] },
    ]);
    expect(rejectionReasons(hunkRefs(ID, DIFF.files))).toEqual([
      { reason: "Keep the old name.", places: ["greeting/wrap.py"] },
    ]);
  });
});
