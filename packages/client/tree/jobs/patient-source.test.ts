/** Reading with patience: what is retried, what is believed, how much runs at once. */
import { expect, test } from 'bun:test';
import { encodeNode } from '@holdfast/protocol';
import { until } from '../../../../test/support/until.ts';
import type { Zstd } from '../../bulk/bulk.ts';
import { RottenNodeError } from '../../rotten-node.ts';
import { ZSTD } from '../../test/fake-bulk-fixture.ts';
import { FakeSpace, failure, rejection, sha256Hex } from '../../test/fake-space-fixture.ts';
import { encodeDirectory } from '../format/directory-node.ts';
import { TreeFormatError } from '../format/tree-format.ts';
import { createPatientSource, MissingNodeError, type PatientSourceOptions } from './patient-source.ts';
import { SILENT_PROGRESS } from './progress.ts';

const rotten = (): Response => failure(503, 'SERVICE_UNAVAILABLE', { 'retry-after': '1' });

function open(space: FakeSpace, options: PatientSourceOptions = {}, zstd?: Zstd) {
  const client = space.client({ retry: { attemptsMax: 1 }, zstd });
  return createPatientSource(client, { clock: space.clock, random: () => 0.5, ...options });
}

test('a leaf takes one request, a parent two', async () => {
  const space = new FakeSpace();
  const source = open(space);
  const leaf = space.store('leaf');
  expect((await source.readNode(leaf)).refs).toEqual([]);
  expect(space.kinds()).toEqual(['content']);
  const parts = encodeDirectory([
    {
      name: Uint8Array.of(97),
      kind: 'file',
      hash: leaf,
      bytes: 4,
      entryCount: 0,
      isExecutable: false,
      mtimeNs: undefined,
    },
  ]);
  const bytes = encodeNode(parts);
  space.nodes.set(sha256Hex(bytes), bytes);
  expect((await source.readNode(sha256Hex(bytes))).refs).toEqual([leaf]);
  expect(space.kinds()).toEqual(['content', 'content', 'metadata']);
});

test('what will have refs is described beside its content; a wrong guess costs a request, nothing else', async () => {
  const space = new FakeSpace();
  const leaf = space.store('leaf');
  const gates = Promise.withResolvers<void>();
  space.plant('content', () => gates.promise.then(() => failure(404, 'NOT_FOUND')));
  const reading = open(space).readNode(leaf, { expectsRefs: true });
  await until(() => space.calls.length >= 2);
  expect(space.kinds().toSorted()).toEqual(['content', 'metadata']);
  gates.resolve();
  const missing = await rejection(reading);
  expect(missing).toMatchObject({ code: 'NOT_FOUND', requestOperation: 'readContent', hash: leaf });
  expect((missing as Error).message).toContain(`${leaf} is not in this Space`);
  expect((await open(space).readNode(leaf, { expectsRefs: true })).refs).toEqual([]);
});

test('content that is refused twice while the metadata is fine is rot', async () => {
  const space = new FakeSpace();
  const hash = space.store('lost');
  space.plant('content', rotten, rotten);
  const error = await rejection(open(space).readNode(hash));
  expect(error).toBeInstanceOf(RottenNodeError);
  expect((error as RottenNodeError).hash).toBe(hash);
  expect(space.kinds()).toEqual(['content', 'metadata', 'content', 'metadata']);
});

test('content that is refused once is read again', async () => {
  const space = new FakeSpace();
  const hash = space.store('busy');
  space.plant('content', rotten);
  expect((await open(space).readNode(hash)).content).toHaveLength(4);
});

test('a server that answers nothing is no proof of rot, and waited for', async () => {
  const space = new FakeSpace();
  const hash = space.store('away');
  space.plant('content', rotten, rotten, rotten);
  space.plant('metadata', rotten, rotten, rotten);
  const waits: string[] = [];
  const progress = {
    ...SILENT_PROGRESS,
    waitFor: (cause: string) => {
      waits.push(cause);
      return () => undefined;
    },
  };
  expect((await open(space, { progress }).readNode(hash)).content).toHaveLength(4);
  expect(waits.some((cause) => cause.includes('trying again'))).toBe(true);
});

test('without patience one look is enough', async () => {
  const space = new FakeSpace();
  const hash = space.store('lost');
  space.plant('content', rotten);
  expect(await rejection(open(space, { patienceMs: 0 }).readNode(hash))).toBeInstanceOf(RottenNodeError);
});

