/** `holdfast app` on a registry in PostgreSQL, as a process. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync } from 'node:fs';
import { makeIssuer } from '../../../test/support/issuer.ts';
import { openPostgres, type TestDatabases } from '../../../test/support/postgres-server.ts';
import { Workplace } from '../test/run-holdfast-fixture.ts';

const START_MS_MAX = 300_000;

let databases: TestDatabases;
let place: Workplace;
let url: string;
const issuer = makeIssuer('https://i.test');

beforeAll(async () => {
  databases = await openPostgres();
}, START_MS_MAX);
afterAll(() => databases.close());
beforeEach(async () => {
  url = await databases.createDatabase();
  place = new Workplace();
  issuer.writeKeySet(place.path('jwks.json'));
});
afterEach(() => place.remove());

const REST = ['--issuer', 'https://i.test', '--audience', 'aud', '--jwks-file', 'jwks.json'];

const hasFolder = (): boolean => existsSync(place.path('holdfast-data'));

describe('the registry in a database', () => {
  test('is looked for without making it, then kept there by every verb', async () => {
    const at = ['--metadata', url];
    expect(JSON.parse(await place.print('app', 'list', '--json', ...at))).toEqual([]);
    expect(await place.fail(1, 'app', 'suspend', 'demo', ...at)).toMatch(
      /database 127\.0\.0\.1:\d+\/\w+ has no registry yet; check --metadata$/m,
    );
    await place.print('app', 'add', 'demo', ...REST, ...at);
    expect(await place.fail(1, 'app', 'add', 'demo', ...REST, ...at)).toContain('--replace');
    expect(await place.fail(1, 'app', 'add', 'other', ...REST, ...at)).toContain('another App');
    await place.print('app', 'add', 'demo', '--replace', ...REST.with(3, 'new'), ...at);
    await place.print('app', 'suspend', 'demo', ...at);
    expect(JSON.parse(await place.print('app', 'list', '--json', ...at))).toMatchObject([
      { appId: 'demo', issuer: 'https://i.test', audience: 'new', status: 'suspended' },
    ]);
    expect(await place.fail(1, 'app', 'resume', 'nobody', ...at)).toContain('holdfast app list');
    await place.print('app', 'resume', 'demo', ...at);
    await place.print('app', 'remove', 'demo', ...at);
    expect(JSON.parse(await place.print('app', 'list', '--json', ...at))).toEqual([]);
    expect(hasFolder()).toBe(false);
  });

  test('is found by HOLDFAST_METADATA, unless --data says otherwise', async () => {
    place.environment.HOLDFAST_METADATA = url;
    await place.print('app', 'add', 'demo', ...REST);
    expect(hasFolder()).toBe(false);
    mkdirSync(place.path('elsewhere'));
    const listed = (...args: string[]) => place.print('app', 'list', '--json', ...args);
    expect(JSON.parse(await listed())).toMatchObject([{ appId: 'demo' }]);
    expect(JSON.parse(await listed('--data', 'elsewhere'))).toEqual([]);
    place.environment.HOLDFAST_METADATA = '';
    mkdirSync(place.path('holdfast-data'));
    expect(JSON.parse(await listed())).toEqual([]);
  });

  test('is made once by processes that come to an empty database together', async () => {
    const names = ['a', 'b', 'c', 'a'];
    const outcomes = await Promise.all(
      names.map((name) => place.run('app', 'add', name, ...REST.with(1, name), '--metadata', url)),
    );
    expect(outcomes.map(({ exitCode }) => exitCode).toSorted()).toEqual([0, 0, 0, 1]);
    const apps = JSON.parse(await place.print('app', 'list', '--json', '--metadata', url));
    expect(apps.map(({ appId }: { appId: string }) => appId)).toEqual(['a', 'b', 'c']);
  });
});

test('a wrong password is one line that does not hold it', async () => {
  const wrong = new URL(url);
  wrong.password = 'hunter2';
  const line = await place.fail(1, 'app', 'list', '--metadata', wrong.href);
  expect(line).toMatch(/PostgreSQL refuses the password/);
  expect(line).not.toContain('hunter2');
});
