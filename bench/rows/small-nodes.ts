/** The set of 4 KiB nodes that the read and renewal rows work on. */
import type { Bench } from '../bench.ts';
import { call, type EnteredSpace, putNodes } from '../holdfast.ts';
import { createNodeSource } from '../load/canonical-nodes.ts';
import { formatRequest, type RequestTemplate } from '../load/spec.ts';

export const SMALL_CONTENT_BYTES = 4096;

export function putSmallNodes(bench: Bench, server: EnteredSpace, seed: string): Promise<string[]> {
  return putNodes(server, createNodeSource(SMALL_CONTENT_BYTES, seed), bench.quick ? 20 : 1000);
}

export function formatRead(server: EnteredSpace, path: string): RequestTemplate {
  return formatRequest({
    method: 'GET',
    path: server.spacePath + path,
    headers: { authorization: `Bearer ${server.token}` },
  });
}

/** The answer's JSON text as the server writes it. */
export async function readAnswer(server: EnteredSpace, path: string): Promise<string> {
  return JSON.stringify(await call<unknown>(server, 'GET', path));
}
