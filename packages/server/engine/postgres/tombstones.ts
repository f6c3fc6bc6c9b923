/** The state that the walk over all objects keeps with the rows. Every statement of a walk finds its rows by a key. */
import type { Generation } from '../../core/model.ts';
import { orIfDamaged } from '../../core/store-failure.ts';
import type { Settlements } from '../../core/upkeep-ports.ts';
import { assertNote } from '../../core/upkeep-ports.ts';
import { RowDamaged } from './damage.ts';
import { SETTLED_TOMBSTONE, sharedSum, sumOfDomain, tombstoneSum } from './row-sums.ts';
import { arraysOf, isGiven } from './sql-fragments.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea } from './wire/wire-messages.ts';

const FIRST_REVISION_NOTE = 'first-revision';
/** The Space and the domain up to which revisions are raised, while that is under way. */
const RAISED_NOTE = 'revisions-raised-to';
export const FIND_NOTE = 'SELECT value FROM notes WHERE name = $1';
/** $3 sum */
export const SET_NOTE = `INSERT INTO notes (name, value, row_sum) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, row_sum = excluded.row_sum`;
const RAISING = 'raising revisions';
/** A number that leaves the integers when it is raised is damaged, and its row is refused anyway. */
const isRaisable = (column: string): string =>
  `coalesce(domains.${column}, 0) BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER}`;
const SQL = {
  find: 'SELECT generation, noted_at, seen_at, row_sum FROM tombstones WHERE generation = ANY ($1::bytea[])',
  // Each row is met by one part alone: which of two would win is not defined.
  settle: `WITH risen AS (DELETE FROM tombstones WHERE generation = ANY ($2::bytea[])),
      forgotten AS (DELETE FROM tombstones WHERE seen_at < $4 AND generation <> ALL ($1::bytea[]) AND generation <> ALL ($2::bytea[]))
    INSERT INTO tombstones (generation, noted_at, seen_at, row_sum) SELECT DISTINCT generation, $3::bigint, $3::bigint, sum
    FROM unnest($1::bytea[], $5::bigint[]) AS given (generation, sum) WHERE generation <> ALL ($2::bytea[])
    ON CONFLICT (generation) DO UPDATE SET ${SETTLED_TOMBSTONE}`,
  // $1 step, $2 and $3 after which Space and domain, $4 how many. Its transaction also keeps the place.
  raiseSome: `WITH page AS MATERIALIZED (
      SELECT space, domain FROM domains WHERE (space, domain) > ($2::uuid, $3::text COLLATE "C") ORDER BY space, domain LIMIT $4),
    given AS MATERIALIZED (SELECT * FROM unnest(${arraysOf('page', 'space, domain')}) AS list (space, domain)),
    raised AS (UPDATE domains SET revision = revision + $1::bigint, history_floor = revision + $1::bigint,
      row_sum = ${sumOfDomain('(domains.revision + $1::bigint)', '(domains.revision + $1::bigint)')}
      FROM given WHERE ${isGiven('domains', 'domain')} AND ${['revision', 'history_floor', 'row_sum'].map(isRaisable).join(' AND ')}),
    last AS (SELECT space || ' ' || domain AS place FROM page ORDER BY space DESC, domain DESC LIMIT 1)
    INSERT INTO notes (name, value) SELECT '${RAISED_NOTE}', place FROM last
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, row_sum = NULL RETURNING value`,
  findHighest: `SELECT coalesce(max(revision), 0) AS revision FROM domains WHERE ${isRaisable('revision')}`,
  // Clients have seen domains, too, that these rows do not have.
  raiseFirst: `WITH done AS (DELETE FROM notes WHERE name = '${RAISED_NOTE}') ${SET_NOTE}`,
  findNote: 'SELECT value, row_sum FROM notes WHERE name = $1',
  setNote: SET_NOTE,
  raiseNote: `${SET_NOTE} WHERE notes.value::bigint < excluded.value::bigint`,
} as const;

/** The revision of a domain without a row. It changes only while no server runs, so a process reads it once. */
export interface DomainStart {
  /** NaN: its note is damaged, and no such domain answers */
  revision: number;
}

