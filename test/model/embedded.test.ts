import { describeModel } from './describe-model.ts';
import { makeEmbeddedUnderTest } from './embedded-under-test.ts';

const RUN = { sequences: 120, seenMin: 1, stepsMax: 60, auditEvery: 3, timeoutMs: 900_000 };

describeModel('the embedded engine', () => makeEmbeddedUnderTest(1), RUN);
describeModel('the embedded engine, one process of several', () => makeEmbeddedUnderTest(2), RUN);
