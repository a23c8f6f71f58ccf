// Bundle the extension into dist/extension.js, the library that only a running sidecar needs into
// dist/languageclient.js, and the pages into dist/transcriptPage.js, dist/composePage.js, dist/pages.js (those drawn with Lit)
// and .css. `vscode` is provided by the editor and is never bundled. A bundle that is larger than its limit fails the build.
import { statSync } from "node:fs";
import { build, context } from "esbuild";

/**
 * KiB: a little more than each bundle has. Raise a limit only for something that users get for it; a library that was
 * bundled by mistake is removed instead.
 */
const LIMITS = {
  "dist/extension.js": 298,
  "dist/languageclient.js": 440,
  "dist/transcriptPage.js": 52,
  "dist/transcriptPage.css": 6,
  "dist/composePage.js": 16,
  "dist/composePage.css": 5,
  "dist/pages.js": 71,
  "dist/pages.css": 7,
};
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
  ...["transcriptPage/webview.ts", "composePage/composeWebview.ts", "pages/pagesWebview.ts"].flatMap((entry) => {
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
  const { outfile } = options;
  if (watch) {
    await (await context(options)).watch();
    continue;
  }
  await build(options);
  const size = statSync(outfile).size / 1024;
  console.log(`${outfile}: ${size.toFixed(0)} KiB`);
  if (!(size <= LIMITS[outfile])) {
    console.error(`${outfile} has ${size.toFixed(1)} KiB; its limit is ${LIMITS[outfile]} KiB (esbuild.mjs).`);
    process.exitCode = 1;
  }
}
