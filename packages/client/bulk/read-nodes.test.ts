import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { zstdCompressSync } from 'node:zlib';
import {
  encodeNode,
  encodePackHeader,
  encodeRecord,
  encodeRecordHeader,
  type Hash,
  PACK_MEDIA_TYPE,
  PackBuilder,
} from '@holdfast/protocol';
import fc from 'fast-check';
import { CasError } from '../errors.ts';
import { ZSTD } from '../test/fake-bulk-fixture.ts';
import { FakeSpace, failure, rejection, sha256Hex } from '../test/fake-space-fixture.ts';
import {
  answer,
  brokenAnswer,
  HASHES,
  indexesOf,
  NODES,
  packOf,
  plain,
  withoutCanonical,
} from '../test/pack-answers-fixture.ts';
import type { Zstd } from './bulk.ts';
import type { BulkNode } from './read-nodes.ts';

/** The nodes that came before the end or the error. */
async function readAll(
  space: FakeSpace,
  hashes: readonly Hash[] = HASHES,
  zstd?: Zstd,
): Promise<{ nodes: BulkNode[]; error: unknown }> {
  const nodes: BulkNode[] = [];
  try {
    for await (const node of space.client({ zstd }).bulk.readNodes(hashes)) nodes.push(node);
  } catch (error) {
    return { nodes, error };
  }
  return { nodes, error: undefined };
}

function expectFailure(error: unknown, code: string, message: RegExp): void {
  expect(error).toBeInstanceOf(CasError);
  expect((error as CasError).code).toBe(code as never);
  expect((error as CasError).message).toMatch(message);
  expect((error as CasError).message).toMatch(/^readNodes: /);
}

const asked = (space: FakeSpace): unknown[] =>
  space.calls.map(({ body }) => JSON.parse(new TextDecoder().decode(body)));

