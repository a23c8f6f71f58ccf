// Bundle the extension into dist/extension.js, the library that only a running sidecar needs into
// dist/languageclient.js, and the pages into dist/transcriptPage.js, dist/composePage.js and .css. `vscode` is provided by the
// editor and is never bundled.
import { statSync } from "node:fs";
import { build, context } from "esbuild";

const LIBRARY = "vscode-languageclient/node";
const watch = process.argv.includes("--watch");

const common = {
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  mainFields: ["module", "main"],
  conditions: ["node"],
  minify: !watch,
  sourcemap: watch ? "linked" : false,
  logLevel: "warning",
};
const bundles = [
  {
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    supported: { "dynamic-import": false }, // require: the editor's loader provides `vscode`
    plugins: [
      {
        name: "library apart",
        setup: ({ onResolve }) =>
          onResolve({ filter: new RegExp(`^${LIBRARY}$`) }, () => ({ path: "./languageclient.js", external: true })),
      },
    ],
  },
  { ...common, entryPoints: [LIBRARY], outfile: "dist/languageclient.js", external: ["vscode"] },
  ...["transcriptPage/webview.ts", "composePage/composeWebview.ts"].flatMap((entry) => {
    const page = entry.split("/")[0];
    return [
      // Contained in the HTML of the page: one script without a source map.
      {
        bundle: true,
        platform: "browser",
        format: "iife",
        target: "es2022",
        minify: !watch,
        logLevel: "warning",
        entryPoints: [`src/${entry}`],
        outfile: `dist/${page}.js`,
      },
      { minify: !watch, logLevel: "warning", entryPoints: [`src/${page}/${page}.css`], outfile: `dist/${page}.css` },
    ];
  }),
];

for (const options of bundles) {
  if (watch) await (await context(options)).watch();
  else {
    await build(options);
    console.log(`${options.outfile}: ${(statSync(options.outfile).size / 1024).toFixed(0)} KiB`);
  }
}
