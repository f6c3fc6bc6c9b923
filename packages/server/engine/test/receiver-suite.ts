/** Receiving uploads (core/ports.ts UploadReceiver), where the store has a receiver of its own. */
import { expect, test } from 'bun:test';
import { encodeNode } from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import type { StagedUpload, UploadReceiver } from '../../core/upload-ports.ts';
import type { ContentUnderTest } from './content-under-test.ts';
import { digestOf, NOW, newGeneration, SPACE, sampleNode } from './samples.ts';

const LIMITS = { nodeBytesMax: 2_000_000 };
const OTHER: Space = { appId: 'app', spaceId: 'other' };

export function testReceiver(subject: ContentUnderTest): void {
  const receiver = (): UploadReceiver => {
    const { upload } = subject.opened.store;
    if (upload.kind !== 'server') throw new Error('this store has no receiver');
    return upload.receiver;
  };
  const receive = (bytes: Uint8Array, hash: string, generation = newGeneration(), chunk = 65_536) =>
    receiver().receive({ space: SPACE, generation, hash }, inChunks(bytes, chunk), bytes.length, LIMITS);

  const receiveWhole = (bytes: Uint8Array, hash: string, generation = newGeneration()) =>
    receiver().receive({ space: SPACE, generation, hash }, async () => bytes.slice(), bytes.length, LIMITS);

  test.each(['in pieces', 'whole'])(
    'good bytes of any size, %s, give evidence and either an object or inline bytes',
    async (how) => {
      for (const size of [0, 1, 500, 40_000, 262_144, 1_000_000]) {
        const { hash, node } = sampleNode(size, 1);
        const generation = newGeneration();
        const staged = await (how === 'whole'
          ? receiveWhole(node, hash, generation)
          : receive(node, hash, generation, 10_000));
        const { evidence } = staged;
        if (evidence.verdict !== 'good') throw new Error(`turned down: ${evidence.message}`);
        expect(evidence).toMatchObject({
          size,
          canonicalSize: node.length,
          contentType: 'application/octet-stream',
        });
        expect(evidence.inline).toBe(staged.inlineBytes !== undefined);
        const content = {
          generation,
          canonicalSize: node.length,
          integrity: evidence.integrity,
          urlExpiresAt: 0,
        };
        if (staged.inlineBytes !== undefined) {
          expect(staged.inlineBytes).toEqual(node);
          subject.opened.store.verifyInline({ ...content, inlineBytes: staged.inlineBytes });
        } else {
          expect(await staged.seal()).toBe(true);
          subject.opened.finish(generation);
          await subject.opened.store.verify({ space: SPACE, ...content }, hash);
        }
        await staged.release();
      }
    },
  );

  test('inline bytes that changed are proven damaged', async () => {
    const { hash, node } = sampleNode(500, 1);
    const staged = await receive(node, hash);
    await staged.release();
    const { evidence } = staged;
    if (evidence.verdict !== 'good') throw new Error('turned down');
    for (let at = 0; at < node.length; at += 97) {
      const inlineBytes = node.slice();
      inlineBytes[at] = (inlineBytes[at] as number) ^ 1;
      const { integrity } = evidence;
      const row = { generation: newGeneration(), canonicalSize: node.length, integrity, urlExpiresAt: 0 };
      expect(() => subject.opened.store.verifyInline({ ...row, inlineBytes })).toThrow();
    }
  });

  test('refs are kept in order, duplicates too', async () => {
    const refs = ['b'.repeat(64), 'a'.repeat(64), 'b'.repeat(64)];
    const node = encodeNode({ contentType: 'x/y', refs, content: new Uint8Array(3) });
    const staged = await receive(node, digestOf(node), newGeneration(), 7);
    await staged.release();
    if (staged.evidence.verdict !== 'good') throw new Error('turned down');
    expect(Buffer.from(staged.evidence.refs).toString('hex')).toBe(refs.join(''));
  });

  test('wrong bytes are judged in order: length, digest, format', async () => {
    const node = sampleNode(LIMITS.nodeBytesMax, 1).node;
    const junk = new Uint8Array(1_500_000).fill(7);
    const cases = [
      [node, 'f'.repeat(64), 'NODE_TOO_LARGE'],
      [junk, 'f'.repeat(64), 'NODE_DIGEST_MISMATCH'],
      [junk, digestOf(junk), 'INVALID_CANONICAL_NODE'],
      [new Uint8Array(0), digestOf(new Uint8Array(0)), 'INVALID_CANONICAL_NODE'],
      [junk.subarray(0, 10), digestOf(junk.subarray(0, 10)), 'INVALID_CANONICAL_NODE'],
      [new Uint8Array([1]), 'f'.repeat(64), 'NODE_DIGEST_MISMATCH'],
    ] as const;
    for (const [bytes, hash, code] of cases) {
      for (const way of [receive, receiveWhole]) {
        const staged = await way(bytes, hash);
        expect(staged.evidence).toMatchObject({ verdict: 'bad', code });
        await staged.release();
      }
    }
  });

  test('a body of exactly the limit is accepted, and one byte more is refused without reading on', async () => {
    const largest = sampleNode(1000, 1);
    const limits = { nodeBytesMax: largest.node.length };
    const target = { space: SPACE, generation: newGeneration(), hash: largest.hash };
    const exact = await receiver().receive(target, largest.node, undefined, limits);
    expect(exact.evidence.verdict).toBe('good');
    await exact.release();
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(1000));
      },
    });
    const cut = await receiver().receive(
      { ...target, generation: newGeneration() },
      endless,
      undefined,
      limits,
    );
    expect(cut.evidence).toMatchObject({ verdict: 'bad', code: 'NODE_TOO_LARGE' });
    expect(pulled).toBeLessThan(10);
    await cut.release();
  });

  test('a body that breaks off, or ends early, rejects and leaves the key free', async () => {
    const { hash, node } = sampleNode(800_000, 1);
    const generation = newGeneration();
    const target = { space: SPACE, generation, hash };
    const broken = receiver().receive(target, breakingOff(node.subarray(0, 600_000)), node.length, LIMITS);
    await expect(broken).rejects.toThrow();
    const early = receiver().receive(target, inChunks(node.subarray(0, 600_000), 9999), node.length, LIMITS);
    await expect(early).rejects.toThrow();
    expect(receiver().isReceiving(generation)).toBe(false);
    expect(receiver().reservedBytes(SPACE)).toBe(0);
    const staged = await receive(node, hash, generation);
    expect(await staged.seal()).toBe(true);
    subject.opened.finish(generation);
    await staged.release();
  });

  test('a body that is read whole counts as being received while it is read, and leaves nothing if it is cut off', async () => {
    const { hash, node } = sampleNode(40_000, 1);
    const generation = newGeneration();
    const target = { space: SPACE, generation, hash };
    let seen: unknown;
    const cut = async (): Promise<Uint8Array> => {
      seen = [receiver().isReceiving(generation), receiver().reservedBytes(SPACE)];
      throw new Error('planted: the connection was closed');
    };
    await expect(receiver().receive(target, cut, node.length, LIMITS)).rejects.toThrow('planted');
    expect(seen).toEqual([true, node.length]);
    const short = receiver().receive(target, async () => node.slice(1), node.length, LIMITS);
    await expect(short).rejects.toThrow('broke off');
    expect([receiver().isReceiving(generation), receiver().reservedBytes(SPACE)]).toEqual([false, 0]);
    const staged = await receiveWhole(node, hash, generation);
    expect(staged.evidence.verdict).toBe('good');
    await staged.release();
  });

  test('four uploads of one generation are received at once, and a fifth is refused', async () => {
    const { hash, node } = sampleNode(1000, 1);
    const generation = newGeneration();
    const target = { space: SPACE, generation, hash };
    const staged = await Promise.all(Array.from({ length: 4 }, () => receive(node, hash, generation)));
    await expect(receiver().receive(target, node, node.length, LIMITS)).rejects.toMatchObject({
      ...{ code: 'RESOURCE_EXHAUSTED', retryAfterSeconds: 1 },
    });
    await staged[0]?.release();
    await (await receive(node, hash, generation)).release();
    for (const each of staged.slice(1)) await each.release();
    expect(receiver().isReceiving(generation)).toBe(false);
  });

  test('a generation is being received, with its declared bytes reserved, until it is released', async () => {
    const { hash, node } = sampleNode(600_000, 1);
    const [first, second] = [newGeneration(), newGeneration()];
    const one = await receive(node, hash, first);
    const target = { space: OTHER, generation: second, hash };
    const two = await receiver().receive(target, node, undefined, LIMITS);
    expect([receiver().isReceiving(first), receiver().isReceiving(second)]).toEqual([true, true]);
    expect([receiver().reservedBytes(SPACE), receiver().reservedBytes(OTHER)]).toEqual([node.length, 0]);
    const twin = await receive(node, hash, first);
    expect(receiver().reservedBytes(SPACE)).toBe(2 * node.length);
    for (const staged of [one, two]) await staged.release();
    expect([receiver().isReceiving(first), receiver().isReceiving(second)]).toEqual([true, false]);
    await twin.release();
    expect(receiver().isReceiving(first)).toBe(false);
    expect(receiver().reservedBytes(SPACE)).toBe(0);
  });

  test('of overlapping uploads of one generation the first sealed stays, whole, whatever the others do', async () => {
    const { hash, node } = sampleNode(700_000, 1);
    const generation = newGeneration();
    const staged: StagedUpload[] = [];
    for (let index = 0; index < 3; index++) staged.push(await receive(node, hash, generation));
    const [first, second, third] = staged as [StagedUpload, StagedUpload, StagedUpload];
    expect(await second.seal()).toBe(true);
    subject.opened.finish(generation);
    await first.release();
    await third.seal();
    await third.release();
    await second.release();
    const { evidence } = second;
    if (evidence.verdict !== 'good') throw new Error('turned down');
    const object = { space: SPACE, generation, canonicalSize: node.length, integrity: evidence.integrity };
    await subject.opened.store.verify(object, hash);
    await subject.opened.store.sweep(async (keys) => new Set(keys.map(({ generation }) => generation)), NOW);
    await subject.opened.store.verify(object, hash);
  });

  test('an upload that was released without being sealed leaves no object', async () => {
    const { hash, node } = sampleNode(700_000, 1);
    const generation = newGeneration();
    const staged = await receive(node, hash, generation);
    await staged.release();
    expect(await subject.opened.store.inspect(SPACE, generation, hash, LIMITS)).toEqual({ found: false });
  });

  test('the sweep removes a sealed object that no record knows, and no other', async () => {
    const { hash, node } = sampleNode(700_000, 1);
    const [unknown, open, finished] = [newGeneration(), newGeneration(), newGeneration()];
    for (const generation of [unknown, open, finished]) {
      const staged = await receive(node, hash, generation);
      await staged.seal();
      if (generation === finished) subject.opened.finish(generation);
      await staged.release();
    }
    await subject.opened.store.sweep((keys) => {
      const generations = keys.map(({ generation }) => generation);
      return new Set(generations.filter((one) => one !== unknown));
    }, NOW);
    const isThere = async (generation: string) =>
      (await subject.opened.store.inspect(SPACE, generation, hash, LIMITS)).found;
    expect([await isThere(unknown), await isThere(open), await isThere(finished)]).toEqual([
      false,
      true,
      true,
    ]);
  });
}

function inChunks(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream({
    pull(controller) {
      if (position >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(position, position + size));
      position += size;
    },
  });
}

function breakingOff(bytes: Uint8Array): ReadableStream<Uint8Array> {
  let isSent = false;
  return new ReadableStream({
    pull(controller) {
      if (isSent) throw new Error('connection reset');
      isSent = true;
      controller.enqueue(bytes);
    },
  });
}
