/** Guards that no test can notice, and why they stand all the same. */
export const EXPLAINED: Readonly<Record<string, string>> = {
  "packages/server/core/upload-token.ts: if (typeof expiresAt !== 'number' || !Number.isSafeInteger(expiresAt)) throw notOurs(); [1]":
    'Only the server signs tokens: no client can make one with such a field.',
  'packages/server/core/release-bytes.ts: if (uncollectedBytes < COLLECT_BYTES) return; [0]':
    'It saves time, and decides nothing.',
  "packages/server/core/read-nodes.ts: if (packed === undefined) throw new Error('this content is no record of a pack'); [0]":
    'For the type checker: the caller has looked.',
  'packages/server/core/stray-objects.ts: if (old.length === 0) return []; [0]':
    'It saves a call that would do nothing.',
  "packages/server/core/update-root-refs.ts: assertInvariant(refusal?.kind !== 'reserve', 'room for a commit is reserved before'); [0]":
    'No path leads there: it states what the types cannot.',
  "packages/server/core/edges.ts: assertCount(left, 'childRefCount'); [0]":
    'A row with such a count has another sum, and is refused before.',
  "packages/server/core/upload-token.ts: if (typeof expiresAt !== 'number' || !Number.isSafeInteger(expiresAt)) throw notOurs(); [2]":
    'Only the server signs tokens: no client can make one with such a field.',
  "packages/server/core/packs/pack-decision.ts: assertInvariant(pack.state === 'judging' && pack.publishedCount === from, 'records are published in order'); [0]":
    'No path leads there: it states what the types cannot.',
};
