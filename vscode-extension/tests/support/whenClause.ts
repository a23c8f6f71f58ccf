/** Evaluate `when` clauses of `package.json` as the editor does, as far as the manifest uses them. */

export type ContextKeys = Readonly<Record<string, unknown>>;

const TOKEN = /\s*(\|\||&&|!=|==|=~|!|\(|\)|\/(?:\\.|[^/\\])+\/|[^\s()!=&|]+)/y;

/** Whether a clause holds; an absent clause always does. Throws if it cannot be read. */
export function holds(clause: string | undefined, keys: ContextKeys): boolean {
  if (clause === undefined) return true;
  const tokens = split(clause);
  let at = 0;
  const next = (): string => {
    const token = tokens[at++];
    if (token === undefined) throw new Error(`"${clause}" ends too early`);
    return token;
  };
  const takes = (token: string): boolean => {
    if (tokens[at] !== token) return false;
    at += 1;
    return true;
  };
  // Both sides are always read.
  const any = (): boolean => {
    let found = all();
    while (takes("||")) found = all() || found;
    return found;
  };
  const all = (): boolean => {
    let found = one();
    while (takes("&&")) found = one() && found;
    return found;
  };
  const one = (): boolean => {
    if (takes("!")) return !one();
    if (takes("(")) {
      const found = any();
      if (!takes(")")) throw new Error(`"${clause}" has an open parenthesis`);
      return found;
    }
    const name = next();
    if (name === "true" || name === "false") return name === "true";
    const value = keys[name];
    if (takes("==")) return String(value) === next();
    if (takes("!=")) return String(value) !== next();
    if (takes("=~")) return new RegExp(next().slice(1, -1), "u").test(String(value));
    if (takes("in")) {
      const list = keys[next()];
      return Array.isArray(list) && list.includes(value);
    }
    return Boolean(value);
  };
  const found = any();
  if (at < tokens.length) throw new Error(`"${clause}" was read up to ${tokens[at] ?? ""}`);
  return found;
}

function split(clause: string): string[] {
  const found: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < clause.trimEnd().length) {
    const token = TOKEN.exec(clause)?.[1];
    if (token === undefined) throw new Error(`"${clause}" cannot be read`);
    found.push(token);
  }
  return found;
}
