// Bundle and run tests/bench/views.ts: time to update the views, and size of the bundles.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const top = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "understudy-bench-"));
try {
  const made = spawnSync(process.execPath, ["esbuild.mjs"], { cwd: top, stdio: ["ignore", "ignore", "inherit"] });
  if (made.status !== 0) process.exit(1);
  for (const name of ["extension.js", "languageclient.js", "transcriptPage.js"]) {
    const bundle = readFileSync(join(top, "dist", name));
    const kib = (bytes) => `${(bytes / 1024).toFixed(0)} KiB`;
    console.log(`     bundle   ${name}: ${kib(bundle.length)}, ${kib(gzipSync(bundle).length)} compressed`);
  }
  const outfile = join(folder, "views.mjs");
  await build({
    entryPoints: [join(top, "tests", "bench", "views.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    // Next to the sources, so that the golden messages are found.
    define: { "import.meta.dirname": JSON.stringify(join(top, "tests", "support")) },
    logLevel: "warning",
  });
  process.exitCode = spawnSync(process.execPath, [outfile], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
