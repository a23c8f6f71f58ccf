import { PROTOCOL_VERSION } from "../../src/protocol.ts";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { canServeMcp } from "../../src/assistants/mcpServers.ts";
import { install, installedProgram, type InstallOptions } from "../../src/sidecar/installer.ts";
import { sidecarEnvironment } from "../../src/sidecar/childProcess.ts";
import { pipe } from "../support/pipeConnection.ts";

const WHEELS = path.join(import.meta.dirname, "../../wheels");
const top = mkdtempSync(path.join(os.tmpdir(), "understudy-install-"));
afterAll(() => rmSync(top, { recursive: true, force: true }));

function parts(change: Partial<InstallOptions> = {}): InstallOptions {
  return {
    wheelsPath: WHEELS,
    storagePath: path.join(top, "storage"),
    version: "0.1.0",
    python: "",
    env: sidecarEnvironment(process.env),
    log: () => {},
    ...change,
  };
}

/** Needs the wheels: `npm run heavy` after `make package`. */
const HEAVY = process.env["UNDERSTUDY_HEAVY"] === "1";
const never = new AbortController().signal;

/** A program that creates environments with copies of itself, in place of Python. */
async function standIn(name: string): Promise<{ storagePath: string; wheelsPath: string; python: string }> {
  const [storagePath, wheelsPath] = [path.join(top, name), path.join(top, name, "wheels")];
  await fs.mkdir(wheelsPath, { recursive: true });
  for (const file of ["unpack_wheels.py", "python3.12.txt"]) await fs.writeFile(path.join(wheelsPath, file), "");
  const python = path.join(top, name, "python");
  const script = `#!/bin/sh
for home; do :; done # the last word
case "$*" in
  *version_info*) echo 3.12 ;;
  *unpack_wheels*) mkdir -p "$home/bin" && cp "$0" "$home/bin/understudy" && echo 1/2 && echo 2/2 ;;
esac
`;
  await fs.writeFile(python, script, { mode: 0o755 });
  return { storagePath, wheelsPath, python };
}

describe("install", () => {
  it("explains what to do if the extension contains no wheels", async () => {
    await expect(install(parts({ wheelsPath: top }), () => {}, never)).rejects.toMatchObject({
      hint: expect.stringContaining("understudy.path") as string,
    });
  });

  it("reports what it searched if there is no suitable Python", async () => {
    const wheelsPath = path.join(top, "wheels");
    await fs.mkdir(wheelsPath, { recursive: true });
    for (const file of ["unpack_wheels.py", "python3.12.txt"]) await fs.writeFile(path.join(wheelsPath, file), "");
    const old = path.join(top, "python-old");
    await fs.writeFile(old, "#!/bin/sh\necho 3.9\n", { mode: 0o755 });
    await expect(install(parts({ wheelsPath, python: old }), () => {}, never)).rejects.toThrow(`${old}: 3.9`);
    expect(await installedProgram(path.join(top, "storage"))).toBeUndefined();
  });

  it("keeps the previous installation for other windows, and removes older ones", async () => {
    const { storagePath, wheelsPath, python } = await standIn("sweep");
    const sidecar = path.join(storagePath, "sidecar");
    const ran = path.join(sidecar, "0.9.0-1", "bin", "understudy");
    // The last installation was interrupted: no window runs it.
    for (const name of ["0.10.0-0", "0.9.0-1", "0.10.0-2"])
      await fs.mkdir(path.join(sidecar, name, "bin"), { recursive: true });
    await fs.writeFile(path.join(storagePath, "sidecar.json"), JSON.stringify({ program: ran }));
    const program = await install(parts({ wheelsPath, storagePath, python }), () => {}, never);
    expect(await installedProgram(storagePath)).toBe(program);
    const kept = [ran, program].map((file) => path.basename(path.dirname(path.dirname(file))));
    expect(new Set(await fs.readdir(sidecar))).toEqual(new Set(kept));
  });

  it("leaves nothing behind when cancelled", async () => {
    const { storagePath, wheelsPath, python } = await standIn("cancelled");
    const cancel = new AbortController();
    const running = install(
      parts({ wheelsPath, storagePath, python }),
      (_, percent) => percent === 10 && cancel.abort(),
      cancel.signal,
    );
    await expect(running).rejects.toThrow("cancelled");
    expect(await fs.readdir(path.join(storagePath, "sidecar"))).toEqual([]);
    expect(await installedProgram(storagePath)).toBeUndefined();
  });

  it.runIf(HEAVY && existsSync(path.join(WHEELS, "unpack_wheels.py")))(
    "installs the bundled engine in seconds, and starts it",
    async () => {
      const steps: string[] = [];
      const env = sidecarEnvironment(process.env);
      const program = await install(parts({ env }), (message) => steps.push(message), never);
      expect(await installedProgram(path.join(top, "storage"))).toBe(program);
      expect(steps.at(-2)).toMatch(/^Unpacking packages \((\d+) of \1\)…$/);
      const home = path.join(top, "home");
      await fs.mkdir(home);
      const launch = { command: program, args: ["serve"], cwd: home, env: { ...env, HOME: home }, trusted: false };
      const wire = await pipe(launch, () => {}, never);
      expect(wire.serverInfo).toMatchObject({ protocolVersion: PROTOCOL_VERSION, version: "0.1.0" });
      await wire.stop();
      // Packages that only a part needs are bundled, too: other agents and editors use this engine.
      expect(await canServeMcp(program)).toBe(true);
      for (const packageName of ["mcp", "acp"]) {
        const python = path.join(path.dirname(program), "python");
        await promisify(execFile)(python, ["-c", `import ${packageName}`], { env });
      }
    },
    180_000,
  );
});
