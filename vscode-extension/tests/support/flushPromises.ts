/** Wait until all promises that are already resolved have been handled. Does not wait for timers. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
