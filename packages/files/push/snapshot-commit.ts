/**
 * The snapshot of a push: listed under its name exactly once. Its id is on disk before anything is sent, and forgotten once it
 * is listed, so a resumed push finds its own snapshot in the list instead of adding a second one.
 */
import {
  addSnapshot,
  type CatalogMemory,
  type Client,
  createPatientClient,
  makeSnapshotId,
  type ProgressReporter,
  readNames,
  type Snapshot,
} from '@holdfast/client/internal';
import type { Hash } from '@holdfast/protocol';
import type { FolderState } from './folder-state.ts';
import { forget, isOutcomeOpen } from './root-ref-commit.ts';

/** Under which name a push is listed. */
export interface SnapshotTarget {
  readonly name: string;
  /** where it comes from, as the list shows it */
  readonly host: string;
  readonly path: string;
  /** Names server, App, Space, domain and name: an id that was remembered means something there only. */
  readonly scope: string;
}

export interface SnapshotCommitOptions {
  /** One that does not try again by itself. */
  readonly client: Client;
  readonly state: FolderState;
  readonly target: SnapshotTarget;
  readonly progress: ProgressReporter;
  readonly signal: AbortSignal | undefined;
  readonly patienceMs: number | undefined;
}

export interface SnapshotCommit {
  /** Throws CatalogError, CasError; the id is kept as long as the outcome is open. */
  commit(root: Hash, bytes: number): Promise<Snapshot>;
}

/** Reads the names of the domain first: a list that this program must not change stops the push. Throws CatalogError, CasError. */
export async function prepareSnapshot(options: SnapshotCommitOptions): Promise<SnapshotCommit> {
  const { progress, patienceMs, signal, state, target } = options;
  const client = createPatientClient(options.client, { progress, patienceMs, signal });
  const memory: CatalogMemory = new Map();
  const { unreadable } = await readNames(client, { memory, signal });
  for (const { hash, message } of unreadable) {
    progress.warn(`a list of snapshots cannot be read and is left as it is: ${hash}: ${message}`);
  }
  return {
    async commit(root, bytes) {
      const { scope, name, host, path } = target;
      const earlier = state.findCommit(scope);
      const pending = earlier?.hash === root ? earlier : { requestId: makeSnapshotId(), hash: root };
      state.keepCommit(scope, pending);
      try {
        const entry = { id: pending.requestId, name, root, host, path, bytes };
        const { snapshot } = await addSnapshot(client, entry, { memory, signal });
        forget({ state, scope, progress });
        return snapshot;
      } catch (error) {
        if (!isOutcomeOpen(error)) forget({ state, scope, progress });
        throw error;
      }
    },
  };
}
