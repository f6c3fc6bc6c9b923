import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { NodeRow } from './model.ts';
import { isCollectable, isEligible } from './node-row.ts';
import { addUsage, totalUsage, USAGE_NONE, usageDelta, usageOf } from './usage-delta.ts';

const node = fc
  .record({
    state: fc.constantFrom('waiting', 'ready', 'rotten', 'claimed'),
    size: fc.nat(1000),
    leaseExpiresAt: fc.nat(10),
    childRefCount: fc.nat(1),
    rootRefCount: fc.nat(1),
    heldDomainCount: fc.nat(1),
  })
  .map(
    (fields) =>
      ({
        ...fields,
        hash: '0'.repeat(64),
        canonicalSize: fields.size + 30,
        contentType: 'text/plain',
        refs: new Uint8Array(0),
        generation: '0'.repeat(32),
        storage: 'inline',
        storedSize: fields.size + 30,
        leaseStartedAt: 0,
        waitingTouchedAt: 0,
      }) as NodeRow,
  );

test('what a row was plus its change is what the row is', () => {
  // One row: its immutable fields stay, its state moves.
  const change = fc.tuple(
    node,
    fc.option(fc.constantFrom('waiting', 'ready', 'rotten', 'claimed'), { nil: undefined }),
  );
  fc.assert(
    fc.property(change, ([before, state]) => {
      const after = state === undefined ? undefined : ({ ...before, state } as NodeRow);
      expect(addUsage(usageOf(before), usageDelta(before, after))).toEqual(usageOf(after));
      expect(usageDelta(undefined, before)).toEqual(usageOf(before));
    }),
  );
});

test('rows add up to the same in any split', () => {
  fc.assert(
    fc.property(fc.array(node), fc.nat(), (rows, at) => {
      const cut = at % (rows.length + 1);
      const whole = totalUsage(rows);
      expect(addUsage(totalUsage(rows.slice(0, cut)), totalUsage(rows.slice(cut)))).toEqual(whole);
      const bytes = (some: readonly NodeRow[]): number =>
        some.reduce((total, { canonicalSize }) => total + canonicalSize, 0);
      const ready = rows.filter(({ state }) => state === 'ready');
      expect(whole).toEqual({
        nodeCount: rows.length,
        readyContentBytes: ready.reduce((total, { size }) => total + size, 0),
        readyStoredBytes: bytes(ready),
        waitingBytes: bytes(rows.filter(({ state }) => state === 'waiting')),
        notReadyNodeCount: rows.length - ready.length,
      });
    }),
  );
  expect(totalUsage([])).toEqual(USAGE_NONE);
});

test('only ready bytes are ready, only waiting bytes are reserved', () => {
  fc.assert(
    fc.property(node, (row) => {
      const usage = usageOf(row);
      expect(usage.readyContentBytes).toBe(row.state === 'ready' ? row.size : 0);
      expect(usage.waitingBytes).toBe(row.state === 'waiting' ? row.canonicalSize : 0);
      expect(usage.notReadyNodeCount).toBe(row.state === 'ready' ? 0 : 1);
    }),
  );
});

test('nothing referenced, rooted, held, waiting or claimed is ever eligible; a lease counts until its very end', () => {
  fc.assert(
    fc.property(node, fc.nat(10), (row, now) => {
      const isHeld = row.childRefCount + row.rootRefCount + row.heldDomainCount > 0;
      const isTakeable = (row.state === 'ready' || row.state === 'rotten') && !isHeld;
      expect(isCollectable(row)).toBe(isTakeable);
      expect(isEligible(row, now)).toBe(isTakeable && row.leaseExpiresAt <= now);
    }),
  );
});
