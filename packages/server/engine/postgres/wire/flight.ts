/** Statements that travel together, and what their callers wait for. */
import { createHash } from 'node:crypto';
import { type GuardPlace, type Guards, placeOfGuard, withGuards } from './session.ts';
import type { Column, MessageWriter, ServerFailure, SqlResult, SqlRow, SqlValue } from './wire-messages.ts';
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

/** A statement as the server knows it: by name, from its first flight on. */
export interface Prepared {
  readonly name: string;
  readonly text: string;
  readonly guard: GuardPlace;
  isSent: boolean;
  isKnown: boolean;
  columns: readonly Column[];
}

export class PreparedStatements {
  readonly #byText = new Map<string, Prepared>();

  find(text: string, guards: Guards | undefined): Prepared {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    const own = guards === undefined ? text : withGuards(text, guards);
    const guard = placeOfGuard(text);
    const made = { name: nameOf(own), text: own, guard, isSent: false, isKnown: false, columns: [] };
    this.#byText.set(text, made);
    return made;
  }

  /** Call after a failure: the server has skipped what it had not yet described. */
  forgetUnknown(): void {
    for (const [text, { isKnown }] of this.#byText) if (!isKnown) this.#byText.delete(text);
  }
}

/** Writes what runs the statement, and before it what prepares it, if this session has not prepared it. */
export function writeStatement(
  writer: MessageWriter,
  statement: Prepared,
  parameters: readonly SqlValue[],
): void {
  if (!statement.isSent) writer.parse(statement.name, statement.text).describe(statement.name);
  statement.isSent = true;
  writer.bind(statement.name, parameters).execute();
}

/** By its text, so that a session which another process has used never runs another statement of the same name. */
function nameOf(text: string): string {
  // PostgreSQL tells names apart by their first 63 bytes.
  return `h${createHash('sha256').update(text).digest('hex').slice(0, 40)}`;
}
