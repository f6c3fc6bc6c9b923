import { expect, spyOn, test } from 'bun:test';
import { type FileHandle, open } from 'node:fs/promises';
import fc from 'fast-check';
import { makeNode } from '../../../test/support/canonical-node.ts';
import { CountParts } from './count-parts.ts';
import type { CountTaker } from './walk-counts.ts';

/** Records its calls. */
function takerOf(told: unknown[]): CountTaker {
  const note =
    (kind: string) =>
    (...values: readonly unknown[]): void =>
      void told.push([kind, ...values]);
  return {
    addRow: note('row'),
    addEdge: (hash, _parent, isParentReady) => note('edge')(hash, isParentReady),
    ...{ addLoose: note('loose'), addBalance: note('balance'), settle() {} },
  };
}

const HASH = fc.nat(99).map((seed) => makeNode(`node ${seed}`).hash);
const COUNT = fc.maxSafeInteger();
const KEPT = fc.record({ childRefCount: COUNT, rootRefCount: COUNT, heldDomainCount: COUNT });
const SAID = fc.oneof(
  fc.tuple(fc.constant('row'), HASH, KEPT),
  fc.tuple(fc.constant('edge'), HASH, fc.boolean()),
  fc.tuple(fc.constant('loose'), HASH, COUNT),
  fc.tuple(fc.constant('balance'), HASH, COUNT),
);

test('parts tell of each hash what they were told, in the same order, whether in memory or in a file', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(SAID, { maxLength: 300 }),
      fc.constantFrom(0, 2000, 1e6),
      async (said, memory) => {
        const parts = new CountParts(memory);
        for (const [kind, hash, value] of said) {
          if (kind === 'row') parts.addRow(hash, value as never);
          else if (kind === 'edge') parts.addEdge(hash, hash, value as boolean);
          else if (kind === 'loose') parts.addLoose(hash, value as number);
          else parts.addBalance(hash, value as number);
          await parts.settle();
        }
        const told: unknown[] = [];
        for (const part of parts.sizes.keys()) await parts.tell(part, takerOf(told), () => true);
        await parts.close();
        const byHash = (all: readonly unknown[]) =>
          Object.groupBy(all as [string, string][], ([, hash]) => hash);
        expect(byHash(told)).toEqual(byHash(said));
        expect(parts.sizes.reduce((sum, entries) => sum + entries, 0)).toBe(said.length);
      },
    ),
    { numRuns: 50 },
  );
});

test('what a disk writes and reads in pieces is whole', async () => {
  const anyFile = await open(import.meta.path);
  const files: FileHandle = Object.getPrototypeOf(anyFile);
  const { read, write } = files as unknown as Record<'read' | 'write', (...given: unknown[]) => unknown>;
  const inPieces = (step: typeof read) =>
    function (this: FileHandle, bytes: unknown, at: unknown, length: unknown, position: unknown) {
      return step.call(this, bytes, at, Math.min(length as number, 7), position);
    };
  const spies = [
    spyOn(files, 'read').mockImplementation(inPieces(read) as never),
    spyOn(files, 'write').mockImplementation(inPieces(write) as never),
  ];
  try {
    const parts = new CountParts(0);
    const hash = makeNode('node').hash;
    for (const balance of [1, 2, 3]) {
      parts.addBalance(hash, balance);
      await parts.settle();
    }
    const told: unknown[] = [];
    for (const part of parts.sizes.keys()) await parts.tell(part, takerOf(told), () => true);
    await parts.close();
    expect(told).toEqual([1, 2, 3].map((balance) => ['balance', hash, balance]));
  } finally {
    for (const spy of spies) spy.mockRestore();
    await anyFile.close();
  }
});
