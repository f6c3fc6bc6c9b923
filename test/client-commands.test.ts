/** The client commands as a person or a script runs them: the real process against the real server. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import type { CommandResult } from './support/command-result.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const ABSENT = 'f'.repeat(64);
const folder = makeTempFolder('client-commands');
let running: RunningServer;
let environment: Record<string, string>;

beforeAll(async () => {
  running = await startFreshServer('commands');
  environment = {
    HOLDFAST_URL: running.server.url,
    HOLDFAST_APP: APP,
    HOLDFAST_SPACE: SPACE,
    HOLDFAST_TOKEN: running.issuer.token(SPACE),
  };
});
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function run(args: readonly string[], changes: Record<string, string> = {}): Promise<CommandResult> {
  return runHoldfast(args, { cwd: folder.path, environment: { ...environment, ...changes } });
}

/** Runs a command that must succeed and say nothing on stderr. */
async function runWell(...args: string[]): Promise<string> {
  const result = await run(args);
  expect(result).toEqual({ exitCode: 0, stdout: result.stdout, stderr: '' });
  return result.stdout;
}

/** Fails with `exitCode` and exactly one line on stderr, which it returns; the token is never in it. */
async function runBadly(exitCode: number, args: readonly string[], changes: Record<string, string> = {}) {
  const result = await run(args, changes);
  expect(result.exitCode).toBe(exitCode);
  expect(result.stderr).toMatch(/^holdfast: [^\n]+\n$/);
  const token = { ...environment, ...changes }.HOLDFAST_TOKEN ?? '';
  if (token !== '') expect(result.stdout + result.stderr).not.toContain(token);
  return result.stderr;
}

function file(name: string, content: Uint8Array | string): string {
  const path = join(folder.path, name);
  writeFileSync(path, content);
  return path;
}

async function put(content: string, ...args: string[]): Promise<string> {
  const stdout = await runWell('node', 'put', file('input', content), ...args);
  return stdout.split(' ')[0] as string;
}

