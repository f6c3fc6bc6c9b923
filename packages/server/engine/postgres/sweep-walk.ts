/**
 * Finds Spaces that have something for the sweep. It reads the rows that are due and not the Spaces, so it costs as much as there
 * are rows due, however many Spaces there are.
 */
import type { Space } from '../../core/model.ts';
import type { SweepCutoffs } from '../../core/ports.ts';
import { spaceFromSql } from './rows.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** index entries of one kind that one call reads */
const DUE_ROWS_MAX = 10_000;

interface Kind {
  readonly statement:
    | 'findWaitingDue'
    | 'findClaimedDue'
    | 'findUploadsDue'
    | 'findDiscardsDue'
    | 'findPacksDue';
  dueAt(cutoffs: SweepCutoffs): number;
}

const KINDS: readonly Kind[] = [
  { statement: 'findWaitingDue', dueAt: ({ abandonedAt }) => abandonedAt },
  { statement: 'findClaimedDue', dueAt: ({ now }) => now },
  { statement: 'findUploadsDue', dueAt: ({ abandonedAt }) => abandonedAt },
  { statement: 'findDiscardsDue', dueAt: ({ now }) => now },
  { statement: 'findPacksDue', dueAt: ({ abandonedAt }) => abandonedAt },
];

interface Position {
  readonly dueAt: number;
  /** as PostgreSQL writes it */
  readonly space: string;
}

const START: Position = { dueAt: -1, space: '00000000-0000-0000-0000-000000000000' };

export class SweepWalk {
  readonly #pool: PostgresPool;
  /** where the round of each kind goes on, so that a Space with much to do does not hold up the others for ever */
  readonly #positions = new Map<Kind, Position>();
  #firstKind = 0;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async findSpaces(cutoffs: SweepCutoffs, limit: number): Promise<Space[]> {
    const found = new Map<string, Space>();
    // Each call begins with another kind, so that a kind with much to do leaves room for the others.
    this.#firstKind = (this.#firstKind + 1) % KINDS.length;
    for (const kind of [...KINDS.slice(this.#firstKind), ...KINDS.slice(0, this.#firstKind)]) {
      if (found.size >= limit) break;
      const start = this.#positions.get(kind) ?? START;
      const isAtEnd = await this.#collect(kind, cutoffs, found, limit, start);
      // After the end it begins again, once, so that a call returns something whenever something is due.
      if (isAtEnd && start !== START && found.size < limit) {
        await this.#collect(kind, cutoffs, found, limit, START);
      }
    }
    return [...found.values()];
  }

  /** Resolves whether it reached the end of the rows that are due. */
  async #collect(
    kind: Kind,
    cutoffs: SweepCutoffs,
    found: Map<string, Space>,
    limit: number,
    from: Position,
  ): Promise<boolean> {
    const parameters = [kind.dueAt(cutoffs), from.dueAt, from.space, DUE_ROWS_MAX];
    const { rows } = await this.#pool.read('looking for work', SQL[kind.statement], parameters);
    let position = from;
    for (const row of rows) {
      if (found.size >= limit) {
        this.#positions.set(kind, position);
        return false;
      }
      found.set(row.space as string, spaceFromSql(row));
      position = { dueAt: row.due_at as number, space: row.space as string };
    }
    const [first] = rows;
    if (first === undefined || (first.passed as number) < DUE_ROWS_MAX) {
      this.#positions.delete(kind);
      return true;
    }
    this.#positions.set(kind, { dueAt: first.last_due_at as number, space: first.last_space as string });
    return false;
  }
}
