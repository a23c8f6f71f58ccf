/** Runs the tests of `extension-host/`. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { E2E } from "../driver/environment.ts";
import { runInHost } from "../driver/extensionHost.ts";
import { inCode } from "../driver/test.ts";

describe("in the extension host", () => {
  for (const file of fs.readdirSync(path.join(E2E, "extension-host")).filter((name) => name.endsWith(".test.ts"))) {
    it(
      file,
      inCode({ bare: true, driver: true, closed: true, delegators: ["quick"] }, async (vs) => {
        const { passed, failed } = await runInHost(vs, file);
        for (const title of passed) console.log(`        ${title}`);
        assert.deepEqual(
          failed.map(({ title, error }) => `${title}: ${error}`),
          [],
        );
      }),
    );
  }
});
