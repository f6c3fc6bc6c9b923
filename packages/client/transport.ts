/** Sends one request as often as the retry policy allows, under time limits, and hands each answer to its reader. */
import { concatBytes, findCertificateFailure, PROXY_FAILED } from '@holdfast/protocol';
import { MalformedAnswer } from './answer-fields.ts';
import type { BodyPace } from './body-pace.ts';
import { abortable, type Clock, Deadline, sleep } from './deadline.ts';
import { CasError, type CasErrorCode, type RequestOperation } from './errors.ts';
import { CONTENT_BYTES_PER_S_MIN, JSON_ANSWER_BYTES_MAX, type Timeouts } from './limits.ts';
import { parseErrorAnswer, parseJson } from './parse-answers.ts';
import { parseRetryAfter, planRetry, type RetryPolicy } from './retry.ts';

export type FetchFunction = (url: string, init: RequestInit) => Promise<Response>;

export interface Transport {
  readonly fetch: FetchFunction;
  readonly clock: Clock;
  /** from 0 up to but not 1 */
  readonly random: () => number;
  readonly retry: RetryPolicy;
  readonly timeouts: Timeouts;
  readonly bodyPace: BodyPace;
}

/** An option of Bun's `fetch`: other runtimes pass it over. */
interface PlainAnswer {
  readonly decompress: false;
}

/** Answers are asked for unpacked: a few packed bytes can stand for gigabytes. Browsers drop the header, and unpack as they read. */
const AS_IT_IS = { 'accept-encoding': 'identity' } as const;
const MAY_ASK_AS_IT_IS = new Request('http://localhost/', { headers: AS_IT_IS }).headers.has(
  'accept-encoding',
);

/** Browsers copy a body of bytes on the page's thread: 64 MiB froze it for 3 s. A Blob goes to another process as a whole. */
const SENDS_BLOBS = !MAY_ASK_AS_IT_IS;

function toBody(body: string | Uint8Array): BodyInit {
  return SENDS_BLOBS && typeof body !== 'string' ? new Blob([body as BlobPart]) : (body as BodyInit);
}

export interface RequestPlan {
  readonly operation: RequestOperation;
  readonly method: string;
  readonly url: string;
  /** Asked anew for each attempt: a capability may have expired while waiting. */
  readonly headers: () => Promise<Record<string, string>>;
  /** Asked once, after a 401: whether there is another capability to send. The server has done nothing then, so any request may be repeated. */
  readonly renew?: () => Promise<boolean>;
  /** The very same bytes are sent on every attempt. */
  readonly body?: string | Uint8Array;
  readonly timeoutMs: number;
  readonly isSuccess: (status: number) => boolean;
  readonly signal: AbortSignal | undefined;
}

/** Runs the attempts of `plan`; `read` makes the result of an answer in time. Throws CasError, or the reason of the caller's signal. */
export async function request<T>(
  transport: Transport,
  plan: RequestPlan,
  read: (answer: Answer) => Promise<T>,
): Promise<T> {
  let { renew } = plan;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await runAttempt(transport, plan, read);
    } catch (error) {
      plan.signal?.throwIfAborted();
      if (renew !== undefined && error instanceof CasError && error.status === 401) {
        const renewing = renew();
        renew = undefined;
        if (!(await abortable(renewing, plan.signal))) throw error;
        // The renewal does not count as an attempt: the client of a job allows a single one.
        attempt -= 1;
        continue;
      }
      const delayMs = planRetry(attempt, error, transport.retry, transport.random);
      if (delayMs === undefined) throw error;
      await sleep(transport.clock, delayMs, plan.signal);
    }
  }
}

async function runAttempt<T>(
  transport: Transport,
  plan: RequestPlan,
  read: (answer: Answer) => Promise<T>,
): Promise<T> {
  plan.signal?.throwIfAborted();
  const headers = await abortable(plan.headers(), plan.signal);
  const deadline = new Deadline(transport.clock, plan.timeoutMs, plan.signal);
  let answer: Answer | undefined;
  try {
    const init: RequestInit & PlainAnswer = {
      method: plan.method,
      headers: { ...headers, ...AS_IT_IS },
      decompress: false,
      // A redirect would carry the request, or its answer, past the address the caller trusts.
      redirect: 'manual',
      credentials: 'omit',
      signal: deadline.signal,
    };
    if (plan.body !== undefined) init.body = toBody(plan.body);
    const response = await deadline.guard(transport.fetch(plan.url, init));
    answer = new Answer(response, plan, deadline, transport);
    if (MAY_ASK_AS_IT_IS) answer.refusePacked();
    if (!plan.isSuccess(response.status)) throw await answer.readFailure(transport.clock.now());
    return await read(answer);
  } catch (error) {
    deadline.cancel();
    throw toCasError(error, plan, deadline);
  } finally {
    if (answer?.isDetached !== true) deadline.end();
  }
}

