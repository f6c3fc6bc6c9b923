/** The runner of the proof: its budget holds, a fault is told, and every section works within a short budget. */
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { parseProofOptions, prove } from './prove.ts';
import type { Section } from './section.ts';
import { SECTIONS } from './sections.ts';

const ROOT = join(import.meta.dir, '..');
/** Only ends what hangs. */
const TEST_MS_MAX = 1_200_000;

/** Works in pieces of nothing until it is over. */
const works: Section = {
  name: 'works',
  async run({ isOver }) {
    let pieces = 0;
    for (; !isOver(); pieces += 1) await Bun.sleep(1);
    return { counts: { pieces }, found: [] };
  },
};

test('a share that is used up, or is nothing, has one piece done', async () => {
  const said: string[] = [];
  const { counts, found } = await prove([works, works], { budgetMs: 0, seed: 7 }, (line) => said.push(line));
  expect(counts).toEqual({ works: { pieces: 1, seconds: expect.any(Number) } });
  expect(found).toEqual([]);
  const line = /^works: 1 pieces; 0 found; seed 7, \d+ s$/;
  expect(said).toEqual(Array(2).fill(expect.stringMatching(line)));
});

test('a section that finds, fails or hangs is told, and those after it still run', async () => {
  const said: string[] = [];
  const bad: Section[] = [
    { name: 'finds', run: async ({ isOver }) => ({ counts: { n: Number(isOver()) }, found: ['case 5'] }) },
    { name: 'fails', run: () => Promise.reject(new Error('of its own')) },
    { name: 'hangs', run: () => new Promise(() => undefined) },
  ];
  const { found, counts } = await prove([...bad, works], { budgetMs: 1, seed: 7 }, (l) => said.push(l), 50);
  expect(found).toEqual([
    'finds: case 5',
    expect.stringContaining('fails: Error: of its own'),
    'hangs: a piece does not end',
  ]);
  expect(counts.works?.pieces).toBeGreaterThan(0);
  expect(said).toContainEqual(
    expect.stringMatching(/^ {2}again: npm run proof -- --only finds --seed 7 --budget \d+s$/),
  );
});

test('options that are wrong are refused', () => {
  expect(parseProofOptions(['--help'], SECTIONS)).toBeUndefined();
  expect(parseProofOptions(['--budget', '5s', '--seed', '3', '--ledger'], SECTIONS)).toEqual({
    ...{ budgetMs: 5_000, seed: 3, only: undefined, isNoted: true },
  });
  for (const words of [['--all'], ['--seed'], ['--seed', '-1'], ['--only', 'none'], ['--budget', 'long']])
    expect(() => parseProofOptions(words, SECTIONS)).toThrow();
});

test(
  'every section does at least one piece of its work, however short the budget',
  async () => {
    const child = Bun.spawn([process.execPath, 'proof/main.ts', '--budget', '1s', '--seed', '27'], {
      ...{ cwd: ROOT, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    });
    const [said = '', failed] = await Promise.all(
      [child.stdout, child.stderr].map((s) => new Response(s).text()),
    );
    const found = said.split('\n').filter((line) => line.startsWith(' '));
    expect([await child.exited, failed, found]).toEqual([0, '', []]);
    for (const { name } of SECTIONS)
      expect(said).toMatch(new RegExp(`^${name}: \\d+ .*; 0 found; seed 27`, 'm'));
  },
  TEST_MS_MAX,
);
