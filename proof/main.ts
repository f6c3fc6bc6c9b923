/**
 * `npm run proof`: what takes too long for every run of the tests. Each section works until its share of the budget is used, from a
 * seed that is written down with what was counted and found, a line a section in proof/ledger.jsonl. Exit 1 if anything was found.
 */
import { execFileSync } from 'node:child_process';
import { parseDuration } from '../packages/protocol/duration.ts';
import { appendLedger } from './ledger.ts';
import { SECTIONS } from './sections.ts';

const BUDGET_DEFAULT = '20m';
const HELP = `npm run proof -- [--budget 20m] [--only SECTION] [--seed N]

Sections: ${SECTIONS.map(({ name }) => name).join(', ')}. Each gets an equal share of the budget; the same seed does the same work.
What was counted and found is a line in proof/ledger.jsonl; exit 1 if anything was found.
`;

interface Options {
  readonly budgetMs: number;
  readonly seed: number;
  readonly only: string | undefined;
}

class WrongUsage extends Error {}

function parseOptions(words: readonly string[]): Options | undefined {
  const given = new Map<string, string>();
  for (let index = 0; index < words.length; index += 2) {
    const [flag = '', value] = words.slice(index, index + 2);
    if (flag === '--help') return undefined;
    if (!['--budget', '--only', '--seed'].includes(flag)) throw new WrongUsage(`there is no option ${flag}`);
    if (value === undefined) throw new WrongUsage(`${flag} needs a value`);
    given.set(flag, value);
  }
  const seed = Number(given.get('--seed') ?? Date.now() % 2 ** 31);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new WrongUsage('--seed takes a whole number from 0 on');
  const only = given.get('--only');
  if (only !== undefined && !SECTIONS.some(({ name }) => name === only))
    throw new WrongUsage(`there is no section ${only}`);
  return { budgetMs: parseDuration(given.get('--budget') ?? BUDGET_DEFAULT), seed, only };
}

async function prove({ budgetMs, seed, only }: Options): Promise<boolean> {
  const sections = SECTIONS.filter(({ name }) => only === undefined || name === only);
  let isGood = true;
  for (const { name, run } of sections) {
    const startedAt = performance.now();
    const untilMs = startedAt + budgetMs / sections.length;
    const { counts, found } = await run({ seed, isOver: () => performance.now() >= untilMs });
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    appendLedger({
      at: new Date().toISOString(),
      commit: readCommit(),
      section: name,
      seed,
      seconds,
      counts,
      found,
    });
    const counted = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
    console.log(`${name}: ${counted.join(', ')}; ${found.length} found; seed ${seed}, ${seconds} s`);
    for (const fault of found) console.log(`  ${fault}`);
    if (found.length > 0) isGood = false;
  }
  return isGood;
}

/** With a mark where the files are not those of the commit. */
function readCommit(): string {
  const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim();
  const changed = git('status', '--porcelain', '--', '.', ':!proof/ledger.jsonl');
  return `${git('rev-parse', '--short=8', 'HEAD')}${changed === '' ? '' : '+'}`;
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === undefined) process.stdout.write(HELP);
  else process.exitCode = (await prove(options)) ? 0 : 1;
} catch (error) {
  console.error(`proof: ${error instanceof Error ? error.message : error}; see npm run proof -- --help`);
  process.exitCode = 2;
}
