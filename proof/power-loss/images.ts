/** Power losses at many moments of one traced scenario, each judged by the product itself. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeRandom, type SeededRandom } from '../../test/support/seeded-random.ts';
import type { Inode } from './disk-steps.ts';
import { type Loss, Moment } from './power-loss.ts';
import type { TracedRun } from './traced-run.ts';

export interface Scenario {
  readonly name: string;
  readonly run: TracedRun;
  /** A line for each thing that must not be, on what a power loss at that line of the trace left in the folder. */
  verify(disk: string, at: number): Promise<string[]>;
}

const DISKS = ['strict', 'journaling'] as const;
const WRITES = ['none', 'all', 'first', 'last', 'torn-512', 'torn-4096'] as const;
const NAMES = ['none', 'all', 'some'] as const;
const SEEDS = 2 ** 31;

export interface ImagesResult {
  readonly images: number;
  readonly found: readonly string[];
}

export async function judgeImages(
  scenario: Scenario,
  random: SeededRandom,
  goesOn: (images: number) => boolean,
): Promise<ImagesResult> {
  const found: string[] = [];
  let images = 0;
  for (; goesOn(images); images += 1) {
    const loss = { disk: pick(random, DISKS), writes: pick(random, WRITES), names: pick(random, NAMES) };
    const fault = await judgeImage(scenario, random, loss);
    if (fault !== undefined) found.push(fault);
  }
  return { images, found };
}

/** `isSync` false: this fsync is left out. Returns what is wrong, and where the image is kept. */
export async function judgeImage(
  { name, run, verify }: Scenario,
  random: SeededRandom,
  loss: Loss,
  { isSync, isKept = true }: { readonly isSync?: (inode: Inode) => boolean; readonly isKept?: boolean } = {},
): Promise<string | undefined> {
  const at = chooseMoment(run, random);
  const image = run.beside('image');
  const moment = new Moment(run.disk.steps, at, loss.disk, isSync);
  const seed = random.below(SEEDS);
  const make = (folder: string): void => moment.make(run.disk, folder, loss, makeRandom(seed));
  make(image);
  const wrong = await verify(image, at);
  rmSync(image, { recursive: true, force: true });
  if (wrong.length === 0) return undefined;
  // The one that was judged has changed.
  const where = isKept ? join(mkdtempSync(join(tmpdir(), 'holdfast-power-loss-')), 'image') : undefined;
  if (where !== undefined) make(where);
  return `${name}, line ${at}, ${Object.values(loss).join(' ')}: ${wrong.join('; ')}${where === undefined ? '' : `; the image is kept in ${where}`}`;
}

/** Mostly right after an answer: what was just acknowledged is what is lost most easily. */
function chooseMoment({ disk }: TracedRun, random: SeededRandom): number {
  const steps = disk.steps.filter(({ start }) => start >= 0);
  const answers = steps.filter(({ kind }) => kind === 'answer' || kind === 'exit');
  const answer = random.chance(0.5) ? random.pick(answers) : undefined;
  return answer?.start ?? random.pick(steps)?.end ?? 0;
}

const pick = <T>(random: SeededRandom, items: readonly T[]): T => items[random.below(items.length)] as T;
