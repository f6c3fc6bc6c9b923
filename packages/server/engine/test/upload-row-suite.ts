/** Upload rows: the current generation of a hash and what is known of it. */
import { expect, test } from 'bun:test';
import type { Generation, ObjectKey, Space, UploadEvidence, UploadRow } from '../../core/model.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { discardOf, hashAt, NOW, newGeneration, openUpload, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export const GOOD = {
  verdict: 'good' as const,
  canonicalSize: 134,
  size: 100,
  contentType: 'text/plain',
  refs: new Uint8Array(64).fill(3),
  integrity: new Uint8Array([1, 18, 9]),
  inline: false,
} satisfies UploadEvidence;
const BAD: UploadEvidence = { verdict: 'bad', code: 'NODE_DIGEST_MISMATCH', message: 'not these bytes' };

const OTHER: Space = { appId: 'b', spaceId: 'b' };

const keyOf = (space: Space, generation: Generation): ObjectKey => ({
  spaceKey: spaceKeyOf(space),
  generation,
});

export function testUploadRows(subject: StoreUnderTest): void {
  const insert = (row: UploadRow) => subject.store.transact(SPACE, (tx) => tx.insert('upload', row));
  const update = (before: UploadRow, after: UploadRow) =>
    subject.store.transact(SPACE, (tx) => tx.update('upload', before, after));

  test('every field of an upload survives every change', async () => {
    const opened = openUpload(hashAt(1));
    await insert(opened);
    expect(await subject.store.findUpload(SPACE, hashAt(1))).toEqual(opened);
    const steps: Partial<UploadRow>[] = [
      { urlExpiresAt: NOW + 5000, touchedAt: NOW + 9 },
      { evidence: BAD },
      {
        generation: newGeneration(),
        createdAt: NOW + 10,
        evidence: undefined,
        rejection: { code: 'NODE_DIGEST_MISMATCH', message: 'not these bytes' },
      },
      { evidence: GOOD },
      { evidence: { ...GOOD, inline: true, refs: new Uint8Array(0) }, rejection: undefined },
      { touchedAt: NOW + 11 },
    ];
    let current = opened;
    for (const step of steps) {
      const next: UploadRow = { ...current, ...step };
      await update(current, next);
      expect(await subject.store.findUpload(SPACE, hashAt(1))).toEqual(next);
      expect(await subject.store.transact(SPACE, (tx) => tx.findUpload(hashAt(1)))).toEqual(next);
      // An engine need not expect it, but never gives an older row.
      expect([undefined, next]).toContainEqual(await subject.store.findExpectedUpload?.(SPACE, hashAt(1)));
      current = next;
    }
    await subject.store.transact(SPACE, (tx) => tx.delete('upload', current));
    expect(await subject.store.findUpload(SPACE, hashAt(1))).toBeUndefined();
    expect(await subject.store.findExpectedUpload?.(SPACE, hashAt(1))).toBeUndefined();
  });

  test('active uploads are those whose URL has not expired, counted no further than asked', async () => {
    for (const [index, urlExpiresAt] of [NOW - 1, NOW, NOW + 1, NOW + 2, NOW + 3].entries()) {
      await insert(openUpload(hashAt(index), { urlExpiresAt }));
    }
    const count = (atMost: number) => subject.store.transact(SPACE, (tx) => tx.countActiveUploads(atMost));
    expect(await count(10)).toBe(3);
    expect(await count(2)).toBe(2);
    subject.clock.set(NOW + 2);
    expect(await count(10)).toBe(1);
    const other = { appId: 'app', spaceId: 'other' };
    expect(await subject.store.transact(other, (tx) => tx.countActiveUploads(10))).toBe(0);
  });

  test('abandoned uploads are those neither touched nor uploadable since', async () => {
    await insert(openUpload(hashAt(1), { touchedAt: NOW, urlExpiresAt: NOW + 100 }));
    await insert(openUpload(hashAt(2), { touchedAt: NOW + 100, urlExpiresAt: NOW }));
    await insert(openUpload(hashAt(3), { touchedAt: NOW, urlExpiresAt: NOW, evidence: GOOD }));
    await insert(openUpload(hashAt(4), { touchedAt: NOW - 1, urlExpiresAt: NOW }));
    const find = (at: number, limit: number) =>
      subject.store.transact(SPACE, (tx) => tx.due('uploads', at, limit));
    expect((await find(NOW, 10)).map(({ hash }) => hash).sort()).toEqual([hashAt(3), hashAt(4)]);
    expect((await find(NOW + 100, 10)).length).toBe(4);
    expect((await find(NOW + 100, 3)).length).toBe(3);
    expect(await find(NOW - 1, 10)).toEqual([]);
  });

  test('known generations are those with an upload, a content or a discard', async () => {
    const [content, discard, unknown] = [newGeneration(), newGeneration(), newGeneration()];
    const upload = openUpload(hashAt(1));
    await insert(upload);
    await subject.store.transact(SPACE, async (tx) => {
      await tx.insert('content', {
        generation: content,
        canonicalSize: 1,
        integrity: new Uint8Array(1),
        inlineBytes: undefined,
        urlExpiresAt: 0,
      });
    });
    await subject.store.transact(OTHER, (tx) => tx.insert('discard', discardOf(discard)));
    const here = [upload.generation, content, unknown].map((generation) => keyOf(SPACE, generation));
    const known = await subject.store.page('knownGenerations', [...here, keyOf(OTHER, discard)]);
    expect([...known].sort()).toEqual([upload.generation, content, discard].sort());
    await subject.store.transact(SPACE, (tx) => tx.delete('upload', upload));
    expect([...(await subject.store.page('knownGenerations', [keyOf(SPACE, upload.generation)]))]).toEqual(
      [],
    );
  });
}
