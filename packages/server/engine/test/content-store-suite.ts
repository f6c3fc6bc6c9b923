/**
 * The behaviour of every ContentStore, on any engine (core/ports.ts). An engine's own test gives an adapter and calls
 * `testContentStore`.
 */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { MIB_BYTES, NODE_MEDIA_TYPE } from '@holdfast/protocol';
import fc from 'fast-check';
import type { Generation, UploadEvidence } from '../../core/model.ts';
import type { ContentStore, StoredObject } from '../../core/ports.ts';
import { ContentDamaged, ContentLost } from '../../core/store-failure.ts';
import type { ContentUnderTest, OpenedContentStore } from './content-under-test.ts';
import { testPackReceiver } from './pack-receiver-suite.ts';
import { testPacks } from './pack-store-suite.ts';
import { testReceiver } from './receiver-suite.ts';
import { newGeneration, readObject, SPACE, sampleNode, urlLifeUntil } from './samples.ts';

export interface ContentStoreAdapter {
  /** the kind of its `upload`: a store that receives uploads itself is tested for that too */
  readonly upload: ContentStore['upload']['kind'];
  /** A store with nothing in it. */
  open(): Promise<OpenedContentStore>;
}

const LIMITS = { nodeBytesMax: 32 * 1024 * 1024 };

export function testContentStore(name: string, adapter: ContentStoreAdapter): void {
  describe(`ContentStore: ${name}`, () => {
    const subject: ContentUnderTest = { opened: undefined as unknown as OpenedContentStore };
    beforeEach(async () => {
      subject.opened = await adapter.open();
    });
    afterEach(() => subject.opened.destroy());
    testObjects(subject);
    testPacks(subject);
    if (adapter.upload === 'direct') {
      testDirectUploads(subject);
      return;
    }
    testReceiver(subject);
    testPackReceiver(subject);
  });
}

function testObjects(subject: ContentUnderTest): void {
  test('an object is read back whole and in any range', async () => {
    for (const size of [40_000, MIB_BYTES - 1, MIB_BYTES, 3 * MIB_BYTES + 5]) {
      const { object, node } = await putSample(subject, size);
      const ranges = [
        [0, node.length],
        [1, 2],
        [node.length - 1, node.length],
        [node.length >> 1, (node.length >> 1) + 10_000],
        [5, node.length - 5],
      ] as const;
      for (const [start, end] of ranges) {
        expect(await readObject(subject.opened.store, object, start, end)).toEqual(node.slice(start, end));
      }
    }
  });

  test('any range of an object of several blocks is its bytes', async () => {
    const { object, node } = await putSample(subject, 2 * MIB_BYTES + 12_345);
    const position = fc.nat({ max: node.length });
    const property = fc.asyncProperty(position, position, async (one, other) => {
      fc.pre(one !== other);
      const [start, end] = [Math.min(one, other), Math.max(one, other)];
      expect(
        Buffer.compare(await readObject(subject.opened.store, object, start, end), node.subarray(start, end)),
      ).toBe(0);
    });
    await fc.assert(property, { numRuns: 40 });
  });

  test('good bytes are proven in any range and of any length', async () => {
    const { object, node } = await putSample(subject, 5 * MIB_BYTES);
    for (const [start, end] of [
      [0, node.length],
      [7, 4 * MIB_BYTES],
      [9, 9],
    ] as const) {
      expect(await subject.opened.store.prove(object, start, end)).toBeUndefined();
    }
    expect(Buffer.compare(await readObject(subject.opened.store, object), node)).toBe(0);
  });

  test('verify passes good bytes and proves another digest wrong', async () => {
    const { object, hash } = await putSample(subject, 2 * MIB_BYTES);
    await subject.opened.store.verify(object, hash);
    const wrong = subject.opened.store.verify(object, 'f'.repeat(64));
    expect(await wrong.catch((error) => error)).toBeInstanceOf(ContentDamaged);
  });

  test('bytes that do not match the integrity record are never yielded', async () => {
    const { object } = await putSample(subject, 100_000);
    const other = await putSample(subject, 100_001);
    const forged = { ...object, integrity: other.object.integrity };
    for (const wrong of [forged, { ...object, canonicalSize: object.canonicalSize + 1 }]) {
      for (const verb of ['read', 'prove'] as const) {
        expect(await subject.opened.store[verb](wrong, 0, 10).catch((error) => error)).toBeInstanceOf(
          ContentDamaged,
        );
      }
    }
  });

  test('a missing object is lost, and deleting it again changes nothing', async () => {
    const { object, hash } = await putSample(subject, 200_000);
    const absent = newGeneration();
    for (const generations of [[object.generation], [object.generation, absent], []]) {
      const { deleted, failure } = await subject.opened.store.delete(SPACE, generations);
      expect(failure).toBeUndefined();
      expect([...deleted].sort()).toEqual([...generations].sort());
    }
    for (const verb of ['read', 'prove'] as const) {
      expect(await subject.opened.store[verb](object, 0, 10).catch((error) => error)).toBeInstanceOf(
        ContentLost,
      );
    }
    const verifying = subject.opened.store.verify(object, hash);
    expect(await verifying.catch((error) => error)).toBeInstanceOf(ContentLost);
    expect(await subject.opened.store.inspect(SPACE, object.generation, hash, LIMITS)).toEqual({
      found: false,
    });
  });

  test('many objects are deleted at once, and no other', async () => {
    const samples = [];
    for (let index = 0; index < 30; index++) samples.push(await putSample(subject, 40_000 + index));
    const [kept, ...gone] = samples as [(typeof samples)[0], ...typeof samples];
    const { store } = subject.opened;
    const generations = gone.map(({ object }) => object.generation);
    const { deleted, failure } = await store.delete(SPACE, generations);
    expect([failure, [...deleted].sort()]).toEqual([undefined, generations.sort()]);
    for (const { object, hash } of gone) {
      expect(await store.inspect(SPACE, object.generation, hash, LIMITS)).toEqual({ found: false });
    }
    await store.verify(kept.object, kept.hash);
  });

  test('inspect validates what lies under a key', async () => {
    const { object, hash, node } = await putSample(subject, 300_000);
    const inspect = (asHash: string, nodeBytesMax: number) =>
      subject.opened.store.inspect(SPACE, object.generation, asHash, { nodeBytesMax });
    const good = await inspect(hash, node.length);
    if (!good.found || good.evidence.verdict !== 'good') throw new Error('a good object was turned down');
    expect(good.evidence.size).toBe(300_000);
    expect(good.evidence.canonicalSize).toBe(node.length);
    const again = { ...object, integrity: good.evidence.integrity };
    expect((await readObject(subject.opened.store, again)).length).toBe(node.length);
    expect(codeOf(await inspect('0'.repeat(64), node.length))).toBe('NODE_DIGEST_MISMATCH');
    expect(codeOf(await inspect(hash, node.length - 1))).toBe('NODE_TOO_LARGE');
  });
}

