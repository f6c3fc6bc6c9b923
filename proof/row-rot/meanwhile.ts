/** A data folder in which one value of a row becomes wrong while everything that reads, moves or deletes is at work. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { damagesOf, makeDamage, nameOf } from './damages.ts';
import { RenewedCopy } from './renewed-copy.ts';
import type { Subject } from './subject.ts';
import { openFolder, type World } from './world.ts';

/** What collection, sweep, packing and compaction go by. A node that lost its key is the matter of moved-rows.test.ts. */
export const DECIDING: ReadonlySet<string> = new Set([
  ...['nodes.state', 'nodes.generation', 'nodes.storage', 'nodes.collectable', 'nodes.lease_expires_at'],
  ...['nodes.lease_due_at', 'nodes.lease_counted'],
  ...['nodes.child_ref_count', 'nodes.root_ref_count', 'nodes.waiting_touched_at', 'nodes.claim_held_until'],
  ...[
    'contents.generation',
    'contents.pack',
    'contents.pack_offset',
    'contents.space',
    'discards.generation',
  ],
  ...['packs.state', 'packs.generation', 'packs.live_records', 'packs.is_discarded', 'packs.touched_at'],
]);
/** about as many as there are */
export const PORT_CALLS = 60;

/** `folder` is empty. */
export function meanwhileSubject(folder: string): Subject {
  const [origin, copy] = [join(folder, 'origin'), join(folder, 'copy')];
  mkdirSync(origin);
  const renewed = new RenewedCopy(origin);
  return {
    open: openFolder(origin),
    *damages(draw) {
      for (const damage of damagesOf(join(origin, 'holdfast.db'), draw)) {
        if (!DECIDING.has(`${damage.table}.${damage.column}`)) continue;
        const before = draw(PORT_CALLS);
        const make = async () => {
          renewed.make(copy);
          let left = Number.POSITIVE_INFINITY;
          const onCall = (): undefined => {
            left -= 1;
            if (left < 0) left = makeDamage(join(copy, 'holdfast.db'), damage) ? Number.POSITIVE_INFINITY : 0;
          };
          const open = async (now: number, seed: number): Promise<World> => {
            const world = await openFolder(copy)(now, seed);
            const { metadata, content } = world.core;
            const core = { ...world.core, metadata: tell(metadata, onCall), content: tell(content, onCall) };
            return { ...world, core };
          };
          const begin = (): void => {
            left = before;
          };
          return { open, begin, remove: async () => undefined };
        };
        yield { name: `${nameOf(damage)}, before call ${before}`, make };
      }
    },
  };
}

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
