/** `holdfast app` as a process. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { Workplace } from '../test/run-holdfast-fixture.ts';

/** A public P-256 key; its private half was never kept. */
const JWKS = JSON.stringify({
  keys: [
    {
      kty: 'EC',
      crv: 'P-256',
      x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
      y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
      kid: 'k1',
      alg: 'ES256',
    },
  ],
});

let place: Workplace;
beforeEach(() => {
  place = new Workplace();
  writeFileSync(place.path('jwks.json'), JWKS);
  for (const folder of ['holdfast-data', 'd']) mkdirSync(place.path(folder));
});
afterEach(() => place.remove());

const REST = ['--issuer', 'https://i.test', '--audience', 'aud'];
const ADD = ['app', 'add', 'demo', ...REST, '--jwks-file', 'jwks.json'];

async function list(...args: readonly string[]): Promise<Record<string, unknown>[]> {
  return JSON.parse(await place.print('app', 'list', '--json', ...args)) as Record<string, unknown>[];
}

describe('app add', () => {
  test('registers the App', async () => {
    expect(await place.print(...ADD)).toBe('App "demo" is registered for issuer "https://i.test"\n');
    expect(await list()).toMatchObject([
      {
        appId: 'demo',
        issuer: 'https://i.test',
        audience: 'aud',
        status: 'active',
        jwksUrl: null,
        maxTokenLifetimeMs: 86_400_000,
      },
    ]);
  });

  test('copies the key set: the file is not needed afterwards', async () => {
    await place.print(...ADD, '--data', 'd');
    expect(readdirSync(place.path('d')).toSorted()).toEqual(['.gitignore', '.holdfastignore', 'registry.db']);
    const database = new Database(place.path('d', 'registry.db'), { readonly: true });
    expect(database.query('SELECT jwks FROM apps').get()).toEqual({ jwks: JWKS });
    database.close();
  });

  test('takes a URL, a lifetime, a list of algorithms, and prints JSON', async () => {
    const printed = await place.print(
      ...['app', 'add', 'demo', ...REST, '--jwks-url', 'http://127.0.0.1:9/jwks', '--json'],
      ...['--max-token-lifetime', '90m', '--algorithms', 'ES256', 'EdDSA', '--data', 'd'],
    );
    expect(JSON.parse(printed)).toMatchObject({
      appId: 'demo',
      jwksUrl: 'http://127.0.0.1:9/jwks',
      maxTokenLifetimeMs: 5_400_000,
      algorithms: ['ES256', 'EdDSA'],
    });
    expect(await list('--data', 'd')).toEqual([JSON.parse(printed)]);
  });

  test('fails for an App that exists, unless it is to be replaced', async () => {
    await place.print(...ADD);
    expect(await place.fail(1, ...ADD)).toContain('--replace');
    await place.print('app', 'suspend', 'demo');
    const other = [
      'app',
      'add',
      'demo',
      '--issuer',
      'new',
      '--audience',
      'new',
      '--jwks-url',
      'https://n.test/',
    ];
    await place.print(...other, '--replace', '--max-token-lifetime', '1h');
    expect(await list()).toMatchObject([
      {
        appId: 'demo',
        issuer: 'new',
        audience: 'new',
        status: 'suspended',
        jwksUrl: 'https://n.test/',
        maxTokenLifetimeMs: 3_600_000,
      },
    ]);
  });

  test('fails for an issuer of another App', async () => {
    await place.print(...ADD);
    expect(await place.fail(1, 'app', 'add', 'second', ...ADD.slice(3))).toContain('belongs to another App');
    expect(await list()).toHaveLength(1);
  });

  test('takes HOLDFAST_DATA where no folder is named', async () => {
    place.environment.HOLDFAST_DATA = 'd';
    await place.print(...ADD);
    expect(existsSync(place.path('d', 'registry.db'))).toBe(true);
  });

  test.each<[string, readonly string[], string]>([
    ['no keys', ['app', 'add', 'demo', ...REST], '--jwks-file'],
    ['two sources of keys', [...ADD, '--jwks-url', 'https://i.test/'], 'cannot be used with'],
    [
      'keys that are not on the web',
      ['app', 'add', 'demo', ...REST, '--jwks-url', 'ftp://x'],
      'http or https',
    ],
    ['no issuer', ['app', 'add', 'demo', '--audience', 'a', '--jwks-file', 'jwks.json'], '--issuer'],
    ['no audience', ['app', 'add', 'demo', '--issuer', 'a', '--jwks-file', 'jwks.json'], '--audience'],
    ['no App', ['app', 'add', ...REST, '--jwks-file', 'jwks.json'], 'APP-ID'],
    ['an id that is none', ['app', 'add', '..', ...ADD.slice(3)], 'APP-ID'],
    ['a duration without unit', [...ADD, '--max-token-lifetime', '24'], 'not a duration'],
    ['a duration of 0', [...ADD, '--max-token-lifetime', '0h'], 'more than 0'],
    ['an unknown algorithm', [...ADD, '--algorithms', 'HS256'], 'HS256'],
    [
      'a folder and another engine',
      [...ADD, '--data', 'd', '--metadata', 'postgres://h/d'],
      'cannot be used with',
    ],
  ])('is wrong usage with %s', async (_, args, reason) => {
    expect(await place.fail(2, ...args)).toContain(reason);
    expect(readdirSync(place.path('holdfast-data'))).toEqual([]);
  });

  test.each<[string, string, string]>([
    ['no JSON', '-----BEGIN PUBLIC KEY-----', 'not valid JSON'],
    ['no key set', '{"kty":"EC"}', 'JSON Web Key Set'],
    ['an empty set', '{"keys":[]}', 'no key in it'],
    ['a private key', JWKS.replace('"kid"', '"d":"hunter2","kid"'), 'private'],
    ['a symmetric key', '{"keys":[{"kty":"oct","k":"hunter2"}]}', 'symmetric'],
  ])('fails for a file with %s and says nothing of its content', async (_, text, reason) => {
    writeFileSync(place.path('jwks.json'), text);
    const line = await place.fail(1, ...ADD);
    expect(line).toContain(reason);
    expect(line).not.toContain('hunter2');
    expect(await list()).toEqual([]);
  });

  test('fails for a file that is missing, or is a folder', async () => {
    expect(await place.fail(1, ...ADD.slice(0, -1), 'nowhere.json')).toContain('does not exist');
    expect(await place.fail(1, ...ADD.slice(0, -1), '.')).toContain('folder');
  });

  test('fails for a database that is away or whose URL is wrong, and never shows it', async () => {
    const away = await place.fail(1, ...ADD, '--metadata', 'postgres://user:hunter2@127.0.0.1:1/d');
    expect(away).toMatch(/PostgreSQL.*ECONNREFUSED/);
    const wrong = await place.fail(2, ...ADD, '--metadata', 'postgres://user:hunter2@h');
    expect(wrong).toContain('--metadata names no database');
    const both = await place.fail(2, ...ADD, '--metadata', 'postgres://user:hunter2@h/d', '--data', 'd');
    expect(both).toContain('--metadata');
    for (const line of [away, wrong, both]) expect(line).not.toContain('hunter2');
  });

  test('fails for a data folder that is a file, that cannot be written, or of a newer version', async () => {
    expect(await place.fail(1, ...ADD, '--data', 'jwks.json')).toContain('cannot be opened');
    mkdirSync(place.path('sealed'));
    chmodSync(place.path('sealed'), 0o500);
    // Root may write anywhere.
    if (process.getuid?.() !== 0)
      expect(await place.fail(1, ...ADD, '--data', 'sealed')).toContain('cannot be opened');
    await place.print(...ADD);
    const database = new Database(place.path('holdfast-data', 'registry.db'));
    database.run('PRAGMA user_version = 7');
    database.run('PRAGMA application_id = 0');
    database.run('UPDATE holdfast_schema SET min_compatible_version = 7');
    database.close();
    expect(await place.fail(1, ...ADD)).toContain('newer Holdfast');
    expect(await place.fail(1, 'app', 'list')).toContain('newer Holdfast');
  });

  test('at the same time by several processes: each App once', async () => {
    const names = ['a', 'b', 'c', 'a', 'b', 'c'];
    const outcomes = await Promise.all(
      names.map((name) => place.run('app', 'add', name, '--issuer', name, ...ADD.slice(5))),
    );
    expect(outcomes.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 0, 0, 1, 1, 1]);
    expect((await list()).map(({ appId }) => appId)).toEqual(['a', 'b', 'c']);
  });
});

