/** Compares the kept totals of each App with those of its Spaces. The repair deletes them, so the next request counts the App again. */
import type { RowDamage, RowLook } from '../../../core/inspection-ports.ts';
import { orIfDamaged } from '../../../core/store-failure.ts';
import { IS_CHANGE_PROVEN, IS_TOTAL_PROVEN } from '../app-total-statements.ts';
import { compareAppTotals } from '../app-totals.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';

const LOOKING = 'looking at what Apps store';
const COUNT_UNPROVEN = `SELECT count(*) AS count FROM app_changes WHERE NOT (${IS_CHANGE_PROVEN})`;
const REMOVE_UNPROVEN = `DELETE FROM app_changes WHERE NOT (${IS_CHANGE_PROVEN})`;
const LIST_TOTALS = `SELECT app_id, ${IS_TOTAL_PROVEN} AS proven FROM app_totals ORDER BY app_id`;
const FORGET_ALL = 'DELETE FROM app_totals';
const FORGET = `${FORGET_ALL} WHERE app_id = $1 COLLATE "C"`;

export async function checkAppTotals(
  pool: PostgresPool,
  { signal, onTable, isRepaired }: RowLook,
): Promise<readonly RowDamage[]> {
  const found: RowDamage[] = [];
  const settle = async (table: string, what: string, repair: () => Promise<unknown>): Promise<void> => {
    if (isRepaired) await repair();
    const message = `${what} has values that the rows it follows from contradict${isRepaired ? '' : ': check --repair puts it right'}`;
    const nobody = { space: undefined, hash: undefined };
    found.push({ table, ...nobody, message, isProtecting: false, repaired: isRepaired });
  };
  onTable('app_totals');
  // Sums of damaged rows are the matter of those rows.
  await orIfDamaged(
    async () => {
      const [unproven] = (await pool.read(LOOKING, COUNT_UNPROVEN, [])).rows;
      if (unproven?.count !== 0) {
        await settle('app_changes', 'a row of app_changes', async () => {
          await pool.run(LOOKING, REMOVE_UNPROVEN, []);
          await pool.run(LOOKING, FORGET_ALL, []);
        });
      }
      for (const row of (await pool.read(LOOKING, LIST_TOTALS, [])).rows) {
        if (signal.aborted) return;
        const app = row.app_id as string;
        const { kept, counted } = await compareAppTotals(pool, app);
        if (row.proven === true && (kept === undefined || Bun.deepEquals(kept, counted))) continue;
        await settle('app_totals', `the row of app_totals app_id ${JSON.stringify(app)}`, () =>
          pool.run(LOOKING, FORGET, [app]),
        );
      }
    },
    () => undefined,
  );
  return found;
}
