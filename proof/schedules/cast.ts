/** The nodes of a schedule, made once: each schedule has a Space of its own. */
import { makeNode, seededBytes } from '../../test/support/canonical-node.ts';
import type { Cast } from './play.ts';

/** more than is kept as a row, less than packing leaves alone */
const OBJECT_BYTES = 33_000;

function makeCast(content: (seed: number) => Uint8Array | string): Cast {
  const target = makeNode(content(1));
  const siblings = [2, 3, 4].map((seed) => makeNode(content(seed)));
  return { target, siblings, parent: makeNode(content(5), { refs: [target.hash, target.hash] }) };
}

export const CASTS = {
  inline: makeCast((seed) => `a small node ${seed}`),
  object: makeCast((seed) => seededBytes(OBJECT_BYTES, seed)),
} as const;

export type CastName = keyof typeof CASTS;
