/**
 * The fixture of one test: a home folder, a git repository and scripted delegators, all in one temporary folder.
 *
 *     <root>/home        HOME; configuration in .config/understudy, a scripted `claude` in bin/
 *     <root>/shop        the repository that is opened
 *     <root>/state       delegations
 *     <root>/run         runtime folder for sockets (short: the path of a socket is limited to 108 bytes)
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { TOP, until } from "./environment.ts";

export const PYTHON = path.join(TOP, ".venv", "bin", "python");
export const SIDECAR = path.join(TOP, ".venv", "bin", "understudy");
const AGENTS = path.join(import.meta.dirname, "..", "agents");

/** The available delegators, and what they do for "Delegate tests for this file" on `shop/prices.py`. */
export type Cast =
  /** Two hunks in `tests/test_prices.py`, one new file `tests/test_prices_more.py`: verified. */
  | "quick"
  /** Asks whether it may run `rm -rf build`; then writes `tests/test_total.py`. */
  | "careful"
  /** Prints text until `world.release()`; then writes `tests/test_label.py`. */
  | "slow"
  /** Writes a test that cannot fail. */
  | "liar"
  /** Refers to a program that does not exist. */
  | "broken";

export const FILES: Readonly<Record<string, string>> = {
  ".gitignore": ".understudy/local/\n__pycache__/\nbuild/\n",
  "README.md": "# Shop\n\nPrices are kept in cents.\n",
  "shop/__init__.py": "",
  "shop/prices.py": `"""Prices, in cents."""

from __future__ import annotations


def total(prices: list[int]) -> int:
    """Return what all of them cost."""
    return sum(prices)


def discounted(price: int, percent: int) -> int:
    """Return the price after a discount, rounded down to a cent."""
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} is not a percentage")
    return price * (100 - percent) // 100


def label(price: int) -> str:
    """Return the price as a customer reads it."""
    return f"{price // 100}.{price % 100:02}"
`,
  "tests/test_prices.py": `"""Prices of the shop."""

from shop.prices import discounted


def test_no_discount():
    assert discounted(1000, 0) == 1000


def test_half():
    assert discounted(1000, 50) == 500
`,
};

const TWO_HUNKS = `"""Prices of the shop."""

import pytest

from shop.prices import discounted


def test_no_discount():
    assert discounted(1000, 0) == 1000


def test_half():
    assert discounted(1000, 50) == 500


def test_more_than_everything_is_refused():
    with pytest.raises(ValueError, match="101 is not a percentage"):
        discounted(1000, 101)
`;

const NEW_FILE = `"""What a cart costs, and how it is shown."""

from shop.prices import label, total


def test_total_of_a_cart():
    assert total([1999, 1]) == 2000


def test_label_shows_both_digits_of_the_cents():
    assert label(1905) == "19.05"
`;

export interface WorldOptions {
  readonly delegators?: readonly Cast[];
  /** Claude Code is installed (a scripted one that asks, and changes three places), but no delegator uses it. */
  readonly claude?: boolean;
  /** Committed files of the repository; they are added to `FILES` or replace them. */
  readonly files?: Readonly<Record<string, string>>;
  /** Hand-written files below `.config/understudy/` in the home folder. */
  readonly configuration?: Readonly<Record<string, string>>;
  /** The user has trusted the workspace in Understudy (default: as `trusted`). */
  readonly agreed?: boolean;
  /** See `CodeOptions`. */
  readonly trusted?: boolean;
}

export class World {
  readonly root = fs.mkdtempSync(path.join(os.tmpdir(), "us-"));
  readonly home = path.join(this.root, "home");
  readonly repository = path.join(this.root, "shop");
  readonly configuration = path.join(this.home, ".config", "understudy");
  readonly state = path.join(this.root, "state");
  readonly #servers: ChildProcess[] = [];

