/** Bundles made from and put into a Space that counts every request. */
import { describe, expect, test } from 'bun:test';
import { concatBytes, encodeNode } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import {
  expectCasError,
  FakeSpace,
  failure,
  readAll,
  rejection,
  sha256Hex,
} from '../test/fake-space-fixture.ts';
import { encodeCarHeader } from './car-header.ts';
import { BundleError, encodeCid } from './cid.ts';
import { copyNodes } from './copy-nodes.ts';
import { createBundle } from './create-bundle.ts';
import { importBundle } from './import-bundle.ts';
import { type BundleNode, readBundle } from './read-bundle.ts';
import { encodeVarint } from './varint.ts';

function store(space: FakeSpace, text: string | Uint8Array, refs: readonly string[] = []): string {
  const content = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  const bytes = encodeNode({ contentType: 'text/plain', refs, content });
  const hash = sha256Hex(bytes);
  space.nodes.set(hash, bytes);
  return hash;
}

function block(space: FakeSpace, hash: string): Uint8Array {
  const bytes = concatBytes([encodeCid(hash), space.nodes.get(hash)!]);
  return concatBytes([encodeVarint(bytes.length), bytes]);
}

function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new Blob([bytes as Uint8Array<ArrayBuffer>]).stream();
}

async function nodesOf(bytes: Uint8Array): Promise<BundleNode[]> {
  const bundle = await readBundle(streamOf(bytes));
  const nodes: BundleNode[] = [];
  for await (const node of bundle.nodes) nodes.push(node);
  return nodes;
}

/** Every node of `nodes` stands after all it refers to. */
function expectChildrenFirst(nodes: readonly BundleNode[]): void {
  const seen = new Set<string>();
  for (const { hash, refs } of nodes) {
    for (const ref of refs) expect(seen.has(ref)).toBe(true);
    expect(seen.has(hash)).toBe(false);
    seen.add(hash);
  }
}

/** A root over parents that share leaves, one of them on two levels. */
function storeSample(space: FakeSpace): { root: string; count: number } {
  const leaves = Array.from({ length: 20 }, (_, index) => store(space, `leaf ${index}`));
  const shared = store(space, 'shared', leaves.slice(0, 3));
  const parents = Array.from({ length: 5 }, (_, index) =>
    store(space, `parent ${index}`, [...leaves.slice(index * 4, index * 4 + 8), shared, leaves[0]!]),
  );
  return { root: store(space, 'root', [...parents, shared, leaves[19]!]), count: 20 + 1 + 5 + 1 };
}

async function bundleOf(client: Client, ...roots: string[]): Promise<Uint8Array> {
  return readAll(createBundle(client, roots));
}

