/** Reading the names of a domain: every catalog that stands among its root refs, as one list. */

import type { Hash, RootRefItem } from '@holdfast/protocol';
import { ROOT_REFS_PAGE_MAX } from '@holdfast/protocol';
import { checkMethod, checkOptions } from '../arguments.ts';
import type { Client } from '../client.ts';
import { type Clock, sleep, systemClock } from '../deadline.ts';
import { CasError } from '../errors.ts';
import { findInBulk, getAlone } from '../get-alone.ts';
import { CATALOGS_BYTES_MAX, NODES_AT_ONCE_MAX, ROOT_REFS_HELD_MAX } from '../limits.ts';
import { mapInOrder } from '../map-in-order.ts';
import type { CallOptions } from '../operations.ts';
import { planBackoff, RETRY_POLICY_DEFAULT } from '../retry.ts';
import { RottenNodeError, readUnlessRotten } from '../rotten-node.ts';
import { CatalogError } from './catalog-error.ts';
import {
  CATALOG_CONTENT_TYPE,
  type Catalog,
  isCatalogContentType,
  mergeSnapshots,
  parseCatalog,
  type Snapshot,
} from './catalog-format.ts';

/** The calls of a client that reading names uses: they need `cas:nodes:read`, `cas:root-refs:read` and a refDomain. */
export type CatalogReader = Pick<Client, 'rootRefs' | 'readMetadata' | 'getNode'> &
  Partial<Pick<Client, 'bulk'>>;

export interface CatalogOptions extends CallOptions {
  /** Remembers nodes, which never change: give the same one to calls that follow each other. */
  readonly memory?: CatalogMemory | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
}

/** The catalog of a hash, or that the hash is something else. */
export type CatalogMemory = Map<Hash, Catalog | 'other'>;

export interface StandingCatalog {
  readonly hash: Hash;
  /** its balance in the domain, more than 0 */
  readonly refCount: number;
  readonly catalog: Catalog;
}

/** A catalog that stands but cannot be read: what it lists is not known, and it is left as it is. */
interface UnreadableCatalog {
  readonly hash: Hash;
  readonly message: string;
}

export interface DomainNames {
  readonly refDomain: string;
  readonly revision: number;
  /** of all catalogs that could be read, by time */
  readonly snapshots: readonly Snapshot[];
  readonly catalogs: readonly StandingCatalog[];
  readonly unreadable: readonly UnreadableCatalog[];
  /** every root ref of the domain, catalogs among them */
  readonly rootRefs: readonly RootRefItem[];
}

/** All names of the domain, unreadable catalogs beside. Throws CatalogError OTHER_VERSION, CasError, or the signal's reason. */
export async function readNames(client: CatalogReader, options: CatalogOptions = {}): Promise<DomainNames> {
  const call = { name: 'readNames', requestOperation: 'listRootRefs' } as const;
  checkMethod(call, 'client', client, 'rootRefs');
  checkOptions(call, options);
  const { signal, clock = systemClock, random = Math.random } = options;
  const memory: CatalogMemory = options.memory ?? new Map();
  for (let attempt = 1; ; attempt += 1) {
    // Another writer may replace a catalog, and a collection take it, after it was listed and before it is read.
    const isLast = attempt === 8;
    const room = { bytes: CATALOGS_BYTES_MAX };
    const names = await readOnce(client, { ...options, clock, memory, room }, isLast);
    if (names !== undefined) return names;
    await sleep(clock, planBackoff(attempt, CONTENTION_POLICY, random), signal);
  }
}

/** Waits after another writer was faster: short at first, then random, so that the two do not meet again. */
export const CONTENTION_POLICY = { ...RETRY_POLICY_DEFAULT, delayMsBase: 25, delayMsMax: 250 };

type FullOptions = CatalogOptions & {
  readonly clock: Clock;
  readonly memory: CatalogMemory;
  /** what is left of CATALOGS_BYTES_MAX */
  readonly room: { bytes: number };
  /** The node is read at once, not described first. */
  readonly isLikely?: boolean;
};

/** Undefined when something went while it was read, unless it is the last attempt. */
async function readOnce(
  client: CatalogReader,
  options: FullOptions,
  isLast: boolean,
): Promise<DomainNames | undefined> {
  const list = await listRootRefs(client, options, isLast);
  if (list === undefined) return undefined;
  const catalogs: StandingCatalog[] = [];
  const unreadable: UnreadableCatalog[] = [];
  const standing = list.rootRefs.filter(({ refCount }) => refCount > 0);
  // Usually there is only one catalog: then this is one request.
  const isLikely = standing.length === 1;
  const reads = mapInOrder(standing, NODES_AT_ONCE_MAX, async (item) => ({
    ...item,
    found: await findCatalog(client, item.hash, { ...options, isLikely }),
  }));
  for await (const { hash, refCount, found } of reads) {
    if (found === 'gone' && !isLast) return undefined;
    if (found === 'gone') unreadable.push({ hash, message: 'the server does not have it' });
    else if (found instanceof CatalogError) unreadable.push({ hash, message: found.message });
    else if (found !== 'other') catalogs.push({ hash, refCount, catalog: found });
  }
  const snapshots = mergeSnapshots(catalogs.map(({ catalog }) => catalog.snapshots));
  return { ...list, snapshots, catalogs, unreadable };
}

