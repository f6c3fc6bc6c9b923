/** WebDAV, class 1, over the names of a domain. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { findText, type Hash, type Snapshot, type TreeEdit, type TreeItem } from '@holdfast/client/internal';
import { DoorError, type DoorHandler } from '../door.ts';
import { type Check, judge, type NameStore } from './name-store.ts';
import { type DavPlace, formatPlace, parsePlace } from './places.ts';

const METHODS = 'OPTIONS, GET, HEAD, PROPFIND';
const WRITING = ', PUT, DELETE, MKCOL, MOVE, COPY';
const BODY_BYTES_MAX = 1024 * 1024;
const SAFE = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
};

interface Call {
  readonly store: NameStore;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly place: DavPlace;
}

const HANDLERS: Readonly<Record<string, (call: Call) => Promise<void>>> = {
  GET: read,
  HEAD: read,
  PROPFIND: describe,
  PUT: put,
  DELETE: remove,
  MKCOL: makeFolder,
  MOVE: (call) => transfer(call, 'move'),
  COPY: (call) => transfer(call, 'copy'),
};

export function createDav(store: NameStore, isReadOnly: boolean): DoorHandler {
  const allowed = isReadOnly ? METHODS : METHODS + WRITING;
  return async (request, response) => {
    const { method = '' } = request;
    if (method === 'OPTIONS') {
      response
        .writeHead(200, { dav: '1', allow: allowed, 'ms-author-via': 'DAV', 'content-length': 0 })
        .end();
      return;
    }
    const handler = Object.hasOwn(HANDLERS, method) ? HANDLERS[method] : undefined;
    if (handler === undefined) throw new DoorError(405, 'there is no such method here', { allow: allowed });
    if (!allowed.includes(method)) throw new DoorError(403, 'this gateway only reads');
    await handler({ store, request, response, place: parsePlace(request.url ?? '/') });
  };
}

function tagOf(hash: Hash): string {
  return `"${Buffer.from(hash, 'hex').toString('base64url')}"`;
}

function modifiedOf({ mtimeNs }: TreeItem, head: Snapshot | undefined): string {
  const ms = mtimeNs === undefined ? (head?.time ?? 0) : Number(mtimeNs / 1_000_000n);
  return new Date(ms).toUTCString();
}

function notFound(): DoorError {
  return new DoorError(404, 'there is nothing');
}

async function read({ store, request, response, place }: Call): Promise<void> {
  if (place.name === undefined)
    return showPage(
      response,
      request,
      [],
      [...(await store.heads()).keys()].map((name) => `${name}/`),
    );
  const found = await store.find(place.name, place.path);
  if (found === undefined || found.item.kind === 'symlink') throw notFound();
  const { item, head } = found;
  if (item.kind === 'directory') {
    const names: string[] = [];
    for await (const { name, kind } of store.list(item)) {
      const text = findText(name);
      if (text !== undefined && kind !== 'symlink') names.push(kind === 'directory' ? `${text}/` : text);
    }
    return showPage(response, request, [place.name], names);
  }
  const tag = tagOf(item.hash);
  const headers = {
    ...SAFE,
    etag: tag,
    'last-modified': modifiedOf(item, head),
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
  };
  if (listTags(request.headers['if-none-match'])?.some((each) => each === '*' || each === tag)) {
    response.writeHead(304, headers).end();
    return;
  }
  const range = parseRange(request.headers.range, item.bytes);
  const length = range === undefined ? item.bytes : range.end - range.start;
  const rangeHeaders =
    range === undefined ? {} : { 'content-range': `bytes ${range.start}-${range.end - 1}/${item.bytes}` };
  response.writeHead(range === undefined ? 200 : 206, {
    ...headers,
    ...rangeHeaders,
    'content-length': length,
  });
  if (request.method === 'HEAD') return void response.end();
  await pipeline(Readable.from(store.tree.readFile(item, { range })), response);
}

function listTags(header: string | undefined): readonly string[] | undefined {
  return header?.split(',').map((tag) => tag.trim());
}

/** One range; what is none is passed over. Throws DoorError 416. */
function parseRange(header: string | undefined, bytes: number): { start: number; end: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  if (start < end) return { start, end };
  throw new DoorError(416, 'the range is not in the file', { 'content-range': `bytes */${bytes}` });
}

