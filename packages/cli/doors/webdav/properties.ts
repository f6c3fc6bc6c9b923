/** PROPFIND and PROPPATCH. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { DoorError } from '../door.ts';
import { readBody } from '../received-body.ts';
import { tagOf } from '../sent-file.ts';
import { answerXml, type Call, conditionOf, getFound, modifiedOf } from './call.ts';
import { nameOf } from './dead-properties.ts';
import { formatLocks, SUPPORTED_LOCKS } from './locks.ts';
import type { Check, Found } from './name-store.ts';
import { formatPlace, requireEntry } from './places.ts';
import {
  childrenOf,
  escapeXml,
  findChild,
  formatXml,
  isDav,
  parseXml,
  refusePrecondition,
  textOf,
  type XmlElement,
} from './xml.ts';

type Asked =
  | { readonly kind: 'all' | 'names'; readonly named: readonly XmlElement[] }
  | { readonly kind: 'named'; readonly named: readonly XmlElement[] };

const CHECKSUMS = 'http://owncloud.org/ns checksums';
const USED = 'DAV: quota-used-bytes';

export async function describe(call: Call): Promise<void> {
  const { store, request, response, place } = call;
  const depth = request.headers.depth ?? 'infinity';
  const asked = parseAsked(await readBody(request));
  if (depth === 'infinity') throw refusePrecondition(403, 'propfind-finite-depth');
  if (depth !== '0' && depth !== '1') throw new DoorError(400, 'the depth is 0 or 1');
  const folder = await getFound(call, place);
  const wantsUsed =
    asked.kind === 'named' ? asked.named.some((each) => nameOf(each) === USED) : place.key === '';
  const used = wantsUsed ? await store.usedBytes() : undefined;
  const answers = describeAll(call, folder, asked, used);
  response.writeHead(207, { 'content-type': 'application/xml; charset=utf-8' });
  await pipeline(Readable.from(answers), response);
}

/** A folder may have more entries than memory should hold. */
async function* describeAll(
  call: Call,
  folder: Found,
  asked: Asked,
  used: number | undefined,
): AsyncGenerator<string, void, undefined> {
  const { store, request } = call;
  yield `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">${answerOf(call, folder, asked, used)}`;
  if (request.headers.depth === '1' && folder.item.kind === 'directory') {
    let leftOut = 0;
    for await (const found of store.list(folder)) {
      if (found === undefined) leftOut += 1;
      else yield answerOf(call, found, asked, asked.kind === 'named' ? used : undefined);
    }
    store.tellLeftOut(folder, leftOut);
  }
  yield '</D:multistatus>';
}

/** No body asks for all. Throws DoorError 400. */
function parseAsked(body: Uint8Array): Asked {
  if (body.length === 0) return { kind: 'all', named: [] };
  const root = parseXml(body);
  const [prop, include] = [findChild(root, 'prop'), findChild(root, 'include')];
  if (!isDav(root, 'propfind')) throw new DoorError(400, 'the body is no propfind');
  if (prop !== undefined) return { kind: 'named', named: childrenOf(prop) };
  if (findChild(root, 'propname')) return { kind: 'names', named: [] };
  if (findChild(root, 'allprop'))
    return { kind: 'all', named: include === undefined ? [] : childrenOf(include) };
  throw new DoorError(400, 'the propfind asks for nothing');
}

function answerOf(call: Call, found: Found, asked: Asked, used: number | undefined): string {
  const isFolder = found.item.kind === 'directory';
  const properties = new Map([...liveOf(call, found, used), ...call.properties.of(found.parts.join('/'))]);
  const given: string[] = [];
  const missing: string[] = [];
  if (asked.kind !== 'named') {
    for (const [name, value] of properties) {
      const [namespace = '', local = ''] = name.split(' ');
      if (asked.kind === 'names')
        given.push(formatXml({ namespace, name: local, attributes: [], children: [] }));
      else if (name !== CHECKSUMS) given.push(value);
    }
  }
  for (const { namespace, name } of asked.named) {
    const value = properties.get(nameOf({ namespace, name }));
    if (value !== undefined) given.push(value);
    else if (asked.kind === 'named')
      missing.push(formatXml({ namespace, name, attributes: [], children: [] }));
  }
  const none = missing.length === 0 ? '' : formatStatus(missing, '404 Not Found');
  const some = given.length === 0 && none !== '' ? '' : formatStatus(given, '200 OK');
  return `<D:response><D:href>${escapeXml(formatPlace(found.parts, isFolder))}</D:href>${some}${none}</D:response>`;
}

