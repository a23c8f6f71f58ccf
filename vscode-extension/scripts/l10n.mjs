// Collect the texts of the UI, which are the first arguments of t("…"), into l10n/bundle.l10n.json. `--check`
// compares instead of writing.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const top = join(import.meta.dirname, "..");
const bundle = join(top, "l10n", "bundle.l10n.json");
const texts = new Set();
const wrong = [];
for (const name of readdirSync(join(top, "src"), { recursive: true }).sort()) {
  if (!name.endsWith(".ts") || name === join("base", "l10n.ts")) continue;
  const source = ts.createSourceFile(name, readFileSync(join(top, "src", name), "utf8"), ts.ScriptTarget.Latest, true);
  const visit = (node) => {
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === "t") {
      const [text] = node.arguments;
      if (text && ts.isStringLiteralLike(text)) texts.add(text.text);
      else
        wrong.push(
          `${name}:${source.getLineAndCharacterOfPosition(node.pos).line + 1}: the text of t() must be a literal`,
        );
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}
const made = JSON.stringify(Object.fromEntries([...texts].sort().map((text) => [text, text])), null, 2) + "\n";
if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
if (!process.argv.includes("--check")) writeFileSync(bundle, made);
else {
  let now = "";
  try {
    now = readFileSync(bundle, "utf8");
  } catch {}
  if (now !== made) {
    console.error("l10n/bundle.l10n.json does not match the sources. Run `node scripts/l10n.mjs`.");
    process.exit(1);
  }
}