test.each<[string, readonly string[]]>([
  ['add', ADD],
  ['list', ['app', 'list']],
  ['suspend', ['app', 'suspend', 'demo']],
  ['remove', ['app', 'remove', 'demo']],
])('app %s fails for a folder that is missing, and does not make it', async (_, args) => {
  expect(await place.fail(1, ...args, '--data', 'missing')).toContain(
    'the data folder missing does not exist: name the one that the server serves with --data',
  );
  expect(existsSync(place.path('missing'))).toBe(false);
});

test('app add fails for a folder that holds something else, and changes nothing in it', async () => {
  writeFileSync(place.path('d', 'notes.txt'), 'mine');
  expect(await place.fail(1, ...ADD, '--data', 'd')).toContain('d is no data folder of holdfast');
  expect(readdirSync(place.path('d'))).toEqual(['notes.txt']);
});

describe('app list', () => {
  test('of a folder without a registry is empty, and makes nothing', async () => {
    expect(await list()).toEqual([]);
    const { exitCode, stdout, stderr } = await place.run('app', 'list');
    expect([exitCode, stdout]).toEqual([0, '']);
    expect(stderr).toBe('no App is registered in ./holdfast-data; add one with: holdfast app add\n');
    expect(readdirSync(place.path('holdfast-data'))).toEqual([]);
  });

  test('prints a table for people, without control characters of others', async () => {
    await place.print(...ADD);
    await place.print('app', 'add', 'b', '--issuer', 'x\u001b[2Jy', ...ADD.slice(5));
    const lines = (await place.print('app', 'list')).trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^APP +STATUS +ISSUER +AUDIENCE +KEYS +MAX LIFETIME +STORED$/);
    expect(lines[1]).toContain('x\\u001b[2Jy');
    expect(lines[2]).toMatch(/^demo +active +https:\/\/i\.test +aud +in the registry +24h +0 B, 0 nodes$/);
  });
});

