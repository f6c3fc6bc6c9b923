/** Records whose proof is left to the caller: what comes as it is, and when its memory is given back. */
import { describe, expect, test } from 'bun:test';
import { RECORD_HEADER_BYTES } from '@holdfast/protocol';
import { VerificationError } from '../errors.ts';
import { ZSTD } from '../test/fake-bulk-fixture.ts';
import { FakeSpace, rejection } from '../test/fake-space-fixture.ts';
import {
  answer,
  HASHES,
  indexesOf,
  NODES,
  packOf,
  plain,
  withoutCanonical,
} from '../test/pack-answers-fixture.ts';
import type { Zstd } from './bulk.ts';
import type { BulkNode, UnprovenNode } from './read-nodes.ts';

describe('records', () => {
  const [LEFT = '', OTHER = ''] = HASHES.slice(2);
  const read = (space: FakeSpace, zstd: Zstd | undefined, given: Uint8Array[] = []) => {
    const memory = { give: (bytes: Uint8Array) => given.push(bytes) };
    return space
      .client({ zstd })
      .bulk.readRecords?.(HASHES, { isLeftUnproven: (hash) => [LEFT, OTHER].includes(hash), memory });
  };
  const collect = async (records: AsyncIterable<BulkNode | UnprovenNode> | undefined) => {
    const left: UnprovenNode[] = [];
    const proven: BulkNode[] = [];
    for await (const node of records ?? [])
      if ('prove' in node) left.push(node);
      else proven.push(node);
    return { left, proven };
  };

  test.each([false, true])('those that are left come as they are; compressed: %p', async (compressed) => {
    const space = new FakeSpace();
    space.plant('reads', () => answer(packOf([0, 1, 2, 3, 4, 5], compressed)));
    const { left, proven } = await collect(read(space, compressed ? ZSTD : undefined));
    expect(left.map(({ hash }) => hash)).toEqual([LEFT, OTHER]);
    expect(indexesOf(proven)).toEqual([0, 1, 4, 5]);
    expect(left.map(({ record }) => record.canonicalLength)).toEqual(
      [2, 3].map((index) => NODES[index]!.canonical.length),
    );
    const here = await Promise.all(left.map((node) => node.prove()));
    expect(here.map(plain)).toEqual([2, 3].map((index) => withoutCanonical(NODES[index]!)));
  });

  test('one that is left is found false by whoever proves it, the others stand', async () => {
    const space = new FakeSpace();
    const whole = packOf([2, 3]);
    whole[whole.length - 1]! ^= 1;
    space.plant(
      'reads',
      () => answer(whole),
      () => answer(packOf([])),
    );
    const { left } = await collect(read(space, undefined));
    expect((await left[0]?.prove())?.hash).toBe(LEFT);
    expect(await rejection(left[1]!.prove())).toBeInstanceOf(VerificationError);
  });

  test('a piece of an answer is given back when the last of its records is released, and only then', async () => {
    const space = new FakeSpace();
    const given: Uint8Array[] = [];
    const both = packOf([2, 3]);
    space.plant(
      'reads',
      () => answer(both),
      () => answer(packOf([])),
    );
    const { left } = await collect(read(space, undefined, given));
    const isGiven = (): boolean => given.some((bytes) => Buffer.compare(bytes, both) === 0);
    left[0]?.release();
    expect(isGiven()).toBe(false);
    left[1]?.release();
    expect(isGiven()).toBe(true);
  });

  test('a piece that a verified node is a view of is never given back', async () => {
    const space = new FakeSpace();
    const given: Uint8Array[] = [];
    const both = packOf([1, 2]);
    space.plant(
      'reads',
      () => answer(both),
      () => answer(packOf([])),
    );
    const { left, proven } = await collect(read(space, undefined, given));
    left[0]?.release();
    expect(proven).toHaveLength(1);
    expect(given.filter((bytes) => Buffer.compare(bytes, both) === 0)).toEqual([]);
  });

  test('a record that came in several pieces has memory of its own', async () => {
    const space = new FakeSpace();
    const given: Uint8Array[] = [];
    const whole = packOf([2]);
    space.plant(
      'reads',
      () => answer(whole.slice(0, 90), whole.slice(90)),
      () => answer(packOf([])),
    );
    const { left } = await collect(read(space, undefined, given));
    const before = given.length;
    left[0]?.release();
    expect(given.length).toBe(before + 1);
    expect(Buffer.from(given.at(-1)!)).toEqual(Buffer.from(NODES[2]!.canonical));
  });

  test('what came of a verified record is told, although its memory is gone by then', async () => {
    const space = new FakeSpace();
    const whole = packOf([1], true);
    space.plant(
      'reads',
      () => answer(whole.slice(0, 90), whole.slice(90)),
      () => answer(packOf([])),
    );
    const give = ({ buffer }: Uint8Array): void => void (buffer as ArrayBuffer).transfer(0);
    const records = space
      .client({ zstd: ZSTD })
      .bulk.readRecords?.(HASHES, { isLeftUnproven: () => false, memory: { give } });
    const { proven } = await collect(records);
    expect(proven.map(plain)).toEqual([withoutCanonical(NODES[1]!)]);
    expect(proven[0]?.storedBytes).toBe(whole.length - packOf([]).length - RECORD_HEADER_BYTES);
  });
});
