/** LOCK and UNLOCK. Locks live in the door's memory: a restarted door has none. */
import { DoorError } from '../door.ts';
import { readBody } from '../received-body.ts';
import { answerXml, type Call, conditionOf, findReplaced, getFound } from './call.ts';
import { parseIf, tokensOf } from './if-header.ts';
import { formatLocks, type Lock } from './locks.ts';
import { judge } from './name-store.ts';
import { requireEntry } from './places.ts';
import { findChild, formatXml, isDav, parseXml } from './xml.ts';

const LOCK_S_MAX = 3_600;

export async function lock(call: Call): Promise<void> {
  const { locks, place, request, store } = call;
  const body = await readBody(request);
  if (body.length === 0) return refresh(call);
  const root = parseXml(body);
  const scope = findChild(root, 'lockscope');
  const isExclusive = scope !== undefined && findChild(scope, 'exclusive') !== undefined;
  const isShared = scope !== undefined && findChild(scope, 'shared') !== undefined;
  if (!isDav(root, 'lockinfo') || isExclusive === isShared)
    throw new DoorError(400, 'the body is no lockinfo');
  const depth = request.headers.depth ?? 'infinity';
  if (depth !== '0' && depth !== 'infinity') throw new DoorError(400, 'a lock has depth 0 or infinity');
  const owner = findChild(root, 'owner');
  const found = await findReplaced(call, place);
  const isNew = found === undefined;
  const check = await conditionOf(call, isNew ? [{ key: place.key, listed: true }] : []);
  if (isNew) requireEntry(place);
  check(found?.item);
  const isFolder = found?.item.kind === 'directory';
  const made = locks.add({
    key: place.key,
    isFolder,
    isDeep: isFolder && depth === 'infinity',
    isExclusive,
    owner: owner === undefined ? '' : formatXml(owner),
    seconds: parseTimeout(request.headers.timeout),
  });
  if (isNew) {
    // A lock of what is not there makes an empty file, so that nobody else takes the place.
    const { name, path } = requireEntry(place);
    // The lock itself is in the way of the condition by now.
    const alive = () => call.signal.throwIfAborted();
    try {
      const bytes = new Uint8Array();
      await store.edit({ name, path }, [{ op: 'set', path, bytes, replace: false }], alive);
    } catch (error) {
      locks.remove(made);
      throw error;
    }
  }
  answerLocks(call, isNew ? 201 : 200, made, { 'lock-token': `<${made.token}>` });
}

async function refresh(call: Call): Promise<void> {
  const { locks, place, request } = call;
  const { if: header, timeout } = request.headers;
  if (typeof header !== 'string')
    throw new DoorError(400, 'a lock is made by a body, and kept by an If header');
  const { item } = await getFound(call, place);
  const check = await conditionOf(call, []);
  check(item);
  const tokens = tokensOf(parseIf(header));
  const mine = locks.covering(place.key).find(({ token }) => tokens.has(token));
  judge(mine !== undefined);
  answerLocks(call, 200, locks.refresh(mine as Lock, parseTimeout(timeout)));
}

function answerLocks(
  { response }: Call,
  status: number,
  made: Lock,
  headers: Readonly<Record<string, string>> = {},
): void {
  const element = `<D:prop xmlns:D="DAV:"><D:lockdiscovery>${formatLocks([made])}</D:lockdiscovery></D:prop>`;
  answerXml(response, status, element, headers);
}

function parseTimeout(header: string | string[] | undefined): number {
  const seconds = Number(/Second-(\d{1,10})/i.exec(String(header ?? ''))?.[1] ?? LOCK_S_MAX);
  return Math.min(Math.max(seconds, 1), LOCK_S_MAX);
}

export async function unlock(call: Call): Promise<void> {
  const { locks, place, request, response } = call;
  const token = /^<([^>]+)>$/.exec(String(request.headers['lock-token'] ?? ''))?.[1];
  if (token === undefined) throw new DoorError(400, 'there is no Lock-Token');
  await getFound(call, place);
  const found = locks.covering(place.key).find((each) => each.token === token);
  if (found === undefined) throw new DoorError(409, 'there is no such lock');
  locks.remove(found);
  response.writeHead(204).end();
}
