/** The dependencies of every operation, built once per process. Time is always the metadata store's: processes' clocks may differ. */

import type { PackJudge } from './pack-ports.ts';
import type { ContentStore, MetadataStore, Randomness, Signer } from './ports.ts';
import type { FreeSpace, Quotas } from './quotas.ts';
import type { RottenNodes } from './rotten-nodes.ts';
import type { StrayWatch } from './stray-watch.ts';
import type { ClockGuard } from './upkeep-ports.ts';

export interface Core {
  readonly metadata: MetadataStore;
  readonly content: ContentStore;
  readonly random: Randomness;
  readonly signer: Signer;
  readonly rottenNodes: RottenNodes;
  readonly quotas: Quotas;
  /** undefined: nothing is kept on a disk of ours */
  readonly freeSpace?: FreeSpace | undefined;
  readonly strays: StrayWatch;
  readonly packs: PackJudge;
  /** undefined: one process has the only clock */
  readonly clocks?: ClockGuard | undefined;
  readonly settings: CoreSettings;
}

export interface CoreSettings {
  /** largest canonical node, bytes; exactly this is accepted */
  readonly nodeBytesMax: number;
  readonly activeUploadsMax: number;
  /** ms an upload URL is good for */
  readonly uploadTtlMs: number;
  /** ms after the last lease call (or URL expiry) before an unfinished upload or waiting parent is dropped */
  readonly abandonedAfterMs: number;
  /** ms a superseded root-ref balance stays readable by older cursors */
  readonly rootRefHistoryMs: number;
  /** ms that objects are kept after packing, compaction or healing replaced them: rows that are restored meanwhile name them again */
  readonly keepReplacedMs: number;
  /** ms after which a commit and its request id may be forgotten; undefined: never */
  readonly commitRecordsKeptMs?: number | undefined;
}
