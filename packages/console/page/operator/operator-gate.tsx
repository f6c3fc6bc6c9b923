/** Around every view of the server: asks for the operator token where the listener wants one. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useAction } from '../parts/loaded.ts';
import { Failure } from '../parts/notices.tsx';
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
      {operatorAccess.value === 'refused' ? <TokenForm /> : children}
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
        This listener wants the token of its <code>--operator-token-file</code>. It is kept in this page alone
        and is gone when the page is closed or loaded again.
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
      <Failure error={action.error} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={action.isRunning}>
          Sign in
        </button>
      </div>
    </form>
  );
}
