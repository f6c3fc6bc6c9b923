/** The console: begins with what must happen before anything is shown. */
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/views.css';
import { render } from 'preact';
import { change, keepOperatorToken } from './operator/operator-api.ts';
import { showTheme, watchSystemTheme } from './parts/theme.ts';
import { goTo, hrefTo, takeSignInCode, watchRoute } from './route.ts';
import { Shell } from './shell.tsx';
import { enterSpace, isSigningIn, type SpaceAccess, signInFailure } from './space-session.ts';

const code = takeSignInCode();
showTheme();
watchSystemTheme();
watchRoute((each) => void exchangeCode(each));
if (code !== undefined) void exchangeCode(code);
const place = document.getElementById('console');
if (place !== null) render(<Shell />, place);

type SignedIn = { readonly operatorToken: string } & (SpaceAccess | { readonly token: null });

/** The one-time link of the terminal: its code for a token of operators, and for one of the demo's Space if there is a demo. */
async function exchangeCode(code: string): Promise<void> {
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
