// Copy the pictures that e2e/tests/readme.test.ts created to media/screenshots, for the README and the walkthrough.
// First run: .venv/bin/python scripts/vscode.py --only pictures
import { copyFileSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const MOST_BYTES = 300_000;
const top = join(import.meta.dirname, "..");
const made = join(process.env["UNDERSTUDY_ARTIFACTS"] ?? join(top, "e2e", "artifacts"), "pictures-readme");
const shown = join(top, "media", "screenshots");

const names = readdirSync(made).filter((name) => name.endsWith(".png"));
if (names.includes("failure.png")) {
  console.error("The test that makes the pictures failed.");
  process.exit(1);
}
mkdirSync(shown, { recursive: true });
for (const name of names) {
  const { size } = statSync(join(made, name));
  if (size > MOST_BYTES) {
    console.error(`${name} has ${size} bytes; a picture may have ${MOST_BYTES}.`);
    process.exit(1);
  }
  copyFileSync(join(made, name), join(shown, name));
  console.log(`media/screenshots/${name}: ${(size / 1024).toFixed(0)} KiB`);
}
