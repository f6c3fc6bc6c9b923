/** Servers that break one rule of Bulk each. */
import {
  answer,
  editsJson,
  type Json,
  type Mutation,
  mutation,
  otherCode,
  otherStatus,
} from './mutations-fixture.ts';

const LEASES = /\/bulk\/.*\/leases$/;
const PACK_LEASE = /\/bulk\/.*\/packs\/[^/]+\/lease$/;
const READS = /\/bulk\/.*\/reads$/;

type Result = { state: string; [field: string]: unknown };

/** Changes the results of an answer, each where `edit` says so. */
const editsResults = (edit: (results: Result[]) => Result[]) => (body: Json) => {
  if (Array.isArray(body.results)) body.results = edit(body.results as Result[]);
};
const editsPack = (edit: (pack: Json) => void) => (body: Json) => {
  if (body.pack !== undefined) edit(body.pack as Json);
};
const editsBroken = (edit: (broken: { byte: number }) => void) => (body: Json) => {
  if (body.broken !== undefined) edit(body.broken as { byte: number });
};
const isRejected = ({ state }: Result): boolean => state === 'rejected';

const leaseMutations: readonly Mutation[] = [
  editsJson(
    'answers in another order',
    LEASES,
    ['bulk-leases.states'],
    'in order',
    editsResults((results) => results.reverse()),
  ),
  editsJson(
    'calls what waits absent',
    LEASES,
    ['bulk-leases.states'],
    'one result',
    editsResults((results) =>
      results.map((result) =>
        result.state === 'validated_awaiting_children' ? { state: 'absent', hash: result.hash } : result,
      ),
    ),
  ),
  editsJson(
    'leases many a second more',
    LEASES,
    ['bulk-leases.renewal'],
    'renewal',
    editsResults((results) =>
      results.map((result) => ({
        ...result,
        ...(result.state === 'ready' && { leaseExpiresAt: Number(result.leaseExpiresAt) + 1000 }),
      })),
    ),
  ),
  editsJson(
    'leases what is ready by the request alone',
    LEASES,
    ['bulk-leases.kept'],
    '60 s after expiresAt',
    editsPack((pack) => {
      pack.expiresAt = Number(pack.expiresAt) + 1000;
    }),
  ),
  editsJson(
    'opens a pack each time',
    LEASES,
    ['bulk-leases.same-pack'],
    'the same pack',
    editsPack((pack) => {
      pack.id = crypto.randomUUID();
    }),
  ),
  editsJson(
    'takes longer packs',
    LEASES,
    ['bulk-leases.pack'],
    'an instruction for one pack',
    editsPack((pack) => {
      pack.bytesMax = Number(pack.bytesMax) + 1;
    }),
  ),
  editsJson(
    'shows another field of a pack',
    LEASES,
    ['bulk-leases.pack'],
    'an instruction for one pack',
    editsPack((pack) => {
      pack.generation = '1';
    }),
  ),
  editsJson(
    'keeps one child too few',
    LEASES,
    ['bulk-leases.child-hashes'],
    '16,384',
    editsResults((results) =>
      results.map((result) =>
        result.state === 'validated_awaiting_children'
          ? { ...result, childHashes: (result.childHashes as string[]).slice(0, 1) }
          : result,
      ),
    ),
  ),
  otherCode('CAS_UPLOAD_LIMIT', 'RESOURCE_EXHAUSTED', ['bulk-leases.limit'], 'active upload'),
];

const packMutations: readonly Mutation[] = [
  editsJson(
    'finds a fault a byte later',
    PACK_LEASE,
    ['packs.broken'],
    'broken',
    editsBroken((broken) => {
      broken.byte += 1;
    }),
  ),
  editsJson('names no broken pack', PACK_LEASE, ['packs.cut-off'], 'broken', (body) => {
    delete body.broken;
  }),
  editsJson('says that all packs are broken', PACK_LEASE, ['packs.empty'], '4,096 records', (body) => {
    body.broken = { byte: 0, message: 'x' };
  }),
  editsJson(
    'leaves rejected records out',
    PACK_LEASE,
    ['packs.rejections'],
    'rejected',
    editsResults((results) => results.filter((result) => !isRejected(result))),
  ),
  editsJson(
    'takes every frame',
    PACK_LEASE,
    ['packs.frames'],
    'frames',
    editsResults((results) =>
      results.map((result) =>
        isRejected(result)
          ? { state: 'ready', hash: result.hash, leaseStartedAt: 1, leaseExpiresAt: 2 }
          : result,
      ),
    ),
  ),
  otherCode(
    'NODE_DIGEST_MISMATCH',
    'INVALID_CANONICAL_NODE',
    ['packs.rejections'],
    'the first of these counts',
  ),
  otherCode('NODE_TOO_LARGE', 'INVALID_CANONICAL_NODE', ['packs.too-large'], 'nothing is unpacked'),
  editsJson(
    'makes parents wait for their own pack',
    PACK_LEASE,
    ['pack-lease.children'],
    'children are judged before parents',
    editsResults((results) =>
      results.map((result, index) =>
        index === 0
          ? { state: 'validated_awaiting_children', hash: result.hash, childHashes: [result.hash] }
          : result,
      ),
    ),
  ),
  editsJson(
    'forgets rejections of a pack',
    PACK_LEASE,
    ['pack-lease.repeated-after-gc'],
    'the same lease again',
    editsResults((results) =>
      results.map((result) => (isRejected(result) ? { state: 'absent', hash: result.hash } : result)),
    ),
  ),
  otherStatus(409, 404, ['pack-lease.nothing'], '409 CONFLICT'),
  otherStatus(404, 403, ['pack-lease.unknown'], '404'),
  otherStatus(413, 400, ['pack-put.over-limit'], '413'),
  otherStatus(412, 200, ['pack-put.once'], '412'),
  otherStatus(403, 200, ['pack-put.headers'], 'exactly the headers'),
  mutation('answers 204 to a pack', ['pack-put.answer'], '200', (exchange) =>
    exchange.method === 'PUT' ? answer(exchange, { status: 204 }) : undefined,
  ),
];

const readMutations: readonly Mutation[] = [
  mutation(
    'cuts off the last byte of a read',
    ['bulk-reads.order'],
    'in the order of the request',
    (exchange) =>
      READS.test(exchange.path) && exchange.bytes.length > 8
        ? answer(exchange, { body: exchange.bytes.slice(0, -1) })
        : undefined,
  ),
  mutation('flips a bit of a read', ['bulk-reads.order'], 'in the order of the request', (exchange) => {
    const last = exchange.bytes.length - 1;
    if (!READS.test(exchange.path) || exchange.status !== 200 || last < 8) return undefined;
    exchange.bytes[last] = (exchange.bytes[last] ?? 0) ^ 1;
    return answer(exchange, {});
  }),
  mutation('calls packs JSON', ['bulk-reads.none'], 'Read many nodes', (exchange) => {
    if (!READS.test(exchange.path)) return undefined;
    exchange.headers.set('content-type', 'application/json');
    return answer(exchange, {});
  }),
  otherStatus(400, 200, ['bulk-reads.codecs'], 'another codec than zstd is 400'),
  editsJson('counts what is unpacked', /\/usage$/, ['bulk-mix.usage'], 'stored length by Bulk', (body) => {
    body.readyStoredBytes = body.readyContentBytes;
  }),
];

export const bulkMutations: readonly Mutation[] = [...leaseMutations, ...packMutations, ...readMutations];
