/** What stands in the place of a file of ours and is none: no command opens it, waits for it, or makes what it leads to. */
import { expect, test } from 'bun:test';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { holdDataFolder } from './data-folder.ts';
import { hasApps, hasRows } from './open.ts';

const FILES = [
  ...['holdfast.db', 'holdfast.db-wal', 'registry.db', 'registry.db-journal', 'live.db', 'lock.db'],
  ...['secret.key', 'dev-key.jwk', 'operator-token', 'last-backup', 'content/STORE'],
];

test('pipes, links and folders are refused before anything is opened', async () => {
  const folder = makeTempFolder('own-files');
  const [dataDir, outside] = [join(folder.path, 'data'), join(folder.path, 'made')];
  const place = { kind: 'folder', dataDir } as const;
  const plant = {
    pipe: (path: string) => void Bun.spawnSync(['mkfifo', path]),
    link: (path: string) => symlinkSync(outside, path),
    folder: (path: string) => mkdirSync(path),
  };
  try {
    mkdirSync(join(dataDir, 'content'), { recursive: true });
    for (const name of FILES) {
      for (const [kind, make] of Object.entries(plant)) {
        const path = join(dataDir, name);
        make(path);
        const message = `${path} is no file but a ${kind}, and Holdfast made no such thing there: move it away, then run the command again`;
        expect(() => holdDataFolder(dataDir)).toThrow(message);
        await expect(hasRows(place)).rejects.toThrow(message);
        await expect(hasApps(place)).rejects.toThrow(message);
        rmSync(path, { recursive: true });
      }
    }
    expect(existsSync(outside)).toBe(false);
    writeFileSync(join(dataDir, 'content', 'STORE'), '');
    holdDataFolder(dataDir).release();
  } finally {
    folder.remove();
  }
});
