/** `holdfast mount`: a tree, or all names, as a folder that every program reads. */
import {
  type Client,
  createPatientClient,
  type ProgressReporter,
  SILENT_PROGRESS,
} from '@holdfast/client/internal';
import { openSpaceSource } from '@holdfast/files';
import { type Command, InvalidArgumentError } from 'commander';
import { CliError, restating, UsageError } from '../cli-error.ts';
import {
  type ConnectionFlags,
  JOB_CLIENT,
  withClient,
  withConnection,
} from '../connection/space-connection.ts';
import { runShortJob } from '../progress/run-job.ts';
import { resolvePath } from '../trees/given-path.ts';
import { explainTreeError, findLocation } from '../trees/located-trees.ts';
import { requireNamesReader } from '../trees/names.ts';
import {
  LOCATION_HELP,
  locateTrees,
  parseLocation,
  requireReadable,
  type TreeLocation,
} from '../trees/reference.ts';

interface Flags extends ConnectionFlags {
  readonly allowOther?: true;
}

const HELP = `
Without LOCATION every name is a folder: NAME/TIME is a snapshot, and NAME/latest a link to the newest. With LOCATION, DIR is that tree,
and stays so when the name gets another. Every byte was verified before a program gets it; what cannot be had is an input/output
error. Runs until Ctrl-C or umount DIR. Needs Linux with /dev/fuse, and fusermount3 (of the package fuse3) for all but root.

Examples:
  holdfast mount ./all
  holdfast mount notes ./notes
  diff -r ./notes ./all/notes/latest/`;

export function registerMountCommand(program: Command): void {
  const command = program
    .command('mount')
    .description('a tree, or all names, as a read-only folder')
    .usage('[options] [LOCATION] DIR')
    .argument('<location-or-dir>', `${LOCATION_HELP}; left out: all names`)
    .argument('[dir]', 'an empty folder')
    .option('--allow-other', 'let other users of this machine read it');
  withConnection(command, HELP).action(mount);
}

async function mount(first: string, second: string | undefined, flags: Flags): Promise<void> {
  const location =
    second === undefined
      ? undefined
      : restating(() => parseLocation(first), InvalidArgumentError, UsageError);
  if (location === undefined) await requireNamesReader(flags);
  else await requireReadable(flags, [location]);
  // The end slash that shells complete would have a stale mount looked into.
  const directory = resolvePath((second ?? first).replace(/(?<=.)\/+$/, ''), { isMadeFolder: true });
  const { createMountHandler, runMount } = await import('../doors/mount/mount.ts');
  const serve = async (client: Client): Promise<void> => {
    const open = (progress: ProgressReporter) => {
      // A read fails after that. The kernel asks twice.
      const settings = { patienceMs: 15_000, progress };
      const source = openSpaceSource(client, { ...settings, parallelMax: 8 });
      return { patient: createPatientClient(client, settings), source };
    };
    const { patient, source } = open(SILENT_PROGRESS);
    const mounted =
      location === undefined
        ? { names: patient }
        : await runShortJob({}, (progress) => find(location, open(progress)));
    const options = { isForOthers: flags.allowOther === true };
    await runMount(directory, createMountHandler(source, mounted), options);

    async function find(given: TreeLocation, { patient, source }: ReturnType<typeof open>) {
      const progress = { warn: () => undefined };
      const [tree] = await locateTrees(patient, [given] as const, { progress });
      const item = await findLocation(source, tree);
      if (item.kind === 'directory') return { item, timeMs: tree.timeMs ?? 0 };
      throw new CliError(
        `${given.text} is a ${item.kind === 'file' ? 'file' : 'link'}; only folders are mounted`,
      );
    }
  };
  try {
    await withClient(flags, serve, JOB_CLIENT);
  } catch (error) {
    throw explainTreeError(error);
  }
}
