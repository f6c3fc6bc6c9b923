/** Takes up a rotated secret in a server that runs, off the path of requests. */
import type { RotatingSigner } from '../core/signer.ts';
import type { Log } from '../log.ts';
import type { SharedSecret } from './deployment.ts';

/** After a stop, resolves when no read is in progress. While the secret cannot be read the server keeps the one it has. */
export function watchSecret(secret: SharedSecret, signer: RotatingSigner, log: Log): () => Promise<void> {
  let looking: Promise<void> | undefined;
  let isFailing = false;
  const look = async (): Promise<void> => {
    try {
      const secrets = await secret.find();
      if (secrets !== undefined) signer.take(secrets);
      isFailing = false;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!isFailing) log.warn({ reason }, 'the secret of upload URLs could not be read again');
      isFailing = true;
    } finally {
      looking = undefined;
    }
  };
  // Every process must have the secret within 5 s. It begins to sign after 10 s.
  const timer = setInterval(() => {
    looking ??= look();
  }, 2000).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}