function testDirectUploads(subject: ContentUnderTest): void {
  const sign = (generation: Generation, expiresAt: number) => {
    const { upload } = subject.opened.store;
    if (upload.kind !== 'direct') throw new Error('this store receives uploads itself');
    return upload.signUpload(SPACE, generation, urlLifeUntil(expiresAt), NODE_MEDIA_TYPE);
  };
  const put = async (
    { url, headers }: { readonly url: string; readonly headers: Record<string, string> },
    body: Uint8Array,
  ): Promise<number> => (await fetch(url, { method: 'PUT', headers, body: body.slice() })).status;

  test('an upload URL takes one upload, exactly as it says, until it expires', async () => {
    const { hash, node } = sampleNode(50_000, 1);
    const generation = newGeneration();
    const target = await sign(generation, Date.now() + 60_000);
    const { 'if-none-match': condition, ...unconditional } = target.headers;
    expect(condition).toBe('*');
    const wrong = [
      { ...target, headers: unconditional },
      { ...target, headers: { ...target.headers, 'content-type': 'text/plain' } },
      { ...target, url: target.url.slice(0, target.url.indexOf('?')) },
      { ...target, url: target.url.replace(generation, newGeneration()) },
      await sign(generation, Date.now() - 1000),
    ];
    for (const each of wrong) expect(await put(each, node)).toBeOneOf([400, 403]);
    expect(await subject.opened.store.inspect(SPACE, generation, hash, LIMITS)).toEqual({ found: false });
    expect(await put(target, node)).toBe(200);
    for (const again of [target, await sign(generation, Date.now() + 90_000)]) {
      expect(await put(again, node.subarray(1))).toBeOneOf([409, 412]);
    }
    const inspected = await subject.opened.store.inspect(SPACE, generation, hash, LIMITS);
    expect(codeOf(inspected)).toBe('good');
  });

  test('a store of objects takes inline bytes for damaged', () => {
    const content = { generation: newGeneration(), canonicalSize: 3, urlExpiresAt: 0 };
    const inlineBytes = new Uint8Array(3);
    const row = { ...content, integrity: new Uint8Array(8), inlineBytes };
    expect(() => subject.opened.store.verifyInline(row)).toThrow(ContentDamaged);
  });
}

function codeOf(inspected: { found: false } | { found: true; evidence: UploadEvidence }): string {
  if (!inspected.found) return 'not found';
  return inspected.evidence.verdict === 'good' ? 'good' : inspected.evidence.code;
}

/** Puts a node of `size` content bytes and learns its integrity record as a lease would. */
async function putSample(subject: ContentUnderTest, size: number) {
  const { hash, node } = sampleNode(size, size);
  const generation = newGeneration();
  await subject.opened.put(generation, node);
  subject.opened.finish(generation);
  const inspected = await subject.opened.store.inspect(SPACE, generation, hash, LIMITS);
  if (!inspected.found || inspected.evidence.verdict !== 'good')
    throw new Error('the sample was turned down');
  const { integrity } = inspected.evidence;
  const object: StoredObject = { space: SPACE, generation, canonicalSize: node.length, integrity };
  return { object, hash, node };
}
