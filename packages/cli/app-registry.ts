/** The registry of Apps, for commands: where it lies, opened for one piece of work. */
import { type Command, Option } from 'commander';
import { CliError, UsageError } from './cli-error.ts';
import { sayWhenInterrupted } from './interruption.ts';
import { type OperatorOptions, withOperatorAddress } from './operator-call.ts';
import { dataOption, jsonOption } from './options.ts';
import { saying } from './waits.ts';

export type PlaceOptions = Omit<OperatorOptions, 'content'>;

type Server = typeof import('@holdfast/server');
type Registry = import('@holdfast/server').Registry;
type RowsPlace = import('@holdfast/server').RowsPlace;

export function withPlace(command: Command): Command {
  return withOperatorAddress(
    command
      .addOption(dataOption())
      .addOption(
        new Option(
          '--metadata <url>',
          'database of servers that share one, postgres://… (or HOLDFAST_METADATA)',
        ).conflicts('data'),
      ),
  ).addOption(jsonOption());
}

export function withExistingRegistry<T>(
  options: PlaceOptions,
  appId: string,
  work: (registry: Registry) => Promise<T>,
): Promise<T> {
  return withRegistry(
    options,
    (server, place) => server.findRegistry(place),
    work,
    (where, { kind }) => {
      const advice = `${where} has no registry yet; check ${kind === 'folder' ? '--data' : '--metadata'}`;
      throw new CliError(`there is no App ${JSON.stringify(appId)}: ${advice}`);
    },
  );
}

/** Opens what `open` finds, does the work and closes it. The server's door is loaded only now: start-up stays quick. */
export async function withRegistry<T>(
  options: PlaceOptions,
  open: (server: Server, place: RowsPlace) => Promise<Registry | undefined>,
  work: (registry: Registry, where: string) => Promise<T>,
  whenMissing?: (where: string, place: RowsPlace) => T,
): Promise<T> {
  sayWhenInterrupted('whether the change was made, shows: holdfast app list');
  const server = await import('@holdfast/server');
  try {
    const place = server.parseRowsPlace(options, process.env);
    const where = server.nameRows(place);
    const registry = await saying(`no answer yet from ${where}`, () => open(server, place));
    if (registry === undefined) return (whenMissing as NonNullable<typeof whenMissing>)(where, place);
    try {
      return await saying(`no answer yet from ${where}`, () => work(registry, where));
    } finally {
      await registry.close();
    }
  } catch (error) {
    if (error instanceof server.ConfigError) throw new UsageError(error.message);
    throw error instanceof server.ServeError ? new CliError(error.message) : error;
  }
}
