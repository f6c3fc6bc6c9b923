/**
 * A stand-in for S3 that does what a real one will not do on demand: it fails, hangs, lies about ranges, lets two writers
 * win. Without faults it is a well-behaved store, signatures checked by code of its own. Plain sockets, so that an answer
 * can break off anywhere.
 */
import { createHash, createHmac } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import type { TestBucket } from '../../../../../test/support/s3-request.ts';

export interface SeenRequest {
  readonly method: string;
  /** within the bucket; '' is the bucket itself */
  readonly key: string;
  readonly path: string;
  readonly query: ReadonlyMap<string, string>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface StandInAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** bytes of the body (-1: not even the head) after which the connection ends, or goes silent */
  readonly breakOff?: { readonly afterBytes: number; readonly how: 'end' | 'hang' };
  /** sent without Content-Length */
  readonly isChunked?: boolean;
  /** sent a moment after the body, which is chunked */
  readonly afterthought?: Uint8Array;
}

/** The permanent faults of the store. */
export interface Flaws {
  readonly signatures?: 'ignored';
  readonly expiry?: 'ignored';
  readonly unsignedHeaders?: 'obeyed' | 'obeyed past every guard';
  /** `racy`: the third write of a key wins too, which only a race has; `forgotten`: those after as many as race */
  readonly condition?: 'ignored' | 'racy' | 'forgotten';
  readonly takenStatus?: 409 | 412;
  readonly ifMatch?: 'ignored';
  readonly ranges?: 'ignored';
  readonly etags?: 'weak';
  readonly reads?: 'public';
  readonly deletes?: 'ignored';
}

interface StoredBytes {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly isPublic: boolean;
}

type Intruder = (seen: SeenRequest, answer: () => StandInAnswer) => StandInAnswer | Promise<StandInAnswer>;

export interface StandIn {
  readonly bucket: TestBucket;
  readonly objects: Map<string, StoredBytes>;
  readonly seen: SeenRequest[];
  /** access keys that the store takes for expired */
  readonly expired: Set<string>;
  /** access keys and their secrets */
  readonly secrets: Map<string, string>;
  /** bytes of bodies given to sockets */
  readonly sentBytes: number;
  readonly openConnections: number;
  flaws: Flaws;
  /** handles requests before the store; undefined if there is none */
  intruder: Intruder | undefined;
  close(): Promise<void>;
}

const ACCESS_KEY_ID = 'standinaccesskey';
const SECRET = 'standinsecretkey0123456789';
const AFTERTHOUGHT_MS = 50;
const RACERS = 32;
/** The write of a key that the flaw `racy` lets win. The probe writes a key that it does not race for twice at most. */
const RACY_WINNER = 3;
const SKEW_MS_MAX = 15 * 60_000;

export function etagOf(bytes: Uint8Array): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

