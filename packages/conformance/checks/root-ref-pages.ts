/** Pages of root refs: order, limits, cursors, and a walk that commits do not disturb. */
import { expectConflict, expectEqual, expectInvalid, expectStatus, expectThat } from '../expect.ts';
import { makeNode, type SampleNode } from '../node-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import { type RootRefPage, readRootRefPage } from '../wire.ts';

const STABLE = 'listRootRefs: all pages of one walk show exactly the balances of the first page’s revision';
const CURSOR = 'listRootRefs: a cursor that is malformed, forged or from another scope: 400 INVALID_REQUEST';
const PAGES_MAX = 100;

type Items = RootRefPage['items'];

async function commitNodes(client: SpaceClient, count: number): Promise<Items> {
  const nodes = Array.from({ length: count }, (_, i) => makeNode({ content: `${client.spaceId} ${i}` }));
  await client.publishTogether(nodes);
  const items = nodes.map((node, i) => ({ hash: node.hash, refCount: i + 1 }));
  await client.commit(
    `base ${count}`,
    Object.fromEntries(items.map(({ hash, refCount }) => [hash, refCount])),
  );
  return items.sort((a, b) => (a.hash < b.hash ? -1 : 1));
}

function follow(cursor: string, limit: number): string {
  return `limit=${limit}&cursor=${encodeURIComponent(cursor)}`;
}

/** Every page of a walk; `between` runs before each following page. */
async function walk(
  client: SpaceClient,
  limit: number,
  between: (page: number) => Promise<void> = async () => {},
): Promise<RootRefPage[]> {
  const pages = [await client.page(`limit=${limit}`)];
  for (
    let cursor = pages[0]?.nextCursor ?? null;
    cursor !== null;
    cursor = pages.at(-1)?.nextCursor ?? null
  ) {
    expectThat(pages.length < PAGES_MAX, `at most ${PAGES_MAX} pages`, pages.length);
    await between(pages.length);
    pages.push(await client.page(follow(cursor, limit)));
  }
  return pages;
}

const BAD_QUERIES = [
  'limit=0',
  'limit=201',
  'limit=-1',
  'limit=',
  'limit=a',
  'limit=1.5',
  'limit=9007199254740992',
  'limit=%20',
  'limit=0x5',
  'limit',
  'cursor=',
  'cursor',
  'limit=5&limit=5',
  'limit=5&limit=6',
  'cursor=a&cursor=b',
  'Limit=5',
  'limit=5&refDomain=conformance',
  'domain=conformance',
  'revision=0',
  'after=0',
];

/** The balances after `revision` commits, of which the first made `items` and each later pair adds 1 and takes it back. */
function churnedItems(items: Items, revision: number): Items {
  const isRaised = revision % 2 === 0;
  const raised = Math.floor((revision - 2) / 2) % items.length;
  return items.map((item, i) => (isRaised && i === raised ? { ...item, refCount: item.refCount + 1 } : item));
}

