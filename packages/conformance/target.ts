/** The server under test: how to reach it, who may speak to it, and what it turned out to offer. */
import { randomBytes } from 'node:crypto';
import type { Answer } from './answer.ts';
import { redact } from './answer.ts';
import { BulkClient } from './bulk-client.ts';
import { randomHash } from './node-bytes.ts';
import { PACKED_NODE_BYTES_MAX } from './pack-bytes.ts';
import { SpaceClient } from './space-client.ts';
import type { Identity } from './tokens.ts';
import { readLease } from './wire.ts';

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ConformanceOptions {
  /** Where the Space API is, without the `/v1`. */
  readonly baseUrl: string;
  readonly identity: Identity;
  /** Another registered App with an issuer and key of its own. */
  readonly secondIdentity?: Identity;
  /** A registered App that is suspended. */
  readonly suspendedIdentity?: Identity;
  /** true when the issuer has exactly one registered key */
  readonly hasSingleKey?: boolean;
  /** In-process targets answer here instead of over the network. */
  readonly fetch?: Fetch;
  /** The target's largest canonical node, bytes. */
  readonly nodeBytesMax?: number;
  /** The target's active upload generations per Space. */
  readonly activeUploadsMax?: number;
  /** Really wait where a rule needs more than a minute. */
  readonly slow?: boolean;
  /** The target's clock, ms, when the caller owns it. */
  readonly now?: () => number;
  /** The clock by which the target judges capabilities, ms, when it is another than `now`. */
  readonly tokenNow?: () => number;
  /** Moves the target's clock forward. Checks then run one after another. */
  readonly advanceClock?: (ms: number) => void | Promise<void>;
  /** Has the target do its background work (the sweep) now; without it, checks wait for it to come. */
  readonly settle?: () => Promise<void>;
  /** Runs only checks whose id starts with, or whose clause contains, one of these. */
  readonly only?: readonly string[];
  /** How many checks run side by side; 4 unless told. */
  readonly concurrency?: number;
  /** How the checks upload nodes that they only need to be there; `single` unless told. */
  readonly uploads?: Uploads;
}

/** each by itself; each in a pack of its own; one way after the other */
export const UPLOADS = ['single', 'packs', 'mixed'] as const;
export type Uploads = (typeof UPLOADS)[number];

const NODE_BYTES_MAX_DEFAULT = 67_108_864;
const ACTIVE_UPLOADS_MAX_DEFAULT = 1024;
/** Above this a node of exactly the limit is too dear to make and send. */
const AFFORDABLE_NODE_BYTES_MAX = 67_108_864;
const AFFORDABLE_UPLOADS_MAX = 2048;
/** Waiting this long is fine without being asked. */
const SHORT_WAIT_MS_MAX = 10_000;
const LONG_WAIT_MS_MAX = 600_000;
const ANSWER_TIMEOUT_MS = 60_000;
/** The Date header has whole seconds; smaller differences say nothing. */
const CLOCK_SKEW_MS_MIN = 2_000;

/**
 * A feature that a check needs. If the target lacks it, the check is `not applicable`, never passed.
 * - `socket`: a real TCP listener, for raw bytes
 * - `embedded-upload`, `direct-upload`: who receives the PUT
 * - `store-expiry`: a store that takes the PUT judges the URL by its own clock: real time that must pass
 * - `minute`, `upload-expiry`, `day`: time that must pass (a movable clock, or `--slow` where waiting is bearable)
 * - `real-minute`: real time that must pass, whatever the target's clock says (`--slow`)
 * - `node-limit`, `upload-limit`: the limit is small enough to reach
 * - `second-app`, `suspended-app`: another registered identity was given
 * - `single-key`: the issuer is known to have exactly one registered key
 * - `own-host`: upload URLs take the Host of the lease request (no public URL configured)
 * - `bulk`: the server offers Bulk (docs/bulk.md)
 * - `packed-node-limit`: a record of a pack can hold a node that is over the node limit
 */
export type Need =
  | 'socket'
  | 'embedded-upload'
  | 'direct-upload'
  | 'minute'
  | 'real-minute'
  | 'upload-expiry'
  | 'store-expiry'
  | 'day'
  | 'node-limit'
  | 'upload-limit'
  | 'second-app'
  | 'suspended-app'
  | 'single-key'
  | 'own-host'
  | 'bulk'
  | 'packed-node-limit';

export interface Target {
  readonly options: ConformanceOptions;
  readonly baseUrl: string;
  readonly identity: Identity;
  readonly nodeBytesMax: number;
  readonly activeUploadsMax: number;
  readonly uploadKind: 'embedded' | 'direct';
  /** how long an upload instruction lives, ms */
  readonly uploadTtlMs: number;
  /** true when upload URLs point at the host the request was sent to */
  readonly hasOwnHost: boolean;
  readonly hasBulk: boolean;
  /** ms by the target's clock, as well as it is known */
  now(): number;
  /** ms by the clock that judges capabilities */
  tokenNow(): number;
  send(url: string, init: RequestInit): Promise<Answer>;
  /** Undefined when the need is met, else the reason it is not. */
  whyNot(need: Need): string | undefined;
}

/** Reads an answer to its end. `url` is absolute or a path under the base URL. */
async function sendTo(options: ConformanceOptions, url: string, init: RequestInit): Promise<Answer> {
  const absolute = url.startsWith('/') ? options.baseUrl + url : url;
  const send = options.fetch ?? ((to: string, how: RequestInit) => fetch(to, how));
  const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  const signal = init.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  const response = await send(absolute, { redirect: 'manual', ...init, signal });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const shown = url.startsWith('/') ? url : new URL(url).pathname;
  return {
    request: redact(`${init.method ?? 'GET'} ${shown}`),
    status: response.status,
    headers: response.headers,
    bytes,
  };
}

