/** Statements that travel together, and what their callers wait for. */
import type { Prepared } from './prepared-statements.ts';
import type { SqlResult, SqlRow } from './sql-values.ts';
import type { Column, ServerFailure } from './wire-messages.ts';
import { closed } from './wire-socket.ts';

export interface Asked {
  /** undefined: a script, whose last statement answers */
  readonly statement: Prepared | undefined;
  columns: readonly Column[];
  rows: SqlRow[];
  answer: SqlResult | undefined;
  resolve(result: SqlResult): void;
  reject(error: Error): void;
}

export interface Flight {
  readonly asked: readonly Asked[];
  /** how many are answered */
  answered: number;
  /** of the first statement that failed, or of the commit */
  failure: ServerFailure | undefined;
}

export function ask(
  statement: Prepared | undefined,
  { resolve, reject }: Pick<Asked, 'resolve' | 'reject'>,
): Asked {
  return { statement, columns: [], rows: [], answer: undefined, resolve, reject };
}

/** Tells all who asked, once the server is ready for the next flight. */
export function settle({ asked, failure }: Flight): void {
  for (const { answer, resolve, reject } of asked) {
    if (failure !== undefined) reject(failure);
    else if (answer === undefined) reject(closed('the server left a statement unanswered'));
    else resolve(answer);
  }
}

export const asError = (error: unknown): Error =>
  error instanceof Error ? error : new Error('no connection');
