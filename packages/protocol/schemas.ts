/** JSON Schemas (2020-12) of every body, once: the OpenAPI document carries them, tests hold the parsers to them. */

import { PACK_ID_BYTES } from './bulk/bulk-operations.ts';
import { ERROR_STATUS, REJECTION_CODES } from './errors.ts';
import {
  BULK_CODECS,
  BULK_HASHES_MAX,
  GC_NODES_DEFAULT,
  INTEGER_MAX,
  NODE_REFS_MAX,
  PACK_BYTES_MAX,
  PACK_RECORDS_MAX,
  PATH_ID_CHARACTERS_MAX,
  REF_DOMAIN_CHARACTERS_MAX,
  REQUEST_ID_CHARACTERS_MAX,
  ROOT_REF_CHANGES_MAX,
  ROOT_REF_DELTA_MAX,
} from './limits.ts';

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

const HASH_PATTERN = '^[0-9a-f]{64}$';

function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object with exactly these fields. */
function record(
  description: string,
  fields: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  return {
    type: 'object',
    description,
    required: Object.keys(fields).filter((name) => !optional.includes(name)),
    properties: fields,
    additionalProperties: false,
  };
}

function count(description: string): JsonSchema {
  return { type: 'integer', minimum: 0, maximum: INTEGER_MAX, description };
}

function positive(description: string): JsonSchema {
  return { type: 'integer', minimum: 1, maximum: INTEGER_MAX, description };
}

const SCALARS = {
  Hash: {
    type: 'string',
    pattern: HASH_PATTERN,
    description: 'Lowercase SHA-256 of the canonical bytes of a node.',
  },
  PathId: {
    type: 'string',
    minLength: 1,
    maxLength: PATH_ID_CHARACTERS_MAX,
    pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]+$',
    not: { enum: ['.', '..'] },
    description: 'An App or a Space. Two different strings never share data.',
  },
  RefDomain: {
    type: 'string',
    minLength: 1,
    maxLength: REF_DOMAIN_CHARACTERS_MAX,
    pattern: '^[a-z][a-z0-9]*(?::[a-z0-9]+)*$',
    description: 'The namespace of root refs, taken from the verified capability alone.',
  },
  Timestamp: {
    type: 'integer',
    minimum: 0,
    maximum: INTEGER_MAX,
    description: 'Unix time in milliseconds since 1970-01-01T00:00:00Z.',
  },
} as const satisfies Record<string, JsonSchema>;

const NODES = {
  NodeMetadata: record('What a node is; never changes.', {
    hash: ref('Hash'),
    size: count('Logical content length in bytes.'),
    contentType: { type: 'string', minLength: 1, description: 'Media type recorded for the content.' },
    refs: {
      type: 'array',
      maxItems: NODE_REFS_MAX,
      items: ref('Hash'),
      description: 'Child nodes in order; duplicates are significant.',
    },
  }),
  NodeState: record('How a node is retained; changes over time.', {
    leaseStartedAt: ref('Timestamp'),
    leaseExpiresAt: ref('Timestamp'),
    childRefCount: count('Stored parent edges that reference this node.'),
    rootRefCount: {
      type: 'integer',
      minimum: -INTEGER_MAX,
      maximum: INTEGER_MAX,
      description: 'Aggregate root-ref balance over all domains.',
    },
  }),
  NodeDescription: record('A node: what it is and how it is retained.', {
    metadata: ref('NodeMetadata'),
    state: ref('NodeState'),
  }),
} as const satisfies Record<string, JsonSchema>;

