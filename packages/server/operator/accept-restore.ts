/** `holdfast accept-restore`: an operator confirms that service continues from a restored database. */
import { randomBytes } from 'node:crypto';
import { onlySecret, SECRET_BYTES } from '../core/signing-secrets.ts';
import {
  isBehind,
  MENDED_BEFORE_RAISING,
  moveEpoch,
  REVISION_STEP,
  readEpochs,
} from '../core/store-epoch.ts';
import { acceptStrays } from '../core/stray-watch.ts';
import { operation } from './operation.ts';
import { record } from './schemas.ts';

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
