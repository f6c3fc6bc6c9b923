/** WebDAV, class 1 and 2, over the names of a domain. */
import { DoorError, type DoorHandler } from '../door.ts';
import type { Call } from './call.ts';
import { DeadProperties } from './dead-properties.ts';
import { lock, unlock } from './locking.ts';
import { DoorMemory, Locks } from './locks.ts';
import type { NameStore } from './name-store.ts';
import { parsePlace, refuseOld } from './places.ts';
import { describe, patch } from './properties.ts';
import { read } from './reading.ts';
import { makeFolder, put, remove, transfer } from './writing.ts';

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
