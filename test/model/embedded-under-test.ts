import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PackPlace } from '../../packages/server/core/model.ts';
import {
  type EmbeddedEngine,
  openEmbeddedEngine,
} from '../../packages/server/deployment/test/embedded-engine-fixture.ts';
import { ByteSpoiler, nextTurn, objectPath } from '../support/embedded-files.ts';
import { recount } from '../support/embedded-recount.ts';
import { makeTempFolder } from '../support/temp-folder.ts';
import type { EngineUnderTest } from './engine-under-test.ts';

/** `workers`: one keeps rows in memory, several share the folder and read them each time. */
export function makeEmbeddedUnderTest(workers: number, { recounts = false } = {}): EngineUnderTest {
  const folder = makeTempFolder('model', { fast: true });
  const dataDir = join(folder.path, 'data');
  mkdirSync(dataDir);
  const spoiler = new ByteSpoiler(dataDir);
  let engine: EmbeddedEngine | undefined;
  const failures: Error[] = [];
  /** bytes were taken from a row, which no longer says then that they were there */
  let hasLostRow = false;
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
    async damage(_space, { generation, storage }, how, packed) {
      const isInline = storage === 'inline';
      await nextTurn();
      if (packed !== undefined) return flipRecord(dataDir, packed);
      hasLostRow ||= isInline && how === 'lost';
      spoiler.spoil({ generation, isInline }, how);
    },
    async mend(_space, { generation, storage }, packed) {
      const isInline = storage === 'inline';
      await nextTurn();
      if (packed !== undefined) return flipRecord(dataDir, packed);
      spoiler.restore({ generation, isInline });
    },
    findProblems() {
      const problems = recounts ? recount(dataDir).problems : [];
      return hasLostRow ? problems.filter((problem) => !problem.endsWith(': storage differs')) : problems;
    },
    async destroy() {
      await engine?.close();
      folder.remove();
    },
  };
}

/** The last stored byte of a record; twice is as it was. */
function flipRecord(dataDir: string, { pack, offset, storedLength }: PackPlace): void {
  const path = objectPath(dataDir, pack);
  const bytes = readFileSync(path);
  const last = offset + storedLength - 1;
  bytes[last] = (bytes[last] as number) ^ 0xff;
  writeFileSync(path, bytes);
}
