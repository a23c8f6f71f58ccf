// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import { codeBlock, fillMarkdown } from "../../src/transcriptPage/renderMarkdown.ts";

function shown(markdown: string): HTMLElement {
  const parent = document.createElement("div");
  fillMarkdown(parent, markdown);
  return parent;
}

const html = (markdown: string): string => shown(markdown).innerHTML.replaceAll(/<svg.*?<\/svg>/g, "[icon]");

describe("Markdown of agents", () => {
  it.each([
    ["one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"],
    ["# Title\ntext", "<h3>Title</h3><p>text</p>"],
    ["###### Deep", "<h6>Deep</h6>"],
    ["a `b *c*` **d** *e* _f_ g_h_i 2*3*4", "<p>a <code>b *c*</code> <strong>d</strong> <em>e</em> <em>f</em> g_h_i 2*3*4</p>"],
    ["``a ` b``", "<p><code>a ` b</code></p>"],
    ["**a `b` c**", "<p><strong>a <code>b</code> c</strong></p>"],
    ["- a\n- b\n  - c\n    d\n- e", "<ul><li>a</li><li>b<ul><li>c\nd</li></ul></li><li>e</li></ul>"],
    ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
    ["- [ ] a\n- [x] b", "<ul><li>[icon] a</li><li>[icon] b</li></ul>"],
    ["text\n- a", "<p>text</p><ul><li>a</li></ul>"],
    ["> a\n> b", "<blockquote>a\nb</blockquote>"],
    ["a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"],
    ["```py\nx = '<b>'\n\n# y\n```\nz", `<pre tabindex="0">x = '&lt;b&gt;'\n\n# y</pre><p>z</p>`],
    ["```\nnever closed", '<pre tabindex="0">never closed</pre>'],
    ["| a | b |\n|---|:-:|\n| 1 | `2` |", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table>"],
    ["<script>x</script> <b>y</b>", "<p>&lt;script&gt;x&lt;/script&gt; &lt;b&gt;y&lt;/b&gt;</p>"],
    ["![i](https://evil.invalid/x)", '<p>!<a href="https://evil.invalid/x" title="https://evil.invalid/x" target="_blank" rel="noopener noreferrer">i</a></p>'],
    ["[x](command:evil) [y](javascript:alert) [z](a.py)", "<p>x (command:evil) y (javascript:alert) z (a.py)</p>"],
    ["see https://a.invalid/b.", '<p>see <a href="https://a.invalid/b" title="https://a.invalid/b" target="_blank" rel="noopener noreferrer">https://a.invalid/b</a>.</p>'],
    ["a\u202eb", "<p>a\ufffdb</p>"],
  ])("%j", (markdown, expected) => {
    expect(html(markdown)).toBe(expected);
  }); // prettier-ignore

  it("shows the same whether it arrives at once or in pieces, and keeps what is the same", () => {
    const text = "# One\n\nSome `code` and **more**.\n\n- a\n- b\n\n```diff\n-x\n+y\n```\n\nThe end.";
    const parent = document.createElement("div");
    let first: ChildNode | null = null;
    for (let end = 1; end <= text.length; end += 1) {
      fillMarkdown(parent, text.slice(0, end));
      if (end === 10) first = parent.firstChild;
    }
    expect(parent.innerHTML).toBe(shown(text).innerHTML);
    expect(parent.firstChild).toBe(first);
  });

  it("takes no longer than a text of its length may", () => {
    const evil = ["`", "*", "_", "[", "**a", "- ", "> ", "|-", "#", "[a](", "1. "].map((one) => one.repeat(100_000));
    const lines = ["- a\n".repeat(20_000), "  ".repeat(50_000), `${"~".repeat(100_000)}\``, "`a\n".repeat(20_000)];
    const start = performance.now();
    for (const text of [...evil, ...lines, ...evil.map((one) => one.slice(0, 4_900))]) shown(text);
    expect(performance.now() - start).toBeLessThan(5_000);
  });

  it.each([
    ["- a: 1\n- b: 2", "", false],
    ["-a\n+b", "", true],
    ["@@ -1 +1 @@\n-a\n+b", "", true],
    [" a", "diff", true],
    ["+a", "", false],
  ])("colours %j in a block of %j: %s", (text, language, isDiff) => {
    expect(codeBlock(text, language).className).toBe(isDiff ? "diff" : "");
    expect(codeBlock(text, language).textContent).toBe(text);
  });
});
