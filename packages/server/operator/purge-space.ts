/** `space purge`: everything in a Space of an App that is not served any more. */
import { REGISTRY_STALE_MS_MAX } from '@holdfast/protocol';
import type { Space } from '../core/model.ts';
import { purgeSpace } from '../core/purge-space.ts';
import { APP, SPACE } from './fields.ts';
import { namingDamage } from './naming-damage.ts';
import { type OperationCall, operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { COUNT, record } from './schemas.ts';
import { spacesOf } from './spaces.ts';

/** One call works no longer: whoever wants it finished calls again, and can tell how far it has come. */
const CALL_MS_MAX = 3_000;

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
    await assertStopped(call, app);
    await assertKnown(call, space);
    const endsAt = performance.now() + CALL_MS_MAX;
    const mayGoOn = async (isAround: boolean): Promise<boolean> => {
      if (call.signal.aborted || (!isAround && performance.now() > endsAt)) return false;
      await assertStopped(call, app);
      return true;
    };
    const { nodes, left, isFinished } = await namingDamage(purgeSpace(call.core, space, mayGoOn));
    return { nodes, left, finished: isFinished };
  },
});

/** No process serves an App any more once its copy of the registry must be younger than the end of the App. */
async function assertStopped({ deployment }: OperationCall, appId: string): Promise<void> {
  const app = (await deployment.apps.readAll()).find((each) => each.appId === appId);
  if (app?.status === 'active') {
    throw new OperatorError(
      'CONFLICT',
      `the App ${JSON.stringify(appId)} is active: suspend it first (holdfast app suspend), wait 5 s, then purge`,
    );
  }
  const stoppedAt = (await deployment.apps.findStoppedAt(appId)) ?? 0;
  const from = stoppedAt + REGISTRY_STALE_MS_MAX;
  // A folder's registry goes by the wall clock.
  const now = deployment.isClockSteady ? Date.now() : await deployment.rows.readClock();
  if (now < from) {
    throw new OperatorError(
      'CONFLICT',
      `servers may still serve the App ${JSON.stringify(appId)}: purge its Spaces from ${new Date(from).toISOString()} on`,
    );
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
