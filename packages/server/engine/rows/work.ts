/**
 * Work on rows that is written once for both engines: it yields statements and is given their rows. SQLite runs it at once, PostgreSQL
 * waits for each answer. Parameters are `$1`, `$2`; both engines know the rest of the SQL, but for words of their own.
 */

/** Rows that one statement reads or changes where nothing asks for another number. */
export const ROWS_PER_STATEMENT = 1_000;

export type SqlRow = Readonly<Record<string, unknown>>;
type SqlValue = string | number | null;
export type RowWork<T> = Generator<readonly [sql: string, values: readonly SqlValue[]], T, readonly SqlRow[]>;

export function* ask(sql: string, ...values: readonly SqlValue[]): RowWork<readonly SqlRow[]> {
  return yield [sql, values];
}

/** `answer` gives the rows of a statement. */
export function runNow<T>(
  work: RowWork<T>,
  answer: (sql: string, values: readonly SqlValue[]) => readonly SqlRow[],
): T {
  let step = work.next();
  while (step.done !== true) step = work.next(answer(...step.value));
  return step.value;
}

export async function runLater<T>(
  work: RowWork<T>,
  answer: (sql: string, values: readonly SqlValue[]) => Promise<readonly SqlRow[]>,
): Promise<T> {
  let step = work.next();
  while (step.done !== true) step = work.next(await answer(...step.value));
  return step.value;
}
