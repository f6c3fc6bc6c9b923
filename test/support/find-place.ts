/** Which generation holds a node's bytes in the embedded engine, asked behind its back. */
import { Database } from 'bun:sqlite';
import { databasePath } from './embedded-files.ts';

export function findPlace(
  data: string,
  spaceId: string,
  hash: string,
): { readonly generation: string; readonly isInline: boolean } {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const row = database
      .query<{ generation: Uint8Array; inline: number }, [string, Uint8Array]>(
        `SELECT generation, inline FROM nodes JOIN spaces ON spaces.id = nodes.space
         WHERE spaces.space_id = ? AND hash = ?`,
      )
      .get(spaceId, Buffer.from(hash, 'hex'));
    if (row === null) throw new Error(`${hash} has no row in ${spaceId}`);
    return { generation: Buffer.from(row.generation).toString('hex'), isInline: row.inline === 1 };
  } finally {
    database.close();
  }
}
