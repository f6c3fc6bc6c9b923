import { describeModel } from './describe-model.ts';
import { makeEmbeddedUnderTest } from './embedded-under-test.ts';

describeModel('the embedded engine', makeEmbeddedUnderTest, {
  sequences: 500,
  stepsMax: 60,
  timeoutMs: 180_000,
});
