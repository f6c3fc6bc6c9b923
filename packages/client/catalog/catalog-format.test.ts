/** The catalog format: what is written is read again, the vectors stand, and no bytes are taken for more than they are. */
import { describe, expect, test } from 'bun:test';
import { encodeNode, type Hash } from '@holdfast/protocol';
import fc from 'fast-check';
import vectors from '../../../docs/catalog-vectors.json';
import { hashCanonicalBytes } from '../digest.ts';
import { CatalogError, type CatalogErrorCode } from './catalog-error.ts';
import {
  CATALOG_CONTENT_TYPE,
  CATALOG_INDEX_CONTENT_TYPE,
  type Catalog,
  compareSnapshots,
  encodeCatalog,
  isSnapshotName,
  listRoots,
  parseCatalog,
  type Snapshot,
} from './catalog-format.ts';

const hashes = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes): Hash => Buffer.from(bytes).toString('hex'));
const texts = fc.string({ unit: 'grapheme', maxLength: 40 });
const snapshots = fc.record<Snapshot>(
  {
    id: fc.stringMatching(/^[0-9a-f]{16}$/),
    name: fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/).filter(isSnapshotName),
    root: hashes,
    time: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    host: texts,
    path: texts,
    bytes: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    pinned: fc.constant(true as const),
    copiedFrom: fc.record({ app: texts, space: texts }),
  },
  { requiredKeys: ['id', 'name', 'root', 'time', 'host', 'path', 'bytes'] },
);
const catalogs = fc.record<Catalog>({
  random: texts,
  previous: fc.array(hashes, { maxLength: 3 }),
  snapshots: fc.uniqueArray(snapshots, { maxLength: 8, selector: ({ id }) => id }),
});

function codeOf(contentType: string, content: string | Uint8Array): CatalogErrorCode | 'read' {
  try {
    parseCatalog(contentType, typeof content === 'string' ? new TextEncoder().encode(content) : content);
    return 'read';
  } catch (error) {
    if (error instanceof CatalogError) return error.code;
    throw error;
  }
}