function showPage(
  response: ServerResponse,
  { method }: IncomingMessage,
  at: readonly string[],
  names: readonly string[],
): void {
  const links = names.map((name) => {
    const isFolder = name.endsWith('/');
    const href = `./${encodeURIComponent(isFolder ? name.slice(0, -1) : name)}${isFolder ? '/' : ''}`;
    return `<li><a href="${escapeXml(href)}">${escapeXml(name)}</a></li>`;
  });
  const title = escapeXml(at.join('/') || 'Holdfast');
  const page = `<!doctype html><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><ul>${links.join('')}</ul>`;
  response.writeHead(200, { ...SAFE, 'content-type': 'text/html; charset=utf-8' });
  response.end(method === 'HEAD' ? undefined : page);
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

async function describe({ store, request, response, place }: Call): Promise<void> {
  const depth = request.headers.depth ?? 'infinity';
  if (depth !== '0' && depth !== '1') throw new DoorError(403, 'only depth 0 and 1 are answered here');
  const body = await readBody(request);
  if (/<!DOCTYPE/i.test(body)) throw new DoorError(400, 'the body has a DOCTYPE');
  const answers: string[] = [];
  if (place.name === undefined) {
    const { readyContentBytes } = await store.usage();
    answers.push(
      answerOf([], FOLDER, undefined, `<D:quota-used-bytes>${readyContentBytes}</D:quota-used-bytes>`),
    );
    if (depth === '1')
      for (const [name, head] of await store.heads()) answers.push(answerOf([name], FOLDER, head));
  } else {
    const found = await store.find(place.name, place.path);
    if (found === undefined || found.item.kind === 'symlink') throw notFound();
    const names = [place.name, ...(place.path === '' ? [] : place.path.split('/'))];
    answers.push(answerOf(names, found.item, found.head));
    if (depth === '1' && found.item.kind === 'directory') {
      for await (const entry of store.list(found.item)) {
        const name = findText(entry.name);
        if (name !== undefined && entry.kind !== 'symlink')
          answers.push(answerOf([...names, name], entry, found.head));
      }
    }
  }
  response.writeHead(207, { 'content-type': 'application/xml; charset=utf-8' });
  response.end(
    `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">${answers.join('')}</D:multistatus>`,
  );
}

const FOLDER: TreeItem = {
  kind: 'directory',
  hash: '',
  bytes: 0,
  entryCount: 0,
  isExecutable: false,
  mtimeNs: undefined,
};

function answerOf(names: readonly string[], item: TreeItem, head: Snapshot | undefined, more = ''): string {
  const isFolder = item.kind === 'directory';
  const type = isFolder ? '<D:resourcetype><D:collection/></D:resourcetype>' : '<D:resourcetype/>';
  const file = `<D:getcontentlength>${item.bytes}</D:getcontentlength><D:getetag>${escapeXml(tagOf(item.hash))}</D:getetag>`;
  const properties = `${type}${isFolder ? '' : file}<D:displayname>${escapeXml(names.at(-1) ?? '')}</D:displayname><D:getlastmodified>${modifiedOf(item, head)}</D:getlastmodified>${more}`;
  return `<D:response><D:href>${escapeXml(formatPlace(names, isFolder))}</D:href><D:propstat><D:prop>${properties}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`;
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > BODY_BYTES_MAX) throw new DoorError(413, 'the body is too long');
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Below a name. Throws DoorError 403. */
function requireEntry(place: DavPlace): { readonly name: string; readonly path: string } {
  if (place.name === undefined || place.path === '')
    throw new DoorError(403, 'names are made by MKCOL, and forgotten by holdfast forget');
  return place;
}

function conditionOf({ headers }: IncomingMessage): Check {
  const [match, noneMatch] = [listTags(headers['if-match']), listTags(headers['if-none-match'])];
  return (item) => {
    const fits = (tags: readonly string[]): boolean =>
      item !== undefined && tags.some((tag) => tag === '*' || tag === tagOf(item.hash));
    judge(match === undefined || fits(match));
    judge(noneMatch === undefined || !fits(noneMatch));
  };
}

async function put({ store, request, response, place }: Call): Promise<void> {
  const { name, path } = requireEntry(place);
  if (request.headers['content-range'] !== undefined)
    throw new DoorError(400, 'parts of a file cannot be put');
  const there = await store.find(name, path);
  if (there?.item.kind === 'directory') throw new DoorError(405, 'a folder is there');
  conditionOf(request)(there?.item);
  const body = Readable.toWeb(request) as unknown as ReadableStream<Uint8Array>;
  const node = await store.store(body);
  const check = conditionOf(request);
  await store.edit(name, [{ op: 'set', path, node, executable: 'kept' }], path, check);
  response.writeHead(there === undefined ? 201 : 204, { etag: tagOf(node.hash) }).end();
}

async function remove({ store, request, response, place }: Call): Promise<void> {
  const { name, path } = requireEntry(place);
  if ((await store.find(name, path)) === undefined) throw notFound();
  await store.edit(name, [{ op: 'remove', path }], path, conditionOf(request));
  response.writeHead(204).end();
}

async function makeFolder({ store, request, response, place }: Call): Promise<void> {
  if ((await readBody(request)) !== '') throw new DoorError(415, 'a folder takes no body');
  if (place.name === undefined) throw new DoorError(405, 'it is there already');
  const { name, path } = place;
  if ((await store.find(name, path)) !== undefined) throw new DoorError(405, 'it is there already');
  const edits: TreeEdit[] = path === '' ? [] : [{ op: 'set', path, directory: true, replace: false }];
  await store.edit(name, edits, path);
  response.writeHead(201).end();
}

async function transfer({ store, request, response, place }: Call, op: 'move' | 'copy'): Promise<void> {
  const from = requireEntry(place);
  const to = requireEntry(parseDestination(request));
  if ((await store.find(from.name, from.path)) === undefined) throw notFound();
  const isSame = from.name === to.name && `${to.path}/`.startsWith(`${from.path}/`);
  if (isSame) throw new DoorError(403, 'nothing goes onto itself or below itself');
  const there = await store.find(to.name, to.path);
  const replace = request.headers.overwrite !== 'F';
  judge(there === undefined || replace);
  if (from.name === to.name)
    await store.edit(from.name, [{ op, from: from.path, to: to.path, replace }], from.path);
  else {
    const { item } = (await store.find(from.name, from.path)) ?? { item: undefined };
    if (item === undefined) throw notFound();
    await store.edit(
      to.name,
      [{ op: 'set', path: to.path, node: item, executable: item.isExecutable, replace }],
      to.path,
    );
    if (op === 'move') await store.edit(from.name, [{ op: 'remove', path: from.path }], from.path);
  }
  response.writeHead(there === undefined ? 201 : 204).end();
}

function parseDestination({ headers }: IncomingMessage): DavPlace {
  const { destination, host } = headers;
  if (typeof destination !== 'string') throw new DoorError(400, 'there is no Destination');
  const [, other, path] = /^(?:https?:\/\/([^/]*))?(\/.*)$/.exec(destination) ?? [];
  if (path === undefined || (other !== undefined && other !== host))
    throw new DoorError(502, 'the Destination is elsewhere');
  return parsePlace(path);
}
