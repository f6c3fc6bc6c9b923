/** The one-time link of the terminal: its code for a token of operators, and for one of the demo's Space if there is a demo. */
import { change, keepOperatorToken } from './operator/operator-api.ts';
import { goTo, hrefTo } from './route.ts';
import { enterSpace, isSigningIn, type SpaceAccess, signInFailure } from './space-session.ts';

type SignedIn = { readonly operatorToken: string } & (SpaceAccess | { readonly token: null });

export async function exchangeCode(code: string): Promise<void> {
  isSigningIn.value = true;
  signInFailure.value = undefined;
  try {
    const { operatorToken, ...access } = await change<SignedIn>('sign-in', { code });
    keepOperatorToken(operatorToken);
    if (access.token === null) goTo(hrefTo(''));
    else enterSpace(access);
  } catch (error) {
    signInFailure.value = error;
  } finally {
    isSigningIn.value = false;
  }
}
