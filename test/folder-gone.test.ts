/** A server whose data folder goes away acknowledges nothing more: it ends, and one line says why. */
import { expect, test } from 'bun:test';
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const TEST_MS_MAX = 120_000;

const LOSSES: Readonly<Record<string, (data: string) => void>> = {
  'is removed': (data) => rmSync(data, { recursive: true }),
  'has an empty one in its place': (data) => {
    renameSync(data, `${data}.away`);
    mkdirSync(data);
  },
  'loses its files alone': (data) => {
    for (const name of readdirSync(data)) rmSync(join(data, name), { recursive: true });
  },
  'loses the log of its rows alone': (data) => rmSync(join(data, 'holdfast.db-wal')),
};

const CASES = [...Object.keys(LOSSES).map((loss) => [loss, '1'] as const), ['is removed', '2'] as const];
test.concurrent.each(CASES)(
  'a folder that %s ends the server (%s processes)',
  async (loss, workers) => {
    const folder = makeTempFolder('folder-gone');
    try {
      const data = join(folder.path, 'data');
      let log = '';
      const server = await startServer({
        data,
        arguments: ['--workers', workers],
        onLog: (piece) => {
          log += piece;
        },
      });
      LOSSES[loss]?.(data);
      let isAnswering = true;
      while (isAnswering) {
        isAnswering = await fetch(`${server.url}/`).then(
          () => true,
          () => false,
        );
        if (isAnswering) await Bun.sleep(100);
      }
      await server.end('SIGKILL');
      const lines = log.split('\n').filter((line) => line.includes('another one is in its place'));
      expect(lines.length).toBe(1);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
