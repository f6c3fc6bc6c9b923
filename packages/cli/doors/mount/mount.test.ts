/** The protocol of a mount with a kernel stood in for: what it is asked, and what it answers, on any machine. */
import { expect, test } from 'bun:test';
import {
  buildDirectory,
  buildModel,
  fileEntry,
  MemoryNodes,
  noise,
  type TreeModel,
  utf8,
} from '../../../client/test/tree-fixture.ts';
import { encodeChunk, encodeFileIndex } from '../../../client/tree/format/tree-node.ts';
import type { FuseDevice } from './fuse-device.ts';
import { FuseSession } from './fuse-session.ts';
import { ERRNO, OPCODES } from './fuse-wire.ts';
import { createMountHandler } from './mount.ts';

const MIB = 1024 * 1024;
const LISTING_BYTES = 4096;

/** Asks as the kernel does. */
class Kernel implements FuseDevice {
  readonly #requests: Buffer[] = [];
  readonly #answers = new Map<bigint, (answer: Buffer) => void>();
  #wake = (): void => undefined;
  #unique = 0n;
  #isUnmounted = false;

  async read(): Promise<Buffer | undefined> {
    while (this.#requests.length === 0 && !this.#isUnmounted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#requests.shift();
  }

  write(parts: readonly Uint8Array[]): void {
    const answer = Buffer.concat(parts);
    expect(answer.readUInt32LE(0)).toBe(answer.length);
    this.#answers.get(answer.readBigUInt64LE(8))?.(answer);
  }

  unmount(): void {
    this.#isUnmounted = true;
    this.#wake();
  }

  async ask(opcode: number, node: number, body: Uint8Array): Promise<{ errno: number; body: Buffer }> {
    this.#unique += 1n;
    const request = Buffer.alloc(40 + body.length);
    request.writeUInt32LE(request.length, 0);
    request.writeUInt32LE(opcode, 4);
    request.writeBigUInt64LE(this.#unique, 8);
    request.writeBigUInt64LE(BigInt(node), 16);
    request.set(body, 40);
    const come = new Promise<Buffer>((resolve) => this.#answers.set(this.#unique, resolve));
    this.#requests.push(request);
    this.#wake();
    const answer = await come;
    return { errno: 0 - answer.readInt32LE(4), body: answer.subarray(16) };
  }

  /** The node, or the errno; 0 for a name that the kernel may keep as missing. */
  async lookup(
    folder: number,
    name: string,
  ): Promise<{ errno: number; node: number; bytes: number; mode: number }> {
    const { errno, body } = await this.ask(OPCODES.lookup, folder, Buffer.from(`${name}\0`));
    if (errno !== 0) return { errno, node: 0, bytes: 0, mode: 0 };
    const [node, bytes, mode] = [body.readBigUInt64LE(0), body.readBigUInt64LE(48), body.readUInt32LE(100)];
    return { errno, node: Number(node), bytes: Number(bytes), mode };
  }

  readFile(node: number, offset: number, bytes: number): Promise<{ errno: number; body: Buffer }> {
    const body = Buffer.alloc(40);
    body.writeBigUInt64LE(BigInt(offset), 8);
    body.writeUInt32LE(bytes, 16);
    return this.ask(OPCODES.read, node, body);
  }

  /** Names and nodes, as `getdents` gives them to programs. */
  async list(node: number): Promise<[string, number][]> {
    const found: [string, number][] = [];
    for (let offset = 0n; ; ) {
      const body = Buffer.alloc(40);
      body.writeBigUInt64LE(offset, 8);
      body.writeUInt32LE(LISTING_BYTES, 16);
      const { errno, body: answer } = await this.ask(OPCODES.readdirplus, node, body);
      expect([errno, answer.length <= LISTING_BYTES]).toEqual([0, true]);
      if (answer.length === 0) return found;
      for (let at = 128; at < answer.length; ) {
        const length = answer.readUInt32LE(at + 16);
        offset = answer.readBigUInt64LE(at + 8);
        found.push([
          answer.toString('latin1', at + 24, at + 24 + length),
          Number(answer.readBigUInt64LE(at)),
        ]);
        at += Math.ceil((24 + length) / 8) * 8 + 128;
      }
    }
  }
}

interface Mounted {
  readonly kernel: Kernel;
  readonly nodes: MemoryNodes;
  /** of failures */
  readonly told: unknown[];
}

async function withMount(
  tree: TreeModel | ((nodes: MemoryNodes) => ReturnType<typeof buildDirectory>),
  work: (mounted: Mounted) => Promise<void>,
): Promise<void> {
  const nodes = new MemoryNodes();
  const { hash } = await (typeof tree === 'function' ? tree(nodes) : buildModel(nodes, tree));
  const item = await nodes.open().readItem(hash);
  const [kernel, told]: [Kernel, unknown[]] = [new Kernel(), []];
  const session = new FuseSession(kernel, createMountHandler(nodes, { item, timeMs: 1_500 }), (error) =>
    told.push(error),
  );
  let isReady = false;
  const ended = session.serve(() => {
    isReady = true;
  });
  const init = Buffer.alloc(64);
  init.writeUInt32LE(7, 0);
  init.writeUInt32LE(45, 4);
  init.fill(0xff, 8, 16);
  const greeting = await kernel.ask(OPCODES.init, 0, init);
  expect([greeting.errno, greeting.body.length, isReady]).toEqual([0, 64, true]);
  nodes.reads.length = 0;
  await work({ kernel, nodes, told });
  kernel.unmount();
  await ended;
}

const text = (content: string): TreeModel => ({
  kind: 'file',
  content: utf8(content),
  isExecutable: false,
  mtimeNs: undefined,
});
const folder = (children: Readonly<Record<string, TreeModel>>): TreeModel => ({
  kind: 'directory',
  children: Object.entries(children).map(([name, child]) => [utf8(name), child] as const),
});

test('names lead to nodes, whose attributes, bytes and targets are the tree’s', async () => {
  const program: TreeModel = { kind: 'file', content: utf8('#!'), isExecutable: true, mtimeNs: -1n };
  const link: TreeModel = { kind: 'symlink', target: utf8('../a') };
  const tree = folder({ a: text('hello'), d: folder({ e: folder({ link, program }), z: text('') }) });
  await withMount(tree, async ({ kernel, told }) => {
    const a = await kernel.lookup(1, 'a');
    expect([a.bytes, a.mode]).toEqual([5, 0o100444]);
    expect((await kernel.readFile(a.node, 1, 100)).body.toString()).toBe('ello');
    expect((await kernel.readFile(a.node, 5, 100)).body.length).toBe(0);
    const d = await kernel.lookup(1, 'd');
    const e = await kernel.lookup(d.node, 'e');
    expect([d.mode, (await kernel.lookup(e.node, 'program')).mode]).toEqual([0o040555, 0o100555]);
    const { node } = await kernel.lookup(e.node, 'link');
    expect((await kernel.ask(OPCODES.readlink, node, Buffer.alloc(0))).body.toString()).toBe('../a');
    expect(await kernel.lookup(d.node, 'none')).toMatchObject({ errno: 0, node: 0 });
    const attributes = (
      await kernel.ask(OPCODES.getattr, (await kernel.lookup(e.node, 'program')).node, Buffer.alloc(16))
    ).body;
    expect([attributes.readBigInt64LE(48), attributes.readUInt32LE(68)]).toEqual([-1n, 999_999_999]);
    expect((await kernel.ask(OPCODES.getattr, 1, Buffer.alloc(16))).body.readBigInt64LE(48)).toBe(1n);
    expect((await kernel.ask(OPCODES.getattr, 99, Buffer.alloc(16))).errno).toBe(ERRNO.noEntry);
    const names = (await kernel.list(1)).map(([name]) => name);
    expect(names).toEqual(['.', '..', 'a', 'd']);
    expect(told).toEqual([]);
  });
});

test('a wide folder is listed in pieces, each name once and with the node that a lookup gives', async () => {
  const names = Array.from({ length: 9_000 }, (_, index) => `n${String(index).padStart(5, '0')}`);
  const wide = (nodes: MemoryNodes) =>
    buildDirectory(
      nodes,
      names.map((name) => fileEntry(name)),
    );
  await withMount(wide, async ({ kernel, nodes }) => {
    const { node } = await kernel.lookup(1, 'n08123');
    // One page of many, and the indexes above it.
    expect(nodes.reads.length).toBeLessThan(4);
    const listed = (await kernel.list(1)).slice(2);
    expect(listed.map(([name]) => name)).toEqual(names);
    expect(listed[8_123]?.[1]).toBe(node);
    expect(await kernel.lookup(1, 'a')).toMatchObject({ errno: 0, node: 0 });
    expect(await kernel.lookup(1, 'n08123x')).toMatchObject({ errno: 0, node: 0 });
  });
});

test('reads anywhere in a large file take the chunks that they need', async () => {
  const content = noise(7, 24 * MIB);
  const large: TreeModel = { kind: 'file', content, isExecutable: false, mtimeNs: undefined };
  await withMount(folder({ large }), async ({ kernel, nodes }) => {
    const { node } = await kernel.lookup(1, 'large');
    for (const place of [20 * MIB + 17, 3 * MIB, 11 * MIB]) {
      const { body } = await kernel.readFile(node, place, 4096);
      expect(body.equals(content.subarray(place, place + 4096))).toBe(true);
    }
    // The folder, the index of the file, and a chunk for each read, or two.
    expect(nodes.reads.length).toBeLessThanOrEqual(8);
    for (let at = 0; at < content.length; at += 128 * 1024) {
      const { body } = await kernel.readFile(node, at, 128 * 1024);
      expect(body.equals(content.subarray(at, at + 128 * 1024))).toBe(true);
    }
    expect(nodes.reads.length).toBe(new Set(nodes.reads).size);
  });
});

test('a read goes on from one index of a file to the next', async () => {
  const content = noise(3, 60);
  const deep = async (nodes: MemoryNodes) => {
    const chunks = Array.from({ length: 6 }, (_, at) => ({
      hash: nodes.add(encodeChunk(content.subarray(at * 10, at * 10 + 10))),
      bytes: 10,
    }));
    const indexes = [chunks.slice(0, 3), chunks.slice(3)].map((children) => ({
      hash: nodes.add(encodeFileIndex({ level: 1, children })),
      bytes: 30,
    }));
    const hash = nodes.add(encodeFileIndex({ level: 2, children: indexes }));
    return buildDirectory(nodes, [fileEntry('deep', { hash, bytes: 60 })]);
  };
  await withMount(deep, async ({ kernel, told }) => {
    const { node } = await kernel.lookup(1, 'deep');
    for (let start = 0; start < 60; start += 7) {
      const { body } = await kernel.readFile(node, start, 25);
      expect(body.equals(content.subarray(start, start + 25))).toBe(true);
    }
    expect(told).toEqual([]);
  });
});

test('what cannot be read is EIO and told, never missing, and comes when it can be read again', async () => {
  await withMount(folder({ d: folder({ a: text('a') }) }), async ({ kernel, nodes, told }) => {
    const { node } = await kernel.lookup(1, 'd');
    const all = new Map(nodes.nodes);
    nodes.nodes.clear();
    expect(await kernel.lookup(node, 'a')).toMatchObject({ errno: ERRNO.io });
    expect(await kernel.lookup(node, 'none')).toMatchObject({ errno: ERRNO.io });
    expect(told).toHaveLength(2);
    for (const [hash, parts] of all) nodes.nodes.set(hash, parts);
    const a = await kernel.lookup(node, 'a');
    nodes.nodes.clear();
    expect((await kernel.readFile(a.node, 0, 4096)).errno).toBe(ERRNO.io);
    for (const [hash, parts] of all) nodes.nodes.set(hash, parts);
    expect((await kernel.readFile(a.node, 0, 4096)).body.toString()).toBe('a');
  });
});

test('a folder whose nodes say another thing than those above is EIO', async () => {
  const lying = async (nodes: MemoryNodes) => {
    const inner = await buildDirectory(nodes, [fileEntry('a')]);
    const entry = fileEntry('d', { ...inner, kind: 'directory', entryCount: 5 });
    return buildDirectory(nodes, [entry]);
  };
  await withMount(lying, async ({ kernel, told }) => {
    const { node } = await kernel.lookup(1, 'd');
    expect(await kernel.lookup(node, 'a')).toMatchObject({ errno: ERRNO.io });
    expect(String(told[0])).toContain('the node above says 5 entries');
  });
});

test('small files are read ahead of a program that takes them in a row, each once, and for no other', async () => {
  const many = Array.from({ length: 300 }, (_, index) => [`f${1000 + index}`, text(`${index}`)] as const);
  await withMount(folder(Object.fromEntries(many)), async ({ kernel, nodes }) => {
    const read = async (index: number): Promise<void> => {
      const { node } = await kernel.lookup(1, `f${1000 + index}`);
      expect((await kernel.readFile(node, 0, 4096)).body.toString()).toBe(`${index}`);
    };
    await read(150);
    // The index of the folder, a page, and the file.
    expect(nodes.reads).toHaveLength(3);
    for (let index = 0; index < 4; index += 1) await read(index);
    expect(nodes.reads.length).toBeGreaterThan(20);
    for (let index = 4; index < 300; index += 1) await read(index);
    expect(new Set(nodes.reads).size).toBe(nodes.reads.length);
  });
});