type RootRefList = Pick<DomainNames, 'refDomain' | 'revision' | 'rootRefs'>;

/** Undefined when the server has forgotten the revision that the walk began with, unless it is the last attempt. */
export async function listRootRefs(
  client: Pick<Client, 'rootRefs'>,
  { signal }: CallOptions,
  isLast: boolean,
): Promise<RootRefList | undefined> {
  const rootRefs: RootRefItem[] = [];
  let domain = { refDomain: '', revision: 0 };
  try {
    for await (const page of client.rootRefs({ limit: ROOT_REFS_PAGE_MAX, signal })) {
      rootRefs.push(...page.items);
      if (rootRefs.length > ROOT_REFS_HELD_MAX) throw tooMany();
      domain = { refDomain: page.refDomain, revision: page.revision };
    }
  } catch (error) {
    if (error instanceof CasError && error.status === 409 && !isLast) return undefined;
    throw error;
  }
  return { ...domain, rootRefs };
}

function tooMany(): CasError {
  const message = `listRootRefs: the domain has over ${ROOT_REFS_HELD_MAX} root refs, more than names are looked for among`;
  return new CasError(message, { code: 'RESPONSE_TOO_LARGE', requestOperation: 'listRootRefs' });
}

/** A CatalogError says why a catalog cannot be read; another version is thrown, because nobody may go on then. */
async function findCatalog(
  client: CatalogReader,
  hash: Hash,
  options: FullOptions,
): Promise<Catalog | 'other' | 'gone' | CatalogError> {
  const known = options.memory.get(hash);
  if (known !== undefined) return known;
  try {
    const found = await readCatalog(client, hash, options);
    options.memory.set(hash, found);
    return found;
  } catch (error) {
    if (error instanceof CasError && error.code === 'NOT_FOUND') return 'gone';
    const unreadable = explainUnreadable(error);
    if (unreadable === undefined) throw error;
    return unreadable;
  }
}

/** The catalog `hash` is, or that it is none. Throws CatalogError, RottenNodeError, CasError. */
export async function readCatalog(
  client: Omit<CatalogReader, 'rootRefs'>,
  hash: Hash,
  options: CatalogOptions & Partial<Pick<FullOptions, 'room' | 'isLikely'>> = {},
): Promise<Catalog | 'other'> {
  const { signal, clock = systemClock, room = { bytes: CATALOGS_BYTES_MAX } } = options;
  const likely = options.isLikely ? await findInBulk(client, hash, signal) : undefined;
  if (likely !== undefined) {
    return isCatalogContentType(likely.contentType)
      ? parseCatalog(likely.contentType, likely.content)
      : 'other';
  }
  const { metadata } = await client.readMetadata(hash, { signal });
  if (!isCatalogContentType(metadata.contentType)) return 'other';
  room.bytes -= metadata.size;
  if (room.bytes < 0) {
    const message = `the lists of this domain have over ${CATALOGS_BYTES_MAX} bytes in all`;
    throw new CatalogError('MALFORMED', message);
  }
  // The version is in the metadata, so it is checked first, even when the content is damaged.
  if (metadata.contentType !== CATALOG_CONTENT_TYPE) parseCatalog(metadata.contentType, new Uint8Array());
  const { content } = await readUnlessRotten(hash, () => getAlone(client, hash, { signal }), {
    client,
    clock,
    signal,
    evidenceMin: 1,
  });
  return parseCatalog(metadata.contentType, content);
}

/** Undefined for what says nothing about the node itself, such as a connection that broke. */
function explainUnreadable(error: unknown): CatalogError | undefined {
  if (error instanceof CatalogError) return error.code === 'MALFORMED' ? error : undefined;
  const isOfNode =
    error instanceof RottenNodeError ||
    (error instanceof CasError &&
      (error.code === 'VERIFICATION_FAILED' || error.code === 'RESPONSE_TOO_LARGE'));
  if (!isOfNode) return undefined;
  const message =
    error instanceof RottenNodeError ? 'the server has lost its bytes, or they are damaged' : error.message;
  return new CatalogError('MALFORMED', message, { cause: error });
}