test('wrong bytes are not asked for again', async () => {
  const space = new FakeSpace();
  const hash = space.store('true');
  space.nodes.set(hash, encodeNode({ contentType: 'text/plain', refs: [], content: Uint8Array.of(1) }));
  expect(await rejection(open(space).readNode(hash))).toMatchObject({ code: 'VERIFICATION_FAILED' });
  expect(space.kinds()).toEqual(['content', 'metadata']);
});

test('a node larger than any of a tree is refused before its bytes', async () => {
  const space = new FakeSpace();
  const hash = space.store('x'.repeat(4 * 1024 * 1024 + 1));
  expect(await rejection(open(space).readNode(hash))).toBeInstanceOf(TreeFormatError);
});

test('what came twice a short while ago, or is on its way, is not fetched again', async () => {
  const space = new FakeSpace();
  const [small, large] = [space.store('small'), space.store('x'.repeat(1024 * 1024))];
  const source = open(space);
  const [first, second] = await Promise.all([source.readNode(small), source.readNode(small)]);
  expect(first).toBe(second);
  // A node that is read twice is kept.
  for (let round = 0; round < 5; round += 1) expect(await source.readNode(small)).toEqual(first);
  for (let round = 0; round < 5; round += 1) await source.readNode(large);
  const fetched = (): number => space.kinds().filter((kind) => kind === 'content').length;
  expect(fetched()).toBe(2 + 2);
  // Chunks of a large file pass by, and move nothing out.
  const others = Array.from({ length: 8 }, (_, index) => space.store(`${index}`.repeat(1024 * 1024)));
  for (const hash of [...others, small, large]) await source.readNode(hash);
  expect(fetched()).toBe(2 + 2 + 8);
  // Memory is bounded: what was used longest ago is forgotten.
  for (const hash of [...others, large]) await source.readNode(hash);
  expect(fetched()).toBe(2 + 2 + 8 + 8 + 1);
});

function memoryInto(released: Uint8Array[]): NonNullable<PatientSourceOptions['memory']> {
  return { take: (length) => new Uint8Array(length), give: (bytes) => released.push(bytes) };
}

test('content is taken back from whoever has it alone, once, and pieces when they are copied', async () => {
  const space = new FakeSpace();
  const released: Uint8Array[] = [];
  const source = open(space, { memory: memoryInto(released) });
  const [alone, shared] = [space.store('a'.repeat(100_000)), space.store('s'.repeat(100_000))];
  const first = await source.readNode(alone);
  expect(Buffer.concat(released).toString()).toBe('a'.repeat(100_000));
  expect(released).not.toContain(first.content);
  released.length = 0;
  for (let round = 0; round < 2; round += 1) source.giveBack?.(first.content);
  expect(released).toEqual([first.content]);
  // Several callers have it.
  const both = await Promise.all([source.readNode(shared), source.readNode(shared)]);
  // A node that is read twice is kept for a third read.
  const kept = [await source.readNode(alone), await source.readNode(alone)];
  released.length = 0;
  for (const { content } of [...both, ...kept]) source.giveBack?.(content);
  expect(released).toEqual([]);
  expect(space.kinds()).toHaveLength(3);
});

test('content that was unpacked from an answer is taken back, with all of its memory', async () => {
  const space = new FakeSpace();
  space.offersBulk = true;
  const released: Uint8Array[] = [];
  const source = open(space, { memory: memoryInto(released) }, ZSTD);
  const [alone, shared] = ['a', 's'].map((letter) => space.store(letter.repeat(5000))) as [string, string];
  const signals = [new AbortController().signal, new AbortController().signal];
  const [first, ...others] = await Promise.all([
    source.readNode(alone),
    ...signals.map((signal) => source.readNode(shared, { signal })),
  ]);
  expect(space.kinds()).toEqual(['reads']);
  // The answer itself: what was unpacked is no view of it.
  expect(released).toHaveLength(1);
  released.length = 0;
  for (const { content } of [first, first, ...others]) source.giveBack?.(content);
  expect(released.map(sha256Hex)).toEqual([alone]);
});

test('content that came with others in one answer is not taken back', async () => {
  const space = new FakeSpace();
  space.offersBulk = true;
  const released: Uint8Array[] = [];
  const source = open(space, { memory: memoryInto(released) });
  const hashes = ['one', 'two'].map((text) => space.store(text));
  const nodes = await Promise.all(hashes.map((hash) => source.readNode(hash)));
  expect(space.kinds()).toEqual(['reads']);
  for (const { content } of nodes) source.giveBack?.(content);
  expect(released).toEqual([]);
});

