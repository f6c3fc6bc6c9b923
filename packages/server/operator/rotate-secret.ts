/** `holdfast secret rotate`: a new secret signs upload URLs and cursors, and the former one still verifies for a while. */
import { randomBytes } from 'node:crypto';
import { planRotation, SECRET_BYTES } from '../core/signing-secrets.ts';
import { ServeError } from '../errors.ts';
import { partOperation } from './operation.ts';
import { record, TIMESTAMP } from './schemas.ts';

export const rotateSecret = partOperation('secret', {
  method: 'POST',
  path: 'secret/rotate',
  right: 'all',
  summary: 'Sign upload URLs and cursors with a new secret; what was signed before stays good for 8 days',
  input: {},
  output: record({ signsFromAt: TIMESTAMP, formerGoodUntilAt: TIMESTAMP }),
  // Every process reads the new secrets within 5 s (deployment/watch-secret.ts).
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
