/** Around every view of a Space: asks for an address and a token where nobody is signed in. */
import type { ComponentType } from 'preact';
import { useState } from 'preact/hooks';
import { printable } from '../parts/format.ts';
import { Failure, Loading, Notice } from '../parts/notices.tsx';
import {
  enterSpace,
  isSigningIn,
  offeredSpaceUrl,
  parsePasted,
  type SpaceAccess,
  signInFailure,
} from '../space-session.ts';
import { type Connection, connect, connection } from './connection.ts';

/** `Inner` is made anew for another Space. */
export function inSpace(title: string, Inner: ComponentType<{ readonly space: Connection }>) {
  return function SpaceView() {
    const space = connection.value;
    if (isSigningIn.value) return <Loading what="the Space of the one-time link" />;
    if (space === undefined) {
      return (
        <>
          <h1>{title}</h1>
          <SignIn />
        </>
      );
    }
    return (
      <>
        <Expiry space={space} />
        <Inner key={`${space.url} ${space.app} ${space.space}`} space={space} />
      </>
    );
  };
}

function Expiry({ space: { claims } }: { readonly space: Connection }) {
  const { expiresAt } = claims ?? {};
  if (expiresAt === undefined || expiresAt > Date.now()) return null;
  return (
    <Notice kind="warn">
      <p>The token of this Space has ended. Leave the Space, and sign in with a new one.</p>
    </Notice>
  );
}

const FIELDS = [
  ['url', 'Address of the Space API', 'http://127.0.0.1:8420'],
  ['app', 'App', 'demo'],
  ['space', 'Space', 'home'],
] as const;

function SignIn() {
  const [access, setAccess] = useState<SpaceAccess>({
    url: offeredSpaceUrl(),
    app: '',
    space: '',
    token: '',
  });
  const [error, setError] = useState<unknown>(undefined);
  const [isAsking, setAsking] = useState(false);
  const signIn = async (): Promise<void> => {
    setAsking(true);
    setError(undefined);
    try {
      await tryAccess(access);
      signInFailure.value = undefined;
      enterSpace(access);
    } catch (caught) {
      setError(caught);
      setAsking(false);
    }
  };
  return (
    <form
      class="panel narrow"
      onSubmit={(event) => {
        event.preventDefault();
        void signIn();
      }}
    >
      <h2>Sign in to a Space</h2>
      {signInFailure.value === undefined ? null : (
        <Notice kind="warn">
          <p>
            The one-time link did not work: it may have been used, or be too old. Make a new one on the
            machine of the server, or paste a token.
          </p>
        </Notice>
      )}
      <PasteField onFound={(found) => setAccess((before) => ({ ...before, ...found }))} />
      {FIELDS.map(([name, label, example]) => (
        <label key={name}>
          {label}
          <input
            required
            spellcheck={false}
            autocomplete="off"
            placeholder={example}
            value={access[name]}
            onInput={({ currentTarget }) => setAccess({ ...access, [name]: currentTarget.value.trim() })}
          />
        </label>
      ))}
      <label>
        Token
        <input
          type="password"
          required
          autocomplete="off"
          value={access.token}
          onInput={({ currentTarget }) => setAccess({ ...access, token: currentTarget.value.trim() })}
        />
      </label>
      <p class="soft">
        The token is kept in this tab alone: it is gone when the tab is closed, and never part of the address.
      </p>
      <Failure error={error} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={isAsking}>
          {isAsking ? 'Signing in …' : 'Sign in'}
        </button>
      </div>
    </form>
  );
}

function PasteField({ onFound }: { readonly onFound: (found: Partial<SpaceAccess>) => void }) {
  const [found, setFound] = useState<readonly string[] | undefined>(undefined);
  return (
    <label>
      Paste here what the server printed
      <textarea
        rows={3}
        spellcheck={false}
        autocomplete="off"
        placeholder={'export HOLDFAST_URL=…\nexport HOLDFAST_APP=…'}
        aria-describedby="paste-result"
        onInput={({ currentTarget }) => {
          const access = parsePasted(currentTarget.value);
          setFound(Object.keys(access));
          // The pasted text may be a token: it does not stay to be read.
          if (access.token !== undefined) currentTarget.value = '';
          onFound(access);
        }}
      />
      <span id="paste-result" class="soft" aria-live="polite">
        {found === undefined
          ? 'The four export lines, a profile of the command line, or a token alone. Or fill in the fields.'
          : found.length === 0
            ? 'Nothing was found in it.'
            : `Taken from it: ${found.map(printable).join(', ')}.`}
      </span>
    </label>
  );
}

/** A token that lacks a permission is good all the same: only one that is refused is not. */
async function tryAccess(access: SpaceAccess): Promise<void> {
  try {
    await connect(access).client.getUsage({ signal: AbortSignal.timeout(20_000) });
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'FORBIDDEN') throw error;
  }
}
