/** Releases something when it is no longer needed. */
export interface Disposable {
  dispose(): void;
}

/** Subscribe a listener; the returned object ends the subscription. */
export type Subscribe<T> = (listener: (value: T) => void) => Disposable;

/**
 * Fires values to its listeners. A listener that throws does not affect the others. A listener that was disposed of
 * while a value is being delivered does not receive it.
 */
export class Emitter<T> implements Disposable {
  readonly #listeners = new Set<(value: T) => void>();

  readonly subscribe: Subscribe<T> = (listener) => {
    const own = (value: T): void => listener(value);
    this.#listeners.add(own);
    return { dispose: () => void this.#listeners.delete(own) };
  };

  fire(value: T): void {
    for (const listener of [...this.#listeners]) {
      if (this.#listeners.has(listener)) runGuarded(() => listener(value));
    }
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

/**
 * Disposes of its items together, in reverse order, even if one of them throws. An item that is added after disposal
 * is disposed of at once.
 */
export class DisposableStore implements Disposable {
  readonly #items: Disposable[] = [];
  #over = false;

  add<T extends Disposable>(item: T): T {
    if (this.#over) runGuarded(() => item.dispose());
    else this.#items.push(item);
    return item;
  }

  dispose(): void {
    this.#over = true;
    for (const item of this.#items.splice(0).reverse()) runGuarded(() => item.dispose());
  }
}

/** Run something; if it throws, report an uncaught error and continue. */
function runGuarded(work: () => void): void {
  try {
    work();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** Run something after the current code has finished, unless it is disposed of first. */
export function defer(work: () => void): Disposable {
  const timer = setTimeout(work, 0);
  return { dispose: () => clearTimeout(timer) };
}

/** Return a function that runs the work once at a time. Calls during a run lead to exactly one more run after it. */
export function serialize(work: () => Promise<unknown>): () => void {
  let running = false;
  let again = false;
  const run = (): void => {
    again = running;
    if (running) return;
    running = true;
    void work().finally(() => {
      running = false;
      if (again) run();
    });
  };
  return run;
}
