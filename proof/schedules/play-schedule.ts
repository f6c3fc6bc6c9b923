/** Plays one schedule: an operation is cut in two before one of its port calls, or several, and whole others run there. */
import type { Core } from '../../packages/server/core/core.ts';
import type { SpaceSnapshot } from '../../packages/server/core/inspection-ports.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import { ACTORS } from './actors.ts';
import { CASTS } from './cast.ts';
import { Play } from './play.ts';
import { SCENES } from './scenes.ts';
import { settle } from './settle.ts';
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
  const clocks = world.makeGuard();
  await scene.prepare(play);
  await clocks.assertAgree();
  const core: Core = withTurns({ ...world.core, clocks }, turn);
  const isPrepared = play.wrong.length === 0;
  await operation(play, core);
  if (play.isClockSet) await putClockRight(play, { ...world.core, clocks });
  const { wrong } = play;
  await play.verify(world.core);
  wrong.push(...(await findFaults(play)));
  wrong.push(...(await settle(world, play.space)));
  if (!isPrepared) wrong.unshift('the scene itself is wrong');
  wrong.push(...world.fatal.map(({ message }) => `the process would end: ${message}`));
  return { calls, preempted, wrong };
}

/** What a wrong clock has left behind must not mislead a collection, neither before the clock is put right nor after. */
async function putClockRight(play: Play, core: Core): Promise<void> {
  for (const aheadMs of [play.world.clock.aheadMs, 0]) {
    play.world.clock.aheadMs = aheadMs;
    await ACTORS.collection?.(play, core);
    await ACTORS.sweep?.(play, core);
  }
}

/** Without the look at pages: no schedule damages one. Nothing runs beside it, so it looks at the rows of one instant. */
async function findFaults({ space, world }: Play): Promise<string[]> {
  const { metadata, ...rest } = world.core;
  const wanted = { isRepaired: false, rehashPercent: 100, signal: new AbortController().signal };
  const { findings } = await metadata.inspect(space, (snapshot) => {
    const core: Core = {
      ...rest,
      metadata: new Proxy(metadata, {
        get(target, name) {
          if (name === 'findPageDamage' || name === 'findRowDamage') return undefined;
          if (name === 'page') return () => [{ space, position: '' }];
          if (name === 'inspect')
            return (_space: Space, work: (rows: SpaceSnapshot) => unknown) => work(snapshot);
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
    };
    return checkDeployment(core, { ...wanted, report: () => undefined });
  });
  return findings.filter(isFault).map(({ kind, hash, message }) => `check: ${kind} ${hash} ${message}`);
}

/** A rotten node is part of some scenes. */
const isFault = ({ kind }: { readonly kind: string }): boolean => kind !== 'rotten';

/** What `describe` says. */
export function parseSchedule(text: string): Schedule {
  const [, scene = '', operation = '', rest = ''] =
    /^\[([^\]]+)\] ([^|]+?)((?: \| \d+: [^|]+)*)$/.exec(text) ?? [];
  const preemptions = rest
    .split(' | ')
    .slice(1)
    .map((each) => {
      const [at = '', by = ''] = each.split(': ');
      return { at: Number(at), by };
    });
  return { scene, operation, preemptions };
}

export function describe({ scene, operation, preemptions }: Schedule): string {
  return `[${scene}] ${operation}${preemptions.map(({ at, by }) => ` | ${at}: ${by}`).join('')}`;
}
