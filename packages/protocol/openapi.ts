/** The OpenAPI 3.1 document of the whole interface, made from the tables the code itself runs on. */
import { BULK_OPERATIONS, type BulkOperationName } from './bulk/bulk-operations.ts';
import { GC_NODES_DEFAULT, PACK_MEDIA_TYPE, ROOT_REFS_PAGE_DEFAULT, ROOT_REFS_PAGE_MAX } from './limits.ts';
import {
  ERROR_MODELS,
  type ErrorModelName,
  errorModelStatus,
  errorResponse,
  OPERATION_ERRORS,
} from './openapi-errors.ts';
import { EXAMPLE_HASH, EXAMPLE_PACK_ID, EXAMPLES, type ExampleName } from './openapi-examples.ts';
import { HEADER_MODELS, tenantHeaders } from './openapi-headers.ts';
import {
  HEALTH_PATH,
  NODE_MEDIA_TYPE,
  OPERATIONS,
  type Operation,
  type OperationName,
} from './operations.ts';
import { type JsonSchema, SCHEMAS } from './schemas.ts';

const DESCRIPTION = `Immutable content-addressed nodes, leases, usage accounting, garbage collection and atomic root-ref commits, \
scoped to an App and a Space. A node is identified by the lowercase SHA-256 of its canonical bytes \
(\`${NODE_MEDIA_TYPE}\`).

HEAD is answered wherever GET is. OPTIONS preflights are answered for every Space route; \`authorization\` and \
\`content-type\` may be sent. Authorization comes before every other check of a known route; an unknown path is 404 \
whatever the token. Unknown query parameters and unknown or duplicate JSON fields are errors. Integers may be written \
in any JSON notation (\`1e2\` is 100).

Below \`/bulk/v1\` many small nodes travel in one pack (\`${PACK_MEDIA_TYPE}\`). A server without Bulk answers 404 there.

The target of an upload instruction is not part of this interface: send the given method and headers to the given URL, \
without a bearer token.`;

type AnyOperationName = OperationName | BulkOperationName;

const ALL_OPERATIONS: Readonly<Record<AnyOperationName, Operation>> = { ...OPERATIONS, ...BULK_OPERATIONS };

interface OperationModel {
  readonly summary: string;
  readonly description: string;
  readonly tag: 'nodes' | 'space' | 'root refs' | 'bulk';
  readonly query?: readonly ('Limit' | 'Cursor')[];
  readonly request?: { readonly schema: ExampleName; readonly required: boolean };
  /** `undefined`: the node's own content; or a pack. */
  readonly response: ExampleName | typeof PACK_MEDIA_TYPE | undefined;
  readonly responseDescription: string;
}

const OPERATION_MODELS: Readonly<Record<AnyOperationName, OperationModel>> = {
  readContent: {
    summary: 'Read the content of a node, whole or one byte range',
    description:
      "Answers the node's own content with its own content type, not its envelope. The read is repeatable. Content that is known to be damaged is never served: 503 until the node is healed by a lease and an upload.",
    tag: 'nodes',
    response: undefined,
    responseDescription: 'The whole content.',
  },
  readMetadata: {
    summary: 'Read the metadata and the retention state of a node',
    description: 'The metadata never changes; the state may change concurrently.',
    tag: 'nodes',
    response: 'NodeDescription',
    responseDescription: 'The node.',
  },
  leaseNode: {
    summary: 'Lease a node, or learn what it needs to become ready',
    description:
      'A ready node is leased: never shortened, never released. A node without ready content answers what to do: upload the canonical bytes and repeat the same request, or make the listed children ready first.',
    tag: 'nodes',
    request: { schema: 'LeaseRequest', required: true },
    response: 'LeaseResponse',
    responseDescription: 'The lease, or what is needed for it.',
  },
  getUsage: {
    summary: 'Read the accounting of the Space',
    description: 'Exact at each commit; values may change concurrently.',
    tag: 'space',
    response: 'SpaceUsage',
    responseDescription: 'The usage.',
  },
  runGc: {
    summary: 'Run one bounded garbage-collection pass',
    description: `Deletes unleased, unreferenced nodes, the oldest expired lease first, and looks at no more than \`maxNodes\` (default ${GC_NODES_DEFAULT}). Every candidate is rechecked right before its deletion. Further calls are safe.`,
    tag: 'space',
    request: { schema: 'GcRequest', required: false },
    response: 'GcResult',
    responseDescription: 'What the pass did.',
  },
  listRootRefs: {
    summary: 'List the root-ref balances of the domain',
    description:
      'All pages of one walk show the balances of the first page’s revision, whatever commits come between. The domain is that of the capability.',
    tag: 'root refs',
    query: ['Limit', 'Cursor'],
    response: 'RootRefPage',
    responseDescription: 'One page.',
  },
  updateRootRefs: {
    summary: 'Commit root-ref deltas, all or none',
    description:
      'A replay of the same request answers the revision of the first. Key order and white space do not matter. The domain is that of the capability.',
    tag: 'root refs',
    request: { schema: 'UpdateRootRefsRequest', required: true },
    response: 'UpdateRootRefsResponse',
    responseDescription: 'The commit.',
  },
  leaseNodes: {
    summary: 'Lease many nodes, and open a pack for what is absent',
    description:
      'What is ready is leased, what waits for children is settled, everything else is `absent`: its bytes are needed. With `pack: true`, and only if a node is absent, the answer tells where one pack of nodes goes.',
    tag: 'bulk',
    request: { schema: 'BulkLeaseRequest', required: true },
    response: 'BulkLeaseResponse',
    responseDescription: 'One result for each hash.',
  },
  leasePack: {
    summary: 'Judge an uploaded pack, publish and lease its nodes',
    description:
      'Children are judged before parents, wherever they stand. The same request again reads no bytes: rejections and `broken` are kept until 24 hours after the last one, every other hash shows what `leases` answers now.',
    tag: 'bulk',
    request: { schema: 'LeaseRequest', required: true },
    response: 'PackLeaseResponse',
    responseDescription: 'One result for each record.',
  },
  readNodes: {
    summary: 'Read many nodes as one pack',
    description:
      'Records stand in the order of the request. What is absent, damaged, over 8 MiB, or behind 64 MiB of the pack or of canonical bytes is left out. Without `codecs` every record has its canonical bytes as they are.',
    tag: 'bulk',
    request: { schema: 'BulkReadRequest', required: true },
    response: PACK_MEDIA_TYPE,
    responseDescription: 'A pack of the nodes that could be served whole.',
  },
};

const PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  AppId: {
    name: 'appId',
    in: 'path',
    required: true,
    schema: { $ref: '#/components/schemas/PathId' },
    example: 'demo',
  },
  SpaceId: {
    name: 'spaceId',
    in: 'path',
    required: true,
    schema: { $ref: '#/components/schemas/PathId' },
    example: 'main',
  },
  Hash: {
    name: 'hash',
    in: 'path',
    required: true,
    schema: { $ref: '#/components/schemas/Hash' },
    example: EXAMPLE_HASH,
  },
  PackId: {
    name: 'packId',
    in: 'path',
    required: true,
    schema: { $ref: '#/components/schemas/PackId' },
    example: EXAMPLE_PACK_ID,
  },
  Range: {
    name: 'Range',
    in: 'header',
    required: false,
    description:
      'One byte range: `bytes=<start>-<end>`, `bytes=<start>-` or `bytes=-<count>`. An end beyond the content is clamped. Anything else is 416.',
    schema: { type: 'string' },
    examples: {
      bounded: { value: 'bytes=0-4' },
      openEnded: { value: 'bytes=5-' },
      suffix: { value: 'bytes=-3' },
    },
  },
  Limit: {
    name: 'limit',
    in: 'query',
    required: false,
    description: 'Most items of this page, in plain decimal.',
    schema: { type: 'integer', minimum: 1, maximum: ROOT_REFS_PAGE_MAX, default: ROOT_REFS_PAGE_DEFAULT },
  },
  Cursor: {
    name: 'cursor',
    in: 'query',
    required: false,
    description: 'The `nextCursor` of the page before, under the same capability domain.',
    schema: { type: 'string', minLength: 1 },
  },
};

/** Builds the document: plain JSON data, the same at every call. */
export function buildOpenApi(): JsonSchema {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Space Content-Addressed Storage API',
      version: '1.0.0',
      summary: 'Content-addressed storage for Apps and their Spaces.',
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '{baseUrl}', variables: { baseUrl: { default: 'http://127.0.0.1:8420' } } }],
    tags: [
      { name: 'nodes', description: 'Immutable nodes and their leases.' },
      { name: 'space', description: 'Accounting and garbage collection.' },
      { name: 'root refs', description: 'Balances that keep nodes, per domain.' },
      { name: 'bulk', description: 'Many nodes in few requests.' },
      { name: 'service', description: 'The service itself.' },
    ],
    security: [{ capability: [] }],
    paths: buildPaths(),
    components: {
      securitySchemes: {
        capability: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description:
            'A version 1 capability: a JWT whose registered issuer stands for the App, with signed `spaceId`, `permissions` and, for root refs, `refDomain`. The names listed with an operation are the permissions it needs.',
        },
      },
      parameters: PARAMETERS,
      headers: HEADER_MODELS,
      responses: Object.fromEntries(
        (Object.keys(ERROR_MODELS) as ErrorModelName[]).map((name) => [name, errorResponse(name)]),
      ),
      schemas: SCHEMAS,
    },
  };
}

