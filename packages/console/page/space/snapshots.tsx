/** The view of everything that a Space keeps: snapshots under their names, and all root refs of the token's domain. */

import { forgetSnapshots, setPinned } from '@holdfast/client';
import { type DomainNames, readNames, type Snapshot } from '@holdfast/client/internal';
import { useState } from 'preact/hooks';
import { HashText } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { formatBytes, formatDistance, formatInstant, formatThings, printable } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { Scroll } from '../parts/scroll.tsx';
import { hrefTo } from '../route.ts';
import type { Connection } from './connection.ts';
import { SpaceCommand, spaceCommand } from './space-command.tsx';
import { nodeHref, treeHref } from './tree-address.ts';

export function SnapshotsView({ space }: { readonly space: Connection }) {
  const loaded = useLoaded('names', (signal) => readNames(space.client, { signal }));
  return (
    <>
      <div class="head">
        <h1>Snapshots</h1>
        <a class="button primary" href={hrefTo('space/push')}>
          Push a folder
        </a>
      </div>
      {space.claims !== undefined && space.claims.refDomain === undefined ? (
        <Notice kind="warn">
          <p>
            This token has no <code>refDomain</code>, so it sees neither snapshots nor root refs. With a hash
            you can still open a node or a tree below.
          </p>
        </Notice>
      ) : (
        <Shown loaded={loaded} what="snapshots">
          {(names) => (
            <>
              <SnapshotList space={space} names={names} onDone={loaded.reload} />
              <RootRefs names={names} />
            </>
          )}
        </Shown>
      )}
      <OpenByHash />
    </>
  );
}

interface SnapshotListProps {
  readonly space: Connection;
  readonly names: DomainNames;
  readonly onDone: () => void;
}

function SnapshotList({ space, names, onDone }: SnapshotListProps) {
  const { snapshots, unreadable, refDomain, revision } = names;
  return (
    <section aria-label="Snapshots">
      <p class="soft">
        Domain <bdi>{printable(refDomain)}</bdi>, revision {revision}.{' '}
        {formatThings(snapshots.length, 'snapshot')}.
      </p>
      {unreadable.map(({ hash, message }) => (
        <Notice key={hash} kind="warn">
          <p>
            The list of snapshots in <HashText hash={hash} href={nodeHref(hash)} /> cannot be read, so what it
            names is not shown: {printable(message)}
          </p>
        </Notice>
      ))}
      {snapshots.length === 0 ? (
        <Empty title="No snapshots yet">
          <p>
            A snapshot is a folder that was pushed under a name.{' '}
            <a href={hrefTo('space/push')}>Push one here</a>, or on the command line:
          </p>
          <SpaceCommand space={space} line="holdfast push ./folder --name photos" />
        </Empty>
      ) : (
        [...groupByName(snapshots)].map(([name, list]) => (
          <NamedSnapshots key={name} space={space} name={name} list={list} onDone={onDone} />
        ))
      )}
    </section>
  );
}

/** Names by their latest snapshot, and snapshots of a name, latest first. */
function groupByName(snapshots: readonly Snapshot[]): Map<string, readonly Snapshot[]> {
  const latestFirst = snapshots.toSorted((a, b) => b.time - a.time);
  return Map.groupBy(latestFirst, ({ name }) => name);
}

interface NamedSnapshotsProps {
  readonly space: Connection;
  readonly name: string;
  readonly list: readonly Snapshot[];
  readonly onDone: () => void;
}

