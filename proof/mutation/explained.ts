/** Guards that no test can notice, and why they stand all the same. */
const SAVES_TIME = 'It saves time, and decides nothing.';
const STATES_A_RULE = 'No path leads there: it states what the types cannot.';
const SUM_COMES_FIRST = 'A row with such a count has another sum, and is refused before.';

export const EXPLAINED: Readonly<Record<string, string>> = {
  'packages/server/core/quota-room.ts: if (excess !== undefined || !found.isAppLimited) return excess; [1]':
    SAVES_TIME,
  "packages/server/core/contents.ts: assertInvariant(row.waitingTouchedAt === 0, 'a rotten row never waits'); [0]":
    STATES_A_RULE,
  "packages/server/core/edges.ts: assertCount(childRefCount, 'childRefCount'); [0]": SUM_COMES_FIRST,
  "packages/server/core/edges.ts: assertCount(left, 'a count of loose edges'); [0]": SUM_COMES_FIRST,
  "packages/server/core/edges.ts: assertCount(left, 'childRefCount'); [0]": SUM_COMES_FIRST,
  'packages/server/core/lease/lease-node.ts: if (renewed === undefined) return anew(); [0]':
    'It saves a turn of the event loop.',
  'packages/server/core/lease/lease-decision.ts: if (isLeaseSame(lease, node)) return lease; [0]':
    'It saves a write that changes nothing.',
  'packages/server/core/packs/compact-packs.ts: if (last === undefined || rows.length < BATCH_RECORDS_MAX) return live; [1]':
    SAVES_TIME,
  'packages/server/core/packs/judge-pack.ts: if (reader.fault !== undefined) break; [0]': SAVES_TIME,
  "packages/server/core/packs/publish-group.ts: assertInvariant(pack.state === 'judging' && pack.publishedCount === from, 'records are published in order'); [0]":
    STATES_A_RULE,
  'packages/server/core/packs/pack-small-nodes.ts: if (bytes >= 16 * 1024 * 1024 || (record !== undefined && !builder.add(record))) return end(); [0]':
    'It bounds how long a step takes: the pack itself has a smaller limit.',
  "packages/server/core/packs/pack-small-nodes.ts: if (end !== bytes.length) throw new Error('a pack does not end with its last record; nothing was moved'); [0]":
    STATES_A_RULE,
  'packages/server/core/collect/purge-space.ts: if ((await findRoom()) === 0) return 0; [0]': SAVES_TIME,
  "packages/server/core/read/read-nodes.ts: if (packed === undefined) throw new Error('this content is no record of a pack'); [0]":
    'For the type checker: the caller has looked.',
  "packages/server/core/refs/list-root-refs.ts: if (bytes.length !== AT.end || bytes.toString('base64url') !== cursor) throw notOurs(); [0]":
    'No signature fits another length.',
  "packages/server/core/read/read-nodes.ts: if (outcome !== 'changed' || looksLeft === 0) return undefined; [0]":
    'The next look would find a rotten row, and leave it out too.',
  'packages/server/core/read/read-nodes.ts: if (before === undefined || before.buffer !== stored.buffer) return false; [1]':
    'The first record of a buffer lies at its start, and follows nothing.',
  'packages/server/core/collect/run-gc.ts: if (findRoom() <= 0) return; [0]': SAVES_TIME,
  'packages/server/core/collect/run-gc.ts: if (found.found < limit) return; [0]': SAVES_TIME,
  "packages/server/core/collect/scrub.ts: if (node.state !== 'ready') return 'as-before'; [0]": SAVES_TIME,
  'packages/server/core/signer.ts: if (this.#taken !== undefined && areEqual(taken, this.#taken)) return; [0]':
    SAVES_TIME,
  'packages/server/core/stray-watch.ts: if (old.length === 0) return []; [0]': SAVES_TIME,
  'packages/server/core/collect/sweep.ts: if (due.length === 0) return 0; [0]': SAVES_TIME,
  "packages/server/core/refs/update-root-refs.ts: assertInvariant(refusal?.kind !== 'reserve', 'room for a commit is reserved before'); [0]":
    STATES_A_RULE,
  'packages/server/core/lease/upload-token.ts: if (dot <= 0 || token.length > 8192) throw notOurs(); [0]':
    'Without a dot no signature fits.',
  'packages/server/core/usage-delta.ts: if (before !== undefined && after !== undefined && before.state === after.state) return USAGE_NONE; [0]':
    SAVES_TIME,
};