test('small nodes are forgotten too, the one used longest ago first', async () => {
  const space = new FakeSpace();
  const source = open(space);
  const hashes = Array.from({ length: 80 }, (_, index) =>
    space.store(`${index % 10}`.repeat(60_000 + index)),
  );
  for (const hash of hashes) {
    for (let round = 0; round < 3; round += 1) await source.readNode(hash);
    await source.readNode(hashes[0]!);
  }
  expect(space.calls).toHaveLength(2 * 80);
  await source.readNode(hashes[0]!);
  expect(space.calls).toHaveLength(2 * 80);
  await source.readNode(hashes[1]!);
  expect(space.calls).toHaveLength(2 * 80 + 1);
});

test('a failure is not remembered, and another signal is no reason to fail', async () => {
  const space = new FakeSpace();
  const hash = space.store('leaf');
  space.plant('content', () => failure(404, 'NOT_FOUND'));
  const source = open(space);
  const [first, second] = await Promise.all([
    rejection(source.readNode(hash)),
    rejection(source.readNode(hash)),
  ]);
  expect([first, second]).toEqual([expect.any(MissingNodeError), first]);
  const ending = new AbortController();
  space.plant('content', () => new Promise<Response>(() => undefined));
  const before = space.calls.length;
  const sent = async (count: number): Promise<void> => {
    await until(() => space.calls.length >= before + count);
  };
  const ended = rejection(source.readNode(hash, { signal: ending.signal }));
  await sent(1);
  const reading = source.readNode(hash);
  await sent(2);
  ending.abort(new Error('enough'));
  expect(String(await ended)).toContain('enough');
  expect((await reading).content).toHaveLength(4);
});

test('no more requests run at once than allowed', async () => {
  const space = new FakeSpace();
  const hashes = Array.from({ length: 30 }, (_, index) => space.store(`node ${index}`));
  let running = 0;
  let peak = 0;
  const client = space.client({
    retry: { attemptsMax: 1 },
    fetch: async (url, init) => {
      running += 1;
      peak = Math.max(peak, running);
      await Bun.sleep(1);
      running -= 1;
      return space.fetch(url, init);
    },
  });
  const source = createPatientSource(client, { clock: space.clock, parallelMax: 3 });
  await Promise.all(hashes.map((hash) => source.readNode(hash)));
  expect(peak).toBe(3);
});

test('a node comes unproven to a first caller alone, and its piece of the answer goes back when that is done', async () => {
  const space = new FakeSpace();
  space.offersBulk = true;
  const released: Uint8Array[] = [];
  const source = open(space, { memory: memoryInto(released) });
  const hash = space.store('once');
  const found = await source.readUnproven?.(hash, { contentBytes: 4 });
  expect(Buffer.from(found?.record.stored.subarray(-4) ?? []).toString()).toBe('once');
  expect(Buffer.from((await found?.prove())?.content ?? []).toString()).toBe('once');
  expect(released).toEqual([]);
  found?.release();
  expect(released).toHaveLength(1);
  // From the second time on one verified node serves all.
  expect(await source.readUnproven?.(hash, { contentBytes: 4 })).toBeUndefined();
  await source.readNode(hash);
  await source.readNode(hash);
  expect(space.kinds()).toEqual(['reads', 'reads']);
});

test('a node that is on its way, is large, or cannot come in bulk is left to the usual way', async () => {
  const space = new FakeSpace();
  const hash = space.store('node');
  const released: Uint8Array[] = [];
  const single = open(space, { memory: memoryInto(released) });
  expect(await single.readUnproven?.(hash, { contentBytes: 4 })).toBeUndefined();
  // It counts as come once, so it is not kept.
  const { content } = await single.readNode(hash);
  released.length = 0;
  single.giveBack?.(content);
  expect(released).toEqual([content]);
  space.offersBulk = true;
  const source = open(space);
  const reading = source.readNode(hash);
  expect(await source.readUnproven?.(hash, { contentBytes: 4 })).toBeUndefined();
  await reading;
  expect(await source.readUnproven?.(space.store('large'), { contentBytes: 2 ** 20 })).toBeUndefined();
  expect(await source.readUnproven?.('ab'.repeat(32), { contentBytes: 1 })).toBeUndefined();
});
