/**
 * Changes the list of snapshots without a lock. One commit gives a new catalog a balance of 1 and takes the whole balance from the
 * catalogs that it replaces. If two writers replace the same catalog, the server refuses the second: the balance is gone (409), or
 * the node itself is (404). The second then reads everything again, so no change is ever lost. If there is no catalog, nothing is taken,
 * so the first commits exclude each other by their request ids. Two may take the balance of a catalog that another domain holds too:
 * the change reads that back, and the later one is done again.
 */
import {
  type Hash,
  LEASE_DURATION_MS_MIN,
  NODE_REFS_MAX,
  ROOT_REF_CHANGES_MAX,
  type RootRefItem,
} from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { sleep, systemClock } from '../deadline.ts';
import { CasError } from '../errors.ts';
import { mapInOrder } from '../map-in-order.ts';
import type { CallOptions } from '../operations.ts';
import { planBackoff } from '../retry.ts';
import { CatalogError } from './catalog-error.ts';
import {
  CATALOG_CONTENT_TYPE,
  CATALOG_INDEX_CONTENT_TYPE,
  type Catalog,
  encodeCatalog,
  listRoots,
  mergeSnapshots,
  randomHex,
  type Snapshot,
} from './catalog-format.ts';
import { joinSome } from './find-snapshot.ts';
import {
  type CatalogOptions,
  type CatalogReader,
  CONTENTION_POLICY,
  type DomainNames,
  readNames,
  type StandingCatalog,
} from './read-catalogs.ts';
import { findLost, findOverdrawn, nameCommit, takeWhole, withoutCatalog } from './taken-twice.ts';

/** The calls of a client that changing names uses: those for reading, and `cas:nodes:lease` and `cas:root-refs:update`. */
export type CatalogWriter = CatalogReader & Pick<Client, 'putNode' | 'leaseNode' | 'updateRootRefs'>;

/** The names as a process that often changes them knows them, which needs no request. */
export interface NamesHolder {
  /** How long to wait before a change: in that time other processes can change the names. 0: none wants to. */
  pauseMs(): number;
  /** Undefined: they are read. A change that takes them leaves none until it gives others. */
  take(): DomainNames | undefined;
  /** After a commit; undefined where what it made of the names is not known. */
  give(names: DomainNames | undefined): void;
}

export interface ChangeOptions extends CatalogOptions {
  /** The first attempt begins with these names, and leaves the new ones. If they are old it fails, and the second one reads. */
  readonly names?: NamesHolder | undefined;
  /** How often it is tried while others are faster; 100 when left out. */
  readonly attemptsMax?: number | undefined;
}

/** Makes the new list from the present one; undefined when nothing is to change. Called on every attempt, so it must be pure. */
export type NamesChange = (
  snapshots: readonly Snapshot[],
  names: DomainNames,
) => readonly Snapshot[] | undefined | Promise<readonly Snapshot[] | undefined>;

export interface ChangedNames {
  /** as they were read for the attempt that succeeded */
  readonly before: DomainNames;
  /** Undefined when nothing was to be changed, and nothing was sent. */
  readonly commit: NamesCommit | undefined;
}

export interface NamesCommit {
  readonly requestId: string;
  readonly revision: number;
  /** the new catalog; undefined when no snapshot is left */
  readonly catalog: Hash | undefined;
  /** the catalogs it took the place of */
  readonly replaced: readonly Hash[];
}

interface Plan {
  readonly replaced: readonly StandingCatalog[];
  readonly restored: readonly RootRefItem[];
  /** no catalog stands */
  readonly isFirst: boolean;
  readonly snapshots: readonly Snapshot[];
}

