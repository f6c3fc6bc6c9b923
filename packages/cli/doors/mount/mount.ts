/** `holdfast mount`: a tree, or the names of a domain, as a file system that is only read. */
import { CasError, type CatalogReader, type NodeSource, type TreeItem } from '@holdfast/client/internal';
import { isSignalIgnored } from '../../terminal/interruption.ts';
import { printable, printLine } from '../../terminal/output.ts';
import { drained, tellAway, untilSignal } from '../door.ts';
import { KnownNames } from '../known-names.ts';
import { Mount } from './fuse-device.ts';
import { type FuseHandler, FuseSession } from './fuse-session.ts';
import { MountedFiles } from './mounted-files.ts';
import { MountedNames, MountedTrees, ROOT_NODE } from './mounted-names.ts';

/** One tree and the time of what has none of its own; else all names. */
export type Mounted =
  | { readonly item: TreeItem; readonly timeMs: number }
  | { readonly names: CatalogReader };

/** Answers the kernel. */
export function createMountHandler(source: NodeSource, mounted: Mounted): FuseHandler {
  if ('names' in mounted) {
    const trees = new MountedTrees(source, ROOT_NODE + 1);
    return new MountedFiles(trees, new MountedNames(new KnownNames(mounted.names), trees)).handle;
  }
  const trees = new MountedTrees(source, ROOT_NODE);
  trees.place(mounted.item, mounted.timeMs);
  return new MountedFiles(trees, undefined).handle;
}

function tellFailure(error: unknown): void {
  const reason =
    error instanceof CasError ? error.reason : error instanceof Error ? error.message : String(error);
  tellAway(reason, 'what needs it gets EIO meanwhile');
}

/** Until a signal comes or it is unmounted. Throws CliError. */
export async function runMount(
  directory: string,
  handle: FuseHandler,
  { isForOthers }: { readonly isForOthers: boolean },
): Promise<void> {
  const device = new Mount(directory, isForOthers);
  const session = new FuseSession(device, handle, tellFailure);
  const hangUp = isSignalIgnored('SIGHUP') ? [] : (['SIGHUP'] as const);
  const signalled = untilSignal(...hangUp).then(() => 'signalled' as const);
  const ended = session.serve(() => printLine(`holdfast mounted on ${printable(directory)}`));
  try {
    if ((await Promise.race([ended, signalled])) !== 'signalled') return device.leave();
    device.unmount();
    await drained(session.idle());
  } catch (error) {
    device.unmount();
    throw error;
  }
}
