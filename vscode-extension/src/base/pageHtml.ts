/** The HTML of our own pages. */

import { randomBytes } from "node:crypto";

/**
 * The page contains its script and style. It can load nothing else, and cannot turn text into HTML or scripts.
 * `templates`: the Trusted Types policy of a library that turns the constant templates in the script into HTML.
 */
export function pageHtml(script: string, style: string, language: string, templates = "'none'"): string {
  const nonce = randomBytes(18).toString("base64url");
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    `trusted-types ${templates}`,
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="${language.replaceAll(/[^\w-]/g, "")}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>Understudy</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<script nonce="${nonce}">${script}</script>
</body>
</html>
`;
}