export function errorAnswer(status: number, code: string): StandInAnswer {
  return { status, body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>x</Message></Error>` };
}

export async function startStandIn(flaws: Flaws = {}): Promise<StandIn> {
  const sockets = new Set<Socket>();
  const counts = { sentBytes: 0 };
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    serveRequests(socket, (seen) => answerOf(standIn, seen), counts);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const { port } = server.address() as { port: number };
  const standIn: StandIn = {
    bucket: {
      endpoint: `http://127.0.0.1:${port}`,
      name: 'bucket',
      region: 'us-east-1',
      accessKeyId: ACCESS_KEY_ID,
      secretAccessKey: SECRET,
    },
    objects: new Map(),
    seen: [],
    expired: new Set(),
    secrets: new Map([[ACCESS_KEY_ID, SECRET]]),
    flaws,
    intruder: undefined,
    get sentBytes() {
      return counts.sentBytes;
    },
    get openConnections() {
      return sockets.size;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return standIn;
}

async function answerOf(standIn: StandIn, seen: SeenRequest): Promise<StandInAnswer> {
  standIn.seen.push(seen);
  const answer = (): StandInAnswer => serve(standIn, seen);
  const isLate = standIn.objects.has(seen.key) && putsOf(standIn, seen.key) === RACY_WINNER;
  if (isLate && standIn.flaws.condition === 'racy' && judge(standIn, seen) === undefined) {
    return store(standIn, seen, false);
  }
  return standIn.intruder === undefined ? answer() : standIn.intruder(seen, answer);
}

function serve(standIn: StandIn, seen: SeenRequest): StandInAnswer {
  const refusal = judge(standIn, seen);
  if (refusal !== undefined) return refusal;
  if (seen.method === 'PUT') return put(standIn, seen);
  if (seen.method === 'POST') return deleteBatch(standIn, seen);
  if (seen.query.has('list-type')) return list(standIn, seen);
  return read(standIn, seen);
}

function put(standIn: StandIn, seen: SeenRequest): StandInAnswer {
  const { flaws, objects } = standIn;
  const { headers } = seen;
  if (headers['x-amz-acl'] !== undefined && headers['x-amz-grant-read'] !== undefined) {
    return errorAnswer(400, 'InvalidRequest');
  }
  const source = headers['x-amz-copy-source'];
  if (source !== undefined) {
    const isGuarded = headers['x-amz-copy-source-range'] !== undefined && flaws.unsignedHeaders === 'obeyed';
    const copied = objects.get(source.replace('/bucket/', ''));
    if (copied === undefined) return errorAnswer(404, 'NoSuchKey');
    const bytes = isGuarded ? copied.bytes.subarray(0, 1) : copied.bytes;
    return store(standIn, { ...seen, body: bytes }, isGuarded);
  }
  return store(standIn, seen, flaws.condition !== 'ignored');
}

function store(standIn: StandIn, seen: SeenRequest, isConditional: boolean): StandInAnswer {
  const { objects, flaws } = standIn;
  const { key, body, headers } = seen;
  const isForgotten = flaws.condition === 'forgotten' && putsOf(standIn, key) > RACERS;
  if (isConditional && !isForgotten && headers['if-none-match'] === '*' && objects.has(key)) {
    return errorAnswer(flaws.takenStatus ?? 412, 'PreconditionFailed');
  }
  const isPublic = headers['x-amz-acl'] === 'public-read' || headers['x-amz-grant-read'] !== undefined;
  objects.set(key, { bytes: Buffer.from(body), etag: etagOf(body), isPublic });
  return { status: 200, headers: { etag: etagOf(body) } };
}

function putsOf({ seen }: StandIn, key: string): number {
  return seen.filter((request) => request.key === key && request.method === 'PUT').length;
}

function read({ objects, flaws }: StandIn, { key, headers }: SeenRequest): StandInAnswer {
  const object = objects.get(key);
  if (object === undefined) return errorAnswer(404, 'NoSuchKey');
  const { bytes } = object;
  const etag = flaws.etags === 'weak' ? `W/${object.etag}` : object.etag;
  const condition = headers['if-match'];
  if (condition !== undefined && condition !== object.etag && flaws.ifMatch !== 'ignored') {
    return errorAnswer(412, 'PreconditionFailed');
  }
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
  if (first === undefined || flaws.ranges === 'ignored')
    return { status: 200, headers: { etag }, body: bytes };
  if (Number(first) >= bytes.length) return errorAnswer(416, 'InvalidRange');
  const end = Math.min(Number(last) + 1, bytes.length);
  return {
    status: 206,
    headers: { etag, 'content-range': `bytes ${first}-${end - 1}/${bytes.length}` },
    body: bytes.subarray(Number(first), end),
  };
}

function deleteBatch({ objects, flaws }: StandIn, { body }: SeenRequest): StandInAnswer {
  const keys = [...body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1] as string);
  if (flaws.deletes !== 'ignored') for (const key of keys) objects.delete(key);
  const deleted = keys.map((key) => `<Deleted><Key>${key}</Key></Deleted>`).join('');
  return { status: 200, body: `<DeleteResult>${deleted}</DeleteResult>` };
}