export async function readDomainStart(pool: PostgresPool): Promise<DomainStart> {
  return orIfDamaged(
    async () => ({ revision: Number((await findNote(pool, FIRST_REVISION_NOTE)) ?? 0) }),
    () => ({ revision: Number.NaN }),
  );
}

/** @throws RowDamaged */
export function assertStartKnown(revision: number): void {
  if (Number.isNaN(revision)) throw new RowDamaged('notes', `the note ${FIRST_REVISION_NOTE}`);
}

export async function findTombstones(
  pool: PostgresPool,
  generations: readonly Generation[],
): Promise<ReadonlyMap<Generation, number>> {
  const { rows } = await pool.read('looking for tombstones', SQL.find, [generations.map(hexToBytea)]);
  const found = rows.map((row) => [byteaToHex(row.generation), row.noted_at as number, row] as const);
  // A damaged tombstone proves no age: its object is kept, and the tombstone starts again.
  const proven = found.filter(
    ([generation, notedAt, row]) => row.row_sum === tombstoneSum(generation, notedAt, row.seen_at as number),
  );
  return new Map(proven.map(([generation, notedAt]) => [generation, notedAt]));
}

export async function findNote(pool: PostgresPool, name: string): Promise<string | undefined> {
  const { rows } = await pool.read('reading a note', SQL.findNote, [name]);
  if (rows[0] === undefined) return undefined;
  const { value, row_sum: sum } = rows[0];
  if (sum !== null && sum !== sharedSum(name, value as string))
    throw new RowDamaged('notes', `the note ${name}`);
  return value as string;
}

/** The writes of background work (core/upkeep-ports.ts). */
export const SETTLING: {
  readonly [K in keyof Settlements]: (
    pool: PostgresPool,
    rows: Settlements[K],
    domainStart: DomainStart,
  ) => Promise<void>;
} = {
  tombstones: async (pool, { unknown, known, now, seenSince }) => {
    const sums = unknown.map((generation) => tombstoneSum(generation, now, now));
    const parameters = [unknown.map(hexToBytea), known.map(hexToBytea), now, seenSince, sums];
    await pool.run('noting strays', SQL.settle, parameters);
  },
  revisions: raiseRevisions,
  note: async (pool, note) => {
    assertNote(note);
    const { name, value } = note;
    const text = String(value);
    // A damaged number is not compared.
    if (typeof value === 'number') await findNote(pool, name);
    const statement = typeof value === 'number' ? SQL.raiseNote : SQL.setNote;
    await pool.run('keeping a note', statement, [name, text, sharedSum(name, text)]);
  },
};

/** Goes on where an earlier call was cut off: no domain is raised twice for it. */
export async function raiseRevisions(
  pool: PostgresPool,
  step: number,
  domainStart: DomainStart,
  // Domains of one statement.
  raisedAtOnce = 5_000,
): Promise<void> {
  for (let place = await findNote(pool, RAISED_NOTE); ; ) {
    const [space = '', ...domain] = (place ?? '00000000-0000-0000-0000-000000000000 ').split(' ');
    const parameters = [step, space, domain.join(' '), raisedAtOnce];
    const { rows } = await pool.run(RAISING, SQL.raiseSome, parameters);
    if (rows.length === 0) break;
    place = rows[0]?.value as string;
  }
  const revision = (await findFirstRevision(pool, step)) + step;
  const text = String(revision);
  await pool.run(RAISING, SQL.raiseFirst, [FIRST_REVISION_NOTE, text, sharedSum(FIRST_REVISION_NOTE, text)]);
  domainStart.revision = revision;
}

/** If the note is damaged, returns a revision above all raised domains, because each was raised as often as the note. */
async function findFirstRevision(pool: PostgresPool, step: number): Promise<number> {
  return orIfDamaged(
    async () => Number((await findNote(pool, FIRST_REVISION_NOTE)) ?? 0),
    async () => {
      const { rows } = await pool.read(RAISING, SQL.findHighest, []);
      return Math.ceil((rows[0]?.revision as number) / step) * step;
    },
  );
}
