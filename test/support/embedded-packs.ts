/** The paths of packs in the embedded engine: tests know it on purpose, to spoil them behind the engine's back. */
import { Database } from 'bun:sqlite';
import { databasePath } from './embedded-files.ts';

/** The pack's generation that holds a node's record, in the one Space that has the hash. */
export function findPackOf(data: string, hash: string): string {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const row = database
      .query<{ pack: Uint8Array | null }, [Uint8Array]>(
        'SELECT contents.pack FROM nodes JOIN contents USING (generation) WHERE nodes.hash = ?',
      )
      .get(Buffer.from(hash, 'hex'));
    if (!row?.pack) throw new Error(`${hash} lies in no pack`);
    return Buffer.from(row.pack).toString('hex');
  } finally {
    database.close();
  }
}
