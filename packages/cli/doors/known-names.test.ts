import { expect, test } from 'bun:test';
import { CasError, type Client } from '@holdfast/client/internal';
import { KnownNames } from './known-names.ts';
import { McpNames } from './mcp/mcp-names.ts';
import { NameStore } from './webdav/name-store.ts';

/** A reader whose domain holds one list that cannot be read, or none. */
function clientWith(lists: number, onRead = (): void => undefined): Client {
  const rootRefs = Array.from({ length: lists }, () => ({ hash: '1'.repeat(64), refCount: 1 }));
  const fake: Partial<Client> = {
    rootRefs: async function* () {
      onRead();
      yield { refDomain: 'd', revision: 1, items: rootRefs, nextCursor: undefined } as never;
    },
    getNode: () => Promise.reject(new Error('nothing is read here')),
    readMetadata: async () => {
      const details = { code: 'VERIFICATION_FAILED', requestOperation: 'readMetadata' } as const;
      throw new CasError('planted', details);
    },
  };
  return fake as Client;
}

test('no name is absent or empty while a list of snapshots cannot be read', async () => {
  const place = { parts: ['a'], isOld: false };
  const root = { parts: [], isOld: false };
  for (const given of [[], ['a']]) {
    const whole = new NameStore(clientWith(0), given);
    expect((await whole.find(place)) === undefined).toBe(given.length === 0);
    const store = new NameStore(clientWith(1), given);
    await expect(store.find(place)).rejects.toMatchObject({ status: 503 });
    const folder = await store.find(root);
    if (folder === undefined) throw new Error('the root is always there');
    await expect(Array.fromAsync(store.list(folder))).rejects.toMatchObject({ status: 503 });
  }
});

test('nor is it for an agent', async () => {
  for (const given of [[], ['a']]) {
    const names = new McpNames(clientWith(1), given);
    await expect(names.snapshots('a')).rejects.toThrow('cannot be read');
    await expect(names.names()).rejects.toThrow('cannot be read');
    expect((await new McpNames(clientWith(0), given).names()).size).toBe(given.length);
  }
});

test('names are read again after a commit that left none, or older ones', async () => {
  let readings = 0;
  const known = new KnownNames(
    clientWith(0, () => {
      readings += 1;
    }),
  );
  const made = { refDomain: 'd', snapshots: [], catalogs: [], unreadable: [], rootRefs: [] };
  await known.read();
  known.give({ ...made, revision: 3 });
  await known.read();
  expect([readings, known.take()?.revision]).toEqual([1, 3]);
  known.give(undefined);
  await known.read();
  expect(readings).toBe(2);
  known.give({ ...made, revision: 3 });
  // The answer to an earlier commit comes later.
  known.give({ ...made, revision: 2 });
  expect(known.take()).toBeUndefined();
  await known.read();
  expect(readings).toBe(3);
});
