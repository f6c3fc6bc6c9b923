/** Names over a real server: races, damage, other versions, many trees, and `push --name` killed between any two requests. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { changeNames } from '../packages/client/catalog/change-names.ts';
import {
  addSnapshot,
  CATALOG_CONTENT_TYPE,
  CatalogError,
  type Client,
  createClient,
  type FetchFunction,
  forgetSnapshots,
  readNames,
  setPinned,
  unforgetSnapshot,
} from '../packages/client/internal.ts';
import { startCountingProxy } from './support/counting-proxy.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { describeNameRaces, describeSnapshot, putTree } from './support/name-races.ts';
import { readPlace } from './support/read-place.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';

let running: RunningServer;
const folder = makeTempFolder('names');

beforeAll(async () => {
  running = await startFreshServer('names-server');
});
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function connect(spaceId: string, fetch?: FetchFunction, attemptsMax = 4): Client {
  const token = running.issuer.token(spaceId);
  const retry = { attemptsMax };
  return createClient({ baseUrl: running.server.url, appId: APP, spaceId, token, fetch, retry });
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'done';
  } catch (error) {
    if (error instanceof CatalogError) return error.code;
    throw error;
  }
}

/** A node of this content as a root ref, as another program, or another version of this one, would leave it. */
async function plant(client: Client, contentType: string, content: string): Promise<string> {
  const { hash } = await client.putNode({ contentType, content });
  await client.updateRootRefs({ requestId: `plant ${hash}`, changes: { [hash]: 1 } });
  return hash;
}

describeNameRaces(connect);

describe('what cannot be read', () => {
  test('of another version stops every change before anything is written', async () => {
    for (const [space, contentType, content] of [
      ['version-2', CATALOG_CONTENT_TYPE, '{"version":2,"snapshots":{}}'],
      ['type-2', 'application/vnd.holdfast.catalog.v2+json', 'anything'],
    ] as const) {
      const client = connect(space);
      const root = await putTree(client, 'tree');
      await addSnapshot(client, describeSnapshot('home', root));
      await plant(client, contentType, content);
      const before = await client.listRootRefs();
      const { nodeCount } = await client.getUsage();
      expect(await codeOf(addSnapshot(client, describeSnapshot('home', root)))).toBe('OTHER_VERSION');
      expect(await codeOf(forgetSnapshots(client, { name: 'home', all: true }))).toBe('OTHER_VERSION');
      expect(await codeOf(readNames(client))).toBe('OTHER_VERSION');
      expect([await client.listRootRefs(), (await client.getUsage()).nodeCount]).toEqual([before, nodeCount]);
    }
  });

  test('is named and left alone, while the others are shown and changed', async () => {
    const client = connect('unreadable');
    const root = await putTree(client, 'tree');
    const good = await addSnapshot(client, describeSnapshot('home', root));
    const noCatalog = await plant(client, CATALOG_CONTENT_TYPE, '{"version":1}');
    const other = await plant(client, 'text/plain', 'something else that is kept');
    const names = await readNames(client);
    expect(names.unreadable.map(({ hash }) => hash)).toEqual([noCatalog]);
    expect(names.snapshots).toEqual([good.snapshot]);
    const more = await addSnapshot(client, describeSnapshot('home', root));
    await forgetSnapshots(client, { idPrefixes: [good.snapshot.id] });
    const after = await readNames(client);
    expect(after.snapshots).toEqual([more.snapshot]);
    const left = new Map(after.rootRefs.map(({ hash, refCount }) => [hash, refCount]));
    expect([left.size, left.get(noCatalog), left.get(other)]).toEqual([3, 1, 1]);
  });

  test('because its bytes are rotten on the server never empties the list', async () => {
    const client = connect('rotten-list', undefined, 1);
    const root = await putTree(client, 'tree');
    const { commit } = await addSnapshot(client, describeSnapshot('home', root));
    const catalog = commit?.catalog ?? '';
    const spoiler = new ByteSpoiler(running.data);
    const place = readPlace(running.data, catalog);
    spoiler.spoil(place, 'flipped');
    expect((await readNames(client)).unreadable.map(({ hash }) => hash)).toEqual([catalog]);
    const more = await addSnapshot(client, describeSnapshot('home', root));
    const damaged = await readNames(client);
    expect(damaged.snapshots).toEqual([more.snapshot]);
    expect(damaged.rootRefs.map(({ hash }) => hash)).toContain(catalog);
  }, 300_000);
});

