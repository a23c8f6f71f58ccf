import { readdirSync, readFileSync, statSync } from "node:fs";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import manifest from "../package.json" with { type: "json" };
import lock from "../package-lock.json" with { type: "json" };
import texts from "../package.nls.json" with { type: "json" };
import { createApp } from "../src/app.ts";
import { DisposableStore } from "../src/base/events.ts";
import { ProcessExitError } from "../src/sidecar/connection.ts";
import { FakeHost } from "./support/fakeHost.ts";
import { allGolden } from "./support/golden.ts";

const TOP = path.join(import.meta.dirname, "..");
const SRC = path.join(TOP, "src");
const sources = (readdirSync(SRC, { recursive: true }) as string[])
  .filter((name) => name.endsWith(".ts"))
  .map((name) => ({ name: name.replaceAll("\\", "/"), text: readFileSync(path.join(SRC, name), "utf8") }));
const importers = (module: RegExp): string[] =>
  sources
    .filter(({ text }) =>
      [...text.matchAll(/(?:from|import\(|require\(|import)\s*"([^"]+)"/g)].some((m) => module.test(m[1] ?? "")),
    )
    .map(({ name }) => name);

/** The layers, lowest first. A module may import its own layer and lower ones. */
const LAYERS = [
  ["protocol.ts", "base/"],
  ["sidecar/"],
  ["host/"],
  ["state/"],
  ["appContext.ts"],
  ["transcript/", "compose/", "delegators/", "checks/", "health/", "review/"],
  ["delegations/", "transcriptPage/", "pages/"],
  ["composePage/", "assistants/"],
  ["app.ts"],
  ["extension.ts"],
];
const layerOf = (name: string): number => LAYERS.findIndex((prefixes) => prefixes.some((one) => name.startsWith(one)));
/** The features of one layer do not import each other. */
const featureOf = (name: string): string => name.split("/")[0] ?? "";
/** Module → modules of src that it imports, types included. */
const imports = new Map(
  sources.map(({ name, text }) => [
    name,
    [...text.matchAll(/(?:from|import\(|import)\s*"(\.[^"]+)"/g)]
      .map((match) => path.posix.join(path.posix.dirname(name), match[1] ?? ""))
      .filter((imported) => !imported.startsWith("..")),
  ]),
);

describe("architecture", () => {
  it("only imports vscode in host/vscode/, and the language client in one module", () => {
    expect(importers(/^vscode$/).filter((name) => !name.startsWith("host/vscode/"))).toEqual([]);
    expect(importers(/^vscode$/)).toContain("host/vscode/vscodeHost.ts");
    expect(importers(/^vscode-languageclient/)).toEqual(["sidecar/languageClient.ts"]);
  });

  it("imports down the layers only, and no feature imports another one of its layer", () => {
    expect(sources.map(({ name }) => name).filter((name) => layerOf(name) < 0)).toEqual([]);
    const wrong = [...imports].flatMap(([name, imported]) =>
      imported
        .filter((other) => {
          const [from, to] = [layerOf(name), layerOf(other)];
          return to > from || (to === from && from > 0 && featureOf(other) !== featureOf(name));
        })
        .map((other) => `${name} imports ${other}`),
    );
    expect(wrong).toEqual([]);
  });

  it("has no import cycle", () => {
    const done = new Set<string>();
    const cycleFrom = (name: string, above: readonly string[]): readonly string[] | undefined => {
      if (above.includes(name)) return [...above.slice(above.indexOf(name)), name];
      if (done.has(name)) return undefined;
      for (const imported of imports.get(name) ?? []) {
        const cycle = cycleFrom(imported, [...above, name]);
        if (cycle) return cycle;
      }
      done.add(name);
      return undefined;
    };
    expect([...imports.keys()].flatMap((name) => cycleFrom(name, []) ?? [])).toEqual([]);
  });

  it("gives each module a name of its own", () => {
    const names = sources.map(({ name }) => path.posix.basename(name));
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("names the places where something is saved in one module", () => {
    const naming = sources.filter(({ text }) =>
      /t\("(?:this workspace|user configuration|all your workspaces)"\)/iu.test(text),
    );
    expect(naming.map(({ name }) => name)).toEqual(["state/saveScope.ts"]);
  });

  it("declares no wire type by hand", () => {
    expect(importers(/protocol\.gen\.ts$/)).toEqual(["protocol.ts"]);
  });

  it("registers exactly the commands that package.json names", () => {
    const host = new FakeHost();
    host.folders = [];
    const disposables = new DisposableStore();
    createApp(
      { host, connect: () => () => Promise.reject(new ProcessExitError({ code: 1, signal: null, lines: [] })) },
      disposables,
    );
    expect([...host.handlers.keys()].sort()).toEqual(
      manifest.contributes.commands.map(({ command }) => command).sort(),
    );
    disposables.dispose();
  });

  it("has command IDs that differ from the sidecar's, which are names of requests", () => {
    const ids = manifest.contributes.commands.map(({ command }) => command);
    const requests = new Set(allGolden().map(({ message }) => message.method));
    expect(ids.every((id) => id.startsWith("understudy."))).toBe(true);
    expect(ids.filter((id) => requests.has(id))).toEqual([]);
    expect([...requests].filter((name) => name.startsWith("understudy."))).toEqual([]);
  });

  it("gives every menu an existing command, and every view an existing container", () => {
    const ids = new Set(manifest.contributes.commands.map(({ command }) => command));
    const submenus = manifest.contributes.submenus.map(({ id }) => id);
    const used = Object.values(manifest.contributes.menus).flat();
    const commands = used.flatMap((item) => ("command" in item && item.command ? [item.command] : []));
    expect(commands.filter((id) => !ids.has(id))).toEqual([]);
    expect(used.flatMap((item) => ("submenu" in item && item.submenu ? [item.submenu] : []))).toEqual(submenus);
    expect(submenus.filter((id) => !(id in manifest.contributes.menus))).toEqual([]);
    expect(Object.keys(manifest.contributes.views)).toEqual(["understudy"]);
  });

  it("defines every %key%, and no unused one", () => {
    const keys = [...JSON.stringify(manifest).matchAll(/"%([^%"]+)%"/g)].map((match) => match[1] ?? "");
    expect(new Set(keys)).toEqual(new Set(Object.keys(texts)));
  });

  it("activates only when needed, and declares its capabilities", () => {
    expect(manifest.activationEvents).not.toContain("*");
    expect(manifest.activationEvents).not.toContain("onStartupFinished");
    const refs = /^REFERENCES = "(.+)\/"$/mu.exec(
      readFileSync(path.join(TOP, "../sidecar/understudy/git/base/capture.py"), "utf8"),
    )?.[1];
    expect(manifest.activationEvents).toContain(`workspaceContains:.git/${refs}`);
    expect(manifest.extensionKind).toEqual(["workspace"]);
    expect(manifest.capabilities.untrustedWorkspaces.supported).toBe("limited");
    expect(manifest.capabilities.virtualWorkspaces.supported).toBe(false);
    const programs = ["understudy.path", "understudy.python"] as const;
    for (const name of programs) expect(manifest.contributes.configuration.properties[name].scope).toBe("machine");
    expect(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations).toEqual([...programs]);
  });

  it("contains every image that it shows, small enough to load", () => {
    const readme = readFileSync(path.join(TOP, "README.md"), "utf8");
    const shown = [...readme.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map((match) => match[1] ?? "");
    const [walkthrough] = manifest.contributes.walkthroughs;
    const media =
      walkthrough?.steps.map((step) => ("image" in step.media ? step.media.image : step.media.markdown)) ?? [];
    expect(shown.length).toBeGreaterThan(0);
    expect(media.length).toBeGreaterThan(0);
    for (const name of [...shown, ...media, manifest.icon]) {
      expect(statSync(path.join(TOP, name ?? "")).size, name).toBeLessThan(300_000);
    }
  });

  it("describes every setting in order, and in the README", () => {
    const readme = readFileSync(path.join(TOP, "README.md"), "utf8");
    const orders = Object.entries(manifest.contributes.configuration.properties).map(([name, setting]) => {
      expect(readme).toContain(`\`${name}\``);
      expect(setting.markdownDescription).toMatch(/^%setting\./);
      expect(["machine", "window"]).toContain(setting.scope);
      return setting.order;
    });
    expect(orders).toEqual([...new Set(orders)].sort((a, b) => a - b));
  });

  it("is built against the oldest supported editor, and pins every dependency", () => {
    expect(manifest.engines.vscode).toBe(`^${manifest.devDependencies["@types/vscode"]}`);
    for (const version of Object.values(manifest.devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(JSON.stringify(lock)).not.toContain('"resolved"');
  });
});
