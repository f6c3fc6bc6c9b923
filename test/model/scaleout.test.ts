import { afterAll } from 'bun:test';
import { openEngines } from '../support/cluster.ts';
import { describeModel } from './describe-model.ts';
import { makeScaleoutUnderTest, openContentUnderTest } from './scaleout-under-test.ts';

/** Each sequence costs a hundred times what it costs in memory: fewer of them, by a seed that meets every situation. */
const RUN = {
  sequences: 70,
  stepsMax: 40,
  timeoutMs: 900_000,
  seed: 6,
  seenMin: 1,
  auditEvery: 4,
  shrinks: process.env.MODEL_PATH !== undefined,
  // The store accepts bodies over the limit; they are judged by the next lease.
  without: ['put: PAYLOAD_TOO_LARGE'],
};

const engines = await openEngines();
const content = await openContentUnderTest(engines);
afterAll(async () => {
  await content.close();
  await engines.close();
});

describeModel('the scale-out engine', () => makeScaleoutUnderTest(engines, content), RUN);
