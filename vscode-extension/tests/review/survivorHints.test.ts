import { describe, expect, it } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import type { Delegation, JudgedMutant, PlaceEvidence } from "../../src/protocol.ts";
import { hintsIn, registerSurvivorHints } from "../../src/review/survivorHints.ts";
import { canBeStrengthened, roundText } from "../../src/state/mutationWording.ts";
import type { Change } from "../../src/state/store.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { result } from "../support/golden.ts";

const DELEGATION = result("understudy/delegations/get", "delegations-get.valid");
const CODE = "def wrap(text):\n    if len(text) < 80:\n        return text\n    return text\n";
const URI = "file:///home/ada/a%20b/wrap.py";

function mutant(fields: Partial<JudgedMutant> = {}): JudgedMutant {
  const shown = { before: "if len(text) < 80:", after: "if len(text) <= 80:" };
  const place = { path: "wrap.py", line: 2, function: "wrap", operator: "comparison" };
  return { id: "m1", ...place, ...shown, status: "Survived", killedBy: [], ...fields };
}

function judged(...mutants: JudgedMutant[]): Delegation {
  const mutation = { scope: "files" as const, killed: 1, viable: 2, executed: 2, total: 3, mutants };
  const [check] = DELEGATION.checks;
  const review = { pending: 1, accepted: 0, rejected: 0 };
  return { ...DELEGATION, workspace: "/home/ada/a b", head: "c0ffee", review, checks: [{ ...check!, mutation }] };
}

describe("changes that no test noticed", () => {
  it("are hints at their line, or at the only line with the same text", () => {
    const delegation = judged(mutant(), mutant({ id: "m2", status: "Killed" }));
    const [hint, ...more] = hintsIn({ uri: URI, text: CODE }, [delegation]);
    expect(more).toEqual([]);
    expect(hint).toMatchObject({ severity: "hint", source: "Understudy", code: "m1" });
    expect(hint?.range).toEqual({ start: { line: 1, character: 0 }, end: { line: 1, character: 22 } });
    expect(hint?.message).toContain("No test notices “if len(text) <= 80:” instead of “if len(text) < 80:”.");
    expect(hintsIn({ uri: URI, text: `# new\r\n\r\n${CODE}` }, [delegation])[0]?.range.start.line).toBe(3);
    // The line was changed, or could be any of several.
    expect(hintsIn({ uri: URI, text: CODE.replace("< 80", "< 72") }, [delegation])).toEqual([]);
    const twice = judged(mutant({ line: 1, before: "return text", after: "pass" }));
    expect(hintsIn({ uri: URI, text: CODE }, [twice])).toEqual([]);
    expect(hintsIn({ uri: "file:///home/ada/other/wrap.py", text: CODE }, [delegation])).toEqual([]);
  });

  it("come with the document and go with the end of the review", () => {
    const host = new FakeHost();
    const changed = new Emitter<Change>();
    const store = { delegations: [judged(mutant())], onDidChange: changed.subscribe };
    host.openTexts.push({ uri: URI, language: "python", text: CODE, dirty: false });
    const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
    host.active = { uri: URI, selection: range, selectionEmpty: true };
    const hints = registerSurvivorHints({ host, store });
    expect(host.hints.get(URI)).toHaveLength(1);
    store.delegations = [{ ...judged(mutant()), review: { pending: 0, accepted: 1, rejected: 0 } }];
    changed.fire({ delegations: new Set([DELEGATION.id]) } as unknown as Change);
    expect(host.hints.get(URI)).toEqual([]);
    hints.dispose();
  });

  it("decide whether better tests can be asked for", () => {
    expect(canBeStrengthened(judged(mutant()))).toBe(true);
    expect(canBeStrengthened(judged(mutant({ status: "Killed" })))).toBe(false);
    expect(canBeStrengthened(judged(mutant(), mutant({ status: "Killed" })))).toBe(false); // another check noticed it
    expect(canBeStrengthened({ ...judged(mutant()), state: "running" })).toBe(false);
    expect(canBeStrengthened({ ...judged(mutant()), checks: [] })).toBe(false);
    const place = { hunk: "a.py 0", path: "a.py", line: 1, lines: 1, function: "f", why: "no test runs it" };
    const looked = (evidence: PlaceEvidence) => ({ ...judged(), places: [{ ...place, evidence }] });
    expect(canBeStrengthened(looked("unexecuted"))).toBe(true);
    expect(canBeStrengthened(looked("unlooked"))).toBe(false); // no check looks at the file
  });

  it("are counted per round", () => {
    expect(roundText({ number: 0, killed: 2, viable: 7, kept: true })).toBe(
      "First result: 2 of 7 small changes noticed",
    );
    const dropped = { number: 2, killed: 1, viable: 7, kept: false, why: "a check fails" };
    expect(roundText(dropped)).toBe("Round 2: 1 of 7 small changes noticed; not kept: a check fails");
  });
});
