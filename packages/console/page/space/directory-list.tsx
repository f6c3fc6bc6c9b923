/** A directory like a file manager shows it. Only the rows in sight are in the page, so that a list of any length stays quick. */
import { formatName } from '@holdfast/client';
import type { DirectoryEntry, TreeItem, TreeReader } from '@holdfast/client/internal';
import { BIG_NS_PER_MS } from '@holdfast/protocol';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatBytes, formatCount, formatInstant, formatThings } from '../parts/format.ts';
import { KindIcon } from '../parts/icons.tsx';
import { Empty, Failure } from '../parts/notices.tsx';
import { goTo } from '../route.ts';
import type { Connection } from './connection.ts';
import { treeHref } from './tree-address.ts';

const ROW_PX = 34;
/** rows in the page above and below those in sight */
const ROWS_AROUND = 12;
/** read without being asked; beyond it the list reads on as it is scrolled */
const ENTRIES_AT_ONCE = 2000;

/** Where the list of a directory was left, so that coming back finds the same place. */
const leftAt = new Map<string, number>();

interface ListProps {
  readonly space: Connection;
  readonly root: string;
  readonly names: readonly Uint8Array[];
  readonly directory: TreeItem;
}

export function DirectoryList({ space, root, names, directory }: ListProps) {
  const reader = useMemo(() => readDirectoryLazily(space.tree, directory), [space, directory]);
  const [, setSeen] = useState(0);
  const [error, setError] = useState<unknown>(undefined);
  const readTo = (count: number): void => {
    reader.readTo(count, () => setSeen((before) => before + 1)).catch(setError);
  };
  useEffect(() => {
    readTo(ENTRIES_AT_ONCE);
    return () => reader.stop();
  }, [reader]);
  if (reader.isComplete && reader.entries.length === 0) {
    return (
      <Empty title="This directory is empty">
        <p>Nothing was in it when it was pushed.</p>
      </Empty>
    );
  }
  return (
    <>
      <Failure error={error} retry={() => location.reload()} />
      <p class="soft" role="status">
        {reader.isComplete
          ? `${formatThings(reader.entries.length, 'name')} here`
          : reader.entries.length === 0
            ? 'Reading names …'
            : `${formatCount(reader.entries.length)} names read so far; scroll on for more`}
      </p>
      <Rows
        key={directory.hash}
        reader={reader}
        root={root}
        names={names}
        readTo={readTo}
        hash={directory.hash}
      />
    </>
  );
}

interface RowsProps {
  readonly reader: DirectoryReader;
  readonly root: string;
  readonly names: readonly Uint8Array[];
  readonly hash: string;
  readonly readTo: (count: number) => void;
}

/** Arrow keys move, Enter opens, Backspace goes up. */
function Rows({ reader, root, names, hash, readTo }: RowsProps) {
  const { entries } = reader;
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(leftAt.get(hash) ?? 0);
  /** Where the keys stand: a second key may come before the page has shown what the first did. */
  const standing = useRef(active);
  const [view, setView] = useState({ top: 0, height: 600 });
  const hrefOf = (entry: DirectoryEntry): string => treeHref(root, [...names, entry.name]);
  const measure = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 600 } = box.current ?? {};
    setView({ top, height });
    readTo(Math.ceil((top + height) / ROW_PX) + ENTRIES_AT_ONCE / 2);
  };
  useEffect(() => {
    if (box.current !== null && active > 0) box.current.scrollTop = Math.max(0, (active - 4) * ROW_PX);
    const { current } = box;
    if (current === null) return undefined;
    // The box grows with what is read into it, and with the window.
    const watching = new ResizeObserver(() => measure());
    watching.observe(current);
    return () => watching.disconnect();
  }, []);
  const moveTo = (index: number): void => {
    const to = Math.max(0, Math.min(entries.length - 1, index));
    standing.current = to;
    setActive(to);
    leftAt.set(hash, to);
    const { current } = box;
    if (current === null) return;
    if (to * ROW_PX < current.scrollTop) current.scrollTop = to * ROW_PX;
    const over = (to + 1) * ROW_PX - current.clientHeight;
    if (over > current.scrollTop) current.scrollTop = over;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { current: at } = standing;
    const step = moveOf(event.key, Math.max(1, Math.floor(view.height / ROW_PX) - 1), at, entries.length);
    const entry = entries[at];
    if (step !== undefined) moveTo(step);
    else if (event.key === 'Enter' && entry !== undefined) goTo(hrefOf(entry));
    else if (event.key === 'Backspace') goTo(treeHref(root, names.slice(0, -1)));
    else return;
    event.preventDefault();
  };
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - ROWS_AROUND);
  const last = Math.min(entries.length, Math.ceil((view.top + view.height) / ROW_PX) + ROWS_AROUND);
  return (
    <div
      ref={box}
      class="listing"
      role="grid"
      tabIndex={0}
      aria-label="Entries of this directory"
      aria-rowcount={reader.isComplete ? entries.length : -1}
      aria-activedescendant={entries.length === 0 ? undefined : `entry-${active}`}
      onScroll={measure}
      onKeyDown={onKeyDown}
    >
      <div class="listing-space" role="presentation" style={{ height: `${entries.length * ROW_PX}px` }}>
        {entries.slice(first, last).map((entry, offset) => {
          const index = first + offset;
          const onOpen = (): void => {
            leftAt.set(hash, index);
          };
          return (
            <Row
              key={index}
              index={index}
              entry={entry}
              href={hrefOf(entry)}
              isActive={index === active}
              onOpen={onOpen}
            />
          );
        })}
      </div>
    </div>
  );
}

