/** Who does a background task, and how far it is. A turn ends `TURN_MS` after its renewal; its step may still run, which does no harm. */
import type { PostgresPool } from './wire/connection-pool.ts';

const TURN_MS = 30_000;
const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** No turn ends later: one that says so has a wrong bit, and would hold up its task for ever. */
export const isHeld = (until: string): string =>
  `${until} > ${NOW_MS} AND ${until} <= ${NOW_MS} + ${2 * TURN_MS}`;

const SQL = {
  take: `INSERT INTO background_turns AS turn (name, holder, held_until, position)
         VALUES ($1, $2, ${NOW_MS} + ${TURN_MS}, NULL)
         ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
           WHERE turn.holder = excluded.holder OR NOT (${isHeld('turn.held_until')})
         RETURNING position`,
  note: 'UPDATE background_turns SET position = $3 WHERE name = $1 AND holder = $2',
  release: `UPDATE background_turns SET held_until = 0 WHERE holder = $1 AND held_until > ${NOW_MS}`,
} as const;

export class PostgresTurns {
  readonly #pool: PostgresPool;
  readonly #holder: string;

  /** `holder`: a name that only this process has */
  constructor(pool: PostgresPool, holder: string) {
    this.#pool = pool;
    this.#holder = holder;
  }

  /** Takes the turn or renews it; `undefined`: another process has it. @throws StoreUnavailable */
  async take(task: string): Promise<{ readonly position: string | undefined } | undefined> {
    const { rows } = await this.#pool.run('asking for a turn', SQL.take, [task, this.#holder]);
    const [row] = rows;
    return row === undefined ? undefined : { position: (row.position as string | null) ?? undefined };
  }

  /** Stores `position` for the next process that takes the turn. Does nothing if another process has the turn now. */
  async note(task: string, position: string | undefined): Promise<void> {
    await this.#pool.run('noting how far a turn has come', SQL.note, [task, this.#holder, position ?? null]);
  }

  async release(): Promise<void> {
    await this.#pool.run('giving turns up', SQL.release, [this.#holder]);
  }
}
