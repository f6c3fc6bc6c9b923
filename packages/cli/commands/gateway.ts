/** `holdfast gateway`: names as folders for programs that speak WebDAV, and as a cache for programs that build. */
import type { Client } from '@holdfast/client';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { parseDurationValue, parseSizeValue, repeated } from '../options.ts';
import { mayWriteNames, parseNameValue, requireNamesReader } from '../trees/names.ts';

interface Flags extends ConnectionFlags {
  readonly listen: string;
  readonly readOnly?: true;
  readonly user?: string;
  readonly passwordFile?: string;
  readonly open?: true;
}

interface CacheFlags extends Flags {
  readonly name: string;
  readonly lfsName: string;
  readonly maxSize?: number;
  readonly maxAge?: number;
}

const HELP = `
Each NAME is a folder (all names of the token's refDomain if none is given). Each change becomes a snapshot of the name. A password
is made at each start and printed once. /.snapshots/NAME/TIME/ has every snapshot, read only.

Examples:
  holdfast gateway webdav notes
  rclone sync ./notes :webdav:notes --webdav-url http://127.0.0.1:8430 --webdav-user holdfast --webdav-pass ...`;

const CACHE_HELP = `
A cache for Bazel, ccache, sccache, Gradle, Maven, Turborepo, Nx and Nix, and a server for git-lfs. A password is made at each start and
printed once; Bazel and others take it in the address, Turborepo and Nx as their token. Values lie under --name, objects of git-lfs under
--lfs-name, where nothing evicts them.

Examples:
  holdfast gateway cache --max-size 20GiB
  bazel build //... --remote_cache=http://holdfast:PASSWORD@127.0.0.1:8431
  git config lfs.url http://holdfast:PASSWORD@127.0.0.1:8431/lfs/info/lfs`;

export function registerGatewayCommand(program: Command): void {
  const gateway = program.command('gateway').description('open names to what other programs speak');
  const command = gateway
    .command('webdav')
    .description('names as folders over WebDAV')
    .argument('[names...]', 'only these', repeated(parseNameValue));
  withConnection(withGateway(command, '127.0.0.1:8430'), HELP).action(serveWebdav);
  const cache = gateway
    .command('cache')
    .description('a cache for builds over HTTP, and git-lfs')
    .option('--name <name>', 'where values lie', parseNameValue, 'cache')
    .option('--lfs-name <name>', 'where objects of git-lfs lie', parseNameValue, 'lfs')
    .option(
      '--max-size <size>',
      'above it, evict the least recently used values',
      parseSizeValue(1, Number.MAX_SAFE_INTEGER),
    )
    .option('--max-age <duration>', 'evict values that were not used for this time', parseDurationValue);
  withConnection(withGateway(cache, '127.0.0.1:8431'), CACHE_HELP).action(serveCache);
}

function withGateway(command: Command, address: string): Command {
  return command
    .option('--listen <address>', 'where it listens', address)
    .option('--read-only', 'refuse writes')
    .option('--user <user>', 'the user of the password (default: holdfast)')
    .option('--password-file <file>', 'file that holds the password alone')
    .option('--open', 'no password, on an address of this machine');
}

async function serveWebdav(names: readonly string[], flags: Flags): Promise<void> {
  await requireNamesReader(flags);
  const isReadOnly = flags.readOnly === true || !(await mayWriteNames(flags));
  const [{ runDoor }, { createDav }, { NameStore }] = await Promise.all([
    import('../doors/door.ts'),
    import('../doors/webdav/dav.ts'),
    import('../doors/webdav/name-store.ts'),
  ]);
  await withGatewayClient(flags, (client) =>
    runDoor('webdav', flags, createDav(new NameStore(client, names), isReadOnly)),
  );
}

/** A door is no command that somebody waits for: it says nothing of a wait. */
async function withGatewayClient(
  flags: ConnectionFlags,
  serve: (client: Client) => Promise<void>,
): Promise<void> {
  const { serverWatch } = await import('../doors/server-watch.ts');
  // A longer wait that the server asks for is told to the clients of the gateway.
  const retry = { retryAfterMsMax: 5_000 };
  await withClient(flags, serve, { isJob: true, retry, around: (send) => serverWatch.over(send) });
}

async function serveCache(flags: CacheFlags): Promise<void> {
  const { name, lfsName, maxSize: bytesMax, maxAge: ageMsMax } = flags;
  if (name === lfsName) throw new UsageError('--name and --lfs-name are the same; give them different names');
  await requireNamesReader(flags);
  const isReadOnly = flags.readOnly === true || !(await mayWriteNames(flags));
  const [{ runDoor }, { createCache }] = await Promise.all([
    import('../doors/door.ts'),
    import('../doors/cache/cache.ts'),
  ]);
  await withGatewayClient(flags, (client) => {
    const { handle, options } = createCache(client, { name, lfsName, isReadOnly, bytesMax, ageMsMax });
    return runDoor('cache', flags, handle, options);
  });
}
