/** Several who change the names of one domain at once, over any server: nothing that was acknowledged may be missing. */
import { describe, expect, test } from 'bun:test';
import {
  addSnapshot,
  type Client,
  type FetchFunction,
  forgetSnapshots,
  readNames,
  setPinned,
} from '../../packages/client/internal.ts';

/** A client of `spaceId`; each call may go to another server. */
export type Connect = (spaceId: string, fetch?: FetchFunction) => Client;

const WRITERS = 6;
const SNAPSHOTS_EACH = 4;

/** Puts a node that stands for a tree; returns its hash. */
export async function putTree(client: Client, text: string): Promise<string> {
  return (await client.putNode({ contentType: 'text/plain', content: text })).hash;
}

export function describeSnapshot(name: string, root: string) {
  return { name, root, host: 'host', path: '/path', bytes: 1 };
}

/** A fetch that does `before` ahead of the first commit it sends: another is faster. */
function beforeFirstCommit(before: () => Promise<unknown>): FetchFunction {
  let isFirst = true;
  return async (url, init) => {
    if (isFirst && isCommit(url, init)) {
      isFirst = false;
      await before();
    }
    return fetch(url, init);
  };
}

function isCommit(url: string, init: RequestInit): boolean {
  return init.method === 'POST' && url.endsWith('/root-refs');
}

export function describeNameRaces(connect: Connect): void {
  describe('writers that change names at once lose nothing', () => {
    testWriters(connect);
    testOvertaken(connect);
    testPolicy(connect);
  });
}

function testWriters(connect: Connect): void {
  test(`${WRITERS} who push under one name and others, and one list in the end`, async () => {
    const space = 'writers';
    const added = await Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        const client = connect(space);
        const ids: string[] = [];
        for (let index = 0; index < SNAPSHOTS_EACH; index += 1) {
          const root = await putTree(client, `writer ${writer} tree ${index}`);
          const name = index % 2 === 0 ? 'shared' : `of-${writer}`;
          ids.push((await addSnapshot(client, describeSnapshot(name, root))).snapshot.id);
        }
        return ids;
      }),
    );
    const client = connect(space);
    const listed = (await readNames(client)).snapshots.map(({ id }) => id);
    expect(listed.toSorted()).toEqual(added.flat().sort());
    const last = await addSnapshot(client, describeSnapshot('shared', await putTree(client, 'last')));
    const { catalogs, rootRefs, snapshots } = await readNames(client);
    expect(snapshots.length).toBe(WRITERS * SNAPSHOTS_EACH + 1);
    expect([catalogs.length, rootRefs]).toEqual([1, [{ hash: last.commit?.catalog ?? '', refCount: 1 }]]);
  }, 300_000);
}

function testOvertaken(connect: Connect): void {
  test('a push that another overtakes between reading and committing', async () => {
    const space = 'overtaken';
    const fast = connect(space);
    const root = await putTree(fast, 'tree');
    const first = await addSnapshot(fast, describeSnapshot('home', root));
    let second: string | undefined;
    const slow = connect(
      space,
      beforeFirstCommit(async () => {
        second = (await addSnapshot(fast, describeSnapshot('home', root))).snapshot.id;
      }),
    );
    const third = await addSnapshot(slow, describeSnapshot('home', root));
    const { snapshots, rootRefs } = await readNames(fast);
    expect(snapshots.map(({ id }) => id).sort()).toEqual(
      [first.snapshot.id, second ?? '', third.snapshot.id].sort(),
    );
    expect(rootRefs.length).toBe(1);
  });

  test('the very first pushes of a domain, none of which has anything to replace', async () => {
    const space = 'first';
    const fast = connect(space);
    const root = await putTree(fast, 'tree');
    const slow = connect(
      space,
      beforeFirstCommit(() => addSnapshot(fast, describeSnapshot('a', root))),
    );
    await addSnapshot(slow, describeSnapshot('b', root));
    const { snapshots, catalogs } = await readNames(fast);
    expect([snapshots.map(({ name }) => name).sort(), catalogs.length]).toEqual([['a', 'b'], 1]);
    await addSnapshot(fast, describeSnapshot('c', root));
    const merged = await readNames(fast);
    expect([merged.snapshots.length, merged.catalogs.length]).toEqual([3, 1]);
  });
}

function testPolicy(connect: Connect): void {
  test('a policy that meets a new pin and a new snapshot: both stay, and what was forgotten does not come back', async () => {
    const space = 'policy';
    const fast = connect(space);
    const root = await putTree(fast, 'tree');
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      ids.push((await addSnapshot(fast, describeSnapshot('home', root))).snapshot.id);
    }
    const slow = connect(
      space,
      beforeFirstCommit(async () => {
        await setPinned(fast, ids[0] as string, true);
        await addSnapshot(fast, describeSnapshot('home', root));
      }),
    );
    const { forgotten } = await forgetSnapshots(slow, { name: 'home', policy: { last: 1 } });
    const { snapshots } = await readNames(fast);
    expect(snapshots.find(({ id }) => id === ids[0])?.pinned).toBe(true);
    expect([snapshots.length, forgotten.length]).toEqual([2, 2]);
    for (const { id } of forgotten) expect(snapshots.map((snapshot) => snapshot.id)).not.toContain(id);
  });

  test('one whose answer is lost after it was committed: it is committed once', async () => {
    const space = 'lost-answer';
    let losses = 0;
    const lossy = connect(space, async (url, init) => {
      const answer = await fetch(url, init);
      if (!isCommit(url, init) || losses === 2) return answer;
      losses += 1;
      await answer.arrayBuffer();
      throw new TypeError('the connection broke');
    });
    const root = await putTree(lossy, 'tree');
    const { snapshot } = await addSnapshot(lossy, describeSnapshot('home', root));
    const { snapshots, rootRefs } = await readNames(connect(space));
    expect([losses, snapshots, rootRefs.map(({ refCount }) => refCount)]).toEqual([2, [snapshot], [1]]);
  });
}
