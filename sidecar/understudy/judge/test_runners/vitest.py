"""Vitest."""

from __future__ import annotations

from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.judge.test_runners.shared.node_packages import package_check, package_runner
from understudy.judge.test_runners.shared.test_runner import REPORT_SLOT

_REPORT = ("--reporter=default", "--reporter=json", f"--outputFile.json={REPORT_SLOT}")
_PROVIDER = PROBE_FOLDER / "vitest_lines.mjs"
_COVERAGE = ["--coverage.enabled", "--coverage.provider=custom", f"--coverage.customProviderModule={_PROVIDER}"]

_PLAIN = """
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
const from = createRequire(path.join(process.cwd(), "package.json"));
const { createServer } = await import(pathToFileURL(from.resolve("vite")).href);
const server = await createServer({
  ...{ server: { middlewareMode: true, hmr: false, watch: null, ws: false }, appType: "custom", logLevel: "silent" },
  optimizeDeps: { noDiscovery: true, include: [] },
});
await server.ssrLoadModule(process.argv[1]);
await globalThis.done;
await server.close();
process.exit(0);
"""

RUNNER = package_runner(
    package_check("vitest", "Vitest", "run", instead_of=("jest", "npm", "pnpm", "yarn")),
    order=30,
    report=_REPORT,
    new=_REPORT,
    once=("run",),
    order_options=("--sequence.shuffle", "--sequence.seed={seed}"),
    kept_by="kept_vitest.mjs",
    plain_loader=_PLAIN,
    record_lines=lambda *_: _COVERAGE,
    stop_early=("--bail=1",),
    configuration=("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*"),
)
