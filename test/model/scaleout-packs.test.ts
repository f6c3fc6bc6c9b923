/** Packs on two servers that take turns over one PostgreSQL and one bucket, with compaction and crashes. */
import { afterAll } from 'bun:test';
import { openEngines } from '../support/cluster.ts';
import { describeModel } from './describe-model.ts';
import { makeScaleoutUnderTest, openContentUnderTest } from './scaleout-under-test.ts';

const SERVERS = 2;

const engines = await openEngines();
const content = await openContentUnderTest(engines);
afterAll(async () => {
  await content.close();
  await engines.close();
});

describeModel(
  'two servers of the scale-out engine, with packs,',
  () => makeScaleoutUnderTest(engines, content, SERVERS),
  {
    sequences: 24,
    stepsMax: 40,
    timeoutMs: 900_000,
    seed: 2,
    seenMin: 1,
    auditEvery: 4,
    shrinks: process.env.MODEL_PATH !== undefined,
    hasPacks: true,
  },
);
