/** What runs beside the clients in each model, as the bits of OTHERS there, and where each mutant is noticed. */
const [COMMIT, COLLECT, PACK, SWEEP, WALK, TIME, RESTORE] = [1, 2, 4, 8, 16, 32, 64];
const TREE = { COMMIT: 1, COLLECT: 2, WALK: 4, MOVE: 8, TIME: 16, OPERATOR: 32, RESTART: 64 };

export type Model = 'protocol' | 'tree';

export interface Scope {
  readonly model: Model;
  readonly others: number;
}

const protocol = (others: number): Scope => ({ model: 'protocol', others });
const tree = (others: number): Scope => ({ model: 'tree', others });

export const SCOPES = {
  collect: protocol(COLLECT + TIME),
  rooted: protocol(COMMIT + COLLECT + TIME),
  sweep: protocol(SWEEP + TIME),
  walk: protocol(PACK + WALK + TIME),
  pack: protocol(PACK + SWEEP + TIME),
  heal: protocol(COLLECT + SWEEP + TIME),
  recover: protocol(PACK + SWEEP + RESTORE),
  family: tree(TREE.COMMIT + TREE.COLLECT + TREE.TIME),
  epoch: tree(TREE.MOVE + TREE.TIME + TREE.RESTART),
  older: tree(TREE.WALK + TREE.MOVE + TREE.OPERATOR),
  'older for long': tree(TREE.WALK + TREE.MOVE + TREE.TIME + TREE.OPERATOR),
  strays: tree(TREE.COMMIT + TREE.COLLECT + TREE.WALK + TREE.MOVE + TREE.TIME),
} as const;

/** Of millions of states each (28 the fourth, more than 50 the fifth), and checked as wholly as the others. `npm test` leaves them out. Left out: all of
 * the tree but restarts, which after 180 million states in 10 GB had not ended. */
export const LARGE_SCOPES: Readonly<Record<string, Scope>> = {
  'strays and older rows': tree(TREE.COMMIT + TREE.COLLECT + TREE.WALK + TREE.MOVE + TREE.OPERATOR),
  'collection and sweep': protocol(COMMIT + COLLECT + SWEEP + TIME),
  'collection and packing': protocol(COMMIT + COLLECT + PACK + TIME),
  'all that deletes': protocol(COMMIT + COLLECT + SWEEP + WALK + TIME),
  'packing and sweep': protocol(COMMIT + COLLECT + PACK + SWEEP + TIME),
  'strays and restarts': tree(TREE.COMMIT + TREE.COLLECT + TREE.WALK + TREE.MOVE + TREE.TIME + TREE.RESTART),
};

export const MUTANTS: readonly (readonly [mutant: number, scope: keyof typeof SCOPES])[] = [
  ...([1, 2, 3, 5, 6, 8, 9, 11, 12, 16, 17] as const).map((mutant) => [mutant, 'collect'] as const),
  ...([10, 13] as const).map((mutant) => [mutant, 'rooted'] as const),
  ...([18, 19, 21] as const).map((mutant) => [mutant, 'recover'] as const),
  ...([25, 26, 29, 30] as const).map((mutant) => [mutant, 'walk'] as const),
  [27, 'sweep'],
  [28, 'pack'],
  ...([31, 32, 33, 34, 35, 36, 37, 38, 39] as const).map((mutant) => [mutant, 'family'] as const),
  ...([40, 41] as const).map((mutant) => [mutant, 'epoch'] as const),
  [42, 'older'],
];
