/** What the editor's file system API gets from the files of a result: they cannot be renamed, deleted or written. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { DisposableStore, Emitter } from "../../src/base/events.ts";
import { FileMissing, type FileChange, type VirtualFiles } from "../../src/host/host.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";

interface Provider {
  stat(uri: object): Promise<object>;
  readFile(uri: object): Promise<Uint8Array>;
  writeFile(uri: object, content: Uint8Array): Promise<void>;
  rename(uri: object): void;
  delete(uri: object): void;
  createDirectory(uri: object): void;
}

class FileSystemError extends Error {
  static FileNotFound = (): Error => new FileSystemError("not found");
  static Unavailable = (why: string): Error => new FileSystemError(`unavailable: ${why}`);
  static NoPermissions = (why: string): Error => new FileSystemError(`no permission: ${why}`);
}

const nothing = { dispose: () => {} };
const on = () => nothing;
const registered: { scheme: string; provider: Provider; options: object }[] = [];
const fired: object[] = [];
vi.mock("vscode", () => ({
  EventEmitter: class {
    event = on;
    fire = (changes: object[]): void => void fired.push(...changes);
    dispose = (): void => {};
  },
  FileChangeType: { Changed: 1, Deleted: 3 },
  FilePermission: { Readonly: 1 },
  FileSystemError,
  FileType: { File: 1 },
  Uri: { parse: (text: string) => uri(text) },
  window: {
    onDidChangeTextEditorVisibleRanges: on,
    onDidChangeTextEditorSelection: on,
    onDidChangeActiveTextEditor: on,
    tabGroups: { onDidChangeTabs: on },
  },
  languages: { createDiagnosticCollection: () => nothing },
  workspace: {
    onDidCloseTextDocument: on,
    onDidSaveTextDocument: on,
    onDidChangeTextDocument: on,
    registerFileSystemProvider: (scheme: string, provider: Provider, options: object) => {
      registered.push({ scheme, provider, options });
      return nothing;
    },
  },
}));

const { documentsOf } = await import("../../src/host/vscode/documents.ts");

const uri = (text: string): object => ({ path: text.replace(/^\w+:/u, ""), toString: () => text });
const A = uri("x:/a.py");

function provide(source: Partial<VirtualFiles>): {
  provider: Provider;
  options: object;
  tell: Emitter<readonly FileChange[]>;
} {
  const tell = new Emitter<readonly FileChange[]>();
  const bytes = Promise.resolve(Buffer.from("one\n"));
  documentsOf(new DisposableStore()).provideFiles("x", { read: () => bytes, onDidChange: tell.subscribe, ...source });
  return { ...registered.at(-1)!, tell };
}

beforeEach(() => {
  registered.length = fired.length = 0;
});

describe("files of a result in VS Code", () => {
  it("can never be renamed, deleted, or joined by others", () => {
    const { provider } = provide({ write: () => Promise.resolve() });
    for (const name of ["rename", "delete", "createDirectory"] as const)
      expect(() => provider[name](A), name).toThrow("no permission: /a.py is read-only.");
  });

  it("are written only if they are a copy", async () => {
    const shown = provide({});
    expect(shown.options).toMatchObject({ isReadonly: true });
    expect(await shown.provider.stat(A)).toMatchObject({ size: 4, permissions: 1 });
    await expect(shown.provider.writeFile(A, Buffer.from("two"))).rejects.toThrow("no permission");
    const saved: string[] = [];
    const write = (_: string, content: Uint8Array): Promise<void> =>
      Promise.resolve(void saved.push(Buffer.from(content).toString()));
    const stat = { size: 4, changed: 7 };
    const copy = provide({ write, stat: () => Promise.resolve(stat) });
    expect(copy.options).toMatchObject({ isReadonly: false });
    expect(await copy.provider.stat(A)).toEqual({ type: 1, ctime: 0, mtime: 7, size: 4 });
    await copy.provider.writeFile(A, Buffer.from("two"));
    expect(saved).toEqual(["two"]);
    const locked = provide({ write, stat: () => Promise.resolve({ ...stat, readonly: true }) });
    expect(await locked.provider.stat(A)).toMatchObject({ permissions: 1 });
  });

  it("are missing only if they are not in the result: others may come back", async () => {
    const gone = provide({ read: () => Promise.reject(new FileMissing("a.py is not in the result.")) });
    await expect(gone.provider.readFile(A)).rejects.toThrow(/^not found$/u);
    const stopped = new SidecarError({ kind: "connection_failed", message: "It stopped.", hint: "Restart it." });
    const later = provide({ read: () => Promise.reject(stopped) });
    await expect(later.provider.readFile(A)).rejects.toThrow("unavailable: It stopped. Restart it.");
    await expect(later.provider.stat(A)).rejects.toThrow("unavailable");
  });

  it("report what changed and what is gone", () => {
    const { tell } = provide({});
    tell.fire([
      { uri: "x:/a.py", kind: "changed" },
      { uri: "x:/b.py", kind: "deleted" },
    ]);
    expect(fired).toMatchObject([{ type: 1 }, { type: 3 }]);
  });
});