describe('reading in bulk', () => {
  test.each([false, true])('gives verified nodes in order; compressed: %p', async (compressed) => {
    const space = new FakeSpace();
    space.plant('reads', () => answer(packOf([0, 1, 2, 3, 4, 5], compressed)));
    const { nodes, error } = await readAll(space, HASHES, compressed ? ZSTD : undefined);
    expect(error).toBeUndefined();
    expect(nodes.map(plain)).toEqual(NODES.map(withoutCanonical));
    // Unpacked nodes have memory of their own. The others lie side by side in the answer.
    const memories = nodes.map(({ memory }) => memory && Buffer.from(memory));
    expect(memories).toEqual(NODES.map(({ canonical }) => (compressed ? Buffer.from(canonical) : undefined)));
    expect(asked(space)).toEqual([{ hashes: HASHES, ...(compressed ? { codecs: ['zstd'] } : {}) }]);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('uses the digest it is given', async () => {
    const space = new FakeSpace();
    space.plant('reads', () => answer(packOf([0])));
    let used = 0;
    const digest = (header: Uint8Array, content: Uint8Array) => {
      used += 1;
      return createHash('sha256').update(header).update(content).digest('hex');
    };
    const [hash = ''] = HASHES;
    for await (const node of space.client({ digest }).bulk.readNodes([hash])) expect(node.hash).toBe(hash);
    expect(used).toBe(1);
  });

  test('asks again for what the first answer had no room for, and stops where nothing comes', async () => {
    const space = new FakeSpace();
    space.plant(
      'reads',
      () => answer(packOf([0, 2])),
      () => answer(packOf([3])),
      () => answer(packOf([])),
    );
    const { nodes, error } = await readAll(space);
    expect(error).toBeUndefined();
    expect(indexesOf(nodes)).toEqual([0, 2, 3]);
    const rest = [HASHES, HASHES.slice(3), HASHES.slice(4)];
    expect(asked(space)).toEqual(rest.map((hashes) => ({ hashes })));
  });

  test('goes on after the last whole node when the connection breaks', async () => {
    const space = new FakeSpace();
    const whole = packOf([0, 1, 2, 3, 4, 5]);
    const begun = packOf([0, 1]).length + 50;
    space.plant(
      'reads',
      () => brokenAnswer(whole.subarray(0, begun)),
      () => answer(packOf([2, 3, 4, 5])),
    );
    const { nodes, error } = await readAll(space);
    expect(error).toBeUndefined();
    expect(indexesOf(nodes)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(asked(space)[1]).toEqual({ hashes: HASHES.slice(2) });
  });

  test('does not tire of breaks while nodes come', async () => {
    const space = new FakeSpace();
    for (let index = 0; index < 6; index++) {
      const begun = Buffer.concat([packOf([index]), Buffer.alloc(10)]);
      space.plant('reads', () => brokenAnswer(begun));
    }
    const { nodes, error } = await readAll(space);
    expect(error).toBeUndefined();
    expect(indexesOf(nodes)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('takes an answer that is cut off for a connection that broke, not for missing nodes', async () => {
    const space = new FakeSpace();
    const whole = packOf([0, 1]);
    for (let round = 0; round < 4; round++) space.plant('reads', () => answer(whole.subarray(0, 20)));
    const { nodes, error } = await readAll(space);
    expect(nodes).toEqual([]);
    expectFailure(error, 'CONNECTION_FAILED', /cut off/);
    expect(space.calls).toHaveLength(4);
  });

  test('a failure in the midst of the requests keeps its code', async () => {
    const space = new FakeSpace();
    space.plant(
      'reads',
      () => answer(packOf([0])),
      () => failure(404, 'NOT_FOUND'),
    );
    const { nodes, error } = await readAll(space);
    expect(nodes).toHaveLength(1);
    expect(error).toMatchObject({ code: 'BULK_UNAVAILABLE' });
  });

  test('a reader that stops early, or is told to, gives up the answer', async () => {
    const space = new FakeSpace();
    let cancelled = 0;
    const endless = () => {
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(packOf([0, 1])),
        cancel: () => {
          cancelled += 1;
        },
      });
      return new Response(body, { headers: { 'content-type': PACK_MEDIA_TYPE } });
    };
    space.plant('reads', endless, endless);
    for await (const node of space.client().bulk.readNodes(HASHES)) {
      expect(node.hash).toBe(HASHES[0]!);
      break;
    }
    expect(cancelled).toBe(1);
    const stop = new AbortController();
    const nodes = space.client().bulk.readNodes(HASHES, { signal: stop.signal });
    await nodes.next();
    await nodes.next();
    const waiting = nodes.next();
    stop.abort(new Error('enough'));
    expect(await rejection(waiting)).toEqual(new Error('enough'));
    expect(space.clock.runningLimits).toBe(0);
  });
});

describe('a hostile answer is refused, the record named', () => {
  const record = (
    index: number,
    change: Partial<{ hash: Hash; codec: 0 | 1; stored: Uint8Array; length: number }>,
  ) => {
    const { hash, canonical } = NODES[index]!;
    const stored = change.stored ?? canonical;
    const header = encodeRecordHeader({
      hash: change.hash ?? hash,
      codec: change.codec ?? 0,
      storedLength: stored.length,
      canonicalLength: change.length ?? canonical.length,
    });
    return Buffer.concat([header, stored]);
  };
  const pack = (...records: readonly Uint8Array[]) => Buffer.concat([packOf([0]), ...records]);
  const second = new RegExp(`record 2 \\(${HASHES[1]}\\)`);
  const flipped = NODES[1]!.canonical.slice();
  flipped[60]! ^= 1;
  const noNode = Buffer.from('no node');
  const bomb = zstdCompressSync(Buffer.alloc(4 * 1024 * 1024));

  test.each<[string, Uint8Array, string, RegExp]>([
    ['changed bytes', pack(record(1, { stored: flipped })), 'VERIFICATION_FAILED', second],
    ['bytes of another node', pack(record(2, { hash: HASHES[1]! })), 'VERIFICATION_FAILED', second],
    ['no frame', pack(record(1, { codec: 1, stored: noNode })), 'VERIFICATION_FAILED', second],
    ['a frame of another length', pack(record(1, { codec: 1, stored: bomb })), 'VERIFICATION_FAILED', second],
    [
      'a node nobody asked for',
      pack(record(1, { hash: 'f'.repeat(64) })),
      'MALFORMED_RESPONSE',
      /record 2 \(ffff/,
    ],
    [
      'another order',
      Buffer.concat([encodePackHeader(), record(2, {}), record(1, {})]),
      'MALFORMED_RESPONSE',
      second,
    ],
    [
      'a node twice',
      pack(record(0, {})),
      'MALFORMED_RESPONSE',
      /record 2: the hash .* stands in the pack before/,
    ],
    ['another codec', pack(record(1, {}).fill(2, 32, 33)), 'MALFORMED_RESPONSE', /record 2: codec 2/],
    ['no pack', Buffer.from('{"results":[]}'), 'MALFORMED_RESPONSE', /does not begin/],
  ])('%s', async (_, bytes, code, message) => {
    const space = new FakeSpace();
    space.plant('reads', () => answer(bytes));
    const { nodes, error } = await readAll(space, HASHES, ZSTD);
    expectFailure(error, code, message);
    expect((error as CasError).isBrokenOnTheWay).toBe(code === 'MALFORMED_RESPONSE');
    expect(indexesOf(nodes).every((index) => index === 0 || index === 2)).toBe(true);
    expect(space.calls).toHaveLength(1);
  });

  test('more refs than a pack may hold', async () => {
    const refs = Array(256).fill('ab'.repeat(32)) as Hash[];
    const records = Array.from({ length: 257 }, (_, index) => {
      const canonical = encodeNode({ contentType: 'text/plain', refs, content: Buffer.from(`${index}`) });
      return encodeRecord(sha256Hex(canonical), canonical);
    });
    const parts = records.flatMap((one) => [encodeRecordHeader(one), one.stored]);
    const space = new FakeSpace();
    space.plant('reads', () => answer(Buffer.concat([encodePackHeader(), ...parts])));
    const hashes = records.map(({ hash }) => hash);
    const { nodes, error } = await readAll(space, hashes);
    expect(nodes).toHaveLength(256);
    expectFailure(error, 'MALFORMED_RESPONSE', /record 257 .*too many refs/);
  });

  test('compressed records that nobody asked for', async () => {
    const space = new FakeSpace();
    space.plant('reads', () => answer(packOf([1], true)));
    const { error } = await readAll(space);
    expectFailure(error, 'MALFORMED_RESPONSE', /not asked for/);
  });

  test('an answer that is no pack by its type', async () => {
    const space = new FakeSpace();
    space.plant(
      'reads',
      () => new Response(packOf([0]) as BodyInit, { headers: { 'content-type': 'text/html' } }),
    );
    const { error } = await readAll(space);
    expectFailure(error, 'MALFORMED_RESPONSE', /no pack/);
  });

  test('nodes that together unpack to over 64 MiB end it, whatever they weigh', async () => {
    const large = Array.from({ length: 17 }, (_, index) => {
      const content = Buffer.alloc(4 * 1024 * 1024 - 34, index);
      return encodeNode({ contentType: 'text/plain', refs: [], content });
    });
    const builder = new PackBuilder();
    const hashes = large.map((canonical) => {
      const hash = sha256Hex(canonical);
      builder.add(encodeRecord(hash, canonical, ZSTD.compress));
      return hash;
    });
    expect(builder.byteLength).toBeLessThan(100_000);
    const space = new FakeSpace();
    space.plant('reads', () => answer(builder.toBytes()));
    const { nodes, error } = await readAll(space, hashes, ZSTD);
    expect(nodes).toHaveLength(16);
    expectFailure(error, 'MALFORMED_RESPONSE', /over 67108864 bytes/);
  });

  test('whatever happens to the bytes, no wrong node comes', async () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 3,
    });
    await fc.assert(
      fc.asyncProperty(damage, fc.boolean(), fc.option(fc.nat(2000)), async (hits, compressed, cutAt) => {
        const bytes = packOf([0, 1, 2, 3, 4, 5], compressed).slice(0, cutAt ?? undefined);
        for (const [index, value] of hits) bytes[index % bytes.length] = value;
        const space = new FakeSpace();
        space.plant(
          'reads',
          () => answer(bytes),
          () => answer(packOf([])),
        );
        for (let round = 0; round < 4; round++) space.plant('reads', () => answer(bytes.subarray(0, 9)));
        const { nodes, error } = await readAll(space, HASHES, ZSTD);
        for (const node of nodes) {
          const { canonical: _, ...expected } = NODES[HASHES.indexOf(node.hash)]!;
          expect(plain(node)).toEqual(expected);
        }
        if (error !== undefined) expect(error).toBeInstanceOf(CasError);
      }),
      { numRuns: 200 },
    );
  });
});
