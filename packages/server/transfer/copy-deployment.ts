/** Copies a deployment to an empty one and verifies it. An interrupted one resumes: rows up to a checkpoint, objects under unique keys. */
import type { AppRecord, RegistryStore } from '../auth/registry-store.ts';
import { mapSome } from '../core/batches.ts';
import type { Space } from '../core/model.ts';
import type { CopiedDeployment } from '../deployment/deployment.ts';
import type { BatchPart, ListedSpace } from '../engine/transfer-ports.ts';
import { ServeError } from '../errors.ts';
import { type Arrival, type Carrier, carryNode, carryUpload } from './carry.ts';
import {
  type Checkpoint,
  type CopyCounts,
  formatCheckpoint,
  parseCheckpoint,
  startPhase,
} from './checkpoint.ts';
import {
  advance,
  type CopyRun,
  countNodes,
  PAUSES_MS,
  type Patience,
  patiently,
  RUN_LIMITS,
  type RunLimits,
  type SpaceVisit,
  saveCheckpoint,
  tellProgress,
  visitSpaces,
} from './copy-run.ts';
import type { TransferEvent, TransferResult } from './events.ts';
import { verifySpaces } from './verify-spaces.ts';
import type { WalkedPage } from './walk-space.ts';

export interface CopyOptions {
  readonly source: CopiedDeployment;
  readonly target: CopiedDeployment;
  readonly signal: AbortSignal;
  onEvent(event: TransferEvent): void;
  /** a name that was never used before */
  makeEpoch(): string;
  readonly limits?: Partial<RunLimits>;
  readonly pausesMs?: readonly number[];
}

/** Resolves when the target is complete and verified. Rejects with ServeError, StoreUnavailable, a store's error or the signal's reason. */
export async function copyDeployment(options: CopyOptions): Promise<TransferResult> {
  const startedAt = performance.now();
  const tell: CopyRun['tell'] = (event) => options.onEvent({ ...event, at: Date.now() } as TransferEvent);
  const end = (apps: number, counts: CopyCounts, damagedNodes: number): TransferResult => {
    const result = { apps, counts, damagedNodes, elapsedMs: Math.round(performance.now() - startedAt) };
    tell({ type: 'done', ...result });
    return result;
  };
  const opened = await openCheckpoint(options);
  if (opened === 'finished') {
    const { spaces, nodes, bytes } = await options.target.rows.readTotals();
    return end((await options.target.apps.readAll()).length, { spaces, nodes, bytes }, 0);
  }
  const run = await beginRun(options, opened, tell);
  if (run.checkpoint.phase === 'copy') {
    await copySpaces(run);
    await saveCheckpoint(run, startPhase(run.checkpoint.epoch, 'verify', run.damagedNodes));
  }
  await verifySpaces(run);
  return end(await finish(run), run.checkpoint.counts, run.checkpoint.damagedNodes);
}

interface OpenedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly isResumed: boolean;
}

async function beginRun(
  { source, target, signal, limits, pausesMs = PAUSES_MS }: CopyOptions,
  { checkpoint, isResumed }: OpenedCheckpoint,
  tell: CopyRun['tell'],
): Promise<CopyRun> {
  const patience: Patience = {
    pausesMs,
    signal,
    onRetry: ({ message }, pauseMs) => tell({ type: 'retry', message, pauseMs }),
  };
  const totals = await source.rows.readTotals();
  const apps = await source.apps.readAll();
  await assertReached(source, apps);
  tell({ type: 'start', totals: { ...totals, apps: apps.length }, isResumed });
  // The secret comes first: from its first start the target signs as the source does.
  await target.secret.replace(await source.secret.read());
  const { damagedNodes } = checkpoint;
  return {
    ...{ source, target, totals, patience, checkpoint, damagedNodes, tell },
    limits: { ...RUN_LIMITS, ...limits },
  };
}

/** Data that a walk over Spaces does not reach would be lost silently. */
async function assertReached({ rows }: CopiedDeployment, apps: readonly AppRecord[]): Promise<void> {
  const damaged = apps.find(({ status }) => status === 'damaged');
  if (damaged !== undefined) {
    throw new ServeError(
      `what the source has registered of the App ${JSON.stringify(damaged.appId)} is damaged: write it anew with holdfast app add --replace, then begin again`,
    );
  }
  const unreached = await rows.findUnreached();
  if (unreached.length === 0) return;
  throw new ServeError(
    `the source is damaged: a row of ${unreached.join(' and one of ')} belongs to no Space or domain; run holdfast check --repair on it, or restore a backup, then begin again`,
  );
}

/** Writes the marks before it looks for other processes: a server that starts in between finds the marks. */
async function openCheckpoint({
  source,
  target,
  makeEpoch,
}: CopyOptions): Promise<OpenedCheckpoint | 'finished'> {
  await source.assertAlone();
  await target.assertAlone();
  const known = await findCopy(source, target);
  if (known === 'finished') return known;
  if (known !== undefined) return { checkpoint: known, isResumed: true };
  const epoch = (await source.rows.findMark('epoch')) ?? makeEpoch();
  await source.rows.setMark('epoch', epoch);
  const checkpoint = startPhase(epoch, 'copy', 0);
  await target.rows.setMark('unfinished', formatCheckpoint(checkpoint));
  try {
    await source.assertAlone();
    await target.assertAlone();
  } catch (error) {
    await target.rows.removeMark('unfinished');
    throw error;
  }
  return { checkpoint, isResumed: false };
}

