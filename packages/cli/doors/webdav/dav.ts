/** WebDAV, class 1 and 2, over the names of a domain. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { DoorError, type DoorHandler } from '../door.ts';
import { sendFile } from '../sent-file.ts';
import { type Call, getFound, modifiedOf } from './call.ts';
import { DeadProperties } from './dead-properties.ts';
import { lock, unlock } from './locking.ts';
import { DoorMemory, Locks } from './locks.ts';
import type { Found, NameStore } from './name-store.ts';
import { formatPlace, parsePlace, refuseOld } from './places.ts';
import { describe, patch } from './properties.ts';
import { makeFolder, put, remove, transfer } from './writing.ts';
import { escapeXml } from './xml.ts';

type Handlers = Readonly<Record<string, (call: Call) => Promise<void>>>;

const READING: Handlers = { GET: read, HEAD: read, PROPFIND: describe };
const WRITING: Handlers = {
  PUT: put,
  DELETE: remove,
  MKCOL: makeFolder,
  MOVE: (call) => transfer(call, 'move'),
  COPY: (call) => transfer(call, 'copy'),
  PROPPATCH: patch,
  LOCK: lock,
  UNLOCK: unlock,
};

export function createDav(store: NameStore, isReadOnly: boolean): DoorHandler {
  const offered: Handlers = isReadOnly ? READING : { ...READING, ...WRITING };
  const allow = ['OPTIONS', ...Object.keys(offered)].join(', ');
  const memory = new DoorMemory();
  const [locks, properties] = [new Locks(memory), new DeadProperties(memory)];
  return async (request, response, signal) => {
    const { method = '' } = request;
    if (method === 'OPTIONS') {
      // A success would say that the server is there.
      await store.find({ parts: [], isOld: false });
      const headers = { dav: isReadOnly ? '1' : '1, 2', allow, 'ms-author-via': 'DAV', 'content-length': 0 };
      return void response.writeHead(200, headers).end();
    }
    const handler = Object.hasOwn(offered, method) ? offered[method] : undefined;
    if (handler === undefined && Object.hasOwn(WRITING, method))
      throw new DoorError(403, 'this gateway only reads');
    if (handler === undefined) throw new DoorError(405, 'there is no such method here', { allow });
    const place = parsePlace(request.url ?? '/');
    if (place.isOld && method !== 'COPY' && Object.hasOwn(WRITING, method)) throw refuseOld();
    await handler({ store, locks, properties, request, response, place, signal });
  };
}

const SAFE = { 'x-content-type-options': 'nosniff' };
/** A page in a sandbox could download nothing. */
const PAGE_POLICY = {
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

async function read(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  const found = await getFound(call, place);
  const { item } = found;
  if (item.kind === 'directory') return showPage(call, found);
  const headers = { 'last-modified': modifiedOf(found) };
  await sendFile({ request, response }, { tree: store.tree, item, headers });
}

async function showPage(call: Call, folder: Found): Promise<void> {
  const links: string[] = [];
  let leftOut = 0;
  for await (const found of call.store.list(folder)) {
    if (found === undefined) leftOut += 1;
    else links.push(linkTo(found));
  }
  call.store.tellLeftOut(folder, leftOut);
  const left = leftOut === 0 ? '' : `<p>${leftOut} left out: links, and names that cannot be shown</p>`;
  const title = escapeXml(folder.parts.join('/') || 'Holdfast');
  sendPage(
    call.response,
    call.request,
    `<!doctype html><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><ul>${links.join('')}</ul>${left}`,
  );
}

function linkTo({ parts, item }: Found): string {
  const isFolder = item.kind === 'directory';
  const name = escapeXml(`${parts.at(-1)}${isFolder ? '/' : ''}`);
  return `<li><a href="${escapeXml(formatPlace(parts, isFolder))}">${name}</a></li>`;
}

function sendPage(response: ServerResponse, { method }: IncomingMessage, page: string): void {
  response.writeHead(200, { ...SAFE, ...PAGE_POLICY, 'content-type': 'text/html; charset=utf-8' });
  response.end(method === 'HEAD' ? undefined : page);
}