function toCasError(error: unknown, plan: RequestPlan, deadline: Deadline): unknown {
  if (plan.signal?.aborted) return plan.signal.reason;
  if (error instanceof CasError) return error;
  const about = { requestOperation: plan.operation, cause: error };
  if (error instanceof MalformedAnswer) {
    const message = `${plan.operation}: ${error.message}; check that baseUrl is the address of this API`;
    return new CasError(message, { code: 'MALFORMED_RESPONSE', status: error.status, ...about });
  }
  if (deadline.isExpired()) {
    const message = `${plan.operation}: no answer in time; check the connection, or raise the time limit`;
    return new CasError(message, { code: 'TIMED_OUT', ...about });
  }
  const message = `${plan.operation}: the connection to ${originOf(plan.url)} failed: ${describe(error)}`;
  return new CasError(message, { code: 'CONNECTION_FAILED', ...about });
}

/** The origin of a URL, which is no secret, not even that of an upload's URL; the rest is. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'the address';
}

const ADVICE = 'check the address and that the server runs';

/** Explains the codes of runtimes, because their own texts differ. */
const CONNECTION_FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ECONNRESET: 'it was cut off (ECONNRESET)',
  EPIPE: 'it was cut off (EPIPE)',
  ENOTFOUND: 'there is no host of that name (ENOTFOUND)',
  EAI_AGAIN: 'its name cannot be looked up now (EAI_AGAIN)',
  EHOSTUNREACH: 'the host cannot be reached (EHOSTUNREACH)',
  ENETUNREACH: 'there is no network to it (ENETUNREACH)',
  ResponseHeadersTooLarge: 'its answer has more headers than are read',
  UND_ERR_HEADERS_OVERFLOW: 'its answer has more headers than are read',
};

