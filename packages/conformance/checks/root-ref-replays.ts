/** Root-ref commits sent again: what is the same request, and what is another. */
import { expectConflict, expectEqual, expectError, expectNotFound } from '../expect.ts';
import { randomHash, type SampleNode } from '../node-bytes.ts';
import { type Check, check } from '../suite.ts';
import { type Commit, readCommit } from '../wire.ts';
import { newCommit, publishSorted, rootRefCount } from './root-refs.ts';

const REPLAY = 'updateRootRefs: a replay returns the original revision with idempotent true';
const IDENTITY = 'updateRootRefs: payload identity is the map itself: key order and whitespace do not matter';
const CONFLICT = 'updateRootRefs: another payload → 409 IDEMPOTENCY_CONFLICT';

function replayOf(revision: number): Commit {
  return { ...newCommit(revision), idempotent: true };
}

export const rootRefReplayChecks: readonly Check[] = [
  check(
    'root-refs.concurrent-conflict',
    CONFLICT,
    'eight payloads under one requestId at once',
    async ({ client }) => {
      const node = await client.published();
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => client.update('contended', { [node.hash]: i + 1 })),
      );
      const winners = answers.flatMap((answer, i) => (answer.status === 200 ? [i + 1] : []));
      expectEqual(winners.length, 1, 'requests that won one requestId');
      for (const answer of answers.filter((each) => each.status !== 200)) {
        expectError(answer, 409, 'IDEMPOTENCY_CONFLICT', 'the others');
      }
      expectEqual(await rootRefCount(client, node), winners[0], 'rootRefCount: the winner’s delta');
    },
  ),
  check('root-refs.replay', REPLAY, 'replays', async ({ client }) => {
    const node = await client.published();
    await client.commit('one', { [node.hash]: 3 });
    await client.commit('two', { [node.hash]: 1 });
    expectEqual(await client.commit('one', { [node.hash]: 3 }), replayOf(1), 'a replay');
    expectEqual(await client.commit('one', { [node.hash]: 3 }), replayOf(1), 'a replay again');
    expectEqual(await rootRefCount(client, node), 4, 'rootRefCount after replays');
    expectEqual((await client.page()).revision, 2, 'revision after replays');
  }),
  check('root-refs.payload-identity', IDENTITY, 'other spellings of one request', async ({ client }) => {
    const [a, b] = (await publishSorted(client, 2)) as [SampleNode, SampleNode];
    await client.commit('same', { [a.hash]: 100, [b.hash]: -0 });
    const escaped = `\\u00${a.hash.charCodeAt(0).toString(16)}${a.hash.slice(1)}`;
    const spellings = [
      `{"requestId":"same","changes":{"${b.hash}":0,"${a.hash}":100}}`,
      `{"changes":{"${a.hash}":100,"${b.hash}":0},"requestId":"same"}`,
      ` {\n"requestId" : "same" ,\t"changes":{ "${a.hash}" : 1e2 , "${b.hash}" : 0.0 } }\r\n`,
      `{"requestId":"s\\u0061me","changes":{"${escaped}":100.0,"${b.hash}":0}}`,
      `{"requestId":"same","changes":{"${a.hash}":1000E-1,"${b.hash}":-0}}`,
    ];
    for (const body of spellings) {
      const commit = readCommit(await client.call('updateRootRefs', { body }));
      expectEqual(commit, replayOf(1), 'another spelling of the same request');
    }
  }),
  check(
    'root-refs.payload-conflict',
    CONFLICT,
    'another payload under a known requestId',
    async ({ client }) => {
      const [a, b] = (await publishSorted(client, 2)) as [SampleNode, SampleNode];
      await client.commit('taken', { [a.hash]: 1 });
      const others: readonly Record<string, number>[] = [
        { [a.hash]: 2 },
        { [b.hash]: 1 },
        { [a.hash]: 1, [b.hash]: 1 },
        { [a.hash]: 1, [b.hash]: 0 },
        { [a.hash]: 0 },
        { [a.hash]: -1 },
      ];
      for (const changes of others) {
        expectError(
          await client.update('taken', changes),
          409,
          'IDEMPOTENCY_CONFLICT',
          'a known requestId with another payload',
        );
      }
      expectError(
        await client.update('taken', { [b.hash]: -1 }),
        409,
        'IDEMPOTENCY_CONFLICT',
        'idempotency before the balances',
      );
      expectEqual((await client.page()).revision, 1, 'revision after conflicts');
    },
  ),
  check(
    'root-refs.request-ids',
    'updateRootRefs: requestId: 1…256 characters',
    'requestIds are compared exactly',
    async ({ client }) => {
      const node = await client.published();
      const ids = [
        'a',
        'A',
        ' a',
        'a ',
        '\u00e9',
        'e\u0301',
        '\u0000',
        'a\nb',
        '👍'.repeat(128),
        'x'.repeat(256),
        '0',
        'null',
        '__proto__',
        "'",
      ];
      for (const [i, id] of ids.entries()) {
        const commit = await client.commit(id, { [node.hash]: 1 });
        expectEqual(
          [commit.idempotent, commit.revision],
          [false, i + 1],
          `requestId ${JSON.stringify(id.slice(0, 10))} is new`,
        );
      }
    },
  ),
  check(
    'root-refs.scope',
    'updateRootRefs: scope of balances, revisions and idempotency: (App, Space, refDomain)',
    'domains and Spaces apart',
    async ({ client, newSpace }) => {
      const node = await client.published();
      await client.commit('r', { [node.hash]: 1 });
      const other = client.inDomain('another:domain');
      expectEqual((await other.page()).revision, 0, 'revision of another domain');
      expectEqual(
        await other.commit('r', { [node.hash]: 2 }),
        newCommit(1),
        'the same requestId in another domain',
      );
      const elsewhere = newSpace();
      await elsewhere.publish(node);
      expectEqual(
        await elsewhere.commit('r', { [node.hash]: 5 }),
        newCommit(1),
        'the same requestId in another Space',
      );
      expectEqual(await rootRefCount(client, node), 3, 'rootRefCount over both domains');
    },
  ),
  check(
    'root-refs.failed',
    'updateRootRefs: a failed request records nothing',
    'requestIds of failed requests are free',
    async ({ client }) => {
      const node = await client.published();
      expectNotFound(await client.update('again', { [node.hash]: 1, [randomHash()]: 1 }));
      expectConflict(await client.update('again', { [node.hash]: -1 }));
      expectEqual(
        await client.commit('again', { [node.hash]: 7 }),
        newCommit(1),
        'the requestId of failed requests',
      );
    },
  ),
  check(
    'root-refs.concurrent-replay',
    REPLAY,
    'one request sent twelve times at once',
    async ({ client }) => {
      const node = await client.published();
      const commits = await Promise.all(
        Array.from({ length: 12 }, () => client.commit('same', { [node.hash]: 1 })),
      );
      expectEqual(
        commits.filter((commit) => !commit.idempotent).length,
        1,
        'first applications among twelve concurrent sends',
      );
      expectEqual(
        new Set(commits.map((commit) => commit.revision)).size,
        1,
        'revisions among twelve concurrent sends',
      );
      expectEqual(await rootRefCount(client, node), 1, 'rootRefCount');
    },
  ),
];
