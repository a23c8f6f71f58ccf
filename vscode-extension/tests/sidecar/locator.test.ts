/** Which programs are run: none of an untrusted folder, and none behind a misleading path. */
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { DisposableStore } from "../../src/base/events.ts";
import { install, installedProgram } from "../../src/sidecar/installer.ts";
import { locate, searchPath, type LocateOptions } from "../../src/sidecar/locator.ts";
import { sidecarEnvironment } from "../../src/sidecar/childProcess.ts";
import { ProcessExitError, type LaunchCommand } from "../../src/sidecar/connection.ts";
import { FakeHost } from "../support/fakeHost.ts";

const top = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "understudy-programs-")));
const shop = path.join(top, "shop");
const own = path.join(top, "home/bin");
const storagePath = path.join(top, "storage");
const wheelsPath = path.join(top, "wheels");
const log = path.join(top, "log");
afterAll(() => fs.rmSync(top, { recursive: true, force: true }));

/** Records how it was started; used instead of Python and the programs that Python creates. */
const PROGRAM = `#!/bin/sh
echo "$0|$PWD|$*|$(env | grep -E '^PYTHON(PATH|HOME)=' | sort | tr '\\n' ' ')" >> ${log}
case "$*" in
*version_info*) echo 3.13 ;;
*unpack_wheels*) for home; do :; done; mkdir -p "$home/bin"; cp "$0" "$home/bin/understudy" ;;
esac
`;

function program(file: string): string {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, PROGRAM, { mode: 0o755 });
  return file;
}

const started = (): string[][] =>
  fs
    .readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => line.split("|"));

