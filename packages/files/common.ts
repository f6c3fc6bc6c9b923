/** The part of the door that most commands need: digests, Zstandard, paths as a person gave them. */

export {
  GivenPathError,
  type GivenPathOptions,
  resolveGivenPath,
  settleGivenPath,
} from './given-path.ts';
export { createCollectingDigest, digestAtOnce } from './node-digest.ts';
export { isProcessRunning } from './process-running.ts';
export { ResidentMemory, releaseMemory } from './resident-memory.ts';
export { findZstd } from './zstd.ts';
