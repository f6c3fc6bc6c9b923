/** Every verb of the ports of rows has one meaning: a suite that both engines run calls it. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const ENGINE = dirname(import.meta.dir);
const CORE = join(ENGINE, '../core');
/** The ports of rows, and what their verbs are called on. */
const PORTS: readonly { readonly file: string; readonly port: string; readonly on: RegExp }[] = [
  ...[
    ['ports', 'MetadataStore'],
    ['inspection-ports', 'SpaceInspection'],
    ['tenancy-ports', 'TenantReads'],
    ['upkeep-ports', 'Upkeep'],
  ].map(([name, port]) => ({
    file: `${CORE}/${name}.ts`,
    port: port as string,
    on: /\b(?:store|metadata)\??/,
  })),
  { file: `${CORE}/ports.ts`, port: 'SpaceTransaction', on: /\btx/ },
  { file: `${CORE}/tenancy-ports.ts`, port: 'PurgeVerbs', on: /\bpurging/ },
  { file: `${CORE}/upkeep-ports.ts`, port: 'NodeMending', on: /\bmending/ },
  { file: `${CORE}/pack-ports.ts`, port: 'PackReads', on: /\bstore\.packs/ },
  { file: `${CORE}/pack-ports.ts`, port: 'PackVerbs', on: /\bpacks/ },
  { file: `${CORE}/inspection-ports.ts`, port: 'SpaceSnapshot', on: /\bsnapshot/ },
  { file: `${ENGINE}/transfer-ports.ts`, port: 'DeploymentReader', on: /\brows/ },
  { file: `${ENGINE}/transfer-ports.ts`, port: 'DeploymentWriter', on: /\brows/ },
];
/** The adapter of each engine calls it. */
const CLOSING = 'close';
const TESTS = ['metadata-store.test.ts', 'deployment-rows.test.ts'];

/** The files of suites that a file runs, with those that they import. */
function suitesOf(path: string, found = new Set<string>()): ReadonlySet<string> {
  for (const [, imported = ''] of readFileSync(path, 'utf8').matchAll(/from '(\.[^']+-suite\.ts)'/g)) {
    const file = join(dirname(path), imported);
    if (!found.has(file)) suitesOf(file, found.add(file));
  }
  return found;
}

/** Names of the methods of an interface, which stand two spaces deep. */
function verbsOf(file: string, port: string): readonly string[] {
  const text = readFileSync(file, 'utf8');
  const body = new RegExp(`^export interface ${port}\\b.*?\\{\\n(.*?)^\\}`, 'ms').exec(text)?.[1] ?? '';
  return [...body.matchAll(/^ {2}(\w+)\??(?:<.*>)?\(/gm)].map(([, verb]) => verb as string);
}

/** The arguments of some verbs: the kinds of rows. */
const KINDS = [
  ['upkeep-ports', 'Pages', 'page'],
  ['upkeep-ports', 'Settlements', 'settle'],
  ['ports', 'DueRows', 'due'],
  ['ports', 'NewRow', 'insert'],
  ['ports', 'RowChange', 'update'],
  ['ports', 'OldRow', 'delete'],
] as const;

/** The names of an interface, or the first words of the tuples of a union. */
function kindsOf(name: string, port: string): readonly string[] {
  const text = readFileSync(`${CORE}/${name}.ts`, 'utf8');
  const fields = new RegExp(`^export interface ${port} \\{\\n(.*?)^\\}`, 'ms').exec(text)?.[1] ?? '';
  const tuples = new RegExp(`^export type ${port} =(.*?);\\n`, 'ms').exec(text)?.[1] ?? '';
  return [
    ...[...fields.matchAll(/^ {2}readonly (\w+):/gm)].map(([, kind]) => kind as string),
    ...[...tuples.matchAll(/'(\w+)'/g)].map(([, kind]) => kind as string),
  ];
}

/** Verbs that the text calls nowhere, and kinds of rows that it calls none with. */
function findUncalled(text: string): readonly string[] {
  const verbs = PORTS.flatMap(({ file, port, on }) =>
    verbsOf(file, port)
      .filter(
        (verb) => verb !== CLOSING && !new RegExp(`${on.source}\\s*\\.${verb}(?:\\?\\.)?[(<]`).test(text),
      )
      .map((verb) => `${port}.${verb}`),
  );
  const kinds = KINDS.flatMap(([file, port, verb]) =>
    kindsOf(file, port)
      .filter((kind) => !new RegExp(`\\.${verb}\\(\\s*'${kind}'`).test(text))
      .map((kind) => `${port}.${kind}`),
  );
  return [...verbs, ...kinds];
}

const suitesOfEngine = (engine: string): ReadonlySet<string> =>
  new Set(TESTS.flatMap((name) => [...suitesOf(join(ENGINE, engine, name))]));
const postgres = suitesOfEngine('postgres');
const shared = [...suitesOfEngine('sqlite')].filter((file) => postgres.has(file));
const calls = shared.map((file) => readFileSync(file, 'utf8')).join('\n');

test('a suite that both engines run calls each verb of the ports of rows', () => {
  expect(findUncalled(calls)).toEqual([]);
});

test('a store answers few verbs, so that a third engine is a small thing to write', () => {
  const count = (names: readonly string[]): number =>
    PORTS.filter(({ port }) => names.includes(port)).reduce(
      (sum, { file, port }) => sum + verbsOf(file, port).length,
      0,
    );
  const store = ['MetadataStore', 'SpaceInspection', 'TenantReads', 'Upkeep', 'PackReads'];
  const transaction = ['SpaceTransaction', 'PurgeVerbs', 'NodeMending', 'PackVerbs'];
  expect(count(store)).toBeWithin(1, 24);
  expect(count([...store, ...transaction])).toBeWithin(count(store), 57);
});

test('the verbs are found in their ports, and one that nobody calls is told', () => {
  for (const [file, port] of KINDS)
    expect({ port, kinds: kindsOf(file, port).length }).not.toMatchObject({ kinds: 0 });
  for (const { file, port } of PORTS)
    expect({ port, verbs: verbsOf(file, port).length }).not.toMatchObject({ verbs: 0 });
  expect(findUncalled(calls.replaceAll('.correctCounters(', '.other('))).toEqual([
    'SpaceTransaction.correctCounters',
  ]);
  const without = calls.replaceAll(".settle('revisions'", ".settle('other'");
  expect(findUncalled(without)).toEqual(['Settlements.revisions']);
});
