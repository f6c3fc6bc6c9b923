/** GET, HEAD, PUT and DELETE of keys, and the few words of WebDAV that sccache says. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TreeItem } from '@holdfast/client/internal';
import { DoorError } from '../door.ts';
import type { QueuedEdit } from '../edit-queue.ts';
import { lengthOf, readBody } from '../received-body.ts';
import { isSmall, type ReceivedValue, type ReceivedValues, weighValue } from '../received-values.ts';
import { SAFE_FILE, sendFile } from '../sent-file.ts';
import { parseXml } from '../webdav/xml.ts';
import { type Actions, MESSAGE_BYTES_MAX, readWhole } from './actions.ts';
import { type CacheTree, HEAD_MS_FRESH } from './cache-tree.ts';
import { type CacheAddress, type CacheKey, parseKey } from './keys.ts';
import { ProtobufError } from './protobuf.ts';
import { msOf, timeEdit, type Uses } from './uses.ts';
import { takeValue } from './values.ts';

export interface CacheCall {
  readonly tree: CacheTree;
  readonly uses: Uses;
  readonly actions: Actions;
  readonly values: ReceivedValues;
  readonly bytesMax: number | undefined;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly address: CacheAddress;
}

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

export async function read(call: CacheCall): Promise<void> {
  const { tree, uses, address } = call;
  const key = parseKey(address);
  // A value may be in memory, and a HEAD asks for none: neither would show that the server is there.
  const item = await tree.find(key.path, HEAD_MS_FRESH);
  if (item === undefined && key.sha256 === EMPTY_SHA256) return sendEmpty(call);
  if (item === undefined) throw new DoorError(404, 'there is no such key');
  const outputs = key.kind === 'ac' ? await requireWhole(call, item) : [];
  const head = key.kind === 'artifacts' ? await readArtifactHead(tree, item) : undefined;
  if (key.kind === 'artifacts' && head === undefined) throw new DoorError(404, 'there is no such artifact');
  uses.note([key.path, ...outputs]);
  const { headers, bytes: skipped } = head ?? {};
  const kept = tree.client.findFile(item);
  const more = { ...(headers && { headers }), ...(kept && { kept }), skipped: skipped ?? 0 };
  await sendFile(call, { tree: tree.reader, item, ...more });
}

async function sendEmpty({ tree, response }: CacheCall): Promise<void> {
  await tree.head(HEAD_MS_FRESH);
  response.writeHead(200, { ...SAFE_FILE, 'content-length': 0 }).end();
}

/** The paths of what the entry names. Throws DoorError 404. */
async function requireWhole({ tree, actions }: CacheCall, item: TreeItem): Promise<Iterable<string>> {
  const outputs = await actions.findOutputs(item, () => readWhole(tree, item));
  if (outputs === undefined) throw new DoorError(404, 'an output of this entry is missing');
  return outputs.keys();
}

export async function put(call: CacheCall): Promise<void> {
  const { tree, uses, values, bytesMax, request, response, address } = call;
  const key = parseKey(address);
  if (key.kind === 'ac') return putAction(call, key);
  const head = key.kind === 'artifacts' ? writeArtifactHead(request) : undefined;
  let there: TreeItem | undefined;
  await tree.edits.addSoon(isSmall(request.headers['content-length']), async () => {
    const value = await takeValue(values, request, { bytesMax, sha256: key.sha256, head });
    if (key.kind === 'cas') uses.note([key.path]);
    // Only where nothing is committed the answer depends on it.
    there = await tree.find(key.path, key.kind === 'cas' ? HEAD_MS_FRESH : undefined);
    // The same bytes are there, and clients that build send them again and again.
    const isKnown = there !== undefined && key.kind === 'cas';
    return isKnown ? undefined : setValue(key.path, value, Date.now());
  });
  const body = key.kind === 'artifacts' ? '{"urls":[]}' : '';
  response.writeHead(there === undefined ? 201 : 200, {
    ...(body === '' ? {} : { 'content-type': 'application/json' }),
    'content-length': body.length,
  });
  response.end(body);
}

function setValue(path: string, value: ReceivedValue, usedAt: number): QueuedEdit {
  const edits = [{ op: 'set', path, ...value } as const, timeEdit(path, usedAt)];
  return { paths: [path], edits, bytes: weighValue(value) };
}