/** Throws CatalogError (OTHER_VERSION, NOT_READY, CONTENDED, TOO_LARGE), what `change` throws, and CasError. */
export async function changeNames(
  client: CatalogWriter,
  change: NamesChange,
  options: ChangeOptions = {},
): Promise<ChangedNames> {
  const { signal, clock = systemClock, random = Math.random } = options;
  const withMemory = { ...options, memory: options.memory ?? new Map() };
  // This many writers of one list at once each succeed within as many rounds.
  const attemptsMax = options.attemptsMax ?? 100;
  let lost: Hash | undefined;
  let readings = 0;
  const pauseMs = options.names?.pauseMs() ?? 0;
  if (pauseMs > 0) await sleep(clock, pauseMs, signal);
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    const assumed = options.names?.take();
    if (assumed === undefined) readings += 1;
    const read = assumed ?? (await readNames(client, withMemory));
    const before = lost === undefined ? read : withoutCatalog(read, lost);
    try {
      const changed = await change(before.snapshots, before);
      // A catalog that lost is taken away in any case.
      const wanted = changed ?? (before === read ? undefined : before.snapshots);
      if (wanted === undefined) return { before, commit: undefined };
      // A balance that cannot be brought back, of a damaged node, must not hold up every attempt.
      const isRestoring = readings <= 1 || lost !== undefined;
      const restored = isRestoring ? await findOverdrawn(client, read, withMemory) : [];
      const commit = await tryCommit(client, { before: read, wanted, restored }, withMemory);
      lost = commit && (await findLost(client, commit, read, withMemory));
      if (commit !== undefined && lost === undefined) {
        // After a lost attempt others change them too.
        const isAlone = attempt === 1 && restored.length === 0;
        options.names?.give(isAlone ? namesAfter(read, commit, withMemory) : undefined);
        return { before, commit };
      }
    } catch (error) {
      if (assumed === undefined || !mayBeOld(error, signal)) throw error;
      continue;
    }
    if (assumed !== undefined) continue;
    const isPowerOfTwo = (attempt & (attempt - 1)) === 0;
    if (isPowerOfTwo && attempt > 1) await tellWaiting(client, before, signal);
    await sleep(clock, planBackoff(attempt, CONTENTION_POLICY, random), signal);
  }
  throw new CatalogError(
    'CONTENDED',
    `the list of snapshots was changed by others ${attemptsMax} times while it was being changed here; nothing was changed, try again`,
  );
}

/** Commits a change of 0. A process that commits again and again sees by the revision that others wait, and pauses. */
async function tellWaiting(
  client: CatalogWriter,
  { catalogs: [catalog] }: DomainNames,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (catalog === undefined) return;
  const commit = { requestId: `waiting-${randomHex(16)}`, changes: { [catalog.hash]: 0 } };
  // A failure is ignored, because the commit only shortens the wait.
  await client.updateRootRefs(commit, { signal }).catch(() => undefined);
}

/** Whether names that others changed since explain the failure: of a condition, or of a node that a collection took. */
function mayBeOld(error: unknown, signal: AbortSignal | undefined): boolean {
  return !signal?.aborted && (!(error instanceof CasError) || error.code === 'NOT_FOUND');
}

/** The names after a commit that took the place of all catalogs, if nobody else committed meanwhile. */
function namesAfter(
  read: DomainNames,
  { revision, catalog: hash, replaced }: NamesCommit,
  { memory }: ChangeOptions,
): DomainNames | undefined {
  const catalog = hash === undefined ? undefined : memory?.get(hash);
  if (hash === undefined || catalog === undefined || catalog === 'other') return undefined;
  if (revision !== read.revision + 1 || replaced.length < read.catalogs.length) return undefined;
  for (const each of replaced) memory?.delete(each);
  const standing = read.rootRefs.filter((item) => !replaced.includes(item.hash));
  const rootRefs = [...standing, { hash, refCount: 1 }];
  const snapshots = mergeSnapshots([catalog.snapshots]);
  return { ...read, revision, snapshots, catalogs: [{ hash, refCount: 1, catalog }], rootRefs };
}

