/** `npm run bench`: measures every row of the speed and memory table and says which targets are reached. */
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import type { Bench, Row } from './bench.ts';
import { endLeftServers } from './child-process.ts';
import { runChild } from './children.ts';
import { measureFsyncMs } from './disk.ts';
import { chooseCores, describeMachine, pinSelf } from './machine.ts';
import { findProgram, installPeers, PEER_PACKAGES, packageVersion } from './peers/packages.ts';
import { summarizeProfiles } from './profile.ts';
import { formatReport, judge, type Report, type Verdict } from './report.ts';
import { ROWS } from './rows/index.ts';

interface Options {
  readonly quick: boolean;
  readonly json: boolean;
  readonly only?: readonly string[];
  readonly profile?: string;
  /** as the command line says; left out, each row has its own */
  readonly rounds?: number;
  readonly seconds?: number;
  readonly large: number;
  readonly out?: string;
  readonly scratch: string;
}

const ROOT = join(import.meta.dir, '..');
const USUAL = { rounds: 5, seconds: 4 };
const QUICK = { rounds: 1, seconds: 0.2 };

async function runBench(options: Options): Promise<boolean> {
  const rows = selectRows(options.profile === undefined ? options.only : [options.profile]);
  const folder = mkdtempSync(join(options.scratch, 'holdfast-bench-'));
  const progress = (text: string): void => console.error(text);
  const startedAt = new Date().toISOString();
  const out =
    options.out ??
    (options.quick ? join(folder, 'results') : join(import.meta.dir, 'results', nameRun(startedAt)));
  mkdirSync(out, { recursive: true });
  const ended = endWith(folder);
  try {
    const missing = options.quick
      ? missingPeers()
      : installPeers(
          rows.flatMap((row) => row.packages),
          progress,
        );
    const cores = chooseCores();
    if (cores !== undefined) pinSelf(cores.load);
    const machine = describeMachine(folder, measureFsyncMs(folder, options.quick ? 5 : 200));
    const settings = { ...describeLength(options, rows), quick: options.quick, pinned: formatCores(cores) };
    const verdicts: Verdict[] = [];
    const notRun: { row: string; reason: string }[] = [];
    const note = (row: string, error: unknown): void => {
      notRun.push({ row, reason: error instanceof Error ? error.message : String(error) });
    };
    for (const row of rows) {
      const canLack = (name: string): boolean =>
        options.quick && (name === 'wrk' || row.isQuickWithoutPeers === true);
      const lacking = row.packages.filter((name) => missing.includes(name) && !canLack(name));
      if (lacking.length > 0) {
        notRun.push({ row: row.name, reason: `not installed: ${lacking.join(', ')}` });
        continue;
      }
      progress(`measuring ${row.name} …`);
      const bench = makeBench(options, row, { cores, folder, out, progress, notRun: note });
      try {
        verdicts.push(...(await row.run(bench)).map(judge));
      } catch (error) {
        endLeftServers();
        note(row.name, error);
      }
    }
    const report: Report = {
      commit: readCommit(),
      startedAt,
      settings,
      machine,
      packages: peerVersions(),
      verdicts,
      notRun,
    };
    writeFileSync(join(out, 'report.txt'), formatReport(report));
    writeFileSync(join(out, 'report.json'), `${JSON.stringify(report, null, 1)}\n`);
    console.log(options.json ? JSON.stringify(report) : formatReport(report));
    if (options.profile !== undefined) console.log(summarizeProfiles(out));
    if (!options.quick) progress(`raw output: ${out}`);
    return notRun.length === 0;
  } finally {
    ended();
  }
}
interface Place {
  readonly cores: Bench['cores'];
  /** scratch */
  readonly folder: string;
  /** where results go */
  readonly out: string;
  readonly progress: Bench['progress'];
  readonly notRun: Bench['notRun'];
}

/** The tools that one row measures with. */
function makeBench(options: Options, row: Row, { cores, folder, out, progress, notRun }: Place): Bench {
  const raw = join(out, `${row.name}.txt`);
  return {
    cores,
    folder,
    ...lengthOf(options, row),
    connections: 64,
    quick: options.quick,
    hasWrk: findProgram('wrk') !== undefined && !options.quick,
    scaleNodes: options.quick ? { small: 100, large: 400 } : { small: 1000, large: options.large },
    profileFolder: options.profile === undefined ? undefined : out,
    record: (text) => appendFileSync(raw, text),
    progress,
    notRun,
  };
}

