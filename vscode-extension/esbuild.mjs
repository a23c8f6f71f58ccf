// Bundles the extension into dist/extension.js. `vscode` is the editor's own module and is never bundled.
import { build, context } from "esbuild";

const options = {
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  mainFields: ["module", "main"],
  conditions: ["node"],
  minify: !process.argv.includes("--watch"),
  sourcemap: process.argv.includes("--watch") ? "linked" : false,
  metafile: true,
  logLevel: "warning",
};

if (process.argv.includes("--watch")) {
  await (await context(options)).watch();
} else {
  const { metafile } = await build(options);
  const bytes = metafile.outputs["dist/extension.js"].bytes;
  console.log(`dist/extension.js: ${(bytes / 1024).toFixed(0)} KiB`);
}
