/** Where a client may be sent with a node's bytes: a server's instruction never takes them further than the server itself could. */
import type { UploadInstruction } from '@holdfast/protocol';
import { CasError } from './errors.ts';

/** What a PUT to a store needs. Any other header could make a host that the server names do something else for this caller. */
const HEADERS_FOR_OTHER_HOSTS = /^(?:content-type|if-none-match|x-amz-[a-z0-9-]+)$/i;

/**
 * Throws CasError `UPLOAD_REFUSED` if the instruction would send bytes in the clear although the server at `baseUrl` was reached
 * by https, or would send a foreign host more than the headers of an upload. Nothing was sent then.
 */
export function assertInstructionIsSafe({ url, headers }: UploadInstruction, baseUrl: string): void {
  const from = new URL(baseUrl);
  const to = new URL(url);
  if (from.protocol === 'https:' && to.protocol !== 'https:') {
    throw refusal(
      `the server was reached by https and tells to upload by http to ${to.host}, in the clear; nothing was sent. The operator sets --public-url, or --trusted-proxy for the proxy that ends TLS`,
    );
  }
  const foreign = Object.keys(headers).find((name) => !HEADERS_FOR_OTHER_HOSTS.test(name));
  if (to.host !== from.host && foreign !== undefined) {
    throw refusal(
      `the server tells to upload to another host, ${to.host}, with the header ${foreign}, which no upload needs; nothing was sent. Check that baseUrl is the address of this API`,
    );
  }
}

function refusal(reason: string): CasError {
  return new CasError(`leaseNode: ${reason}`, { code: 'UPLOAD_REFUSED', requestOperation: 'leaseNode' });
}
