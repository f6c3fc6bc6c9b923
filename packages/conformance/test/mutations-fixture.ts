/**
 * Servers that break one rule each: our own, with its answers changed on the way. The suite must notice every one of them
 * and name the clause. A mutation sees the request and the true answer and makes the false one.
 */

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface Mutation {
  readonly name: string;
  /** ids of checks to run; at least one of them must fail … */
  readonly only: readonly string[];
  /** … and the clause of a failed one must say this */
  readonly clause: string;
  readonly makeFalsifier: () => (exchange: Exchange) => Response | undefined;
}

export type Json = Record<string, unknown>;

export function answer(
  { headers, status, bytes }: Exchange,
  change: { status?: number; body?: Uint8Array<ArrayBuffer> | string },
): Response {
  const code = change.status ?? status;
  const sent = new Headers(headers);
  if (change.body !== undefined) sent.delete('content-length');
  const body = change.body ?? bytes;
  return new Response(code === 204 || code === 304 || body.length === 0 ? null : body, {
    status: code,
    headers: sent,
  });
}

export function mutation(
  name: string,
  only: readonly string[],
  clause: string,
  falsify: (exchange: Exchange) => Response | undefined,
): Mutation {
  return { name, only, clause, makeFalsifier: () => falsify };
}

function withoutHeader(header: string, only: readonly string[], clause: string): Mutation {
  return mutation(`drops ${header}`, only, clause, (exchange) => {
    if (!exchange.headers.has(header)) return undefined;
    exchange.headers.delete(header);
    return answer(exchange, {});
  });
}

function withHeader(header: string, value: string, only: readonly string[], clause: string): Mutation {
  return mutation(`sends ${header}: ${value}`, only, clause, (exchange) => {
    exchange.headers.set(header, value);
    return answer(exchange, {});
  });
}

export function otherStatus(from: number, to: number, only: readonly string[], clause: string): Mutation {
  return mutation(`answers ${to} for ${from}`, only, clause, (exchange) =>
    exchange.status === from ? answer(exchange, { status: to }) : undefined,
  );
}

/** The answer of a server that does not see the error at all. */
function accepts(
  status: number,
  code: string,
  success: string,
  only: readonly string[],
  clause: string,
): Mutation {
  return mutation(`accepts what is ${status} ${code}`, only, clause, (exchange) => {
    const isError =
      exchange.status === status && new TextDecoder().decode(exchange.bytes).includes(`"${code}"`);
    return isError ? answer(exchange, { status: 200, body: success }) : undefined;
  });
}

export function otherCode(from: string, to: string, only: readonly string[], clause: string): Mutation {
  return mutation(`says ${to} for ${from}`, only, clause, (exchange) => {
    const text = new TextDecoder().decode(exchange.bytes);
    return text.includes(`"${from}"`)
      ? answer(exchange, { body: text.replaceAll(`"${from}"`, `"${to}"`) })
      : undefined;
  });
}

/** Edits successful JSON answers of paths that end as told. */
export function editsJson(
  name: string,
  ending: RegExp,
  only: readonly string[],
  clause: string,
  edit: (body: Json) => void,
): Mutation {
  return mutation(name, only, clause, (exchange) => {
    if (exchange.status !== 200 || !ending.test(exchange.path) || exchange.bytes.length === 0)
      return undefined;
    const body = JSON.parse(new TextDecoder().decode(exchange.bytes)) as Json;
    edit(body);
    return answer(exchange, { body: JSON.stringify(body) });
  });
}

function add(field: string, amount: number): (body: Json) => void {
  return (body) => {
    if (typeof body[field] === 'number') body[field] += amount;
  };
}

const USAGE =
  '{"nodeCount":0,"readyContentBytes":0,"readyStoredBytes":0,"reservedBytes":0,"notReadyNodeCount":0,"leasedNodeCount":0}';
const CONTENT = /\/content$/;
const LEASE = /\/lease$/;
const METADATA = /\/metadata$/;
const ROOT_REFS = /\/root-refs$/;

