/** The key of each kind of entry as one text: source and target resume pages by it. Pure. */
import type { Hash } from '@holdfast/protocol';
import type { Entries, EntryKind } from './transfer-ports.ts';

const KEYS: { readonly [K in EntryKind]: (entry: Entries[K]) => string } = {
  nodes: ({ row }) => row.hash,
  looseEdges: ({ hash }) => hash,
  uploads: ({ row }) => row.hash,
  domains: ({ domain }) => domain,
  balances: ({ hash }) => hash,
  history: ({ hash, fromRevision }) => `${hash}${fromRevision}`,
  commits: ({ requestId }) => requestId,
};

export function keyOf<K extends EntryKind>(kind: K, entry: Entries[K]): string {
  return KEYS[kind](entry);
}

/** The two parts of a key of history; without a key, parts that come before all others. */
export function parseHistoryKey(key: string | undefined): {
  readonly hash: Hash;
  readonly fromRevision: number;
} {
  if (key === undefined) return { hash: '', fromRevision: 0 };
  return { hash: key.slice(0, 64), fromRevision: Number(key.slice(64)) };
}
