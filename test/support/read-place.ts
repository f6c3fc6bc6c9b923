/** The generation that holds a node's bytes, read from the rows of the embedded engine. */
import { Database } from 'bun:sqlite';
import { databasePath, type Place } from './embedded-files.ts';

/** `spaceId`: needed where several Spaces have the node. */
export function readPlace(data: string, hash: string, spaceId?: string): Place {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const row = database
      .query<
        { generation: Uint8Array; storage: number; pack: Uint8Array | null },
        [Uint8Array, string | null]
      >(
        `SELECT nodes.generation, storage, contents.pack FROM nodes JOIN spaces ON spaces.id = nodes.space
         LEFT JOIN contents ON contents.generation = nodes.generation
         WHERE hash = ?1 AND spaces.space_id = coalesce(?2, spaces.space_id)`,
      )
      .get(Buffer.from(hash, 'hex'), spaceId ?? null);
    if (row === null) throw new Error(`${hash} has no row in ${spaceId ?? 'any Space'}`);
    const generation = Buffer.from(row.generation).toString('hex');
    const record = row.pack === null ? undefined : { pack: Buffer.from(row.pack).toString('hex'), hash };
    return { generation, isInline: row.storage === 1, ...(record === undefined ? {} : { record }) };
  } finally {
    database.close();
  }
}
