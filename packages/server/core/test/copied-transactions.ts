/** Shows that a transaction of the rules needs nothing but what can cross a thread. */
import type { MetadataStore } from '../ports.ts';
import { TRANSACTIONS } from '../transactions.ts';

const TRANSACTION_BODIES = new Set<unknown>(Object.values(TRANSACTIONS));

/** As between threads: a transaction of the rules gets only a copy of its input, and gives back a copy. */
export function withCopies(metadata: MetadataStore): MetadataStore {
  return new Proxy(metadata, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name === 'transact') {
        return async (...[space, body, input]: Parameters<MetadataStore['transact']>) => {
          const isRule = TRANSACTION_BODIES.has(body);
          if (!isRule) return metadata.transact(space, body, input);
          return structuredClone(await metadata.transact(space, body, structuredClone(input)));
        };
      }
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
