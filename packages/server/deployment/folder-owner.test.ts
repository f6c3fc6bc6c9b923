/** Whose a data folder is, where a group lets the server into a volume of root. */
import { expect, test } from 'bun:test';
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { assertFolderOwner } from './folder-owner.ts';

const NOBODY = 65534;
const RUNNER = process.geteuid?.() as number;

/** What `nobody` is told, or this user where that is not root. */
function ask(folder: string): string | undefined {
  if (RUNNER === 0) process.seteuid?.(NOBODY);
  try {
    assertFolderOwner(folder, {});
  } catch (error) {
    return (error as Error).message;
  } finally {
    if (RUNNER === 0) process.seteuid?.(RUNNER);
  }
  return undefined;
}

test('a volume of root is used by the server that made what is in it, and by no other', () => {
  const folder = makeTempFolder('folder-owner');
  try {
    const volume = join(folder.path, 'volume');
    mkdirSync(volume);
    writeFileSync(join(volume, 'lost+found'), '');
    for (const path of [folder.path, volume]) chmodSync(path, 0o777);
    expect(ask(volume)).toBeUndefined();
    const secret = join(volume, 'secret.key');
    writeFileSync(secret, '');
    // Whoever is not root owns all of this.
    if (RUNNER !== 0) return expect(ask(volume)).toBeUndefined();
    expect(ask(volume)).toContain('belongs to user root');
    chownSync(secret, NOBODY, NOBODY);
    expect(ask(volume)).toBeUndefined();
  } finally {
    folder.remove();
  }
});
