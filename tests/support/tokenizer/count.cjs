// Read a JSON list of texts, and print the list of their token counts (o200k_base).
const { encode } = require("gpt-tokenizer/encoding/o200k_base");

const texts = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => encode(text, { allowedSpecial: "all" }).length)));
