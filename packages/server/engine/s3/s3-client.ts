/**
 * Sends requests to the bucket: signed, bounded in number and time, repeated after a pause if an attempt fails and the budget
 * allows it. Every request is idempotent (reads, deletes of keys that are never used again, conditional writes of our own), so
 * a repetition is always safe.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  describeProxyAnswer,
  describeProxyFailure,
  findCertificateFailure,
  SECOND_MS,
} from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { ENGINE_UP, S3_DURATION } from '../../metrics/server-metrics.ts';
import { FairPlaces } from '../../shares/fair-places.ts';
import type { S3Address } from '../address.ts';
import { type BucketUrl, serverUrlOf } from './address.ts';
import { AnswerBody } from './answer-body.ts';
import type { CredentialSource, Credentials } from './credentials.ts';
import {
  AttemptFailed,
  CertificateRefused,
  CredentialsMissing,
  causeOf,
  PASSING_STATUSES,
  RequestRefused,
} from './failure.ts';
import type { S3Limits } from './limits.ts';
import { type RequestBody, type SignedRequest, signRequest } from './request-signer.ts';
import { parseErrorCode } from './xml-answers.ts';

/** Each repetition takes a token, each success gives back a tenth: in an outage the load grows by a tenth, not by a multiple. */
const TOKENS_MAX = 100;

/** Each repetition takes a token, each success gives back a tenth: in an outage the load grows by a tenth, not by a multiple. */
class RetryBudget {
  #tokens = TOKENS_MAX;

  noteSuccess(): void {
    this.#tokens = Math.min(TOKENS_MAX, this.#tokens + 0.1);
  }

  /** Whether a repetition may be sent. */
  take(): boolean {
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** Random ms before the `repetition`-th repetition (from 1), so that requests that failed together do not repeat together. */
function pauseOf(
  repetition: number,
  limits: { readonly retryPauseMs: number; readonly retryPauseMsMax: number },
  random: () => number,
): number {
  return random() * Math.min(limits.retryPauseMsMax, limits.retryPauseMs * 2 ** (repetition - 1));
}

export interface S3Call {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST';
  /** undefined: the bucket itself */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  /** the purpose of the request, for error messages: "reading content" */
  readonly doing: string;
  readonly headMsMax?: number;
  /** whose share of the requests it uses; undefined: the server's own */
  readonly space?: Space | undefined;
}

export interface S3Answer {
  readonly status: number;
  readonly headers: Headers;
  /** the store's error code, if it gave one */
  readonly code: string | undefined;
  /** of a success */
  readonly body: AnswerBody;
}

/** Error statuses that are about the object; the caller judges them. */
const TELLING_STATUSES: ReadonlySet<number> = new Set([404, 409, 412, 416]);
const PASSING_CODES: ReadonlySet<string> = new Set(['RequestTimeout', 'SlowDown', 'InternalError']);
/** Codes after which new credentials are looked for, once: the old ones may have been replaced. */
const CREDENTIAL_CODES: ReadonlySet<string> = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'TokenRefreshRequired',
  'InvalidToken',
  'InvalidAccessKeyId',
]);
/** Compression would change the meaning of lengths and ranges. */
const UNSIGNED_HEADERS = { 'accept-encoding': 'identity' };

/** Requests that are no Space's, such as those of the sweep. */
const OWN_REQUESTS: Space = { appId: '', spaceId: '' };

interface S3ClientOptions {
  readonly address: S3Address;
  readonly credentials: CredentialSource;
  readonly limits: S3Limits;
  /** ms since the epoch, for signatures */
  readonly now: () => number;
  /** PEM of the authorities that the store's certificate may have; undefined: those of the system */
  readonly authorities?: string | undefined;
}

export class S3Client {
  readonly #options: S3ClientOptions;
  readonly #bucket: BucketUrl;
  readonly #slots: FairPlaces;
  readonly #budget = new RetryBudget();
  readonly #underWay = new Set<AbortController>();
  /** ms our clock is behind the store's; measured when the store refuses a signature because of the time */
  #skewMs = 0;
  #isClosed = false;
  /** how far the store's clock was ahead of ours at its last answer */
  #ahead: { readonly ms: number; readonly seenAt: number } | undefined;