const LEASES = {
  LeaseRequest: record('Asks for a lease.', {
    leaseDurationMs: positive('Requested duration in milliseconds; clamped to 60 seconds through 24 hours.'),
  }),
  UploadInstruction: record(
    'How to upload the canonical bytes. Send method, url and headers exactly as given, without a bearer token; then repeat the lease request.',
    {
      method: { const: 'PUT', type: 'string' },
      url: { type: 'string', format: 'uri', minLength: 1 },
      expiresAt: ref('Timestamp'),
      headers: {
        type: 'object',
        required: ['content-type', 'if-none-match'],
        properties: { 'content-type': { type: 'string' }, 'if-none-match': { type: 'string' } },
        additionalProperties: { type: 'string' },
        description: 'To be sent exactly.',
      },
    },
  ),
  Rejection: record('Why the previous upload was turned down.', {
    code: { type: 'string', enum: REJECTION_CODES },
    message: { type: 'string', minLength: 1 },
  }),
  ReadyLease: record('The content is present and the node is leased.', {
    state: { const: 'ready', type: 'string' },
    hash: ref('Hash'),
    leaseStartedAt: ref('Timestamp'),
    leaseExpiresAt: ref('Timestamp'),
  }),
  AwaitingUpload: record('The canonical bytes must be uploaded.', {
    state: { const: 'awaiting_upload', type: 'string' },
    hash: ref('Hash'),
    upload: ref('UploadInstruction'),
  }),
  AwaitingReplacementUpload: record(
    'A previous upload was rejected; the canonical bytes must be uploaded again.',
    {
      state: { const: 'awaiting_replacement_upload', type: 'string' },
      hash: ref('Hash'),
      rejection: ref('Rejection'),
      upload: ref('UploadInstruction'),
    },
  ),
  ValidatedAwaitingChildren: record(
    'The bytes are validated; some children are not ready. No second upload is needed.',
    {
      state: { const: 'validated_awaiting_children', type: 'string' },
      hash: ref('Hash'),
      childHashes: {
        type: 'array',
        minItems: 1,
        maxItems: NODE_REFS_MAX,
        uniqueItems: true,
        items: ref('Hash'),
        description: 'Every distinct unready child, in the order of first occurrence.',
      },
    },
  ),
  LeaseResponse: {
    description: 'Exactly one of four shapes, told apart by `state`.',
    oneOf: [
      ref('ReadyLease'),
      ref('AwaitingUpload'),
      ref('AwaitingReplacementUpload'),
      ref('ValidatedAwaitingChildren'),
    ],
    discriminator: {
      propertyName: 'state',
      mapping: {
        ready: '#/components/schemas/ReadyLease',
        awaiting_upload: '#/components/schemas/AwaitingUpload',
        awaiting_replacement_upload: '#/components/schemas/AwaitingReplacementUpload',
        validated_awaiting_children: '#/components/schemas/ValidatedAwaitingChildren',
      },
    },
  },
} as const satisfies Record<string, JsonSchema>;

const SPACES = {
  SpaceUsage: record('Current operational accounting of a Space; not a billing contract.', {
    nodeCount: count('Node metadata rows owned by the Space.'),
    readyContentBytes: count('Logical bytes with ready canonical content.'),
    readyStoredBytes: count('Physical bytes attributed to ready content.'),
    reservedBytes: count('Known bytes reserved by validated or server-mediated incomplete uploads.'),
    notReadyNodeCount: count('Nodes without ready canonical content.'),
    leasedNodeCount: count('Nodes protected by an unexpired lease.'),
  }),
  GcRequest: record(
    'Bounds a garbage-collection pass.',
    {
      maxNodes: {
        ...positive('How many candidates the pass may look at; more than 10,000 counts as 10,000.'),
        default: GC_NODES_DEFAULT,
      },
    },
    ['maxNodes'],
  ),
  GcResult: record('What a garbage-collection pass did.', {
    examined: count('Candidates looked at; never more than `maxNodes`.'),
    deleted: count('Nodes deleted.'),
    reclaimedContentBytes: count('Logical bytes of the deleted nodes.'),
  }),
} as const satisfies Record<string, JsonSchema>;

const ROOT_REFS = {
  RootRefItem: record('The balance of one node within the domain.', {
    hash: ref('Hash'),
    refCount: { type: 'integer', minimum: -INTEGER_MAX, maximum: INTEGER_MAX },
  }),
  RootRefPage: record('A page of balances other than 0, in hash order, at one revision.', {
    refDomain: ref('RefDomain'),
    revision: count('The revision every page of this walk shows.'),
    items: { type: 'array', items: ref('RootRefItem') },
    nextCursor: { type: ['string', 'null'], minLength: 1, description: 'null when there are no more pages.' },
  }),
  UpdateRootRefsRequest: record('An atomic, idempotent commit of deltas.', {
    requestId: {
      type: 'string',
      minLength: 1,
      maxLength: REQUEST_ID_CHARACTERS_MAX,
      description: 'Stable idempotency identity. Resend exactly the same request after a lost response.',
    },
    changes: {
      type: 'object',
      minProperties: 1,
      maxProperties: ROOT_REF_CHANGES_MAX,
      propertyNames: { pattern: HASH_PATTERN },
      additionalProperties: { type: 'integer', minimum: -ROOT_REF_DELTA_MAX, maximum: ROOT_REF_DELTA_MAX },
      description: 'Map from hash to signed delta. Duplicate keys are rejected.',
    },
  }),
  UpdateRootRefsResponse: record('The commit.', {
    success: { type: 'boolean' },
    idempotent: { type: 'boolean', description: 'true when this replays an earlier commit.' },
    revision: count('The revision the commit made.'),
  }),
} as const satisfies Record<string, JsonSchema>;

