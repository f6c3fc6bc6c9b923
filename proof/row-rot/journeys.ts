/** Ways by which a damaged data folder comes to be another one: what is readable before must be so behind them. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import { checkBackup } from '../../packages/server/backup/check-backup.ts';
import { makeBackup } from '../../packages/server/backup/make-backup.ts';
import { restoreBackup } from '../../packages/server/backup/restore-backup.ts';
import { purgeSpace } from '../../packages/server/core/collect/purge-space.ts';
import { StoreUnavailable } from '../../packages/server/core/store-failure.ts';
import type { CopiedDeployment } from '../../packages/server/deployment/deployment.ts';
import { openDeployment } from '../../packages/server/deployment/open.ts';
import { EngineRefused } from '../../packages/server/engine/refused.ts';
import { ServeError } from '../../packages/server/errors.ts';
import { copyDeployment } from '../../packages/server/transfer/copy-deployment.ts';
import type { DamagedCopy } from './subject.ts';
import { tell } from './tell.ts';
import { BEGIN_MS, DAY_MS, type OpenWorld, OTHER, openFolder } from './world.ts';

const STEPS_MAX = 1_000;

export interface Journey {
  readonly name: string;
  /** about as many as there are */
  readonly steps: number;
  /** From the data folder `from`. `scratch` is empty. A refusal is thrown. `onStep` is told of each step over `from`. */
  go(from: string, scratch: string, onStep?: () => undefined): Promise<Arrived>;
}

type Arrived = Pick<DamagedCopy, 'open' | 'raisesRevisions' | 'purged'>;

const quiet = { onProgress: () => undefined };

const throughBackup: Journey = {
  name: 'backup and restore',
  steps: 20,
  async go(from, scratch, onStep = () => undefined) {
    const [folder, dataDir] = [join(scratch, 'backup'), join(scratch, 'restored')];
    await makeBackup({ dataDir: from, folder }, { onProgress: onStep });
    await checkBackup(folder, quiet);
    await restoreBackup({ folder, dataDir }, quiet);
    return { open: openFolder(dataDir), raisesRevisions: true };
  },
};

/** A migration to what `openTarget` opens. */
function throughCopy(
  name: string,
  openTarget: (scratch: string) => Promise<{ readonly target: CopiedDeployment; readonly open: OpenWorld }>,
): Journey {
  return {
    name,
    steps: 60,
    async go(from, scratch, onStep) {
      await using opened = new AsyncDisposableStack();
      const source = opened.adopt(await openCopied(from), (each) => each.close());
      const { target, open } = await openTarget(scratch);
      opened.adopt(target, (each) => each.close());
      await copyAll(onStep === undefined ? source : { ...source, rows: tell(source.rows, onStep) }, target);
      return { open };
    },
  };
}

function openCopied(dataDir: string): Promise<CopiedDeployment> {
  const place = { kind: 'folder', dataDir } as const;
  return openDeployment({ rows: place, bytes: place }, { kind: 'copy' });
}

const toFolder = throughCopy('migrate', async (scratch) => {
  const dataDir = join(scratch, 'copied');
  return { target: await openCopied(dataDir), open: openFolder(dataDir) };
});

export async function copyAll(source: CopiedDeployment, target: CopiedDeployment): Promise<void> {
  const signal = new AbortController().signal;
  await copyDeployment({
    ...{ source, target, signal, onEvent: () => undefined, makeEpoch: randomUUID, pausesMs: [] },
  });
}

/** What another Space has is removed: nothing of it may be of this one. */
const throughPurge: Journey = {
  name: 'purge of the other Space',
  steps: 60,
  async go(from, _scratch, onStep = () => undefined) {
    const open = openFolder(from);
    const { core, close } = await open(BEGIN_MS + DAY_MS, 3);
    let calls = 0;
    const mayGoOn = async (): Promise<boolean> => ++calls < STEPS_MAX;
    try {
      await purgeSpace({ ...core, metadata: tell(core.metadata, onStep) }, OTHER, mayGoOn);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // It says what it could not remove.
    } finally {
      await close();
    }
    return { open, purged: OTHER };
  },
};

export const JOURNEYS: readonly Journey[] = [throughBackup, toFolder, throughPurge];

/** One line that says what is wrong, which is right to say of a damaged folder. */
export const isRefusal = (error: unknown): error is Error =>
  error instanceof ServeError || error instanceof EngineRefused || error instanceof StoreUnavailable;