test('a list that no reader would accept is not written', async () => {
  const client = connect('refused');
  const root = await putTree(client, 'tree');
  const good = describeSnapshot('home', root);
  for (const wrong of [
    { ...good, host: 'x'.repeat(40_000) },
    { ...good, path: 'half of a pair \ud800' },
    { ...good, bytes: -1 },
    { ...good, root: 'A'.repeat(64) },
    { ...good, id: 'short' },
    { ...good, name: 'deadbeef' },
  ]) {
    expect(await codeOf(addSnapshot(client, wrong))).toBe('INVALID_ARGUMENT');
  }
  expect((await client.listRootRefs()).revision).toBe(0);
});

describe('a listed tree that is not ready', () => {
  test('does not block its domain, and forgetting it makes one list of all again', async () => {
    const client = connect('rotten-tree', undefined, 1);
    const [lost, good] = [await putTree(client, 'will be lost'), await putTree(client, 'good')];
    const damaged = await addSnapshot(client, describeSnapshot('home', lost));
    const beside = await addSnapshot(client, describeSnapshot('home', good));
    new ByteSpoiler(running.data).spoil(readPlace(running.data, lost), 'lost');
    // Only a read makes the server see it.
    await client.getNode(lost).catch(() => undefined);
    const more = await addSnapshot(client, describeSnapshot('home', good));
    const twice = await addSnapshot(client, describeSnapshot('photos', good));
    const names = await readNames(client);
    expect(names.catalogs.map(({ catalog }) => catalog.snapshots.length).sort()).toEqual([2, 2]);
    expect(names.snapshots.map(({ id }) => id).sort()).toEqual(
      [damaged, beside, more, twice].map(({ snapshot }) => snapshot.id).sort(),
    );
    expect(await codeOf(setPinned(client, beside.snapshot.id, true))).toBe('NOT_READY');
    expect(await codeOf(addSnapshot(client, describeSnapshot('home', lost)))).toBe('NOT_READY');
    await forgetSnapshots(client, { idPrefixes: [damaged.snapshot.id] });
    const mended = await readNames(client);
    expect([mended.catalogs.length, mended.snapshots.length]).toEqual([1, 3]);
    // It can be taken back only once its tree is there again.
    expect(await codeOf(unforgetSnapshot(client, damaged.snapshot.id))).toBe('COLLECTED');
    await putTree(client, 'will be lost');
    await unforgetSnapshot(client, damaged.snapshot.id);
    expect((await readNames(client)).snapshots.length).toBe(4);
  }, 300_000);
});

describe('forgetting', () => {
  test('of everything leaves no root ref, and the local state or a former list brings it back', async () => {
    const client = connect('forget-all');
    const root = await putTree(client, 'tree');
    const { snapshot } = await addSnapshot(client, describeSnapshot('home', root));
    const { commit, forgotten } = await forgetSnapshots(client, { name: 'home', all: true });
    expect((await client.listRootRefs()).items).toEqual([]);
    expect(await codeOf(unforgetSnapshot(client, snapshot.id))).toBe('NOT_FOUND');
    await unforgetSnapshot(client, snapshot.id, { former: commit?.replaced });
    await forgetSnapshots(client, { name: 'home', all: true });
    await unforgetSnapshot(client, snapshot.id.slice(0, 8), { known: forgotten });
    expect((await readNames(client)).snapshots).toEqual([snapshot]);
  });

  test('follows the lists back to where a tree was forgotten, and a pin prevents it', async () => {
    const client = connect('chain');
    const root = await putTree(client, 'tree');
    const first = (await addSnapshot(client, describeSnapshot('home', root))).snapshot;
    const second = (await addSnapshot(client, describeSnapshot('home', root))).snapshot;
    await setPinned(client, first.id, true);
    expect(await codeOf(forgetSnapshots(client, { idPrefixes: [first.id] }))).toBe('PINNED');
    expect(
      (await forgetSnapshots(client, { name: 'home', all: true })).forgotten.map(({ id }) => id),
    ).toEqual([second.id]);
    for (let index = 0; index < 5; index += 1) await addSnapshot(client, describeSnapshot('home', root));
    await unforgetSnapshot(client, second.id);
    expect((await readNames(client)).snapshots.map(({ id }) => id)).toContain(second.id);
  });
});

