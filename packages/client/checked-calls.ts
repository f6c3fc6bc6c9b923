/** The arguments of the seven operations, checked. All throw CasError INVALID_ARGUMENT. */
import {
  hasAtMostCodePoints,
  isHash,
  REQUEST_ID_CHARACTERS_MAX,
  ROOT_REF_CHANGES_MAX,
  ROOT_REF_DELTA_MAX,
  ROOT_REFS_PAGE_MAX,
} from '@holdfast/protocol';
import {
  type CheckedCall,
  checkInteger,
  checkLeaseDuration,
  checkObject,
  describeValue,
  invalidArgument,
} from './arguments.ts';

export function checkLease(call: CheckedCall, lease: unknown): void {
  checkObject(call, 'the lease', lease);
  checkLeaseDuration(call, (lease as { readonly leaseDurationMs?: unknown }).leaseDurationMs);
}

export function checkPass(call: CheckedCall, pass: unknown): void {
  if (pass === undefined) return;
  checkObject(call, 'the pass', pass);
  const { maxNodes } = pass as { readonly maxNodes?: unknown };
  if (maxNodes !== undefined) checkInteger(call, 'maxNodes', maxNodes, { min: 1 });
}

export function checkPage(call: CheckedCall, page: unknown): void {
  if (page === undefined) return;
  checkObject(call, 'the page', page);
  const { limit, cursor } = page as { readonly limit?: unknown; readonly cursor?: unknown };
  if (limit !== undefined) checkInteger(call, 'limit', limit, { min: 1, max: ROOT_REFS_PAGE_MAX });
  if (cursor === undefined || (typeof cursor === 'string' && cursor !== '')) return;
  throw invalidArgument(call, `cursor must be the nextCursor of a page; it is ${describeValue(cursor)}`);
}

export function checkCommit(call: CheckedCall, commit: unknown): void {
  checkObject(call, 'the commit', commit);
  const { requestId, changes } = commit as { readonly requestId?: unknown; readonly changes?: unknown };
  const isId = typeof requestId === 'string' && requestId !== '';
  if (!isId || !hasAtMostCodePoints(requestId, REQUEST_ID_CHARACTERS_MAX)) {
    const rule = `requestId must be a string of 1 to ${REQUEST_ID_CHARACTERS_MAX} characters`;
    throw invalidArgument(call, `${rule}; it is ${describeValue(requestId)}`);
  }
  checkObject(call, 'changes', changes);
  const entries = Object.entries(changes);
  if (entries.length < 1 || entries.length > ROOT_REF_CHANGES_MAX) {
    const rule = `changes must hold 1 to ${ROOT_REF_CHANGES_MAX} hashes, each with a delta`;
    throw invalidArgument(call, `${rule}; it holds ${entries.length}`);
  }
  for (const [hash, delta] of entries) {
    if (!isHash(hash))
      throw invalidArgument(call, 'a key of changes is no hash of 64 lowercase hexadecimal characters');
    checkInteger(call, `changes[${hash}]`, delta, { min: -ROOT_REF_DELTA_MAX, max: ROOT_REF_DELTA_MAX });
  }
}
