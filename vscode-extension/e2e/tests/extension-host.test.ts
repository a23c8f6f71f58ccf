/** Inside the extension host. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { E2E } from "../rig/base.ts";
import { runInHost } from "../rig/inhost.ts";
import { inCode } from "../rig/test.ts";

describe("in the extension host", () => {
  for (const file of fs.readdirSync(path.join(E2E, "inhost")).filter((name) => name.endsWith(".test.ts"))) {
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
