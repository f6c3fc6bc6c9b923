/** Walking all pages of one revision. */
import type { Hash, RootRefPage } from '@holdfast/protocol';
import { checkOptions } from './arguments.ts';
import { CasError } from './errors.ts';
import type { CallOptions, Operations } from './operations.ts';

export interface RootRefsOptions extends CallOptions {
  /** items per page, 1 to 200 */
  readonly limit?: number | undefined;
}

/**
 * All pages of the balances as of one revision, whatever commits come between. A walk that takes longer than the server
 * keeps history (at least 24 h) ends with CasError `CONFLICT` (409): pages already yielded stay true of their revision,
 * and whether to begin again is the caller's decision.
 */
export async function* rootRefPages(
  operations: Operations,
  options: RootRefsOptions = {},
): AsyncGenerator<RootRefPage, void, undefined> {
  checkOptions({ name: 'rootRefs', requestOperation: 'listRootRefs' }, options);
  const { limit, signal } = options;
  let first: RootRefPage | undefined;
  let last: Hash | undefined;
  let cursor: string | undefined;
  for (;;) {
    const page = await operations.listRootRefs({ limit, cursor }, { signal });
    first ??= page;
    last = checkProgress(first, page, last);
    yield page;
    if (page.nextCursor === null) return;
    cursor = page.nextCursor;
  }
}

/** The last hash so far. Refuses pages of other revisions and a walk without progress. Throws CasError MALFORMED_RESPONSE. */
function checkProgress(first: RootRefPage, page: RootRefPage, last: Hash | undefined): Hash | undefined {
  if (page.revision !== first.revision || page.refDomain !== first.refDomain) {
    throw broken('a page came of another revision or domain');
  }
  const next = page.items[0]?.hash;
  if (next === undefined && page.nextCursor !== null) throw broken('an empty page leads to another');
  if (next !== undefined && last !== undefined && next <= last) {
    throw broken('a page does not go on after the one before it');
  }
  return page.items.at(-1)?.hash ?? last;
}

function broken(reason: string): CasError {
  return new CasError(
    `listRootRefs: ${reason}; begin the walk again, and check that baseUrl is the address of this API`,
    {
      code: 'MALFORMED_RESPONSE',
      requestOperation: 'listRootRefs',
    },
  );
}
