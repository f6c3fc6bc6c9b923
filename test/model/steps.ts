/**
 * The steps of a random sequence: plain data, so that a failing run shrinks well and prints as it is. Numbers that
 * pick (`space`, `node`, `pick`) are taken modulo what there is when the step runs; a step with nothing to pick does
 * nothing.
 */
import fc from 'fast-check';
import { POOL, type PoolNode } from './node-pool.ts';
import { type PackStep, packEpisodes, packStepArbitrary } from './pack-steps.ts';

export type BodyKind = 'good' | 'other' | 'truncated' | 'oversized' | 'empty';
export type HeaderKind = 'right' | 'no-if-none-match' | 'wrong-if-none-match' | 'wrong-type' | 'no-type';
export type RangeKind =
  | { readonly kind: 'none' }
  | { readonly kind: 'bounded'; readonly start: number; readonly length: number }
  | { readonly kind: 'open'; readonly start: number }
  | { readonly kind: 'suffix'; readonly count: number }
  | { readonly kind: 'bad'; readonly text: string };

interface Target {
  readonly space: number;
  readonly node: number;
}

export type NodeStep =
  | ({ readonly do: 'lease'; readonly durationMs: number } & Target)
  | ({ readonly do: 'leaseTogether'; readonly durationsMs: readonly number[] } & Target)
  | ({ readonly do: 'upload'; readonly durationMs: number } & Target)
  | ({ readonly do: 'read'; readonly range: RangeKind } & Target)
  | ({ readonly do: 'damage'; readonly how: 'flipped' | 'lost' } & Target)
  | ({ readonly do: 'mend' } & Target)
  | {
      readonly do: 'gc';
      readonly space: number;
      readonly maxNodes: number;
      readonly failAfter: number | undefined;
    };

export type UploadStep =
  | {
      readonly do: 'put';
      readonly pick: number;
      readonly body: BodyKind;
      readonly headers: HeaderKind;
      readonly declared: boolean;
    }
  | { readonly do: 'forge'; readonly pick: number; readonly at: number }
  | { readonly do: 'beginPut'; readonly pick: number; readonly body: BodyKind; readonly declared: boolean }
  | { readonly do: 'finishPut'; readonly pick: number }
  | { readonly do: 'abortPut'; readonly pick: number };

interface DomainTarget {
  readonly space: number;
  readonly domain: number;
}

export type RootRefStep =
  | ({
      readonly do: 'commit';
      readonly changes: readonly (readonly [node: number, delta: number])[];
    } & DomainTarget)
  | { readonly do: 'replay'; readonly pick: number; readonly alter: boolean }
  | ({ readonly do: 'page'; readonly limit: number } & DomainTarget)
  | {
      readonly do: 'nextPage';
      readonly pick: number;
      readonly limit: number;
      readonly scope: 'own' | 'space' | 'domain';
    }
  | ({ readonly do: 'forgedCursor'; readonly pick: number; readonly at: number } & DomainTarget);

export type WorldStep =
  | { readonly do: 'advance'; readonly ms: number }
  | ({ readonly do: 'advanceToExpiry'; readonly off: number } & Target)
  | { readonly do: 'sweep' }
  | { readonly do: 'scrub' }
  | { readonly do: 'restart' };

export type Step = NodeStep | UploadStep | RootRefStep | WorldStep | PackStep;

/** One sequence: a few nodes, so that steps meet, and what is done with them. */
export interface Sequence {
  /** names of the nodes that `node` picks from */
  readonly focus: readonly string[];
  readonly steps: readonly Step[];
}

/** Families whose members have something to do with each other. */
const FAMILIES: readonly (readonly string[])[] = [
  ['leafA'],
  ['largest'],
  ['leafA', 'leafB', 'twice'],
  ['leafA', 'leafB', 'twice', 'twice'],
  ['largest', 'empty', 'leafB', 'wide'],
  ['largest', 'wide', 'largest', 'leafB', 'empty', 'grand', 'leafA', 'twice'],
  ['invalid', 'orphan', 'leafA'],
  ['tooLarge', 'leafA', 'largest'],
  POOL.map(({ name }) => name),
];

export function findFocus({ focus }: Sequence): readonly PoolNode[] {
  return focus.flatMap((name) => POOL.filter((node) => node.name === name));
}