/** The row that a key leads to; undefined: the key is no move. */
function moveOf(key: string, page: number, active: number, count: number): number | undefined {
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: active + 1,
    ArrowUp: active - 1,
    PageDown: active + page,
    PageUp: active - page,
    Home: 0,
    End: count - 1,
  };
  return moves[key];
}

interface RowProps {
  readonly index: number;
  readonly entry: DirectoryEntry;
  readonly href: string;
  readonly isActive: boolean;
  readonly onOpen: () => void;
}

function Row({ index, entry, href, isActive, onOpen }: RowProps) {
  const { kind, name, bytes, entryCount, mtimeNs, isExecutable } = entry;
  const shown = formatName(name);
  return (
    <div
      id={`entry-${index}`}
      class={isActive ? 'row active' : 'row'}
      role="row"
      aria-rowindex={index + 1}
      aria-selected={isActive}
      style={{ transform: `translateY(${index * ROW_PX}px)` }}
    >
      <span role="gridcell" class="row-name">
        <KindIcon kind={kind} />
        <a href={href} tabIndex={-1} onClick={onOpen} title={shown}>
          <bdi>{shown}</bdi>
        </a>
        {isExecutable ? <span class="badge">executable</span> : null}
      </span>
      <span role="gridcell" class="row-more soft">
        {kind === 'directory'
          ? formatThings(entryCount, 'entry', 'entries')
          : kind === 'symlink'
            ? 'link'
            : ''}
        {mtimeNs === undefined ? '' : ` ${formatInstant(Number(mtimeNs / BIG_NS_PER_MS))}`}
      </span>
      <span role="gridcell" class="row-size number" title={`${bytes} bytes`}>
        {formatBytes(bytes)}
      </span>
    </div>
  );
}

interface DirectoryReader {
  /** by name, as far as read */
  readonly entries: readonly DirectoryEntry[];
  readonly isComplete: boolean;
  /** Reads on until `count` entries are there, or all. `onMore` is called after each bunch. */
  readTo(count: number, onMore: () => void): Promise<void>;
  stop(): void;
}

/** The entries of one directory as far as somebody has looked: pages are read when the list comes near their end. */
function readDirectoryLazily(tree: TreeReader, directory: TreeItem): DirectoryReader {
  const ending = new AbortController();
  const entries: DirectoryEntry[] = [];
  const coming = tree.readDirectory(directory, { signal: ending.signal });
  let isComplete = false;
  let wanted = 0;
  let reading: Promise<void> | undefined;

  async function read(onMore: () => void): Promise<void> {
    while (!isComplete && entries.length < wanted) {
      const { done, value } = await coming.next();
      if (done === true) isComplete = true;
      else entries.push(value);
      if (isComplete || entries.length % 256 === 0) onMore();
    }
    onMore();
  }

  return {
    entries,
    get isComplete() {
      return isComplete;
    },
    async readTo(count, onMore) {
      wanted = Math.max(wanted, count);
      reading ??= read(onMore).finally(() => {
        reading = undefined;
      });
      await reading;
    },
    stop: () => ending.abort(),
  };
}
