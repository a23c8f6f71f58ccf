import { existsSync, mkdtempSync, rmSync } from "node:fs";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { install, installed, type InstallParts } from "../src/client/install.ts";
import { environment } from "../src/client/process.ts";
import { pipe } from "./support/pipe.ts";

const WHEELS = path.join(import.meta.dirname, "../wheels");
const top = mkdtempSync(path.join(os.tmpdir(), "understudy-install-"));
afterAll(() => rmSync(top, { recursive: true, force: true }));

function parts(change: Partial<InstallParts> = {}): InstallParts {
  return {
    wheelsPath: WHEELS,
    storagePath: path.join(top, "storage"),
    version: "0.1.0",
    python: "",
    platform: process.platform,
    env: environment(process.env),
    log: () => {},
    ...change,
  };
}

/** Making an environment takes long: `npm run heavy` after `make package`. */
const HEAVY = process.env["UNDERSTUDY_HEAVY"] === "1";
const never = new AbortController().signal;

/** A program that makes environments of copies of itself, in place of Python. */
async function standIn(name: string): Promise<{ storagePath: string; wheelsPath: string; python: string }> {
  const [storagePath, wheelsPath] = [path.join(top, name), path.join(top, name, "wheels")];
  await fs.mkdir(wheelsPath, { recursive: true });
  await fs.writeFile(path.join(wheelsPath, "requirements.txt"), "");
  const python = path.join(top, name, "python");
  const script = `#!/bin/sh
for home; do :; done # the last word
case "$*" in
  *ensurepip*) echo 3.12 ;;
  *" venv "*) mkdir -p "$home/bin" && cp "$0" "$home/bin/python" && cp "$0" "$home/bin/understudy" ;;
esac
`;
  await fs.writeFile(python, script, { mode: 0o755 });
  return { storagePath, wheelsPath, python };
}

describe("install", () => {
  it("says what to do when the extension carries no wheels", async () => {
    await expect(install(parts({ wheelsPath: top }), () => {}, never)).rejects.toMatchObject({
      hint: expect.stringContaining("understudy.path") as string,
    });
  });

  it("says what it looked at when there is no Python that fits", async () => {
    const wheelsPath = path.join(top, "wheels");
    await fs.mkdir(wheelsPath, { recursive: true });
    await fs.writeFile(path.join(wheelsPath, "requirements.txt"), "");
    const old = path.join(top, "python-old");
    await fs.writeFile(old, "#!/bin/sh\necho 3.9\n", { mode: 0o755 });
    await expect(install(parts({ wheelsPath, python: old }), () => {}, never)).rejects.toThrow(`${old}: 3.9`);
    expect(await installed(path.join(top, "storage"))).toBeUndefined();
  });

  it("keeps what ran until now for other windows, and nothing else that is older", async () => {
    const { storagePath, wheelsPath, python } = await standIn("sweep");
    const sidecar = path.join(storagePath, "sidecar");
    const ran = path.join(sidecar, "0.9.0-1", "bin", "understudy");
    // The last one was broken off in the middle: nobody runs it.
    for (const name of ["0.10.0-0", "0.9.0-1", "0.10.0-2"])
      await fs.mkdir(path.join(sidecar, name, "bin"), { recursive: true });
    await fs.writeFile(path.join(storagePath, "sidecar.json"), JSON.stringify({ program: ran }));
    const program = await install(parts({ wheelsPath, storagePath, python }), () => {}, never);
    expect(await installed(storagePath)).toBe(program);
    const kept = [ran, program].map((file) => path.basename(path.dirname(path.dirname(file))));
    expect(new Set(await fs.readdir(sidecar))).toEqual(new Set(kept));
  });

  it("leaves nothing behind when it is cancelled, and takes nothing for installed", async () => {
    const { storagePath, wheelsPath, python } = await standIn("cancelled");
    const cancel = new AbortController();
    const running = install(
      parts({ wheelsPath, storagePath, python }),
      (_, percent) => percent === 50 && cancel.abort(),
      cancel.signal,
    );
    await expect(running).rejects.toThrow("cancelled");
    expect(await fs.readdir(path.join(storagePath, "sidecar"))).toEqual([]);
    expect(await installed(storagePath)).toBeUndefined();
  });

  it.runIf(HEAVY)(
    "leaves nothing behind, and keeps what was there, when a wheel is not what was locked",
    async () => {
      const wheelsPath = path.join(top, "forged");
      await fs.mkdir(wheelsPath, { recursive: true });
      await fs.writeFile(path.join(wheelsPath, "understudy-0.1.0-py3-none-any.whl"), "not what was locked");
      await fs.writeFile(
        path.join(wheelsPath, "requirements.txt"),
        `understudy==0.1.0 --hash=sha256:${"0".repeat(64)}\n`,
      );
      const storagePath = path.join(top, "kept");
      await fs.mkdir(storagePath, { recursive: true });
      const earlier = path.join(storagePath, "sidecar/earlier/bin/understudy");
      await fs.writeFile(path.join(storagePath, "sidecar.json"), JSON.stringify({ program: earlier }));
      await expect(install(parts({ wheelsPath, storagePath }), () => {}, never)).rejects.toThrow();
      expect(await fs.readdir(path.join(storagePath, "sidecar"))).toEqual([]);
      expect(await installed(storagePath)).toBe(earlier);
    },
    60_000,
  );

  it.runIf(HEAVY && existsSync(path.join(WHEELS, "requirements.txt")))(
    "installs what the extension carries, without a network, and it greets",
    async () => {
      const steps: string[] = [];
      // No index, no proxy leads anywhere: what is not carried cannot come.
      const env = {
        ...environment(process.env),
        PIP_INDEX_URL: "http://127.0.0.1:9/",
        HTTPS_PROXY: "http://127.0.0.1:9/",
      };
      const program = await install(parts({ env }), (message) => steps.push(message), never);
      expect(await installed(path.join(top, "storage"))).toBe(program);
      expect(steps).toHaveLength(4);
      const home = path.join(top, "home");
      await fs.mkdir(home);
      const launch = { command: program, args: ["serve"], cwd: home, env: { ...env, HOME: home }, trusted: false };
      const wire = await pipe(launch, () => {}, never);
      expect(wire.greeting).toMatchObject({ protocolVersion: 1, version: "0.1.0" });
      await wire.stop();
    },
    180_000,
  );
});
