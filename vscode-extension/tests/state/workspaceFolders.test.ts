import { describe, expect, it } from "vitest";
import { folderOf } from "../../src/state/workspaceFolders.ts";

describe("the folder of a file", () => {
  const folder = (path: string) => ({ uri: `file://${path}`, path, name: path });

  it("is the innermost one, however its URI is escaped, otherwise the first", () => {
    const folders = [folder("/a"), folder("/a/b"), folder("/w%3A/c+d")];
    expect(folderOf("file:///a/b/c.toml", folders)?.path).toBe("/a/b");
    expect(folderOf("file:///a/bc.toml", folders)?.path).toBe("/a");
    expect(folderOf("file:///w%3A/c%2Bd/x.toml", folders)?.path).toBe("/w%3A/c+d");
    expect(folderOf("file:///elsewhere/x.toml", folders)?.path).toBe("/a");
    expect(folderOf(undefined, [])).toBeUndefined();
  });
});