async function putAction(call: CacheCall, { path }: CacheKey): Promise<void> {
  const { tree, uses, actions, request, response } = call;
  lengthOf(request);
  const bytes = await readBody(request, MESSAGE_BYTES_MAX);
  const outputs = await findOutputsOf(actions, bytes);
  const there = await tree.find(path);
  // As the tree has it, an entry is never later than its outputs; what was used since comes into the tree together.
  const now = Date.now();
  const kept = [...outputs.values()].map((item) => msOf(item.mtimeNs));
  uses.note([path, ...outputs.keys()]);
  await tree.edits.add(setValue(path, { bytes }, Math.min(now, ...kept)));
  response.writeHead(there === undefined ? 201 : 200, { 'content-length': 0 }).end();
}

/** Throws DoorError 400. */
async function findOutputsOf(actions: Actions, bytes: Uint8Array) {
  try {
    return await actions.findOutputsOf(bytes);
  } catch (error) {
    if (error instanceof ProtobufError) throw new DoorError(400, `this is no ActionResult: ${error.message}`);
    throw error;
  }
}

export async function remove({ tree, uses, response, address }: CacheCall): Promise<void> {
  const { path } = parseKey(address);
  if (!(await tree.remove(path))) throw new DoorError(404, 'there is no such key');
  uses.forget(path);
  response.writeHead(204).end();
}

/** A key needs no folder above it. */
export async function makeFolder({ tree, request, response }: CacheCall): Promise<void> {
  if ((await readBody(request)).length > 0) throw new DoorError(415, 'a folder takes no body');
  await tree.head(HEAD_MS_FRESH);
  response.writeHead(201).end();
}

export async function describe({ tree, request, response, address }: CacheCall): Promise<void> {
  const body = await readBody(request);
  if (body.length > 0) parseXml(body);
  const item = address.isFolder ? undefined : await tree.find(parseKey(address).path, HEAD_MS_FRESH);
  if (address.isFolder) await tree.head(HEAD_MS_FRESH);
  else if (item === undefined) throw new DoorError(404, 'there is no such key');
  const kind = item === undefined ? '<D:collection/>' : '';
  const length = item === undefined ? '' : `<D:getcontentlength>${item.bytes}</D:getcontentlength>`;
  const time = new Date(msOf(item?.mtimeNs)).toUTCString();
  const href = `/${address.path.split('/').map(encodeURIComponent).join('/')}`;
  response.writeHead(207, { 'content-type': 'application/xml; charset=utf-8' });
  response.end(
    `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${kind}</D:resourcetype>${length}<D:getlastmodified>${time}</D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>`,
  );
}

/** Turborepo's artifacts: a value whose file begins with a line that holds what the client said of it. */
const HEADERS = ['x-artifact-tag', 'x-artifact-duration'] as const;
const HEADER_CHARACTERS_MAX = 600;
const LINE_BYTES_MAX = 2048;

/** The line for what the request says. Throws DoorError 400. */
function writeArtifactHead({ headers }: IncomingMessage): Uint8Array {
  const said = HEADERS.flatMap((name) => {
    const text = headers[name];
    if (typeof text !== 'string') return [];
    if (text.length > HEADER_CHARACTERS_MAX || !/^[\x20-\x7e]*$/.test(text))
      throw new DoorError(400, `${name} has at most ${HEADER_CHARACTERS_MAX} ASCII characters`);
    return [[name, text] as const];
  });
  return Buffer.from(`${JSON.stringify(Object.fromEntries(said))}\n`);
}

interface ArtifactHead {
  readonly bytes: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Undefined for a file that has no such line. */
async function readArtifactHead(tree: CacheTree, item: TreeItem): Promise<ArtifactHead | undefined> {
  const kept = tree.client.findFile(item);
  const pieces: Uint8Array[] = [];
  const range = { start: 0, end: LINE_BYTES_MAX };
  if (kept !== undefined) pieces.push(kept.subarray(0, LINE_BYTES_MAX));
  else for await (const piece of tree.reader.readFile(item, { range, readAheadNodes: 0 })) pieces.push(piece);
  const first = Buffer.concat(pieces);
  const end = first.indexOf('\n');
  if (end === -1) return undefined;
  try {
    const said = JSON.parse(first.toString('latin1', 0, end)) as Readonly<Record<string, unknown>>;
    const headers = HEADERS.flatMap((name) => {
      const text = said[name];
      return typeof text === 'string' ? [[name, text] as const] : [];
    });
    return { bytes: end + 1, headers: Object.fromEntries(headers) };
  } catch {
    return undefined;
  }
}