interface Attempt {
  readonly before: DomainNames;
  readonly wanted: readonly Snapshot[];
  /** balances below 0 that this commit brings back to 0 */
  readonly restored: readonly RootRefItem[];
}

/** Undefined when another was faster. */
async function tryCommit(
  client: CatalogWriter,
  { before, wanted, restored }: Attempt,
  options: ChangeOptions,
): Promise<NamesCommit | undefined> {
  // The new catalog takes one of the changes that a commit may have. If more catalogs stand, later commits merge the rest.
  let replaced = before.catalogs.slice(0, ROOT_REF_CHANGES_MAX - 1);
  let blocked: readonly Snapshot[] = [];
  for (;;) {
    const snapshots = planList(before, replaced, wanted, blocked);
    const plan: Plan = { replaced, restored, isFirst: before.catalogs.length === 0, snapshots };
    if (plan.snapshots.length === 0) return commitPlan(client, plan, undefined, options);
    const previous = replaced.map(({ hash }) => hash);
    const others = Object.assign({}, ...replaced.map(({ catalog }) => catalog.others));
    const catalog = { random: randomHex(16), previous, snapshots: plan.snapshots, others };
    const stored = await storeCatalog(client, catalog, options);
    if (stored.state === 'ready') {
      const commit = await commitPlan(client, plan, stored.hash, options);
      if (commit !== undefined) options.memory?.set(stored.hash, catalog);
      return commit;
    }
    const unready = new Set(stored.unready);
    blocked = plan.snapshots.filter(({ root }) => unready.has(root));
    // This happens only when a collection took an index node between two requests.
    if (blocked.length === 0) return undefined;
    const left = replaced.filter(
      ({ catalog: { snapshots } }) => !snapshots.some(({ root }) => unready.has(root)),
    );
    if (left.length === replaced.length) throw notReady(blocked, 'it cannot be listed');
    replaced = left;
  }
}

/** The list of the new catalog. Throws CatalogError NOT_READY when the change concerns a catalog that must be left standing. */
function planList(
  before: DomainNames,
  replaced: readonly StandingCatalog[],
  wanted: readonly Snapshot[],
  blocked: readonly Snapshot[],
): readonly Snapshot[] {
  if (replaced.length === before.catalogs.length) return wanted;
  const isReplaced = new Set(replaced.map(({ hash }) => hash));
  const staying = before.catalogs.filter(({ hash }) => !isReplaced.has(hash));
  const merged = new Map(before.snapshots.map((snapshot) => [snapshot.id, snapshot]));
  const wantedById = new Map(wanted.map((snapshot) => [snapshot.id, snapshot]));
  const listed = new Set<string>();
  for (const { id } of staying.flatMap(({ catalog }) => catalog.snapshots)) {
    const is = merged.get(id);
    const shallBe = wantedById.get(id);
    if (is === undefined || shallBe === undefined || Boolean(is.pinned) !== Boolean(shallBe.pinned)) {
      throw notReady(
        blocked,
        `snapshot ${id}, which stands in one list with ${blocked.length === 1 ? 'it' : 'them'}, cannot be changed`,
      );
    }
    listed.add(id);
  }
  return wanted.filter(({ id }) => !listed.has(id));
}

async function commitPlan(
  client: CatalogWriter,
  { replaced, restored, isFirst }: Plan,
  hash: Hash | undefined,
  options: ChangeOptions,
): Promise<NamesCommit | undefined> {
  if (isFirst && hash !== undefined) return commitFirst(client, hash, options);
  const changes: Record<Hash, number> = Object.fromEntries(replaced.map(takeWhole));
  if (hash !== undefined) changes[hash] = 1;
  const room = ROOT_REF_CHANGES_MAX - Object.keys(changes).length;
  for (const { hash: overdrawn, refCount } of restored.slice(0, room)) changes[overdrawn] = -refCount;
  const requestId = nameCommit(hash ?? randomHex(16));
  try {
    const { revision } = await client.updateRootRefs({ requestId, changes }, { signal: options.signal });
    return { requestId, revision, catalog: hash, replaced: replaced.map((catalog) => catalog.hash) };
  } catch (error) {
    if (error instanceof CasError && (error.status === 404 || error.status === 409)) return undefined;
    throw error;
  }
}