export const rootRefPageChecks: readonly Check[] = [
  check(
    'pages.long-ago',
    'listRootRefs: a cursor older than the history kept: 409 CONFLICT',
    'a walk that pauses for two days',
    'day',
    async ({ client, elapse }) => {
      const items = await commitNodes(client, 4);
      const first = await client.page('limit=2');
      const { hash, refCount } = items[3] as Items[number];
      await client.commit('change', { [hash]: -refCount });
      await elapse(86_400_000 * 2);
      await client.commit('change again', { [hash]: 1 });
      const answer = await client.call('listRootRefs', { query: follow(first.nextCursor ?? '', 2) });
      // History may be kept for longer; it may not be made up.
      if (answer.status === 409) expectConflict(answer, 'a cursor older than the history kept');
      else
        expectEqual(
          readRootRefPage(answer).items,
          items.slice(2),
          'items of a cursor whose history is still kept',
        );
    },
  ),
  check(
    'pages.walk',
    'listRootRefs: items, nextCursor null when there are no more pages',
    'walks of all page sizes',
    async ({ client }) => {
      const items = await commitNodes(client, 7);
      for (const [limit, sizes] of [
        [3, [3, 3, 1]],
        [1, [1, 1, 1, 1, 1, 1, 1]],
        [7, [7]],
        [6, [6, 1]],
        [200, [7]],
      ] as const) {
        const pages = await walk(client, limit);
        expectEqual(
          pages.map((page) => page.items.length),
          sizes,
          `page sizes for limit ${limit}`,
        );
        expectEqual(
          pages.flatMap((page) => page.items),
          items,
          `items of the walk by ${limit}, in hash order`,
        );
        expectEqual(new Set(pages.map((page) => page.revision)).size, 1, 'revisions of one walk');
      }
    },
  ),
  check(
    'pages.default-limit',
    'listRootRefs: limit defaults to 50',
    'a page without limit',
    async ({ client }) => {
      await commitNodes(client, 52);
      const first = await client.page();
      expectEqual(first.items.length, 50, 'items of a page without limit');
      const second = await client.page(`cursor=${encodeURIComponent(first.nextCursor ?? '')}`);
      expectEqual([second.items.length, second.nextCursor], [2, null], 'the page after it');
    },
  ),
  check(
    'pages.query',
    'listRootRefs: limit 1 through 200, cursor non-empty; no repeated or unknown parameters',
    'bad queries',
    async ({ client }) => {
      for (const query of BAD_QUERIES) {
        expectInvalid(await client.call('listRootRefs', { query }), `?${query}`);
      }
      for (const query of ['limit=1', 'limit=200', '']) {
        expectStatus(await client.call('listRootRefs', { query }), 200, `?${query}`);
      }
    },
  ),
  check(
    'pages.zero-balance',
    'listRootRefs: items with a non-zero balance, ordered by hash',
    'released hashes leave the list',
    async ({ client }) => {
      const items = await commitNodes(client, 3);
      const [first, second] = items as [Items[number], Items[number]];
      await client.commit('release', { [first.hash]: -first.refCount });
      expectEqual((await client.page()).items, items.slice(1), 'items without the released one');
      expectEqual(
        (await client.page('limit=1')).items,
        [second],
        'the first page of 1: a zero balance takes no place',
      );
    },
  ),
  check('pages.stable', STABLE, 'commits between pages', async ({ client }) => {
    const items = await commitNodes(client, 9);
    const fresh = Array.from({ length: 4 }, (_, i) => makeNode({ content: `${client.spaceId} later ${i}` }));
    await client.publishAll(fresh);
    const pages = await walk(client, 2, async (page) => {
      const last = items.at(-page) as Items[number];
      const next = items.at(Math.min(page * 2, 8)) as Items[number];
      await client.commit(`gone ${page}`, { [last.hash]: -last.refCount });
      await client.commit(`back ${page}`, { [last.hash]: last.refCount, [next.hash]: 100 });
      await client.commit(`new ${page}`, { [(fresh[page - 1] as SampleNode).hash]: 1 });
      if (page === 3) await client.commit('gone for good', { [last.hash]: -last.refCount });
    });
    expectEqual(
      pages.flatMap((page) => page.items),
      items,
      'items of a walk with commits in between',
    );
    expectEqual(new Set(pages.map((page) => page.revision)), new Set([1]), 'revisions of the walk');
    const now = await client.page('limit=200');
    expectThat(
      now.revision > 1 && now.items.length > items.length,
      'a new walk shows the new balances',
      now.items.length,
    );
  }),
  check('pages.stable-concurrent', STABLE, 'commits during walks', async ({ client }) => {
    const items = await commitNodes(client, 12);
    let stop = false;
    const churn = (async () => {
      for (let i = 0; !stop && i < 400; i++) {
        const { hash } = items[Math.floor(i / 2) % items.length] as Items[number];
        await client.commit(`churn ${i}`, { [hash]: i % 2 === 0 ? 1 : -1 });
      }
    })();
    try {
      for (let round = 0; round < 6; round++) {
        const pages = await walk(client, 5);
        const revision = pages[0]?.revision ?? 0;
        expectEqual(
          new Set(pages.map((page) => page.revision)).size,
          1,
          'revisions of a walk during commits',
        );
        const shown = pages.flatMap((page) => page.items);
        expectEqual(
          shown,
          churnedItems(items, revision),
          `items of a walk during commits, at revision ${revision}`,
        );
      }
    } finally {
      stop = true;
      await churn;
    }
  }),
  check('pages.repeat', 'listRootRefs: revision-stable pages', 'a cursor used twice', async ({ client }) => {
    await commitNodes(client, 5);
    const first = await client.page('limit=2');
    const cursor = first.nextCursor ?? '';
    const second = await client.page(follow(cursor, 2));
    const again = await client.page(follow(cursor, 2));
    expectEqual(
      [again.items, again.revision],
      [second.items, second.revision],
      'the same page asked for again',
    );
    const wider = await client.page(follow(cursor, 3));
    expectEqual(
      [wider.items.length, wider.nextCursor],
      [3, null],
      'the rest of the walk under another limit',
    );
  }),
  check('pages.forged-cursor', CURSOR, 'forged and malformed cursors', async ({ client }) => {
    await commitNodes(client, 3);
    const cursor = (await client.page('limit=1')).nextCursor ?? '';
    const step = Math.max(1, Math.floor(cursor.length / 20));
    const forged = [
      'x',
      '0',
      '..',
      'null',
      '{}',
      '%00',
      'A'.repeat(5000),
      `${cursor}A`,
      cursor.slice(1),
      cursor.slice(0, -2),
      cursor + cursor,
      ` ${cursor}`,
    ];
    for (let at = 0; at < cursor.length - 1; at += step) {
      forged.push(`${cursor.slice(0, at)}${cursor[at] === 'A' ? 'B' : 'A'}${cursor.slice(at + 1)}`);
    }
    for (const text of forged) {
      const answer = await client.call('listRootRefs', {
        query: `limit=1&cursor=${encodeURIComponent(text)}`,
      });
      expectInvalid(answer, 'a forged cursor');
    }
  }),
  check('pages.foreign-cursor', CURSOR, 'cursors of another scope', async ({ client, newSpace }) => {
    const items = await commitNodes(client, 3);
    const cursor = (await client.page('limit=1')).nextCursor ?? '';
    const domain = client.inDomain('other');
    await domain.commit('r', Object.fromEntries(items.map(({ hash }) => [hash, 1])));
    const elsewhere = newSpace();
    await commitNodes(elsewhere, 3);
    for (const [what, other] of [
      ['another domain', domain],
      ['another Space', elsewhere],
    ] as const) {
      const answer = await other.call('listRootRefs', { query: follow(cursor, 1) });
      expectInvalid(answer, `a cursor of ${what}`);
    }
    expectStatus(
      await client.call('listRootRefs', { query: follow(cursor, 1) }),
      200,
      'the cursor in its own scope',
    );
  }),
  check(
    'pages.cursor-of-other-app',
    CURSOR,
    'a cursor of the same spaceId and domain in another App',
    'second-app',
    async ({ client, target }) => {
      const second = target.options.secondIdentity;
      if (!second) return;
      const other = client.asIdentity(second);
      for (const each of [client, other]) await commitNodes(each, 3);
      const cursor = (await client.page('limit=1')).nextCursor ?? '';
      const answer = await other.call('listRootRefs', { query: follow(cursor, 1) });
      expectInvalid(answer, 'a cursor of the same Space and domain in another App');
    },
  ),
  check(
    'pages.next-day',
    `${STABLE}, for at least 24 h`,
    'a walk that pauses for a day',
    'day',
    async ({ client, elapse }) => {
      const items = await commitNodes(client, 4);
      const first = await client.page('limit=2');
      const { hash, refCount } = items[3] as Items[number];
      await client.commit('change', { [hash]: -refCount });
      await elapse(86_400_000 - 60_000);
      const second = await client.page(follow(first.nextCursor ?? '', 2));
      expectEqual([...first.items, ...second.items], items, 'items of a walk that pauses for nearly 24 h');
    },
  ),
];