describe('creating', () => {
  test('writes each node once, children first, the same bytes every time', async () => {
    const space = new FakeSpace();
    const { root, count } = storeSample(space);
    const bytes = await bundleOf(space.client(), root, root);
    const nodes = await nodesOf(bytes);
    expectChildrenFirst(nodes);
    expect(nodes).toHaveLength(count);
    expect(nodes.at(-1)?.hash).toBe(root);
    expect(await bundleOf(space.client(), root)).toEqual(bytes);
  });

  test('a leaf takes one request', async () => {
    const space = new FakeSpace();
    const leaves = Array.from({ length: 30 }, (_, index) => store(space, `leaf ${index}`));
    await bundleOf(space.client(), store(space, 'root', leaves));
    // the root: asked for before the first byte, content, metadata
    expect(space.calls).toHaveLength(30 + 3);
  });

  test('a chain of 3,000 parents, and several roots of which one is below another', async () => {
    const space = new FakeSpace();
    let tip = store(space, 'end');
    const middle: string[] = [];
    for (let index = 0; index < 3_000; index += 1) {
      tip = store(space, `link ${index}`, [tip]);
      if (index === 1_500) middle.push(tip);
    }
    const nodes = await nodesOf(await bundleOf(space.client(), ...middle, tip));
    expectChildrenFirst(nodes);
    expect(nodes).toHaveLength(3_001);
  });

  test('nodes too large to hold are streamed, parents too', async () => {
    const space = new FakeSpace();
    const large = new Uint8Array(4 * 1024 * 1024 + 1).fill(7);
    const leaf = store(space, large);
    const root = store(space, large, [leaf]);
    const bytes = await bundleOf(space.client(), root);
    expect((await nodesOf(bytes)).map(({ hash }) => hash)).toEqual([leaf, root]);
  });

  test('more bytes of parents than are held are read again', async () => {
    const space = new FakeSpace();
    const leaf = store(space, 'leaf');
    const parents = Array.from({ length: 6 }, (_, index) =>
      store(space, new Uint8Array(3_500_000).fill(index), [leaf]),
    );
    const nodes = await nodesOf(await bundleOf(space.client(), store(space, 'root', parents)));
    expect(nodes).toHaveLength(8);
    expectChildrenFirst(nodes);
  });

  test('an absent root fails before the first byte, an absent child later', async () => {
    const space = new FakeSpace();
    const absent = 'a'.repeat(64);
    const reader = createBundle(space.client(), [absent]).getReader();
    const none = await rejection(reader.read());
    expect(none).toBeInstanceOf(BundleError);
    expect(String(none)).toContain(`${absent} is not in this Space`);
    const lost = await rejection(bundleOf(space.client(), store(space, 'root', [absent])));
    expect(lost).toBeInstanceOf(BundleError);
    expect(String(lost)).toContain(`${absent} is not in this Space`);
    expect(await rejection(bundleOf(space.client()))).toBeInstanceOf(BundleError);
  });

  test('a server that is busy has lost no node: only a refused content is told as lost', async () => {
    const space = new FakeSpace();
    const root = store(space, 'root');
    const refuse = (): Response => failure(503, 'SERVICE_UNAVAILABLE');
    space.plant('metadata', ...Array.from({ length: 4 }, () => refuse));
    await expectCasError(bundleOf(space.client(), root), 'SERVICE_UNAVAILABLE');
    space.plant('content', ...Array.from({ length: 4 }, () => refuse));
    const lost = await rejection(bundleOf(space.client(), root));
    expect(String(lost)).toContain('store this node again');
  });

  test('nothing false gets in: other bytes, other refs', async () => {
    const space = new FakeSpace();
    const leaf = store(space, 'leaf');
    const root = store(space, 'root', [leaf]);
    const good = space.nodes.get(leaf)!;
    space.nodes.set(leaf, encodeNode({ contentType: 'text/plain', refs: [], content: Uint8Array.of(1) }));
    await expectCasError(bundleOf(space.client(), root), 'VERIFICATION_FAILED');
    space.nodes.set(leaf, good);
    const other = store(space, 'other');
    space.nodes.set(
      root,
      encodeNode({ contentType: 'text/plain', refs: [other], content: new TextEncoder().encode('root') }),
    );
    await expectCasError(bundleOf(space.client(), root), 'VERIFICATION_FAILED');
  });

  test('reads no further than it is consumed, and stops when left', async () => {
    const space = new FakeSpace();
    const leaves = Array.from({ length: 100 }, (_, index) => store(space, `leaf ${index}`));
    const reader = createBundle(space.client(), [store(space, 'root', leaves)]).getReader();
    await reader.read();
    await reader.read();
    const { length } = space.calls;
    expect(length).toBeLessThan(20);
    await reader.cancel();
    await Bun.sleep(5);
    expect(space.calls.length).toBe(length);
  });
});

