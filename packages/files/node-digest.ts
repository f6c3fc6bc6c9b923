/** Hashing a node in memory, with the fastest digest that Node and Bun have. */
import { createHash } from 'node:crypto';
import type { NodeDigest } from '@holdfast/client/push';
import type { Hash } from '@holdfast/protocol';
import { ResidentMemory } from './resident-memory.ts';

/** Synchronous: the fastest there is for what is small. */
export const digestAtOnce: NodeDigest = (header, content) =>
  createHash('sha256').update(header).update(content).digest('hex');

/** The same of a node in one piece. */
export const digestWhole = (canonical: Uint8Array): Hash =>
  createHash('sha256').update(canonical).digest('hex');

/** The fastest digest for a job that reads many nodes. It also keeps the memory of the process small. */
export function createCollectingDigest(): NodeDigest {
  const memory = new ResidentMemory();
  return (header, content) => {
    memory.passed(header.length + content.length);
    return digestAtOnce(header, content);
  };
}
