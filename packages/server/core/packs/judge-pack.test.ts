/** A judgement that gives way to others, and goes on where it stopped. */

import { expect, test } from 'bun:test';
import { HASH_BYTES, MIB_BYTES, NODE_REFS_MAX, PACK_REFS_MAX } from '@holdfast/protocol';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import { makePack, packed, plain } from '../../../../test/support/planted-pack.ts';
import { unzstd } from '../../engine/packed-object.ts';
import type { JudgedPack, JudgingTurns, PackObject, PackStore } from '../pack-ports.ts';
import { SPACE } from '../test/core-fixture.ts';
import { PackJudgements } from './judge-pack.ts';

const PACK = `${'0'.repeat(11)}1${'0'.repeat(20)}`;
const LIMITS = { nodeBytesMax: 8 * MIB_BYTES };
const leaves = Array.from({ length: 12 }, (_, index) => makeNode(new Uint8Array(3 * MIB_BYTES).fill(index)));
const refs = leaves.map(({ hash }) => hash);
const parent = makeNode('the parent', { refs });
const nodes = [parent, ...leaves];
const records = nodes.map((node, index) =>
  index === 5 ? { ...plain(node), stored: node.bytes.map((byte) => byte ^ 1) } : packed(node),
);
const thePack = makePack(records);

interface Watched {
  readonly turns: JudgingTurns;
  entered: boolean[];
}

/** Every `each`-th turn the pack has to give its place to another. */
function givingWay(each: number): Watched {
  let turn = 0;
  const entered: boolean[] = [];
  return {
    entered,
    turns: {
      async enter(_space, isAgain) {
        entered.push(isAgain);
        return {
          leave: () => undefined,
          nextTurn: async () => {
            turn += 1;
            return turn % each !== 0;
          },
        };
      },
    },
  };
}

/** A store with this pack; `version` of its object tells what reads differently. */
function storeOf(versions: readonly string[] = [''], bytes = thePack): PackStore {
  let reads = 0;
  const store: Partial<PackStore> = {
    inspect(_space, _generation, judge) {
      const version = versions[Math.min(reads, versions.length - 1)] ?? '';
      reads += 1;
      const object: PackObject = {
        bytes: bytes.length,
        integrityOf: (stored) => Buffer.from(`${version} ${stored.length}`),
        async *read() {
          for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
        },
      };
      return judge(object);
    },
  };
  return store as PackStore;
}

function judgeWith(turns: JudgingTurns, store: PackStore) {
  const unpacked: number[] = [];
  const counting: typeof unzstd = (stored, length, frame) => {
    unpacked.push(length);
    return unzstd(stored, length, frame);
  };
  const judging = new PackJudgements(counting, turns).judge(store, SPACE, PACK, LIMITS);
  return { judging, unpacked };
}

test('a pack that gives way again and again is judged as ever, and nothing is unpacked twice', async () => {
  const undisturbed = judgeWith(givingWay(1_000).turns, storeOf());
  const { turns, entered } = givingWay(2);
  const disturbed = judgeWith(turns, storeOf());
  expect(await disturbed.judging).toEqual(await undisturbed.judging);
  expect(disturbed.unpacked).toEqual(undisturbed.unpacked);
  expect((await disturbed.judging)?.records.at(-1)?.hash).toBe(parent.hash);
  expect([entered.slice(0, 2), entered.length > 2]).toEqual([[false, true], true]);
});

test('another object under the same key is judged from its beginning', async () => {
  const { judging } = judgeWith(givingWay(4).turns, storeOf(['first', 'second', 'third']));
  const versions = (await judging)?.records.map(
    ({ integrity }) => Buffer.from(integrity).toString().split(' ')[0],
  );
  expect(new Set(versions)).toEqual(new Set(['third']));
});

test('who asks while a pack is judged gets that judgement', async () => {
  const store = storeOf();
  const judgements = new PackJudgements(unzstd, givingWay(1_000).turns);
  const judge = () => judgements.judge(store, SPACE, PACK, LIMITS);
  const first = judge();
  await Promise.resolve();
  await Promise.resolve();
  const second = judge();
  expect(await second).toBe((await first) as JudgedPack);
});

test('the record that passes the limit of refs is no record of the pack', async () => {
  const most = Array.from({ length: NODE_REFS_MAX }, () => parent.hash);
  const full = Array.from({ length: PACK_REFS_MAX / NODE_REFS_MAX + 1 }, (_, index) =>
    makeNode(`node ${index}`, { refs: most }),
  );
  const { judging } = judgeWith(givingWay(1_000).turns, storeOf([''], makePack(full.map(plain))));
  const judged = await judging;
  expect(judged?.verdicts.broken).toBeDefined();
  expect(judged?.verdicts.hashes.length).toBe((full.length - 1) * HASH_BYTES);
  expect(judged?.records.length).toBe(full.length - 1);
});