describe('a catalog', () => {
  test('that was written is read again, in one order whatever the order it came in', () => {
    fc.assert(
      fc.property(catalogs, (catalog) => {
        const bytes = encodeCatalog(catalog);
        const read = parseCatalog(CATALOG_CONTENT_TYPE, bytes);
        expect(read).toEqual({ ...catalog, snapshots: [...catalog.snapshots].sort(compareSnapshots) });
        const reversed = { ...catalog, snapshots: [...catalog.snapshots].reverse() };
        expect(encodeCatalog(reversed)).toEqual(bytes);
        expect(new Set(listRoots(read.snapshots))).toEqual(
          new Set(catalog.snapshots.map(({ root }) => root)),
        );
      }),
    );
  });

  test('of any bytes is either read or refused by a CatalogError', () => {
    const valid = Buffer.from(
      encodeCatalog({ random: 'r', previous: [], snapshots: fc.sample(snapshots, { numRuns: 2, seed: 7 }) }),
    );
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 60 }),
        fc.nat({ max: valid.length }),
        fc.nat({ max: 40 }),
        (noise, at, cut) => {
          const mutated = Buffer.concat([valid.subarray(0, at), noise, valid.subarray(at + cut)]);
          codeOf(CATALOG_CONTENT_TYPE, noise);
          const code = codeOf(CATALOG_CONTENT_TYPE, mutated);
          expect(['read', 'MALFORMED', 'OTHER_VERSION']).toContain(code);
        },
      ),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(codeOf(CATALOG_CONTENT_TYPE, text)).not.toBe('read');
      }),
    );
  });

  const good = { version: 1, random: 'r', previous: [], snapshots: [] };

  test('of fields that would fill the memory is refused', () => {
    const others = JSON.stringify({ ...good, others: 'here' }).replace(
      '"here"',
      `[${'0,'.repeat(2_000_000)}0]`,
    );
    expect(codeOf(CATALOG_CONTENT_TYPE, others)).toBe('MALFORMED');
  }, 120_000);
  const snapshot = {
    id: '0123456789abcdef',
    name: 'home',
    root: 'a'.repeat(64),
    time: 1,
    host: 'h',
    path: '/p',
    bytes: 2,
  };
  test.each<[string, unknown, CatalogErrorCode | 'read']>([
    ['nothing in it', good, 'read'],
    ['a snapshot', { ...good, snapshots: [snapshot] }, 'read'],
    ['pinned false', { ...good, snapshots: [{ ...snapshot, pinned: false }] }, 'read'],
    ['random that is a number', { ...good, random: 0.5 }, 'read'],
    ['version 2', { version: 2, anything: 'goes' }, 'OTHER_VERSION'],
    ['version 0', { ...good, version: 0 }, 'OTHER_VERSION'],
    ['no version', { ...good, version: undefined }, 'MALFORMED'],
    ['a version that is no number', { ...good, version: '1' }, 'MALFORMED'],
    ['no random', { ...good, random: undefined }, 'MALFORMED'],
    ['no list', { ...good, snapshots: undefined }, 'MALFORMED'],
    ['previous of no hash', { ...good, previous: ['A'.repeat(64)] }, 'MALFORMED'],
    ['one id twice', { ...good, snapshots: [snapshot, snapshot] }, 'MALFORMED'],
    ['a short id', { ...good, snapshots: [{ ...snapshot, id: '0123' }] }, 'MALFORMED'],
    ['a name like a hash', { ...good, snapshots: [{ ...snapshot, name: 'deadbeef' }] }, 'MALFORMED'],
    ['a negative time', { ...good, snapshots: [{ ...snapshot, time: -1 }] }, 'MALFORMED'],
    ['half a byte', { ...good, snapshots: [{ ...snapshot, bytes: 0.5 }] }, 'MALFORMED'],
    ['a pin that is a number', { ...good, snapshots: [{ ...snapshot, pinned: 1 }] }, 'MALFORMED'],
    ['a copy of no Space', { ...good, snapshots: [{ ...snapshot, copiedFrom: { app: 'a' } }] }, 'MALFORMED'],
    ['no host', { ...good, snapshots: [{ ...snapshot, host: undefined }] }, 'MALFORMED'],
  ])('with %s', (_, content, code) => {
    expect(codeOf(CATALOG_CONTENT_TYPE, JSON.stringify(content))).toBe(code);
  });

  test('of another content type is of another version, or none', () => {
    const content = JSON.stringify(good);
    expect(codeOf('application/vnd.holdfast.catalog.v2+json', content)).toBe('OTHER_VERSION');
    expect(codeOf('application/vnd.holdfast.catalog.v2', content)).toBe('OTHER_VERSION');
    expect(codeOf(CATALOG_INDEX_CONTENT_TYPE, content)).toBe('MALFORMED');
    expect(codeOf('application/json', content)).toBe('MALFORMED');
  });

  test.each(['a', 'A1._-', '1234567', 'x'.repeat(128), 'deadbeeg', '2026-11-22', 'a'.repeat(65)])(
    'may have the name %s',
    (name) => expect(isSnapshotName(name)).toBe(true),
  );
  test.each([
    '',
    '-a',
    '.a',
    'a b',
    'a/b',
    'a@b',
    'ä',
    'x'.repeat(129),
    'deadbeef',
    'DEADBEEF',
    'a'.repeat(64),
    'a\n',
  ])('may not have the name %j', (name) => expect(isSnapshotName(name)).toBe(false));
});

test('the golden vectors are what this code makes', async () => {
  for (const { name, contentType, content, refs, hash } of vectors.nodes) {
    const bytes = new TextEncoder().encode(content);
    expect([name, await hashCanonicalBytes(encodeNode({ contentType, refs, content: bytes }))]).toEqual([
      name,
      hash,
    ]);
    if (contentType !== CATALOG_CONTENT_TYPE) continue;
    const catalog = parseCatalog(contentType, bytes);
    expect([name, new TextDecoder().decode(encodeCatalog(catalog))]).toEqual([name, content]);
    if (name !== 'with an index') expect([name, listRoots(catalog.snapshots)]).toEqual([name, refs]);
  }
});
