/** Shared by the methods of WebDAV: a call, its conditions, and the headers of its answers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DoorError } from '../door.ts';
import { listTags, tagOf } from '../sent-file.ts';
import type { DeadProperties } from './dead-properties.ts';
import { parseIf, tokensOf } from './if-header.ts';
import type { Change, Locks } from './locks.ts';
import { type Check, type Found, judge, type NameStore } from './name-store.ts';
import type { DavPlace } from './places.ts';

export interface Call {
  readonly store: NameStore;
  readonly locks: Locks;
  readonly properties: DeadProperties;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly place: DavPlace;
  /** aborted when the request was answered: then it must change nothing more */
  readonly signal: AbortSignal;
}

export function modifiedOf({ item, at }: Found): string {
  return new Date(item.mtimeNs === undefined ? at : Number(item.mtimeNs / 1_000_000n)).toUTCString();
}

/** Throws DoorError 404; a link cannot be shown, so that it is not there. */
export async function getFound({ store }: Pick<Call, 'store'>, place: DavPlace): Promise<Found> {
  const found = await store.find(place);
  if (found === undefined || found.item.kind === 'symlink') throw new DoorError(404, 'there is nothing');
  return found;
}

/** The entry that a write would replace. Throws DoorError 409. */
export async function findReplaced(
  { store }: Pick<Call, 'store'>,
  place: DavPlace,
): Promise<Found | undefined> {
  const found = await store.find(place);
  if (found?.item.kind === 'symlink') throw new DoorError(409, 'a link is there, which WebDAV cannot show');
  return found;
}

/** Judges If-Match, If-None-Match, If and the locks by what is there: once before a write is received, once for the head it replaces. */
export async function conditionOf(call: Call, changes: readonly Change[]): Promise<Check> {
  const { headers } = call.request;
  const [match, noneMatch] = [listTags(headers['if-match']), listTags(headers['if-none-match'])];
  const given = headers.if;
  const lists = typeof given === 'string' ? parseIf(given) : [];
  const elsewhere = new Map<string, string | undefined>();
  for (const { place } of lists) {
    if (place === undefined || place.key === call.place.key) continue;
    const found = await call.store.find(place);
    elsewhere.set(place.key, found && tagOf(found.item.hash));
  }
  const tokens = tokensOf(lists);
  return (item) => {
    call.signal.throwIfAborted();
    const tag = item && tagOf(item.hash);
    const fits = (tags: readonly string[]): boolean =>
      item !== undefined && tags.some((each) => each === '*' || each === tag);
    judge(match === undefined || fits(match));
    judge(noneMatch === undefined || !fits(noneMatch));
    const holds = lists.some(({ place, conditions }) => {
      const key = place?.key ?? call.place.key;
      const etag = key === call.place.key ? tag : elsewhere.get(key);
      const covering = call.locks.covering(key);
      return conditions.every((each) => {
        const is =
          each.token === undefined ? each.etag === etag : covering.some(({ token }) => token === each.token);
        return is !== each.isNot;
      });
    });
    judge(lists.length === 0 || holds);
    call.locks.require(changes, tokens);
  };
}

export function answerXml(
  response: ServerResponse,
  status: number,
  element: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/xml; charset=utf-8', ...headers });
  response.end(`<?xml version="1.0" encoding="utf-8"?>${element}`);
}
