import { expect, test } from 'bun:test';
import type { UploadRow } from '../model.ts';
import type { PackRow } from '../pack-model.ts';
import {
  balanceSum,
  commitSum,
  countersSum,
  DOMAIN_WEIGHTS,
  domainSum,
  historySum,
  isSum,
  packSum,
  packUseSum,
  tombstoneSum,
  uploadSum,
  uploadSumChange,
  verdictsSum,
} from './row-sums.ts';

const HASH = 'ab'.repeat(32);
const PACK: PackRow = {
  ...{ id: '01'.repeat(16), generation: '02'.repeat(16), state: 'judged', createdAt: 1, urlExpiresAt: 2 },
  ...{ touchedAt: 3, asked: new Uint8Array(32), bytes: 900, publishedCount: 4, isDiscarded: false },
  reserved: { bytes: 0, nodes: 0 },
};
const UPLOAD: UploadRow = {
  ...{ hash: HASH, generation: '03'.repeat(16), createdAt: 5, urlExpiresAt: 6, touchedAt: 7 },
  ...{ rejection: undefined, evidence: undefined },
};
const EVIDENCE: UploadRow['evidence'] = {
  ...{ verdict: 'good', canonicalSize: 9, size: 8, contentType: 'a/b', refs: new Uint8Array(32) },
  ...{ integrity: new Uint8Array(8), inline: true },
};

function expectDistinct(sums: readonly number[]): void {
  expect(new Set(sums).size).toBe(sums.length);
}

test('each value of each kind of row is in its sum', () => {
  const history = { fromRevision: 1, toRevision: 2, balance: 3, supersededAt: 4 };
  const use = { liveRecords: 1, liveBytes: 1, firstDeadAt: 1 };
  expectDistinct([balanceSum(1, HASH, 2, 3), balanceSum(1, HASH, 3, 2), balanceSum(2, HASH, 2, 3)]);
  expectDistinct(
    [{}, { fromRevision: 0 }, { toRevision: 3 }, { balance: 2 }, { supersededAt: 5 }].map((change) =>
      historySum(1, HASH, { ...history, ...change }),
    ),
  );
  const commit = { requestId: 'r', payloadDigest: new Uint8Array(32), revision: 1 };
  expectDistinct(
    [{}, { requestId: 's' }, { revision: 2 }].map((change) => commitSum(1, { ...commit, ...change })),
  );
  const domain = {
    revision: 5,
    historyFloor: 1,
    commitCount: 2,
    balanceCount: 3,
    walkedFrom: 0,
    walkedUntil: 0,
  };
  expectDistinct(
    [
      {},
      { revision: 4 },
      { historyFloor: 2 },
      { commitCount: 3 },
      { balanceCount: 4 },
      { walkedFrom: 1 },
      { walkedUntil: 1 },
    ].map((change) => domainSum(['d'], { ...domain, ...change })),
  );
  const before = domainSum(['d'], { ...domain, revision: 4 });
  expect(domainSum(['d'], domain)).toBe(before + DOMAIN_WEIGHTS.revision);
  expectDistinct(
    [
      ...[
        {},
        { state: 'open' as const },
        { createdAt: 0 },
        { urlExpiresAt: 3 },
        { touchedAt: 2 },
        { bytes: 1 },
      ],
      ...[{ publishedCount: 5 }, { isDiscarded: true }, { reserved: { bytes: 1, nodes: 0 } }, { id: '' }],
    ].map((change) => packSum(1, { ...PACK, ...change })),
  );
  expectDistinct(
    [{}, { liveRecords: 0 }, { liveBytes: 0 }, { firstDeadAt: 0 }].map((change) =>
      packUseSum({ ...use, ...change }),
    ),
  );
  const verdicts = { hashes: new Uint8Array(32), rejections: [], broken: undefined };
  expectDistinct([
    verdictsSum('01', verdicts),
    verdictsSum('02', verdicts),
    verdictsSum('01', { ...verdicts, broken: { byte: 1, message: '' } }),
  ]);
});

test('a change of an upload is added to its sum', () => {
  const rejection = { code: 'NODE_DIGEST_MISMATCH', message: 'other bytes' } as const;
  for (const change of [
    { urlExpiresAt: 60 },
    { touchedAt: 70 },
    { evidence: EVIDENCE },
    { generation: '04'.repeat(16), createdAt: 8, rejection },
  ] as const) {
    const after: UploadRow = { ...UPLOAD, ...change };
    expect(uploadSum(1, UPLOAD) + uploadSumChange(UPLOAD, after)).toBe(uploadSum(1, after));
    expect(uploadSumChange(UPLOAD, after)).not.toBe(0);
  }
});

test('a number of which a wrong record header makes null, text or bytes has no sum', () => {
  const numbers = { revision: 1, historyFloor: 0, commitCount: 0, balanceCount: 0, walkedFrom: 0 };
  const counters = { nodeCount: 1, readyContentBytes: 0, readyStoredBytes: 0, waitingBytes: 0 };
  for (const other of [null, '', new Uint8Array(0)]) {
    const value = other as unknown as number;
    const sums = [
      packUseSum({ liveRecords: value, liveBytes: 0, firstDeadAt: 0 }),
      packSum(1, { ...PACK, touchedAt: value }),
      uploadSum(1, { ...UPLOAD, urlExpiresAt: value }),
      tombstoneSum('04', 1, value),
      domainSum([1], { ...numbers, walkedUntil: value }),
      countersSum({ ...counters, notReadyNodeCount: 0, leasedCount: value }, 0),
    ];
    expect(sums.filter((sum) => isSum(sum, sum))).toEqual([]);
  }
});
