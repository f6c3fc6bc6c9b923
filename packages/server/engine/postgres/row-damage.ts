/** A row whose values contradict its sum. It is the matter of that row alone: the others are served. */
import { RowDamaged as DamagedRow } from '../../core/store-failure.ts';

export class RowDamaged extends DamagedRow {
  /** `what`: names the row */
  constructor(table: string, what: string) {
    super(
      `PostgreSQL: the row of ${what} in the table ${table} contradicts its sum: run holdfast check --repair`,
    );
  }
}

export const damagedDomain = (domain: string): RowDamaged =>
  new RowDamaged('domains', `the domain ${JSON.stringify(domain)}`);