beforeEach(() => {
  for (const folder of [shop, path.dirname(own), storagePath, wheelsPath, log]) {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  program(path.join(shop, ".venv/bin/understudy"));
  program(path.join(shop, ".venv/bin/python3.13"));
  program(path.join(shop, "python3.13"));
  program(path.join(own, "python3.13"));
  fs.mkdirSync(wheelsPath);
  for (const name of ["unpack_wheels.py", "python3.13.txt"]) fs.writeFileSync(path.join(wheelsPath, name), "");
});

const look = (change: Partial<LocateOptions>): LocateOptions => ({
  setting: "",
  homePath: path.dirname(own),
  variables: { PATH: path.join(shop, ".venv/bin") },
  platform: process.platform,
  folders: [shop],
  installed: undefined,
  ...change,
});

describe("a folder of the workspace", () => {
  it("provides no sidecar, not even through PATH or a link", async () => {
    const { found, searched } = await locate(look({}));
    expect(found).toBeUndefined();
    expect(searched[1]).toBe(
      `${path.join(shop, ".venv/bin/understudy")} (in the workspace: used only as understudy.path)`,
    );
    fs.symlinkSync(path.join(shop, ".venv/bin/understudy"), path.join(own, "understudy"));
    expect((await locate(look({ variables: { PATH: own } }))).found).toBeUndefined();
    const link = path.join(top, "home/link");
    fs.symlinkSync(shop, link);
    expect((await locate(look({ folders: [link] }))).found).toBeUndefined();
    expect((await locate(look({ folders: [] }))).found?.origin).toBe("path");
    const setting = path.join(shop, ".venv/bin/understudy");
    expect((await locate(look({ setting }))).found?.origin).toBe("setting");
  });

  it("provides no sidecar through an environment that it links to", async () => {
    const environment = path.join(top, "home/environment");
    fs.rmSync(path.join(shop, ".venv"), { recursive: true });
    program(path.join(environment, "bin/understudy"));
    fs.symlinkSync(environment, path.join(shop, ".venv"));
    expect((await locate(look({}))).found).toBeUndefined();
    expect((await locate(look({ variables: { PATH: path.join(environment, "bin") } }))).found?.origin).toBe("path");
  });
});

describe("an untrusted folder", () => {
  it("provides no program to the sidecar or its children", () => {
    const entries = [".", "", "bin", path.join(shop, ".venv/bin"), shop, `${shop}-2`, own];
    expect(searchPath(entries.join(":"), [shop], "linux")).toEqual([`${shop}-2`, own]);
    expect(sidecarEnvironment({ PATH: entries.join(":") }, [shop])["PATH"]).toBe(`${shop}-2:${own}`);
    expect(sidecarEnvironment({ PATH: entries.join(":") })["PATH"]?.split(":")).toContain(shop);
    expect(sidecarEnvironment({ PATH: shop }, [shop])["PATH"]).toBe("/usr/bin:/bin");
    expect(sidecarEnvironment({})).not.toHaveProperty("PATH");
  });

  it.each([false, true])("is removed from the sidecar's PATH (trusted: %s)", async (trusted) => {
    const host = new FakeHost();
    program(path.join(own, "understudy"));
    host.trusted = trusted;
    host.folders = [{ uri: `file://${shop}`, path: shop, name: "shop" }];
    host.environment = {
      ...host.environment,
      storagePath,
      variables: { PATH: `.:${path.join(shop, "node_modules/.bin")}:${own}` },
    };
    const launches: LaunchCommand[] = [];
    const disposables = new DisposableStore();
    const connect = (launch: LaunchCommand): Promise<never> => {
      launches.push(launch);
      return Promise.reject(new ProcessExitError({ code: 1, signal: null, lines: [] }));
    };
    await createApp({ host, connect: () => connect }, disposables).sidecar.start();
    disposables.dispose();
    expect(launches[0]?.env["PATH"]?.includes(shop)).toBe(trusted);
    expect(launches[0]?.env["PATH"]?.split(":")).not.toContain(".");
  });
});

describe("the installation", () => {
  const parts = (change: object = {}) => ({
    wheelsPath,
    storagePath,
    version: "0.1.0",
    python: "",
    env: sidecarEnvironment({ PATH: `.::${path.join(shop, ".venv/bin")}:${own}:/usr/bin:/bin`, ...change }, [shop]),
    log: () => {},
  });
  const never = new AbortController().signal;

  it("runs no program of the current folder, and nothing in it", async () => {
    const before = process.cwd();
    process.chdir(shop);
    try {
      await install(parts(), () => {}, never);
    } finally {
      process.chdir(before);
    }
    expect(started()).toHaveLength(3);
    for (const [name, folder] of started()) {
      expect(name?.startsWith(shop), name).toBe(false);
      expect(folder).toBe(storagePath);
    }
  });

  it("uses no Python of the workspace, not even of a trusted one", async () => {
    const host = new FakeHost();
    host.trusted = true;
    host.folders = [{ uri: `file://${shop}`, path: shop, name: "shop" }];
    const variables = { PATH: `${path.join(shop, ".venv/bin")}:${own}:/usr/bin:/bin` };
    host.environment = { ...host.environment, storagePath, variables, extensionPath: top };
    const disposables = new DisposableStore();
    const connect = (): Promise<never> => Promise.reject(new ProcessExitError({ code: 1, signal: null, lines: [] }));
    createApp({ host, connect: () => connect }, disposables);
    await host.commands.run("understudy.install");
    disposables.dispose();
    expect(started()[0]?.[0]).toBe(path.join(own, "python3.13"));
  });

  it("ignores modules of the folder and of the user", async () => {
    await install(parts({ PYTHONPATH: shop, PYTHONHOME: shop }), () => {}, never);
    const pythons = started().filter(([name]) => name?.includes("python"));
    expect(pythons).toHaveLength(2);
    for (const [, , words] of pythons) expect(words).toMatch(/^-I /);
    for (const [, , , variables] of started()) expect(variables?.trim()).toBe("");
  });

  it("accepts only an absolute path in the setting", async () => {
    const relative = { ...parts(), python: "./python3.13" };
    await expect(install(relative, () => {}, never)).rejects.toThrow("understudy.python");
    expect(fs.existsSync(log)).toBe(false);
  });

  it("trusts its record of the installation only if it can be its own", async () => {
    const done = await install(parts(), () => {}, never);
    expect(await installedProgram(storagePath)).toBe(done);
    for (const planted of [
      path.join(shop, "understudy"),
      `${storagePath}/sidecar/../../shop/understudy`,
      "understudy",
    ]) {
      fs.writeFileSync(path.join(storagePath, "sidecar.json"), JSON.stringify({ program: planted }));
      expect(await installedProgram(storagePath)).toBeUndefined();
    }
  });
});
