/** A backup while the server serves, into a folder of the machine it runs on. */
import { useState } from 'preact/hooks';
import { CommandLine } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { formatBytes, formatSpan, formatThings, shellWord } from '../parts/format.ts';
import { Notice } from '../parts/notices.tsx';
import { change } from './operator-api.ts';
import type { BackupResult } from './shapes.ts';

export function Backups() {
  const [dir, setDir] = useState('');
  const [isAsking, setAsking] = useState(false);
  const [result, setResult] = useState<BackupResult | undefined>(undefined);
  return (
    <>
      <p>
        A backup holds all that was acknowledged before it began. Into the same folder again, only what is new
        is copied. The folder is on the machine that the server runs on.
      </p>
      <form
        class="panel narrow"
        onSubmit={(event) => {
          event.preventDefault();
          setAsking(true);
        }}
      >
        <label>
          Folder for the backup
          <input
            required
            pattern="/.+"
            title="a path that begins with /"
            placeholder="/var/backups/holdfast"
            spellcheck={false}
            value={dir}
            onInput={({ currentTarget }) => setDir(currentTarget.value)}
          />
        </label>
        <div class="buttons">
          <button type="submit" class="primary">
            Back up …
          </button>
        </div>
      </form>
      {result === undefined ? null : (
        <Notice kind="ok">
          <p>
            Backed up: {formatThings(result.nodes, 'node')}, {formatBytes(result.bytes)};{' '}
            {formatBytes(result.copiedBytes)} copied in {formatSpan(result.ms)}. Check it before you rely on
            it:
          </p>
        </Notice>
      )}
      <CommandLine line={`holdfast backup check ${shellWord(dir === '' ? '/var/backups/holdfast' : dir)}`} />
      <CommandLine
        line={`holdfast restore ${shellWord(dir === '' ? '/var/backups/holdfast' : dir)} --data ./restored`}
      />
      {isAsking ? (
        <Dialog
          title="Back up now?"
          confirm="Back up"
          command={`holdfast backup ${shellWord(dir)}`}
          onClose={() => setAsking(false)}
          onConfirm={async () => setResult(await change<BackupResult>('backup', { dir }))}
        >
          <p>The server goes on serving. Keep this page open until it is done.</p>
        </Dialog>
      ) : null}
    </>
  );
}
