/** What a Space keeps: snapshots under their names, and all root refs of the token's domain. */
import { type DomainNames, readNames, type Snapshot } from '@holdfast/client';
import { CommandLine, HashText } from '../parts/command.tsx';
import { formatBytes, formatDistance, formatInstant, formatThings } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { printable } from '../parts/printable.ts';
import { Scroll } from '../parts/scroll.tsx';
import { hrefTo } from '../route.ts';
import type { Connection } from './connection.ts';
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
              <SnapshotList names={names} />
              <RootRefs names={names} />
            </>
          )}
        </Shown>
      )}
      <OpenByHash />
    </>
  );
}

function SnapshotList({ names }: { readonly names: DomainNames }) {
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
          <CommandLine line="holdfast push ./folder --name photos" />
        </Empty>
      ) : (
        [...groupByName(snapshots)].map(([name, list]) => (
          <NamedSnapshots key={name} name={name} list={list} />
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

function NamedSnapshots({ name, list }: { readonly name: string; readonly list: readonly Snapshot[] }) {
  const now = Date.now();
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
            {list.map((snapshot, index) => {
              const before = list[index + 1];
              const at = formatInstant(snapshot.time);
              return (
                <tr key={snapshot.id}>
                  <td>
                    <a href={treeHref(snapshot.root)}>{at}</a>{' '}
                    <span class="soft">{formatDistance(snapshot.time, now)}</span>
                    {snapshot.pinned ? <span class="badge">pinned</span> : null}
                  </td>
                  <td class="number">{formatBytes(snapshot.bytes)}</td>
                  <td class="origin">
                    <bdi>
                      {printable(snapshot.host)}:{printable(snapshot.path)}
                    </bdi>
                  </td>
                  <td>
                    <HashText hash={snapshot.root} href={nodeHref(snapshot.root)} />
                  </td>
                  <td>
                    {before === undefined ? null : (
                      <a
                        href={hrefTo('space/compare', {
                          from: `${name}@${before.id}`,
                          to: `${name}@${snapshot.id}`,
                        })}
                        aria-label={`What changed at ${at}`}
                      >
                        what changed
                      </a>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </section>
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
