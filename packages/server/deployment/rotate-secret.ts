/** `holdfast secret rotate`: another secret signs upload URLs and cursors from now on, and the former one verifies for a while. */
import { randomBytes } from 'node:crypto';
import { planRotation, SECRET_BYTES } from '../core/signing-secrets.ts';
import { ServeError } from '../errors.ts';
import { hasRows, openSecret } from './open.ts';
import { nameRows, type RowsPlace } from './place.ts';

export interface SecretRotation {
  /** ms since the epoch, as the other one */
  readonly signsFromAt: number;
  readonly formerGoodUntilAt: number;
}

/** Works while servers run: each takes the secrets up within 5 s (watch-secret.ts). Rejects with ServeError. */
export async function rotateSecret(place: RowsPlace): Promise<SecretRotation> {
  const where = nameRows(place);
  if (!(await hasRows(place))) {
    throw new ServeError(`${where} holds no deployment: start a server on it first`);
  }
  const { secret, close } = await openSecret(place);
  try {
    const former = await secret.read();
    const planned = planRotation(former, randomBytes(SECRET_BYTES), Date.now());
    if ('refused' in planned) {
      const reason =
        planned.refused === 'under way' ? 'a rotation is under way' : 'too many former secrets are good';
      throw new ServeError(`${reason}: rotate again after ${new Date(planned.againAt).toISOString()}`);
    }
    if (!(await secret.exchange(former, planned.secrets))) {
      throw new ServeError(`the secret of ${where} was changed by somebody else meanwhile: nothing was done`);
    }
    return { signsFromAt: planned.signsFromAt, formerGoodUntilAt: planned.formerUntilAt };
  } finally {
    await close();
  }
}
