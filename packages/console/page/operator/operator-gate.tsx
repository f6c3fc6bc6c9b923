/** Around every view of the server: asks for a token of operators where nobody is signed in. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useAction } from '../parts/loaded.ts';
import { Failure, Loading } from '../parts/notices.tsx';
import { isSigningIn, signInFailure } from '../space-session.ts';
import { operatorAccess, signInAsOperator } from './operator-api.ts';

export function OperatorGate({
  title,
  children,
}: {
  readonly title: string;
  readonly children: ComponentChildren;
}) {
  return (
    <>
      <h1>{title}</h1>
      {isSigningIn.value ? <Loading what="the one-time link" /> : null}
      {!isSigningIn.value && operatorAccess.value === 'refused' ? <TokenForm /> : null}
      {operatorAccess.value === 'token' ? children : null}
    </>
  );
}

function TokenForm() {
  const [token, setToken] = useState('');
  const action = useAction();
  return (
    <form
      class="panel narrow"
      onSubmit={(event) => {
        event.preventDefault();
        void action.run(() => signInAsOperator(token.trim()));
      }}
    >
      <h2>Sign in as operator</h2>
      <p class="soft">
        Open the link that <code>holdfast console</code> prints on the machine of the server, or give a token:
        that of <code>--operator-token-file</code>, or of the file <code>operator-token</code> in the data
        folder. It is kept in this tab alone, and is gone when the tab is closed.
      </p>
      <label>
        Operator token
        <input
          type="password"
          autocomplete="off"
          required
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
        />
      </label>
      <Failure error={action.error ?? signInFailure.value} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={action.isRunning}>
          Sign in
        </button>
      </div>
    </form>
  );
}
