/** What runs beside the client and its PUTs, as the bits of OTHERS in the model, and where each mutant is noticed. */
const [COMMIT, COLLECT, PACK, SWEEP, WALK, TIME, RESTORE] = [1, 2, 4, 8, 16, 32, 64];

export const SCOPES = {
  collect: COLLECT + TIME,
  rooted: COMMIT + COLLECT + TIME,
  sweep: SWEEP + TIME,
  walk: PACK + WALK + TIME,
  pack: PACK + SWEEP + TIME,
  heal: COLLECT + SWEEP + TIME,
  recover: PACK + SWEEP + RESTORE,
} as const;

export const MUTANTS: readonly (readonly [mutant: number, scope: keyof typeof SCOPES])[] = [
  ...([1, 2, 3, 5, 6, 8, 9, 11, 12, 16, 17] as const).map((mutant) => [mutant, 'collect'] as const),
  ...([10, 13] as const).map((mutant) => [mutant, 'rooted'] as const),
  ...([18, 19, 21] as const).map((mutant) => [mutant, 'recover'] as const),
  ...([25, 26, 29, 30] as const).map((mutant) => [mutant, 'walk'] as const),
  [27, 'sweep'],
  [28, 'pack'],
];
