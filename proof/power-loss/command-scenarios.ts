/** Commands that say by exit 0 that something is durable. Each is killed before, and goes on from what that left. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { restoreBackup } from '../../packages/server/backup/restore-backup.ts';
import { UNFINISHED_RESTORE } from '../../packages/server/deployment/folder-marks.ts';
import { makeNode, seededBytes } from '../../test/support/canonical-node.ts';
import { directory, file, writePlan } from '../../test/support/disk-trees.ts';
import { makeRandom } from '../../test/support/seeded-random.ts';
import { runHoldfast } from '../../test/support/server-process.ts';
import { TreeCommands } from '../../test/support/tree-commands.ts';
import { type KnownDeployment, makeDeployment } from '../row-rot/deployment.ts';
import { DAY_MS, openFolder, SPACE, upload } from '../row-rot/world.ts';
import type { Scenario } from './images.ts';
import { TracedRun } from './traced-run.ts';
import { verifyDeployment } from './verify-nodes.ts';

const OBJECT_BYTES = 40_000;

/** Two backups of a folder that grows between them. */
export async function makeBackupScenario(seed: number): Promise<Scenario> {
  const [run, random] = [new TracedRun(), makeRandom(seed)];
  const source = run.beside('source');
  mkdirSync(source);
  const made: { readonly at: number; readonly known: KnownDeployment }[] = [];
  const args = ['backup', join(run.root, 'volume', 'backups', 'daily'), '--data', source];
  let known = await makeDeployment(openFolder(source));
  for (let round = 0; round < 2; round += 1) {
    if (round > 0) known = await grow(source, known, seed);
    for (let kills = random.below(3); kills > 0; kills -= 1) await run.runKilled(args, random);
    made.push({ at: await run.runWell(args), known });
  }
  run.assertFollowed();
  return {
    ...{ name: 'backup', run },
    async verify(disk, at) {
      const last = made.findLast((each) => each.at <= at);
      if (last === undefined) return [];
      const restored = run.beside('restored');
      try {
        return await verifyRestored(join(disk, 'volume', 'backups', 'daily'), restored, last.known);
      } finally {
        rmSync(restored, { recursive: true, force: true });
      }
    },
  };
}

async function grow(source: string, known: KnownDeployment, seed: number): Promise<KnownDeployment> {
  const world = await openFolder(source)(known.now, 5);
  const more = [seededBytes(OBJECT_BYTES, seed), seededBytes(100, seed)].map((bytes) => makeNode(bytes));
  try {
    for (const node of more) await upload(world, node, DAY_MS);
    const nodes = more.map((node) => ({ ...node, space: SPACE, isHeld: true }));
    return { ...known, nodes: [...known.nodes, ...nodes], now: world.clock.now };
  } finally {
    await world.close();
  }
}

export async function verifyRestored(
  folder: string,
  dataDir: string,
  known: KnownDeployment,
): Promise<string[]> {
  const mask = process.umask();
  try {
    const { damagedFiles, damagedNodes } = await restoreBackup(
      { folder, dataDir },
      { onProgress: () => undefined },
    );
    const damaged = [...damagedFiles, ...damagedNodes.map(({ hash }) => hash)].map(
      (each) => `damaged: ${each}`,
    );
    return [...damaged, ...(await verifyDeployment(dataDir, known))];
  } catch (error) {
    return [`a restore of the backup: ${error}`];
  } finally {
    process.umask(mask);
  }
}

export async function makeRestoreScenario(seed: number): Promise<Scenario> {
  const [run, random] = [new TracedRun(), makeRandom(seed)];
  const [source, backup] = [run.beside('source'), run.beside('backup')];
  mkdirSync(source);
  const known = await makeDeployment(openFolder(source));
  const { exitCode, stderr } = await runHoldfast(['backup', backup, '--data', source]);
  if (exitCode !== 0) throw new Error(`holdfast backup: ${stderr}`);
  const data = join('volume', 'holdfast', 'data');
  const args = ['restore', backup, '--data', join(run.root, data)];
  let restoredAt: number | undefined;
  for (let kills = random.below(3); kills > 0; kills -= 1) restoredAt ??= await run.runKilled(args, random);
  // One that is killed after its last step has restored all, and could not say so.
  const isWhole =
    existsSync(join(run.root, data, 'lock.db')) && !existsSync(join(run.root, data, UNFINISHED_RESTORE));
  if (restoredAt === undefined && !isWhole) restoredAt = await run.runWell(args);
  run.assertFollowed();
  return {
    ...{ name: 'restore', run },
    async verify(disk, at) {
      const restored = join(disk, data);
      const isDue = at >= (restoredAt ?? Number.MAX_SAFE_INTEGER);
      // A new, empty deployment may be made in an empty folder.
      const isThere = existsSync(restored) && readdirSync(restored).length > 0;
      if (!isThere) return isDue ? ['what was restored is gone'] : [];
      try {
        return await verifyDeployment(restored, known);
      } catch (error) {
        return isDue ? [`the server does not start: ${error}`] : [];
      }
    },
  };
}

export const TREE = directory({
  'a small file': file(300),
  'a large file': file(200_000),
  empty: file(0),
  link: { kind: 'symlink', target: 'a small file' },
  folder: directory({
    inner: directory({ file: file(70_000, 3), other: file(20, 4) }),
    nothing: directory(),
  }),
});

/** A pull with --fsync, after others that were killed, of which some had no --fsync. */
export async function makePullScenario(seed: number): Promise<Scenario> {
  const [run, random] = [new TracedRun(), makeRandom(seed)];
  const source = run.beside('source');
  writePlan(source, TREE);
  const commands = await TreeCommands.start('power-loss-pull');
  try {
    const root = await commands.push('space', source);
    const environment = commands.environment('space');
    const target = join('volume', 'pulled', 'tree');
    const args = ['pull', root, join(run.root, target)];
    for (let kills = random.below(3); kills > 0; kills -= 1)
      await run.runKilled(random.chance(0.5) ? args : [...args, '--fsync'], random, environment);
    if (random.chance(0.3)) await run.runWell(args, environment);
    const pulledAt = await run.runWell([...args, '--fsync'], environment);
    run.assertFollowed();
    return {
      ...{ name: 'pull --fsync', run },
      verify: async (disk, at) => (at < pulledAt ? [] : compareTrees(source, join(disk, target))),
    };
  } finally {
    await commands.remove();
  }
}

/** What the source has and the other has not, or otherwise. */
export function compareTrees(source: string, other: string): string[] {
  const [one, two] = [source, other].map((path) => lstatSync(path, { throwIfNoEntry: false }));
  if (one === undefined || two === undefined) return [`${other} is gone`];
  if (one.isDirectory() && two.isDirectory())
    return readdirSync(source).flatMap((name) => compareTrees(join(source, name), join(other, name)));
  const isSame =
    one.isSymbolicLink() && two.isSymbolicLink()
      ? readlinkSync(source) === readlinkSync(other)
      : one.isFile() && two.isFile() && readFileSync(source).equals(readFileSync(other));
  return isSame ? [] : [`${other} is another`];
}
