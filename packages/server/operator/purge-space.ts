/** `space purge`: deletes everything in a Space of an App that is no longer served. */
import { REGISTRY_STALE_MS_MAX } from '@holdfast/protocol';
import { purgeSpace } from '../core/collect/purge-space.ts';
import type { Space } from '../core/model.ts';
import { APP, SPACE } from './fields.ts';
import { type OperationCall, operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { COUNT, record } from './schemas.ts';
import { namingDamage, spacesOf } from './spaces.ts';

export const purge = operation({
  method: 'POST',
  path: 'spaces/purge',
  right: 'spaces',
  summary: 'Remove everything in a Space of a suspended or removed App; call again until it is finished',
  input: {
    app: APP,
    space: SPACE,
    confirm: { ...SPACE, schema: { ...SPACE.schema, description: 'The id of the Space again.' } },
  },
  output: record({
    nodes: { ...COUNT, description: 'Removed by this call.' },
    left: { ...COUNT, description: 'What the Space still has of nodes.' },
    finished: { type: 'boolean' },
  }),
  run: async (call, { app, space: spaceId, confirm }) => {
    if (confirm !== spaceId) {
      throw new OperatorError('INVALID_INPUT', 'confirm is not the id of the Space: nothing was removed');
    }
    const space: Space = { appId: app, spaceId };
    const stoppedMs = await assertStopped(call, app);
    await assertKnown(call, space);
    await outwaitCopies(call, app, stoppedMs);
    // A caller repeats the call until it is finished, and can show progress.
    const endsAt = performance.now() + 3_000;
    const mayGoOn = async (isAround: boolean): Promise<boolean> => {
      if (call.signal.aborted || (!isAround && performance.now() > endsAt)) return false;
      await assertStopped(call, app);
      return true;
    };
    const { nodes, left, isFinished } = await namingDamage(purgeSpace(call.core, space, mayGoOn));
    return { nodes, left, finished: isFinished };
  },
});

/** Checks that every process's copy of the registry knows that the App is stopped. How long ago, ms, by a clock that may have been set. */
async function assertStopped({ deployment }: OperationCall, appId: string): Promise<number> {
  const app = (await deployment.apps.readAll()).find((each) => each.appId === appId);
  if (app?.status === 'active') {
    throw new OperatorError(
      'CONFLICT',
      `the App ${JSON.stringify(appId)} is active: suspend it first (holdfast app suspend), wait 5 s, then purge`,
    );
  }
  if (app?.status === 'damaged') {
    throw new OperatorError(
      'CONFLICT',
      `what is registered of the App ${JSON.stringify(appId)} is damaged: write it anew with holdfast app add --replace, or remove it`,
    );
  }
  const stoppedAt = (await deployment.apps.findStoppedAt(appId)) ?? 0;
  // The registry of a folder uses the wall clock.
  const now = deployment.isClockSteady ? Date.now() : await deployment.rows.readClock();
  const stoppedMs = now - stoppedAt;
  if (stoppedMs >= 0 && stoppedMs < REGISTRY_STALE_MS_MAX) throw stillServed(appId, stoppedMs);
  return stoppedMs;
}

function stillServed(appId: string, stoppedMs: number): OperatorError {
  const seconds = Math.ceil((REGISTRY_STALE_MS_MAX - stoppedMs) / 1000);
  const message = `servers may still serve the App ${JSON.stringify(appId)}: purge its Spaces in ${seconds} s`;
  return new OperatorError('CONFLICT', message);
}

/** Waits the same time by the monotonic clock of the server, or of a command if the App was stopped in the future. */
async function outwaitCopies(
  { live, signal }: OperationCall,
  appId: string,
  stoppedMs: number,
): Promise<void> {
  const endsAt = performance.now() + 2 * REGISTRY_STALE_MS_MAX;
  const startedAt = performance.now();
  const readMs = (): number => {
    if (live !== undefined) return live.stoppedForMs(appId);
    return stoppedMs < 0 ? performance.now() - startedAt : REGISTRY_STALE_MS_MAX;
  };
  for (let ms = readMs(); ms < REGISTRY_STALE_MS_MAX; ms = readMs()) {
    if (performance.now() > endsAt || signal.aborted) throw stillServed(appId, ms);
    await Bun.sleep(Math.ceil(REGISTRY_STALE_MS_MAX - ms));
  }
}

async function assertKnown({ core }: OperationCall, { appId, spaceId }: Space): Promise<void> {
  for await (const page of spacesOf(core, appId)) {
    if (page.some(({ space }) => space.spaceId === spaceId)) return;
  }
  throw new OperatorError(
    'NOT_FOUND',
    `the App ${JSON.stringify(appId)} has no Space ${JSON.stringify(spaceId)}; see them with: holdfast space list`,
  );
}
