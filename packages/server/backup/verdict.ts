/** The result and the progress of a check of a backup. */
import type { DamagedNode } from './verify-nodes.ts';

export interface BackupVerdict {
  readonly ok: boolean;
  /** ms; when the backup was made */
  readonly createdAt: number;
  /** the check of a bucket's backup cannot read nodes in its objects, so `nodes` counts objects there */
  readonly counted: 'node' | 'object';
  readonly nodes: number;
  readonly bytes: number;
  readonly damagedNodes: readonly DamagedNode[];
  /** damaged files, pages and rows */
  readonly damagedFiles: readonly string[];
}

export interface CheckRun {
  onProgress(step: string): void;
}
