/** Finds Spaces with work for the sweep. It reads the rows that are due, so the number of Spaces costs nothing. */
import type { Space } from '../../core/model.ts';
import { isDamage } from '../../core/store-failure.ts';
import type { SpacesToSweep, SweepCutoffs } from '../../core/upkeep-ports.ts';
import { findSpaceInSql, spacesFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** index entries of one kind that one call reads */
const DUE_ROWS_MAX = 10_000;
/** Spaces that have their turn in one call because rows that are due cannot be read */
const IN_TURN_MAX = 8;

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
  /** where the round of each kind resumes, so that a Space with much work does not block the others */
  readonly #positions = new Map<Kind, Position>();
  #firstKind = 0;
  /** the last Space that had its turn without being asked for */
  #afterSpace = START.space;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** Damage among the rows of one kind holds up neither other kinds nor, as every Space has its turn then, other Spaces. */
  async findSpaces(cutoffs: SweepCutoffs, limit: number): Promise<SpacesToSweep> {
    const found = new Map<string, Space>();
    let failure: unknown;
    // Each call begins with another kind, so that a kind with much to do leaves room for the others.
    this.#firstKind = (this.#firstKind + 1) % KINDS.length;
    for (const kind of [...KINDS.slice(this.#firstKind), ...KINDS.slice(0, this.#firstKind)]) {
      if (found.size >= limit) break;
      try {
        await this.#collectRound(kind, cutoffs, found, limit);
      } catch (error) {
        if (!isDamage(error)) throw error;
        failure ??= error;
      }
    }
    if (failure !== undefined) await this.#takeInTurn(found);
    return { spaces: [...found.values()], failure };
  }

  async #collectRound(
    kind: Kind,
    cutoffs: SweepCutoffs,
    found: Map<string, Space>,
    limit: number,
  ): Promise<void> {
    const start = this.#positions.get(kind) ?? START;
    const isAtEnd = await this.#collect(kind, cutoffs, found, limit, start);
    // After the end it begins again, once, so that a call returns something whenever something is due.
    if (isAtEnd && start !== START && found.size < limit) {
      await this.#collect(kind, cutoffs, found, limit, START);
    }
  }

  /** Adds the next Spaces in their order, whether something is due there or not. */
  async #takeInTurn(found: Map<string, Space>): Promise<void> {
    const parameters = [this.#afterSpace, IN_TURN_MAX];
    const { rows } = await this.#pool.read('looking for work', SQL.findSpacesInTurn, parameters);
    for (const { space, row } of spacesFromSql(rows)) found.set(row.space as string, space);
    this.#afterSpace = rows.length < IN_TURN_MAX ? START.space : (rows.at(-1)?.space as string);
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
      // The row of a Space that never was is damaged: check names it.
      const space = findSpaceInSql(row);
      if (space !== undefined) found.set(row.space as string, space);
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
