/** Trees on disk, pulled and written. Names are raw bytes, links are never followed. `push.ts` is the door to pushes. */

export * from './common.ts';
export { ChunkMemory } from './pull/chunk-memory.ts';
export { openSpaceSource, type PullToPathOptions, pullToPath } from './pull/pull-to-path.ts';
export { defaultCacheFolder, makeCacheFolder } from './state/cache-folder.ts';
export { createFileWriter } from './writer/thread-file-writer.ts';
