import { expect, test } from 'bun:test';
import { EditError, type TreeEdit } from '@holdfast/client/internal';
import { EditQueue } from './edit-queue.ts';

const COMMITS_MAX = 50;

function put(path: string) {
  return { paths: [path], edits: [{ op: 'remove', path } as const], bytes: 1 };
}

function pathsOf(edits: readonly TreeEdit[]): readonly unknown[] {
  return edits.map((edit) => ('path' in edit ? edit.path : edit.from));
}

test('edits that never pause leave others their turns', async () => {
  let commits = 0;
  const queue: EditQueue = new EditQueue(async () => {
    commits += 1;
    if (commits < COMMITS_MAX) void queue.add(put(`k${commits}`));
  });
  const first = queue.add(put('first'));
  const seen = Promise.withResolvers<number>();
  void queue.inTurn(async () => seen.resolve(commits));
  expect(await seen.promise).toBe(1);
  await first;
});

test('edits that come together are one commit, without those that cannot be', async () => {
  const commits: (readonly unknown[])[] = [];
  const queue = new EditQueue(async (edits, check) => {
    await check(undefined);
    const at = edits.findIndex((edit) => 'path' in edit && edit.path === 'gone');
    if (at !== -1) throw new EditError('NOT_FOUND', 'there is nothing', { path: 'gone', index: at });
    commits.push(pathsOf(edits));
  });
  const refused = async (): Promise<void> => {
    throw new Error('another version is there');
  };
  const outcomes = await Promise.allSettled([
    queue.add(put('a')),
    queue.add({ ...put('b'), check: refused }),
    queue.add(put('gone')),
    queue.add(put('c')),
    queue.add(put('a')),
    queue.add(put('d')),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'fulfilled',
    'fulfilled',
    'fulfilled',
  ]);
  expect(commits).toEqual([
    ['a', 'c'],
    ['a', 'd'],
  ]);
});

test('what an older head said of an edit is no answer when the commit fails', async () => {
  const away = new Error('the server is away');
  const queue = new EditQueue(async (_edits, check) => {
    await check(undefined).catch(() => undefined);
    throw away;
  });
  const refused = (): Promise<void> => Promise.reject(new Error('another version is there'));
  const outcomes = await Promise.allSettled([
    queue.add({ ...put('a'), check: refused }),
    queue.add(put('b')),
  ]);
  expect(outcomes.map((each) => each.status === 'rejected' && each.reason)).toEqual([away, away]);
});

test('a commit waits for a small body that is on its way, and for no large one', async () => {
  const commits: (readonly unknown[])[] = [];
  const queue = new EditQueue(async (edits) => {
    commits.push(pathsOf(edits));
  });
  const body = Promise.withResolvers<void>();
  const comes = (path: string) => async () => {
    await body.promise;
    return put(path);
  };
  const slow = queue.addSoon(true, comes('slow'));
  const first = queue.add(put('first'));
  await new Promise<void>((resolve) => setImmediate(resolve));
  body.resolve();
  await Promise.all([slow, first]);
  expect(commits).toEqual([['first', 'slow']]);
  const late = Promise.withResolvers<undefined>();
  const large = queue.addSoon(false, () => late.promise);
  await queue.add(put('next'));
  late.resolve(undefined);
  await large;
});
