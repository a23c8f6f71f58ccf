/** A command as the user types it: words, quoted where they contain spaces. It is never run by a shell. */

/** Split like a shell, with quotes only. Undefined: a quotation mark is not closed. */
export function splitWords(text: string): string[] | undefined {
  const words: string[] = [];
  let word = "";
  let inside = false;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const char = text.charAt(index);
    if (quote !== "") {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"' && /["\\]/.test(text.charAt(index + 1))) word += text.charAt(++index);
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      inside = true;
    } else if (/\s/.test(char)) {
      if (inside) words.push(word);
      word = "";
      inside = false;
    } else {
      word += char;
      inside = true;
    }
  }
  if (quote !== "") return undefined;
  if (inside) words.push(word);
  return words;
}

/** Inverse of `splitWords`. */
export function joinWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[^\s"'\\]+$/.test(word) ? word : `"${word.replace(/["\\]/g, String.raw`\$&`)}"`))
    .join(" ");
}
