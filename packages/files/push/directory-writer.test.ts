/** A directory of several pages, written again: unchanged, changed at any place, longer and shorter. */
import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import { byteStringOf } from '../byte-names.ts';
import { DirectoryWriter } from './directory-writer.ts';
import { MemoryState } from './memory-state.ts';
import { SeenEntries } from './seen-entries.ts';
import { PAGE_ENTRIES_MAX, type SeenEntry } from './stat-pages.ts';

const NAME = byteStringOf(new TextEncoder().encode('wide'));
const ROOT = 0;

function makeEntries(count: number): SeenEntry[] {
  return Array.from({ length: count }, (_, at) => makeEntry(at, at));
}

function makeEntry(at: number, content: number): SeenEntry {
  return {
    name: byteStringOf(new TextEncoder().encode(`f${String(at).padStart(6, '0')}`)),
    kind: 'file',
    isExecutable: false,
    isIndexed: false,
    isSettled: true,
    fingerprint: { size: 5, mtimeMs: content, ctimeMs: content, inode: at },
    hash: content.toString(16).padStart(64, '0') as Hash,
    bytes: 5,
    entryCount: 0,
    mtimeNs: undefined,
  };
}

async function write(state: MemoryState, entries: readonly SeenEntry[]) {
  const row = state.findDirectory(ROOT, NAME) ?? state.addDirectory(ROOT, NAME);
  const taken: Hash[] = [];
  const writer = new DirectoryWriter(state, row, (hash) => void taken.push(hash));
  for (const entry of entries) await writer.add(entry);
  return { ...(await writer.finish()), taken, row };
}

const COUNT = 2 * PAGE_ENTRIES_MAX + 88;

test.each([0, 1, PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX + 1, COUNT])(
  'of %p entries, unchanged, is neither built nor handed on again',
  async (count) => {
    const state = new MemoryState();
    const first = await write(state, makeEntries(count));
    expect([first.isChanged, first.taken.at(-1)]).toEqual([true, first.hash]);
    const { hash, bytes, entryCount } = first;
    const again = await write(state, makeEntries(count));
    expect(again).toMatchObject({ hash, bytes, entryCount, isChanged: false, taken: [] });
  },
);

test('whose first writing ended in the midst remembers the pages that were full', async () => {
  const state = new MemoryState();
  const row = state.addDirectory(ROOT, NAME);
  const writer = new DirectoryWriter(state, row, undefined);
  const entries = makeEntries(PAGE_ENTRIES_MAX + 1);
  for (const entry of entries) await writer.add(entry);
  const seen = new SeenEntries(state, { ...row, isNew: false });
  expect([seen.find(entries[0]!.name), seen.find(entries.at(-1)!.name)]).toEqual([entries[0], undefined]);
  const whole = await write(new MemoryState(), entries);
  const { hash, bytes, entryCount } = whole;
  expect(await write(state, entries)).toMatchObject({ hash, bytes, entryCount, isChanged: true });
  expect(await write(state, entries)).toMatchObject({ hash, isChanged: false, taken: [] });
});

const at = (place: number) => (entries: SeenEntry[]) => entries.with(place, makeEntry(place, 1_000_000));
const CHANGES: readonly [string, (entries: SeenEntry[]) => SeenEntry[]][] = [
  ['its first entry changed', at(0)],
  ['the last entry of its first page changed', at(PAGE_ENTRIES_MAX - 1)],
  ['the first entry of its second page changed', at(PAGE_ENTRIES_MAX)],
  ['its last entry changed', at(COUNT - 1)],
  ['an entry of its second page is gone', (entries) => entries.toSpliced(PAGE_ENTRIES_MAX + 7, 1)],
  ['one page is left', (entries) => entries.slice(0, PAGE_ENTRIES_MAX)],
  ['two pages are left', (entries) => entries.slice(0, 2 * PAGE_ENTRIES_MAX)],
  ['nothing is left', () => []],
  ['entries came', () => makeEntries(3 * PAGE_ENTRIES_MAX)],
  ['a page came', () => makeEntries(4 * PAGE_ENTRIES_MAX + 1)],
];

test.each(CHANGES)('is what a first look gives after %s', async (_, change) => {
  const state = new MemoryState();
  await write(state, makeEntries(COUNT));
  const entries = change(makeEntries(COUNT));
  const changed = await write(state, entries);
  const fresh = await write(new MemoryState(), entries);
  expect(changed.isChanged).toBe(true);
  expect([changed.hash, changed.bytes, changed.entryCount]).toEqual([
    fresh.hash,
    fresh.bytes,
    fresh.entryCount,
  ]);
  expect(changed.taken).toEqual(fresh.taken);
  for (const hash of fresh.taken) expect(state.findNode(changed.row.id, '', hash)).toBeDefined();
  expect(await write(state, entries)).toMatchObject({ hash: fresh.hash, isChanged: false, taken: [] });
});
