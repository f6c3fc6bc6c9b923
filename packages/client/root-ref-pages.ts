/** Walking all pages of one revision. */
import type { RootRefPage } from '@holdfast/protocol';
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
  let cursor: string | undefined;
  for (;;) {
    const page = await operations.listRootRefs({ limit, cursor }, { signal });
    first ??= page;
    checkSameWalk(first, page, cursor);
    yield page;
    if (page.nextCursor === null) return;
    cursor = page.nextCursor;
  }
}

/** Pages of different revisions do not add up, and a cursor that leads to itself would never end. */
function checkSameWalk(first: RootRefPage, page: RootRefPage, cursor: string | undefined): void {
  const isSame = page.revision === first.revision && page.refDomain === first.refDomain;
  if (isSame && (page.nextCursor === null || page.nextCursor !== cursor)) return;
  const reason = isSame ? 'the cursor leads to itself' : 'a page came of another revision or domain';
  throw new CasError(`listRootRefs: ${reason}; begin the walk again`, {
    code: 'MALFORMED_RESPONSE',
    requestOperation: 'listRootRefs',
  });
}
