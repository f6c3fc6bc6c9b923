/** Background upkeep in bounded steps, each statement in one Space: ends leases and deletes old root-ref history. */
import { orIfDamaged } from '../../core/store-failure.ts';
import type { SweepCutoffs } from '../../core/upkeep-ports.ts';
import { ROWS_PER_STATEMENT } from '../rows/work.ts';
import { historySum, slotSum, withSuperseded } from './row-sums.ts';
import { unprovenHistory } from './rows.ts';
import { spaceKeyFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea, type SqlRow } from './wire/wire-messages.ts';

const SPACES_PER_STEP = 128;
const FIRST_SPACE = '00000000-0000-0000-0000-000000000000';

export class Maintenance {
  readonly #pool: PostgresPool;
  /** where the round over Spaces resumes; only in memory, so a restart starts a new round */
  #afterSpace = FIRST_SPACE;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** Resolves true when a part of this round is left. Damage in one Space is thrown at the end and holds up no other. */
  async endLeases(now: number, slot: number): Promise<boolean> {
    const { spaces, failure } = await this.#findLeasedSpaces();
    let damage = failure;
    for (const { space, lease_due_at: firstDueAt = 0 } of spaces) {
      if ((firstDueAt as number) <= now) {
        const sum = slotSum(spaceKeyFromSql(space), slot);
        const parameters = [space as string, now, slot, ROWS_PER_STATEMENT, sum];
        const ended = await orIfDamaged(
          () => this.#pool.run('counting ended leases', SQL.endLeases, parameters),
          (met) => {
            damage ??= met;
            return undefined;
          },
        );
        if (ended?.rows[0]?.count === ROWS_PER_STATEMENT) return true;
      }
      this.#afterSpace = space as string;
    }
    const isLeft = spaces.length === SPACES_PER_STEP;
    if (!isLeft) this.#afterSpace = FIRST_SPACE;
    if (damage !== undefined) throw damage;
    return isLeft;
  }

  /** The next Spaces with counted leases; if damage hides these, the next Spaces of all. */
  async #findLeasedSpaces(): Promise<{ readonly spaces: readonly SqlRow[]; readonly failure: unknown }> {
    const parameters = [this.#afterSpace, SPACES_PER_STEP];
    const read = async (sql: string) =>
      (await this.#pool.read('looking for ended leases', sql, parameters)).rows;
    return orIfDamaged(
      async () => ({ spaces: await read(SQL.findLeasedSpaces), failure: undefined }),
      async (failure) => ({ spaces: await read(SQL.findSpacesInTurn), failure }),
    );
  }

  /** Deletes old superseded balances and raises the domain's floor, so lost history is refused. True: more is left. */
  async pruneHistory({ historyAt }: Pick<SweepCutoffs, 'historyAt'>): Promise<boolean> {
    const parameters = [historyAt, ROWS_PER_STATEMENT];
    const { rows } = await this.#pool.read('looking for old history', SQL.findOldHistory, parameters);
    // One that is damaged stays: a floor would rise on its word.
    const bySpace = Map.groupBy(rows.filter(isProven), ({ space }) => space as string);
    for (const [space, old] of bySpace) {
      await this.#pool.run('deleting old history', SQL.deleteHistory, [space, ...historyToSql(old)]);
    }
    return rows.length === ROWS_PER_STATEMENT && bySpace.size > 0;
  }
}

function isProven(row: SqlRow): boolean {
  const { fromRevision: since, toRevision: until, supersededAt, ...rest } = unprovenHistory(row);
  const domain = row.domain as string;
  const sum = historySum(spaceKeyFromSql(row.space), { ...rest, domain, since, until });
  return row.row_sum === null || row.row_sum === withSuperseded(sum, supersededAt);
}

function historyToSql(rows: readonly SqlRow[]) {
  return [
    rows.map(({ domain }) => domain as string),
    rows.map(({ hash }) => hexToBytea(byteaToHex(hash))),
    rows.map(({ from_revision: since }) => since as number),
    rows.map(({ to_revision: until }) => until as number),
  ];
}