describe('app suspend, resume, remove', () => {
  test('change the status and free the id', async () => {
    await place.print(...ADD);
    expect(await place.print('app', 'suspend', 'demo')).toBe('App "demo" is suspended\n');
    expect(await list()).toMatchObject([{ status: 'suspended' }]);
    expect(JSON.parse(await place.print('app', 'resume', 'demo', '--json'))).toMatchObject({
      status: 'active',
    });
    expect(JSON.parse(await place.print('app', 'remove', 'demo', '--json'))).toEqual({
      appId: 'demo',
      removed: true,
    });
    expect(await list()).toEqual([]);
    await place.print('app', 'add', 'other', ...ADD.slice(3));
    await place.print('app', 'remove', 'other');
  });

  test.each(['suspend', 'resume', 'remove'])('%s fails for an App that is not there', async (verb) => {
    expect(await place.fail(1, 'app', verb, 'nobody')).toContain('no registry yet');
    expect(readdirSync(place.path('holdfast-data'))).toEqual([]);
    await place.print(...ADD);
    expect(await place.fail(1, 'app', verb, 'nobody')).toContain('holdfast app list');
    expect(await place.fail(2, 'app', verb)).toContain('APP-ID is missing');
    expect(await list()).toMatchObject([{ appId: 'demo', status: 'active' }]);
  });
});
