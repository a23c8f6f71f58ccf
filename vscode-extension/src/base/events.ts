/** What can be given back. */
export interface Disposable {
  dispose(): void;
}

/** Subscribe; the returned object ends the subscription. */
export type Signal<T> = (listener: (value: T) => void) => Disposable;

/**
 * The one who fires a signal. A listener that throws does not keep the others from hearing, and one that was disposed of
 * hears nothing more, not even what is being told at the moment.
 */
export class Emitter<T> implements Disposable {
  readonly #listeners = new Set<(value: T) => void>();

  readonly signal: Signal<T> = (listener) => {
    const own = (value: T): void => listener(value);
    this.#listeners.add(own);
    return { dispose: () => void this.#listeners.delete(own) };
  };

  fire(value: T): void {
    for (const listener of [...this.#listeners]) {
      if (this.#listeners.has(listener)) guarded(() => listener(value));
    }
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

/** Things that end together, last one first; each of them, even when one cannot. What comes after the end ends at once. */
export class Bag implements Disposable {
  readonly #items: Disposable[] = [];
  #over = false;

  add<T extends Disposable>(item: T): T {
    if (this.#over) guarded(() => item.dispose());
    else this.#items.push(item);
    return item;
  }

  dispose(): void {
    this.#over = true;
    for (const item of this.#items.splice(0).reverse()) guarded(() => item.dispose());
  }
}

/** Do something; a fault in it is told as one that nobody caught, and stops nobody else. */
function guarded(work: () => void): void {
  try {
    work();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** Run something when whoever runs now is done; not at all when it is disposed of before. */
export function soon(work: () => void): Disposable {
  const timer = setTimeout(work, 0);
  return { dispose: () => clearTimeout(timer) };
}

/** Makes work that runs once at a time: whoever asks for it meanwhile gets one more run after it, however many ask. */
export function oneAtATime(work: () => Promise<unknown>): () => void {
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
