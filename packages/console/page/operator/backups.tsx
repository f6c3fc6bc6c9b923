/** When a backup last succeeded, and the commands that make, check and restore one. */
import { useEffect, useState } from 'preact/hooks';
import { CommandLine } from '../parts/command.tsx';
import { formatDistance, formatInstant, shellWord } from '../parts/format.ts';
import { Loading, Notice } from '../parts/notices.tsx';
import { load, watchLoad } from './load.ts';
import { gaugeOf } from './metrics-text.ts';

const SECOND_MS = 1000;
const FOLDER_DEFAULT = '/var/backups/holdfast';

export function Backups() {
  const [given, setFolder] = useState('');
  useEffect(watchLoad, []);
  const { scrape } = load.value;
  const folder = shellWord(given === '' ? FOLDER_DEFAULT : given);
  return (
    <>
      {scrape === undefined ? (
        <Loading what="the last backup" />
      ) : (
        <LastBackup seconds={gaugeOf(scrape, 'holdfast_backup_last_success_timestamp_seconds') ?? 0} />
      )}
      <p>
        A backup holds all that was acknowledged before it began, and the server goes on serving. Into the
        same folder again, only what is new is copied. It is made on the machine that holds the data, so by
        the command line:
      </p>
      <div class="panel">
        <div class="tools">
          <label>
            Folder for the backup
            <input
              value={given}
              placeholder={FOLDER_DEFAULT}
              spellcheck={false}
              onInput={({ currentTarget }) => setFolder(currentTarget.value.trim())}
            />
          </label>
        </div>
        <p class="soft">Back up, now or every night:</p>
        <CommandLine line={`holdfast backup ${folder}`} />
        <p class="soft">Check that it is whole, before you rely on it:</p>
        <CommandLine line={`holdfast backup check ${folder}`} />
        <p class="soft">Bring it back, into a folder that is empty:</p>
        <CommandLine line={`holdfast restore ${folder} --data ./restored`} />
      </div>
    </>
  );
}

function LastBackup({ seconds }: { readonly seconds: number }) {
  if (seconds === 0) {
    return (
      <Notice kind="warn">
        <p>No backup has been made through this server since it started.</p>
      </Notice>
    );
  }
  const at = seconds * SECOND_MS;
  return (
    <Notice kind="ok">
      <p>
        The last backup ended {formatDistance(at, Date.now())}, at {formatInstant(at)}.
      </p>
    </Notice>
  );
}
