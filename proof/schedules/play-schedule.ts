/** Plays one schedule: an operation is cut in two before one of its port calls, or several, and whole others run there. */

import { runGc } from '../../packages/server/core/collect/run-gc.ts';
import { sweep } from '../../packages/server/core/collect/sweep.ts';
import type { Core } from '../../packages/server/core/core.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import { updateRootRefs } from '../../packages/server/core/refs/update-root-refs.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import { HOUR_MS } from '../row-rot/world.ts';
import { ACTORS, untilDone } from './actors.ts';
import { CASTS } from './cast.ts';
import { DOMAINS, Play } from './play.ts';
import { SCENES } from './scenes.ts';
import { withTurns } from './turns.ts';
import type { ScheduleWorld } from './world.ts';

/** Before the port call of that number, from 0, those of what runs in between included. */
interface Preemption {
  readonly at: number;
  readonly by: string;
}

export interface Schedule {
  readonly scene: string;
  readonly operation: string;
  readonly preemptions: readonly Preemption[];
}

export interface Played {
  /** port calls of the operation and of what ran in between */
  readonly calls: number;
  /** how many preemptions came to pass */
  readonly preempted: number;
  readonly wrong: readonly string[];
}

/** Longer than an abandoned upload, an unclaimed pack, a late PUT or a tombstone is kept. */
const SETTLED_HOURS = 24 * 9;
const SETTLING_ROUNDS = 3;
const NODES_PER_GC = 1000;
const ROOT_REFS_MAX = 100;

let spaces = 0;

export async function playSchedule(world: ScheduleWorld, schedule: Schedule): Promise<Played> {
  const scene = SCENES[schedule.scene];
  const operation = ACTORS[schedule.operation];
  if (scene === undefined || operation === undefined) throw new Error(`there is no ${describe(schedule)}`);
  spaces += 1;
  const play = new Play(world, { appId: 'app', spaceId: `schedule ${spaces}` }, CASTS[scene.cast]);
  let [calls, preempted] = [0, 0];
  const turn = async (): Promise<void> => {
    const at = calls;
    calls += 1;
    for (const each of schedule.preemptions) {
      if (each.at !== at) continue;
      preempted += 1;
      await ACTORS[each.by]?.(play, core);
    }
  };
  const core: Core = withTurns(world.core, turn);
  await scene.prepare(play);
  const isPrepared = play.wrong.length === 0;
  await operation(play, core);
  const { wrong } = play;
  await play.verify(world.core);
  wrong.push(...(await findFaults(play)));
  await settle(play);
  if (!isPrepared) wrong.unshift('the scene itself is wrong');
  wrong.push(...world.fatal.map(({ message }) => `the process would end: ${message}`));
  return { calls, preempted, wrong };
}

/** Without the look at pages: no schedule damages one. */
async function findFaults({ space, world }: Play): Promise<string[]> {
  const { metadata, ...rest } = world.core;
  const core: Core = {
    ...rest,
    metadata: new Proxy(metadata, {
      get(target, name) {
        if (name === 'findPageDamage' || name === 'findRowDamage') return undefined;
        if (name === 'listSpaces') return () => [{ space, position: '' }];
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
  };
  const wanted = { isRepaired: false, rehashPercent: 100, signal: new AbortController().signal };
  const { findings } = await checkDeployment(core, { ...wanted, report: () => undefined });
  return findings.filter(isFault).map(({ kind, hash, message }) => `check: ${kind} ${hash} ${message}`);
}

/** A rotten node is part of some scenes. */
const isFault = ({ kind }: { readonly kind: string }): boolean => kind !== 'rotten';

/** Once everything is given back, nothing stays: no row, no object. */
async function settle(play: Play): Promise<void> {
  const { world, space, wrong } = play;
  const { core, clock } = world;
  try {
    for (const domain of DOMAINS) {
      const { items } = await listRootRefs(core, space, domain, { limit: ROOT_REFS_MAX });
      const changes = items.map(({ hash, refCount }) => ({ hash, delta: -refCount }));
      if (changes.length > 0) await updateRootRefs(core, space, domain, { requestId: 'the last', changes });
    }
    for (let round = 0; round < SETTLING_ROUNDS && !(await isEmpty(play)); round += 1) {
      clock.now += SETTLED_HOURS * HOUR_MS;
      await untilDone(async () => (await runGc(core, space, NODES_PER_GC)).deleted > 0);
      await untilDone(async () => (await sweep(core)).moreToDo);
    }
    if (!(await isEmpty(play))) wrong.push(`nodes or objects stay: ${world.objects().join(', ')}`);
  } catch (error) {
    wrong.push(`it does not settle: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

async function isEmpty({ world, space }: Play): Promise<boolean> {
  const { nodeCount } = await world.core.metadata.readCounters(space);
  return nodeCount === 0 && world.objects().length === 0;
}

export function describe({ scene, operation, preemptions }: Schedule): string {
  return `[${scene}] ${operation}${preemptions.map(({ at, by }) => ` | ${at}: ${by}`).join('')}`;
}
