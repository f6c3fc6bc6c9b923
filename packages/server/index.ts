/** The door of the server for the command line and tests. What serves or copies is loaded when it is called. */

import type { Caller } from './operator/operation.ts';
import type {
  OperationName,
  InputOf as OperatorInput,
  OutputOf as OperatorOutput,
  PartOperationName,
} from './operator/operations.ts';
import type { OperatorWhere } from './operator/run-operation.ts';
import type { PartWhere } from './operator/run-part-operation.ts';

export type { DescribedApp } from './deployment/describe-app.ts';
export {
  nameRows,
  parseBucketPlace,
  parseDeploymentPlace,
  parseOperatedPlace,
  parseRowsPlace,
  type RowsPlace,
} from './deployment/place.ts';
export { openRegistry } from './deployment/registry.ts';
export { parseWebAddress } from './engine/address.ts';
export { ConfigError, ServeError } from './errors.ts';
export type { ConfigReport } from './serve/check-config.ts';
export type { ServeConfig, ServeFlags } from './serve/config.ts';
export type { TransferEvent, TransferResult } from './transfer/events.ts';
export type { Transfer, TransferPlan } from './transfer/transfer-deployment.ts';
export type { OperationName, OperatorInput, OperatorOutput, OperatorWhere, PartOperationName, PartWhere };

export const parseServeConfig = async (
  ...options: Parameters<typeof import('./serve/config.ts').parseServeConfig>
) => (await import('./serve/config.ts')).parseServeConfig(...options);

export const checkConfig: typeof import('./serve/check-config.ts').checkConfig = async (...options) =>
  (await import('./serve/check-config.ts')).checkConfig(...options);

export const serve: typeof import('./serve/main.ts').serve = async (...options) =>
  (await import('./serve/main.ts')).serve(...options);

export const runOperation = async <N extends OperationName>(
  where: OperatorWhere,
  name: N,
  input: OperatorInput<N>,
  caller: Caller,
): Promise<OperatorOutput<N>> =>
  (await import('./operator/run-operation.ts')).runOperation(where, name, input, caller);

export const runPartOperation = async <N extends PartOperationName>(
  where: PartWhere,
  name: N,
  input: OperatorInput<N>,
  caller: Caller,
): Promise<OperatorOutput<N>> =>
  (await import('./operator/run-part-operation.ts')).runPartOperation(where, name, input, caller);

export const runWorker = async (): Promise<void> => (await import('./serve/worker.ts')).runWorker();

export const transferDeployment: typeof import('./transfer/transfer-deployment.ts').transferDeployment =
  async (...options) => (await import('./transfer/transfer-deployment.ts')).transferDeployment(...options);

export const planTransfer: typeof import('./transfer/transfer-deployment.ts').planTransfer = async (
  ...options
) => (await import('./transfer/transfer-deployment.ts')).planTransfer(...options);

export type { BackupResult } from './backup/make-backup.ts';
export type { RestoreResult } from './backup/restore-backup.ts';
export type { BackupVerdict } from './backup/verdict.ts';

export const makeBackup: typeof import('./backup/make-backup.ts').makeBackup = async (...options) =>
  (await import('./backup/make-backup.ts')).makeBackup(...options);

export const checkBackup: typeof import('./backup/check-backup.ts').checkBackup = async (...options) =>
  (await import('./backup/check-backup.ts')).checkBackup(...options);

export const restoreBackup: typeof import('./backup/restore-backup.ts').restoreBackup = async (...options) =>
  (await import('./backup/restore-backup.ts')).restoreBackup(...options);

export type { BucketRestoreResult } from './backup/read-bucket-backup.ts';

export const backUpBucket: typeof import('./backup/back-up-bucket.ts').backUpBucket = async (...options) =>
  (await import('./backup/back-up-bucket.ts')).backUpBucket(...options);

export const restoreBucket: typeof import('./backup/read-bucket-backup.ts').restoreBucket = async (
  ...options
) => (await import('./backup/read-bucket-backup.ts')).restoreBucket(...options);