function buildPaths(): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const name of Object.keys(ALL_OPERATIONS) as AnyOperationName[]) {
    const { path, method } = ALL_OPERATIONS[name];
    paths[path] ??= { parameters: pathParameters(path) };
    paths[path][method.toLowerCase()] = buildOperation(name);
  }
  paths[HEALTH_PATH] = { get: buildHealth() };
  return paths;
}

function pathParameters(path: string): readonly JsonSchema[] {
  const names = ['AppId', 'SpaceId', 'Hash', 'PackId'];
  const used = names.filter((name) => path.toLowerCase().includes(`{${name.toLowerCase()}}`));
  return used.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

function buildOperation(name: AnyOperationName): JsonSchema {
  const model = OPERATION_MODELS[name];
  const { authority, needsRefDomain } = ALL_OPERATIONS[name];
  const claim = needsRefDomain ? ' and a valid signed `refDomain`' : '';
  const parameters = [...(model.query ?? []), ...(name === 'readContent' ? ['Range'] : [])];
  return {
    operationId: name,
    summary: model.summary,
    description: `${model.description}\n\nNeeds the permission \`${authority}\`${claim}.`,
    tags: [model.tag],
    security: [{ capability: [authority] }],
    ...(parameters.length === 0
      ? {}
      : { parameters: parameters.map((parameter) => ({ $ref: `#/components/parameters/${parameter}` })) }),
    ...(model.request === undefined
      ? {}
      : { requestBody: { required: model.request.required, content: jsonContent(model.request.schema) } }),
    responses: { ...buildSuccess(name, model), ...buildErrors(name) },
  };
}

/** Operations whose answer rests on the node's row. */
const TELLING_ROT: readonly AnyOperationName[] = ['leaseNode', 'readMetadata', 'leaseNodes', 'leasePack'];

function buildSuccess(name: AnyOperationName, model: OperationModel): JsonSchema {
  const { response, responseDescription: description } = model;
  if (response === undefined) return contentResponses(description);
  if (response === PACK_MEDIA_TYPE) return packResponses(description);
  return {
    200: {
      description,
      headers: tenantHeaders(...(TELLING_ROT.includes(name) ? (['Holdfast-Rotten-Nodes'] as const) : [])),
      content: jsonContent(response),
      ...(name === 'listRootRefs' ? { links: NEXT_PAGE } : {}),
    },
  };
}

const NEXT_PAGE = {
  nextPage: {
    operationId: 'listRootRefs',
    parameters: { 'query.cursor': '$response.body#/nextCursor' },
    description: 'The next page, while `nextCursor` is not null.',
  },
};

function contentResponses(description: string): JsonSchema {
  const headers = [
    'Accept-Ranges',
    'Content-Length',
    'Cache-Control-Immutable',
    'Vary',
    'X-Content-Type-Options',
    'Content-Security-Policy',
  ] as const;
  // An empty schema stands for raw bytes; the media type is the node's own.
  const content = { '*/*': { schema: {} } };
  return {
    '200': { description, headers: tenantHeaders(...headers), content },
    '206': {
      description: 'The selected bytes.',
      headers: tenantHeaders('Content-Range', ...headers),
      content,
    },
  };
}

function packResponses(description: string): JsonSchema {
  const headers = tenantHeaders('Cache-Control-No-Store', 'Vary', 'X-Content-Type-Options');
  return { '200': { description, headers, content: { [PACK_MEDIA_TYPE]: { schema: {} } } } };
}

function buildErrors(name: AnyOperationName): JsonSchema {
  const entries = OPERATION_ERRORS[name].map(
    (model) => [String(errorModelStatus(model)), { $ref: `#/components/responses/${model}` }] as const,
  );
  return Object.fromEntries(entries);
}

function buildHealth(): JsonSchema {
  return {
    operationId: 'health',
    summary: 'Whether the service is up',
    description: 'Public. Touches no storage and carries no timing headers.',
    tags: ['service'],
    security: [],
    responses: { '200': { description: 'Up.', content: jsonContent('Health') } },
  };
}

function jsonContent(schema: ExampleName): JsonSchema {
  const examples = Object.entries(EXAMPLES[schema]).map(([name, value]) => [name, { value }]);
  return {
    'application/json': {
      schema: { $ref: `#/components/schemas/${schema}` },
      examples: Object.fromEntries(examples),
    },
  };
}
