/** Operations behind the links that sign in to the console. */
import { text } from './fields.ts';
import type { LiveServer } from './live-server.ts';
import { operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { orNull, record, TEXT, TIMESTAMP } from './schemas.ts';
import type { ConsoleSignIn } from './sign-in.ts';

export const signIn = operation({
  method: 'POST',
  path: 'sign-in',
  summary:
    "Exchange the one-time code of a console link for a token of operators, and for access to the demo App's Space if there is one",
  right: 'all',
  isOpen: true,
  input: { code: text('What follows #signin= in the link.', 256) },
  output: record({
    url: orNull(TEXT),
    app: orNull(TEXT),
    space: orNull(TEXT),
    token: orNull(TEXT),
    operatorToken: TEXT,
  }),
  run: async ({ live }, { code }) => {
    const { operatorToken, space } = await signInOf(live).redeem(code);
    return { ...(space ?? { url: null, app: null, space: null, token: null }), operatorToken };
  },
});

export const makeConsoleLink = operation({
  method: 'POST',
  path: 'console/link',
  summary: 'Make a link that opens the console signed in, once and within 15 minutes',
  right: 'all',
  input: {},
  output: record({ url: TEXT, expiresAt: TIMESTAMP }),
  run: async ({ live }) => signInOf(live).makeLink(),
});

function signInOf(live: LiveServer | undefined): ConsoleSignIn {
  if (live?.signIn !== undefined) return live.signIn;
  throw new OperatorError(
    'CONFLICT',
    live === undefined
      ? 'no server runs, so there is no console: start holdfast serve with --operator-listen 127.0.0.1:8421'
      : 'the server has no listener for operators, so there is no console: start it with --operator-listen 127.0.0.1:8421',
  );
}
