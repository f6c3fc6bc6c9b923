/** The server's own statements as pgbench scripts: `:s` is the Space it draws, `:i` the node. */
import { LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import { SQL } from '../../packages/server/engine/postgres/statements.ts';

export interface PgbenchScript {
  readonly text: string;
  /** pgbench 15 cannot use prepared statements in a pipeline */
  readonly mode: 'prepared' | 'extended';
  /** names of the server's statements in it, in order */
  readonly statements: readonly StatementName[];
  /** in words */
  readonly way: string;
  /** sent as text parameters with every statement that names them, as the server sends its own */
  readonly variables?: Readonly<Record<string, string>>;
}

export const DOMAIN = 'bench';

/** The rows are named so that pgbench can compute their keys. */
const SPACE = `('00000000-0000-0000-0000-' || lpad((:s)::text, 12, '0'))::uuid`;
const HASH = `sha256(convert_to((:i)::text, 'UTF8'))`;
const UNIQUE = 'txid_current()';

type StatementName = keyof typeof SQL;
type Filled = readonly [StatementName, readonly string[]];

/** `$1`, `$2` … of a statement filled in; the rest of the text is the server's own. */
function fillIn([name, values]: Filled): string {
  const text = SQL[name].replace(/\s+--.*$/gm, '');
  const filled = text.replace(/\$(\d+)/g, (_, number) => {
    const value = values[Number(number) - 1];
    if (value === undefined)
      throw new Error(`The statement ${name} takes more than ${values.length} values.`);
    return `(${value})`;
  });
  return `${filled.replace(/\s+/g, ' ')};`;
}

function single(...filled: Filled): PgbenchScript {
  return { text: fillIn(filled), mode: 'prepared', statements: [filled[0]], way: 'prepared' };
}

export const READ_SCRIPT = single('findNode', [SPACE, HASH]);

export const RENEWAL_SCRIPT = single('renewReadyLeases', [
  ...[SPACE, `ARRAY[${HASH}]`, `ARRAY[${LEASE_DURATION_MS_MAX}]`, 'NULL', '0', '0'],
]);

/** The keys of the rows that a commit changes, and how an array with an element for each of them is made. */
interface CommitKeys {
  readonly hashes: string;
  readonly domains: string;
  readonly count: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** A commit of one change to a node that is drawn. */
export function smallCommitScripts(): readonly PgbenchScript[] {
  return commitScripts({
    hashes: `ARRAY[${HASH}]`,
    domains: `ARRAY['${DOMAIN}']`,
    count: 1,
    variables: {},
  });
}

/** A commit of a change to each of `hashes`, hex. */
export function largeCommitScripts(hashes: readonly string[]): readonly PgbenchScript[] {
  return commitScripts({
    hashes: ':hashes',
    domains: ':domains',
    count: hashes.length,
    variables: {
      hashes: `{${hashes.map((hash) => `"\\\\x${hash}"`).join(',')}}`,
      domains: `{${hashes.map(() => DOMAIN).join(',')}}`,
    },
  });
}

/** Each way has what the other lacks, pipelines or prepared statements. */
function commitScripts(keys: CommitKeys): readonly PgbenchScript[] {
  const { variables } = keys;
  const trips = [readsOf(keys), writesOf(keys, ASKED_REVISION)];
  const statements = trips.flat().map(([name]) => name);
  const prepared = [...readsOf(keys), ...writesOf(keys, ':revision')].map((filled) =>
    filled[0] === 'lockDomains' ? fillIn(filled).replace(/;$/, ' \\gset') : fillIn(filled),
  );
  const pipelined = trips.flatMap((trip) => ['\\startpipeline', ...trip.map(fillIn), '\\endpipeline']);
  return [
    { text: prepared.join('\n'), mode: 'prepared', statements, way: 'prepared', variables },
    { text: pipelined.join('\n'), mode: 'extended', statements, way: 'pipelined', variables },
  ];
}

/** A pipeline has no answers before its end. */
const ASKED_REVISION = `(SELECT revision FROM domains WHERE space = ${SPACE} AND domain = '${DOMAIN}')`;
/** Rows are read by their keys; the work of a sum is the server's, and any number will do for one here. */
const REQUEST_SUMS = `ARRAY[${UNIQUE}]`;
const NONE = 'ARRAY[0::bigint]';
const REQUEST_IDS = `ARRAY[convert_to(${UNIQUE}::text, 'UTF8')]`;

/** The first trip: everything is locked and read. */
function readsOf({ hashes, domains }: CommitKeys): Filled[] {
  return [
    ['begin', []],
    ['lockDomains', [SPACE, `ARRAY['${DOMAIN}']`]],
    ['findCommits', [SPACE, `ARRAY['${DOMAIN}']`, REQUEST_IDS, REQUEST_SUMS]],
    ['lockNodes', [SPACE, hashes]],
    ['findBalances', [SPACE, domains, hashes]],
  ];
}

/** The second: everything is written, without the history that only walks need. `revision`: what the domain has */
function writesOf({ hashes, domains, count }: CommitKeys, revision: string): Filled[] {
  const all = (value: string): string => `array_fill(${value}, ARRAY[${count}])`;
  const next = `ARRAY[(${revision})::bigint + 1]`;
  const digests = `ARRAY[sha256(convert_to(${UNIQUE}::text, 'UTF8'))]`;
  const sums = all('0::bigint');
  const counts = [all('0::bigint'), all('2::bigint'), all('1'), all('false'), sums, sums];
  return [
    [
      'advanceRevisions',
      [SPACE, `ARRAY['${DOMAIN}']`, `ARRAY[(${revision})::bigint]`, next, '1', NONE, NONE, NONE],
    ],
    ['insertCommits', [SPACE, `ARRAY['${DOMAIN}']`, REQUEST_IDS, digests, next, NONE, REQUEST_SUMS]],
    ['setBalances', [SPACE, domains, hashes, all('2::bigint'), all('2::bigint'), sums]],
    ['updateNodeCounts', [SPACE, hashes, ...counts, String(count)]],
    ['commit', []],
  ];
}
