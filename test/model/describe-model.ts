/** The model-based test of one engine: random sequences, compared with the reference model after every step. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { applyNodeStep, applyWorldStep, outliveAll } from './apply-node-step.ts';
import { applyPackStep } from './apply-pack-step.ts';
import { applyRootRefStep } from './apply-root-ref-step.ts';
import { applyUploadStep } from './apply-upload-step.ts';
import type { EngineUnderTest } from './engine-under-test.ts';
import { isPackStep } from './pack-steps.ts';
import { findFocus, makeSequenceArbitrary, type Sequence, type Step } from './steps.ts';
import { World } from './world.ts';

export interface ModelRun {
  readonly sequences: number;
  readonly stepsMax: number;
  readonly timeoutMs: number;
  /** of the sequences; one for all engines unless told */
  readonly seed?: number;
  /** how often each situation must have come up; 5 unless told */
  readonly seenMin?: number;
  /** steps from one comparison of everything to the next; 1 unless told */
  readonly auditEvery?: number;
  /** false: a sequence that fails is told as it is, for an engine that takes too long to try smaller ones */
  readonly shrinks?: boolean;
  /** packs are sent, read and compacted too */
  readonly hasPacks?: boolean;
  /** situations this engine has no part in */
  readonly without?: readonly string[];
}

/**
 * Fixed, so that every run of the suite is the same. A failure prints seed and path; `MODEL_SEED=… MODEL_PATH=…` runs that
 * very sequence again, `MODEL_SEED` and `MODEL_SEQUENCES` others and more.
 */
const { MODEL_SEED, MODEL_PATH, MODEL_SEQUENCES } = process.env;
const SEED = 20260101;

export function describeModel(name: string, makeEngine: () => EngineUnderTest, run: ModelRun): void {
  const seed = Number(MODEL_SEED ?? run.seed ?? SEED);
  describe(`${name} against the reference model`, () => {
    test(
      `random sequences, seed ${seed}`,
      async () => {
        const sequences = Number(MODEL_SEQUENCES ?? run.sequences);
        const sightings = new Map<string, number>();
        await fc.assert(sequencesOf(makeEngine, run, sightings), {
          seed,
          numRuns: sequences,
          verbose: fc.VerbosityLevel.None,
          endOnFailure: run.shrinks === false,
          ...(MODEL_PATH && { path: MODEL_PATH }),
        });
        if (MODEL_PATH === undefined) expect(findUnseen(sightings, run)).toEqual([]);
      },
      MODEL_SEQUENCES === undefined ? run.timeoutMs : 0,
    );
  });
}

/** The property of fast-check: whatever the sequence, engine and model agree. */
export function sequencesOf(
  makeEngine: () => EngineUnderTest,
  run: Pick<ModelRun, 'stepsMax' | 'hasPacks' | 'auditEvery'>,
  sightings = new Map<string, number>(),
): fc.IAsyncProperty<[Sequence]> {
  return fc.asyncProperty(makeSequenceArbitrary(run.stepsMax, run.hasPacks === true), (sequence) =>
    runSequence(makeEngine(), sequence, sightings, run.auditEvery ?? 1),
  );
}

/** Random steps that never meet a situation prove nothing about it, so each of these must have come up. */
const SITUATIONS = [
  'lease: published',
  'lease: published, a parent',
  'lease: ready made ready',
  'lease: waiting made ready, a parent',
  'lease: rotten made ready',
  'lease: rotten made ready, a parent',
  'lease: claimed made ready',
  'lease: awaiting_upload',
  'lease: validated_awaiting_children',
  'lease: NODE_TOO_LARGE',
  'lease: NODE_DIGEST_MISMATCH',
  'lease: INVALID_CANONICAL_NODE',
  'lease: CAS_UPLOAD_LIMIT',
  'put: accepted',
  'put: FORBIDDEN',
  'put: CONFLICT',
  'put: PAYLOAD_TOO_LARGE',
  'overlapping put: finish',
  'overlapping put: abort',
  'read: damage noticed',
  'gc: met its bound',
  'gc: took all',
  'gc: took a freed child',
  'gc: store failed',
  'gc: finished a claim',
  'gc: spared a balanced node',
  'sweep: dropped waiting',
  'sweep: dropped claimed',
  'sweep: dropped an upload',
  'scrub: made rotten',
  'scrub: made ready',
  'commit: applied',
  'commit: replayed',
  'commit: NOT_FOUND',
  'commit: CONFLICT',
  'commit: IDEMPOTENCY_CONFLICT',
  'commit: forgotten',
  'page: of an older revision',
  'page: cursor too old',
] as const;
/** The further situations of runs that send packs. */
const PACK_SITUATIONS = [
  'leases: ready',
  'leases: absent',
  'leases: validated_awaiting_children',
  'leases: CAS_UPLOAD_LIMIT',
  'leases: the same pack',
  'pack: accepted',
  'pack: finished already',
  'pack lease: NOT_FOUND',
  'pack lease: CONFLICT',
  'pack lease: crash',
  'pack lease, open: ready',
  'pack lease, open: rejected',
  'pack lease, open: validated_awaiting_children',
  'pack lease, judging: ready',
  'pack lease, judged: ready',
  'pack lease, judged: absent',
  'pack lease, judged: rejected',
  'reads: codec 0',
  'reads: codec 1',
  'reads: damage noticed',
  'compaction: moved',
  'compaction: crashed',
  'packing: moved',
  'packing: crashed',
  'sweep: ended a pack',
] as const;
const SEEN_MIN = 5;

function findUnseen(sightings: ReadonlyMap<string, number>, run: ModelRun): string[] {
  const situations = run.hasPacks === true ? PACK_SITUATIONS : SITUATIONS;
  return situations
    .filter((name) => run.without?.includes(name) !== true)
    .filter((name) => (sightings.get(name) ?? 0) < (run.seenMin ?? SEEN_MIN))
    .map((name) => `${name}: ${sightings.get(name) ?? 0}`);
}

async function runSequence(
  engine: EngineUnderTest,
  sequence: Sequence,
  sightings: Map<string, number>,
  auditEvery: number,
): Promise<void> {
  const world = new World(engine, findFocus(sequence), sightings);
  try {
    await world.open();
    for (const [index, step] of sequence.steps.entries()) {
      await applyStep(world, step);
      if (index % auditEvery === 0) await world.audit();
    }
    await world.audit();
    await outliveAll(world);
    await world.close();
  } finally {
    await engine.destroy();
  }
}

async function applyStep(world: World, step: Step): Promise<void> {
  if (isPackStep(step)) return applyPackStep(world, step);
  switch (step.do) {
    case 'put':
    case 'forge':
    case 'beginPut':
    case 'finishPut':
    case 'abortPut':
      return applyUploadStep(world, step);
    case 'commit':
    case 'replay':
    case 'page':
    case 'nextPage':
    case 'forgedCursor':
      return applyRootRefStep(world, step);
    case 'advance':
    case 'advanceToExpiry':
    case 'sweep':
    case 'scrub':
    case 'restart':
      return applyWorldStep(world, step);
    default:
      return applyNodeStep(world, step);
  }
}