const space = fc.constantFrom(0, 0, 0, 1);
const node = fc.nat({ max: POOL.length - 1 });
const domain = fc.nat({ max: 1 });
const pick = fc.oneof(
  { arbitrary: fc.nat({ max: 2 }), weight: 3 },
  { arbitrary: fc.nat({ max: 30 }), weight: 1 },
);
const durationMs = fc.constantFrom(1, 60_000, 90_000, 600_000, 86_400_000, 90_000_000);
const body: fc.Arbitrary<BodyKind> = fc.constantFrom(
  'good',
  'good',
  'good',
  'other',
  'truncated',
  'oversized',
  'empty',
);
const headers: fc.Arbitrary<HeaderKind> = fc.constantFrom(
  ...([
    'right',
    'right',
    'right',
    'right',
    'no-if-none-match',
    'wrong-if-none-match',
    'wrong-type',
    'no-type',
  ] as const),
);
const range: fc.Arbitrary<RangeKind> = fc.oneof(
  { arbitrary: fc.constant({ kind: 'none' } as const), weight: 3 },
  fc.record({
    kind: fc.constant('bounded' as const),
    start: fc.nat({ max: 400 }),
    length: fc.nat({ max: 400 }),
  }),
  fc.record({ kind: fc.constant('open' as const), start: fc.nat({ max: 100_000 }) }),
  fc.record({ kind: fc.constant('suffix' as const), count: fc.nat({ max: 200_000 }) }),
  fc.record({
    kind: fc.constant('bad' as const),
    text: fc.constantFrom(
      'bytes=',
      'bytes=5-2',
      'bytes=0-1,3-4',
      'items=0-1',
      'bytes=a-b',
      'bytes=-',
      'bytes=0 -1',
    ),
  }),
);
const delta = fc.constantFrom(-2, -1, -1, 0, 1, 1, 2, 1_000_000);
/** A day, and the minute that old revisions are kept beyond it. */
const HISTORY_IS_OVER_MS = 86_460_001;
const ADVANCES_MS = [
  1, 1000, 59_999, 60_000, 60_001, 60_001, 60_001, 300_001, 300_001, 3_600_000, 43_200_000, 86_400_001,
];

