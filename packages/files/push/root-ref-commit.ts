/**
 * The root ref of a push: one commit of +1 that happens exactly once. Its request id is on disk before it is sent and
 * forgotten once it is answered, so a resumed push replays its own commit, and a later push never takes an old one for its
 * own.
 */
import { randomUUID } from 'node:crypto';
import { CasError, type Client, type ProgressReporter, requestPatiently } from '@holdfast/client/push';
import { type Hash, OPERATIONS, ROOT_REFS_PAGE_MAX } from '@holdfast/protocol';
import type { FolderState, PendingCommit } from './folder-state.ts';
import { TreeStateLostError } from './state-failure.ts';

type CommitClient = Pick<Client, 'updateRootRefs' | 'rootRefs'>;

export interface RootRefCommit {
  readonly requestId: string;
  readonly revision: number;
  /** it had been committed by an earlier, interrupted run */
  readonly isReplay: boolean;
}

export interface CommitOptions {
  readonly client: CommitClient;
  readonly state: FolderState;
  /** Names server, App, Space and domain: a request id means something there only. */
  readonly scope: string;
  readonly progress: ProgressReporter;
  readonly signal: AbortSignal | undefined;
  readonly patienceMs: number | undefined;
}

/** Settles the commit that an earlier run left open for another tree: sent once more, it is applied, or fails for good. */
export async function settleEarlierCommit(hash: Hash, options: CommitOptions): Promise<void> {
  const { state, scope, progress } = options;
  const pending = state.findCommit(scope);
  if (pending === undefined || pending.hash === hash) return;
  try {
    await send(pending, options);
    progress.warn(
      `an interrupted push of this path had begun to give its tree ${pending.hash} a root ref; it has one now. To drop it: holdfast refs update ${pending.hash}=-1`,
    );
  } catch (error) {
    if (isOutcomeOpen(error)) throw error;
  }
  forget(options);
}

/**
 * The balance that `hash` has in the domain already, so that pushing the same tree again adds none; undefined when it has
 * none, or when an interrupted push has begun to give it one, which is to be finished. Where the token may not read root refs
 * nobody can tell, and a warning says so.
 */
export async function findBalance(hash: Hash, options: CommitOptions): Promise<number | undefined> {
  const { client, state, scope, signal, progress } = options;
  if (state.findCommit(scope) !== undefined) return undefined;
  try {
    for await (const { items } of client.rootRefs({ limit: ROOT_REFS_PAGE_MAX, signal })) {
      // They come ordered by hash.
      const item = items.find((each) => each.hash >= hash);
      if (item !== undefined) return item.hash === hash && item.refCount > 0 ? item.refCount : undefined;
    }
  } catch (error) {
    if (!(error instanceof CasError && error.code === 'insufficient_permission')) throw error;
    progress.warn(
      `the token does not permit ${OPERATIONS.listRootRefs.authority}: if this tree has a root ref already, it has one more now`,
    );
  }
  return undefined;
}

/** Commits +1 for `hash`, which is ready. Throws CasError; the id is kept as long as the outcome is open. */
export async function commitRootRef(hash: Hash, options: CommitOptions): Promise<RootRefCommit> {
  const { state, scope } = options;
  const earlier = state.findCommit(scope);
  const pending = earlier?.hash === hash ? earlier : { requestId: randomUUID(), hash };
  state.keepCommit(scope, pending);
  try {
    const { revision, idempotent } = await send(pending, options);
    forget(options);
    return { requestId: pending.requestId, revision, isReplay: idempotent };
  } catch (error) {
    if (!isOutcomeOpen(error)) forget(options);
    throw error;
  }
}

/** If the state cannot be written, it is discarded whole: a later push must not take this commit for its own. */
export function forget({
  state,
  scope,
  progress,
}: Pick<CommitOptions, 'state' | 'scope' | 'progress'>): void {
  try {
    state.dropCommit(scope);
  } catch (error) {
    if (!(error instanceof TreeStateLostError)) throw error;
    state.discard();
    progress.warn(
      `the state remembered of this path is gone, because it could not be written: ${error.message}`,
    );
  }
}

/** The very same request on every try: the server knows its id again. */
function send({ requestId, hash }: PendingCommit, options: CommitOptions) {
  const { client, signal } = options;
  const commit = { requestId, changes: { [hash]: 1 } };
  return requestPatiently(
    'the commit of the root ref',
    () => client.updateRootRefs(commit, { signal }),
    options,
  );
}

/** Whether the commit may have happened although no good answer came. An answer of 4xx says that it did not. */
export function isOutcomeOpen(error: unknown): boolean {
  if (!(error instanceof CasError)) return true;
  const { status } = error;
  return (
    status === undefined ||
    status < 400 ||
    status >= 500 ||
    status === 429 ||
    status === 401 ||
    status === 403
  );
}