describe('node', () => {
  test('put prints the hash of the canonical bytes and the state', async () => {
    const node = makeNode(seededBytes(300_000, 1), { contentType: 'image/x-test' });
    const path = file('photo', node.content);
    expect(await runWell('node', 'put', path, '--content-type', 'image/x-test')).toBe(`${node.hash} ready\n`);
    const again = JSON.parse(await runWell('node', 'put', path, '--content-type', 'image/x-test', '--json'));
    expect(again).toMatchObject({ hash: node.hash, state: 'ready', uploaded: false });
  });

  test('hash needs no server and agrees with put', async () => {
    const node = makeNode('hashed', { contentType: 'text/x-hashed', refs: [ABSENT] });
    const args = [
      'node',
      'hash',
      file('hashed', 'hashed'),
      '--content-type',
      'text/x-hashed',
      '--ref',
      ABSENT,
    ];
    const result = await runHoldfast(args, { cwd: folder.path });
    expect(result).toEqual({ exitCode: 0, stdout: `${node.hash}\n`, stderr: '' });
  });

  test('put reads stdin, and keeps order and duplicates of refs', async () => {
    const [a, b] = [await put('a'), await put('b')];
    const node = makeNode('from stdin', { refs: [b, a, b] });
    const child = Bun.spawn([HOLDFAST, 'node', 'put', '-', '--ref', b, a, '--ref', b], {
      env: { PATH: process.env.PATH, ...environment },
      stdin: new Blob(['from stdin']),
      stdout: 'pipe',
    });
    expect(await new Response(child.stdout).text()).toBe(`${node.hash} ready\n`);
    const { metadata } = JSON.parse(await runWell('node', 'stat', node.hash, '--json'));
    expect(metadata).toEqual({
      hash: node.hash,
      size: 10,
      contentType: 'application/octet-stream',
      refs: [b, a, b],
    });
  });

  test('put of a parent names the children that are missing', async () => {
    const child = makeNode('not there yet');
    const parent = makeNode('parent', { refs: [child.hash] });
    const path = file('parent', 'parent');
    const result = await run(['node', 'put', path, '--ref', child.hash]);
    expect([result.exitCode, result.stdout]).toEqual([0, `${parent.hash} validated_awaiting_children\n`]);
    expect(result.stderr).toContain(child.hash);
    expect(await runBadly(1, ['node', 'lease', parent.hash])).toContain(child.hash);
    await put('not there yet');
    expect(await runWell('node', 'lease', parent.hash)).toStartWith(`${parent.hash} ready until 20`);
  });

  test('get writes verified content to stdout or a file, or a range', async () => {
    const content = seededBytes(2_000_000, 9);
    const { hash } = makeNode(content);
    await runWell('node', 'put', file('large', content));
    const out = join(folder.path, 'out');
    expect(await runWell('node', 'get', hash, '--out', out)).toBe('');
    expect(Buffer.compare(readFileSync(out), content)).toBe(0);
    const child = Bun.spawn([HOLDFAST, 'node', 'get', hash], {
      env: { PATH: process.env.PATH, ...environment },
      stdout: 'pipe',
    });
    expect(Buffer.compare(await new Response(child.stdout).bytes(), content)).toBe(0);
    const text = await put('0123456789');
    expect(await runWell('node', 'get', text, '--range', '2-4')).toBe('234');
    expect(await runWell('node', 'get', text, '--range', '7-')).toBe('789');
    expect(await runWell('node', 'get', text, '--range=-2')).toBe('89');
    expect(await runBadly(1, ['node', 'get', text, '--range', '10-'])).toContain('416');
    const told = JSON.parse(await runWell('node', 'get', text, '--out', out, '--json'));
    expect(told).toEqual({
      hash: text,
      contentType: 'application/octet-stream',
      size: 10,
      file: out,
      verified: true,
    });
  });

  test('get --out replaces a file only by good content, follows a link, and writes into devices', async () => {
    const outs = join(folder.path, 'outs');
    mkdirSync(outs);
    const target = join(outs, 'kept');
    writeFileSync(target, 'as it was');
    await runBadly(1, ['node', 'get', ABSENT, '--out', target]);
    expect(readFileSync(target, 'utf8')).toBe('as it was');
    const link = join(outs, 'link');
    symlinkSync(target, link);
    const hash = await put('new content');
    await runWell('node', 'get', hash, '--out', link);
    expect(readFileSync(target, 'utf8')).toBe('new content');
    expect(readdirSync(outs).toSorted()).toEqual(['kept', 'link']);
    await runWell('node', 'get', hash, '--out', '/dev/null');
    expect(existsSync('/dev/null')).toBe(true);
    expect(await runBadly(1, ['node', 'get', hash, '--out', '/dev/full'])).toContain('disk is full');
    expect(await runBadly(1, ['node', 'get', hash, '--out', join(outs, 'no', 'file')])).toContain(
      'does not exist',
    );
    expect(await runBadly(1, ['node', 'get', hash, '--out', outs])).toContain('folder');
  });

  test('get of content that a proxy changed: exit 1, no file', async () => {
    const hash = await put('the true content');
    const proxy = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        const { pathname } = new URL(request.url);
        const headers = { authorization: request.headers.get('authorization') ?? '' };
        const response = await fetch(`${running.server.url}${pathname}`, { headers });
        if (!pathname.endsWith('/content')) return response;
        return new Response('the fake content', {
          headers: { 'content-type': 'text/plain', 'content-length': '16' },
        });
      },
    });
    try {
      const url = `http://127.0.0.1:${proxy.port}`;
      const out = join(folder.path, 'fake');
      expect(await runBadly(1, ['node', 'get', hash, '--out', out, '--url', url])).toContain(
        'VERIFICATION_FAILED',
      );
      expect(existsSync(out)).toBe(false);
      const result = await run(['node', 'get', hash, '--url', url]);
      expect([result.exitCode, result.stdout]).toEqual([1, '']);
    } finally {
      await proxy.stop(true);
    }
  });

  test('stat and lease for people', async () => {
    const hash = await put('described', '--content-type', 'text/x-described', '--lease', '2h');
    const lines = (await runWell('node', 'stat', hash)).split('\n');
    expect(lines.find((line) => line.startsWith('contentType'))).toEndWith('text/x-described');
    const before = JSON.parse(await runWell('node', 'stat', hash, '--json')).state.leaseExpiresAt;
    const lease = JSON.parse(await runWell('node', 'lease', hash, '--duration', '24h', '--json'));
    expect(lease).toMatchObject({ hash, state: 'ready' });
    expect(lease.leaseExpiresAt).toBeGreaterThan(before);
  });

  test('lease of a node without bytes fails and shows no upload instruction', async () => {
    const result = await run(['node', 'lease', ABSENT, '--json']);
    expect(result.exitCode).toBe(1);
    expect(JSON.parse(result.stdout)).toEqual({ hash: ABSENT, state: 'awaiting_upload' });
    expect(result.stderr).toContain('holdfast node put');
  });
});

