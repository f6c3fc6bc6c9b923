/** Fetches a key set from its URL: only from a permitted address, without decompression, with limits on bytes and time. */
import { JWKS_ADDRESSES_MAX, JWKS_BYTES_MAX, JWKS_FETCH_MS_MAX } from './auth-limits.ts';
import type { AuthWorld } from './auth-world.ts';
import { findAddress, isLinkLocal } from './link-local.ts';

/** GETs the document within its limits. Rejects on any status but 200: a redirect could lead to a host that the operator never named. */
export async function fetchKeySetBytes(url: string, world: AuthWorld): Promise<Uint8Array> {
  const controller = new AbortController();
  const timedOut = Promise.withResolvers<never>();
  const cancel = world.schedule(() => {
    const error = new Error(`no complete key set within ${JWKS_FETCH_MS_MAX} ms`);
    timedOut.reject(error);
    controller.abort(error);
  }, JWKS_FETCH_MS_MAX);
  try {
    return await Promise.race([fetchBytes(new URL(url), world, controller.signal), timedOut.promise]);
  } finally {
    cancel();
    // Cancels a body that is too long or not complete yet.
    controller.abort();
  }
}

async function fetchBytes(url: URL, world: AuthWorld, signal: AbortSignal): Promise<Uint8Array> {
  const addresses = await readAddresses(url, world);
  signal.throwIfAborted();
  return await readBody(await fetchFromAny(url, addresses, world, signal));
}

/** Every address of the host. Rejects if one of them is refused. */
async function readAddresses(url: URL, world: AuthWorld): Promise<readonly string[]> {
  const own = findAddress(url);
  const addresses = own === undefined ? await world.resolve(url.hostname) : [own];
  if (addresses.length === 0) throw new Error('the host of the key set has no address');
  const refused = addresses.find(isLinkLocal);
  if (refused !== undefined) {
    throw new Error(
      `the host of the key set is at ${refused}, a link-local or metadata address: none is asked for keys`,
    );
  }
  return addresses;
}

/** Connects to the checked addresses. A second lookup of the name could return an address that was not checked. */
async function fetchFromAny(
  url: URL,
  addresses: readonly string[],
  world: AuthWorld,
  signal: AbortSignal,
): Promise<Response> {
  let failure: unknown;
  for (const address of addresses.slice(0, JWKS_ADDRESSES_MAX)) {
    try {
      return await world.fetch(atAddress(url, address), requestInit(url, signal));
    } catch (error) {
      failure = error;
      signal.throwIfAborted();
    }
  }
  throw failure;
}

function atAddress(url: URL, address: string): string {
  const at = new URL(url);
  at.hostname = address.includes(':') ? `[${address}]` : address;
  return at.href;
}

function requestInit(url: URL, signal: AbortSignal): BunFetchRequestInit {
  return {
    redirect: 'manual',
    signal,
    headers: {
      host: url.host,
      accept: 'application/jwk-set+json, application/json',
      'accept-encoding': 'identity',
    },
    cache: 'no-store',
    credentials: 'omit',
    // A few compressed bytes can expand to any number of bytes.
    decompress: false,
    // The certificate must match the name, not the address.
    ...(findAddress(url) === undefined && url.protocol === 'https:'
      ? { tls: { serverName: url.hostname } }
      : {}),
  };
}

async function readBody(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) throw new Error(`the key set was answered with status ${response.status}`);
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    throw new Error('the key set was answered with a Content-Encoding: serve it as it is');
  }
  if (response.body === null) throw new Error('the key set was answered without a body');
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body) {
    length += chunk.length;
    if (length > JWKS_BYTES_MAX) throw new Error(`the key set is longer than ${JWKS_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