function describe(error: unknown): string {
  const certificate = findCertificateFailure(error);
  if (certificate !== undefined) {
    const { code, isUntrusted } = certificate;
    const advice = isUntrusted
      ? 'name the PEM file of its authority in NODE_EXTRA_CA_CERTS'
      : 'have it renewed';
    return `its certificate is not accepted (${code}): check the address and the clock, and ${advice}`;
  }
  if (!(error instanceof Error)) return `${error}; ${ADVICE}`;
  // Node says only "fetch failed" and keeps what happened in the cause.
  const cause = error.cause instanceof Error ? error.cause : error;
  const code = 'code' in cause ? String(cause.code) : '';
  if (code === PROXY_FAILED) return cause.message;
  // A runtime adds advice to programmers, and the whole URL.
  const own = (cause.message || error.message).replace(/ fetching ".*$/s, '');
  return `${CONNECTION_FAILURES[code] ?? own}; ${ADVICE}`;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** One answer being read. Its body is read here only: bounded, under the time limit, failures made CasErrors. */
export class Answer {
  readonly status: number;
  readonly headers: Headers;
  /** True when the body outlives the attempt (`detach`). */
  isDetached = false;
  readonly #response: Response;
  readonly #plan: RequestPlan;
  readonly #deadline: Deadline;
  readonly #bodyPace: BodyPace;
  readonly #clock: Clock;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** what came, and how long it was waited for, since the pace was last looked at */
  #pace = { ms: 0, bytes: 0 };

  constructor(
    response: Response,
    plan: RequestPlan,
    deadline: Deadline,
    { bodyPace, clock }: Pick<Transport, 'bodyPace' | 'clock'>,
  ) {
    this.#bodyPace = bodyPace;
    this.#clock = clock;
    this.status = response.status;
    this.headers = response.headers;
    this.#response = response;
    this.#plan = plan;
    this.#deadline = deadline;
  }

  /** A text that is no id is left out. */
  get requestId(): string | undefined {
    const id = this.headers.get('x-request-id') ?? '';
    return REQUEST_ID.test(id) ? id : undefined;
  }

  /** An error about this answer. */
  error(code: CasErrorCode, message: string): CasError {
    const { operation } = this.#plan;
    return new CasError(`${operation}: ${message}`, {
      code,
      status: this.status,
      requestId: this.requestId,
      requestOperation: operation,
    });
  }

  /** An error about an answer of this API that something in between has broken. */
  brokenOnTheWay(reason: string): CasError {
    const { operation } = this.#plan;
    return new CasError(`${operation}: ${reason}; check any proxy in between`, {
      code: 'MALFORMED_RESPONSE',
      status: this.status,
      requestId: this.requestId,
      requestOperation: operation,
      isBrokenOnTheWay: true,
    });
  }

  /** Throws CasError if the body is packed, which nobody has asked for. */
  refusePacked(): void {
    const encoding = this.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
    if (encoding === '' || encoding === 'identity') return;
    const { operation } = this.#plan;
    const reason =
      'the answer has a Content-Encoding, although none was asked for; check that baseUrl is the address of this API';
    // Without its status: whatever that is, the next answer would be packed too.
    throw new CasError(`${operation}: ${reason}`, {
      code: 'MALFORMED_RESPONSE',
      requestOperation: operation,
    });
  }

  /** The body as JSON, checked by `parse`. Throws MalformedAnswer, CasError. */
  async readJson<T>(parse: (value: unknown) => T, bytesMax = JSON_ANSWER_BYTES_MAX): Promise<T> {
    const bytes = await this.#readAll(bytesMax);
    try {
      return parse(parseJson(bytes, bytesMax));
    } catch (error) {
      const reason = error instanceof MalformedAnswer ? error.message : 'the answer is not JSON';
      throw new MalformedAnswer(reason, this.status);
    }
  }

  /** Reads and forgets a body that says nothing, so that the connection can be used again. */
  async readNothing(): Promise<void> {
    await this.#readAll(JSON_ANSWER_BYTES_MAX);
  }

  async readFailure(now: number): Promise<CasError> {
    const retryAfterMs = parseRetryAfter(this.headers.get('retry-after'), now);
    const { operation } = this.#plan;
    let bytes: Uint8Array | undefined;
    try {
      bytes = await this.#readAll(JSON_ANSWER_BYTES_MAX);
    } catch (error) {
      if (this.#plan.signal?.aborted) throw error;
      // The status is known and says enough, even if the text never came.
    }
    const { code, message, storeCode } = parseErrorAnswer(this.status, bytes, operation);
    return new CasError(`${operation}: ${message}`, {
      code,
      storeCode,
      status: this.status,
      retryAfterMs,
      requestId: this.requestId,
      requestOperation: operation,
    });
  }

  /** Keeps the attempt alive past its function: the body is a stream now. It ends with `readChunk`'s end or `cancel`. */
  detach(): void {
    this.isDetached = true;
    this.#deadline.pause();
  }

  /** The next chunk within `idleMs` of silence; undefined at the end. After an error the body is over. */
  async readDetachedChunk(idleMs: number): Promise<Uint8Array | undefined> {
    this.#deadline.restart(idleMs);
    const askedAt = this.#clock.now();
    try {
      const chunk = await this.#readChunk();
      if (chunk === undefined) this.#deadline.end();
      else this.#checkPace(chunk.length, this.#clock.now() - askedAt, idleMs);
      return chunk;
    } catch (error) {
      this.cancel();
      throw toCasError(error, this.#plan, this.#deadline);
    } finally {
      this.#deadline.pause();
    }
  }

  /** Bounds a body that sends a byte now and then. Only time that the caller waits counts. Throws CasError TIMED_OUT. */
  #checkPace(bytes: number, waitedMs: number, idleMs: number): void {
    // A clock that was set, or a machine that slept, is no slow server.
    this.#pace.ms += Math.min(Math.max(0, waitedMs), idleMs);
    this.#pace.bytes += bytes;
    if (this.#pace.ms < idleMs) return;
    const isTooSlow = this.#pace.bytes < (CONTENT_BYTES_PER_S_MIN * this.#pace.ms) / 1_000;
    this.#pace = { ms: 0, bytes: 0 };
    if (!isTooSlow) return;
    throw this.error(
      'TIMED_OUT',
      `the content comes at less than ${CONTENT_BYTES_PER_S_MIN} bytes a second; check the connection`,
    );
  }

  /**
   * Whether the body is best read whole: it has as many bytes as its header says, and they are expected in a moment. Where it may come
   * packed, which a page of another origin is not told, the header says nothing of what is unpacked.
   */
  comesWhole(bytes: number, idleMs: number): boolean {
    const isBounded = MAY_ASK_AS_IT_IS && this.headers.get('content-length') === String(bytes);
    return isBounded && this.#reader === undefined && this.#bodyPace.comesAtOnce(bytes, idleMs);
  }

  /** All of the body within `idleMs`. Runtimes take no more bytes than its Content-Length says. */
  async readDetachedWhole(idleMs: number): Promise<Uint8Array> {
    this.#deadline.restart(idleMs);
    const endPace = this.startPace();
    try {
      const bytes = new Uint8Array(await this.#deadline.guard(this.#response.arrayBuffer()));
      endPace(bytes.length);
      this.#deadline.end();
      return bytes;
    } catch (error) {
      this.#bodyPace.noteMissed();
      this.cancel();
      throw toCasError(error, this.#plan, this.#deadline);
    } finally {
      this.#deadline.pause();
    }
  }

  /** Measures how fast a body comes, from now until what it returns is called with the bytes that came. */
  startPace(): (bytes: number) => void {
    const startedAt = this.#clock.now();
    return (bytes) => this.#bodyPace.note(bytes, this.#clock.now() - startedAt);
  }

  cancel(): void {
    this.#deadline.cancel();
    void this.#reader?.cancel().catch(() => undefined);
  }

  async #readAll(bytesMax: number): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (let chunk = await this.#readChunk(); chunk !== undefined; chunk = await this.#readChunk()) {
      length += chunk.length;
      if (length > bytesMax) {
        this.cancel();
        throw this.error(
          'RESPONSE_TOO_LARGE',
          `the answer is larger than ${bytesMax} bytes, larger than any answer of this API; check baseUrl`,
        );
      }
      chunks.push(chunk);
    }
    return concatBytes(chunks);
  }

  async #readChunk(): Promise<Uint8Array | undefined> {
    if (this.#response.body === null) return undefined;
    this.#reader ??= this.#response.body.getReader();
    const { done, value } = await this.#deadline.guard(this.#reader.read());
    return done ? undefined : value;
  }
}
