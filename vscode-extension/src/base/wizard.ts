/** Ask several questions in a row. Going back keeps the answers. */

export type StepResult<S, N extends string> =
  /** Answered: the new state, and the next question. Without `to` this was the last one. */
  | { readonly kind: "next"; readonly state: S; readonly to?: N }
  /** Ask the same question again, for example because something was added meanwhile. */
  | { readonly kind: "again"; readonly state: S }
  | { readonly kind: "back" }
  | { readonly kind: "cancelled" };

export interface StepPosition {
  readonly step: number;
  readonly totalSteps: number;
  readonly back: boolean;
}

export type Step<S, N extends string> = (state: S, place: StepPosition) => Promise<StepResult<S, N>>;

/** Ask the questions starting with `first`. Returns the last state, or undefined if the user cancelled. */
export async function runSteps<S, N extends string>(
  steps: Readonly<Record<N, Step<S, N>>>,
  first: N,
  initial: S,
  totalSteps: (state: S) => number,
): Promise<S | undefined> {
  const past: { name: N; state: S }[] = [];
  let name = first;
  let state = initial;
  for (;;) {
    const step = past.length + 1;
    const place = { step, totalSteps: Math.max(step, totalSteps(state)), back: past.length > 0 };
    const result = await steps[name](state, place);
    switch (result.kind) {
      case "cancelled":
        return undefined;
      case "back": {
        const previous = past.pop();
        if (!previous) return undefined;
        ({ name } = previous);
        // Keep the state: the previous question shows its answer.
        break;
      }
      case "again":
        state = result.state;
        break;
      case "next":
        if (result.to === undefined) return result.state;
        past.push({ name, state });
        state = result.state;
        name = result.to;
    }
  }
}
