/** The behaviour of every ContentIntake, as tests (engine/transfer-ports.ts). An engine calls this with a way to open its intake. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { ContentStore } from '../../core/ports.ts';
import { ContentDamaged, StoreUnavailable } from '../../core/store-failure.ts';
import type { ContentIntake, IntakeTarget } from '../transfer-ports.ts';
import { newGeneration, SPACE, sampleNode } from './samples.ts';

export interface IntakeBench {
  readonly intake: ContentIntake;
  /** over the same bytes */
  readonly store: ContentStore;
  destroy(): Promise<void>;
}

const SIZES = [1, 100, 40_000, 262_144, 3_000_001];
const LARGE_BYTES = 700_000;
const PIECE_BYTES = 100_000;
const LIMITS = { nodeBytesMax: 64 * 1024 * 1024 };

/** In pieces, then `end`, which may fail. */
function streamOf(bytes: Uint8Array, end?: Error): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (position < bytes.length) controller.enqueue(bytes.slice(position, position + PIECE_BYTES));
        else if (end === undefined) controller.close();
        else throw end;
        position += PIECE_BYTES;
      },
    },
    { highWaterMark: 0 },
  );
}

export function testContentIntake(engine: string, open: () => Promise<IntakeBench>): void {
  describe(`ContentIntake: ${engine}`, () => {
    let bench: IntakeBench;
    beforeEach(async () => {
      bench = await open();
    });
    afterEach(() => bench.destroy());

    const targetOf = (bytes: number, seed: number): { target: IntakeTarget; node: Uint8Array } => {
      const { hash, node } = sampleNode(bytes, seed);
      return {
        target: { space: SPACE, generation: newGeneration(), hash, canonicalSize: node.length },
        node,
      };
    };

    const isKept = async ({ generation, hash, canonicalSize }: IntakeTarget): Promise<boolean> => {
      const object = { space: SPACE, generation, canonicalSize, integrity: new Uint8Array(0) };
      const { found } = await bench.store.inspect(SPACE, generation, hash, LIMITS);
      return found || bench.intake.isThere(object);
    };

    async function takeWell(target: IntakeTarget, node: Uint8Array) {
      const taken = await bench.intake.take(target, () => streamOf(node));
      if (!taken.isRight) throw new Error('right bytes were turned down');
      return taken;
    }

    test('takes bytes of any size, and makes the record by which they are read', async () => {
      for (const [index, size] of SIZES.entries()) {
        const { target, node } = targetOf(size, index);
        const { integrity, inlineBytes, release } = await takeWell(target, node);
        if (inlineBytes === undefined) {
          const object = { ...target, integrity };
          expect(await bench.intake.isThere(object)).toBe(true);
          expect(await bench.intake.isThere({ ...object, canonicalSize: node.length + 1 })).toBe(false);
          await bench.store.verify(object, target.hash);
        } else {
          expect(inlineBytes).toEqual(node);
          const { generation, canonicalSize } = target;
          bench.store.verifyInline({ generation, canonicalSize, integrity, inlineBytes, urlExpiresAt: 0 });
        }
        await release();
      }
    });

    test('takes the same bytes again under the same key, with the same record', async () => {
      const { target, node } = targetOf(LARGE_BYTES, 1);
      const first = await takeWell(target, node);
      const second = await takeWell(target, node);
      expect(second.integrity).toEqual(first.integrity);
      await bench.store.verify({ ...target, integrity: second.integrity }, target.hash);
    });

    test('keeps nothing of bytes that do not have the hash', async () => {
      for (const at of [0, LARGE_BYTES - 1]) {
        const { target, node } = targetOf(LARGE_BYTES, 2);
        const wrong = node.slice();
        wrong[at] = (wrong[at] as number) ^ 1;
        expect(await bench.intake.take(target, () => streamOf(wrong))).toEqual({ isRight: false });
        expect(await isKept(target)).toBe(false);
        await takeWell(target, node);
      }
    });

    test('keeps nothing of a stream that fails, and passes its error on', async () => {
      for (const error of [new ContentDamaged('bad block'), new StoreUnavailable('away'), new Error('odd')]) {
        const { target, node } = targetOf(LARGE_BYTES, 3);
        for (const part of [0, 350_000, node.length]) {
          const taking = bench.intake.take(target, () => streamOf(node.subarray(0, part), error));
          expect(await taking.catch((caught: unknown) => caught)).toBe(error);
          expect(await isKept(target)).toBe(false);
        }
        await takeWell(target, node);
      }
    });

    test('does not find an object that is not there', async () => {
      const { target } = targetOf(LARGE_BYTES, 4);
      expect(await isKept(target)).toBe(false);
    });
  });
}