function formatStatus(properties: readonly string[], status: string): string {
  return `<D:propstat><D:prop>${properties.join('')}</D:prop><D:status>HTTP/1.1 ${status}</D:status></D:propstat>`;
}

function liveOf({ locks, store }: Call, found: Found, used: number | undefined): ReadonlyMap<string, string> {
  const { parts, item } = found;
  const isFolder = item.kind === 'directory';
  const checksum = store.checksums.find(item.hash);
  const live: Readonly<Record<string, string | undefined>> = {
    resourcetype: isFolder ? '<D:collection/>' : '',
    displayname: escapeXml(parts.at(-1) ?? ''),
    getlastmodified: modifiedOf(found),
    getcontentlength: isFolder ? undefined : `${item.bytes}`,
    getcontenttype: isFolder ? undefined : 'application/octet-stream',
    getetag: isFolder ? undefined : escapeXml(tagOf(item.hash)),
    supportedlock: SUPPORTED_LOCKS,
    lockdiscovery: formatLocks(locks.covering(parts.join('/'))),
    'quota-used-bytes': isFolder && used !== undefined ? `${used}` : undefined,
  };
  const properties = new Map<string, string>();
  for (const [name, value] of Object.entries(live))
    if (value !== undefined) properties.set(`DAV: ${name}`, `<D:${name}>${value}</D:${name}>`);
  if (checksum !== undefined && !isFolder) {
    const value = `<checksums xmlns="http://owncloud.org/ns"><checksum>${checksum}</checksum></checksums>`;
    properties.set(CHECKSUMS, value);
  }
  return properties;
}

const PROTECTED = new Set(
  [
    'resourcetype displayname getlastmodified getcontentlength getcontenttype getetag supportedlock lockdiscovery',
    'quota-used-bytes quota-available-bytes creationdate getcontentlanguage',
  ].flatMap((names) => names.split(' ')),
);

interface Wish {
  readonly property: XmlElement;
  readonly isRemoval: boolean;
}

/** Sets all that is asked or nothing. */
export async function patch(call: Call): Promise<void> {
  const { request, response, place, properties } = call;
  const root = parseXml(await readBody(request));
  if (!isDav(root, 'propertyupdate')) throw new DoorError(400, 'the body is no propertyupdate');
  const wishes = childrenOf(root).flatMap((each): readonly Wish[] => {
    const isRemoval = isDav(each, 'remove');
    const prop = findChild(each, 'prop');
    if (prop === undefined || !(isRemoval || isDav(each, 'set'))) return [];
    return childrenOf(prop).map((property) => ({ property, isRemoval }));
  });
  if (wishes.length === 0) throw new DoorError(400, 'the propertyupdate changes nothing');
  if (place.parts.length === 0) throw new DoorError(403, 'this has no properties of clients');
  const found = await getFound(call, place);
  const check = await conditionOf(call, [{ key: place.key }]);
  check(found.item);
  const isProtected = ({ property }: Wish): boolean =>
    property.namespace === 'DAV:' && PROTECTED.has(property.name);
  let statuses: readonly string[] = wishes.map((wish) =>
    isProtected(wish) ? '403 Forbidden' : '424 Failed Dependency',
  );
  if (!wishes.some(isProtected)) {
    await setTime(call, wishes, check);
    const isKept = properties.trySetAll(
      place.key,
      wishes.map(({ property, isRemoval }) => [
        nameOf(property),
        isRemoval ? undefined : formatXml(property),
      ]),
    );
    statuses = wishes.map(() => (isKept ? '200 OK' : '507 Insufficient Storage'));
  }
  const stats = wishes.map(({ property: { namespace, name } }, index) =>
    formatStatus([formatXml({ namespace, name, attributes: [], children: [] })], statuses[index] ?? ''),
  );
  const href = escapeXml(formatPlace(found.parts, found.item.kind === 'directory'));
  answerXml(
    response,
    207,
    `<D:multistatus xmlns:D="DAV:"><D:response><D:href>${href}</D:href>${stats.join('')}</D:response></D:multistatus>`,
  );
}

/** ownCloud's clients set `lastmodified`, in seconds, which is the time of the entry. */
async function setTime({ place, store }: Call, wishes: readonly Wish[], check: Check): Promise<void> {
  for (const { property, isRemoval } of wishes) {
    const text = textOf(property);
    if (isRemoval || !isDav(property, 'lastmodified') || !/^\d{1,10}$/.test(text)) continue;
    const { name, path } = requireEntry(place);
    await store.edit({ name, path }, [{ op: 'time', path, mtimeNs: BigInt(text) * 1_000_000_000n }], check);
  }
}
