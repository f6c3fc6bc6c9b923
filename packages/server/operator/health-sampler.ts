/** Polls each store at an interval; every probe gets the last result, so probes neither wait nor add load. */
import type { Core } from '../core/core.ts';
import { isDamage } from '../core/store-failure.ts';
import type { ServedDeployment } from '../deployment/deployment.ts';
import { EngineRefused } from '../engine/refused.ts';
import { type Check, type CheckResult, ENGINES_CHECK, OK } from './readiness.ts';

/** ms; a store that has not answered by then counts as unavailable */
const ANSWER_MS_MAX = 5_000;
const NO_GENERATION = '0'.repeat(32);
const NO_HASH = '0'.repeat(64);
const NO_SPACE = { appId: 'holdfast', spaceId: 'holdfast' };

export class HealthSampler {
  readonly #core: Core;
  readonly #assertSchema: () => Promise<void>;
  #engines: CheckResult = OK;
  #schema: CheckResult = OK;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(core: Core, { assertSchema }: Pick<ServedDeployment, 'assertSchema'>) {
    this.#core = core;
    this.#assertSchema = assertSchema;
  }

  /** Resolves after the first poll. */
  async start(): Promise<void> {
    await this.#look();
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => void this.start(), 3_000);
    this.#timer.unref();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  get checks(): readonly Check[] {
    return [
      { name: ENGINES_CHECK, look: () => this.#engines },
      { name: 'schema', look: () => this.#schema },
      { name: 'disk', look: () => lookAtDisk(this.#core) },
      { name: 'strays', look: () => lookAtStrays(this.#core) },
    ];
  }

  async #look(): Promise<void> {
    const core = this.#core;
    const [rows, bytes, schema] = await Promise.all([
      findFailure(async () => {
        const [entry] = await core.metadata.page('spaces', { after: undefined, limit: 1 });
        if (entry?.damage !== undefined) throw entry.damage;
      }),
      findFailure(() =>
        core.content.inspect(NO_SPACE, NO_GENERATION, NO_HASH, { nodeBytesMax: core.settings.nodeBytesMax }),
      ),
      findFailure(this.#assertSchema),
    ]);
    this.#engines = judgeEngines({ rows, bytes });
    // An unavailable database reports nothing about its schema, so the last result stays.
    if (schema === undefined) this.#schema = OK;
    else if (schema instanceof EngineRefused) this.#schema = { status: 'fail', message: schema.message };
  }
}

/** A store with a damaged page is available: it serves everything else. */
function judgeEngines(stores: Readonly<Record<'rows' | 'bytes', unknown>>): CheckResult {
  const failed = Object.entries(stores).filter(([, error]) => error !== undefined);
  if (failed.length === 0) return OK;
  const message = failed
    .map(([store, error]) =>
      isDamage(error)
        ? `the store of ${store} is damaged: ${messageOf(error)}`
        : `the store of ${store} cannot be used: ${messageOf(error)}`,
    )
    .join('; ');
  return { status: failed.every(([, error]) => isDamage(error)) ? 'warn' : 'fail', message };
}

async function findFailure(ask: () => Promise<unknown>): Promise<unknown> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`)),
    ANSWER_MS_MAX,
  );
  try {
    await Promise.race([ask(), late.promise]);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A full disk still serves reads, so the process stays in service. */
function lookAtDisk({ freeSpace }: Core): CheckResult {
  if (freeSpace === undefined || !freeSpace.isLowFor(1)) return OK;
  return {
    status: 'warn',
    message:
      'the disk of the data folder has no more room, or inodes (df -i), than are kept free: uploads are refused, so make room',
  };
}

/** An object without a row stays in the store, which is harmless. */
function lookAtStrays({ strays }: Core): CheckResult {
  return strays.stopped === undefined ? OK : { status: 'warn', message: strays.stopped };
}