function list({ objects }: StandIn, { query }: SeenRequest): StandInAnswer {
  const keys = [...objects.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '')).sort();
  const contents = keys.map((key) => `<Contents><Key>${encodeURIComponent(key)}</Key></Contents>`).join('');
  return {
    status: 200,
    body: `<ListBucketResult><IsTruncated>false</IsTruncated>${contents}</ListBucketResult>`,
  };
}

/** Why the request is refused; `undefined`: it is not. */
function judge(standIn: StandIn, seen: SeenRequest): StandInAnswer | undefined {
  const { flaws, objects } = standIn;
  if (flaws.signatures === 'ignored') return undefined;
  const { headers, query, method, key } = seen;
  const isPresigned = query.has('X-Amz-Signature');
  if (!isPresigned && headers.authorization === undefined) {
    const isPublic = flaws.reads === 'public' || objects.get(key)?.isPublic === true;
    return isPublic && method === 'GET' ? undefined : errorAnswer(403, 'AccessDenied');
  }
  const signed = isPresigned ? readPresigned(query) : readAuthorization(headers);
  const secret = standIn.secrets.get(signed.accessKeyId);
  if (secret === undefined) return errorAnswer(403, 'InvalidAccessKeyId');
  if (standIn.expired.has(signed.accessKeyId)) return errorAnswer(400, 'ExpiredToken');
  const unsigned = Object.keys(headers).filter(
    (name) => name.startsWith('x-amz-') && !signed.names.includes(name),
  );
  if (unsigned.length > 0 && flaws.unsignedHeaders === undefined) return errorAnswer(403, 'AccessDenied');
  const date = isPresigned ? (query.get('X-Amz-Date') ?? '') : (headers['x-amz-date'] ?? '');
  if (signatureOf(seen, signed, date, secret) !== signed.signature)
    return errorAnswer(403, 'SignatureDoesNotMatch');
  const ageMs = Date.now() - instantOf(date);
  if (!isPresigned && Math.abs(ageMs) > SKEW_MS_MAX) return errorAnswer(403, 'RequestTimeTooSkewed');
  const isExpired = isPresigned && ageMs > Number(query.get('X-Amz-Expires')) * 1000;
  return isExpired && flaws.expiry !== 'ignored' ? errorAnswer(403, 'AccessDenied') : undefined;
}

interface Signed {
  readonly accessKeyId: string;
  readonly scope: string;
  readonly names: readonly string[];
  readonly signature: string;
}

function readPresigned(query: ReadonlyMap<string, string>): Signed {
  return readSigned(
    query.get('X-Amz-Credential') ?? '',
    query.get('X-Amz-SignedHeaders') ?? '',
    query.get('X-Amz-Signature') ?? '',
  );
}

function readAuthorization(headers: Readonly<Record<string, string>>): Signed {
  const pattern = /^AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=(\S+)$/;
  const [, credential = '', names = '', signature = ''] = pattern.exec(headers.authorization ?? '') ?? [];
  return readSigned(credential, names, signature);
}

function readSigned(credential: string, names: string, signature: string): Signed {
  const slash = credential.indexOf('/');
  return {
    accessKeyId: credential.slice(0, slash),
    scope: credential.slice(slash + 1),
    names: names.split(';'),
    signature,
  };
}

function signatureOf(seen: SeenRequest, { scope, names }: Signed, date: string, secret: string): string {
  const query = [...seen.query]
    .filter(([name]) => name !== 'X-Amz-Signature')
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .sort()
    .join('&');
  const canonical = [
    ...[seen.method, seen.path, query],
    ...names.map((name) => `${name}:${seen.headers[name] ?? ''}`),
    ...['', names.join(';'), seen.headers['x-amz-content-sha256'] ?? 'UNSIGNED-PAYLOAD'],
  ].join('\n');
  const hmac = (key: Buffer | string, text: string): Buffer =>
    createHmac('sha256', key).update(text).digest();
  const key = scope.split('/').reduce<Buffer | string>(hmac, `AWS4${secret}`);
  const digest = createHash('sha256').update(canonical).digest('hex');
  return hmac(key, ['AWS4-HMAC-SHA256', date, scope, digest].join('\n')).toString('hex');
}

