/** The behaviour of every DeploymentWriter, as tests (engine/transfer-ports.ts). An engine calls this with a way to open its rows. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { HOUR_MS } from '@holdfast/protocol';
import fc from 'fast-check';
import type { ContentRow, Space } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import type { BatchPart, DeploymentWriter, Entries, EntryKind } from '../transfer-ports.ts';
import { keyOf } from '../transfer-ports.ts';
import { hashAt, NOW, newGeneration, openUpload, readyNode, SPACE } from './samples.ts';

export interface DeploymentBench {
  readonly rows: DeploymentWriter;
  /** on the same database, as a server has it */
  readonly metadata: MetadataStore;
  /** what a server does before it serves */
  beginServing(): Promise<void>;
  /** Past every rule: one loose edge names another Space, one balance another domain, and the Space has another name. */
  loseNames(): Promise<void>;
  destroy(): Promise<void>;
}

const DOMAIN = 'test';
const NO_LIMIT = 1_000;

function contentOf(generation: string, inlineBytes?: Uint8Array): ContentRow {
  const integrity = new Uint8Array([1, 2, 3]);
  return { generation, canonicalSize: 134, integrity, inlineBytes, urlExpiresAt: 0 };
}

function nodeAt(index: number, changes: Parameters<typeof readyNode>[1] = {}): Entries['nodes'] {
  const row = readyNode(hashAt(index), { storage: 'object', ...changes });
  return {
    row,
    content: contentOf(row.generation, row.storage === 'inline' ? new Uint8Array(134) : undefined),
  };
}

/** One of each kind, and of nodes one in every state. */
function everything(): BatchPart[] {
  const refs = new Uint8Array(32).fill(7);
  const rejection = { code: 'NODE_DIGEST_MISMATCH', message: 'ünequal' } as const;
  const bad = { verdict: 'bad', code: 'NODE_TOO_LARGE', message: 'large' } as const;
  return [
    {
      ...{ kind: 'nodes', domain: '' },
      entries: [
        nodeAt(1, {
          leaseStartedAt: NOW - 5,
          leaseExpiresAt: NOW + HOUR_MS,
          rootRefCount: 3,
          heldDomainCount: 1,
        }),
        nodeAt(2, { state: 'waiting', refs, waitingTouchedAt: NOW - 7 }),
        nodeAt(3, { state: 'rotten', leaseStartedAt: 1, leaseExpiresAt: 2, childRefCount: 4 }),
        nodeAt(4, { state: 'claimed' }),
        { ...nodeAt(5), content: undefined },
      ],
    },
    { kind: 'looseEdges', domain: '', entries: [{ hash: hashAt(9), count: 2 }] },
    {
      ...{ kind: 'uploads', domain: '' },
      entries: [
        { row: openUpload(hashAt(6)), content: undefined },
        { row: openUpload(hashAt(7), { rejection, evidence: bad }), content: undefined },
      ],
    },
    { kind: 'domains', domain: '', entries: [{ domain: DOMAIN, revision: 9, historyFloor: 2 }] },
    { kind: 'balances', domain: DOMAIN, entries: [{ hash: hashAt(1), balance: 3, fromRevision: 9 }] },
    {
      ...{ kind: 'history', domain: DOMAIN },
      entries: [
        { hash: hashAt(1), fromRevision: 3, toRevision: 9, balance: -4, supersededAt: NOW - 1 },
        { hash: hashAt(1), fromRevision: 10, toRevision: 11, balance: 1, supersededAt: NOW },
      ],
    },
    {
      ...{ kind: 'commits', domain: DOMAIN },
      entries: [{ requestId: '\u0000a\u0000', payloadDigest: new Uint8Array(32).fill(5), revision: 1 }],
    },
  ];
}

