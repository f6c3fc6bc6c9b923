/** The progress of a copy. It is stored with the target's rows, in the transaction that writes them. */
import { findJson } from '@holdfast/protocol';
import { isCount, type Shape, takeShape } from '../core/closed-shape.ts';
import { USAGE_NONE, type UsageDelta } from '../core/usage-delta.ts';
import { DOMAIN_KINDS, SPACE_KINDS, SPACE_START, type SpacePlace } from './walk-space.ts';

export type CopyPhase = 'copy' | 'verify';

export interface CopyCounts {
  readonly spaces: number;
  readonly nodes: number;
  /** canonical bytes of those nodes */
  readonly bytes: number;
}

export const COUNTS_NONE: CopyCounts = { spaces: 0, nodes: 0, bytes: 0 };

export interface Checkpoint {
  /** the source's epoch: while it is unchanged, no server has served the source since the copy began */
  readonly epoch: string;
  readonly phase: CopyPhase;
  /** the reader's position of the last Space that is complete in this phase */
  readonly completeUntil: string | undefined;
  /** in the Space after that one */
  readonly place: SpacePlace;
  /** done in this phase */
  readonly counts: CopyCounts;
  /** while verifying: what the target's rows of the current Space, up to `place`, add to its counters */
  readonly tally: UsageDelta;
  /** nodes whose bytes the source no longer had */
  readonly damagedNodes: number;
}

const VERSION = 1;
const KINDS: readonly string[] = [...SPACE_KINDS, ...DOMAIN_KINDS];

export function startPhase(epoch: string, phase: CopyPhase, damagedNodes: number): Checkpoint {
  return {
    ...{ epoch, phase, damagedNodes, completeUntil: undefined, place: SPACE_START },
    ...{ counts: COUNTS_NONE, tally: USAGE_NONE },
  };
}

/** Begins with a checksum: a flipped bit could change the position, and the copy would skip data. */
export function formatCheckpoint(checkpoint: Checkpoint): string {
  const json = JSON.stringify({ version: VERSION, ...checkpoint });
  return sumOf(json) + json;
}

function sumOf(json: string): string {
  return new Bun.CryptoHasher('sha256').update(json).digest('hex').slice(0, 16);
}

/** undefined if another version wrote the text, or if it is damaged. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const json = text.slice(16);
  if (text.slice(0, 16) !== sumOf(json)) return undefined;
  const parsed = takeShape<Checkpoint & { readonly version: number }>(findJson(json), SHAPE);
  if (parsed === undefined) return undefined;
  const { version: _, ...checkpoint } = parsed;
  return checkpoint;
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isOptionalText = (value: unknown): boolean => value === undefined || isText(value);

/** Whether a value has the same names as `sample`, each with a count. */
const areCounts = (sample: CopyCounts | UsageDelta) => {
  const shape = Object.fromEntries(Object.keys(sample).map((name) => [name, isCount]));
  return (value: unknown): boolean => takeShape(value, shape) !== undefined;
};

const PLACE: Shape<SpacePlace> = {
  kind: (value) => KINDS.some((kind) => kind === value),
  domain: isText,
  after: isOptionalText,
};

const SHAPE: Shape<Checkpoint & { readonly version: number }> = {
  version: (value) => value === VERSION,
  epoch: isText,
  phase: (value) => value === 'copy' || value === 'verify',
  completeUntil: isOptionalText,
  place: (value) => takeShape(value, PLACE) !== undefined,
  counts: areCounts(COUNTS_NONE),
  tally: areCounts(USAGE_NONE),
  damagedNodes: isCount,
};
