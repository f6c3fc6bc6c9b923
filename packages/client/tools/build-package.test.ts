/** The package as it is published: one portable file, types that stand alone, nothing to install. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as door from '../index.ts';
import { buildPackage } from './build-package.ts';

const root = mkdtempSync(join(tmpdir(), 'holdfast-package-'));
const folder = join(root, 'package');
const tsc = join(import.meta.dir, '..', '..', '..', 'node_modules', '.bin', 'tsc');

const CONSUMER = `
import {
  CasError, type Client, createClient, createNodeSource, openTree, type PutResult, startLeaseKeeper, VerificationError,
} from '@holdfast/client';

const client: Client = createClient({ baseUrl: 'http://127.0.0.1:1', appId: 'a', spaceId: 's', token: async () => 't' });
export async function use(signal: AbortSignal): Promise<number> {
  const put: PutResult = await client.putNode({ contentType: 'text/plain', content: 'x' }, { signal });
  if (put.state === 'validated_awaiting_children') return put.childHashes.length;
  const { body, metadata } = await client.openNode(put.hash);
  await body.cancel();
  for await (const page of client.rootRefs({ limit: 10 })) if (page.items.length === 0) return page.revision;
  // @ts-expect-error there is no such field
  metadata.nothing;
  return put.leaseExpiresAt;
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
`;

beforeAll(() => buildPackage(folder));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('the published package', () => {
  test('is one file that imports nothing and names no runtime of its own', () => {
    const code = readFileSync(join(folder, 'index.js'), 'utf8');
    const { imports, exports } = new Bun.Transpiler({ loader: 'js' }).scan(code);
    expect(imports).toEqual([]);
    expect(exports).toContain('createClient');
    expect(exports.toSorted()).toEqual(Object.keys(door).toSorted());
    const statements = code.replace(/^\s*(?:\/\/|\*|\/\*).*$/gm, '');
    const runtimeNames = /["']node:|\brequire\(|\bprocess\.|\bBuffer\b|\bBun\b|\bDeno\b|\b__dirname\b/;
    expect(runtimeNames.exec(statements)?.[0]).toBeUndefined();
  });

  test('has no dependency, and doors that exist', () => {
    const description = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    expect(Object.keys(description).filter((key) => /dependencies/i.test(key))).toEqual([]);
    const { types, default: code } = description.exports['.'];
    for (const door of [types, code])
      expect(readFileSync(join(folder, door), 'utf8')).toContain('createClient');
  });

  test('its types are complete for a project that has nothing else', () => {
    const consumer = join(root, 'consumer');
    mkdirSync(join(consumer, 'node_modules', '@holdfast'), { recursive: true });
    symlinkSync(folder, join(consumer, 'node_modules', '@holdfast', 'client'));
    writeFileSync(join(consumer, 'package.json'), '{"type":"module"}');
    writeFileSync(join(consumer, 'use.ts'), CONSUMER);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      module: 'nodenext',
      target: 'es2022',
      lib: ['es2022', 'dom'],
      types: [],
      skipLibCheck: false,
    };
    writeFileSync(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
    const { exitCode, stdout } = Bun.spawnSync([tsc, '-p', consumer], { cwd: consumer });
    expect(`${exitCode} ${stdout.toString()}`).toBe('0 ');
  });
});
