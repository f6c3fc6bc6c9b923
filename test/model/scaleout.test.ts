import { afterAll } from 'bun:test';
import { openEngines } from '../support/cluster.ts';
import { describeModel } from './describe-model.ts';
import { makeScaleoutUnderTest } from './scaleout-under-test.ts';

const RUN = {
  sequences: 60,
  stepsMax: 40,
  timeoutMs: 240_000,
  auditEvery: 4,
  shrinks: process.env.MODEL_PATH !== undefined,
  // The store accepts bodies over the limit; they are judged by the next lease.
  without: ['put: PAYLOAD_TOO_LARGE'],
};

const engines = await openEngines();
afterAll(() => engines.close());
let runs = 0;

describeModel(
  'the scale-out engine',
  () => {
    runs += 1;
    return makeScaleoutUnderTest(engines, runs);
  },
  RUN,
);
