/** A folder of Holdfast is told by what is in it, also one with a secret alone, of this version or an earlier one. */
import { expect, test } from 'bun:test';
import { lstatSync, mkdirSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { describeOwnFolder } from './own-folders.ts';

const DATA = 'the data folder of a Holdfast server';

test.each([
  [
    'a secret of this version',
    { 'lock.db': '', 'secret.key': '{"version":1,"secrets":[{"secret":"00' },
    DATA,
  ],
  ['a secret of an earlier version', { 'lock.db': '', 'secret.key': '\0'.repeat(32) }, DATA],
  ['a file of the same name', { 'lock.db': '', 'secret.key': 'a secret of mine' }, undefined],
  ['a secret without a lock', { 'secret.key': '\0'.repeat(32) }, undefined],
] as const)('%s', (_name, files, kind) => {
  const folder = makeTempFolder('own-folder', { fast: true });
  try {
    const at = (name: string): string => join(folder.path, 'folder', name);
    mkdirSync(at(''));
    for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text);
    const look = {
      lookAt: (name: string) => lstatSync(at(name), { throwIfNoEntry: false }),
      openFile: (name: string) => openSync(at(name), 'r'),
    } as unknown as Parameters<typeof describeOwnFolder>[1];
    expect(describeOwnFolder(new Set(readdirSync(at(''))), look)).toBe(kind);
  } finally {
    folder.remove();
  }
});
