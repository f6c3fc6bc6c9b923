/** The packages of the SDK: portable code, types that stand alone, installed with nothing else there. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as clientDoor from '../packages/client/index.ts';
import * as protocolDoor from '../packages/protocol/index.ts';
import { type InstalledSdk, installSdk } from './support/installed-sdk.ts';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const TSC = join(ROOT, 'node_modules', '.bin', 'tsc');
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const folder = makeTempFolder('sdk-packages');
let sdk: InstalledSdk;

beforeAll(async () => {
  sdk = await installSdk(folder.path);
}, 300_000);
afterAll(() => folder.remove());

const CONSUMER = `
import {
  CasError, type Client, createClient, createNodeSource, openTree, type PutResult, startLeaseKeeper, VerificationError,
} from '@holdfast/client';
import { type PushedFolder, pullFolder, pushFolder, ScanError } from '@holdfast/client/node';
import { decodeNode, LEASE_DURATION_MS_MAX, type NodeMetadata } from '@holdfast/protocol';

const client: Client = createClient({ baseUrl: 'http://127.0.0.1:1', appId: 'a', spaceId: 's', token: async () => 't' });
export async function use(signal: AbortSignal): Promise<number> {
  const put: PutResult = await client.putNode({ contentType: 'text/plain', content: 'x' }, { signal });
  if (put.state === 'validated_awaiting_children') return put.childHashes.length;
  const { body, metadata } = await client.openNode(put.hash);
  await body.cancel();
  for await (const page of client.rootRefs({ limit: 10 })) if (page.items.length === 0) return page.revision;
  const same: NodeMetadata = metadata;
  // @ts-expect-error there is no such field
  same.nothing;
  return Math.min(put.leaseExpiresAt, LEASE_DURATION_MS_MAX);
}
export async function list(root: string): Promise<bigint | undefined> {
  const keeper = startLeaseKeeper({ client, onEvent: (event) => event.type === 'lost' && console.log(event.state) });
  keeper.add(root);
  for await (const entry of openTree(createNodeSource(client)).readDirectory(root)) return entry.mtimeNs;
  // @ts-expect-error it says an instant, or that there is none
  keeper.safeUntil.toFixed();
  return undefined;
}
export function explain(error: unknown): string {
  if (error instanceof VerificationError) return error.requestOperation;
  // @ts-expect-error the list of codes is closed
  if (error instanceof CasError && error.code === 'NO_SUCH_CODE') return '';
  return error instanceof CasError ? \`\${error.code} \${error.status} \${error.retryAfterMs}\` : '';
}
export async function copy(from: string, to: string): Promise<number> {
  const pushed: PushedFolder | undefined = await pushFolder(client, from).catch((error: unknown) => {
    if (error instanceof ScanError) console.log(error.problems[0]?.path);
    return undefined;
  });
  // @ts-expect-error the push may have failed
  pushed.root;
  return pushed === undefined ? 0 : (await pullFolder(client, pushed.root, to, { force: true })).writtenBytes;
}
export const contentOf = (bytes: Uint8Array): Uint8Array => decodeNode(bytes).content;
`;

function readModule(name: string): string {
  return readFileSync(join(sdk.modules, '@holdfast', name), 'utf8');
}

function scan(name: string): { code: string; imported: string[]; exports: string[] } {
  const code = readModule(name);
  const { imports, exports } = new Bun.Transpiler({ loader: 'js' }).scan(code);
  return { code, imported: [...new Set(imports.map(({ path }) => path))], exports };
}

describe.each(['protocol', 'client'])('@holdfast/%s', (name) => {
  test('describes itself for those who install it', () => {
    const description = JSON.parse(readModule(`${name}/package.json`));
    expect(description).toMatchObject({
      name: `@holdfast/${name}`,
      version,
      license: 'Apache-2.0',
      type: 'module',
      sideEffects: false,
      engines: { node: '>=20' },
    });
    expect(description.private).toBeUndefined();
    expect(description.dependencies).toEqual(
      name === 'client' ? { '@holdfast/protocol': version } : undefined,
    );
    type Door = string | Record<'types' | 'default', string>;
    const doors = Object.values(description.exports as Record<string, Door>);
    for (const path of doors.flatMap((door) =>
      typeof door === 'string' ? door : [door.types, door.default],
    )) {
      expect(existsSync(join(sdk.modules, '@holdfast', name, path))).toBe(true);
    }
    if (name === 'protocol')
      expect(JSON.parse(readModule('protocol/openapi.json')).openapi).toStartWith('3.');
    for (const path of ['README.md', 'LICENSE']) expect(readModule(`${name}/${path}`)).not.toBe('');
    expect(sdk.tarballs[name as 'protocol' | 'client']).toEndWith(`/holdfast-${name}-${version}.tgz`);
  });

  test('names no runtime of its own', () => {
    const door = scan(`${name}/index.js`);
    const names = Object.keys(name === 'client' ? clientDoor : protocolDoor);
    expect(door.exports.toSorted()).toEqual(names.toSorted());
    expect(door.imported).toEqual(name === 'client' ? ['./internal.js'] : []);
    const inside = name === 'client' ? 'client/internal.js' : 'protocol/index.js';
    const { code, imported } = scan(inside);
    expect(imported).toEqual(name === 'client' ? ['@holdfast/protocol'] : []);
    const statements = code.replace(/^\s*(?:\/\/|\*|\/\*).*$/gm, '');
    const runtimeNames = /["']node:|\brequire\(|\bprocess\.|\bBuffer\b|\bBun\b|\bDeno\b|\b__dirname\b/;
    expect(runtimeNames.exec(statements)?.[0]).toBeUndefined();
  });
});

test('@holdfast/client/node needs nothing but Node and its own package', () => {
  const { code, imported } = scan('client/node.js');
  const others = imported.filter((path) => !path.startsWith('node:'));
  expect(others.toSorted()).toEqual(['./internal.js', '@holdfast/protocol']);
  expect(/\bBun[.(]/.exec(code.replace(/^\s*\/\/.*$/gm, ''))?.[0]).toBeUndefined();
  expect(readModule('client/THIRD-PARTY-LICENSES')).toMatch(
    /^ignore\n\nCopyright .*\n[\s\S]*Permission is hereby granted/,
  );
});

/** A project that installs the packages may use any of these. */
const PROJECTS: readonly [name: string, options: Record<string, unknown>][] = [
  ['nodenext in a browser', { module: 'nodenext', lib: ['es2022', 'dom'] }],
  ['node16 in a browser', { module: 'node16', lib: ['es2022', 'dom'] }],
  ['a bundler', { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'] }],
  ['Node, with its types and no others', { module: 'nodenext', lib: ['es2022'], types: ['node'] }],
];

test.each(PROJECTS)('the types are complete for %s', (name, options) => {
  const project = join(folder.path, name.replace(/\W+/g, '-'));
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{"type":"module"}');
  writeFileSync(join(project, 'use.ts'), CONSUMER);
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: 'es2022',
    types: [],
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    skipLibCheck: false,
    ...options,
  };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
  const { exitCode, stdout } = Bun.spawnSync([TSC, '-p', project], { cwd: project });
  expect(`${exitCode} ${stdout.toString()}`).toBe('0 ');
});
