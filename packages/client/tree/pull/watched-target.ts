/** A pull's target whose slow steps are told to the progress of the job: a disk that hangs is then named. */
import type { ProgressReporter } from '../jobs/progress.ts';
import { formatPath, type TreePath } from '../walk/tree-path.ts';
import type { PullTarget } from './target.ts';

/** `target`; what takes longer than a turn of the event loop counts as waited for while it lasts. */
export function watchTarget(target: PullTarget, progress: ProgressReporter): PullTarget {
  const during = <T>(doing: string, path: TreePath, work: Promise<T>): Promise<T> =>
    work.finally(progress.waitFor(() => `${doing} ${formatPath(path)}`));
  return {
    isEmpty: () => target.isEmpty(),
    prepare: (missing) => target.prepare(missing),
    noteEntry: (path) => target.noteEntry(path),
    find: (path) => target.find(path),
    setExecutable: (path, isExecutable) => target.setExecutable(path, isExecutable),
    hasTime: (path, mtimeNs) => target.hasTime(path, mtimeNs),
    setTime: (path, mtimeNs) => target.setTime(path, mtimeNs),
    makeFolder: (path, mayReplace) => target.makeFolder(path, mayReplace),
    makeLink: (path, linkTarget, file) => target.makeLink(path, linkTarget, file),
    finishFolder: (path, folder) => target.finishFolder(path, folder),
    writeFile(path, content, file) {
      const writing = target.writeFile(path, content, file);
      return writing === undefined ? undefined : during('writing', path, writing);
    },
    unprovenBytesMax: target.unprovenBytesMax,
    writeUnproven(path, unproven, file) {
      const writing = target.writeUnproven?.(path, unproven, file);
      return writing === undefined ? undefined : during('writing', path, writing);
    },
    openExisting(path) {
      const file = target.openExisting(path);
      return {
        read: (offset, length) => during('reading', path, file.read(offset, length)),
        close: () => file.close(),
      };
    },
    openPartial(path, hash, file) {
      const partial = target.openPartial(path, hash, file);
      return {
        foundBytes: partial.foundBytes,
        read: (offset, length) => during('reading', path, partial.read(offset, length)),
        write: (offset, bytes) => during('writing', path, partial.write(offset, bytes)),
        commit: (bytes) => during('finishing', path, partial.commit(bytes)),
        abandon: () => partial.abandon(),
      };
    },
  };
}
