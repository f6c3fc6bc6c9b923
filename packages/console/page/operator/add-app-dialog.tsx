/** Registering an App: who signs its tokens, for whom, and with which keys. */
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';
import { shellWord } from '../parts/format.ts';
import { change } from './operator-api.ts';
import { useOperatorCommand } from './operator-command.tsx';

const FIELDS = [
  ['app', 'App', 'my-app'],
  ['issuer', 'Issuer, the iss of its tokens', 'https://issuer.example'],
  ['audience', 'Audience, in the aud of its tokens', 'holdfast'],
] as const;

export function AddAppDialog({
  onClose,
  onDone,
}: {
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
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
