/** The engine as an MCP server that the editor offers to its agents: the same tools as `understudy mcp` anywhere else. */

import * as fs from "node:fs/promises";
import * as path from "node:path";
import type { App } from "../appContext.ts";
import { Emitter, type Disposable, type Subscribe } from "../base/events.ts";
import { realPath } from "../base/paths.ts";
import type { McpServer } from "../host/host.ts";

export type McpDeps = Pick<App, "host" | "sidecar">;

export class McpServers implements Disposable {
  readonly #deps: McpDeps;
  readonly #changed = new Emitter<void>();
  readonly #following: Disposable;
  #command: string | undefined;
  readonly onDidChange: Subscribe<void> = this.#changed.subscribe;

  constructor(deps: McpDeps) {
    this.#deps = deps;
    // Another program runs, such as one that was installed just now.
    this.#following = deps.sidecar.onDidChange((state) => {
      if (state.kind !== "running" || state.found.command === this.#command) return;
      this.#command = state.found.command;
      this.#changed.fire();
    });
  }

  /** The engine; none if there is no program, if it cannot serve MCP, or in Restricted Mode. */
  async servers(): Promise<readonly McpServer[]> {
    const { host, sidecar } = this.#deps;
    if (!host.workspace.trusted) return [];
    const found = await sidecar.program();
    if (!found || !(await canServeMcp(found.command))) return [];
    return [
      {
        label: "Understudy",
        command: found.command,
        args: ["mcp"],
        cwd: host.workspace.folders[0]?.path,
        version: host.environment.extensionVersion,
      },
    ];
  }

  dispose(): void {
    this.#following.dispose();
    this.#changed.dispose();
  }
}

/**
 * Whether the Python environment of a program has the package `mcp`, which is an extra. A program that is not in an
 * environment of its own may have it elsewhere, and reports it if not.
 */
export async function canServeMcp(command: string): Promise<boolean> {
  const environment = path.dirname(path.dirname(realPath(command)));
  try {
    await fs.access(path.join(environment, "pyvenv.cfg"));
  } catch {
    return true;
  }
  const lib = path.join(environment, "lib");
  const pythons = await fs.readdir(lib).catch(() => []);
  const found = await Promise.all(
    pythons.map(async (python) =>
      fs.access(path.join(lib, python, "site-packages", "mcp")).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}
