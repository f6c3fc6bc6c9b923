import { describeModel } from './describe-model.ts';
import { makeEmbeddedUnderTest } from './embedded-under-test.ts';

describeModel('the embedded engine, with packs,', () => makeEmbeddedUnderTest(1, { recounts: true }), {
  sequences: 150,
  stepsMax: 60,
  timeoutMs: 240_000,
  hasPacks: true,
});
