import { describe, expect, it } from "vitest";
import type { FileDiff, Hunk } from "../src/protocol.ts";
import {
  compose,
  firstLine,
  fileRow,
  hunkAt,
  hunkRow,
  linesOf,
  named,
  neighbour,
  rangeOf,
  reasons,
  shifted,
  shownPath,
  spots,
} from "../src/review/hunks.ts";
import { placeOf, RESULT, uriOf } from "../src/review/places.ts";
import { result } from "./support/golden.ts";

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

describe("names of rows", () => {
  it("name a file or a hunk, whatever the path holds", () => {
    expect(named(hunkRow(ID, 'a:b/"c".py', "0a1b2c3d4e5f"))).toEqual({
      kind: "hunk",
      id: ID,
      path: 'a:b/"c".py',
      hunk: "0a1b2c3d4e5f",
    });
    expect(named(fileRow(ID, "a:b.py"))).toEqual({ kind: "file", id: ID, path: "a:b.py" });
    expect(named(`check:${ID}:pytest`)).toBeUndefined();
    expect(named(undefined)).toBeUndefined();
  });

  it("become addresses and back, also in the editor's spelling", () => {
    for (const path of ["tests/a b.py", "naïve#?.png", "100%/x.py", "a:b+c.py"]) {
      expect(placeOf(uriOf(RESULT, ID, path))).toEqual({ scheme: RESULT, id: ID, path });
    }
    expect(placeOf(`understudy-result://${ID}/a%20b%3Ac.py`)?.path).toBe("a b:c.py");
    expect(placeOf("file:///home/ada/x.py")).toBeUndefined();
  });

  it("read as people write them", () => {
    expect(shownPath('"na\\303\\257ve.png"')).toBe("naïve.png");
    expect(shownPath('"a\\"b\\tc\\\\d"')).toBe('a"b\tc\\d');
    expect(shownPath("plain/path.py")).toBe("plain/path.py");
    expect(shownPath('"\\377.txt"')).toBe("\ufffd.txt");
  });
});

describe("the way through a review", () => {
  const all = spots(ID, DIFF.files);

  it("goes over what is undecided, file by file, and round", () => {
    const paths = all.map((spot) => `${spot.file.path} ${spot.hunk.state}`);
    expect(paths).toEqual([
      "tests/test_wrapping_ghost.py pending",
      "greeting/wrap.py rejected",
      '"na\\303\\257ve.png" pending',
    ]);
    const first = neighbour(all, undefined, 1);
    expect(first?.hunk.id).toBe("0a1b2c3d4e5f");
    const second = neighbour(all, first, 1);
    expect(second?.hunk.id).toBe("99aabbccddee");
    expect(neighbour(all, second, 1)?.hunk.id).toBe("0a1b2c3d4e5f");
    expect(neighbour(all, first, -1)?.hunk.id).toBe("99aabbccddee");
    expect(neighbour(all, undefined, -1)?.hunk.id).toBe("99aabbccddee");
  });

  it("goes over everything once everything is decided, and nowhere when there is nothing", () => {
    const done = spots(
      ID,
      DIFF.files.map((one) => ({ ...one, hunks: one.hunks.map((each) => ({ ...each, state: "accepted" as const })) })),
    );
    expect(neighbour(done, done[0], 1)?.file.path).toBe("greeting/wrap.py");
    expect(neighbour([], undefined, 1)).toBeUndefined();
  });

  it("finds its place again after a hunk was split anew", () => {
    const gone = { id: ID, file: file("gone.py", []), hunk: hunk("ffffffffffff", [1, 1], [1, 1]) };
    expect(neighbour(all, gone, 1)?.hunk.id).toBe("0a1b2c3d4e5f");
  });

  it("knows the hunk at a line of either side", () => {
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

  it("tells a change of mode from the lines at the same place by where the person was last", () => {
    const both = file("run.sh", [hunk("mode", [0, 0], [0, 0]), hunk("lines", [1, 1], [1, 1])]);
    const [mode, lines] = both.hunks;
    expect(hunkAt(both, 0, "new")?.id).toBe("lines");
    expect(hunkAt(both, 0, "new", mode)?.id).toBe("mode");
    expect(hunkAt(both, 0, "new", lines)?.id).toBe("lines");
    expect(hunkAt(both, 9, "new", mode)?.id).toBe("lines");
  });
});

describe("places after edits", () => {
  const read = ["a", "b", "c", "d", "e"].join("\n");

  it("stay above an edit and move along below it", () => {
    const shown = ["a", "b", "new", "new", "c", "d", "e"].join("\n");
    expect([0, 1, 2, 4].map((line) => shifted(line, read, shown))).toEqual([0, 1, 4, 6]);
    expect([0, 1, 4, 6].map((line) => shifted(line, shown, read))).toEqual([0, 1, 2, 4]);
  });

  it("are at the beginning of an edit that they are in, and never beyond the text", () => {
    expect(shifted(2, read, ["a", "b", "C", "d", "e"].join("\n"))).toBe(2);
    expect(shifted(3, read, "a")).toBe(0);
    expect(shifted(4, read, "")).toBe(0);
  });

  it("hold for a whole hunk", () => {
    expect(rangeOf(hunk("a", [4, 1], [4, 2]), "new", read, `first\n${read}`)).toEqual({
      start: { line: 4, character: 0 },
      end: { line: 5, character: 0 },
    });
  });
});

describe("what a hunk says", () => {
  it("is its first line with a word in it", () => {
    expect(firstLine(hunk("a", [1, 0], [2, 3]), "", "x\n\n   # two\nthree\n")).toBe("# two");
    expect(firstLine(hunk("a", [1, 1], [0, 0]), "gone = 1\n", "")).toBe("gone = 1");
    expect(firstLine(hunk("a", [1, 1], [1, 1]), undefined, undefined)).toBe("");
  });

  it("is composed into the base alone for a conflict", () => {
    const base = "1\n2\n3\n4\n5\n";
    const now = "1\ntwo\n3\n4\n4b\n5\nend";
    const hunks = [hunk("a", [2, 1], [2, 1]), hunk("b", [4, 0], [5, 1]), hunk("c", [5, 0], [7, 1])];
    expect(compose(base, now, hunks)).toBe(now);
    expect(compose(base, now, [hunks[1]!])).toBe("1\n2\n3\n4\n4b\n5\n");
    expect(compose(base, now, [])).toBe(base);
    expect(compose(base, "1\n3\n4\n5\n", [hunk("d", [2, 1], [1, 0])])).toBe("1\n3\n4\n5\n");
  });
});

describe("reasons", () => {
  it("are collected once, with their places", () => {
    const rejected = (id: string, line: number, reason?: string): Hunk =>
      hunk(id, [line, 1], [line, 1], { state: "rejected", ...(reason === undefined ? {} : { reason }) });
    const found = reasons(
      spots(ID, [
        file("a.py", [rejected("a", 4, "Keep the old name."), rejected("b", 9), hunk("c", [12, 1], [12, 1])]),
        file("b.py", [rejected("d", 1, "Keep the old name.")], "added"),
        file("c.py", [rejected("e", 2, "Too long.")]),
      ]),
    );
    expect(found).toEqual([
      { reason: "Keep the old name.", places: ["a.py:4", "b.py"] },
      { reason: "Too long.", places: ["c.py:2"] },
    ]);
    expect(reasons(spots(ID, DIFF.files))).toEqual([{ reason: "Keep the old name.", places: ["greeting/wrap.py"] }]);
  });
});
