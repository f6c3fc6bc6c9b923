/** The one-time link that `serve --dev` prints: its code for a token of the demo's Space. */
import { change } from './operator/operator-api.ts';
import { isSigningIn, type SpaceAccess, signInFailure, spaceAccess } from './space-session.ts';

export async function exchangeCode(code: string): Promise<void> {
  isSigningIn.value = true;
  try {
    spaceAccess.value = await change<SpaceAccess>('sign-in', { code });
  } catch (error) {
    signInFailure.value = error;
  } finally {
    isSigningIn.value = false;
  }
}