/** Weights lean towards what moves the machine on; the rare steps are the expensive or the destructive ones. */
const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  { weight: 14, arbitrary: fc.record({ do: fc.constant('upload' as const), space, node, durationMs }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('lease' as const), space, node, durationMs }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('leaseTogether' as const),
      space,
      node,
      durationsMs: fc.array(durationMs, { minLength: 2, maxLength: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('read' as const), space, node, range }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('damage' as const),
      space,
      node,
      how: fc.constantFrom('flipped', 'lost'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('mend' as const), space, node }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('gc' as const),
      space,
      maxNodes: fc.constantFrom(1, 2, 3, 100),
      failAfter: fc.constantFrom(undefined, undefined, undefined, 0, 1),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constant('put' as const), pick, body, headers, declared: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forge' as const), pick, at: fc.nat({ max: 200 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('beginPut' as const), pick, body, declared: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('finishPut' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('abortPut' as const), pick }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      space,
      domain,
      changes: fc.uniqueArray(fc.tuple(node, delta), {
        selector: ([index]) => index,
        minLength: 1,
        maxLength: 3,
      }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('replay' as const), pick, alter: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('page' as const),
      space,
      domain,
      limit: fc.constantFrom(1, 1, 2, 200),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('nextPage' as const),
      pick,
      limit: fc.constantFrom(1, 2, 200),
      scope: fc.constantFrom(
        'own' as const,
        'own' as const,
        'own' as const,
        'space' as const,
        'domain' as const,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('forgedCursor' as const),
      space,
      domain,
      pick,
      at: fc.nat({ max: 200 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(...ADVANCES_MS) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('advanceToExpiry' as const),
      space,
      node,
      off: fc.constantFrom(-1, 0, 1),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('sweep' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('scrub' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
);

/** Short stories that chance alone would seldom tell; single steps come between and into them. */
function makeEpisodes(): fc.Arbitrary<readonly Step[]> {
  const upload = (space: number, node: number): Step => ({ do: 'upload', space, node, durationMs: 60_000 });
  const read = (space: number, node: number): Step => ({ do: 'read', space, node, range: { kind: 'none' } });
  const uploadAll = (space: number): Step[] => POOL.map((_, node) => upload(space, node));
  const outlive: Step = { do: 'advance', ms: 60_001 };
  const rot = fc
    .record({
      space,
      node,
      how: fc.constantFrom('flipped' as const, 'lost' as const),
      scrubbed: fc.boolean(),
    })
    .map(({ space, node, how, scrubbed }): Step[] => [
      upload(space, node),
      { do: 'damage', space, node, how },
      scrubbed ? { do: 'scrub' } : read(space, node),
    ]);
  const heal = fc
    .record({ space, node })
    .map(({ space, node }): Step[] => [upload(space, node), read(space, node)]);
  const mended = fc
    .record({ space, node })
    .map(({ space, node }): Step[] => [{ do: 'mend', space, node }, { do: 'scrub' }]);
  const fillAndCollect = fc
    .record({ space, maxNodes: fc.constantFrom(1, 2, 3, 100), failAfter: fc.constantFrom(undefined, 0, 1) })
    .map(({ space, maxNodes, failAfter }): Step[] => [
      ...uploadAll(space),
      ...uploadAll(space),
      outlive,
      { do: 'gc', space, maxNodes, failAfter },
    ]);
  const walk = fc
    .record({
      space,
      domain,
      late: fc.constantFrom(0, 0, HISTORY_IS_OVER_MS),
      between: fc.array(fc.tuple(node, delta), { minLength: 1, maxLength: 2 }),
    })
    .map(({ space, domain, late, between }): Step[] => [
      ...uploadAll(space),
      { do: 'commit', space, domain, changes: [[0, 1]] },
      { do: 'commit', space, domain, changes: [[1, 2]] },
      { do: 'page', space, domain, limit: 1 },
      { do: 'commit', space, domain, changes: [[1, 1]] },
      { do: 'commit', space, domain, changes: between },
      { do: 'advance', ms: late },
      { do: 'nextPage', pick: 0, limit: 1, scope: 'own' },
    ]);
  const forget = fc
    .record({ space, domain, days: fc.constantFrom(1, 2, 2, 3), pick: fc.constantFrom(0, 1, 2) })
    .map(({ space, domain, days, pick }): Step[] => [
      ...uploadAll(space),
      ...[0, 1, 2].map((node): Step => ({ do: 'commit', space, domain, changes: [[node, 1]] })),
      { do: 'sweep' },
      ...Array.from({ length: days }, (): Step => ({ do: 'advance', ms: HISTORY_IS_OVER_MS })),
      { do: 'replay', pick, alter: false },
    ]);
  // The aggregate is 0 while two domains hold what they hold: no collection may take the node.
  const balanced = fc
    .record({ space, node })
    .map(({ space, node }): Step[] => [
      upload(space, node),
      { do: 'commit', space, domain: 0, changes: [[node, 1]] },
      { do: 'commit', space, domain: 1, changes: [[node, -1]] },
      outlive,
      { do: 'gc', space, maxNodes: 100, failAfter: undefined },
    ]);
  const again = fc
    .record({ alter: fc.boolean() })
    .map(({ alter }): Step[] => [{ do: 'replay', pick: 0, alter }]);
  return fc.oneof(
    rot,
    rot,
    heal,
    heal,
    mended,
    mended,
    balanced,
    fillAndCollect,
    fillAndCollect,
    walk,
    forget,
    again,
  );
}

export function makeSequenceArbitrary(stepsMax: number, hasPacks: boolean): fc.Arbitrary<Sequence> {
  const single = stepArbitrary.map((step): readonly Step[] => [step]);
  const pieces = [
    { arbitrary: single, weight: 12 },
    { arbitrary: makeEpisodes(), weight: 3 },
  ];
  const ofPack = packStepArbitrary.map((step): readonly Step[] => [step]);
  const ofPacks = [
    { arbitrary: ofPack, weight: 15 },
    { arbitrary: packEpisodes as fc.Arbitrary<readonly Step[]>, weight: 4 },
  ];
  const piece = fc.oneof(...pieces, ...(hasPacks ? ofPacks : []));
  return fc.record({
    focus: fc.constantFrom(...FAMILIES),
    steps: fc.array(piece, { minLength: 1, maxLength: stepsMax, size: 'max' }).map((pieces) => pieces.flat()),
  });
}
