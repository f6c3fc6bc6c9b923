/** A data folder in which one value of a row becomes wrong while everything that reads, moves or deletes is at work. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { damagesOf, makeDamage, nameOf } from './damages.ts';
import { goThrough } from './folder.ts';
import { JOURNEYS, type Journey } from './journeys.ts';
import { RenewedCopy } from './renewed-copy.ts';
import type { DamagedCopy, Subject } from './subject.ts';
import { tell } from './tell.ts';
import { openFolder, type World } from './world.ts';

/** A node that lost its key is absent until a repair: the matter of moved-rows.test.ts. */
const KEYS: ReadonlySet<string> = new Set(['nodes.hash', 'nodes.space']);
/** What collection, sweep, packing and compaction go by. */
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
        // Half of them meet a way that the folder goes, and that reads all of it.
        const journey = draw(2) === 0 ? undefined : (JOURNEYS[draw(JOURNEYS.length)] as Journey);
        const column = `${damage.table}.${damage.column}`;
        if (journey === undefined ? !DECIDING.has(column) : KEYS.has(column)) continue;
        const before = draw(journey?.steps ?? PORT_CALLS);
        const bomb = new Bomb(() => makeDamage(join(copy, 'holdfast.db'), damage));
        const make = async (): Promise<DamagedCopy | undefined> => {
          renewed.make(copy);
          if (journey === undefined) return serve(copy, bomb, before);
          bomb.begin(before);
          const whole = async () => ({ open: openFolder(copy), remove: async () => undefined });
          const arrived = await goThrough(journey, folder, whole, bomb.onCall);
          return arrived && { ...arrived, mayFail: true };
        };
        yield { name: `${nameOf(damage)}, before call ${before} of ${journey?.name ?? 'a server'}`, make };
      }
    },
  };
}

/** Makes a damage when some calls have gone by. */
class Bomb {
  readonly #make: () => boolean;
  #left = Number.POSITIVE_INFINITY;

  constructor(make: () => boolean) {
    this.#make = make;
  }

  begin(before: number): void {
    this.#left = before;
  }

  readonly onCall = (): undefined => {
    this.#left -= 1;
    // What the schema does not take is tried again later.
    if (this.#left < 0) this.#left = this.#make() ? Number.POSITIVE_INFINITY : 0;
  };
}

function serve(dataDir: string, bomb: Bomb, before: number): DamagedCopy {
  const open = async (now: number, seed: number): Promise<World> => {
    const world = await openFolder(dataDir)(now, seed);
    const { metadata, content } = world.core;
    const core = {
      ...world.core,
      metadata: tell(metadata, bomb.onCall),
      content: tell(content, bomb.onCall),
    };
    return { ...world, core };
  };
  return { open, begin: () => bomb.begin(before), remove: async () => undefined };
}
