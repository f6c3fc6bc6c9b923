/** One place in a tree: a directory as a list, a file with a preview, a link with its target. */

import {
  type DirectoryEntry,
  findText,
  formatName,
  readNames,
  type Snapshot,
  type TreeItem,
} from '@holdfast/client/internal';
import { BIG_NS_PER_MS } from '@holdfast/protocol';
import { useEffect, useRef, useState } from 'preact/hooks';
import { HashText } from '../parts/command.tsx';
import { formatBytes, formatInstant, formatThings, shellWord } from '../parts/format.ts';
import { useAction, useLoaded } from '../parts/loaded.ts';
import { Empty, Failure, Notice, Shown } from '../parts/notices.tsx';
import { hrefTo, route } from '../route.ts';
import type { Connection } from './connection.ts';
import { DirectoryList } from './directory-list.tsx';
import { FolderDownload, saveFile } from './folder-download.tsx';
import { Preview } from './preview.tsx';
import { SpaceCommand, TokenHint } from './space-command.tsx';
import { decodeName, nodeHref, treeHref } from './tree-address.ts';

export function TreeView({ space }: { readonly space: Connection }) {
  const [, , root = '', ...encoded] = route.value.segments;
  const key = [root, ...encoded].join('/');
  const names = encoded.map(decodeName);
  const loaded = useLoaded(key, (signal) => space.tree.resolvePath(root, names, { signal }));
  const snapshot = useSnapshotOf(space, root);
  if (!/^[0-9a-f]{64}$/.test(root)) {
    return (
      <>
        <h1>Tree</h1>
        <Empty title="No tree is named in the address">
          <p>
            Choose one of the <a href={hrefTo('space')}>snapshots</a>.
          </p>
        </Empty>
      </>
    );
  }
  return (
    <>
      <h1 class="crumbs-head">
        <Crumbs root={root} snapshot={snapshot} names={names} />
      </h1>
      <Shown loaded={loaded} what="this place of the tree">
        {(item) => <Item key={key} space={space} root={root} snapshot={snapshot} names={names} item={item} />}
      </Shown>
    </>
  );
}

/** The latest snapshot with this root, if the token may see any. */
function useSnapshotOf(space: Connection, root: string): Snapshot | undefined {
  const { data } = useLoaded('names', (signal) => readNames(space.client, { signal }));
  return data?.snapshots.toSorted((a, b) => b.time - a.time).find((snapshot) => snapshot.root === root);
}

interface CrumbsProps {
  readonly root: string;
  readonly snapshot: Snapshot | undefined;
  readonly names: readonly Uint8Array[];
}

function Crumbs({ root, snapshot, names }: CrumbsProps) {
  const short =
    snapshot === undefined
      ? `${root.slice(0, 12)}…`
      : `${snapshot.name}, ${formatInstant(snapshot.time).slice(0, 'YYYY-MM-DD'.length)}`;
  return (
    <nav class="crumbs" aria-label="Place in the tree">
      <ol>
        <li>
          {names.length === 0 ? (
            <span aria-current="page" title={root}>
              {short}
            </span>
          ) : (
            <a href={treeHref(root)} title={root}>
              {short}
            </a>
          )}
        </li>
        {names.map((name, index) => {
          const shown = <bdi>{formatName(name)}</bdi>;
          const isLast = index === names.length - 1;
          const href = treeHref(root, names.slice(0, index + 1));
          return (
            <li key={index}>
              {isLast ? <span aria-current="page">{shown}</span> : <a href={href}>{shown}</a>}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}

interface ItemProps {
  readonly space: Connection;
  readonly root: string;
  readonly snapshot: Snapshot | undefined;
  readonly names: readonly Uint8Array[];
  readonly item: TreeItem | DirectoryEntry;
}

function Item(props: ItemProps) {
  const { space, root, snapshot, names, item } = props;
  const last = names.at(-1) ?? new TextEncoder().encode(snapshot?.name ?? root.slice(0, 12));
  return (
    <>
      <Facts {...props} />
      {item.kind === 'directory' ? (
        <>
          <DirectoryList space={space} root={root} names={names} directory={item} />
          <FolderDownload key={item.hash} space={space} directory={item} name={last} />
        </>
      ) : item.kind === 'file' ? (
        <FileView space={space} names={names} file={item} />
      ) : (
        <Link space={space} item={item} />
      )}
      <Commands {...props} />
    </>
  );
}

function Facts({ item }: ItemProps) {
  const { kind, bytes, entryCount, isExecutable, mtimeNs } = item;
  const words = [
    kind === 'directory'
      ? formatThings(entryCount, 'entry', 'entries')
      : kind === 'symlink'
        ? 'link'
        : 'file',
    formatBytes(bytes),
    ...(isExecutable ? ['executable'] : []),
    ...(mtimeNs === undefined ? [] : [`changed ${formatInstant(Number(mtimeNs / BIG_NS_PER_MS))}`]),
  ];
  return (
    <p class="facts-line">
      <span title={`${bytes} bytes`}>{words.join(' · ')}</span>
      <span>
        node <HashText hash={item.hash} href={nodeHref(item.hash)} />
      </span>
    </p>
  );
}

function Link({ space, item }: { readonly space: Connection; readonly item: TreeItem }) {
  const loaded = useLoaded(item.hash, (signal) => space.tree.readSymlink(item, { signal }));
  return (
    <Shown loaded={loaded} what="the link">
      {(target) => (
        <Notice>
          <p>
            A symbolic link to <code>{formatName(target)}</code>. Links are stored as they are and never
            followed.
          </p>
        </Notice>
      )}
    </Shown>
  );
}

function Commands({ space, root, snapshot, names, item }: ItemProps) {
  const texts = names.map(findText);
  // A name that is no text cannot be copied as one.
  if (texts.some((text) => text === undefined || formatName(new TextEncoder().encode(text)) !== text))
    return null;
  const top = snapshot === undefined ? root : `${snapshot.name}@${snapshot.id}`;
  const place = shellWord([top, ...texts].join('/'));
  const last = texts.at(-1) ?? snapshot?.name;
  return (
    <section class="panel" aria-label="On the command line">
      <h2>On the command line</h2>
      {item.kind === 'directory' ? <SpaceCommand space={space} line={`holdfast ls ${place}`} /> : null}
      {item.kind === 'file' ? <SpaceCommand space={space} line={`holdfast cat ${place}`} /> : null}
      <SpaceCommand space={space} line={`holdfast pull ${place} ${shellWord(`./${last ?? 'copy'}`)}`} />
      <TokenHint />
    </section>
  );
}

interface FileProps {
  readonly space: Connection;
  readonly names: readonly Uint8Array[];
  readonly file: TreeItem;
}

/** A file of a tree: what is in it, and a verified download. */
function FileView({ space, names, file }: FileProps) {
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