  constructor(options: S3ClientOptions) {
    this.#options = options;
    this.#bucket = serverUrlOf(options.address);
    const { requestsInFlightMax, requestsWaitingMax, waitMsMax } = options.limits;
    this.#slots = new FairPlaces({
      resource: 's3 requests',
      placesMax: requestsInFlightMax,
      waitingMax: requestsWaitingMax,
      waitMsMax,
      inVain: () =>
        new StoreUnavailable(
          'the object store had no free connection in time; repeat the request a little later',
        ),
    });
  }

  /** ms by which the store's clock is ahead of ours, to the second, as of an answer of the last `ageMsMax` */
  findClockSkew(ageMsMax: number): number | undefined {
    const ahead = this.#ahead;
    return ahead !== undefined && performance.now() - ahead.seenAt <= ageMsMax ? ahead.ms : undefined;
  }

  /** ms, whole seconds, by which the store was ahead of our clock at its last answer; 0: by no more than an answer can tell */
  get storeAheadMs(): number {
    const ms = this.#ahead?.ms ?? this.#skewMs;
    // An answer says whole seconds, and was on its way.
    return Math.abs(ms) <= 10 * SECOND_MS ? 0 : Math.floor(ms / SECOND_MS) * SECOND_MS;
  }

  /** ms since the epoch by the store's clock, as far as it is known */
  now(): number {
    return this.#options.now() + this.#skewMs;
  }

  /**
   * Sends `call` until `take` has made something of an answer: a success, or an error that says something about the object.
   * `take` may reject with AttemptFailed to have it sent again. The body lives as long as `take`.
   * Rejects with StoreUnavailable, or with what else `take` throws.
   */
  async send<T>(call: S3Call, take: (answer: S3Answer) => Promise<T>): Promise<T> {
    const { limits } = this.#options;
    const startedAt = performance.now();
    for (let attempt = 1; ; attempt += 1) {
      try {
        const taken = await this.#attempt(call, take);
        this.#budget.noteSuccess();
        return taken;
      } catch (error) {
        if (!(error instanceof AttemptFailed)) throw error;
        const pauseMs = pauseOf(attempt, limits, Math.random);
        const isLate = performance.now() - startedAt + pauseMs > limits.operationMsMax;
        if (this.#isClosed || attempt === limits.attemptsMax || isLate || !this.#budget.take()) {
          throw unavailable(call.doing, attempt, error);
        }
        await sleep(pauseMs);
      }
    }
  }

  /** Sends one request once, as it is, and accepts any answer. Rejects with AttemptFailed or StoreUnavailable. */
  async exchange<T>(
    request: SignedRequest,
    headMsMax: number,
    take: (answer: { response: Response; body: AnswerBody }) => Promise<T>,
    { appId, spaceId }: Space = OWN_REQUESTS,
  ): Promise<T> {
    if (this.#isClosed) throw new StoreUnavailable('the server is closing; repeat the request');
    await this.#slots.take(appId, spaceId);
    const controller = new AbortController();
    this.#underWay.add(controller);
    const onEnd = (): void => {
      // A body may tell of its end more than once.
      if (this.#underWay.delete(controller)) this.#slots.leave(appId, spaceId);
    };
    let response: Response;
    const startedAt = performance.now();
    try {
      response = await fetchHead(request, controller, headMsMax, this.#options.authorities);
      ENGINE_UP.set({ engine: 's3' }, 1);
      const storeNow = Date.parse(response.headers.get('date') ?? '');
      if (Number.isFinite(storeNow))
        this.#ahead = { ms: storeNow - this.#options.now(), seenAt: performance.now() };
    } catch (error) {
      if (!this.#isClosed) ENGINE_UP.set({ engine: 's3' }, 0);
      onEnd();
      throw error;
    } finally {
      S3_DURATION.observe({ method: request.method }, (performance.now() - startedAt) / 1000);
    }
    const { stallMsMax } = this.#options.limits;
    const hasBody = request.method !== 'HEAD';
    const body = new AnswerBody({ response, hasBody, controller, stallMsMax, onEnd });
    try {
      return await take({ response, body });
    } finally {
      body.cancel();
    }
  }

  /** Ends all requests under way. */
  close(): void {
    this.#isClosed = true;
    for (const controller of this.#underWay) controller.abort(new AttemptFailed('the server is closing'));
  }

  async #attempt<T>(call: S3Call, take: (answer: S3Answer) => Promise<T>): Promise<T> {
    const { limits } = this.#options;
    const credentials = await this.#credentials();
    const request = this.#sign(call, credentials);
    return this.exchange(
      request,
      call.headMsMax ?? limits.headMsMax,
      async ({ response, body }) => {
        const { status, headers } = response;
        if (status >= 200 && status < 300) return take({ status, headers, code: undefined, body });
        const code = parseErrorCode(await body.readText(64 * 1024));
        if (TELLING_STATUSES.has(status) && code !== 'NoSuchBucket')
          return take({ status, headers, code, body });
        throw await this.#judgeRefusal(call, credentials, response, code);
      },
      call.space,
    );
  }

  async #credentials(): Promise<Credentials> {
    try {
      return await this.#options.credentials.get();
    } catch (error) {
      throw new CredentialsMissing(error);
    }
  }

  #sign({ method, key, query, headers = {}, body }: S3Call, credentials: Credentials): SignedRequest {
    const { region } = this.#options.address;
    const request = { method, bucket: this.#bucket, key, query, headers, body, region, at: this.now() };
    return signRequest(request, UNSIGNED_HEADERS, credentials);
  }

  async #judgeRefusal(
    call: S3Call,
    credentials: Credentials,
    response: Response,
    code: string | undefined,
  ): Promise<Error> {
    const { status, headers } = response;
    const said = `the object store answered ${status}${code === undefined ? '' : ` ${code}`}`;
    if (PASSING_STATUSES.has(status) || PASSING_CODES.has(code ?? '')) return new AttemptFailed(said);
    const refused = new RequestRefused(call.doing, status, code);
    if (CREDENTIAL_CODES.has(code ?? '')) {
      const isReplaced = await this.#options.credentials.replace(credentials).catch(() => false);
      return isReplaced ? new AttemptFailed(said, { cause: refused }) : refused;
    }
    if (code === 'RequestTimeTooSkewed') {
      const storeNow = Date.parse(headers.get('date') ?? '');
      if (!Number.isFinite(storeNow)) return refused;
      this.#skewMs = storeNow - this.#options.now();
      return new AttemptFailed(said, { cause: refused });
    }
    return refused;
  }
}

async function fetchHead(
  request: SignedRequest,
  controller: AbortController,
  headMsMax: number,
  authorities: string | undefined,
): Promise<Response> {
  const { method, url, headers, body } = request;
  const timer = setTimeout(() => {
    const late = `the object store did not answer within ${headMsMax / 1000} s: check its load and the network`;
    controller.abort(new AttemptFailed(late));
  }, headMsMax);
  let response: Response;
  try {
    response = await fetch(url, {
      ...{ method, headers, signal: controller.signal, redirect: 'manual', decompress: false },
      ...(body === undefined ? {} : { body }),
      ...(authorities !== undefined && url.startsWith('https:') ? { tls: { ca: authorities } } : {}),
    });
  } catch (error) {
    throw error instanceof AttemptFailed ? error : explainBreak(url, error);
  } finally {
    clearTimeout(timer);
  }
  const ofProxy = describeProxyAnswer(url, process.env, response);
  if (ofProxy === undefined) return response;
  controller.abort();
  throw new AttemptFailed(`the object store was not asked: ${ofProxy}`);
}

/** Why no answer came. */
function explainBreak(url: string, error: unknown): Error {
  const { host } = new URL(url);
  const certificate = findCertificateFailure(error);
  if (certificate !== undefined) return new CertificateRefused(host, certificate, causeOf(error));
  const cause = { cause: causeOf(error) };
  const ofProxy = describeProxyFailure(url, process.env, error);
  if (ofProxy !== undefined) return new AttemptFailed(`the object store was not asked: ${ofProxy}`, cause);
  const message = `the object store at ${host} cannot be reached: check that it runs, and its address`;
  return new AttemptFailed(message, cause);
}

function unavailable(doing: string, attempts: number, last: AttemptFailed): StoreUnavailable {
  if (last.cause instanceof RequestRefused) return last.cause;
  return new StoreUnavailable(
    `${doing} failed ${attempts === 1 ? 'once' : `${attempts} times`}: ${last.message}`,
    { cause: last },
  );
}
