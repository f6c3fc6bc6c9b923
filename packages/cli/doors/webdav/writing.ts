/** PUT, DELETE, MKCOL, MOVE and COPY. */

import type { IncomingMessage } from 'node:http';
import type { TreeEdit, TreeItem } from '@holdfast/client/internal';
import { BIG_NS_PER_S } from '@holdfast/protocol';
import { DoorError } from '../door.ts';
import { lengthOf, readBody, receive } from '../received-body.ts';
import { hashValue, isSmall, weighValue } from '../received-values.ts';
import { tagOf } from '../sent-file.ts';
import { type Call, conditionOf, findReplaced, getFound } from './call.ts';
import { judge } from './name-store.ts';
import { type DavPlace, isWithin, parsePlace, requireEntry, requireName } from './places.ts';

export async function put(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  const { name, path } = requireEntry(place);
  const { headers } = request;
  const length = lengthOf(request);
  const there = await findReplaced(call, place);
  if (there === undefined) await store.requireName(name);
  if (there?.item.kind === 'directory') throw new DoorError(405, 'a folder is there');
  if (request.url?.split('?')[0]?.endsWith('/'))
    throw new DoorError(409, 'only a folder ends with /, and MKCOL makes it');
  const check = await conditionOf(call, [{ key: place.key, listed: there === undefined }]);
  check(there?.item);
  const isOwnCloud = headers['oc-checksum'] !== undefined || headers['x-oc-mtime'] !== undefined;
  const body = store.checksums.watch(receive(request), isOwnCloud);
  const mtimeNs = parseTime(headers['x-oc-mtime']);
  let hash = '';
  await store.editsOf(name).addSoon(isSmall(length), async () => {
    const value = await store.values.take(body.chunks, length);
    hash = await hashValue(value);
    body.finish(hash, headers['oc-checksum']);
    const edits: TreeEdit[] = [{ op: 'set', path, ...value, executable: 'kept' }];
    if (mtimeNs !== undefined) edits.push({ op: 'time', path, mtimeNs });
    return store.toQueued({ name, path }, edits, check, weighValue(value));
  });
  response
    .writeHead(there === undefined ? 201 : 204, {
      etag: tagOf(hash),
      ...(mtimeNs === undefined ? {} : { 'x-oc-mtime': 'accepted' }),
    })
    .end();
}

/** Reads seconds since the epoch; returns undefined for anything else. */
function parseTime(header: string | string[] | undefined): bigint | undefined {
  const text = String(header ?? '');
  if (!/^\d{1,10}(?:\.\d{1,9})?$/.test(text)) return undefined;
  const [seconds = '', fraction = ''] = text.split('.');
  return BigInt(seconds) * BIG_NS_PER_S + BigInt(fraction.padEnd(9, '0'));
}

export async function remove(call: Call): Promise<void> {
  const { store, locks, properties, response, place } = call;
  const { name, path } = requireEntry(place);
  const { item } = await getFound(call, place);
  const check = await conditionOf(call, [{ key: place.key, below: true, listed: true }]);
  check(item);
  await store.edit({ name, path }, [{ op: 'remove', path }], check);
  locks.forget(place.key);
  properties.forget(place.key);
  response.writeHead(204).end();
}

export async function makeFolder(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  if ((await readBody(request)).length > 0) throw new DoorError(415, 'a folder takes no body');
  if ((await store.find(place)) !== undefined) throw new DoorError(405, 'it is there already');
  const [name = '', ...rest] = place.parts;
  requireName(name);
  if (rest.length > 0 || place.isOld) requireEntry(place);
  const path = rest.join('/');
  const check = await conditionOf(call, [{ key: place.key, listed: true }]);
  check(undefined);
  const edits: TreeEdit[] = path === '' ? [] : [{ op: 'set', path, directory: true, replace: false }];
  await store.edit({ name, path }, edits, check);
  response.writeHead(201).end();
}

export async function transfer(call: Call, op: 'move' | 'copy'): Promise<void> {
  const { store, locks, properties, request, response, place } = call;
  const target = parseDestination(request);
  const to = requireEntry(target);
  if (op === 'move' || !place.isOld) requireEntry(place);
  const { item } = await getFound(call, place);
  if (isWithin(target.key, place.key)) throw new DoorError(403, 'nothing goes onto itself or below itself');
  const depth = request.headers.depth ?? 'infinity';
  if (depth !== 'infinity' && (op === 'move' || depth !== '0'))
    throw new DoorError(400, 'a MOVE is of depth infinity, a COPY of that or 0');
  const there = await findReplaced(call, target);
  const replace = request.headers.overwrite?.toString().toUpperCase() !== 'F';
  judge(there === undefined || replace);
  const source = { key: place.key, below: true, listed: true };
  const check = await conditionOf(call, [
    { key: target.key, below: true, listed: true },
    ...(op === 'move' ? [source] : []),
  ]);
  check(item);
  const isShallow = depth === '0' && item.kind === 'directory';
  const [name, ...rest] = place.parts;
  const path = rest.join('/');
  if (name === to.name && !place.isOld && !isShallow) {
    const also = [to.path];
    await store.edit({ name, path, also }, [{ op, from: path, to: to.path, replace }], check);
  } else {
    const alive = () => call.signal.throwIfAborted();
    await store.edit(to, setItem(to.path, item, replace, isShallow), alive);
    if (op === 'move' && name !== undefined) {
      await store.edit({ name, path }, [{ op: 'remove', path }], (now) => {
        check(now);
        if (now?.hash !== item.hash) throw new DoorError(409, 'it changed meanwhile: both stand now');
      });
    }
  }
  if (op === 'move') locks.forget(place.key);
  properties.transfer(op, place.key, target.key, isShallow);
  response.writeHead(there === undefined ? 201 : 204).end();
}

function setItem(path: string, item: TreeItem, replace: boolean, isShallow: boolean): readonly TreeEdit[] {
  if (isShallow || item.hash === '') return [{ op: 'set', path, directory: true, replace }];
  const { mtimeNs, isExecutable } = item;
  const edits: TreeEdit[] = [{ op: 'set', path, node: item, executable: isExecutable, replace }];
  if (mtimeNs !== undefined) edits.push({ op: 'time', path, mtimeNs });
  return edits;
}

function parseDestination({ headers }: IncomingMessage): DavPlace {
  const { destination, host } = headers;
  if (typeof destination !== 'string') throw new DoorError(400, 'there is no Destination');
  const [, other, path] = /^(?:https?:\/\/([^/]*))?(\/.*)$/.exec(destination) ?? [];
  if (path === undefined || (other !== undefined && other !== host))
    throw new DoorError(502, 'the Destination is elsewhere');
  return parsePlace(path);
}
