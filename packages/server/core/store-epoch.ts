/**
 * The epoch of a bucket: a number in an object of its own, which servers move on at their start and every so often. The rows have
 * it first. So rows that are behind their bucket are older than what this deployment has done since: they were restored from a
 * backup, and must not judge which objects are strays until an operator says that they go on from here.
 */
import type { ContentStore, MetadataStore } from './ports.ts';

/** the note of the rows that holds it */
export const EPOCH_NOTE = 'store-epoch';

/** A restored domain goes on this far above the backed-up revision, beyond any that a client has seen. 2^53 leaves room for thousands. */
export const REVISION_STEP = 2 ** 40;
/** A wrong bit of a domain must not get lost in its raised numbers: nothing would prove it any more. */
export const MENDED_BEFORE_RAISING = {
  isRepaired: true,
  onlyTable: 'domains',
  onTable: () => undefined,
} as const;

type Stores = {
  readonly metadata: Pick<MetadataStore, 'page' | 'settle'>;
  readonly content: Pick<ContentStore, 'epoch'>;
};

export interface Epochs {
  readonly rows: number;
  readonly store: number;
}

/** `undefined`: the store of bytes has none, because it lies beside the rows. */
export async function readEpochs({ metadata, content }: Stores): Promise<Epochs | undefined> {
  const { epoch } = content;
  if (epoch === undefined) return undefined;
  // The store first: another server may move both on meanwhile, and the rows are never behind.
  const store = (await epoch.read()) ?? 0;
  return { rows: Number((await metadata.page('note', EPOCH_NOTE)) ?? 0), store };
}

export const isBehind = (epochs: Epochs | undefined): boolean =>
  epochs !== undefined && epochs.rows < epochs.store;

/** Moves both past what either has seen, the rows first and only upwards: rows behind their bucket keep servers from starting. */
export async function moveEpoch({ metadata, content }: Stores, { rows, store }: Epochs): Promise<void> {
  const next = Math.max(rows, store) + 1;
  await metadata.settle('note', { name: EPOCH_NOTE, value: next });
  await content.epoch?.write(next);
}

/** One line for the operator. */
export const explainBehind = ({ rows, store }: Epochs): string =>
  `the database is older than its bucket (epoch ${rows}, the bucket has ${store}): it was restored from a backup, or it is another one; use the right database, or run holdfast accept-restore to go on with this one`;
