import { expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runDoor } from './door.ts';

test('a password that others can read is refused before anything is served', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-door-'));
  try {
    const passwordFile = join(folder, 'password');
    writeFileSync(passwordFile, 'correct horse battery staple\n', { mode: 0o644 });
    const flags = { listen: '127.0.0.1:0', passwordFile };
    const serving = runDoor('webdav', flags, async () => undefined);
    await expect(serving).rejects.toThrow(`run: chmod 600 ${passwordFile}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
