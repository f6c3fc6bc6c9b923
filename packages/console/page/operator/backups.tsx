/** Backups: when the last one succeeded, how far the running one is, and what makes, checks and restores one. */
import { useState } from 'preact/hooks';
import { CommandLine } from '../parts/command.tsx';
import { OperatorError } from '../parts/describe-error.ts';
import {
  formatBytes,
  formatDistance,
  formatInstant,
  formatThings,
  printable,
  shellWord,
} from '../parts/format.ts';
import { useAction, useLoaded } from '../parts/loaded.ts';
import { Failure, Notice, Shown } from '../parts/notices.tsx';
import { change, read } from './operator-api.ts';
import { OperatorCommand } from './operator-command.tsx';
import type { BackupOutcome, BackupStatus } from './shapes.ts';

const FOLDER_DEFAULT = '/var/backups/holdfast';

export function Backups() {
  const [given, setFolder] = useState('');
  const folder = given === '' ? FOLDER_DEFAULT : given;
  const word = shellWord(folder);
  const loaded = useLoaded('backup', (signal) => read<BackupStatus>('backup', {}, signal), {
    everyMs: 2_000,
  });
  // Rows in PostgreSQL: the server says how these are backed up.
  const elsewhere = loaded.error instanceof OperatorError && loaded.error.status === 409;
  if (elsewhere) return <Notice>{describe(loaded.error as OperatorError)}</Notice>;
  return (
    <>
      <Shown loaded={loaded} what="the last backup">
        {(status) => <LastBackup at={status.lastSuccessAt} />}
      </Shown>
      <p>
        A backup holds all that was acknowledged before it began, and the server goes on serving. Into the
        same folder again, only what changed is copied.
      </p>
      <div class="panel">
        <div class="tools">
          <label>
            Folder for the backup, on the machine of the server
            <input
              value={given}
              placeholder={FOLDER_DEFAULT}
              spellcheck={false}
              onInput={({ currentTarget }) => setFolder(currentTarget.value.trim())}
            />
          </label>
        </div>
        <BackUpHere folder={folder} running={loaded.data?.running ?? null} onChange={loaded.reload} />
        <p class="soft">By the command line, now or every night:</p>
        <OperatorCommand line={`holdfast backup ${word}`} />
        <p class="soft">Check that it is whole, before you rely on it:</p>
        <CommandLine line={`holdfast backup check ${word}`} />
        <p class="soft">Bring it back, into a folder that is empty:</p>
        <CommandLine line={`holdfast restore ${word} --data ./restored`} />
      </div>
    </>
  );
}

const describe = ({ message }: OperatorError) => <p>{message}</p>;

function BackUpHere({
  folder,
  running,
  onChange,
}: {
  readonly folder: string;
  readonly running: BackupStatus['running'];
  readonly onChange: () => void;
}) {
  const action = useAction();
  const [made, setMade] = useState<BackupOutcome | undefined>(undefined);
  const backUp = async (): Promise<void> => {
    setMade(undefined);
    const asked = change<BackupOutcome>('backup', { folder });
    onChange();
    setMade(await asked);
    onChange();
  };
  const isBusy = action.isRunning || running !== null;
  return (
    <>
      <div class="buttons">
        <button type="button" class="primary" disabled={isBusy} onClick={() => void action.run(backUp)}>
          {isBusy ? 'Backing up …' : 'Back up now'}
        </button>
      </div>
      {running === null ? null : <Progress running={running} />}
      <Failure error={action.error} />
      {made === undefined ? null : (
        <Notice kind="ok">
          <p>
            {formatThings(made.nodes, 'node')}, {formatBytes(made.bytes)}; {formatBytes(made.copiedBytes)} of
            it copied now.
          </p>
        </Notice>
      )}
    </>
  );
}

/** The backup continues if this page is closed. */
function Progress({ running }: { readonly running: NonNullable<BackupStatus['running']> }) {
  const { folder, startedAt, progress } = running;
  return (
    <div class="progress">
      <progress aria-label="Backup" />
      <p>
        Into <bdi>{printable(folder)}</bdi>, begun {formatDistance(startedAt, Date.now())}:{' '}
        {printable(progress)}
      </p>
    </div>
  );
}

function LastBackup({ at }: { readonly at: number | null }) {
  if (at === null) {
    return (
      <Notice kind="warn">
        <p>No backup of this data folder was ever made.</p>
      </Notice>
    );
  }
  return (
    <Notice kind="ok">
      <p>
        The last backup ended {formatDistance(at, Date.now())}, at {formatInstant(at)}.
      </p>
    </Notice>
  );
}
