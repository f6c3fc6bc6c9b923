/** Differences between two trees. */
import {
  type Difference,
  diffWithRenames,
  formatPath,
  pathNames,
  type Rename,
  readNames,
  resolveReference,
  type Snapshot,
} from '@holdfast/client/internal';
import { useEffect, useState } from 'preact/hooks';
import { formatBytes, formatCount, formatInstant, shellWord } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Failure, Notice } from '../parts/notices.tsx';
import { goTo, hrefTo, route } from '../route.ts';
import type { Connection } from './connection.ts';
import { SpaceCommand } from './space-command.tsx';
import { treeHref } from './tree-address.ts';

type Change = Difference | Rename;

export function CompareView({ space }: { readonly space: Connection }) {
  const { query } = route.value;
  const from = query.get('from') ?? '';
  const to = query.get('to') ?? '';
  return (
    <>
      <h1>Compare</h1>
      <Choice key={`${from} ${to}`} space={space} from={from} to={to} />
      {from === '' || to === '' ? (
        <Empty title="Choose two trees">
          <p>The older one first. A snapshot, or anything else that names a tree: a name, a hash.</p>
        </Empty>
      ) : (
        <Differences key={`${from} ${to}`} space={space} from={from} to={to} />
      )}
    </>
  );
}

function Choice({
  space,
  from,
  to,
}: {
  readonly space: Connection;
  readonly from: string;
  readonly to: string;
}) {
  const names = useLoaded('names', (signal) => readNames(space.client, { signal }));
  const snapshots = names.data?.snapshots.toSorted((a, b) => b.time - a.time) ?? [];
  return (
    <form
      class="panel inline"
      onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        goTo(
          hrefTo('space/compare', {
            from: String(given.get('from')).trim(),
            to: String(given.get('to')).trim(),
          }),
        );
      }}
    >
      <Pick label="Before" name="from" value={from} snapshots={snapshots} />
      <Pick label="After" name="to" value={to} snapshots={snapshots} />
      <button type="submit" class="primary">
        Compare
      </button>
    </form>
  );
}

const OTHER = 'other';

interface PickProps {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  /** the latest first */
  readonly snapshots: readonly Snapshot[];
}

/** One of the snapshots, or whatever else names a tree. */
function Pick({ label, name, value, snapshots }: PickProps) {
  const [picked, setPicked] = useState<string | undefined>(undefined);
  const given = picked ?? value;
  const isKnown = snapshots.some((snapshot) => referenceTo(snapshot) === given);
  const isOther = given === OTHER || (given !== '' && !isKnown) || snapshots.length === 0;
  return (
    <div class="pick">
      {snapshots.length === 0 ? null : (
        <>
          <label for={`pick-${name}`}>{label}</label>
          <select
            id={`pick-${name}`}
            name={isOther ? undefined : name}
            required
            value={isOther ? OTHER : given}
            onChange={({ currentTarget }) => setPicked(currentTarget.value)}
          >
            <option value="">Choose a snapshot</option>
            {[...Map.groupBy(snapshots, (snapshot) => snapshot.name)].map(([group, list]) => (
              <optgroup key={group} label={group}>
                {list.map((snapshot) => (
                  <option key={snapshot.id} value={referenceTo(snapshot)}>
                    {group}, {formatInstant(snapshot.time)}
                  </option>
                ))}
              </optgroup>
            ))}
            <option value={OTHER}>Another name or a hash …</option>
          </select>
        </>
      )}
      {isOther ? (
        <label>
          {snapshots.length === 0 ? label : `${label}: name, or hash`}
          <input
            name={name}
            required
            spellcheck={false}
            value={given === OTHER ? '' : given}
            placeholder="photos@2026-11-20"
          />
        </label>
      ) : null}
    </div>
  );
}

const referenceTo = ({ name, id }: Snapshot): string => `${name}@${id}`;

interface Found {
  readonly changes: readonly Change[];
  readonly counts: Readonly<Record<Change['type'], number>>;
  readonly bytes: number;
  readonly isDone: boolean;
  readonly roots: readonly [string, string] | undefined;
}

const NOTHING: Found = {
  changes: [],
  counts: { added: 0, removed: 0, modified: 0, renamed: 0 },
  bytes: 0,
  isDone: false,
  roots: undefined,
};