  constructor(options: WorldOptions = {}) {
    for (const folder of [this.home, this.state, path.join(this.root, "run")]) fs.mkdirSync(folder, { mode: 0o700 });
    this.write({ ...FILES, ...options.files });
    fs.writeFileSync(
      path.join(this.home, ".gitconfig"),
      "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n[commit]\n\tgpgSign = false\n",
    );
    // VS Code reads the environment of a login shell, which starts with a PATH of its own.
    fs.writeFileSync(path.join(this.home, ".profile"), 'PATH="$HOME/bin:$PATH"\n');
    for (const step of [
      ["init", "--quiet", "--template="],
      ["add", "."],
      ["commit", "--quiet", "--message=A shop"],
    ]) {
      this.git(...step);
    }
    // Not tracked: the Python environment of this machine.
    this.write({ ".understudy/local/config.toml": `[environment]\npython = ${toml(this.#projectPython())}\n` });
    for (const name of options.delegators ?? []) this.add(name);
    if (options.claude) this.#claude("--edits");
    for (const [name, text] of Object.entries(options.configuration ?? {})) {
      put(path.join(this.configuration, name), text);
    }
    if (options.agreed ?? options.trusted ?? true) this.understudy("trust", "--yes");
  }

  /** The complete environment of the editor, the sidecar and their children. */
  get environment(): Record<string, string> {
    return {
      HOME: this.home,
      PATH: `${path.join(this.home, "bin")}:/usr/local/bin:/usr/bin:/bin`,
      LANG: "C.UTF-8",
      SHELL: "/bin/bash",
      XDG_RUNTIME_DIR: path.join(this.root, "run"),
      UNDERSTUDY_STATE: this.state,
      PYTHONDONTWRITEBYTECODE: "1",
    };
  }

