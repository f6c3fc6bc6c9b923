/** Pushing a folder from the page, step by step. */
import { addSnapshot, pushTree, startProgress } from '@holdfast/client';
import type { Connection } from './connection.ts';
import { buildFolderTree } from './folder-tree.ts';
import { type GivenFolder, measureFolder } from './given-folder.ts';

export type PushStep =
  | { readonly step: 'hashing'; readonly bytes: number; readonly totalBytes: number }
  | {
      readonly step: 'sending';
      readonly bytes: number;
      readonly totalBytes: number;
      readonly sentBytes: number;
      readonly stall: string | undefined;
    }
  | { readonly step: 'naming' }
  | { readonly step: 'done'; readonly result: Pushed };

export interface Pushed {
  readonly root: string;
  readonly entryCount: number;
  readonly bytes: number;
  readonly uploadedBytes: number;
  readonly leaseExpiresAt: number;
  /** undefined: it was not to be kept under a name */
  readonly name: string | undefined;
}

/** `name` undefined: the tree is leased for a day and nothing more. */
export async function pushFolder(
  space: Connection,
  folder: GivenFolder,
  name: string | undefined,
  onStep: (step: PushStep) => void,
  signal: AbortSignal,
): Promise<void> {
  const totalBytes = measureFolder(folder).bytes;
  let hashed = 0;
  let toldAt = 0;
  onStep({ step: 'hashing', bytes: 0, totalBytes });
  const { root, supply } = await buildFolderTree(
    folder,
    (more) => {
      hashed += more;
      if (performance.now() - toldAt < 100) return;
      toldAt = performance.now();
      onStep({ step: 'hashing', bytes: hashed, totalBytes });
    },
    signal,
  );
  const pushed = await send(space, supply, root.bytes, onStep, signal);
  if (name !== undefined) {
    onStep({ step: 'naming' });
    const path = `/${folder.name}`;
    const snapshot = { name, root: root.hash, host: 'console', path, bytes: root.bytes };
    await addSnapshot(space.client, snapshot, { signal });
  }
  const { hash, entryCount, bytes } = root;
  const { uploadedBytes, leaseExpiresAt } = pushed;
  onStep({ step: 'done', result: { root: hash, entryCount, bytes, uploadedBytes, leaseExpiresAt, name } });
}

async function send(
  { jobClient }: Connection,
  supply: Parameters<typeof pushTree>[1],
  totalBytes: number,
  onStep: (step: PushStep) => void,
  signal: AbortSignal,
) {
  let stall: string | undefined;
  let counted = { bytes: 0, sentBytes: 0 };
  const tell = (): void => onStep({ step: 'sending', ...counted, totalBytes, stall });
  tell();
  const progress = startProgress({
    job: 'push',
    subject: 'folder',
    onEvent: (event) => {
      if (event.type === 'stall') stall = event.cause;
      else if (event.type === 'resumed') stall = undefined;
      else if (event.type === 'progress') {
        counted = { bytes: event.counters.bytes, sentBytes: event.counters.transferredBytes };
      } else return;
      tell();
    },
  });
  try {
    const pushed = await pushTree(jobClient, supply, { signal, progress });
    progress.done(pushed.root);
    return pushed;
  } catch (error) {
    progress.fail(error instanceof Error ? error.message : String(error));
    throw error;
  }
}
