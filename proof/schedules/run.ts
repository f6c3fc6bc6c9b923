/** Goes through schedules: all of depth 1, and for each operation in each scene some of depth 2 and 3, which a seed draws. */
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import { recount } from '../../test/support/embedded-recount.ts';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import { ACTORS } from './actors.ts';
import { describe, type Played, playSchedule, type Schedule } from './play-schedule.ts';
import { SCENES } from './scenes.ts';
import { listObjects, type ScheduleWorld } from './world.ts';

export interface SchedulesWanted {
  /** Also where it begins: operations in scenes have one order, and a run whose seed is larger by what one has done goes on there. */
  readonly seed: number;
  /** Opens a world without a row. */
  open(): Promise<ScheduleWorld>;
  /** of depth 1, for each operation in a scene; left out: all */
  readonly shallowMax?: number;
  /** of depth 2 and 3, for each operation in a scene */
  readonly deep: number;
  /** told how many schedules there were */
  isOver(played: number): boolean;
}

/** Any other would do. */
const ORDER = 27;
const DEPTH_MAX = 3;
const NAMES = Object.keys(ACTORS);
/** Each opens two deployments more. Where not all are played, they come as seldom as they are dear. */
const DEAR = new Set(['backup', 'migrate']);
const DEAR_SHARE = 0.2;
const CHEAP = NAMES.filter((name) => !DEAR.has(name));

/** A walk over the operations in all scenes. */
export class Schedules {
  schedules = 0;
  /** operations in scenes of which all were played */
  pairs = 0;
  /** those in which something ran between */
  preempted = 0;
  /** what was played, and what was wrong */
  readonly found: string[] = [];
  readonly #wanted: SchedulesWanted;
  readonly #random: SeededRandom;
  readonly #left: Pick<Schedule, 'scene' | 'operation'>[];
  #world: ScheduleWorld | undefined;
  #played = 0;

  constructor(wanted: SchedulesWanted) {
    this.#wanted = wanted;
    this.#random = makeRandom(wanted.seed);
    const pairs = Object.keys(SCENES).flatMap((scene) => NAMES.map((operation) => ({ scene, operation })));
    const ordered = shuffle(makeRandom(ORDER), pairs);
    const first = wanted.seed % ordered.length;
    this.#left = [...ordered.slice(first), ...ordered.slice(0, first)];
  }

  get #isOver(): boolean {
    return this.#wanted.isOver(this.schedules);
  }

  /** One operation in one scene, by itself and cut in two. Resolves false when it is over. */
  async playNext(): Promise<boolean> {
    const pair = this.#isOver ? undefined : this.#left.shift();
    if (pair === undefined) return false;
    const { calls } = await this.#play({ ...pair, preemptions: [] });
    const { shallowMax } = this.#wanted;
    const all = shuffle(this.#random, listPreemptions(calls));
    const chosen = shallowMax === undefined ? all : all.map((each) => this.#spare(each)).slice(0, shallowMax);
    for (let count = 0; count < this.#wanted.deep && calls > 0; count += 1)
      chosen.push(this.#spare(drawDeep(this.#random, calls)));
    for (const preemptions of chosen) {
      if (this.#isOver) return false;
      await this.#play({ ...pair, preemptions });
    }
    this.pairs += 1;
    return true;
  }

  /** With most of what is dear replaced. */
  #spare(preemptions: Preemptions): Preemptions {
    const isKept = (by: string): boolean => !DEAR.has(by) || this.#random.chance(DEAR_SHARE);
    return preemptions.map(({ at, by }) => ({
      at,
      by: isKept(by) ? by : (this.#random.pick(CHEAP) as string),
    }));
  }

  async #play(schedule: Schedule): Promise<Played> {
    const world = this.#world ?? (await this.#wanted.open());
    this.#world = world;
    const played = await playSchedule(world, schedule);
    this.schedules += 1;
    this.#played += 1;
    if (played.preempted > 0) this.preempted += 1;
    if (played.wrong.length > 0) this.found.push(`${describe(schedule)}: ${played.wrong.join('; ')}`);
    // What one schedule left must not be found again in the next.
    if (played.wrong.length > 0 || this.#played === world.schedulesMax) await this.close();
    return played;
  }

  /** Ends the world. Sums of rows, pages, and a count by other statements than the server's are looked at here. */
  async close(): Promise<void> {
    const world = this.#world;
    if (world === undefined) return;
    this.#world = undefined;
    this.#played = 0;
    const wanted = { isRepaired: false, rehashPercent: 100, signal: new AbortController().signal };
    const { findings } = await checkDeployment(world.core, { ...wanted, report: () => undefined });
    this.found.push(...findings.map(({ kind, message }) => `after the last of a world: ${kind} ${message}`));
    if (world.dataDir !== undefined) {
      const apart = listObjects(world.dataDir).filter((name) => !world.objects().includes(name));
      this.found.push(
        ...recount(world.dataDir).problems,
        ...apart.map((name) => `${name} lies where nobody looks`),
      );
    }
    await world.close();
  }
}

type Preemptions = Schedule['preemptions'];

function listPreemptions(calls: number): Preemptions[] {
  return Array.from({ length: calls }, (_, at) => NAMES.map((by) => [{ at, by }])).flat();
}

/** What runs between may itself be cut in two: its calls come to those of the operation. */
function drawDeep(random: SeededRandom, calls: number): Preemptions {
  const depth = 2 + random.below(DEPTH_MAX - 1);
  return Array.from({ length: depth }, (_, index) => ({
    at: random.below(calls * (index + 1)),
    by: random.pick(NAMES) as string,
  })).sort((left, right) => left.at - right.at);
}

function shuffle<T>(random: SeededRandom, items: readonly T[]): T[] {
  const left = [...items];
  for (let last = left.length - 1; last > 0; last -= 1) {
    const other = random.below(last + 1);
    [left[last], left[other]] = [left[other] as T, left[last] as T];
  }
  return left;
}