export function testDeploymentRows(engine: string, open: () => Promise<DeploymentBench>): void {
  describe(`DeploymentWriter: ${engine}`, () => {
    let bench: DeploymentBench;
    beforeEach(async () => {
      bench = await open();
    });
    afterEach(() => bench.destroy());

    const readAll = async (space: Space, kind: EntryKind, domain: string, limit = NO_LIMIT) => {
      const all: Entries[EntryKind][] = [];
      for (let after: string | undefined; ; ) {
        const page = await bench.rows.readPage({ space, kind, domain, after, limit });
        all.push(...page);
        const last = page.at(-1);
        if (last === undefined || page.length < limit) return all;
        after = keyOf(kind, last as never);
      }
    };

    test('gives back every kind of row as it was written', async () => {
      const parts = everything();
      await bench.rows.write({ space: SPACE, parts }, 'mark');
      for (const { kind, domain, entries } of parts) {
        expect(await readAll(SPACE, kind, domain)).toEqual(entries as unknown as Entries[EntryKind][]);
        expect(await readAll({ ...SPACE, spaceId: 'other' }, kind, domain)).toEqual([]);
      }
      expect(await bench.rows.findMark('unfinished')).toBe('mark');
    });

    test('writes rows that the rules then work on', async () => {
      await bench.rows.write({ space: SPACE, parts: everything() }, 'mark');
      const { metadata } = bench;
      expect(await metadata.findNode(SPACE, hashAt(2))).toMatchObject({
        state: 'waiting',
        waitingTouchedAt: NOW - 7,
      });
      const counters = {
        ...{ nodeCount: 5, readyContentBytes: 200, readyStoredBytes: 268, waitingBytes: 134 },
        ...{ notReadyNodeCount: 3, leasedNodeCount: 1 },
      };
      expect(await metadata.readCounters(SPACE)).toEqual(counters);
      expect(await bench.rows.readCounters(SPACE)).toEqual(counters);
      const found = await metadata.transact(SPACE, async (tx) => ({
        candidates: await tx.due('candidates', undefined, 10),
        claimed: await tx.due('claimed', NOW, 10),
        loose: await tx.findLooseEdges([hashAt(9)]),
        commit: await tx.findRootRefCommit(DOMAIN, '\u0000a\u0000'),
        revision: await tx.findRevision(DOMAIN),
        upload: await tx.findUpload(hashAt(7)),
      }));
      expect(found).toMatchObject({
        candidates: [{ hash: hashAt(5) }],
        claimed: [{ hash: hashAt(4) }],
        loose: [2],
        commit: { revision: 1 },
        revision: 9,
        upload: { evidence: { code: 'NODE_TOO_LARGE' } },
      });
      const pageAt = (revision: number) =>
        metadata.findBalancesAt(SPACE, DOMAIN, { revision, after: undefined, limit: 10 });
      expect((await pageAt(9))?.items).toEqual([{ hash: hashAt(1), balance: 3 }]);
      expect((await pageAt(4))?.items).toEqual([{ hash: hashAt(1), balance: -4 }]);
      expect(await pageAt(1)).toBeUndefined();
    });

    test('rows and a Space whose names are damaged are not passed over', async () => {
      await bench.rows.write({ space: SPACE, parts: everything() }, 'mark');
      expect(await bench.rows.findUnreached()).toEqual([]);
      await bench.loseNames();
      expect([...(await bench.rows.findUnreached())].sort()).toEqual(['balances', 'loose_edges']);
      await expect(bench.rows.listSpaces(undefined, 10)).rejects.toThrow(/damaged|contradicts/);
    });

    test('a page begins with an empty key, which damage may leave', async () => {
      const parts: BatchPart[] = [
        { kind: 'looseEdges', domain: '', entries: ['', hashAt(9)].map((hash) => ({ hash, count: 2 })) },
        {
          ...{ kind: 'domains', domain: '' },
          entries: ['', DOMAIN].map((domain) => ({ domain, revision: 9, historyFloor: 2 })),
        },
        {
          ...{ kind: 'balances', domain: DOMAIN },
          entries: ['', hashAt(1)].map((hash) => ({ hash, balance: 3, fromRevision: 9 })),
        },
        {
          ...{ kind: 'commits', domain: DOMAIN },
          entries: ['', 'a'].map((requestId, revision) => {
            return { requestId, payloadDigest: new Uint8Array(32), revision };
          }),
        },
      ];
      await bench.rows.write({ space: SPACE, parts }, 'mark');
      for (const { kind, domain, entries } of parts)
        for (const limit of [1, NO_LIMIT])
          expect(await readAll(SPACE, kind, domain, limit)).toEqual(
            entries as unknown as Entries[EntryKind][],
          );
    });

    test('a batch that fails leaves nothing, and the next one is taken', async () => {
      const { rows } = bench;
      await rows.write(
        { space: SPACE, parts: [{ kind: 'nodes', domain: '', entries: [nodeAt(1)] }] },
        'first',
      );
      const again: BatchPart[] = [
        { kind: 'looseEdges', domain: '', entries: [{ hash: hashAt(8), count: 1 }] },
        { kind: 'nodes', domain: '', entries: [nodeAt(2), nodeAt(1)] },
      ];
      for (let attempt = 0; attempt < 3; attempt += 1) {
        await expect(rows.write({ space: SPACE, parts: again }, 'second')).rejects.toThrow();
      }
      expect(await rows.findMark('unfinished')).toBe('first');
      expect(await readAll(SPACE, 'nodes', '')).toHaveLength(1);
      expect(await readAll(SPACE, 'looseEdges', '')).toEqual([]);
      expect((await rows.readCounters(SPACE)).nodeCount).toBe(1);
      await rows.write(
        { space: SPACE, parts: [{ kind: 'nodes', domain: '', entries: [nodeAt(2)] }] },
        'third',
      );
      expect(await readAll(SPACE, 'nodes', '')).toHaveLength(2);
      expect(await rows.findMark('unfinished')).toBe('third');
    });

    test('pages go by the bytes of keys, whatever a request id or a domain holds', async () => {
      const texts = fc.uniqueArray(fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }), {
        maxLength: 30,
      });
      const ids = [
        ...fc.sample(texts, 1).flat(),
        '\u0000',
        '\u0000\u0000',
        'a',
        'A',
        'ä',
        '💾',
        '\uffff',
        '\ufeff',
        '\ufeffa',
        '\'\\"{}',
        ' ',
      ];
      const requestIds = [...new Set(ids.map((id) => id.toWellFormed()))];
      const payloadDigest = new Uint8Array(32);
      const commits = requestIds.map((requestId, index) => ({
        requestId,
        payloadDigest,
        revision: index + 1,
      }));
      const domains = ['a', 'a1', 'a:b', 'b', 'z'].map((domain) => ({
        domain,
        revision: 1,
        historyFloor: 0,
      }));
      const history = [100, 9, 10, 1].map((fromRevision) => ({
        ...{ hash: hashAt(1), fromRevision, toRevision: fromRevision + 1, balance: 1, supersededAt: NOW },
      }));
      await bench.rows.write(
        {
          space: SPACE,
          parts: [
            { kind: 'domains', domain: '', entries: domains.toReversed() },
            { kind: 'commits', domain: 'b', entries: commits },
            { kind: 'history', domain: 'b', entries: history },
          ],
        },
        'mark',
      );
      const byBytes = requestIds.toSorted((left, right) =>
        Buffer.compare(Buffer.from(left), Buffer.from(right)),
      );
      for (const limit of [1, 2, 7, NO_LIMIT]) {
        const found = (await readAll(SPACE, 'commits', 'b', limit)) as Entries['commits'][];
        expect(found.map(({ requestId }) => requestId)).toEqual(byBytes);
        expect(await readAll(SPACE, 'domains', '', limit)).toEqual(domains);
        const past = (await readAll(SPACE, 'history', 'b', limit)) as Entries['history'][];
        expect(past.map(({ fromRevision }) => fromRevision)).toEqual([1, 9, 10, 100]);
      }
    });

    test('lists every Space once, those without rows too', async () => {
      const { rows } = bench;
      expect(await rows.isEmpty()).toBe(true);
      expect(await rows.readTotals()).toEqual({ spaces: 0, nodes: 0, bytes: 0 });
      const spaces = Array.from({ length: 7 }, (_, index) => ({
        appId: `ä ${index % 2}`,
        spaceId: `${index}`,
      }));
      for (const space of spaces) await rows.write({ space, parts: [] }, 'mark');
      await rows.write({ space: spaces[3] as Space, parts: everything() }, 'mark');
      const listed: Space[] = [];
      for (let after: string | undefined; ; ) {
        const page = await rows.listSpaces(after, 3);
        listed.push(...page.map(({ space }) => space));
        after = page.at(-1)?.position;
        if (page.length < 3) break;
      }
      expect(new Set(listed.map(({ spaceId }) => spaceId)).size).toBe(7);
      expect(listed).toHaveLength(7);
      expect((await rows.listSpaces(undefined, 7)).map(({ space }) => space)).toEqual(listed);
      expect(await rows.isEmpty()).toBe(false);
      expect(await rows.readTotals()).toEqual({ spaces: 7, nodes: 5, bytes: 402 });
    });

    test('no server starts on an unfinished copy, and a server that starts removes the notes of finished copies', async () => {
      const { rows } = bench;
      for (const name of ['epoch', 'finished', 'unfinished'] as const) await rows.setMark(name, 'first');
      await rows.setMark('epoch', 'second "\\u0000');
      expect(await rows.findMark('epoch')).toBe('second "\\u0000');
      await expect(bench.beginServing()).rejects.toThrow(/unfinished copy/);
      await rows.removeMark('unfinished');
      await rows.removeMark('unfinished');
      await bench.beginServing();
      expect([await rows.findMark('epoch'), await rows.findMark('finished')]).toEqual([undefined, undefined]);
      await bench.beginServing();
    });

    test('two rows of content for one generation are refused', async () => {
      const generation = newGeneration();
      const twice = [nodeAt(1, { generation }), nodeAt(2, { generation })];
      await expect(
        bench.rows.write({ space: SPACE, parts: [{ kind: 'nodes', domain: '', entries: twice }] }, 'mark'),
      ).rejects.toThrow();
      expect(await bench.rows.isEmpty()).toBe(true);
    });
  });
}
