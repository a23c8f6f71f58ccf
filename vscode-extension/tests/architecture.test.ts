import { readdirSync, readFileSync, statSync } from "node:fs";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import manifest from "../package.json" with { type: "json" };
import lock from "../package-lock.json" with { type: "json" };
import texts from "../package.nls.json" with { type: "json" };
import { createApp } from "../src/app.ts";
import { Bag } from "../src/base/emitter.ts";
import { EndedError } from "../src/client/wire.ts";
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

describe("architecture", () => {
  it("lets one file speak to the editor, and one to its language client", () => {
    expect(importers(/^vscode$/)).toEqual(["host/vscode.ts"]);
    expect(importers(/^vscode-languageclient/)).toEqual(["client/languageClient.ts"]);
  });

  it("writes no type of the contract by hand", () => {
    expect(importers(/protocol\.gen\.ts$/)).toEqual(["protocol.ts"]);
  });

  it("registers exactly the commands that package.json names", () => {
    const host = new FakeHost();
    host.folders = [];
    const bag = new Bag();
    createApp({ host, connect: () => () => Promise.reject(new EndedError({ code: 1, signal: null, lines: [] })) }, bag);
    expect([...host.handlers.keys()].sort()).toEqual(
      manifest.contributes.commands.map(({ command }) => command).sort(),
    );
    bag.dispose();
  });

  it("keeps its ids apart from the sidecar's, which are the names of requests", () => {
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

  it("has a text for every %key%, and no text that is not used", () => {
    const keys = [...JSON.stringify(manifest).matchAll(/"%([^%"]+)%"/g)].map((match) => match[1] ?? "");
    expect(new Set(keys)).toEqual(new Set(Object.keys(texts)));
  });

  it("starts only where it is needed, and declares what it can do", () => {
    expect(manifest.activationEvents).not.toContain("*");
    expect(manifest.activationEvents).not.toContain("onStartupFinished");
    const refs = /^REFERENCES = "(.+)\/"$/mu.exec(
      readFileSync(path.join(TOP, "../sidecar/understudy/git/base.py"), "utf8"),
    )?.[1];
    expect(manifest.activationEvents).toContain(`workspaceContains:.git/${refs}`);
    expect(manifest.extensionKind).toEqual(["workspace"]);
    expect(manifest.capabilities.untrustedWorkspaces.supported).toBe("limited");
    expect(manifest.capabilities.virtualWorkspaces.supported).toBe(false);
    const programs = ["understudy.path", "understudy.python"] as const;
    for (const name of programs) expect(manifest.contributes.configuration.properties[name].scope).toBe("machine");
    expect(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations).toEqual([...programs]);
  });

  it("has every picture that it shows, small enough to be loaded", () => {
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

  it("describes every setting, in order, and every one in the README", () => {
    const readme = readFileSync(path.join(TOP, "README.md"), "utf8");
    const orders = Object.entries(manifest.contributes.configuration.properties).map(([name, setting]) => {
      expect(readme).toContain(`\`${name}\``);
      expect(setting.markdownDescription).toMatch(/^%setting\./);
      expect(["machine", "window"]).toContain(setting.scope);
      return setting.order;
    });
    expect(orders).toEqual([...new Set(orders)].sort((a, b) => a - b));
  });

  it("is built against the oldest editor that it claims to run in, and pins everything", () => {
    expect(manifest.engines.vscode).toBe(`^${manifest.devDependencies["@types/vscode"]}`);
    for (const version of Object.values(manifest.devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(JSON.stringify(lock)).not.toContain('"resolved"');
  });
});
