/** Walks over uploads and open packs whose bytes no server has seen, Space by Space: in each those whose URLs have ended are not read. */
import type { Step, UnseenUpload, UnseenWalk } from '../../core/upkeep-ports.ts';
import { bytesToHex, hexToBytes } from './rows.ts';
import { isSpaceSound, spaceOf } from './space-directory.ts';
import type { ReadStatements, SqlRow } from './statements.ts';

const KINDS = [
  { next: 'nextSpaceUploading', find: 'findUnseenUploads', key: 'hash' },
  { next: 'nextSpaceUnjudged', find: 'findUnseenPacks', key: 'generation' },
] as const;

/** All of one kind, then all of the other. `space`: it is looked at, from the place in it on. */
interface Place {
  readonly kind: number;
  readonly space: number;
  readonly endsAt: number;
  readonly touchedAt: number;
  readonly key: string;
}

const FIRST: Place = { kind: 0, space: 0, endsAt: 0, touchedAt: 0, key: '' };

export function findUnseenUploads(
  sql: ReadStatements,
  { after, urlsEndAfter, limit }: UnseenWalk,
): Step<UnseenUpload> {
  const items: UnseenUpload[] = [];
  let place = after === undefined ? FIRST : (JSON.parse(after) as Place);
  for (let spaces = 0; spaces < 1_024 && items.length < limit; spaces += 1) {
    const kind = KINDS[place.kind];
    if (kind === undefined) return { items, next: undefined };
    const wanted = limit - items.length;
    const from = place.endsAt > urlsEndAfter ? place : { ...FIRST, endsAt: urlsEndAfter + 1 };
    const rows = sql[kind.find].all(
      ...[place.space, from.endsAt, from.touchedAt, hexToBytes(from.key), wanted],
    ) as SqlRow[];
    const names = sql.findSpaceById.get(place.space) as SqlRow | null;
    // A Space with a damaged name cannot be asked for.
    if (names !== null && isSpaceSound(names)) {
      for (const row of rows) items.push(itemOf(names, row));
    }
    const last = rows.length < wanted ? undefined : rows.at(-1);
    if (last !== undefined) {
      const key = bytesToHex(last[kind.key] as Uint8Array);
      const { url_expires_at: endsAt, touched_at: touchedAt } = last;
      place = { ...place, endsAt: endsAt as number, touchedAt: touchedAt as number, key };
      continue;
    }
    const next = sql[kind.next].get(place.space) as SqlRow | null;
    place =
      next === null
        ? { ...FIRST, kind: place.kind + 1 }
        : { ...FIRST, kind: place.kind, space: next.space as number };
  }
  return { items, next: JSON.stringify(place) };
}

function itemOf(names: SqlRow, { hash, id, generation }: SqlRow): UnseenUpload {
  return {
    space: spaceOf(names),
    generation: bytesToHex(generation as Uint8Array),
    of: id === undefined ? { hash: bytesToHex(hash as Uint8Array) } : { pack: bytesToHex(id as Uint8Array) },
  };
}
