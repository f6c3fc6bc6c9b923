/** Ways by which a damaged data folder comes to be another one: what is readable before must be so behind them. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { checkBackup } from '../../packages/server/backup/check-backup.ts';
import { makeBackup } from '../../packages/server/backup/make-backup.ts';
import { restoreBackup } from '../../packages/server/backup/restore-backup.ts';
import { StoreUnavailable } from '../../packages/server/core/store-failure.ts';
import type { CopiedDeployment } from '../../packages/server/deployment/deployment.ts';
import { openDeployment } from '../../packages/server/deployment/open.ts';
import { EngineRefused } from '../../packages/server/engine/refused.ts';
import { ServeError } from '../../packages/server/errors.ts';
import { copyDeployment } from '../../packages/server/transfer/copy-deployment.ts';
import { type OpenWorld, openFolder } from './world.ts';

export interface Journey {
  readonly name: string;
  /** From the data folder `from`. `scratch` is empty. A refusal is thrown. */
  go(from: string, scratch: string): Promise<Arrived>;
}

interface Arrived {
  readonly open: OpenWorld;
  readonly raisesRevisions?: boolean;
}

const quiet = { onProgress: () => undefined };

const throughBackup: Journey = {
  name: 'backup and restore',
  async go(from, scratch) {
    const [folder, dataDir] = [join(scratch, 'backup'), join(scratch, 'restored')];
    await makeBackup({ dataDir: from, folder }, quiet);
    await checkBackup(folder, quiet);
    await restoreBackup({ folder, dataDir }, quiet);
    return { open: openFolder(dataDir), raisesRevisions: true };
  },
};

const throughCopy: Journey = {
  name: 'migrate',
  async go(from, scratch) {
    const dataDir = join(scratch, 'copied');
    const place = (folder: string) => ({ kind: 'folder', dataDir: folder }) as const;
    const open = (folder: string) =>
      openDeployment({ rows: place(folder), bytes: place(folder) }, { kind: 'copy' });
    await using opened = new AsyncDisposableStack();
    const source = opened.adopt(await open(from), (each) => each.close());
    const target = opened.adopt(await open(dataDir), (each) => each.close());
    await copyAll(source, target);
    return { open: openFolder(dataDir) };
  },
};

export async function copyAll(source: CopiedDeployment, target: CopiedDeployment): Promise<void> {
  const signal = new AbortController().signal;
  await copyDeployment({
    ...{ source, target, signal, onEvent: () => undefined, makeEpoch: randomUUID, pausesMs: [] },
  });
}

export const JOURNEYS: readonly Journey[] = [throughBackup, throughCopy];

/** One line that says what is wrong, which is right to say of a damaged folder. */
export const isRefusal = (error: unknown): error is Error =>
  error instanceof ServeError || error instanceof EngineRefused || error instanceof StoreUnavailable;
