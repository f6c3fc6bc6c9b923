/** The same port; it says `onCall` before each call, and waits for a promise that this gives. */
export function tell<Port extends object>(port: Port, onCall: () => Promise<unknown> | undefined): Port {
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...values: readonly unknown[]) => {
        const waits = onCall();
        return waits === undefined
          ? value.apply(target, values)
          : waits.then(() => value.apply(target, values));
      };
    },
  });
}