async function compare(
  space: Connection,
  [from, to]: readonly [string, string],
  signal: AbortSignal,
  onFound: (found: Found) => void,
): Promise<void> {
  const before = (await resolveReference(space.client, from, { signal })).hash;
  const after = (await resolveReference(space.client, to, { signal })).hash;
  const items = [
    await space.tree.readItem(before, { signal }),
    await space.tree.readItem(after, { signal }),
  ] as const;
  const changes: Change[] = [];
  const counts = { ...NOTHING.counts };
  let bytes = 0;
  let saidAt = 0;
  const tell = (isDone: boolean): void =>
    onFound({ changes: [...changes], counts: { ...counts }, bytes, isDone, roots: [before, after] });
  for await (const change of diffWithRenames(space.source, ...items, { signal })) {
    counts[change.type] += 1;
    const isFile = (change.after ?? change.before)?.kind !== 'directory';
    if (isFile && change.type !== 'renamed')
      bytes += (change.after?.bytes ?? 0) - (change.before?.bytes ?? 0);
    // All are counted, and a thousand shown.
    if (changes.length < 1000) changes.push(change);
    if (performance.now() - saidAt > 150) {
      saidAt = performance.now();
      tell(false);
    }
  }
  tell(true);
}

function Differences({
  space,
  from,
  to,
}: {
  readonly space: Connection;
  readonly from: string;
  readonly to: string;
}) {
  const [found, setFound] = useState<Found>(NOTHING);
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    const ending = new AbortController();
    compare(space, [from, to], ending.signal, setFound).catch(
      (caught: unknown) => ending.signal.aborted || setError(caught),
    );
    return () => ending.abort();
  }, [space, from, to]);
  const { changes, counts, bytes, isDone, roots } = found;
  const total = counts.added + counts.removed + counts.modified + counts.renamed;
  return (
    <>
      <Failure error={error} />
      <p role="status">
        {isDone ? '' : error === undefined ? 'Comparing … ' : ''}
        <span class="added">+{formatCount(counts.added)} added</span>,{' '}
        <span class="removed">−{formatCount(counts.removed)} removed</span>, {formatCount(counts.modified)}{' '}
        changed, {formatCount(counts.renamed)} moved; {bytes < 0 ? '−' : '+'}
        {formatBytes(Math.abs(bytes))}
      </p>
      {isDone && total === 0 ? <Empty title="The two trees are the same" /> : null}
      {roots === undefined ? null : (
        <ul class="rows changes">
          {changes.map((change) => (
            <ChangeRow key={`${change.type} ${formatPath(change.path)}`} change={change} roots={roots} />
          ))}
        </ul>
      )}
      {total > changes.length ? (
        <Notice>
          <p>The first {formatCount(changes.length)} are shown. The command line shows all:</p>
        </Notice>
      ) : null}
      <SpaceCommand space={space} line={`holdfast diff ${shellWord(from)} ${shellWord(to)}`} />
    </>
  );
}

const SIGNS = { added: '+', removed: '−', modified: '±', renamed: '→' } as const;

function ChangeRow({
  change,
  roots,
}: {
  readonly change: Change;
  readonly roots: readonly [string, string];
}) {
  const { type, path, before, after } = change;
  const root = type === 'removed' ? roots[0] : roots[1];
  const [old, now] = [before?.bytes, after?.bytes];
  const sizes =
    type === 'modified' && old !== undefined && now !== undefined && old !== now
      ? `${formatBytes(old)} → ${formatBytes(now)}`
      : formatBytes(now ?? old ?? 0);
  const isFolder = (after ?? before)?.kind === 'directory';
  return (
    <li class={type}>
      <span class="sign" aria-hidden="true">
        {SIGNS[type]}
      </span>
      <span class="unseen">{type}</span>
      <a href={treeHref(root, pathNames(path))}>
        <bdi>
          {formatPath(path)}
          {isFolder ? '/' : ''}
        </bdi>
      </a>
      <span class="soft">
        {type === 'renamed' ? (
          <>
            from <bdi>{formatPath(change.from)}</bdi>
          </>
        ) : type === 'modified' ? (
          change.aspects.join(', ')
        ) : (
          ''
        )}
      </span>
      <span class="number">{sizes}</span>
    </li>
  );
}