test('more than 256 trees stand behind index nodes, and each is kept by the list', async () => {
  const client = connect('many');
  const roots: string[] = [];
  for (let index = 0; index < 300; index += 50) {
    const batch = Array.from({ length: 50 }, (_, at) => putTree(client, `tree ${index + at}`));
    roots.push(...(await Promise.all(batch)));
  }
  const snapshots = roots.map((root, index) => ({
    ...describeSnapshot('home', root),
    id: index.toString(16).padStart(16, '0'),
    time: 1_000 + index,
  }));
  // One list of 299, as 299 pushes would leave it.
  await changeNames(client, () => snapshots.slice(0, 299));
  await addSnapshot(client, snapshots[299] as (typeof snapshots)[number]);
  const { catalogs } = await readNames(client);
  const { metadata } = await client.readMetadata(catalogs[0]?.hash ?? '');
  expect([catalogs.length, catalogs[0]?.catalog.snapshots.length, metadata.refs.length]).toEqual([1, 300, 2]);
  for (const root of [roots[0], roots[255], roots[256], roots[299]]) {
    const { state } = await client.readMetadata(root as string);
    expect(state.childRefCount).toBeGreaterThanOrEqual(1);
  }
}, 300_000);

describe('push --name', () => {
  const space = 'killed';
  const run = (url: string, ...args: string[]) => {
    const child = Bun.spawn([HOLDFAST, ...args], {
      cwd: folder.path,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: folder.path,
        HOLDFAST_URL: url,
        HOLDFAST_APP: APP,
        HOLDFAST_SPACE: space,
        HOLDFAST_TOKEN: running.issuer.token(space),
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
      timeout: 240_000,
    });
    return { child, stdout: new Response(child.stdout).text(), exited: child.exited };
  };

  test('killed at any request and run again adds one snapshot, and the list is whole throughout', async () => {
    mkdirSync(join(folder.path, 'tree'));
    const push = (url: string) => run(url, 'push', 'tree', '--name', 'home', '--quiet');
    const client = connect(space);
    const proxy = startCountingProxy(running.server.url);
    try {
      // The first push meets no list: those that follow make more requests.
      expect(await push(proxy.url).exited).toBe(0);
      let requests = 0;
      let count = 1;
      for (let killAt = 0; killAt <= requests; killAt += 1) {
        writeFileSync(join(folder.path, 'tree', 'file'), `version ${killAt}`);
        let seen = 0;
        const killed = killAt === 0 ? undefined : push(proxy.url);
        proxy.onRequest = (kind, moment) => {
          // Renewals of the lease on the root come at any time.
          if (moment === 'asked' && kind !== 'commit') return;
          seen += 1;
          if (seen === killAt) killed?.child.kill('SIGKILL');
        };
        await killed?.exited;
        const between = (await readNames(client)).snapshots.length;
        expect([count, count + 1]).toContain(between);
        if (killAt === 0) seen = 0;
        const clean = push(proxy.url);
        expect([killAt, await clean.exited]).toEqual([killAt, 0]);
        proxy.onRequest = undefined;
        if (killAt === 0) requests = seen;
        count += 1;
        const { snapshots, rootRefs } = await readNames(client);
        expect([killAt, snapshots.length, rootRefs.map(({ refCount }) => refCount)]).toEqual([
          killAt,
          count,
          [1],
        ]);
        expect(snapshots.at(-1)?.root).toBe((await clean.stdout).trim());
      }
      expect(requests).toBeGreaterThan(6);
    } finally {
      await proxy.close();
    }
  }, 600_000);

  test('needs four permissions and a refDomain, and says which lack before anything is sent', async () => {
    const claims = { permissions: ['cas:nodes:lease', 'cas:root-refs:update'], refDomain: undefined };
    const token = running.issuer.token(space, claims);
    const child = Bun.spawn([HOLDFAST, 'push', '.', '--name', 'home'], {
      cwd: folder.path,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: folder.path,
        HOLDFAST_URL: 'http://127.0.0.1:1',
        HOLDFAST_APP: APP,
        HOLDFAST_SPACE: space,
        HOLDFAST_TOKEN: token,
      },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    });
    const [exitCode, stderr] = await Promise.all([child.exited, new Response(child.stderr).text()]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('does not permit cas:nodes:read, cas:root-refs:read and names no refDomain');
    expect(stderr).toContain('nothing was sent');
  });
});
