import { describeModel } from './describe-model.ts';
import { makeEmbeddedUnderTest } from './embedded-under-test.ts';

describeModel('the embedded engine, with packs,', () => makeEmbeddedUnderTest(1, { recounts: true }), {
  sequences: 80,
  stepsMax: 60,
  timeoutMs: 900_000,
  seenMin: 3,
  auditEvery: 2,
  hasPacks: true,
});
