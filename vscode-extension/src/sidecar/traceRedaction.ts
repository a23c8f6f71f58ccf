/**
 * Remove API keys from the message trace. The log channel is a file, and users who enable tracing to report a problem
 * do not expect the key they enter meanwhile in it.
 */

/** Secret parameters in messages as the language client prints them: JSON in either of its forms. */
const SECRET = /("(?:key|apiKey)"\s*:\s*)"(?:[^"\\]|\\.)*"/g;

interface Channel {
  trace(message: string, ...values: unknown[]): void;
}

/** Wrap a channel so that traced messages are redacted. */
export function redactKeys<T extends Channel>(channel: T): T {
  const trace = (message: string, ...values: unknown[]): void =>
    channel.trace(message.replace(SECRET, '$1"<secret>"'), ...values);
  // The proxy target is an empty object: the editor's channel is frozen, and its `trace` could not be replaced.
  return new Proxy({} as T, {
    get(_, name) {
      const value: unknown = name === "trace" ? trace : Reflect.get(channel, name);
      return typeof value === "function" ? (value.bind(channel) as unknown) : value;
    },
    has: (_, name) => name in channel,
  });
}