const headerMutations: readonly Mutation[] = [
  withoutHeader('server-timing', ['headers.timing'], 'Server-Timing'),
  withoutHeader('timing-allow-origin', ['headers.timing'], 'Server-Timing'),
  withoutHeader('access-control-allow-origin', ['headers.cors'], 'CORS'),
  withoutHeader('access-control-allow-headers', ['headers.preflight'], 'preflight'),
  withoutHeader('access-control-expose-headers', ['headers.exposed'], 'exposed'),
  withoutHeader('www-authenticate', ['auth.missing'], 'row 1'),
  withoutHeader('retry-after', ['upload-limit.reached'], 'Retry-After'),
  withoutHeader('accept-ranges', ['read.'], 'content answers'),
  withoutHeader('content-range', ['read.'], 'Content-Range'),
  withoutHeader('vary', ['read.'], 'content answers'),
  withoutHeader('x-content-type-options', ['read.'], 'content answers'),
  withoutHeader('content-security-policy', ['read.'], 'content answers'),
  withoutHeader('cache-control', ['headers.errors'], 'no-store'),
  withHeader('etag', '"x"', ['read.whole'], 'content answers'),
  mutation('hides the content type', ['read.'], 'content answers', (exchange) => {
    if (!CONTENT.test(exchange.path)) return undefined;
    exchange.headers.set('content-type', 'application/octet-stream');
    return answer(exchange, {});
  }),
  mutation('calls usage HTML', ['headers.json'], 'application/json', (exchange) => {
    if (!exchange.path.endsWith('/usage')) return undefined;
    exchange.headers.set('content-type', 'text/html');
    return answer(exchange, {});
  }),
  ...['cache-control', 'content-length', 'content-range', 'content-type', 'vary', 'www-authenticate'].map(
    (header) =>
      mutation(`answers HEAD without ${header}`, ['head.headers'], 'HEAD is allowed', (exchange) => {
        if (exchange.method !== 'HEAD' || !exchange.headers.has(header)) return undefined;
        exchange.headers.delete(header);
        return answer(exchange, {});
      }),
  ),
  withHeader('server-timing', 'cas_edge;dur=1, cas_edge;dur=2', ['headers.timing'], 'Server-Timing'),
  withHeader(
    'server-timing',
    'cas_edge, cas_auth, cas_dispatch, cas_meta_x',
    ['headers.timing'],
    'Server-Timing',
  ),
  mutation('times /health', ['health.'], 'health', (exchange) => {
    exchange.headers.set('server-timing', 'cas_edge;dur=1');
    return answer(exchange, {});
  }),
];

const statusMutations: readonly Mutation[] = [
  otherStatus(404, 405, ['routes.'], '404 NOT_FOUND'),
  otherStatus(401, 403, ['auth.times'], 'row 7'),
  otherStatus(206, 200, ['read.ranges'], '206'),
  otherStatus(416, 400, ['read.bad-ranges'], '416'),
  otherStatus(413, 400, ['json.size'], '413'),
  otherStatus(409, 400, ['root-refs.'], 'IDEMPOTENCY_CONFLICT'),
  mutation('answers 201 to an upload', ['upload.answer'], '200', (exchange) =>
    exchange.method === 'PUT' ? answer(exchange, { status: 201 }) : undefined,
  ),
  otherCode('missing_token', 'invalid_token', ['auth.missing'], 'row 1'),
  otherCode('unsupported_algorithm', 'invalid_token', ['auth.unsupported-alg'], 'row 3'),
  otherCode('unknown_issuer', 'invalid_token', ['auth.unknown-issuer'], 'row 4'),
  otherCode('APP_SUSPENDED', 'FORBIDDEN', ['auth.suspended'], 'row 6'),
  otherCode('resource_scope_mismatch', 'FORBIDDEN', ['auth.scope'], 'row 8'),
  otherCode('insufficient_permission', 'resource_scope_mismatch', ['auth.permissions'], 'row 9'),
  otherCode('resource_scope_mismatch', 'insufficient_permission', ['auth.ref-domain'], 'row 10'),
  otherCode('IDEMPOTENCY_CONFLICT', 'CONFLICT', ['root-refs.payload-conflict'], 'IDEMPOTENCY_CONFLICT'),
  otherCode('CAS_UPLOAD_LIMIT', 'RESOURCE_EXHAUSTED', ['upload-limit.reached'], 'CAS_UPLOAD_LIMIT'),
  otherCode(
    'NODE_DIGEST_MISMATCH',
    'INVALID_CANONICAL_NODE',
    ['lease.digest-mismatch'],
    'NODE_DIGEST_MISMATCH',
  ),
  otherCode('INVALID_CANONICAL_NODE', 'NODE_DIGEST_MISMATCH', ['format.invalid'], 'INVALID_CANONICAL_NODE'),
  otherCode('NODE_TOO_LARGE', 'NODE_DIGEST_MISMATCH', ['lease.over-limit'], 'NODE_TOO_LARGE'),
];

