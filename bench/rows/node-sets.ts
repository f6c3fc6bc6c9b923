/** The nodes that several rows work on. */
import type { Bench } from '../bench.ts';
import { type EnteredSpace, putNodes } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';

export const SMALL_CONTENT_BYTES = 4096;
export const LARGE_CONTENT_BYTES = 8 * 1024 * 1024;
export const LARGE_NODES = 8;

export function putSmallNodes(bench: Bench, server: EnteredSpace, seed: string): Promise<string[]> {
  return putNodes(server, createNodeSource(SMALL_CONTENT_BYTES, seed), bench.quick ? 20 : 1000);
}

export function putLargeNodes(server: EnteredSpace, seed: string, count = LARGE_NODES): Promise<string[]> {
  return putNodes(server, createNodeSource(LARGE_CONTENT_BYTES, seed), count);
}
