/** A node that is a record of a pack arrives in a copy with bytes of its own. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from '../../../test/support/canonical-node.ts';
import { packed, plain } from '../../../test/support/planted-pack.ts';
import { CoreWorld, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { PackClient } from '../core/test/pack-fixture.ts';
import { openUpload } from '../engine/test/samples.ts';
import type { ContentIntake, IntakeTarget } from '../engine/transfer-ports.ts';
import { carryNode, carryUpload } from './carry.ts';
import type { DamagedNode } from './events.ts';

let world: CoreWorld;
let client: PackClient;
beforeEach(async () => {
  world = await CoreWorld.open();
  client = new PackClient(world, false);
});
afterEach(() => world.close());

const INTEGRITY = new Uint8Array([7]);

/** A target that accepts any bytes of the right length. */
class Intake implements ContentIntake {
  readonly uploads = 'server';
  readonly taken: Uint8Array[] = [];
  readonly #isInline: boolean;

  constructor(isInline: boolean) {
    this.#isInline = isInline;
  }

  async take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>) {
    const bytes = await new Response(open()).bytes();
    expect(bytes.length).toBe(target.canonicalSize);
    this.taken.push(bytes);
    const inlineBytes = this.#isInline ? bytes : undefined;
    return { isRight: true, integrity: INTEGRITY, inlineBytes, release: async () => undefined } as const;
  }

  async isThere(): Promise<boolean> {
    return false;
  }
}

async function carry(node: CanonicalNode, target: ContentIntake, damaged: DamagedNode[] = []) {
  const [entry] = await world.core.metadata.findNodesWithContent(SPACE, [node.hash]);
  if (entry === undefined) throw new Error('the node has no row');
  const carrier = {
    ...{ source: world.core.content, target },
    onDamaged: (one: DamagedNode) => void damaged.push(one),
  };
  const arrival = await carryNode(carrier, SPACE, { row: entry.node, content: entry.content });
  return { from: entry.node, ...arrival.entry };
}

test.each([true, false])('the bytes of a node and their counts arrive (inline: %p)', async (isInline) => {
  const nodes = [smallNode(1), makeNode('x'.repeat(5_000))];
  await client.send(nodes, [plain(nodes[0] as CanonicalNode), packed(nodes[1] as CanonicalNode)]);
  for (const node of nodes) {
    const target = new Intake(isInline);
    const { from, row, content } = await carry(node, target);
    expect(from.storage).toBe('packed');
    expect(target.taken).toEqual([new Uint8Array(node.bytes)]);
    expect(row).toEqual({ ...from, storage: isInline ? 'inline' : 'object' });
    expect(content).toMatchObject({ generation: from.generation, integrity: INTEGRITY });
    expect(content?.packed).toBeUndefined();
  }
  const [, compressed] = nodes as [CanonicalNode, CanonicalNode];
  expect((await world.row(compressed))?.storedSize).toBeLessThan(compressed.bytes.length);
});

test('a damaged record arrives rotten, and is named', async () => {
  const node = smallNode(1);
  await client.send([node]);
  await client.spoil(node, 'flipped');
  const damaged: DamagedNode[] = [];
  const { row } = await carry(node, new Intake(true), damaged);
  expect(row).toMatchObject({ state: 'rotten', storage: 'object' });
  expect(damaged).toMatchObject([{ hash: node.hash, outcome: 'rotten' }]);
  await client.mend(node);
});

test('what the source saw of an upload stays behind', async () => {
  const row = { ...openUpload(smallNode(1).hash), seenBytes: 5 };
  const carrier = { source: world.core.content, target: new Intake(true), onDamaged: () => undefined };
  const { entry } = await carryUpload(carrier, SPACE, { row, content: undefined });
  expect(entry).toEqual({ row: { ...row, seenBytes: undefined }, content: undefined });
});
