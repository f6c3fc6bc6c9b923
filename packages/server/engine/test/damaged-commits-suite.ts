/** No commit is forgotten on the word of a damaged row. */
import { expect, test } from 'bun:test';
import type { MetadataStore } from '../../core/ports.ts';
import { NOW, SPACE } from './samples.ts';

interface DamagedStore {
  readonly store: () => MetadataStore;
  setClock(now: number): void;
  /** Runs SQL beside the store. */
  change(sql: string): Promise<void>;
  close(): Promise<void>;
}

const KEPT_MS = 8 * 86_400_000;

export function testDamagedCommits(open: () => Promise<DamagedStore>): void {
  test.each([
    // The record of revision 4 is younger than the mark.
    ['nothing', 'SELECT 1', 3],
    ['a commit', 'UPDATE root_ref_commits SET revision = 2 WHERE revision = 4', 3],
    ['a mark, and it looks old', `UPDATE commit_marks SET marked_at = marked_at - ${KEPT_MS / 2}`, 0],
    ['a mark, and it says more', 'UPDATE commit_marks SET revision = 4', 0],
    ['a domain', 'UPDATE domains SET revision = revision + 64', 0],
    ['the number of commits', 'UPDATE domains SET commit_count = commit_count + 64', 0],
    [
      'a mark, and no number is its time',
      'UPDATE commit_marks SET marked_at = marked_at - 9223372036854775807',
      0,
    ],
  ])('damaged: %s', async (_, damage, expected) => {
    const { store, setClock, change, close } = await open();
    const commit = (requestId: string) =>
      store().transact(SPACE, async (tx) => {
        const revision = (await tx.findRevision('d')) + 1;
        const payloadDigest = new Uint8Array(32);
        await tx.insertRootRefCommit('d', { requestId, payloadDigest, revision }, []);
      });
    const forgetAt = async (now: number) => {
      setClock(now);
      const cutoffs = { now, abandonedAt: 0, historyAt: 0, commitRecordsKeptMs: KEPT_MS };
      let forgotten = 0;
      for (;;) {
        const step = await store().maintain(cutoffs);
        forgotten += step.forgottenCommits;
        if (!step.moreToDo) return forgotten;
      }
    };
    for (const requestId of ['a', 'b', 'c']) await commit(requestId);
    await forgetAt(NOW);
    for (const requestId of ['d', 'e']) await commit(requestId);
    await change(damage);
    // Half the time: so long only a mark that looks old can hurt.
    expect(await forgetAt(NOW + KEPT_MS / 2)).toBe(0);
    expect(await forgetAt(NOW + KEPT_MS)).toBe(expected);
    // The marks of later go, and the damaged ones with them.
    await forgetAt(NOW + 2 * KEPT_MS);
    await close();
  });
}