describe('usage, gc, refs', () => {
  test('a root from commit to collection', async () => {
    const space = { HOLDFAST_SPACE: 'roots', HOLDFAST_TOKEN: running.issuer.token('roots') };
    const ask = async (...args: string[]) => JSON.parse((await run([...args, '--json'], space)).stdout);
    const path = file('root', 'root');
    const { hash } = await ask('node', 'put', path);
    const first = await ask('refs', 'update', `${hash}=+2`);
    expect(first).toMatchObject({ success: true, idempotent: false, revision: 1 });
    const replay = await ask('refs', 'update', `${hash}=2`, '--request-id', first.requestId);
    expect(replay).toEqual({ requestId: first.requestId, success: true, idempotent: true, revision: 1 });
    expect(await ask('refs', 'list')).toEqual({
      refDomain: 'test',
      revision: 1,
      items: [{ hash, refCount: 2 }],
      nextCursor: null,
    });
    expect((await run(['refs', 'list', '--all'], space)).stdout).toBe(`${hash} 2\n`);
    expect(await runBadly(1, ['refs', 'update', `${hash}=-3`], space)).toContain('CONFLICT 409');
    expect(await ask('usage')).toMatchObject({ nodeCount: 1, readyContentBytes: 4 });
    expect((await run(['usage'], space)).stdout).toMatch(/^nodeCount +1 +nodes$/m);
    expect(await ask('gc', '--all')).toEqual({ examined: 0, deleted: 0, reclaimedContentBytes: 0 });
    expect((await run(['gc', '--max-nodes', '5'], space)).stdout).toBe(
      'examined 0, deleted 0, reclaimed 0 B\n',
    );
  });

  test('pages', async () => {
    const space = { HOLDFAST_SPACE: 'pages', HOLDFAST_TOKEN: running.issuer.token('pages') };
    const names = ['x', 'y', 'z'];
    for (const name of names) await run(['node', 'put', file(name, name)], space);
    const hashes = names.map((name) => makeNode(name).hash).toSorted();
    const updated = await run(['refs', 'update', ...hashes.map((hash) => `${hash}=+1`)], space);
    expect(updated.stdout).toMatch(/^revision 1 committed, request id [0-9a-f-]{36}\n$/);
    const page = JSON.parse((await run(['refs', 'list', '--limit', '2', '--json'], space)).stdout);
    expect(page.items.map(({ hash }: { hash: string }) => hash)).toEqual(hashes.slice(0, 2));
    const rest = await run(['refs', 'list', '--cursor', page.nextCursor], space);
    expect(rest.stdout).toBe(`${hashes[2]} 1\n`);
    const all = await run(['refs', 'list', '--all', '--limit', '1'], space);
    expect(all.stdout).toBe(hashes.map((hash) => `${hash} 1\n`).join(''));
  });

  test('a commit whose outcome is open says how to send it again', async () => {
    const broken = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response('{', { status: 200 }),
    });
    try {
      const url = `http://127.0.0.1:${broken.port}`;
      const line = await runBadly(1, ['refs', 'update', `${ABSENT}=1`, '--url', url]);
      expect(line).toMatch(/add --request-id [0-9a-f-]{36}\n$/);
    } finally {
      await broken.stop(true);
    }
  });
});