const UPLOAD_FIELDS = LEASES.UploadInstruction.properties as Readonly<Record<string, JsonSchema>>;
const LEASE_FIELDS = LEASES.LeaseRequest.properties as Readonly<Record<string, JsonSchema>>;

/** Shapes that `state` tells apart. */
function oneOfStates(description: string, shapes: Readonly<Record<string, string>>): JsonSchema {
  return {
    description,
    oneOf: Object.values(shapes).map(ref),
    discriminator: {
      propertyName: 'state',
      mapping: Object.fromEntries(
        Object.entries(shapes).map(([state, name]) => [state, `#/components/schemas/${name}`]),
      ),
    },
  };
}

function hashList(description: string): JsonSchema {
  return {
    type: 'array',
    minItems: 1,
    maxItems: BULK_HASHES_MAX,
    uniqueItems: true,
    items: ref('Hash'),
    description,
  };
}

const BULK_STATES = {
  ready: 'ReadyLease',
  validated_awaiting_children: 'ValidatedAwaitingChildren',
  absent: 'AbsentNode',
};

const BULK = {
  PackId: {
    type: 'string',
    pattern: `^[0-9a-f]{${PACK_ID_BYTES * 2}}$`,
    description: 'A pack of one Space.',
  },
  BulkLeaseRequest: record(
    'Asks for many leases.',
    {
      ...LEASE_FIELDS,
      hashes: hashList('Each hash once.'),
      pack: { type: 'boolean', default: false, description: 'Whether to open a pack for what is absent.' },
    },
    ['pack'],
  ),
  AbsentNode: record('The bytes of the node are needed.', {
    state: { const: 'absent', type: 'string' },
    hash: ref('Hash'),
  }),
  RejectedRecord: record('The bytes of this record were turned down; its hash stays as it was.', {
    state: { const: 'rejected', type: 'string' },
    hash: ref('Hash'),
    rejection: ref('Rejection'),
  }),
  BulkLeaseResult: oneOfStates('What became of one hash.', BULK_STATES),
  PackInstruction: record(
    'How to upload one pack. Send method, url and headers exactly as given, without a bearer token; then lease the pack.',
    {
      id: ref('PackId'),
      ...UPLOAD_FIELDS,
      bytesMax: { type: 'integer', const: PACK_BYTES_MAX },
      recordsMax: { type: 'integer', const: PACK_RECORDS_MAX },
    },
  ),
  BulkLeaseResponse: record(
    'One result for each hash, in order.',
    {
      results: { type: 'array', minItems: 1, maxItems: BULK_HASHES_MAX, items: ref('BulkLeaseResult') },
      pack: ref('PackInstruction'),
    },
    ['pack'],
  ),
  PackLeaseResult: oneOfStates('What became of one record.', { ...BULK_STATES, rejected: 'RejectedRecord' }),
  PackLeaseResponse: record(
    'One result for each record before a fault of the framing, in the order of the pack.',
    {
      results: { type: 'array', maxItems: PACK_RECORDS_MAX, items: ref('PackLeaseResult') },
      broken: record('Where the framing of the pack breaks; nothing from there on was judged.', {
        byte: { type: 'integer', minimum: 0, maximum: PACK_BYTES_MAX },
        message: { type: 'string', minLength: 1 },
      }),
    },
    ['broken'],
  ),
  BulkReadRequest: record(
    'Asks for many nodes.',
    {
      hashes: hashList('Each hash once; the answer keeps their order.'),
      codecs: {
        type: 'array',
        uniqueItems: true,
        items: { type: 'string', enum: BULK_CODECS },
        description: 'Codecs the caller can unpack.',
      },
    },
    ['codecs'],
  ),
} as const satisfies Record<string, JsonSchema>;

export const SCHEMAS = {
  ...SCALARS,
  ...NODES,
  ...LEASES,
  ...SPACES,
  ...ROOT_REFS,
  ...BULK,
  Error: record(
    'The envelope of every error. Branch on `error`; `message` is diagnostic text.',
    {
      error: { type: 'string', enum: Object.keys(ERROR_STATUS) },
      message: { type: 'string', description: 'Safe detail: what happened and what to do.' },
    },
    ['message'],
  ),
  Health: record('The service is up.', { status: { const: 'ok', type: 'string' } }),
} as const satisfies Record<string, JsonSchema>;

export type SchemaName = keyof typeof SCHEMAS;
