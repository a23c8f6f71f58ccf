/** Wait until everything that waits for nothing but answers that are there already has run; no timer is among that. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
