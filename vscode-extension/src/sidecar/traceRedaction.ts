/**
 * The trace of messages without the keys that people type. The log channel of the editor is a file, and a person who
 * turns tracing on, to send somebody the log, does not think of the key that they enter meanwhile.
 */

/** Parameters whose values are secrets, in the messages as the language client prints them: JSON, in either of its forms. */
const SECRET = /("(?:key|apiKey)"\s*:\s*)"(?:[^"\\]|\\.)*"/g;

interface Channel {
  trace(message: string, ...values: unknown[]): void;
}

/** The channel with that taken out of everything that is traced. */
export function withoutKeys<T extends Channel>(channel: T): T {
  const trace = (message: string, ...values: unknown[]): void =>
    channel.trace(message.replace(SECRET, '$1"<secret>"'), ...values);
  // Around an empty object: what the editor made is frozen, and its `trace` could not be another one.
  return new Proxy({} as T, {
    get(_, name) {
      const value: unknown = name === "trace" ? trace : Reflect.get(channel, name);
      return typeof value === "function" ? (value.bind(channel) as unknown) : value;
    },
    has: (_, name) => name in channel,
  });
}
