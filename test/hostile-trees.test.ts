/**
 * Trees that no push makes are put into a real server node by node, without the product's codecs. Every command that reads
 * trees refuses them in one line, and never writes outside the target.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { APP } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'hostile';
const TYPE = 'application/vnd.holdfast.tree.';
let commands: TreeCommands;
beforeAll(async () => {
  commands = await TreeCommands.start('hostile');
});
afterAll(() => commands.remove());

async function store(...nodes: CanonicalNode[]): Promise<string> {
  const client = commands.running.client(SPACE);
  for (const node of nodes) expect((await client.store(node)).json.state).toBe('ready');
  return nodes.at(-1)!.hash;
}

interface Entry {
  readonly name: string | Uint8Array;
  readonly node: CanonicalNode;
  /** 1 file, 2 directory, 3 link */
  readonly kind?: number;
  readonly flags?: number;
  readonly bytes?: number;
  /** below a directory */
  readonly entries?: number;
}

const plain = makeNode('hostile bytes', { contentType: `${TYPE}file.v1` });

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function makeDirectory(entries: readonly Entry[], header = Uint8Array.of(1, 0, 0, 0)): CanonicalNode {
  const parts = entries.flatMap(
    ({ name, node, kind = 1, flags = 0, bytes = node.content.length, entries: below }) => {
      const raw = Buffer.from(name as string);
      return [
        Uint8Array.of(kind, flags),
        u16(raw.length),
        raw,
        u64(bytes),
        ...(kind === 2 ? [u64(below ?? 0)] : []),
      ];
    },
  );
  return makeNode(new Uint8Array(Buffer.concat([header, ...parts])), {
    contentType: `${TYPE}directory.v1`,
    refs: entries.map(({ node }) => node.hash),
  });
}

const hostile: readonly [string, CanonicalNode, RegExp][] = [
  ['..', makeDirectory([{ name: '..', node: plain }]), /a name is '\.\.'/],
  ['.', makeDirectory([{ name: '.', node: plain }]), /a name is '\.'/],
  ['a path upwards', makeDirectory([{ name: '../escaped', node: plain }]), /holds '\/'/],
  ['an absolute path', makeDirectory([{ name: '/tmp/escaped', node: plain }]), /holds '\/'/],
  ['NUL', makeDirectory([{ name: 'escaped\0', node: plain }]), /NUL/],
  ['an empty name', makeDirectory([{ name: '', node: plain }]), /empty/],
  [
    'a name twice',
    makeDirectory([
      { name: 'a', node: plain },
      { name: 'a', node: plain },
    ]),
    /twice/,
  ],
  [
    'unsorted names',
    makeDirectory([
      { name: 'b', node: plain },
      { name: 'a', node: plain },
    ]),
    /not sorted/,
  ],
  ['an unknown kind', makeDirectory([{ name: 'a', node: plain, kind: 9 }]), /unknown kind 9/],
  ['unknown flags', makeDirectory([{ name: 'a', node: plain, flags: 0x80 }]), /unknown flags/],
  ['another version', makeDirectory([{ name: 'a', node: plain }], Uint8Array.of(2, 0, 0, 0)), /version 2/],
  [
    'fewer bytes than refs',
    makeNode(Uint8Array.of(1, 0, 0, 0), { contentType: `${TYPE}directory.v1`, refs: [plain.hash] }),
    /ends at byte/,
  ],
];

describe.each(hostile)('a tree with %s', (_, root, reason) => {
  test('is refused by every command in one line', async () => {
    await store(plain, root);
    const target = commands.fresh();
    expect(await commands.runBadly(1, SPACE, 'pull', root.hash, target, '--quiet')).toMatch(reason);
    expect(existsSync(target)).toBe(false);
    const lines = ['ls', 'tree', 'du'].map((command) => commands.runBadly(1, SPACE, command, root.hash));
    for (const line of await Promise.all(lines)) expect(line).toMatch(reason);
    const verified = await commands.run(SPACE, 'verify', root.hash, '--quiet');
    expect([verified.exitCode, verified.stdout]).toEqual([1, expect.stringMatching(reason)]);
  });
});

