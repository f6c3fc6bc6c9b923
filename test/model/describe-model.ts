/** The model-based test of one engine: random sequences, compared with the reference model after every step. */
import { describe, test } from 'bun:test';
import fc from 'fast-check';
import { applyNodeStep, applyWorldStep, endAllPuts } from './apply-node-step.ts';
import { applyRootRefStep } from './apply-root-ref-step.ts';
import { applyUploadStep } from './apply-upload-step.ts';
import type { EngineUnderTest } from './engine-under-test.ts';
import { type Step, stepArbitrary } from './steps.ts';
import { World } from './world.ts';

export interface ModelRun {
  /** fixed, so that every run of the suite is the same; a failure prints it with the path to the smallest sequence */
  readonly seed: number;
  readonly sequences: number;
  readonly stepsMax: number;
  readonly timeoutMs: number;
}

export function describeModel(name: string, makeEngine: () => EngineUnderTest, run: ModelRun): void {
  describe(`${name} against the reference model`, () => {
    test(
      `${run.sequences} random sequences, seed ${run.seed}`,
      () =>
        fc.assert(
          fc.asyncProperty(
            fc.array(stepArbitrary, { minLength: 1, maxLength: run.stepsMax, size: 'max' }),
            (steps) => runSteps(makeEngine(), steps),
          ),
          { seed: run.seed, numRuns: run.sequences, verbose: fc.VerbosityLevel.None },
        ),
      run.timeoutMs,
    );
  });
}

export async function runSteps(engine: EngineUnderTest, steps: readonly Step[]): Promise<void> {
  const world = new World(engine);
  try {
    await world.open();
    for (const step of steps) {
      await applyStep(world, step);
      await world.audit();
    }
    await endAllPuts(world);
    await world.close();
  } finally {
    await engine.destroy();
  }
}

async function applyStep(world: World, step: Step): Promise<void> {
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
