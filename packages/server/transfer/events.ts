/** The progress that a copy reports while it runs. */
import type { Hash } from '@holdfast/protocol';
import type { Space } from '../core/model.ts';
import type { Totals } from '../engine/transfer-ports.ts';
import type { CopyCounts, CopyPhase } from './checkpoint.ts';

interface At {
  /** ms since the epoch */
  readonly at: number;
}

export type TransferEvent =
  | (At & {
      readonly type: 'start';
      readonly totals: Totals & { readonly apps: number };
      /** an interrupted copy goes on */
      readonly isResumed: boolean;
    })
  | (At & {
      readonly type: 'progress';
      readonly phase: CopyPhase;
      /** done in this phase, earlier runs included */
      readonly counts: CopyCounts;
      readonly totals: Totals;
    })
  /** The source no longer has these bytes. */
  | (At & { readonly type: 'damaged' } & DamagedNode)
  /** A step failed and is tried again. */
  | (At & { readonly type: 'retry'; readonly message: string; readonly pauseMs: number })
  | (At & { readonly type: 'done' } & TransferResult);

export interface DamagedNode {
  readonly space: Space;
  readonly hash: Hash;
  /** what is wrong, in one line */
  readonly reason: string;
  /** the state of the node in the target */
  readonly outcome: 'rotten' | 'waiting' | 'upload-again';
}

export interface TransferResult {
  readonly apps: number;
  readonly counts: CopyCounts;
  readonly damagedNodes: number;
  /** ms that this run took */
  readonly elapsedMs: number;
}
