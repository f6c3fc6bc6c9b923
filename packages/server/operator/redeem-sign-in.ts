/** The operation behind the link that `serve --dev` prints. */
import { text } from './fields.ts';
import { operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { record, TEXT } from './schemas.ts';

const CODE_LENGTH_MAX = 256;

export const signIn = operation({
  method: 'POST',
  path: 'sign-in',
  summary: 'Exchange the one-time code that serve --dev printed for access to the Space of the demo App',
  isOpen: true,
  input: { code: text('What follows #signin= in the link.', CODE_LENGTH_MAX) },
  output: record({ url: TEXT, app: TEXT, space: TEXT, token: TEXT }),
  run: async ({ live }, { code }) => {
    if (live?.signIn === undefined) {
      throw new OperatorError('NOT_FOUND', 'there is no one-time link: only serve --dev prints one');
    }
    return live.signIn.redeem(code);
  },
});