/** Without a catalog only a request id can exclude. All who come first use the same ids in the same order, while none stands. */
async function commitFirst(
  client: CatalogWriter,
  hash: Hash,
  options: ChangeOptions,
): Promise<NamesCommit | undefined> {
  for (let number = 0; number < 10_000; number += 1) {
    const requestId = `first-catalog-${number}`;
    try {
      const { revision } = await client.updateRootRefs(
        { requestId, changes: { [hash]: 1 } },
        { signal: options.signal },
      );
      return { requestId, revision, catalog: hash, replaced: [] };
    } catch (error) {
      if (!(error instanceof CasError) || (error.status !== 404 && error.status !== 409)) throw error;
      if (error.code !== 'IDEMPOTENCY_CONFLICT') return undefined;
    }
    const { catalogs } = await readNames(client, options);
    if (catalogs.length > 0) return undefined;
  }
  return undefined;
}

function notReady(snapshots: readonly Snapshot[], consequence: string): CatalogError {
  const trees = snapshots.map(({ root, name, id }) => `${root} (${name}@${id})`);
  const what = trees.length === 1 ? 'the tree' : `${trees.length} trees`;
  return new CatalogError(
    'NOT_READY',
    `${what} ${joinSome(trees, trees.length)} ${trees.length === 1 ? 'is' : 'are'} not ready on the server, so ${consequence}; push ${trees.length === 1 ? 'it' : 'them'} again with a check of every node, or forget in one command all snapshots of that list whose trees are not ready`,
  );
}

/** As short as the service allows, so that a replaced catalog does not keep forgotten trees for long. */
const CATALOG_LEASE_MS = LEASE_DURATION_MS_MIN;

/** `unready`: roots (or index nodes that a collection took meanwhile) without which the catalog cannot be ready. */
type StoredCatalog =
  | { readonly state: 'ready'; readonly hash: Hash }
  | { readonly state: 'waiting'; readonly unready: readonly Hash[] };

/** Makes the catalog ready, if all it refers to is. Throws CatalogError TOO_LARGE, CasError. */
async function storeCatalog(
  client: Pick<Client, 'putNode'>,
  catalog: Catalog,
  { signal }: CallOptions,
): Promise<StoredCatalog> {
  const content = encodeCatalog(catalog);
  const put = (contentType: string, refs: readonly Hash[], bytes: Uint8Array) =>
    client.putNode({ contentType, refs, content: bytes }, { leaseDurationMs: CATALOG_LEASE_MS, signal });
  const roots = listRoots(catalog.snapshots);
  const refs: Hash[] = [];
  const unready: Hash[] = [];
  if (roots.length <= NODE_REFS_MAX) refs.push(...roots);
  else {
    const groups = Array.from({ length: Math.ceil(roots.length / NODE_REFS_MAX) }, (_, index) =>
      roots.slice(index * NODE_REFS_MAX, (index + 1) * NODE_REFS_MAX),
    );
    const indexes = mapInOrder(groups, 4, (group) =>
      put(CATALOG_INDEX_CONTENT_TYPE, group, new Uint8Array()),
    );
    for await (const index of indexes) {
      refs.push(index.hash);
      if (index.state === 'validated_awaiting_children') unready.push(...index.childHashes);
    }
  }
  if (unready.length > 0) return { state: 'waiting', unready };
  const stored = await put(CATALOG_CONTENT_TYPE, refs, content);
  return stored.state === 'ready'
    ? { state: 'ready', hash: stored.hash }
    : { state: 'waiting', unready: stored.childHashes };
}
