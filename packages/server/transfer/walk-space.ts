/** Walks all entries of a Space in one order, from any place in it: a copy is made, checked and resumed by this walk. */
import type { Space } from '../core/model.ts';
import type {
  BatchPart,
  DeploymentReader,
  Entries,
  EntryKind,
  NodeEntry,
  Part,
} from '../engine/transfer-ports.ts';
import { keyOf } from '../engine/transfer-ports.ts';

export interface SpacePlace {
  readonly kind: EntryKind;
  /** '' for kinds that belong to no domain */
  readonly domain: string;
  readonly after: string | undefined;
}

export const SPACE_START: SpacePlace = { kind: 'nodes', domain: '', after: undefined };

/** The kinds of a Space, then those of each of its domains. */
export const SPACE_KINDS = ['nodes', 'looseEdges', 'uploads', 'domains'] as const;
export const DOMAIN_KINDS = ['balances', 'history', 'commits'] as const;

export interface WalkLimits {
  readonly pageEntriesMax: number;
  /** canonical bytes of the nodes of one page; a single larger node is a page of its own */
  readonly pageBytesMax: number;
}

export interface WalkedPage {
  readonly part: BatchPart;
  /** where the walk resumes after this page; undefined if the Space is complete */
  readonly next: SpacePlace | undefined;
}

/** The page at `place`; it may be empty. */
export function readPageAt(
  reader: DeploymentReader,
  space: Space,
  place: SpacePlace,
  limits: WalkLimits,
): Promise<WalkedPage> {
  return readPart(reader, space, place, place.kind, limits);
}

async function readPart<K extends EntryKind>(
  reader: DeploymentReader,
  space: Space,
  { domain, after }: SpacePlace,
  kind: K,
  { pageEntriesMax, pageBytesMax }: WalkLimits,
): Promise<WalkedPage> {
  const found = await reader.readPage({ space, kind, domain, after, limit: pageEntriesMax });
  const entries = kind === 'nodes' ? cutNodes(found as readonly NodeEntry[], pageBytesMax) : found;
  const last = entries.at(-1) as Entries[K] | undefined;
  const isComplete = found.length < pageEntriesMax && entries.length === found.length;
  const next =
    isComplete || last === undefined
      ? await findNextPlace(reader, space, kind, domain)
      : { kind, domain, after: keyOf(kind, last) };
  return { part: { kind, domain, entries } as Part<K> as BatchPart, next };
}

/** As many nodes as their bytes allow, at least one. */
function cutNodes(nodes: readonly NodeEntry[], bytesMax: number): readonly NodeEntry[] {
  let bytes = 0;
  const end = nodes.findIndex(({ row }, index) => {
    bytes += row.canonicalSize;
    return index > 0 && bytes > bytesMax;
  });
  return end === -1 ? nodes : nodes.slice(0, end);
}

async function findNextPlace(
  reader: DeploymentReader,
  space: Space,
  kind: EntryKind,
  domain: string,
): Promise<SpacePlace | undefined> {
  const inSpace = (SPACE_KINDS as readonly EntryKind[]).indexOf(kind);
  const nextOfSpace = SPACE_KINDS[inSpace + 1];
  if (inSpace >= 0 && nextOfSpace !== undefined) return { kind: nextOfSpace, domain: '', after: undefined };
  const nextOfDomain =
    inSpace >= 0 ? undefined : DOMAIN_KINDS[(DOMAIN_KINDS as readonly EntryKind[]).indexOf(kind) + 1];
  if (nextOfDomain !== undefined) return { kind: nextOfDomain, domain, after: undefined };
  const after = inSpace >= 0 ? undefined : domain;
  const [following] = await reader.readPage({ space, kind: 'domains', domain: '', after, limit: 1 });
  return following && { kind: DOMAIN_KINDS[0], domain: following.domain, after: undefined };
}
