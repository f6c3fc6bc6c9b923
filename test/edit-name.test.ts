/** Edits of names over a real server: against pushes of the edited folder, with writers that race, and with few requests. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KnownNames } from '../packages/cli/doors/known-names.ts';
import {
  addSnapshot,
  type Client,
  compareAndSetName,
  createClient,
  EditError,
  editName,
  forgetSnapshots,
  readNames,
  setPinned,
  type TreeEdit,
} from '../packages/client/index.ts';
import type { DomainNames, FetchFunction, NamesHolder } from '../packages/client/internal.ts';
import { pushFolder } from '../packages/files/sdk.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';

let running: RunningServer;
const folder = makeTempFolder('edit-name');

beforeAll(async () => {
  running = await startFreshServer('edit-name-server');
});
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function connect(
  spaceId: string,
  { fetch, refDomain }: { fetch?: FetchFunction; refDomain?: string } = {},
): Client {
  const token = running.issuer.token(spaceId, refDomain === undefined ? {} : { refDomain });
  return createClient({ baseUrl: running.server.url, appId: APP, spaceId, token, fetch });
}

const put = (path: string, text: string): TreeEdit => ({
  op: 'set',
  path,
  bytes: new TextEncoder().encode(text),
});
const rootsOf = async (client: Client) => (await readNames(client)).snapshots.map(({ root }) => root);

test('an edited folder has the hash of a push of it, in few requests', async () => {
  let requests = 0;
  const client = connect('push', {
    fetch: (url, init) => {
      requests += 1;
      return fetch(url, init);
    },
  });
  const path = folder.path;
  mkdirSync(join(path, 'tree/a/b'), { recursive: true });
  writeFileSync(join(path, 'tree/a/b/one'), 'one');
  writeFileSync(join(path, 'tree/two'), 'two');
  const { root } = await pushFolder(client, join(path, 'tree'));
  await addSnapshot(client, { name: 'work', root, host: 'h', path: 'p', bytes: 6 });
  requests = 0;
  const edited = await editName(
    client,
    'work',
    [put('a/b/one', 'changed'), { op: 'move', from: 'two', to: 'a/2' }],
    {
      message: 'by a test',
    },
  );
  expect(requests).toBeLessThanOrEqual(12);
  writeFileSync(join(path, 'tree/a/b/one'), 'changed');
  renameSync(join(path, 'tree/two'), join(path, 'tree/a/2'));
  expect((await pushFolder(client, join(path, 'tree'))).root).toBe(edited.root);
  rmSync(join(path, 'tree'), { recursive: true });
  const { snapshots } = await readNames(client);
  expect(snapshots.at(-1)).toEqual(edited.snapshot);
  expect(edited.snapshot).toMatchObject({ name: 'work', root: edited.root, message: 'by a test', bytes: 10 });
  expect(edited).toMatchObject({ entries: 4, bytes: 10, sentNodes: 4 });
});

test('writers of different paths all win, also the first ones, and an edit that makes no sense any more is named', async () => {
  const writers = Array.from({ length: 5 }, (_, index) => index);
  const edits = writers.map((index) => editName(connect('race'), 'work', [put(`f${index}`, `${index}`)]));
  await Promise.all(edits);
  const client = connect('race');
  const { snapshots } = await readNames(client);
  expect(snapshots).toHaveLength(writers.length);
  const { entries } = await editName(client, 'work', [{ op: 'remove', path: 'f0' }]);
  expect(entries).toBe(writers.length - 1);
  const error = await editName(client, 'work', [put('x', 'x'), { op: 'remove', path: 'f0' }]).catch(
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(EditError);
  expect(error).toMatchObject({ code: 'NOT_FOUND', path: 'f0', index: 1 });
  expect((await readNames(client)).snapshots).toHaveLength(writers.length + 1);
});

test('of many who set a head exactly one wins, first ones too, and again after all was forgotten', async () => {
  const clients = Array.from({ length: 6 }, () => connect('heads'));
  const [client] = clients as [Client, ...Client[]];
  let round = 0;
  const race = async (from: string | undefined) => {
    round += 1;
    const nodes = clients.map((_, index) => ({ contentType: 'text/plain', content: `${round}/${index}` }));
    const values = await client.putNodes(nodes);
    const settled = await Promise.all(
      clients.map((each, index) => compareAndSetName(each, 'head', { from, to: values[index]?.hash ?? '' })),
    );
    const [won, ...others] = settled.filter(({ swapped }) => swapped);
    expect(others).toEqual([]);
    const { snapshots } = await readNames(client);
    expect(won).toEqual({ swapped: true, snapshot: snapshots.at(-1) as never });
    const lost = settled.find(({ swapped }) => !swapped);
    expect(lost).toMatchObject({ swapped: false, head: snapshots.at(-1) });
    return snapshots.at(-1)?.root;
  };
  const first = await race(undefined);
  await race(first);
  await forgetSnapshots(client, { name: 'head', all: true });
  await race(undefined);
  expect(await readNames(client)).toMatchObject({ catalogs: [{ refCount: 1 }] });
});

test('a catalog that another domain holds too is not taken twice', async () => {
  const client = connect('domains');
  const other = connect('domains', { refDomain: 'other' });
  for (let round = 0; round < 3; round += 1) {
    const { catalogs } = await readNames(client);
    for (const { hash } of catalogs) {
      await other.updateRootRefs({ requestId: `hold ${hash}`, changes: { [hash]: 1 } });
    }
    const from = (await readNames(client)).snapshots.at(-1)?.root;
    const values = await client.putNodes(
      [0, 1, 2].map((index) => ({ contentType: 'text/plain', content: `${round}/${index}` })),
    );
    const settled = await Promise.all(
      values.map(({ hash }) => compareAndSetName(connect('domains'), 'head', { from, to: hash })),
    );
    expect(settled.filter(({ swapped }) => swapped)).toHaveLength(1);
    expect(await rootsOf(client)).toHaveLength(round + 1);
  }
  await Promise.all([0, 1, 2].map((index) => editName(connect('domains'), 'tree', [put(`f${index}`, 'x')])));
  expect(await editName(client, 'tree', [put('last', 'x')])).toMatchObject({ entries: 4 });
  const { rootRefs } = await readNames(client);
  expect(rootRefs.filter(({ refCount }) => refCount < 0)).toEqual([]);
});

test('a process that remembers the names does not read them for an edit, and is corrected where others changed them', async () => {
  const asked: string[] = [];
  const client = connect('holder', {
    fetch: (url, init) => {
      asked.push(`${init.method} ${new URL(url).pathname.split('/').at(-1)}`);
      return fetch(url, init);
    },
  });
  let held: DomainNames | undefined;
  const names: NamesHolder = {
    pauseMs: () => 0,
    take: () => {
      const taken = held;
      held = undefined;
      return taken;
    },
    give: (made) => {
      held = made;
    },
  };
  await editName(client, 'work', [put('a', 'a')], { names });
  asked.length = 0;
  const second = await editName(client, 'work', [put('b', 'b')], { names });
  expect(second.entries).toBe(2);
  expect(asked.filter((each) => each === 'GET root-refs')).toEqual([]);
  const other = await editName(connect('holder'), 'work', [put('x', 'x')]);
  const check = (head: { readonly root: string } | undefined): void => {
    if (head?.root !== other.root) throw new Error('this is not the head');
  };
  const third = await editName(client, 'work', [put('c', 'c')], { names, check });
  expect(third.entries).toBe(4);
  await editName(connect('holder'), 'work', [put('c', 'others')]);
  const fourth = await editName(client, 'work', [{ op: 'remove', path: 'x' }], { names });
  expect(fourth.entries).toBe(3);
  expect(await rootsOf(client)).toContain(fourth.root);
});

test('a caller who gives up does not wait for the pause', async () => {
  const ending = new AbortController();
  const names: NamesHolder = {
    pauseMs: () => {
      queueMicrotask(() => ending.abort(new Error('given up')));
      return 3_600_000;
    },
    take: () => undefined,
    give: () => undefined,
  };
  const edit = editName(connect('pause'), 'work', [put('a', 'a')], { names, signal: ending.signal });
  await expect(edit).rejects.toThrow('given up');
});

test('a process that edits without a pause does not hold up another', async () => {
  const client = connect('busy');
  const names = new KnownNames(client);
  let [edits, isDone] = [0, false];
  const busy = async (): Promise<void> => {
    while (!isDone && edits < 400) {
      await editName(client, 'busy', [put('a', `${edits}`)], {
        names,
        memory: names.memory,
        amend: 'latest',
      });
      edits += 1;
    }
  };
  const other = async (): Promise<void> => {
    for (let number = 0; number < 3; number += 1)
      await editName(connect('busy'), 'busy', [put('b', `${number}`)]);
    isDone = true;
  };
  await Promise.all([busy(), other()]);
  expect(edits).toBeLessThan(100);
});

test('amend takes the place of the own last snapshot while that is young, the latest and not pinned', async () => {
  const client = connect('amend');
  let now = Date.now();
  const clock = { now: () => now, startTimer: () => () => undefined };
  const edit = (path: string) =>
    editName(client, 'work', [put(path, path)], { amend: { within: 1_000 }, clock });
  const idsOf = async () => (await readNames(client)).snapshots.map(({ id }) => id);
  await edit('a');
  now += 600;
  const second = await edit('b');
  expect(await idsOf()).toEqual([second.snapshot.id]);
  now += 600;
  const third = await edit('c');
  expect(await idsOf()).toEqual([second.snapshot.id, third.snapshot.id]);
  await setPinned(client, third.snapshot.id, true);
  const fourth = await edit('d');
  expect(await idsOf()).toEqual([second.snapshot.id, third.snapshot.id, fourth.snapshot.id]);
  const foreign = await addSnapshot(
    client,
    { name: 'work', root: second.root, host: '', path: '', bytes: 0 },
    {
      clock: { ...clock, now: () => now + 10 },
    },
  );
  const fifth = await edit('e');
  expect((await idsOf()).slice(-2)).toEqual([foreign.snapshot.id, fifth.snapshot.id]);
  const all = await idsOf();
  await editName(connect('amend'), 'work', [put('f', 'f')], { amend: 'latest', clock });
  expect((await idsOf()).slice(0, -1)).toEqual(all.slice(0, -1));
});
