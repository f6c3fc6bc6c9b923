/** Names of a folder: raw bytes in byte order, plain or packed alike. */
import { afterAll, describe, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { toByteString, toFsPath } from '../byte-names.ts';
import { listNames, NameList } from './name-list.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-names-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('NameList', () => {
  const names = fc.uniqueArray(
    fc.uint8Array({ minLength: 1, maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  );

  test('is the same packed and plain', () => {
    fc.assert(
      fc.property(names, names, (held, others) => {
        const sorted = held.toSorted();
        const packed = new NameList(sorted, -1);
        expect([...packed]).toEqual(sorted);
        expect([...new NameList(sorted)]).toEqual(sorted);
        for (const name of [...held, ...others]) {
          expect(packed.has(name)).toBe(held.includes(name));
          expect(new NameList(sorted).has(name)).toBe(held.includes(name));
        }
      }),
    );
  });
});

describe('listNames', () => {
  const create = (name: string, files: readonly string[]): string => {
    const path = join(folder, name);
    mkdirSync(path);
    for (const file of files) writeFileSync(toFsPath(`${path}/${file}`), '');
    return path;
  };

  test('sorts by bytes, not by UTF-16', () => {
    // U+FF01 comes before U+1F4BE in UTF-8, after it in UTF-16.
    const files = ['\uff01', '\u{1f4be}', 'z', 'Z', 'é'].map(toByteString);
    expect([...listNames(create('order', files))]).toEqual(files.toSorted());
    expect(files.toSorted().indexOf(toByteString('\uff01'))).toBeLessThan(
      files.toSorted().indexOf(toByteString('\u{1f4be}')),
    );
  });

  test('keeps names that are no UTF-8, and the replacement character itself', () => {
    const files = ['\u00ff\u00fe', toByteString('\ufffd'), '\u00c3('];
    expect([...listNames(create('raw', files))]).toEqual(files.toSorted());
  });
});
