/** What can be given back. */
export interface Disposable {
  dispose(): void;
}

/** Subscribe; the returned object ends the subscription. */
export type Signal<T> = (listener: (value: T) => void) => Disposable;

/** The one who fires a signal. A listener that throws does not keep the others from hearing. */
export class Emitter<T> implements Disposable {
  readonly #listeners = new Set<(value: T) => void>();

  readonly signal: Signal<T> = (listener) => {
    const own = (value: T): void => listener(value);
    this.#listeners.add(own);
    return { dispose: () => void this.#listeners.delete(own) };
  };

  fire(value: T): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

/** Things that end together, last one first. */
export class Bag implements Disposable {
  readonly #items: Disposable[] = [];

  add<T extends Disposable>(item: T): T {
    this.#items.push(item);
    return item;
  }

  dispose(): void {
    for (const item of this.#items.splice(0).reverse()) item.dispose();
  }
}

/** Run something when whoever runs now is done; not at all when it is disposed of before. */
export function soon(work: () => void): Disposable {
  const timer = setTimeout(work, 0);
  return { dispose: () => clearTimeout(timer) };
}