const acceptanceMutations: readonly Mutation[] = [
  accepts(401, 'invalid_token', USAGE, ['auth.signature'], 'signature'),
  accepts(401, 'invalid_token', USAGE, ['auth.lifetime'], 'lifetime'),
  accepts(401, 'invalid_token', USAGE, ['auth.expiry-of-remembered'], 'every request still checks expiry'),
  accepts(401, 'unsupported_algorithm', USAGE, ['auth.alg-none'], 'never none'),
  accepts(401, 'unsupported_algorithm', USAGE, ['auth.alg-hmac'], 'never HMAC'),
  accepts(403, 'resource_scope_mismatch', USAGE, ['isolation.pairs'], 'never share data'),
  accepts(403, 'insufficient_permission', USAGE, ['auth.permission-exact'], 'row 9'),
  accepts(
    400,
    'INVALID_REQUEST',
    '{"examined":0,"deleted":0,"reclaimedContentBytes":0}',
    ['json.gc-fields'],
    'duplicate field',
  ),
  accepts(400, 'INVALID_REQUEST', '{}', ['json.root-refs-fields'], 'duplicate field'),
  accepts(400, 'INVALID_REQUEST', '{}', ['pages.forged-cursor'], 'cursor'),
  accepts(400, 'INVALID_REQUEST', '{}', ['pages.cursor-of-other-app'], 'from another scope'),
  accepts(400, 'INVALID_REQUEST', '{}', ['ids.controls'], 'control characters'),
  accepts(412, 'CONFLICT', '', ['upload.once'], '412, bytes unchanged, forever'),
  accepts(412, 'CONFLICT', '', ['upload.overlapping'], 'first to complete wins'),
  accepts(403, 'FORBIDDEN', '', ['upload.tampered'], 'judged in this order'),
  accepts(403, 'FORBIDDEN', '', ['upload.headers'], 'another content type'),
  accepts(
    404,
    'NOT_FOUND',
    '{"success":true,"idempotent":false,"revision":1}',
    ['root-refs.missing'],
    'no node row',
  ),
  accepts(
    409,
    'CONFLICT',
    '{"success":true,"idempotent":false,"revision":1}',
    ['root-refs.negative'],
    'aggregate below 0',
  ),
];

