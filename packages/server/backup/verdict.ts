/** What the check of a backup says, and tells on its way. */
import type { DamagedNode } from './verify-nodes.ts';

export interface BackupVerdict {
  readonly ok: boolean;
  /** ms; when the backup was made */
  readonly createdAt: number;
  /** a backup of a bucket cannot look into its objects: there `nodes` counts those */
  readonly counted: 'nodes' | 'objects';
  readonly nodes: number;
  readonly bytes: number;
  readonly damagedNodes: readonly DamagedNode[];
  /** files and pages that are not as they were written */
  readonly damagedFiles: readonly string[];
}

export interface CheckRun {
  onProgress(step: string): void;
}