function NamedSnapshots({ space, name, list, onDone }: NamedSnapshotsProps) {
  return (
    <section class="panel" aria-label={`Snapshots of ${name}`}>
      <h2>
        {name} <span class="soft">{list.length > 1 ? formatThings(list.length, 'snapshot') : ''}</span>
      </h2>
      <Scroll label={`Table of the snapshots of ${name}`}>
        <table class="stacks">
          <thead>
            <tr>
              <th scope="col">Taken</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">From</th>
              <th scope="col">Root</th>
              <th scope="col">
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {list.map((snapshot, index) => (
              <SnapshotRow
                key={snapshot.id}
                space={space}
                snapshot={snapshot}
                before={list[index + 1]}
                onDone={onDone}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

interface SnapshotRowProps {
  readonly space: Connection;
  readonly snapshot: Snapshot;
  /** the one before it, of the same name */
  readonly before: Snapshot | undefined;
  readonly onDone: () => void;
}

function SnapshotRow({ space, snapshot, before, onDone }: SnapshotRowProps) {
  const { id, name, root, time, bytes, host, path, pinned } = snapshot;
  const at = formatInstant(time);
  const mayChange = space.claims?.permissions.includes('cas:root-refs:update') ?? true;
  return (
    <tr>
      <td>
        <a href={treeHref(root)}>{at}</a> <span class="soft">{formatDistance(time, Date.now())}</span>
        {pinned ? <span class="badge">pinned</span> : null}
      </td>
      <td class="number">{formatBytes(bytes)}</td>
      <td class="origin">
        <bdi>
          {printable(host)}:{printable(path)}
        </bdi>
      </td>
      <td>
        <HashText hash={root} href={nodeHref(root)} />
      </td>
      <td class="actions">
        <a
          href={hrefTo('space/compare', {
            from: before === undefined ? undefined : `${name}@${before.id}`,
            to: `${name}@${id}`,
          })}
          aria-label={before === undefined ? `Compare that of ${at}` : `What changed at ${at}`}
        >
          {before === undefined ? 'compare' : 'what changed'}
        </a>
        {mayChange ? <SnapshotActions space={space} snapshot={snapshot} onDone={onDone} /> : null}
      </td>
    </tr>
  );
}

function RootRefs({ names }: { readonly names: DomainNames }) {
  const catalogs = new Set([...names.catalogs, ...names.unreadable].map(({ hash }) => hash));
  const others = names.rootRefs.filter(({ hash }) => !catalogs.has(hash));
  return (
    <section class="panel" aria-label="Root refs">
      <h2>Root refs</h2>
      <p class="soft">
        What they point at is kept, with everything below it, while the balance is more than 0.{' '}
        {catalogs.size === 0
          ? ''
          : `${formatThings(catalogs.size, 'catalog')}, which ${catalogs.size === 1 ? 'lists' : 'list'} the snapshots above, ${catalogs.size === 1 ? 'is' : 'are'} among them.`}
      </p>
      {names.rootRefs.length === 0 ? (
        <p>This domain has none.</p>
      ) : (
        <ul class="rows">
          {[...others, ...names.rootRefs.filter(({ hash }) => catalogs.has(hash))].map(
            ({ hash, refCount }) => (
              <li key={hash}>
                <HashText hash={hash} href={nodeHref(hash)} digits={24} />
                <span class="number">{refCount}</span>
                <span class="soft">{catalogs.has(hash) ? 'catalog' : ''}</span>
              </li>
            ),
          )}
        </ul>
      )}
    </section>
  );
}

function OpenByHash() {
  return (
    <form
      class="panel inline"
      onSubmit={(event) => {
        event.preventDefault();
        const hash = new FormData(event.currentTarget).get('hash');
        if (typeof hash === 'string') location.hash = nodeHref(hash.trim().toLowerCase());
      }}
    >
      <label>
        Open a node by its hash
        <input
          name="hash"
          required
          pattern="\s*[0-9a-fA-F]{64}\s*"
          title="64 hexadecimal digits"
          spellcheck={false}
        />
      </label>
      <button type="submit">Open</button>
    </form>
  );
}

interface ActionsProps {
  readonly space: Connection;
  readonly snapshot: Snapshot;
  readonly onDone: () => void;
}

/** Actions on one snapshot: pin, unpin and forget, each with its question and its command. */
function SnapshotActions(props: ActionsProps) {
  const [asked, setAsked] = useState<'pin' | 'forget' | undefined>(undefined);
  const { name, time, pinned } = props.snapshot;
  const of = `${name} of ${formatInstant(time)}`;
  const close = (): void => setAsked(undefined);
  return (
    <>
      <button type="button" class="small" onClick={() => setAsked('pin')}>
        {pinned ? 'Unpin' : 'Pin'} <span class="unseen">{of}</span>
      </button>
      {pinned ? null : (
        <button type="button" class="small" onClick={() => setAsked('forget')}>
          Forget … <span class="unseen">{of}</span>
        </button>
      )}
      {asked === 'pin' ? <PinDialog {...props} onClose={close} /> : null}
      {asked === 'forget' ? <ForgetDialog {...props} onClose={close} /> : null}
    </>
  );
}

type DialogProps = ActionsProps & { readonly onClose: () => void };

function PinDialog({ space, snapshot: { id, name, pinned }, onDone, onClose }: DialogProps) {
  const verb = pinned ? 'unpin' : 'pin';
  return (
    <Dialog
      title={pinned ? `Unpin this snapshot of ${name}?` : `Pin this snapshot of ${name}?`}
      confirm={pinned ? 'Unpin' : 'Pin'}
      command={spaceCommand(space, `holdfast snapshots ${verb} ${id}`)}
      onClose={onClose}
      onConfirm={async () => {
        await setPinned(space.client, id, pinned !== true);
        onDone();
      }}
    >
      <p>
        {pinned
          ? 'A policy of “forget” may then forget it.'
          : 'It is kept then, whatever a policy of “forget” says, until it is unpinned.'}
      </p>
    </Dialog>
  );
}

function ForgetDialog({ space, snapshot: { id, name, time }, onDone, onClose }: DialogProps) {
  return (
    <Dialog
      title={`Forget the snapshot of ${name} of ${formatInstant(time)}?`}
      confirm="Forget"
      isDangerous
      command={spaceCommand(space, `holdfast forget ${id}`)}
      onClose={onClose}
      onConfirm={async () => {
        await forgetSnapshots(space.client, { idPrefixes: [id] });
        onDone();
      }}
    >
      <p>
        The list no longer names it. The next collection deletes the nodes that no other snapshot holds. Until
        then the command line brings it back:
      </p>
      <p>
        <code>holdfast unforget {id}</code>
      </p>
    </Dialog>
  );
}