  /** Write files of the repository. */
  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      put(path.join(this.repository, name), text);
      if (text.startsWith("#!")) fs.chmodSync(path.join(this.repository, name), 0o755);
    }
  }

  /** Return the text of a repository file on disk, `undefined` if it does not exist. */
  read(name: string): string | undefined {
    const file = path.join(this.repository, name);
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined;
  }

  /** Whether a file exists in the home folder. */
  has(name: string): boolean {
    return fs.existsSync(path.join(this.home, name));
  }

  git(...argv: string[]): string {
    return this.#run("git", argv);
  }

  /** Run the command line as the user would, next to the editor; return its `--json` output. */
  understudy(...argv: string[]): any {
    return JSON.parse(this.#run(SIDECAR, [...argv, "--json"]));
  }

  /** All delegations, newest first. */
  delegations(): any[] {
    return this.understudy("list").delegations;
  }

  /** Add a delegator. */
  add(name: Cast): void {
    const generic = (command: string[]): string =>
      `name = ${toml(name)}\ntool = "generic"\n\n[launch]\ncommand = [${command.map(toml).join(", ")}]\noutput = "events"\n`;
    if (name === "careful") this.#claude();
    const scenario = path.join(this.home, "agents", `${name}.json`);
    if (name === "quick") put(scenario, JSON.stringify({ steps: QUICK }, null, 2));
    const text = {
      quick: generic([PYTHON, "-m", "understudy.testing.agent", scenario]),
      careful: `name = "careful"\ntool = "claude"\nmodel = "claude-sonnet-4-5"\n`,
      slow: generic([...script("slow_agent.py"), this.#releasing]),
      liar: generic([PYTHON, "-m", "understudy.testing.agent", "liar"]),
      broken: generic([path.join(this.home, "bin", "gone"), "{prompt}"]),
    }[name];
    put(path.join(this.configuration, "delegators", `${name}.toml`), text);
  }

  /** Put the scripted Claude Code on PATH. */
  /** The project's interpreter: with pytest and Hypothesis, and without plugins that take seconds to load. */
  #projectPython(): string {
    const program = path.join(TOP, "tests", "support", "project_python.py");
    const made = spawnSync(PYTHON, [program, path.join(this.root, "python")], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(made.stderr);
    return made.stdout.trim();
  }

  #claude(...words: string[]): void {
    const program = path.join(this.home, "bin", "claude");
    put(program, `#!/bin/sh\nexec ${[...script("asking_agent.py"), ...words].map(quoted).join(" ")} "$@"\n`);
    fs.chmodSync(program, 0o755);
  }

  /** Let the slow delegator finish. */
  release(): void {
    fs.writeFileSync(this.#releasing, "");
  }

  /** Start the scripted model server; return its base URL (`…/v1`). It ends with the fixture. */
  async modelServer(): Promise<string> {
    const port = await freePort();
    const log = fs.openSync(path.join(this.root, "model-server.log"), "a");
    const server = spawn(PYTHON, ["-m", "understudy.testing.model_server", "--port", String(port)], {
      env: this.environment,
      stdio: ["ignore", log, log],
    });
    this.#servers.push(server);
    await until(
      () =>
        fetch(`http://127.0.0.1:${port}/v1/models`).then(
          (answer) => answer.ok,
          () => false,
        ),
      "the scripted model server answers",
    );
    return `http://127.0.0.1:${port}/v1`;
  }

  /**
   * The processes of this fixture, found by environment, arguments or current folder. Workers have no parent here, so
   * a process group does not contain them.
   */
  processes(): Process[] {
    const found: Process[] = [];
    for (const entry of fs.readdirSync("/proc")) {
      const pid = Number(entry);
      if (!pid || pid === process.pid) continue;
      try {
        const argv = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
        const own = [
          argv.join("\0"),
          fs.readFileSync(`/proc/${pid}/environ`, "utf8"),
          fs.readlinkSync(`/proc/${pid}/cwd`),
        ];
        if (argv.length > 0 && own.some((text) => text.includes(this.root))) found.push({ pid, argv });
      } catch {
        // It has exited, or belongs to another user.
      }
    }
    return found;
  }

  /** The language servers that editors started, without their workers. */
  sidecars(): Process[] {
    return this.processes().filter(
      ({ argv }) => argv.some((word) => /understudy$/.test(word)) && argv.includes("serve"),
    );
  }

  /** End all processes of this fixture and remove its folder. */
  async remove(): Promise<void> {
    for (const server of this.#servers) server.kill("SIGKILL");
    for (const { pid } of this.processes()) kill(pid, "SIGTERM");
    await until(() => this.processes().length === 0, "the world's processes end", 6_000).catch(() => undefined);
    for (const { pid } of this.processes()) kill(pid, "SIGKILL");
    await until(() => this.processes().length === 0, "the world's processes are killed");
    // Some folders are read-only, and files may still be created while they are being removed.
    fs.rmSync(this.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  get #releasing(): string {
    return path.join(this.root, "release-slow");
  }

  #run(program: string, argv: string[]): string {
    const done = spawnSync(program, argv, {
      cwd: this.repository,
      env: this.environment,
      encoding: "utf8",
      timeout: 60_000,
    });
    if (done.status !== 0) throw new Error(`${program} ${argv.join(" ")}: ${done.stderr || done.stdout || done.error}`);
    return done.stdout;
  }
}

export interface Process {
  readonly pid: number;
  readonly argv: readonly string[];
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has exited.
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

const QUICK = [
  { phase: "Reading shop/prices.py" },
  {
    think: "`discounted` refuses invalid percentages, but no test covers that. `total` and `label` have no tests.",
  },
  {
    event: {
      type: "tool_call",
      callId: "1",
      name: "read",
      title: "Read shop/prices.py",
      input: { path: "shop/prices.py" },
    },
  },
  { event: { type: "tool_result", callId: "1", ok: true, output: FILES["shop/prices.py"] } },
  { say: "Three functions, two of them without any test. I add what is missing.\n\n" },
  { phase: "Writing tests" },
  { write: "tests/test_prices.py", text: TWO_HUNKS },
  { write: "tests/test_prices_more.py", text: NEW_FILE },
  { event: { type: "usage", inputTokens: 4210, outputTokens: 620, turns: 3, costUsd: "0.0184" } },
  { say: "Covered the refusal in `discounted`, and `total` and `label`, which had no test." },
  { result: { ok: true, summary: "Covered the refusal in discounted, and total and label, which had no test." } },
];

function put(file: string, text: string): void {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

const script = (file: string): string[] => [PYTHON, path.join(AGENTS, file)];
/** The escapes of JSON are valid in TOML. */
const toml = (text: string): string => JSON.stringify(text);
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
