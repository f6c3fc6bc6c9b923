/** The closed table of operations and the data to match paths against it. */
import { fillPath, pathPattern } from './path-template.ts';

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

/** A path of the Space plane and the operations that live there. */
export interface SpaceRoute {
  readonly path: string;
  readonly get: OperationName | undefined;
  readonly post: OperationName | undefined;
}

export const SPACE_ROUTES: readonly SpaceRoute[] = listSpaceRoutes();

function listSpaceRoutes(): SpaceRoute[] {
  const operations = Object.entries(OPERATIONS) as [OperationName, Operation][];
  const find = (path: string, method: Operation['method']): OperationName | undefined =>
    operations.find(([, operation]) => operation.path === path && operation.method === method)?.[0];
  const paths = new Set(operations.map(([, { path }]) => path));
  return [...paths].map((path) => ({ path, get: find(path, 'GET'), post: find(path, 'POST') }));
}

/** A path of the Space plane, its variable parts still percent-encoded (judge them with `parsePathId`, `isHash`). */
export interface SpacePathMatch {
  readonly route: SpaceRoute;
  readonly appId: string;
  readonly spaceId: string;
  /** `undefined` for operations on the Space as a whole. */
  readonly hash: string | undefined;
}

const SPACE_PATTERNS = SPACE_ROUTES.map((route) => ({ route, pattern: pathPattern(route.path) }));

/**
 * Matches the raw path of a request (no query) by its fixed segments, letter for letter; `undefined` when no operation of
 * any method lives there (404 whatever the token). Which ids are well formed is not judged here.
 */
export function matchSpacePath(path: string): SpacePathMatch | undefined {
  for (const { route, pattern } of SPACE_PATTERNS) {
    const found = pattern.exec(path)?.groups;
    if (found === undefined) continue;
    const { appId = '', spaceId = '', hash } = found;
    return { route, appId, spaceId, hash };
  }
  return undefined;
}

/**
 * The path of an operation, ids percent-encoded. Throws RangeError for an id that no path can carry (empty, `.`, `..`)
 * or a hash that is missing.
 */
export function operationPath(
  name: OperationName,
  target: { readonly appId: string; readonly spaceId: string; readonly hash?: string },
): string {
  return fillPath(OPERATIONS[name].path, target);
}