describe('connection', () => {
  test('flags win over variables; a token comes from a file', async () => {
    const token = file('token', `${running.issuer.token('flags')}\n`);
    chmodSync(token, 0o600);
    const flags = [
      '--url',
      `${running.server.url}/`,
      '--app',
      APP,
      '--space',
      'flags',
      '--token-file',
      token,
    ];
    const wrong = {
      HOLDFAST_URL: 'http://127.0.0.1:1',
      HOLDFAST_APP: 'x',
      HOLDFAST_SPACE: 'x',
      HOLDFAST_TOKEN: 'x',
    };
    const result = await run(['usage', '--json', ...flags], wrong);
    expect([result.exitCode, JSON.parse(result.stdout).nodeCount]).toEqual([0, 0]);
    chmodSync(token, 0o644);
    expect(await runBadly(1, ['usage', ...flags])).toContain('others can use it (mode 644)');
    expect(await runBadly(1, ['login', 'other', ...flags])).toContain('others can use it (mode 644)');
    expect(await runBadly(1, ['usage', '--token-file', join(folder.path, 'none')])).toContain('token file');
  });

  test('failures say what to do', async () => {
    const expired = running.issuer.token(SPACE, { exp: 1 });
    expect(await runBadly(1, ['usage'], { HOLDFAST_TOKEN: expired })).toContain('invalid_token 401');
    expect(await runBadly(1, ['usage'], { HOLDFAST_SPACE: 'other' })).toContain('resource_scope_mismatch');
    const reader = running.issuer.token(SPACE, { permissions: ['cas:nodes:read'] });
    expect(await runBadly(1, ['gc'], { HOLDFAST_TOKEN: reader })).toContain('--permission cas:gc:execute');
    expect(await runBadly(1, ['usage'], { HOLDFAST_TOKEN: 'two words' })).toContain('HOLDFAST_TOKEN');
    expect(await runBadly(1, ['usage'], { HOLDFAST_URL: 'http://127.0.0.1:1' })).toContain(
      'CONNECTION_FAILED',
    );
    const page = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('<html>') });
    const elsewhere = { HOLDFAST_URL: `http://127.0.0.1:${page.port}` };
    expect(await runBadly(1, ['usage'], elsewhere)).toMatch(
      /MALFORMED_RESPONSE 200\); .*HOLDFAST_URL or --url/,
    );
    await page.stop(true);
    expect(await runBadly(1, ['node', 'get', ABSENT])).toContain('NOT_FOUND 404');
    expect(await runBadly(1, ['node', 'put', join(folder.path, 'none')])).toContain('does not exist');
    expect(await runBadly(1, ['node', 'put', folder.path])).toContain('folder');
  });

  test('wrong usage is exit code 2', async () => {
    const wrong: readonly string[][] = [
      ['node', 'get', 'x y'],
      ['node', 'get', ABSENT.toUpperCase()],
      ['node', 'get', ABSENT, '--range', '5-2'],
      ['node', 'get', ABSENT, '--range', '-0'],
      ['node', 'get', ABSENT, '--range', '-'],
      ['node', 'get', ABSENT, '--json'],
      ['node', 'get'],
      ['node', 'put', 'x', '--ref', 'nope'],
      ['node', 'put', 'x', '--ref', ...Array<string>(257).fill(ABSENT)],
      ['node', 'put', 'x', '--content-type', ''],
      ['node', 'put', 'x', '--lease', '1 hour'],
      ['node', 'lease', ABSENT, '--duration', '0s'],
      ['gc', '--max-nodes', '0'],
      ['gc', '--max-nodes', '1.5'],
      ['gc', '--operator', 'http://127.0.0.1:1'],
      ['refs', 'list', '--limit', '201'],
      ['refs', 'update'],
      ['refs', 'update', ABSENT],
      ['refs', 'update', `${ABSENT}=1000001`],
      ['refs', 'update', `${ABSENT}=1`, `${ABSENT}=1`],
      ['refs', 'update', `${ABSENT}=1`, '--request-id', ''],
      ['usage', '--token', 'secret'],
      ['usage', '--space', '..'],
    ];
    for (const args of wrong) await runBadly(2, args);
    for (const variable of ['HOLDFAST_URL', 'HOLDFAST_APP', 'HOLDFAST_SPACE', 'HOLDFAST_TOKEN']) {
      expect(await runBadly(2, ['usage'], { [variable]: '' })).toContain(variable);
    }
    await runBadly(2, ['usage'], { HOLDFAST_URL: 'not an address' });
  });

  test('help shows examples', async () => {
    for (const command of ['node put', 'node get', 'node lease', 'gc', 'refs list', 'refs update']) {
      expect(await runWell(...command.split(' '), '--help')).toContain(`holdfast ${command}`);
    }
  });
});
