/** From what people write to a hash, and what they are told when nothing, or too much, fits. */
import { describe, expect, test } from 'bun:test';
import { CatalogError } from './catalog-error.ts';
import { mergeSnapshots, type Snapshot } from './catalog-format.ts';
import { findReference, parseReference } from './resolve-reference.ts';

const ROOT_A = `aaaaaaaa1${'0'.repeat(55)}`;
const ROOT_B = `aaaaaaaa2${'0'.repeat(55)}`;
const ROOT_C = `cccccccc${'0'.repeat(56)}`;

function snapshot(id: string, name: string, root: string, when: string): Snapshot {
  return { id, name, root, time: Date.parse(when), host: 'h', path: '/p', bytes: 1 };
}

const names = {
  snapshots: mergeSnapshots([
    [
      snapshot('1111111100000001', 'home', ROOT_A, '2026-11-21T10:00Z'),
      snapshot('1111111100000002', 'home', ROOT_B, '2026-11-22T23:59Z'),
      snapshot('2222222200000003', 'home', ROOT_A, '2026-11-22T00:00Z'),
      snapshot('3333333300000004', 'photos', ROOT_C, '2026-11-30T00:00Z'),
    ],
  ]),
  rootRefs: [{ hash: `dddddddd${'0'.repeat(56)}`, refCount: 1 }],
};

function find(text: string): string {
  try {
    return findReference(parseReference(text), names).hash;
  } catch (error) {
    if (error instanceof CatalogError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

describe('a reference', () => {
  test.each([
    ['f'.repeat(64), 'f'.repeat(64)],
    ['home', ROOT_B],
    ['photos', ROOT_C],
    ['home@2222222200000003', ROOT_A],
    ['home@22222222', ROOT_A],
    ['home@1111111100000002', ROOT_B],
    ['home@2026-11-21', ROOT_A],
    ['home@2026-11-22', ROOT_B],
    ['cccccccc', ROOT_C],
    ['aaaaaaaa1', ROOT_A],
    ['dddddddd0', `dddddddd${'0'.repeat(56)}`],
  ])('%s', (text, hash) => expect(find(text)).toBe(hash));

  test.each([
    ['hom', 'NOT_FOUND: nothing is kept under the name hom; the nearest are home, photos'],
    [
      'home@2026-11-25',
      'NOT_FOUND: home has no snapshot of 2026-11-25 (UTC); the nearest is home@1111111100000002 (2026-11-22)',
    ],
    ['home@2026-11-20', 'the nearest is home@1111111100000001 (2026-11-21)'],
    [
      'home@11111111',
      'AMBIGUOUS: 2 snapshots begin with 11111111: home@1111111100000001 (2026-11-21), home@1111111100000002 (2026-11-22)',
    ],
    ['home@33333333', 'NOT_FOUND: no snapshot has the id 33333333; the newest are home@1111111100000002'],
    ['aaaaaaaa', `AMBIGUOUS: 2 trees begin with aaaaaaaa: ${ROOT_A}, ${ROOT_B}`],
    ['aaaaaaaa9', `the nearest are ${ROOT_A}, ${ROOT_B}`],
    ['22222222', 'it is the id of a snapshot: write home@2222222200000003'],
    ['home@2026-02-30', 'INVALID_ARGUMENT: "2026-02-30" names no snapshot'],
    ['home@1111', 'INVALID_ARGUMENT'],
    ['home@', 'INVALID_ARGUMENT'],
    ['@2026-11-22', 'INVALID_ARGUMENT'],
    ['', 'INVALID_ARGUMENT'],
    ['-x', 'INVALID_ARGUMENT'],
    ['A'.repeat(64), 'INVALID_ARGUMENT'],
  ])('%j is refused', (text, says) => expect(find(text)).toContain(says));
});

test('lists merge into the same list in any order, and a pin in one of them stays', () => {
  const plain = snapshot('1111111100000001', 'home', ROOT_A, '2026-11-21T10:00Z');
  const other = snapshot('1111111100000002', 'home', ROOT_A, '2026-11-20T10:00Z');
  const later = { ...plain, time: plain.time + 1, pinned: true as const };
  const merged = [other, { ...plain, pinned: true as const }];
  expect(mergeSnapshots([[plain], [later, other]])).toEqual(merged);
  expect(mergeSnapshots([[other], [later], [plain]])).toEqual(merged);
});
