/** For operations on the Apps or the secret: over the operator API or channel, or here without a lock, as each is one transaction. */

import { hasRows, openSecret } from '../deployment/open.ts';
import { nameRows, type RowsPlace } from '../deployment/place.ts';
import { findRegistry, openRegistry } from '../deployment/registry.ts';
import { NotFoundError, ServeError } from '../errors.ts';
import { callHolder, callOperation, NoServer, type OperatorAddress } from './call-operation.ts';
import type { Caller, PartCalls } from './operation.ts';
import { type InputOf, OPERATIONS, type OutputOf, type PartOperationName, runWith } from './operations.ts';

export type PartWhere =
  | { readonly kind: 'address'; readonly address: OperatorAddress }
  | { readonly kind: 'rows'; readonly place: RowsPlace };

/** Rejects with ServeError, whose message is one line. */
export async function runPartOperation<N extends PartOperationName>(
  where: PartWhere,
  name: N,
  input: InputOf<N>,
  caller: Caller,
): Promise<OutputOf<N>> {
  if (where.kind === 'address') return callOperation(where.address, name, input, caller);
  const { place } = where;
  if (place.kind === 'folder') {
    try {
      return await callHolder(place.dataDir, name, input, caller);
    } catch (error) {
      // A server that is ending starts nothing, so nothing runs twice.
      if (!(error instanceof NoServer) || caller.signal.aborted) throw error;
    }
  }
  return runHere(place, name, input);
}

async function runHere<N extends PartOperationName>(
  place: RowsPlace,
  name: N,
  input: InputOf<N>,
): Promise<OutputOf<N>> {
  const opened = await openPart(place, name);
  if (opened === undefined) return answerWithoutApps(place, name, input);
  try {
    return await runWith(opened.call, name, input);
  } finally {
    await opened.close();
  }
}

interface OpenPart {
  readonly call: PartCalls[keyof PartCalls];
  readonly close: () => Promise<void>;
}

/** undefined if there is no registry and the operation creates none */
async function openPart(place: RowsPlace, name: PartOperationName): Promise<OpenPart | undefined> {
  if (OPERATIONS[name].needs === 'apps') {
    const registry = await (name === 'addApp' ? openRegistry(place) : findRegistry(place));
    return registry && { call: { registry }, close: () => registry.close() };
  }
  if (!(await hasRows(place))) {
    throw new ServeError(`${nameRows(place)} holds no deployment: start a server on it first`);
  }
  const { secret, close } = await openSecret(place);
  return { call: { secret }, close };
}

function answerWithoutApps<N extends PartOperationName>(
  place: RowsPlace,
  name: N,
  input: InputOf<N>,
): OutputOf<N> {
  if (name === 'listApps') return { apps: [] } satisfies OutputOf<'listApps'> as unknown as OutputOf<N>;
  const { app } = input as { readonly app?: string };
  const flag = place.kind === 'folder' ? '--data' : '--metadata';
  throw new NotFoundError(
    `there is no App ${JSON.stringify(app)}: ${nameRows(place)} has no registry yet; check ${flag}`,
  );
}