async function measureSkew(options: ConformanceOptions): Promise<number> {
  const before = Date.now();
  const health = await sendTo(options, '/health', { method: 'GET' });
  if (health.status !== 200)
    throw new Error(`GET /health answered ${health.status}: is ${options.baseUrl} the base URL?`);
  const date = Date.parse(health.headers.get('date') ?? '');
  const skew = Number.isNaN(date) ? 0 : date + 500 - (before + Date.now()) / 2;
  return Math.abs(skew) < CLOCK_SKEW_MS_MIN ? 0 : skew;
}

/** Reaches the target once and learns what it offers. Throws one line that says what is wrong. */
export async function openTarget(given: ConformanceOptions): Promise<Target> {
  const options = { ...given, baseUrl: given.baseUrl.replace(/\/+$/, '') };
  const skewMs = options.now ? 0 : await measureSkew(options);
  const now = options.now ?? (() => Date.now() + skewMs);
  const send = (url: string, init: RequestInit) => sendTo(options, url, init);

  const probe = new SpaceClient(
    { send, now: options.tokenNow ?? now },
    options.identity,
    `conformance-${randomBytes(8).toString('hex')}`,
  );
  const hash = randomHash();
  const answer = await probe.lease(hash, { leaseDurationMs: 60_000 });
  if (answer.status !== 200) {
    const code = new TextDecoder().decode(answer.bytes.subarray(0, 200));
    throw new Error(
      `the first lease answered ${answer.status} ${redact(code)}: check --app, --issuer, --audience and --key`,
    );
  }
  const lease = readLease(answer, hash);
  if (lease.state !== 'awaiting_upload')
    throw new Error(`a lease on an unknown node answered ${lease.state}, not awaiting_upload`);
  const uploadUrl = new URL(lease.upload.url);
  const uploadTtlMs = lease.upload.expiresAt - now();
  const facts = {
    options,
    baseUrl: options.baseUrl,
    identity: options.identity,
    nodeBytesMax: options.nodeBytesMax ?? NODE_BYTES_MAX_DEFAULT,
    activeUploadsMax: options.activeUploadsMax ?? ACTIVE_UPLOADS_MAX_DEFAULT,
    uploadKind: uploadUrl.searchParams.has('X-Amz-Signature') ? ('direct' as const) : ('embedded' as const),
    uploadTtlMs,
    hasOwnHost: uploadUrl.host === new URL(options.baseUrl).host,
    hasBulk: await findBulk(probe),
  };
  if (!facts.hasBulk && (options.uploads ?? 'single') !== 'single') {
    throw new Error(
      'the server has no Bulk (404), so nodes cannot be uploaded in packs: leave out --uploads',
    );
  }
  return { ...facts, now, tokenNow: options.tokenNow ?? now, send, whyNot: (need) => whyNot(facts, need) };
}

/** Only `reads` and `leases` tell whether a server has Bulk. */
async function findBulk(probe: SpaceClient): Promise<boolean> {
  const answer = await new BulkClient(probe).call('readNodes', { json: { hashes: [randomHash()] } });
  return answer.status !== 404;
}

type Facts = Omit<Target, 'now' | 'tokenNow' | 'send' | 'whyNot'>;

function whyNot(facts: Facts, need: Need): string | undefined {
  const { options } = facts;
  const reasons: Record<Need, string | undefined> = {
    socket: options.fetch ? 'the target is reached in-process, without a socket' : undefined,
    'embedded-upload':
      facts.uploadKind === 'embedded' ? undefined : 'uploads go to the store itself, not to the server',
    'direct-upload': facts.uploadKind === 'direct' ? undefined : 'the server itself receives uploads',
    minute: whyNoTime(options, 61_000),
    'real-minute': options.slow ? undefined : 'a real minute must pass: run with --slow',
    'upload-expiry': whyNoTime(options, facts.uploadTtlMs),
    'store-expiry': whyNoTime({ ...options, advanceClock: undefined }, facts.uploadTtlMs),
    day: options.advanceClock
      ? undefined
      : 'a day must pass: only a target whose clock can be moved shows it',
    'node-limit':
      facts.nodeBytesMax <= AFFORDABLE_NODE_BYTES_MAX
        ? undefined
        : `a node limit of ${facts.nodeBytesMax} bytes is too dear to reach`,
    'upload-limit':
      facts.activeUploadsMax <= AFFORDABLE_UPLOADS_MAX
        ? undefined
        : `${facts.activeUploadsMax} active uploads are too many to reach`,
    'second-app': options.secondIdentity ? undefined : 'no identity of a second App was given (--second)',
    'suspended-app': options.suspendedIdentity
      ? undefined
      : 'no identity of a suspended App was given (--suspended)',
    'single-key': options.hasSingleKey
      ? undefined
      : 'the issuer may have several keys (--single-key says it has one)',
    'own-host': facts.hasOwnHost ? undefined : 'upload URLs have a public address of their own',
    bulk: facts.hasBulk ? undefined : 'the server has no Bulk',
    'packed-node-limit':
      facts.nodeBytesMax < PACKED_NODE_BYTES_MAX
        ? undefined
        : 'no record can hold a node over the node limit',
  };
  return reasons[need];
}

function whyNoTime(
  options: Pick<ConformanceOptions, 'slow'> & { readonly advanceClock?: unknown },
  ms: number,
): string | undefined {
  if (options.advanceClock || ms <= SHORT_WAIT_MS_MAX) return undefined;
  if (ms > LONG_WAIT_MS_MAX) return `${Math.ceil(ms / 1000)} s must pass: too long to wait`;
  return options.slow ? undefined : `${Math.ceil(ms / 1000)} s must pass: run with --slow`;
}
