// Write dist/readme.md for the VSIX: the README without its pictures, as long as package.json names no repository. VS
// Code's page of an extension loads pictures from https: only, not from files of the extension or data: URLs. The
// walkthrough shows the same pictures.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const top = join(import.meta.dirname, "..");
const text = readFileSync(join(top, "README.md"), "utf8").replaceAll(/\n *!\[[^\]]*\]\(media\/[^)\s]+\)\n/g, "");
mkdirSync(join(top, "dist"), { recursive: true });
writeFileSync(join(top, "dist", "readme.md"), text);
