/** A file of a tree: what is in it, and a verified download. */
import { formatName, type TreeItem } from '@holdfast/client';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatBytes } from '../parts/format.ts';
import { useAction } from '../parts/loaded.ts';
import { Failure, Notice } from '../parts/notices.tsx';
import type { Connection } from './connection.ts';
import { Preview } from './preview.tsx';
import { saveFile } from './save-file.ts';

interface FileProps {
  readonly space: Connection;
  readonly names: readonly Uint8Array[];
  readonly file: TreeItem;
}

export function FileView({ space, names, file }: FileProps) {
  return (
    <>
      <Download space={space} names={names} file={file} />
      <Preview
        contentKey={file.hash}
        bytes={file.bytes}
        read={async (start, end, signal) => {
          const pieces = await Array.fromAsync(space.tree.readFile(file, { range: { start, end }, signal }));
          return new Uint8Array(await new Blob(pieces as Uint8Array<ArrayBuffer>[]).arrayBuffer());
        }}
      />
    </>
  );
}

function Download({ space, names, file }: FileProps) {
  const action = useAction();
  const [done, setDone] = useState(0);
  const [isSaved, setSaved] = useState(false);
  const ending = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ending.current?.abort(), []);
  const last = names.at(-1);
  const name = last === undefined ? file.hash : formatName(last);
  const download = async (): Promise<void> => {
    ending.current = new AbortController();
    setSaved(false);
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let read = 0;
    for await (const piece of space.tree.readFile(file, { signal: ending.current.signal })) {
      pieces.push(piece as Uint8Array<ArrayBuffer>);
      read += piece.length;
      setDone(read);
    }
    saveFile(new Blob(pieces, { type: 'application/octet-stream' }), name);
    setSaved(true);
  };
  return (
    <div class="download">
      <button
        type="button"
        class="primary"
        disabled={action.isRunning}
        onClick={() => void action.run(download)}
      >
        Download {formatBytes(file.bytes)}
      </button>
      {action.isRunning ? (
        <>
          <progress aria-label="Download" value={file.bytes === 0 ? 1 : done / file.bytes} max={1} />
          <button
            type="button"
            onClick={() => ending.current?.abort(new Error('The download was given up.'))}
          >
            Stop
          </button>
        </>
      ) : null}
      {isSaved ? (
        <Notice kind="ok">
          <p>Verified against its hash, and handed to the browser.</p>
        </Notice>
      ) : null}
      <Failure error={action.error} />
    </div>
  );
}