function instantOf(date: string): number {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date)?.slice(1).map(Number) ?? [];
  const [year = 0, month = 1, ...rest] = parts;
  return Date.UTC(year, month - 1, ...rest);
}

/** One request after another on a connection that is kept. */
function serveRequests(
  socket: Socket,
  answer: (seen: SeenRequest) => Promise<StandInAnswer>,
  counts: { sentBytes: number },
): void {
  let received = Buffer.alloc(0);
  let isBusy = false;
  const advance = async (): Promise<void> => {
    while (!isBusy) {
      const parsed = parseRequest(received);
      if (parsed === undefined) return;
      received = received.subarray(parsed.length);
      isBusy = true;
      await send(socket, parsed.seen, await answer(parsed.seen), counts);
      isBusy = false;
    }
  };
  socket.on('data', (data) => {
    received = Buffer.concat([received, Buffer.from(data)]);
    void advance();
  });
}

function parseRequest(received: Buffer): { readonly seen: SeenRequest; readonly length: number } | undefined {
  const headEnd = received.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [requestLine = '', ...lines] = received.subarray(0, headEnd).toString('latin1').split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const length = headEnd + 4 + Number(headers['content-length'] ?? 0);
  if (received.length < length) return undefined;
  const [method = '', target = ''] = requestLine.split(' ');
  const url = new URL(target, 'http://stand-in');
  const query = new Map(url.searchParams);
  const key = url.pathname.replace(/^\/bucket\/?/, '');
  const body = Buffer.from(received.subarray(headEnd + 4, length));
  return { seen: { method, key, path: url.pathname, query, headers, body }, length };
}

async function send(
  socket: Socket,
  { method }: SeenRequest,
  answer: StandInAnswer,
  counts: { sentBytes: number },
): Promise<void> {
  const body = bytesOf(answer.body);
  const framing = answer.isChunked === true ? 'transfer-encoding: chunked' : `content-length: ${body.length}`;
  const headers = Object.entries(answer.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
  const date = `date: ${new Date().toUTCString()}\r\n`;
  if (answer.breakOff?.afterBytes === -1) {
    if (answer.breakOff.how === 'end') socket.end();
    return untilClosed(socket);
  }
  socket.write(`HTTP/1.1 ${answer.status} X\r\n${headers.join('')}${date}${framing}\r\n\r\n`);
  if (method === 'HEAD') return;
  const sent = body.subarray(0, answer.breakOff?.afterBytes ?? body.length);
  if (answer.isChunked === true) socket.write(`${sent.length.toString(16)}\r\n`);
  const PIECE = 65_536;
  for (let start = 0; start < sent.length && !socket.destroyed; start += PIECE) {
    const piece = sent.subarray(start, start + PIECE);
    counts.sentBytes += piece.length;
    if (!socket.write(piece)) await new Promise<void>((resolve) => onceWritable(socket, resolve));
  }
  if (answer.afterthought !== undefined) {
    await Bun.sleep(AFTERTHOUGHT_MS);
    socket.write(`\r\n${answer.afterthought.length.toString(16)}\r\n`);
    socket.write(answer.afterthought);
  }
  if (answer.breakOff?.how === 'end') socket.end();
  if (answer.breakOff !== undefined)
    await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  else if (answer.isChunked === true) socket.write('\r\n0\r\n\r\n');
}

function bytesOf(body: Uint8Array | string = ''): Uint8Array {
  return typeof body === 'string' ? new TextEncoder().encode(body) : body;
}

function untilClosed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

function onceWritable(socket: Socket, resolve: () => void): void {
  const settle = (): void => {
    socket.off('drain', settle);
    socket.off('close', settle);
    resolve();
  };
  socket.on('drain', settle);
  socket.on('close', settle);
}
