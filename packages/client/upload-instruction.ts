/** Following a server's instruction to upload: exactly as told, and never further than the server itself could take the bytes. */
import type { UploadInstruction } from '@holdfast/protocol';
import { type Fields, MalformedAnswer } from './answer-fields.ts';
import { type CheckedCall, checkBytes, checkObject, checkOptions, invalidArgument } from './arguments.ts';
import { CasError, type RequestOperation } from './errors.ts';
import { parseInstruction } from './parse-answers.ts';
import { request, type Transport } from './transport.ts';

/** Throws CasError INVALID_ARGUMENT. */
export function checkUpload(call: CheckedCall, upload: unknown, bytes: unknown, options: unknown): void {
  checkObject(call, 'the upload instruction', upload);
  try {
    parseInstruction(upload as Fields);
  } catch (cause) {
    if (!(cause instanceof MalformedAnswer)) throw cause;
    throw invalidArgument(call, 'the upload instruction is not what a lease answered', cause);
  }
  if (hasUser(new URL((upload as UploadInstruction).url))) {
    throw invalidArgument(call, 'the upload URL names a user or a password, which would go to its host');
  }
  checkBytes(call, 'the bytes', bytes);
  checkOptions(call, options);
}

/** Headers of the transport itself. If a server chose them, they could make one request look like two, or never end. */
const HEADERS_OF_TRANSPORT: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

function hasUser({ username, password }: URL): boolean {
  return username !== '' || password !== '';
}

/** Headers that a PUT to a store needs. Any other could make a host that the server names do something else for this caller. */
const HEADERS_FOR_OTHER_HOSTS = /^(?:content-type|if-none-match|x-amz-[a-z0-9-]+)$/i;

/**
 * Throws CasError `UPLOAD_REFUSED` if the instruction would send bytes in the clear although the server at `baseUrl` was reached
 * by https, names a user, or would send a foreign host more than the headers of an upload. Nothing was sent then.
 */
export function assertInstructionIsSafe(
  operation: RequestOperation,
  { url, headers }: UploadInstruction,
  baseUrl: string,
): void {
  const from = new URL(baseUrl);
  const to = new URL(url);
  // Some runtimes would send them as Basic credentials to whatever host the URL names.
  if (hasUser(to)) {
    throw refusal(
      operation,
      `the upload URL to ${to.host} names a user or a password, which would go to that host; nothing was sent. Check that baseUrl is the address of this API`,
    );
  }
  if (from.protocol === 'https:' && to.protocol !== 'https:') {
    throw refusal(
      operation,
      `the server was reached by https, but its upload URL leads by http to ${to.host}, in the clear; nothing was sent. Ask its operator to set --public-url, or --trusted-proxy for the proxy that ends TLS`,
    );
  }
  const ofTransport = Object.keys(headers).find((name) => HEADERS_OF_TRANSPORT.has(name.toLowerCase()));
  if (ofTransport !== undefined) {
    throw refusal(
      operation,
      `the upload instruction sets the header ${ofTransport}, which no upload may; nothing was sent. Check that baseUrl is the address of this API`,
    );
  }
  const foreign = Object.keys(headers).find((name) => !HEADERS_FOR_OTHER_HOSTS.test(name));
  if (to.host !== from.host && foreign !== undefined) {
    throw refusal(
      operation,
      `the upload URL names another host, ${to.host}, with the header ${foreign}, which no upload needs; nothing was sent. Check that baseUrl is the address of this API`,
    );
  }
}

function refusal(operation: RequestOperation, reason: string): CasError {
  return new CasError(`${operation}: ${reason}`, { code: 'UPLOAD_REFUSED', requestOperation: operation });
}

/** Statuses of the upload target after which another lease gives a new instruction or the outcome. */
const SUPERSEDED_STATUSES: ReadonlySet<number> = new Set([
  403, // the instruction expired
  409, // a store's word for overlapping PUTs to one key
  412, // the generation is finished: someone was first, or our own PUT succeeded and its answer was lost
]);

/** Codes of a store's 400 when the credentials that signed the URL have expired before it. */
const SIGNER_EXPIRED = 'ExpiredToken';

function isSuperseded({ status, storeCode }: CasError): boolean {
  if (status === undefined) return false;
  return SUPERSEDED_STATUSES.has(status) || (status === 400 && storeCode === SIGNER_EXPIRED);
}

/** Why the target refused the PUT of an instruction that is over. Another lease tells more, unless the refusal is final. */
const refusals = new WeakMap<UploadInstruction, CasError>();

/** The failure of a node that was asked for again after each upload. `last`: the refusal of its target tells what is wrong. */
export function unsettledUpload(tried: string, last: UploadInstruction | undefined): CasError {
  const refusal = last && refusals.get(last);
  const why = refusal === undefined ? '' : `: ${refusal.reason}`;
  return new CasError(`${tried} settled nothing${why}; try again later`, {
    code: 'UPLOAD_UNSETTLED',
    requestOperation: 'uploadNode',
    status: refusal?.status,
    storeCode: refusal?.storeCode,
    cause: refusal,
  });
}

/** The PUT as told, without the capability. Safe to repeat: a broken one leaves nothing, a finished one answers 412. Throws CasError. */
export async function uploadAsTold(
  transport: Transport,
  operation: 'uploadNode' | 'uploadPack',
  instruction: UploadInstruction,
  bytes: Uint8Array,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<'accepted' | 'superseded'> {
  const plan = {
    operation,
    method: instruction.method,
    url: instruction.url,
    headers: async () => ({ ...instruction.headers }),
    body: bytes,
    timeoutMs: transport.timeouts.uploadMs,
    isSuccess: (status: number) => status >= 200 && status <= 299,
    signal,
  };
  try {
    await request(transport, plan, (answer) => answer.readNothing());
    return 'accepted';
  } catch (error) {
    if (!(error instanceof CasError) || signal?.aborted || !isSuperseded(error)) throw error;
    refusals.set(instruction, error);
    return 'superseded';
  }
}
