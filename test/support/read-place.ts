/** Which generation holds a node's bytes in the embedded engine, asked behind its back. */
import { Database } from 'bun:sqlite';
import { databasePath } from './embedded-files.ts';

/** `spaceId`: needed where several Spaces have the node. */
export function readPlace(
  data: string,
  hash: string,
  spaceId?: string,
): { readonly generation: string; readonly isInline: boolean } {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const row = database
      .query<{ generation: Uint8Array; storage: number }, [Uint8Array, string | null]>(
        `SELECT generation, storage FROM nodes JOIN spaces ON spaces.id = nodes.space
         WHERE hash = ?1 AND spaces.space_id = coalesce(?2, spaces.space_id)`,
      )
      .get(Buffer.from(hash, 'hex'), spaceId ?? null);
    if (row === null) throw new Error(`${hash} has no row in ${spaceId ?? 'any Space'}`);
    return { generation: Buffer.from(row.generation).toString('hex'), isInline: row.storage === 1 };
  } finally {
    database.close();
  }
}
