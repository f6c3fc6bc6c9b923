/**
 * The table of all operations. To add one: describe it in a file of its own and name it here; the listener, the channel, the
 * commands, the OpenAPI document and the test that walks the table then know it.
 */

import { acceptRestore } from './accept-restore.ts';
import { revokeApp, setApp } from './app-limits.ts';
import { addApp, listApps, removeApp, resumeApp, suspendApp } from './apps.ts';
import { check } from './check.ts';
import { explain } from './explain.ts';
import type { Given } from './fields.ts';
import { getHistory } from './history.ts';
import { listAudit } from './list-audit.ts';
import type { OperationCall } from './operation.ts';
import { planCollection } from './plan-gc.ts';
import { purge } from './purge-space.ts';
import { signIn } from './redeem-sign-in.ts';
import { listRotten } from './rotten.ts';
import { collect, listSpaces } from './spaces.ts';
import { getStatus } from './status.ts';

export const OPERATIONS = {
  getStatus,
  getHistory,
  listRotten,
  signIn,
  listApps,
  addApp,
  suspendApp,
  resumeApp,
  removeApp,
  setApp,
  revokeApp,
  listSpaces,
  collectSpace: collect,
  purgeSpace: purge,
  planCollection,
  explain,
  check,
  acceptRestore,
  listAudit,
} as const;

export type OperationName = keyof typeof OPERATIONS;

/** What a caller of the operation gives. */
export type InputOf<N extends OperationName> = Given<(typeof OPERATIONS)[N]['input']>;
/** What the operation answers. */
export type OutputOf<N extends OperationName> = (typeof OPERATIONS)[N] extends {
  run(call: OperationCall, input: never): Promise<infer O>;
}
  ? O
  : never;

export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[];
