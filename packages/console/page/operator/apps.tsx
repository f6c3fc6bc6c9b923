/** The registered Apps: what each uses of its quotas, and what an operator does to it. */
import { useState } from 'preact/hooks';
import { UsageBars } from '../parts/bar.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Fact } from '../parts/fact.tsx';
import { formatSpan, printable, shellWord } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Shown } from '../parts/notices.tsx';
import { hrefTo } from '../route.ts';
import { type AppAct, AppDialog } from './app-dialogs.tsx';
import { change, read } from './operator-api.ts';
import { OperatorCommand, useOperatorCommand } from './operator-command.tsx';
import type { App } from './shapes.ts';

export function Apps() {
  const loaded = useLoaded('apps', (signal) => read<{ apps: readonly App[] }>('apps', {}, signal), {
    everyMs: 15_000,
  });
  const [act, setAct] = useState<{ readonly act: AppAct; readonly app: App } | undefined>(undefined);
  const [isAdding, setAdding] = useState(false);
  return (
    <>
      <div class="buttons">
        <button type="button" onClick={() => setAdding(true)}>
          Add an App …
        </button>
      </div>
      {isAdding ? <AddAppDialog onClose={() => setAdding(false)} onDone={() => loaded.reload()} /> : null}
      <Shown loaded={loaded} what="Apps">
        {({ apps }) =>
          apps.length === 0 ? (
            <Empty title="No App is registered">
              <p>An App is a product whose tenants store here. It signs their tokens with keys of its own:</p>
              <CommandLine line="holdfast key new --out private.jwk --jwks public.json" />
              <OperatorCommand line="holdfast app add my-app --issuer https://my.app --audience holdfast --jwks-file public.json" />
            </Empty>
          ) : (
            apps.map((app) => (
              <AppPanel key={app.appId} app={app} onAct={(chosen) => setAct({ act: chosen, app })} />
            ))
          )
        }
      </Shown>
      {act === undefined ? null : (
        <AppDialog {...act} onClose={() => setAct(undefined)} onDone={() => loaded.reload()} />
      )}
    </>
  );
}

function AppPanel({ app, onAct }: { readonly app: App; readonly onAct: (act: AppAct) => void }) {
  const { appId, status, revocations = [] } = app;
  const name = printable(appId);
  return (
    <section class="panel" aria-label={`App ${name}`}>
      <div class="head">
        <h2>
          <bdi>{name}</bdi> <span class={status === 'active' ? 'badge ok' : 'badge warn'}>{status}</span>
        </h2>
        <a href={hrefTo('spaces', { app: appId })}>its Spaces</a>
      </div>
      <dl class="facts">
        {app.usage ? (
          <UsageBars
            name={name}
            held={{ ...app, usage: app.usage }}
            place={(label, bar) => (
              <div>
                <dt>{label}</dt>
                <dd>{bar}</dd>
              </div>
            )}
          />
        ) : null}
        <Fact label="Issuer" value={app.issuer} />
        <Fact label="Audience" value={app.audience} />
        <Fact label="Keys" value={app.jwksUrl ?? 'kept by the server'} />
        {app.maxTokenLifetimeMs === undefined ? null : (
          <Fact label="Tokens live" value={`at most ${formatSpan(app.maxTokenLifetimeMs)}`} />
        )}
      </dl>
      <Revocations app={app} revocations={revocations} />
      <div class="buttons">
        <button type="button" onClick={() => onAct('quotas')}>
          Set quotas …
        </button>
        <button type="button" onClick={() => onAct('revoke')}>
          Revoke tokens …
        </button>
        {status === 'active' ? (
          <button type="button" onClick={() => onAct('suspend')}>
            Suspend …
          </button>
        ) : (
          <button type="button" onClick={() => onAct('resume')}>
            Resume …
          </button>
        )}
      </div>
    </section>
  );
}

function Revocations({
  app,
  revocations,
}: {
  readonly app: App;
  readonly revocations: NonNullable<App['revocations']>;
}) {
  if (revocations.length === 0) return null;
  return (
    <details>
      <summary>
        {revocations.length} revoked of {printable(app.appId)}
      </summary>
      <ul class="rows">
        {revocations.map(({ jti, sub, until }) => (
          <li key={`${jti} ${sub}`}>
            <span>
              {jti === undefined || jti === null ? 'subject ' : 'token '}
              <bdi>{printable(jti ?? sub ?? '')}</bdi>
            </span>
            <span class="soft">{until === undefined ? '' : `until ${new Date(until).toISOString()}`}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

const FIELDS = [
  ['app', 'App', 'my-app'],
  ['issuer', 'Issuer, the iss of its tokens', 'https://issuer.example'],
  ['audience', 'Audience, in the aud of its tokens', 'holdfast'],
] as const;

/** Registering an App: who signs its tokens, for whom, and with which keys. */
function AddAppDialog({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => void }) {
  const [given, setGiven] = useState({ app: '', issuer: '', audience: 'holdfast' });
  const [keys, setKeys] = useState('');
  const isUrl = /^https?:\/\//i.test(keys);
  const isGood = keys !== '' && Object.values(given).every((text) => text !== '');
  const flags = `--issuer ${shellWord(given.issuer)} --audience ${shellWord(given.audience)}`;
  const command = useOperatorCommand(
    `holdfast app add ${shellWord(given.app)} ${flags} ${isUrl ? `--jwks-url ${shellWord(keys)}` : '--jwks-file public.json'}`,
  );
  return (
    <Dialog
      title="Add an App"
      confirm="Add"
      command={isGood ? command : undefined}
      onClose={onClose}
      onConfirm={
        isGood
          ? async () => {
              await change('apps/add', { ...given, ...(isUrl ? { jwksUrl: keys } : { jwks: keys }) });
              onDone();
            }
          : undefined
      }
    >
      <p class="soft">
        An App is a product whose tenants store here. It signs their tokens with keys of its own, of which the
        server needs the public halves.
      </p>
      {FIELDS.map(([name, label, example]) => (
        <label key={name}>
          {label}
          <input
            required
            spellcheck={false}
            autocomplete="off"
            placeholder={example}
            value={given[name]}
            onInput={({ currentTarget }) => setGiven({ ...given, [name]: currentTarget.value.trim() })}
          />
        </label>
      ))}
      <label>
        Public keys: the address of a key set, or its JSON
        <textarea
          required
          rows={4}
          spellcheck={false}
          placeholder={'https://issuer.example/jwks.json, or {"keys": […]}'}
          value={keys}
          onInput={({ currentTarget }) => setKeys(currentTarget.value.trim())}
        />
      </label>
    </Dialog>
  );
}