test('a hostile directory below a good one leaves nothing outside', async () => {
  const bad = makeDirectory([{ name: '../../escaped', node: plain }]);
  const { length } = plain.content;
  const good = makeDirectory([
    { name: 'a', node: plain },
    { name: 'sub', node: bad, kind: 2, bytes: length, entries: 1 },
  ]);
  await store(plain, bad, good);
  const target = commands.fresh();
  expect(await commands.runBadly(1, SPACE, 'pull', good.hash, target, '--quiet')).toMatch(
    /^holdfast: sub: .*holds '\/'/,
  );
  const written = readdirSync(target, { recursive: true }).toSorted();
  expect([['a', 'sub'], ['sub'], []]).toContainEqual(written.map(String));
  expect(existsSync(join(target, '..', 'escaped'))).toBe(false);
});

test('a directory that says more than it has, or less, is refused', async () => {
  const inner = makeDirectory([{ name: 'a', node: plain }]);
  for (const [bytes, said] of [
    [plain.content.length + 1, '1 entry'],
    [plain.content.length, '2 entries'],
  ] as const) {
    const outer = makeDirectory([
      { name: 'sub', node: inner, kind: 2, bytes, entries: Number.parseInt(said, 10) },
    ]);
    await store(plain, inner, outer);
    const line = await commands.runBadly(1, SPACE, 'pull', outer.hash, commands.fresh(), '--quiet');
    expect(line).toContain(`the node above says ${said} and ${bytes} bytes`);
    expect((await commands.run(SPACE, 'verify', outer.hash, '--quiet')).stdout).toMatch(/^sub: /);
  }
});

test('a file of another size than its entry says never gets its name', async () => {
  const root = makeDirectory([{ name: 'a', node: plain, bytes: 5 }]);
  await store(plain, root);
  const target = commands.fresh();
  expect(await commands.runBadly(1, SPACE, 'pull', root.hash, target, '--quiet')).toMatch(/^holdfast: a: /);
  expect(readdirSync(target)).toEqual([]);
});

test('a pull follows no link of the tree and none that is in the target', async () => {
  const outside = commands.fresh('outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'f'), 'mine');
  const link = makeNode(outside, { contentType: `${TYPE}symlink.v1` });
  const tree = makeDirectory([{ name: 'd', node: link, kind: 3 }]);
  const inner = makeDirectory([{ name: 'f', node: plain }]);
  const through = makeDirectory([
    { name: 'd', node: inner, kind: 2, bytes: plain.content.length, entries: 1 },
  ]);
  await store(link, tree);
  await store(plain, inner, through);
  const target = commands.fresh();
  // First the link, then a tree that has a folder in its place.
  await commands.runWell(SPACE, 'pull', tree.hash, target, '--quiet');
  expect(lstatSync(join(target, 'd')).isSymbolicLink()).toBe(true);
  expect(await commands.runBadly(1, SPACE, 'pull', through.hash, target, '--quiet')).toContain(
    'd: a link stands',
  );
  await commands.runWell(SPACE, 'pull', through.hash, target, '--quiet', '--force');
  expect(lstatSync(join(target, 'd')).isDirectory()).toBe(true);
  expect([readFileSync(join(outside, 'f'), 'utf8'), readdirSync(outside)]).toEqual(['mine', ['f']]);
  // DIR itself may be reached through a link: the user named it.
  const alias = commands.fresh('alias');
  symlinkSync(target, alias);
  expect(
    (await runHoldfast(['pull', through.hash, alias], { environment: commands.environment(SPACE) })).exitCode,
  ).toBe(0);
});

test('a thousand nested directories are pulled, verified and read', async () => {
  let node = makeDirectory([{ name: 'bottom', node: plain }]);
  const nodes = [plain, node];
  for (let level = 1; level <= 1_000; level += 1) {
    node = makeDirectory([{ name: 'd', node, kind: 2, bytes: plain.content.length, entries: level }]);
    nodes.push(node);
  }
  const { server, issuer } = commands.running;
  await makeBulkClient(server.url, APP, SPACE, issuer.token(SPACE)).send(nodes);
  const root = node.hash;
  const target = commands.fresh();
  await commands.runWell(SPACE, 'pull', root, target, '--quiet');
  const found = Bun.spawnSync(['find', target, '-name', 'bottom', '-printf', '%d']);
  expect(found.stdout.toString()).toBe('1001');
  expect((await commands.run(SPACE, 'verify', root, '--quiet')).exitCode).toBe(0);
  expect(await commands.runWell(SPACE, 'cat', `${root}${'/d'.repeat(1_000)}/bottom`)).toBe('hostile bytes');
}, 300_000);
