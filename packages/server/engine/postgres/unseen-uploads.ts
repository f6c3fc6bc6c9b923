/** Walks over uploads and open packs whose bytes no server has seen, by the end of their URLs: those that have ended are not read. */
import type { Step, UnseenUpload, UnseenWalk } from '../../core/upkeep-ports.ts';
import { spaceKeyFromSql, spacesFromSql } from './space-names.ts';
import { byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/sql-values.ts';

const NO_KEY = '00000000000000000000000000000000';

export async function findUnseenUploads(
  read: (parameters: readonly SqlValue[]) => Promise<readonly SqlRow[]>,
  { after, urlsEndAfter, limit }: UnseenWalk,
): Promise<Step<UnseenUpload>> {
  const [endsAt = 0, space = NO_KEY, generation = NO_KEY] = after?.split('.') ?? [];
  const isPast = Number(endsAt) <= urlsEndAfter;
  const place = isPast
    ? [urlsEndAfter + 1, NO_KEY, hexToBytea(NO_KEY)]
    : [Number(endsAt), space, hexToBytea(generation)];
  const rows = await read([...place, limit]);
  const items = spacesFromSql(rows).map(
    ({ space: name, row }): UnseenUpload => ({
      space: name,
      generation: byteaToHex(row.generation),
      of: row.hash === null ? { pack: byteaToHex(row.id) } : { hash: byteaToHex(row.hash) },
    }),
  );
  const last = rows.length < limit ? undefined : rows.at(-1);
  const next = last && `${last.ends_at}.${spaceKeyFromSql(last.space)}.${byteaToHex(last.generation)}`;
  return { items, next };
}