describe('importing', () => {
  test('brings everything into an empty Space, and only what lacks into another', async () => {
    const source = new FakeSpace();
    const { root, count } = storeSample(source);
    const bytes = await bundleOf(source.client(), root);
    const target = new FakeSpace();
    const result = await importBundle(target.client(), streamOf(bytes));
    expect(result).toMatchObject({ nodes: count, uploadedNodes: count, bytes: bytes.length });
    expect(result.roots.map(({ hash }) => hash)).toEqual([root]);
    expect([...target.nodes.keys()].sort()).toEqual([...source.nodes.keys()].sort());

    const half = new FakeSpace();
    const nodes = await nodesOf(bytes);
    for (const { hash, bytes: node } of nodes.slice(0, 12)) half.nodes.set(hash, node);
    const sum = (some: typeof nodes): number => some.reduce((total, node) => total + node.bytes.length, 0);
    expect(await importBundle(half.client(), streamOf(bytes))).toMatchObject({
      uploadedNodes: count - 12,
      uploadedBytes: sum(nodes.slice(12)),
      nodeBytes: sum(nodes),
    });
    expect(half.kinds().filter((kind) => kind === 'upload')).toHaveLength(count - 12);
  });

  test('a Space that has the roots takes two requests for each, and more only to check', async () => {
    const space = new FakeSpace();
    const { root, count } = storeSample(space);
    const bytes = await bundleOf(space.client(), root);
    const before = space.calls.length;
    expect(await importBundle(space.client(), streamOf(bytes))).toMatchObject({
      nodes: count,
      uploadedNodes: 0,
    });
    expect(space.kinds().slice(before)).toEqual(['metadata', 'lease', 'lease']);
    await importBundle(space.client(), streamOf(bytes), { check: true });
    expect(
      space
        .kinds()
        .slice(before + 3)
        .filter((kind) => kind === 'lease'),
    ).toHaveLength(count + 2);
  });

  test('refuses a bundle that lacks its root', async () => {
    const source = new FakeSpace();
    const leaf = store(source, 'leaf');
    const root = store(source, 'root', [leaf]);
    const header = encodeCarHeader([root]);
    const withoutRoot = await rejection(
      importBundle(new FakeSpace().client(), streamOf(concatBytes([header, block(source, leaf)]))),
    );
    expect(String(withoutRoot)).toContain(`does not hold its root ${root}`);
  });

  test('what is damaged stops it, and what came before is not uploaded again', async () => {
    const source = new FakeSpace();
    const { root, count } = storeSample(source);
    const bytes = await bundleOf(source.client(), root);
    const damaged = bytes.slice();
    damaged[damaged.length - 1] = (damaged[damaged.length - 1] as number) ^ 1;
    const target = new FakeSpace();
    expect(await rejection(importBundle(target.client(), streamOf(damaged)))).toBeInstanceOf(BundleError);
    expect(target.nodes.has(root)).toBe(false);
    const uploads = (): number => target.kinds().filter((kind) => kind === 'upload').length;
    await Bun.sleep(5);
    const before = uploads();
    expect(before).toBeGreaterThan(count / 2);
    await importBundle(target.client(), streamOf(bytes));
    expect(uploads()).toBe(count);
  });

  test('a server that refuses ends it with its error', async () => {
    const source = new FakeSpace();
    const { root } = storeSample(source);
    const bytes = await bundleOf(source.client(), root);
    const target = new FakeSpace();
    const refuse = (): Response => failure(403, 'insufficient_permission');
    target.plant('lease', refuse);
    await expectCasError(importBundle(target.client(), streamOf(bytes)), 'insufficient_permission');
    expect(target.kinds().filter((kind) => kind === 'upload').length).toBeLessThan(30);
  });

  test('can be given up', async () => {
    const source = new FakeSpace();
    const { root } = storeSample(source);
    const bytes = await bundleOf(source.client(), root);
    const controller = new AbortController();
    const target = new FakeSpace();
    const onNode = (): void => controller.abort(new Error('enough'));
    const work = importBundle(target.client(), streamOf(bytes), { signal: controller.signal, onNode });
    expect(String(await rejection(work))).toContain('enough');
    expect(target.nodes.has(root)).toBe(false);
  });
});

test.each([true, false])(
  'a copy gives the memory of each node back once it is stored, with Bulk: %p',
  async (offersBulk) => {
    const [source, target] = [new FakeSpace(), new FakeSpace()];
    target.offersBulk = offersBulk;
    const { root, count } = storeSample(source);
    const given: Uint8Array[] = [];
    const release = (bytes: Uint8Array): void => {
      given.push(bytes.slice());
      bytes.fill(0);
    };
    await copyNodes(source.client(), target.client(), root, { release });
    expect(new Set(given.map(sha256Hex))).toEqual(new Set(source.nodes.keys()));
    expect([given.length, new Set(target.nodes.keys())]).toEqual([count, new Set(source.nodes.keys())]);
  },
);
