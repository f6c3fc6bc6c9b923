/** Steps with packs, beside those of single nodes. */
import fc from 'fast-check';
import { POOL } from './node-pool.ts';

interface Nodes {
  readonly space: number;
  readonly nodes: readonly number[];
}

export type PackStep =
  | ({ readonly do: 'leaseNodes'; readonly durationMs: number; readonly wantsPack: boolean } & Nodes)
  | ({ readonly do: 'sendPack'; readonly durationMs: number; readonly isPacked: boolean } & Nodes)
  | {
      readonly do: 'putPack';
      readonly pick: number;
      readonly nodes: readonly number[];
      readonly isPacked: boolean;
      /** one of the nodes, the last byte of which is wrong */
      readonly spoilt: number | undefined;
      readonly isCut: boolean;
    }
  | {
      readonly do: 'leasePack';
      readonly pick: number;
      readonly durationMs: number;
      readonly crashes: boolean;
    }
  | ({ readonly do: 'readNodes'; readonly acceptsZstd: boolean } & Nodes)
  | { readonly do: 'compact'; readonly crashes: boolean }
  | { readonly do: 'packSmall'; readonly crashes: boolean };

const DO: ReadonlySet<string> = new Set([
  'leaseNodes',
  'sendPack',
  'putPack',
  'leasePack',
  'readNodes',
  'compact',
  'packSmall',
]);

export function isPackStep(step: { readonly do: string }): step is PackStep {
  return DO.has(step.do);
}

const space = fc.constantFrom(0, 0, 0, 1);
const nodes = fc.uniqueArray(fc.nat({ max: POOL.length - 1 }), { minLength: 1, maxLength: 5 });
const all = fc.constant(POOL.map((_, index) => index));
const durationMs = fc.constantFrom(1, 60_000, 90_000, 600_000, 86_400_000);
const pick = fc.oneof(
  { arbitrary: fc.nat({ max: 1 }), weight: 3 },
  { arbitrary: fc.nat({ max: 20 }), weight: 1 },
);
const rarely = fc.constantFrom(false, false, false, true);
const some = fc.oneof({ arbitrary: nodes, weight: 3 }, { arbitrary: all, weight: 1 });

export const packStepArbitrary: fc.Arbitrary<PackStep | { readonly do: 'advance'; readonly ms: number }> =
  fc.oneof(
    {
      weight: 10,
      arbitrary: fc.record({
        do: fc.constant('sendPack' as const),
        space,
        nodes: some,
        durationMs,
        isPacked: fc.boolean(),
      }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('leaseNodes' as const),
        space,
        nodes: some,
        durationMs,
        wantsPack: fc.boolean(),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('putPack' as const),
        pick,
        nodes: some,
        isPacked: fc.boolean(),
        spoilt: fc.option(fc.nat({ max: 5 }), { nil: undefined }),
        isCut: rarely,
      }),
    },
    {
      weight: 7,
      arbitrary: fc.record({ do: fc.constant('leasePack' as const), pick, durationMs, crashes: rarely }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('readNodes' as const),
        space,
        nodes: some,
        acceptsZstd: fc.boolean(),
      }),
    },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('compact' as const), crashes: rarely }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('packSmall' as const), crashes: rarely }) },
    // Dead bytes are moved away by then, whatever is live beside them.
    { weight: 1, arbitrary: fc.constant({ do: 'advance' as const, ms: 6 * 86_400_000 + 1 }) },
  );

/** Short stories that chance alone would seldom tell. */
export const packEpisodes = fc
  .record({
    space,
    nodes,
    durationMs,
    crashes: fc.boolean(),
    isPacked: fc.boolean(),
    spoilt: fc.constantFrom(undefined, undefined, 0, 1),
    kind: fc.constantFrom(
      'publish' as const,
      'publish' as const,
      'collect' as const,
      'rot' as const,
      'full' as const,
      'single' as const,
    ),
  })
  .map(({ space, nodes, durationMs, crashes, isPacked, spoilt, kind }) => {
    const open = { do: 'leaseNodes' as const, space, nodes, durationMs, wantsPack: true };
    const lease = { do: 'leasePack' as const, pick: 0, durationMs: 60_000, crashes: false };
    const send = { do: 'sendPack' as const, space, nodes, durationMs: 1, isPacked };
    const read = { do: 'readNodes' as const, space, nodes, acceptsZstd: isPacked };
    const put = { do: 'putPack' as const, pick: 0, nodes, isPacked, spoilt, isCut: false };
    const outlive = { do: 'advance' as const, ms: 60_001 };
    const collect = { do: 'gc' as const, space, maxNodes: 100, failAfter: undefined };
    const damage = { do: 'damage' as const, space, node: nodes[0] ?? 0, how: 'flipped' as const };
    // Children first, so that a parent becomes ready.
    const singles = [...nodes, ...nodes].sort((left, right) => left - right);
    const uploads = singles.map((node) => ({ do: 'upload' as const, space, node, durationMs }));
    const packSmall = { do: 'packSmall' as const, crashes };
    return {
      single: [
        ...uploads,
        { do: 'advance' as const, ms: 1 },
        packSmall,
        read,
        { ...packSmall, crashes: false },
      ],
      publish: [open, put, { ...lease, crashes }, lease],
      collect: [send, outlive, collect, lease],
      rot: [send, damage, read],
      full: [0, 1, 2, 3].map((node) => ({ ...open, nodes: [node] })),
    }[kind];
  });
