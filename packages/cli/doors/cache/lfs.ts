/** git-lfs: the batch API with its basic transfer. Objects are keys of a name of their own, which nothing evicts. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { findJson, isRecord } from '@holdfast/protocol';
import { DoorError } from '../door.ts';
import { readBody } from '../received-body.ts';
import { isSmall, type ReceivedValues, weighValue } from '../received-values.ts';
import { sendFile } from '../sent-file.ts';
import { type CacheTree, HEAD_MS_FRESH } from './cache-tree.ts';
import { type CacheAddress, isSha256 } from './keys.ts';
import { takeValue } from './values.ts';

export interface LfsCall {
  readonly tree: CacheTree;
  readonly values: ReceivedValues;
  readonly isReadOnly: boolean;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly address: CacheAddress;
}

const TYPE = 'application/vnd.git-lfs+json';
const API = 'lfs/info/lfs/';
const OBJECTS = 'lfs/objects/';
const BATCH_OBJECTS_MAX = 1_000;

export function isLfs(path: string): boolean {
  return path === 'lfs' || path.startsWith('lfs/');
}

/** An answer of this face that is no success. */
export function formatLfsError(message: string): { readonly type: string; readonly text: string } {
  return { type: TYPE, text: JSON.stringify({ message }) };
}

export async function serveLfs(call: LfsCall): Promise<void> {
  const { request, address } = call;
  const { method } = request;
  const { path } = address;
  if (path === `${API}objects/batch` && method === 'POST') return answerBatch(call);
  const [, oid = '', verify] = /^([^/]*)(\/verify)?$/.exec(path.slice(OBJECTS.length)) ?? [];
  if (!path.startsWith(OBJECTS) || !isSha256(oid)) throw new DoorError(404, 'there is nothing here');
  if (verify !== undefined && method === 'POST') return answerVerify(call, oid);
  if (verify === undefined && (method === 'GET' || method === 'HEAD')) return download(call, oid);
  if (verify === undefined && method === 'PUT') return upload(call, oid);
  throw new DoorError(405, 'there is no such method here', { allow: verify ? 'POST' : 'GET, HEAD, PUT' });
}

interface LfsObject {
  readonly oid: unknown;
  readonly size: unknown;
}

interface Batch {
  readonly operation: 'download' | 'upload';
  readonly objects: readonly LfsObject[];
}

async function answerBatch(call: LfsCall): Promise<void> {
  const { isReadOnly, request } = call;
  const { operation, objects } = parseBatch(await readJson(request));
  if (operation === 'upload' && isReadOnly) throw new DoorError(403, 'this gateway only reads');
  // One look is enough, and shows that the server is there.
  await call.tree.head(HEAD_MS_FRESH);
  const answers: unknown[] = [];
  for (const object of objects) answers.push(await answerObject(call, operation, object));
  sendJson(call.response, { transfer: 'basic', objects: answers, hash_algo: 'sha256' });
}

/** Throws DoorError 409, 413, 422. */
function parseBatch(body: Readonly<Record<string, unknown>>): Batch {
  const { operation, objects, transfers, hash_algo: algorithm } = body;
  if (operation !== 'download' && operation !== 'upload')
    throw new DoorError(422, 'operation is neither download nor upload');
  if (!Array.isArray(objects)) throw new DoorError(422, 'objects is no array');
  if (objects.length > BATCH_OBJECTS_MAX)
    throw new DoorError(413, `a batch has at most ${BATCH_OBJECTS_MAX} objects`);
  if (algorithm !== undefined && algorithm !== 'sha256')
    throw new DoorError(409, 'objects are named by their SHA-256 here');
  // If a client names no transfer, the server may take basic.
  const named = transfers ?? [];
  if (!Array.isArray(named) || (named.length > 0 && !named.includes('basic')))
    throw new DoorError(422, 'only the basic transfer is here');
  return { operation, objects: objects.map(asObject) };
}

async function answerObject(
  { tree, request }: LfsCall,
  operation: Batch['operation'],
  { oid, size }: LfsObject,
): Promise<unknown> {
  const fail = (code: number, message: string) => ({ oid, size, error: { code, message } });
  if (typeof oid !== 'string' || !isSha256(oid)) return fail(422, 'the oid is no SHA-256');
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0)
    return fail(422, 'the size is no whole number');
  const item = await tree.find(pathOf(oid));
  if (item !== undefined && item.bytes !== size) return fail(422, `the object has ${item.bytes} bytes`);
  const object = { oid, size, authenticated: true };
  const { authorization } = request.headers;
  const header = authorization === undefined ? {} : { header: { Authorization: authorization } };
  const href = `${originOf(request)}/${OBJECTS}${oid}`;
  if (operation === 'download')
    return item === undefined
      ? fail(404, 'the object is not here')
      : { ...object, actions: { download: { href, ...header } } };
  if (item !== undefined) return object;
  return {
    ...object,
    actions: { upload: { href, ...header }, verify: { href: `${href}/verify`, ...header } },
  };
}

async function download({ tree, request, response }: LfsCall, oid: string): Promise<void> {
  const item = await tree.find(pathOf(oid), request.method === 'HEAD' ? HEAD_MS_FRESH : undefined);
  if (item === undefined) throw new DoorError(404, 'the object is not here');
  await sendFile({ request, response }, { tree: tree.reader, item });
}

async function upload({ tree, values, isReadOnly, request, response }: LfsCall, oid: string): Promise<void> {
  if (isReadOnly) throw new DoorError(403, 'this gateway only reads');
  const path = pathOf(oid);
  await tree.edits.addSoon(isSmall(request.headers['content-length']), async () => {
    const value = await takeValue(values, request, { sha256: oid, mismatchStatus: 422 });
    if ((await tree.find(path, HEAD_MS_FRESH)) !== undefined) return undefined;
    return { paths: [path], edits: [{ op: 'set', path, ...value }], bytes: weighValue(value) };
  });
  response.writeHead(200, { 'content-length': 0 }).end();
}

async function answerVerify({ tree, request, response }: LfsCall, oid: string): Promise<void> {
  const { oid: said, size } = await readJson(request);
  const item = await tree.find(pathOf(oid), HEAD_MS_FRESH);
  if (item === undefined) throw new DoorError(404, 'the object is not here');
  if (said !== oid || size !== item.bytes) throw new DoorError(422, `the object has ${item.bytes} bytes`);
  sendJson(response, {});
}

/** Throws DoorError 400, 413. */
async function readJson(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const value = findJson((await readBody(request)).toString());
  if (isRecord(value)) return value;
  throw new DoorError(400, 'the body is no JSON object');
}

function asObject(value: unknown): LfsObject {
  const { oid, size } = isRecord(value) ? value : {};
  return { oid, size };
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': TYPE }).end(JSON.stringify(value));
}

/** As the client reached the door. */
function originOf({ headers }: IncomingMessage): string {
  const isSecure = headers['x-forwarded-proto'] === 'https';
  return `${isSecure ? 'https' : 'http'}://${headers.host ?? ''}`;
}

function pathOf(oid: string): string {
  return `objects/${oid}`;
}
