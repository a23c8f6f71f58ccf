// Writes dist/readme.md, which the VSIX carries as long as package.json names no repository: the README without its
// pictures. The page that VS Code shows of an extension loads pictures from https: alone, neither by a path into the
// extension nor as data:, and there is no address yet that could be named. The walkthrough shows the same pictures.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const top = join(import.meta.dirname, "..");
const text = readFileSync(join(top, "README.md"), "utf8").replaceAll(/\n *!\[[^\]]*\]\(media\/[^)\s]+\)\n/g, "");
mkdirSync(join(top, "dist"), { recursive: true });
writeFileSync(join(top, "dist", "readme.md"), text);