const bodyMutations: readonly Mutation[] = [
  mutation(
    'flips a bit of content',
    ['format.vectors', 'read.blocks'],
    'Canonical node bytes',
    (exchange) => {
      if (!CONTENT.test(exchange.path) || exchange.status >= 400 || exchange.bytes.length === 0)
        return undefined;
      exchange.bytes[0] = (exchange.bytes[0] ?? 0) ^ 1;
      return answer(exchange, {});
    },
  ),
  mutation('cuts the last byte of ranges', ['read.ranges'], '206', (exchange) =>
    exchange.status === 206 ? answer(exchange, { body: exchange.bytes.slice(0, -1) }) : undefined,
  ),
  editsJson('says more than ok', /\/health$/, ['health.answers'], 'health', (body) => {
    body.version = 1;
  }),
  editsJson('shows another field', METADATA, ['format.vectors'], 'Canonical node bytes', (body) => {
    (body.metadata as Json).createdAt = 1;
  }),
  editsJson('folds content types', METADATA, ['format.content-type'], 'no case folding', (body) => {
    const metadata = body.metadata as Json;
    metadata.contentType = String(metadata.contentType).toLowerCase();
  }),
  editsJson('drops duplicate refs', METADATA, ['format.refs'], 'duplicates significant', (body) => {
    const metadata = body.metadata as Json;
    metadata.refs = [...new Set(metadata.refs as string[])];
  }),
  editsJson('counts a parent once', METADATA, ['children.occurrences'], 'occurrences', (body) => {
    const state = body.state as Json;
    state.childRefCount = Math.min(1, Number(state.childRefCount));
  }),
  editsJson('leases a second more', LEASE, ['lease.clamp'], 'clamped', add('leaseExpiresAt', 1000)),
  editsJson('starts every lease anew', LEASE, ['lease.'], 'renewal', (body) => {
    if (body.state === 'ready') body.leaseStartedAt = Number(body.leaseExpiresAt) - 60_000;
  }),
  editsJson('turns childHashes round', LEASE, ['children.order'], 'first-occurrence order', (body) => {
    (body.childHashes as string[] | undefined)?.reverse();
  }),
  editsJson(
    'forgets the rejection',
    LEASE,
    ['lease.rejection-survives'],
    'survives until a good upload',
    (body) => {
      if (body.state === 'awaiting_replacement_upload')
        Object.assign(body, { state: 'awaiting_upload', rejection: undefined });
    },
  ),
  ...[
    'nodeCount',
    'readyContentBytes',
    'readyStoredBytes',
    'reservedBytes',
    'notReadyNodeCount',
    'leasedNodeCount',
  ].map((field) =>
    editsJson(`counts one more ${field}`, /\/usage$/, ['usage.leaf'], 'usage is exact', add(field, 1)),
  ),
  editsJson('examines one more', /\/gc$/, ['gc.bound'], 'never exceeds maxNodes', add('examined', 1)),
  editsJson(
    'reclaims the envelope too',
    /\/gc$/,
    ['gc.unleased'],
    'logical bytes',
    add('reclaimedContentBytes', 24),
  ),
  editsJson('is never idempotent', ROOT_REFS, ['root-refs.replay'], 'idempotent true', (body) => {
    if ('idempotent' in body) body.idempotent = false;
  }),
  editsJson('skips a revision', ROOT_REFS, ['root-refs.revisions'], 'grows by 1', add('revision', 1)),
  editsJson('lists out of order', ROOT_REFS, ['pages.walk'], 'listRootRefs', (body) => {
    (body.items as unknown[] | undefined)?.reverse();
  }),
  editsJson('never ends a walk', ROOT_REFS, ['pages.walk'], 'listRootRefs', (body) => {
    if ('nextCursor' in body) body.nextCursor ??= 'more';
  }),
  editsJson('shows zero balances', ROOT_REFS, ['pages.zero-balance'], 'non-zero', (body) => {
    (body.items as unknown[] | undefined)?.unshift({ hash: '0'.repeat(64), refCount: 0 });
  }),
];

/** Remembers what any Space read and serves it to every other. */
function makeLeak(): (exchange: Exchange) => Response | undefined {
  const seen = new Map<string, Response>();
  return (exchange) => {
    const key = /\/nodes\/.*/.exec(exchange.path)?.[0];
    if (key === undefined || exchange.method !== 'GET') return undefined;
    if (exchange.status === 200) seen.set(key, answer(exchange, {}));
    return exchange.status === 404 ? seen.get(key)?.clone() : undefined;
  };
}

/** Takes what any Space uploaded as uploaded everywhere. */
function makeGlobalStore(): (exchange: Exchange) => Response | undefined {
  const ready = new Map<string, Response>();
  return (exchange) => {
    const key = /\/nodes\/.*\/lease$/.exec(exchange.path)?.[0];
    if (key === undefined || exchange.status !== 200) return undefined;
    if (new TextDecoder().decode(exchange.bytes).includes('"ready"')) ready.set(key, answer(exchange, {}));
    return ready.get(key)?.clone();
  };
}

export const mutations: readonly Mutation[] = [
  ...headerMutations,
  ...statusMutations,
  ...acceptanceMutations,
  ...bodyMutations,
  {
    name: 'reads from any Space',
    only: ['isolation.', 'gc.'],
    clause: 'never share data',
    makeFalsifier: makeLeak,
  },
  {
    name: 'serves what it has collected',
    only: ['gc.unleased'],
    clause: 'runGc: eligible',
    makeFalsifier: makeLeak,
  },
  {
    name: 'knows uploads of any Space',
    only: ['isolation.'],
    clause: 'never share data',
    makeFalsifier: makeGlobalStore,
  },
];
