/** The pages of core/upkeep-ports.ts on SQLite. */
import type { Clock } from '../../core/ports.ts';
import { findKnownGenerations } from './known-generations.ts';
import { findStoreValue, noteKey } from './ledger-rows.ts';
import { type PageSources, packPages, type SqlitePages } from './packs/pack-reads.ts';
import { findRottenSpaces } from './rotten-spaces.ts';
import { bytesToHex } from './rows.ts';
import type { ScrubReads } from './scrub-reads.ts';
import { listSpaces } from './space-counters.ts';
import { SweepWalk } from './sweep-walk.ts';
import { findTombstones } from './tombstones.ts';
import { findUnseenUploads } from './unseen-uploads.ts';

export function makePages(sources: PageSources, clock: Clock, scrub: ScrubReads): SqlitePages {
  const { sql, readAtOneInstant, idOf } = sources;
  const sweepWalk = new SweepWalk(sql);
  return {
    spaces: (wanted) => readAtOneInstant(() => listSpaces(sql, wanted, clock.now())),
    spacesToSweep: ({ cutoffs, limit }) => ({
      ...{ spaces: sweepWalk.findSpaces(cutoffs, limit), failure: undefined },
    }),
    nodesToScrub: ({ after, limit }) => scrub.find(after, limit),
    rottenSpaces: ({ after, limit }) => findRottenSpaces(sql, after, limit),
    rottenNodes: ({ space, limit }) =>
      sql.listRotten.all(idOf(space), limit).map(({ hash }) => bytesToHex(hash as Uint8Array)),
    unseenUploads: (walk) => findUnseenUploads(sql, walk),
    ...packPages(sources),
    knownGenerations: (keys) => findKnownGenerations(sql, keys),
    tombstones: (generations) => findTombstones(sql, generations),
    note: (name) => findStoreValue(sql, noteKey(name)),
  };
}
