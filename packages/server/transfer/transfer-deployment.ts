/** `holdfast migrate`: from two places to a copied and verified deployment. */

import { randomUUID } from 'node:crypto';
import { PRIVATE_UMASK } from '@holdfast/protocol';
import { StoreUnavailable } from '../core/store-failure.ts';
import type { CopiedDeployment } from '../deployment/deployment.ts';
import { hasRows, openDeployment } from '../deployment/open.ts';
import type { DeploymentPlace } from '../deployment/place.ts';
import type { Totals } from '../engine/transfer-ports.ts';
import { ServeError } from '../errors.ts';
import { copyDeployment, findCopy } from './copy-deployment.ts';
import type { TransferEvent, TransferResult } from './events.ts';

export interface Transfer {
  readonly from: DeploymentPlace;
  readonly to: DeploymentPlace;
}

export interface TransferRun {
  readonly signal: AbortSignal;
  onEvent(event: TransferEvent): void;
}

export interface TransferPlan {
  readonly totals: Totals & { readonly apps: number };
  /** the target's progress for this source */
  readonly target: 'empty' | 'unfinished' | 'finished';
}

/** Resolves when the target is complete and verified. Rejects with ServeError; a repeated call resumes. */
export function transferDeployment(
  places: Transfer,
  { signal, onEvent }: TransferRun,
): Promise<TransferResult> {
  return explainOutage(async () => {
    await assertSource(places);
    return await withDeployment(places.from, (source) =>
      withDeployment(places.to, (target) =>
        copyDeployment({ source, target, signal, onEvent, makeEpoch: randomUUID }),
      ),
    );
  });
}

/** Copies nothing and makes nothing in the target. Rejects with ServeError as `transferDeployment` would at its start. */
export function planTransfer(places: Transfer): Promise<TransferPlan> {
  return explainOutage(async () => {
    await assertSource(places);
    return await withDeployment(places.from, async (source) => {
      await source.assertAlone();
      const totals = { ...(await source.rows.readTotals()), apps: (await source.apps.readAll()).length };
      if (!(await hasRows(places.to.rows))) return { totals, target: 'empty' };
      return await withDeployment(places.to, async (target) => {
        await target.assertAlone();
        const copy = await findCopy(source, target);
        if (copy === 'finished') return { totals, target: copy };
        return { totals, target: copy === undefined ? 'empty' : 'unfinished' };
      });
    });
  });
}

async function assertSource({ from, to }: Transfer): Promise<void> {
  if (Bun.deepEquals(from, to)) throw new ServeError('--from and --to are the same place; give two');
  if (await hasRows(from.rows)) return;
  throw new ServeError('--from holds no deployment: check the folder, or the database of its URL');
}

async function withDeployment<T>(
  place: DeploymentPlace,
  work: (deployment: CopiedDeployment) => Promise<T>,
): Promise<T> {
  process.umask(PRIVATE_UMASK);
  const deployment = await openDeployment(place, { kind: 'copy' });
  try {
    return await work(deployment);
  } finally {
    await deployment.close();
  }
}

async function explainOutage<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    if (error.isDamage) throw new ServeError(error.message, { cause: error });
    throw new ServeError(`${error.message}; then run the same command again to go on`, { cause: error });
  }
}
