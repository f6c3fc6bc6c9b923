/** `holdfast gateway cache`: a map from keys to bytes for programs that build, and the objects of git-lfs. */
import type { IncomingMessage } from 'node:http';
import type { Client } from '@holdfast/client/internal';
import { DoorError, type DoorHandler, type DoorOptions } from '../door.ts';
import { readBody } from '../received-body.ts';
import { ReceivedValues } from '../received-values.ts';
import { Actions } from './actions.ts';
import { CacheTree, HEAD_MS_FRESH } from './cache-tree.ts';
import { type CacheLimits, Eviction } from './eviction.ts';
import { parseAddress } from './keys.ts';
import { formatLfsError, isLfs, serveLfs } from './lfs.ts';
import { type CacheCall, describe, makeFolder, put, read, remove } from './serving.ts';
import { Uses } from './uses.ts';

export interface CacheSettings extends CacheLimits {
  readonly name: string;
  readonly lfsName: string;
  readonly isReadOnly: boolean;
}

interface Cache {
  readonly handle: DoorHandler;
  readonly options: DoorOptions;
}

type Handlers = Readonly<Record<string, (call: CacheCall) => Promise<void>>>;

const READING: Handlers = { GET: read, HEAD: read, PROPFIND: describe };
const WRITING: Handlers = { PUT: put, DELETE: remove, MKCOL: makeFolder };
const STATUS = 'v8/artifacts/status';
const EVENTS = 'v8/artifacts/events';

export function createCache(client: Client, settings: CacheSettings): Cache {
  const { name, lfsName, isReadOnly, bytesMax } = settings;
  // Small values are kept in memory. Objects of git-lfs are asked for once.
  const tree = new CacheTree(client, name, 32 * 1024 * 1024);
  const lfsTree = new CacheTree(client, lfsName);
  const uses = new Uses(tree, isReadOnly);
  const common = {
    tree,
    uses,
    actions: new Actions(tree),
    values: new ReceivedValues(tree.client),
    bytesMax,
  };
  const offered: Handlers = isReadOnly ? READING : { ...READING, ...WRITING };
  const allow = ['OPTIONS', ...Object.keys(offered)].join(', ');
  if (!isReadOnly) new Eviction(tree, uses, settings).start();

  const handle: DoorHandler = async (request, response) => {
    const { method = '' } = request;
    if (method === 'OPTIONS') {
      await tree.head(HEAD_MS_FRESH);
      return void response.writeHead(200, { allow, 'content-length': 0 }).end();
    }
    const address = parseAddress(request.url ?? '/');
    if (isLfs(address.path))
      return serveLfs({ tree: lfsTree, values: common.values, isReadOnly, request, response, address });
    const isStatus = address.path === STATUS && method === 'GET';
    if (isStatus || (address.path === EVENTS && method === 'POST')) {
      await readBody(request);
      await tree.head(HEAD_MS_FRESH);
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(isStatus ? '{"status":"enabled"}' : '{}');
    }
    const handler = Object.hasOwn(offered, method) ? offered[method] : undefined;
    if (handler === undefined && Object.hasOwn(WRITING, method))
      throw new DoorError(403, 'this gateway only reads');
    if (handler === undefined) throw new DoorError(405, 'there is no such method here', { allow });
    await handler({ ...common, request, response, address });
  };

  const onEnd = async (): Promise<void> => {
    if (!isReadOnly) await uses.keep();
  };
  return { handle, options: { takesBearer: true, formatError, onEnd } };
}

function formatError({ url = '' }: IncomingMessage, message: string) {
  return isLfs(url.slice(1)) ? formatLfsError(message) : undefined;
}