function lengthOf(options: Options, row?: Row): Pick<Bench, 'rounds' | 'seconds'> {
  return {
    rounds: options.rounds ?? row?.usual?.rounds ?? USUAL.rounds,
    seconds: options.seconds ?? row?.usual?.seconds ?? USUAL.seconds,
  };
}

/** Also which rows are measured with something else. */
function describeLength(options: Options, rows: readonly Row[]): Record<string, number | string> {
  const length = lengthOf(options);
  const others = rows.flatMap((row): [string, string][] => {
    const own = lengthOf(options, row);
    const isOwn = own.rounds !== length.rounds || own.seconds !== length.seconds;
    return isOwn ? [[row.name, `${own.rounds} of ${own.seconds} s`]] : [];
  });
  return { ...length, ...Object.fromEntries(others) };
}

/** Servers end and the scratch folder goes, also when the run is interrupted. */
function endWith(folder: string): () => void {
  const end = (): void => {
    endLeftServers();
    rmSync(folder, { recursive: true, force: true });
  };
  process.on('exit', end);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
  return end;
}

function selectRows(names: readonly string[] | undefined): readonly Row[] {
  if (names === undefined) return ROWS;
  return names.map((name) => {
    const row = ROWS.find((candidate) => candidate.name === name);
    if (row === undefined)
      throw new Error(`No row is called ${name}. There are: ${ROWS.map((each) => each.name).join(', ')}.`);
    return row;
  });
}

function missingPeers(): string[] {
  return PEER_PACKAGES.filter((peer) => findProgram(peer.binary) === undefined).map((peer) => peer.package);
}

function peerVersions(): Record<string, string> {
  const installed = PEER_PACKAGES.filter((peer) => findProgram(peer.binary) !== undefined);
  return Object.fromEntries(installed.map((peer) => [peer.package, packageVersion(peer.package)]));
}

function formatCores(cores: Bench['cores']): string {
  return cores === undefined
    ? 'no (one core)'
    : `server core ${cores.server} load core ${cores.load} where a row does not say otherwise`;
}

function readCommit(): string {
  const git = (args: string[]): string =>
    Bun.spawnSync(['git', ...args], { cwd: ROOT })
      .stdout.toString()
      .trim();
  const changed = git(['status', '--porcelain', '--', 'packages']) === '' ? '' : ' with uncommitted changes';
  return `${git(['rev-parse', '--short', 'HEAD']) || 'unknown'}${changed}`;
}

function nameRun(startedAt: string): string {
  return startedAt.slice(0, 19).replaceAll(':', '');
}

function parseCount(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('Give a number above 0.');
  return value;
}

async function main(args: readonly string[]): Promise<number> {
  if (args[0] === 'child') {
    await runChild(args.slice(1), (path) => readFileSync(path, 'utf8'));
    return -1; // a child that serves lives on
  }
  const program = new Command('bench')
    .description('Measures Holdfast against its peers on this machine.')
    .option('--quick', 'smoke run of a few seconds: checks the machinery, not the speed', false)
    .option('--only <row...>', `only these rows: ${ROWS.map((row) => row.name).join(', ')}`)
    .option('--json', 'print the report as JSON', false)
    .option('--profile <row>', 'one row, with a CPU profile of our server')
    .option('--rounds <n>', 'A B pairs per row', parseCount)
    .option('--seconds <n>', 'seconds per side and round', parseCount)
    .option('--large <n>', 'nodes of the large Space in the scale row', parseCount, 1_000_000)
    .option('--out <folder>', 'where raw output goes (default: bench/results/<time>)')
    .option('--scratch <folder>', 'disk to measure on', tmpdir())
    .parse(args, { from: 'user' });
  const given = program.opts<Partial<Options>>();
  const defaults = given.quick === true ? QUICK : {};
  return (await runBench({ ...defaults, ...given } as Options)) ? 0 : 1;
}

const code = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  return 1;
});
if (code >= 0) process.exit(code);
