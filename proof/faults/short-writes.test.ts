/** A file system may take only a part of what is written. Every write of these commands is cut in half. */
import { expect, test } from 'bun:test';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runEngineCommand } from '../../test/support/engine-process.ts';
import { ROOT } from '../../test/support/server-process.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { runCommandsBehind } from './command-faults.ts';

const TEST_MS_MAX = 600_000;

test(
  'backup, restore, push and pull go on behind a write that took half',
  async () => {
    const folder = makeTempFolder('short-writes');
    try {
      const [program, log] = [join(folder.path, 'short-writes'), join(folder.path, 'log')];
      // The programs of this set have a compiler.
      await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'spin']);
      const source = join(import.meta.dir, 'short-writes.c');
      const built = Bun.spawnSync(['gcc', '-O1', '-o', program, source]);
      expect([built.exitCode, built.stderr.toString()]).toEqual([0, '']);
      const tried = Bun.spawnSync([program, log, 'sh', '-c', `echo long > ${join(folder.path, 'file')}`]);
      if (tried.exitCode !== 0 || !existsSync(log) || statSync(log).size === 0) {
        console.error('this kernel lets nobody answer system calls of others, so nothing is tested by it');
        return;
      }
      expect(await runCommandsBehind([program, log])).toEqual([]);
      expect(statSync(log).size).toBeGreaterThan(100);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
