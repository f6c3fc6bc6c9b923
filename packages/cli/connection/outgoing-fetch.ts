/** `fetch` of the client commands: it tells a proxy that fails from the server, and trusts the authority of a store. */
import type { FetchFunction } from '@holdfast/client/push';
import { describeProxyAnswer, describeProxyFailure, PROXY_FAILED } from '@holdfast/protocol';
import { readTextFile } from '../files.ts';

/** PEM; read at the first upload to a store. */
let storeAuthorities: Promise<string | undefined> | undefined;

export const fetchOutside: FetchFunction = async (url, init) => {
  const isToStore = init.method === 'PUT' && url.startsWith('https:') && url.includes('X-Amz-Signature=');
  if (isToStore) storeAuthorities ??= readAuthorities();
  const ca = isToStore ? await storeAuthorities : undefined;
  let response: Response;
  try {
    response = await globalThis.fetch(url, { ...init, ...(ca === undefined ? {} : { tls: { ca } }) });
  } catch (error) {
    const isGivenUp = init.signal?.aborted === true;
    const failure = isGivenUp ? undefined : describeProxyFailure(url, process.env, error);
    throw failure === undefined ? error : proxyFailed(failure);
  }
  const failure = describeProxyAnswer(url, process.env, response);
  if (failure === undefined) return response;
  await response.body?.cancel();
  throw proxyFailed(failure);
};

/** The message of a failure of the proxy; undefined: it is another. */
export function findProxyFailure(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && error.code === PROXY_FAILED ? error.message : undefined;
}

function proxyFailed(message: string): Error {
  return Object.assign(new Error(message), { code: PROXY_FAILED });
}

/** These certificates replace those that the runtime trusts, so NODE_EXTRA_CA_CERTS is added again. */
async function readAuthorities(): Promise<string | undefined> {
  const { AWS_CA_BUNDLE: bundle, NODE_EXTRA_CA_CERTS: extra } = process.env;
  if (!bundle) return undefined;
  const files = { AWS_CA_BUNDLE: bundle, ...(extra ? { NODE_EXTRA_CA_CERTS: extra } : {}) };
  const texts = Object.entries(files).map(([name, file]) =>
    readTextFile(file, `the authorities of ${name} in`),
  );
  return (await Promise.all(texts)).join('\n');
}
