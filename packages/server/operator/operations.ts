/** The table of all operations. Listener, channel, commands and OpenAPI document follow it. */

import { acceptRestore, rotateSecret } from './accept-restore.ts';
import { addApp, listApps, removeApp, resumeApp, revokeApp, setApp, suspendApp } from './apps.ts';
import { backUp, getBackup } from './backup.ts';
import { check } from './check.ts';
import { explain } from './explain.ts';
import { type Given, parseFields } from './fields.ts';
import type { Operation, OperationCall, PartCalls } from './operation.ts';
import { purge } from './purge-space.ts';
import { makeConsoleLink, signIn } from './redeem-sign-in.ts';
import { collect, listSpaces, planCollection } from './spaces.ts';
import { getHistory, getStatus, listAudit, listRotten } from './status.ts';

export const OPERATIONS = {
  getStatus,
  getHistory,
  listRotten,
  signIn,
  makeConsoleLink,
  listApps,
  addApp,
  suspendApp,
  resumeApp,
  removeApp,
  setApp,
  revokeApp,
  rotateSecret,
  listSpaces,
  collectSpace: collect,
  purgeSpace: purge,
  planCollection,
  explain,
  check,
  getBackup,
  backUp,
  acceptRestore,
  listAudit,
} as const;

export type OperationName = keyof typeof OPERATIONS;

export type PartOperationName = {
  [N in OperationName]: (typeof OPERATIONS)[N] extends { readonly needs: string } ? N : never;
}[OperationName];

export type InputOf<N extends OperationName> = Given<(typeof OPERATIONS)[N]['input']>;
export type OutputOf<N extends OperationName> = (typeof OPERATIONS)[N] extends {
  run(call: OperationCall, input: never): Promise<infer O>;
}
  ? O
  : never;

export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[];

/** Runs the operation on what this process has open. @throws OperatorError for invalid input, and what the operation throws */
export async function runWith<N extends OperationName>(
  call: OperationCall | PartCalls[keyof PartCalls],
  name: N,
  input: InputOf<N>,
): Promise<OutputOf<N>> {
  // The table's types tie input and output to the name; the code here treats all operations alike.
  const operation = OPERATIONS[name] as unknown as Operation;
  const given = Object.entries(input).filter(([, value]) => value !== undefined);
  const parsed = parseFields(operation.input, new Map(given));
  return (await operation.run(call as OperationCall, parsed)) as OutputOf<N>;
}
