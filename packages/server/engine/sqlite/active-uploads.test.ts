/** The count of active uploads that a batch remembers is the one that SQLite would give, whatever the batch does meanwhile. */
import { expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { hashAt, ManualClock, openUpload, SPACE } from '../test/samples.ts';
import { SqliteMetadataStore } from './metadata-store.ts';

const UPLOADS = 6;
const MS_MAX = 8;

const step = fc.record({
  kind: fc.constantFrom('insert', 'remove', 'move', 'wait', 'look'),
  upload: fc.integer({ min: 1, max: UPLOADS }),
  ms: fc.integer({ min: -MS_MAX, max: MS_MAX }),
  atMost: fc.integer({ min: 1, max: UPLOADS + 1 }),
  /** counts once more before it is undone */
  isUndone: fc.boolean(),
});

test('the count of active uploads is exact in every body of a batch, whatever bodies and clock do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-active-'));
  let run = 0;
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const clock = new ManualClock();
        const onFatal = (error: Error) => {
          throw error;
        };
        run += 1;
        const store = new SqliteMetadataStore({
          path: join(folder, `${run}.db`),
          clock,
          onFatal,
          isShared: false,
        });
        let expiries = new Map<number, number>();
        /** before each body; a body that runs again begins with what it began with */
        const before: Map<number, number>[] = [];
        let last = -1;
        const seen: (readonly [number, number])[] = [];
        // All submitted at once, so that they are one batch.
        const bodies = steps.map(({ kind, upload, ms, atMost, isUndone }, index) =>
          store.transact(SPACE, async (tx) => {
            if (index <= last) expiries = new Map(before[index]);
            before[index] = new Map(expiries);
            last = index;
            const exact = (): number =>
              Math.min(atMost, [...expiries.values()].filter((expiresAt) => expiresAt > tx.now).length);
            const look = async (): Promise<void> => {
              seen.push([await tx.countActiveUploads(atMost), exact()]);
            };
            await look();
            const current = await tx.findUpload(hashAt(upload));
            const urlExpiresAt = tx.now + ms;
            if (kind === 'wait') clock.set(tx.now + ms);
            if (kind === 'insert' && current === undefined) {
              await tx.insert('upload', openUpload(hashAt(upload), { urlExpiresAt }));
              expiries.set(upload, urlExpiresAt);
            }
            if (kind === 'remove' && current !== undefined) {
              await tx.delete('upload', current);
              expiries.delete(upload);
            }
            if (kind === 'move' && current !== undefined) {
              await tx.update('upload', current, { ...current, urlExpiresAt });
              expiries.set(upload, urlExpiresAt);
            }
            await look();
            if (!isUndone) return;
            expiries = new Map(before[index]);
            throw new Error('planted: this body is undone');
          }),
        );
        await Promise.allSettled(bodies);
        await store.close();
        expect(seen.map(([counted]) => counted)).toEqual(seen.map(([, exact]) => exact));
      }),
      { numRuns: 60 },
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
