/** `holdfast accept-restore`: an operator confirms that service continues from a restored database. */
import { randomBytes } from 'node:crypto';
import { onlySecret, planRotation, SECRET_BYTES } from '../core/signing-secrets.ts';
import {
  isBehind,
  MENDED_BEFORE_RAISING,
  moveEpoch,
  REVISION_STEP,
  readEpochs,
} from '../core/store-epoch.ts';
import { acceptStrays } from '../core/stray-watch.ts';
import { ServeError } from '../errors.ts';
import { operation, partOperation } from './operation.ts';
import { record, TIMESTAMP } from './schemas.ts';

export const acceptRestore = operation({
  method: 'POST',
  path: 'accept-restore',
  right: 'all',
  summary:
    'Go on with a restored database: its epoch passes that of the bucket, and unknown objects get tombstones',
  input: {},
  output: record({ wasBehind: { type: 'boolean' } }),
  run: async ({ core, deployment }) => {
    const { metadata } = core;
    const epochs = await readEpochs(core);
    const wasBehind = isBehind(epochs);
    // No server runs on rows that are behind. Upload URLs and cursors from the lost period are refused, and revisions continue above
    // every revision that clients have seen.
    if (wasBehind) {
      await deployment.secret.replace(onlySecret(randomBytes(SECRET_BYTES)));
      await metadata.findRowDamage?.({ ...MENDED_BEFORE_RAISING, signal: new AbortController().signal });
      await metadata.settle('revisions', REVISION_STEP);
    }
    await acceptStrays(metadata, await metadata.readClock());
    if (wasBehind && epochs !== undefined) await moveEpoch(core, epochs);
    return { wasBehind };
  },
});

/** `holdfast secret rotate`: a new secret signs upload URLs and cursors, and the former one still verifies for a while. */
export const rotateSecret = partOperation('secret', {
  method: 'POST',
  path: 'secret/rotate',
  right: 'all',
  summary: 'Sign upload URLs and cursors with a new secret; what was signed before stays good for 8 days',
  input: {},
  output: record({ signsFromAt: TIMESTAMP, formerGoodUntilAt: TIMESTAMP }),
  // Every process reads the new secrets within 5 s (deployment/folder-secret.ts).
  run: async ({ secret }) => {
    const former = await secret.read();
    const planned = planRotation(former, randomBytes(SECRET_BYTES), Date.now());
    if ('refused' in planned) {
      const reason =
        planned.refused === 'under way' ? 'a rotation is under way' : 'too many former secrets are good';
      throw new ServeError(`${reason}: rotate again after ${new Date(planned.againAt).toISOString()}`);
    }
    if (!(await secret.exchange(former, planned.secrets))) {
      throw new ServeError('somebody else changed the secret meanwhile: nothing was done');
    }
    return { signsFromAt: planned.signsFromAt, formerGoodUntilAt: planned.formerUntilAt };
  },
});
