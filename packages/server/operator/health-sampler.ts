/**
 * Looks at the engines and the disk in the background, so that no probe waits for them or adds to their load: however many ask,
 * each store is asked once in a while, and everybody is told what it answered last.
 */
import { statfs } from 'node:fs/promises';
import type { Core } from '../core/core.ts';
import { FREE_BYTES } from '../metrics/server-metrics.ts';
import { type Check, type CheckResult, OK } from './readiness.ts';

/** ms from the end of one look to the next */
const LOOK_MS = 3_000;
/** ms; a store that has not answered by then counts as away */
const ANSWER_MS_MAX = 5_000;
const NO_GENERATION = '0'.repeat(32);
const NO_HASH = '0'.repeat(64);
const NO_SPACE = { appId: 'holdfast', spaceId: 'holdfast' };
const GIB_BYTES = 1024 ** 3;
/** Below this share of the disk, or 1 GiB if that is less, an operator should make room. */
const LOW_SHARE = 0.05;

/** What is looked at. */
interface Sampled {
  readonly core: Core;
  /** undefined: nothing of the deployment lies on a disk of this machine */
  readonly dataDir: string | undefined;
}

export class HealthSampler {
  readonly #sampled: Sampled;
  #engines: CheckResult = OK;
  #disk: CheckResult = OK;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(sampled: Sampled) {
    this.#sampled = sampled;
  }

  /** Resolves when the first look is over. */
  async start(): Promise<void> {
    await this.#look();
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => void this.start(), LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  get checks(): readonly Check[] {
    return [
      { name: 'engines', look: () => this.#engines },
      { name: 'disk', look: () => this.#disk },
    ];
  }

  async #look(): Promise<void> {
    const { core, dataDir } = this.#sampled;
    const [rows, bytes, disk] = await Promise.all([
      findFailure('rows', async () => core.metadata.listSpaces({ after: undefined, limit: 1 })),
      findFailure('bytes', () =>
        core.content.inspect(NO_SPACE, NO_GENERATION, NO_HASH, { nodeBytesMax: core.settings.nodeBytesMax }),
      ),
      dataDir === undefined ? OK : lookAtDisk(dataDir),
    ]);
    const failures = [rows, bytes].filter((failure) => failure !== undefined);
    this.#engines = failures.length === 0 ? OK : { status: 'fail', message: failures.join('; ') };
    this.#disk = disk;
  }
}

async function findFailure(store: string, ask: () => Promise<unknown>): Promise<string | undefined> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`)),
    ANSWER_MS_MAX,
  );
  try {
    await Promise.race([ask(), late.promise]);
    return undefined;
  } catch (error) {
    return `the store of ${store} cannot be used: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    clearTimeout(timer);
  }
}

/** A full disk still serves reads, so it takes no process out of service. */
async function lookAtDisk(dataDir: string): Promise<CheckResult> {
  try {
    const { bavail, blocks, bsize } = await statfs(dataDir);
    const freeBytes = bavail * bsize;
    FREE_BYTES.set(freeBytes);
    if (freeBytes >= Math.min(GIB_BYTES, blocks * bsize * LOW_SHARE)) return OK;
    return {
      status: 'warn',
      message: `${freeBytes} bytes are free on the disk of the data folder: make room`,
    };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { status: 'warn', message: `the disk of the data folder cannot be looked at (${code})` };
  }
}
