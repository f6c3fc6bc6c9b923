import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  type EmbeddedEngine,
  openEmbeddedEngine,
} from '../../packages/server/deployment/test/embedded-engine-fixture.ts';
import { ByteSpoiler, nextTurn } from '../support/embedded-files.ts';
import { makeTempFolder } from '../support/temp-folder.ts';
import type { EngineUnderTest } from './engine-under-test.ts';

/** `workers`: one keeps rows in memory, several share the folder and read them each time. */
export function makeEmbeddedUnderTest(workers: number): EngineUnderTest {
  const folder = makeTempFolder('model', { fast: true });
  const dataDir = join(folder.path, 'data');
  mkdirSync(dataDir);
  const spoiler = new ByteSpoiler(dataDir);
  let engine: EmbeddedEngine | undefined;
  const failures: Error[] = [];
  return {
    async open({ clock }) {
      engine = await openEmbeddedEngine({
        dataDir,
        workers,
        clock,
        onFatal: (error) => failures.push(error),
      });
      return engine;
    },
    async close() {
      await engine?.close();
      engine = undefined;
      if (failures.length > 0) throw new AggregateError(failures, 'the engine asked to end the process');
    },
    async damage(_space, { generation, storage }, how) {
      const isInline = storage === 'inline';
      await nextTurn();
      spoiler.spoil({ generation, isInline }, how);
    },
    async mend(_space, { generation, storage }) {
      const isInline = storage === 'inline';
      await nextTurn();
      spoiler.restore({ generation, isInline });
    },
    async destroy() {
      await engine?.close();
      folder.remove();
    },
  };
}
