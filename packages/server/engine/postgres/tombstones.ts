/** core/stray-ports.ts on PostgreSQL. Every statement of a walk finds its rows by a key. */
import type { Generation } from '../../core/model.ts';
import type { StrayPort, TombstonePage } from '../../core/stray-ports.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea } from './wire/sql-values.ts';

export const FIND_NOTE = 'SELECT value FROM notes WHERE name = $1';
const SQL = {
  find: 'SELECT generation, noted_at FROM tombstones WHERE generation = ANY ($1::bytea[])',
  settle: `WITH risen AS (DELETE FROM tombstones WHERE generation = ANY ($2::bytea[])),
      forgotten AS (DELETE FROM tombstones WHERE seen_at < $4)
    INSERT INTO tombstones (generation, noted_at, seen_at) SELECT given.generation, $3::bigint, $3::bigint
    FROM unnest($1::bytea[]) AS given (generation)
    ON CONFLICT (generation) DO UPDATE SET seen_at = excluded.seen_at`,
  raiseRevisions: 'UPDATE domains SET revision = revision + $1, history_floor = revision + $1',
  findNote: FIND_NOTE,
  setNote:
    'INSERT INTO notes (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
} as const;

export class PostgresTombstones implements StrayPort {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async findTombstones(generations: readonly Generation[]): Promise<ReadonlyMap<Generation, number>> {
    const { rows } = await this.#pool.read('looking for tombstones', SQL.find, [generations.map(hexToBytea)]);
    return new Map(rows.map((row) => [byteaToHex(row.generation), row.noted_at as number]));
  }

  async settleTombstones({ unknown, known, now, seenSince }: TombstonePage): Promise<void> {
    const parameters = [unknown.map(hexToBytea), known.map(hexToBytea), now, seenSince];
    await this.#pool.run('noting strays', SQL.settle, parameters);
  }

  async raiseRevisions(step: number): Promise<void> {
    await this.#pool.run('raising revisions', SQL.raiseRevisions, [step]);
  }

  async findNote(name: string): Promise<string | undefined> {
    const { rows } = await this.#pool.read('reading a note', SQL.findNote, [name]);
    return rows[0]?.value as string | undefined;
  }

  async setNote(name: string, value: string): Promise<void> {
    await this.#pool.run('keeping a note', SQL.setNote, [name, value]);
  }
}