/** The target's progress for this source: a checkpoint or a finished copy; undefined: empty. Changes nothing. Else throws ServeError. */
export async function findCopy(
  { rows: source }: Pick<CopiedDeployment, 'rows'>,
  target: Pick<CopiedDeployment, 'rows' | 'apps'>,
): Promise<Checkpoint | 'finished' | undefined> {
  const epoch = await source.findMark('epoch');
  const text = await target.rows.findMark('unfinished');
  if (text === undefined) {
    if (epoch !== undefined && (await target.rows.findMark('finished')) === epoch) return 'finished';
    if ((await target.rows.isEmpty()) && (await target.apps.readAll()).length === 0) return undefined;
    throw new ServeError('the target is not empty: it holds Apps or data of its own; give an empty one');
  }
  const checkpoint = parseCheckpoint(text);
  if (checkpoint === undefined) {
    throw new ServeError(
      'the target holds an unfinished copy whose checkpoint is damaged, or that another version of holdfast began: empty the target and begin again, or finish it with that version',
    );
  }
  if (checkpoint.epoch !== epoch) {
    throw new ServeError(
      'the target holds an unfinished copy of another source, or of this one before a server ran on it again: empty the target and begin again',
    );
  }
  return checkpoint;
}

async function finish(run: CopyRun): Promise<number> {
  const { source, target, patience } = run;
  const { epoch } = run.checkpoint;
  const apps = await patiently(patience, async () => source.apps.readAll());
  await patiently(patience, () => replaceApps(target.apps, apps));
  const [arrived, secrets] = await patiently(patience, async () => [
    await target.apps.readAll(),
    [await source.secret.read(), await target.secret.read()],
  ]);
  if (!Bun.deepEquals(arrived, apps) || !Bun.deepEquals(secrets[0], secrets[1])) {
    throw new ServeError('registry or secret did not arrive whole: run the same command again');
  }
  if ((await patiently(patience, () => source.rows.findMark('epoch'))) !== epoch) {
    throw new ServeError(
      'a server was started on the source while it was copied, so the copy may be out of date: stop it, empty the target and begin again',
    );
  }
  await patiently(patience, () => target.rows.setMark('finished', epoch));
  await patiently(patience, () => target.rows.removeMark('unfinished'));
  return apps.length;
}

/** Makes the registry hold exactly these Apps. It changes them one by one, because no server serves the target yet. */
async function replaceApps(registry: RegistryStore, apps: readonly AppRecord[]): Promise<void> {
  const wanted = new Map(apps.map((app) => [app.appId, app]));
  for (const app of await registry.readAll()) {
    if (Bun.deepEquals(app, wanted.get(app.appId))) wanted.delete(app.appId);
    else await registry.remove(app.appId);
  }
  for (const app of wanted.values()) {
    const outcome = await registry.insert(app);
    if (outcome !== 'inserted')
      throw new ServeError(`the App ${JSON.stringify(app.appId)} is registered twice`);
  }
}

/** The first phase: copies every row and its bytes, batch by batch. Each batch is written with the checkpoint after it. */
async function copySpaces(run: CopyRun): Promise<void> {
  await visitSpaces(run, (listed) => new SpaceCopy(run, listed));
}

class SpaceCopy implements SpaceVisit {
  readonly #run: CopyRun;
  readonly #listed: ListedSpace;
  #parts: BatchPart[] = [];
  #releases: (() => Promise<void>)[] = [];
  /** the checkpoint after the parts that wait */
  #checkpoint: Checkpoint;

  constructor(run: CopyRun, listed: ListedSpace) {
    this.#run = run;
    this.#listed = listed;
    this.#checkpoint = run.checkpoint;
  }

  async page(page: WalkedPage): Promise<void> {
    this.#parts.push(await this.#carry(page.part));
    const { damagedNodes } = this.#run;
    const more = countNodes(page);
    this.#checkpoint = { ...advance(this.#checkpoint, this.#listed, page, more), damagedNodes };
    const waiting = this.#parts.reduce((sum, { entries }) => sum + entries.length, 0);
    // Bytes that have arrived get their rows at once, so that a crash makes few of them travel again.
    const isDue = this.#releases.length > 0 || waiting >= this.#run.limits.batchEntriesMax;
    if (page.next !== undefined && !isDue) return;
    await this.#write();
    tellProgress(this.#run);
  }

  async #write(): Promise<void> {
    const { target, patience } = this.#run;
    const batch = { space: this.#listed.space, parts: this.#parts };
    const text = formatCheckpoint(this.#checkpoint);
    try {
      await patiently(patience, async (attempt) => {
        // The try before may have succeeded although its outcome was unknown.
        if (attempt > 0 && (await target.rows.findMark('unfinished')) === text) return;
        await target.rows.write(batch, text);
      });
      this.#run.checkpoint = this.#checkpoint;
      this.#parts = [];
    } finally {
      for (const release of this.#releases.splice(0)) await release();
    }
  }

  async #carry(part: BatchPart): Promise<BatchPart> {
    if (part.kind === 'nodes') return { ...part, entries: await this.#carryAll(part.entries, carryNode) };
    if (part.kind === 'uploads') return { ...part, entries: await this.#carryAll(part.entries, carryUpload) };
    return part;
  }

  async #carryAll<T>(
    entries: readonly T[],
    carry: (carrier: Carrier, space: Space, entry: T) => Promise<Arrival<T>>,
  ): Promise<T[]> {
    const { source, target, patience, limits } = this.#run;
    const { space } = this.#listed;
    const carrier: Carrier = {
      source: source.bytes,
      target: target.intake,
      onDamaged: (node) => {
        this.#run.damagedNodes += 1;
        this.#run.tell({ type: 'damaged', ...node });
      },
    };
    return mapSome(entries, limits.objectsInFlightMax, async (entry) => {
      const arrival = await patiently(patience, () => carry(carrier, space, entry));
      this.#releases.push(arrival.release);
      return arrival.entry;
    });
  }
}
