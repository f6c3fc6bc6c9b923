/** A folder of the disk into the Space: dragged in or chosen, hashed here, and only what is new is sent. */
import { isSnapshotName } from '@holdfast/client/internal';
import { useEffect, useRef, useState } from 'preact/hooks';
import { HashText } from '../parts/command.tsx';
import { formatBytes, formatInstant, formatThings, printable, shellWord } from '../parts/format.ts';
import { useAction } from '../parts/loaded.ts';
import { Failure, Notice } from '../parts/notices.tsx';
import { hrefTo } from '../route.ts';
import type { Connection } from './connection.ts';
import { folderOfDrop, folderOfFiles, type GivenFolder, measureFolder } from './given-folder.ts';
import { type Pushed, type PushStep, pushFolder } from './push-folder.ts';
import { SpaceCommand } from './space-command.tsx';
import { nodeHref, treeHref } from './tree-address.ts';

export function PushView({ space }: { readonly space: Connection }) {
  const [folder, setFolder] = useState<GivenFolder | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  return (
    <>
      <h1>Push a folder</h1>
      <DropArea
        onGiven={(given) => {
          setError(undefined);
          given.then(setFolder, setError);
        }}
      />
      <Failure error={error} />
      {folder === undefined ? (
        <>
          <p class="soft">
            Files are hashed in this page, and only what the Space does not have yet is sent. A browser does
            not tell whether a file is executable, and follows links or leaves them out; the command line
            keeps both:
          </p>
          <SpaceCommand space={space} line="holdfast push ./folder --name photos" />
        </>
      ) : (
        <Prepared key={folder.name} space={space} folder={folder} />
      )}
    </>
  );
}

function DropArea({ onGiven }: { readonly onGiven: (given: Promise<GivenFolder | undefined>) => void }) {
  const [isOver, setOver] = useState(false);
  return (
    <fieldset
      aria-label="The folder"
      class={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer !== null) onGiven(folderOfDrop(event.dataTransfer.items));
      }}
    >
      <p>Drag a folder here, or</p>
      <label class="button primary">
        Choose a folder
        <input
          type="file"
          class="unseen"
          multiple
          ref={askForFolder}
          onChange={({ currentTarget }) => onGiven(Promise.resolve(folderOfFiles(currentTarget.files ?? [])))}
        />
      </label>
    </fieldset>
  );
}

/** No attribute of the types: it is no standard, though all browsers have it. */
function askForFolder(input: HTMLInputElement | null): void {
  input?.toggleAttribute('webkitdirectory', true);
}

/** A name that the folder's own makes likely. */
function suggestName(folder: string): string {
  const name = folder
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 128);
  return isSnapshotName(name) ? name : '';
}

function Prepared({ space, folder }: { readonly space: Connection; readonly folder: GivenFolder }) {
  const { files, bytes } = measureFolder(folder);
  const [name, setName] = useState(() => suggestName(folder.name));
  const [step, setStep] = useState<PushStep | undefined>(undefined);
  const action = useAction();
  const ending = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ending.current?.abort(), []);
  const isGood = name === '' || isSnapshotName(name);
  const push = (): Promise<void> => {
    ending.current = new AbortController();
    return pushFolder(space, folder, name === '' ? undefined : name, setStep, ending.current.signal);
  };
  if (step?.step === 'done') return <Done space={space} pushed={step.result} folder={folder} />;
  return (
    <form
      class="panel narrow"
      onSubmit={(event) => {
        event.preventDefault();
        if (isGood) void action.run(push);
      }}
    >
      <h2>
        <bdi>{printable(folder.name)}</bdi>
      </h2>
      <p>
        {formatThings(files, 'file')}, {formatBytes(bytes)}
      </p>
      <label>
        Keep it under the name
        <input
          value={name}
          spellcheck={false}
          aria-invalid={!isGood}
          aria-describedby="name-rule"
          disabled={action.isRunning}
          onInput={({ currentTarget }) => setName(currentTarget.value.trim())}
        />
      </label>
      <p id="name-rule" class={isGood ? 'soft' : 'bad-text'}>
        Letters, digits, “.”, “_” and “-”. Without a name the tree is only leased for 24 hours.
      </p>
      <Failure error={action.error} />
      {action.isRunning ? <Progress step={step} /> : null}
      <div class="buttons">
        <button type="submit" class="primary" disabled={!isGood || action.isRunning}>
          {action.error === undefined ? 'Push' : 'Push again'}
        </button>
        {action.isRunning ? (
          <button
            type="button"
            onClick={() =>
              ending.current?.abort(
                new Error('The push was stopped. Uploaded files stay; push again to go on.'),
              )
            }
          >
            Stop
          </button>
        ) : null}
      </div>
    </form>
  );
}

function Progress({ step }: { readonly step: PushStep | undefined }) {
  if (step === undefined || step.step === 'done') return null;
  if (step.step === 'naming') return <p role="status">Adding the snapshot …</p>;
  const { bytes, totalBytes } = step;
  const part = totalBytes === 0 ? 1 : Math.min(1, bytes / totalBytes);
  const label = step.step === 'hashing' ? 'Hashing' : 'Sending';
  return (
    <div class="progress">
      <progress aria-label={label} value={part} max={1} />
      <p>
        {label}: {formatBytes(bytes)} of {formatBytes(totalBytes)}
        {step.step === 'sending' ? ` dealt with, ${formatBytes(step.sentBytes)} sent` : ''}
      </p>
      {step.step === 'sending' && step.stall !== undefined ? (
        <p class="soft" role="status">
          Waiting: {step.stall}
        </p>
      ) : null}
    </div>
  );
}

interface DoneProps {
  readonly space: Connection;
  readonly pushed: Pushed;
  readonly folder: GivenFolder;
}

function Done({ space, pushed, folder }: DoneProps) {
  const { root, entryCount, bytes, uploadedBytes, leaseExpiresAt, name } = pushed;
  return (
    <>
      <Notice kind="ok">
        <p>
          Pushed <bdi>{printable(folder.name)}</bdi>: {formatThings(entryCount, 'entry', 'entries')},{' '}
          {formatBytes(bytes)};{' '}
          {uploadedBytes === 0 ? 'everything was there already' : `${formatBytes(uploadedBytes)} were new`}.{' '}
          {name === undefined
            ? `It is kept until ${formatInstant(leaseExpiresAt)} only.`
            : `It is kept as a snapshot of ${name}.`}
        </p>
      </Notice>
      <p>
        <HashText hash={root} href={nodeHref(root)} digits={24} />
      </p>
      <div class="buttons">
        <a class="button primary" href={treeHref(root)}>
          Look at the tree
        </a>
        <a class="button" href={hrefTo('space')}>
          All snapshots
        </a>
      </div>
      <SpaceCommand space={space} line={`holdfast pull ${name ?? root} ${shellWord(`./${folder.name}`)}`} />
    </>
  );
}
