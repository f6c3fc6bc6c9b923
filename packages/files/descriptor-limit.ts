/** How many descriptors this process may have open. Some systems give a process 256, and folders are only one of many uses. */
import { readFileSync } from 'node:fs';

const LIMITS = '/proc/self/limits';
/** The limit of systems that do not tell it in a file: the least that is common. */
const LIMIT_UNKNOWN = 256;

/** A share of the limit, as `1 / part`, but no more than `most`. */
export function shareOfDescriptors(part: number, most: number): number {
  limit ??= findLimit();
  return Math.max(8, Math.min(most, Math.floor(limit / part)));
}

/** It does not change while the process runs. */
let limit: number | undefined;

function findLimit(): number {
  try {
    const found = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync(LIMITS, 'utf8'))?.[1];
    if (found === 'unlimited') return Number.POSITIVE_INFINITY;
    return found === undefined ? LIMIT_UNKNOWN : Number(found);
  } catch {
    return LIMIT_UNKNOWN;
  }
}
