/** The closed table of operations: path and required permission of each. All answer 200; a content read with a range answers 206. */

export const NODE_MEDIA_TYPE = 'application/vnd.holdfast.cas-node.v1';

export const SPACE_PATH_TEMPLATE = '/v1/apps/{appId}/spaces/{spaceId}';
export const HEALTH_PATH = '/health';
/** On answers about a node's row in a Space with known damaged nodes: how many, up to 1000. A client may ignore it. */
export const ROTTEN_NODES_HEADER = 'Holdfast-Rotten-Nodes';

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
  /** The whole path, `{appId}`, `{spaceId}`, and `{hash}` or `{packId}`, to be filled in. */
  readonly path: string;
  readonly authority: Authority;
  /** The capability must carry a valid `refDomain`. */
  readonly needsRefDomain?: true;
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
  },
  readMetadata: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/cas/nodes/{hash}/metadata`,
    authority: 'cas:nodes:read',
  },
  leaseNode: {
    method: 'POST',
    path: `${SPACE_PATH_TEMPLATE}/cas/nodes/{hash}/lease`,
    authority: 'cas:nodes:lease',
  },
  getUsage: { method: 'GET', path: `${SPACE_PATH_TEMPLATE}/cas/usage`, authority: 'cas:usage:read' },
  runGc: { method: 'POST', path: `${SPACE_PATH_TEMPLATE}/cas/gc`, authority: 'cas:gc:execute' },
  listRootRefs: {
    method: 'GET',
    path: `${SPACE_PATH_TEMPLATE}/root-refs`,
    authority: 'cas:root-refs:read',
    needsRefDomain: true,
  },
  updateRootRefs: {
    method: 'POST',
    path: `${SPACE_PATH_TEMPLATE}/root-refs`,
    authority: 'cas:root-refs:update',
    needsRefDomain: true,
  },
};
