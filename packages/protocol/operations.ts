/** The closed table of operations and the data to match paths against it. */

export const NODE_MEDIA_TYPE = 'application/vnd.holdfast.cas-node.v1';

export const SPACE_PATH_TEMPLATE = '/v1/apps/{appId}/spaces/{spaceId}';
export const HEALTH_PATH = '/health';
/**
 * On answers about a node's row (leaseNode, readMetadata) in a Space where the server knows of damaged nodes: how many, counted
 * no further than 1000. A client may ignore it.
 */
export const ROTTEN_NODES_HEADER = 'Holdfast-Rotten-Nodes';

/** Permission strings a capability may carry. */
export const AUTHORITIES = [
  'cas:nodes:read',
  'cas:nodes:lease',
  'cas:usage:read',
  'cas:gc:execute',
  'cas:root-refs:read',
  'cas:root-refs:update',
] as const;

export type Authority = (typeof AUTHORITIES)[number];

export interface Operation {
  readonly method: 'GET' | 'POST';
  /** The whole path, `{appId}`, `{spaceId}` and `{hash}` to be filled in. */
  readonly path: string;
  readonly authority: Authority;
  /** The capability must carry a valid `refDomain`. */
  readonly needsRefDomain: boolean;
  /** Status of success; a content read with a range answers 206 instead. */
  readonly status: number;
}

export type OperationName =
  | 'readContent'
  | 'readMetadata'
  | 'leaseNode'
  | 'getUsage'
  | 'runGc'
  | 'listRootRefs'
  | 'updateRootRefs';

export const OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  readContent: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/cas/nodes/{hash}/content`,
    authority: 'cas:nodes:read',
    needsRefDomain: false,
    status: 200,
  },
  readMetadata: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/cas/nodes/{hash}/metadata`,
    authority: 'cas:nodes:read',
    needsRefDomain: false,
    status: 200,
  },
  leaseNode: {
    method: 'POST',
    path: `${SPACE_PATH_TEMPLATE}/cas/nodes/{hash}/lease`,
    authority: 'cas:nodes:lease',
    needsRefDomain: false,
    status: 200,
  },
  getUsage: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/cas/usage`,
    authority: 'cas:usage:read',
    needsRefDomain: false,
    status: 200,
  },
  runGc: {
    method: 'POST',
    path: `${SPACE_PATH_TEMPLATE}/cas/gc`,
    authority: 'cas:gc:execute',
    needsRefDomain: false,
    status: 200,
  },
  listRootRefs: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/root-refs`,
    authority: 'cas:root-refs:read',
    needsRefDomain: true,
    status: 200,
  },
  updateRootRefs: {
    method: 'POST',
    path: `${SPACE_PATH_TEMPLATE}/root-refs`,
    authority: 'cas:root-refs:update',
    needsRefDomain: true,
    status: 200,
  },
};

/** A path of the Space plane, its variable parts still percent-encoded (judge them with `parsePathId`, `isHash`). */
export interface SpacePathMatch {
  readonly appId: string;
  readonly spaceId: string;
  /** `undefined` for operations on the Space as a whole. */
  readonly hash: string | undefined;
  readonly get: OperationName | undefined;
  readonly post: OperationName | undefined;
}

interface Methods {
  readonly get?: OperationName;
  readonly post?: OperationName;
}

const NODE_TAILS: ReadonlyMap<string, Methods> = new Map([
  ['content', { get: 'readContent' }],
  ['metadata', { get: 'readMetadata' }],
  ['lease', { post: 'leaseNode' }],
]);

const SPACE_TAILS: ReadonlyMap<string, Methods> = new Map([
  ['cas/usage', { get: 'getUsage' }],
  ['cas/gc', { post: 'runGc' }],
  ['root-refs', { get: 'listRootRefs', post: 'updateRootRefs' }],
]);

const APPS_PREFIX = '/v1/apps/';
const SPACES_PREFIX = '/spaces/';
const NODES_PREFIX = 'cas/nodes/';

/**
 * Matches the raw path of a request (no query) by its fixed segments, letter for letter; `undefined` when no operation of
 * any method lives there (404 whatever the token). Which ids are well formed is not judged here.
 */
export function matchSpacePath(path: string): SpacePathMatch | undefined {
  if (!path.startsWith(APPS_PREFIX)) return undefined;
  const appEnd = path.indexOf('/', APPS_PREFIX.length);
  if (appEnd < 0 || !path.startsWith(SPACES_PREFIX, appEnd)) return undefined;
  const spaceStart = appEnd + SPACES_PREFIX.length;
  const spaceEnd = path.indexOf('/', spaceStart);
  if (spaceEnd < 0) return undefined;
  const appId = path.slice(APPS_PREFIX.length, appEnd);
  const spaceId = path.slice(spaceStart, spaceEnd);
  const tailStart = spaceEnd + 1;
  if (!path.startsWith(NODES_PREFIX, tailStart)) {
    return toMatch(appId, spaceId, undefined, SPACE_TAILS.get(path.slice(tailStart)));
  }
  const hashStart = tailStart + NODES_PREFIX.length;
  const hashEnd = path.indexOf('/', hashStart);
  if (hashEnd < 0) return undefined;
  return toMatch(appId, spaceId, path.slice(hashStart, hashEnd), NODE_TAILS.get(path.slice(hashEnd + 1)));
}

function toMatch(
  appId: string,
  spaceId: string,
  hash: string | undefined,
  methods: Methods | undefined,
): SpacePathMatch | undefined {
  if (methods === undefined) return undefined;
  return { appId, spaceId, hash, get: methods.get, post: methods.post };
}

/**
 * The path of an operation, ids percent-encoded. Throws RangeError for an id that no path can carry (empty, `.`, `..`)
 * or a hash that is missing.
 */
export function operationPath(
  name: OperationName,
  target: { readonly appId: string; readonly spaceId: string; readonly hash?: string },
): string {
  return OPERATIONS[name].path.replace(
    /\{(appId|spaceId|hash)\}/g,
    (_, part: 'appId' | 'spaceId' | 'hash') => {
      const value = target[part];
      if (value === undefined || value === '' || value === '.' || value === '..' || !value.isWellFormed()) {
        throw new RangeError(
          `${part} ${JSON.stringify(value)} cannot be part of a path; give a non-empty id other than . and ..`,
        );
      }
      return encodeURIComponent(value);
    },
  );
}
