/** Several questions in a row, with a way back that keeps what was answered. Knows nothing of what is asked. */

export type StepResult<S, N extends string> =
  /** Answered: the state as it is now, and which question comes next; without one this was the last. */
  | { readonly kind: "next"; readonly state: S; readonly to?: N }
  /** Ask the same again (something was added or tried meanwhile). */
  | { readonly kind: "again"; readonly state: S }
  | { readonly kind: "back" }
  | { readonly kind: "cancelled" };

export interface Place {
  readonly step: number;
  readonly totalSteps: number;
  readonly back: boolean;
}

export type Step<S, N extends string> = (state: S, place: Place) => Promise<StepResult<S, N>>;

/** Run the questions from `first` on; the last state, or undefined when it was cancelled. */
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
        // What was answered stays: the question is shown with its answer.
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
