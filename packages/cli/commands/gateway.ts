/** `holdfast gateway webdav`: names as folders for every program that speaks WebDAV. */
import type { Client } from '@holdfast/client';
import type { Command } from 'commander';
import { type ConnectionFlags, withClient, withConnection } from '../connection/space-connection.ts';
import { mayWriteNames, parseNames, requireNamesReader } from '../trees/names.ts';

interface Flags extends ConnectionFlags {
  readonly listen: string;
  readonly readOnly?: true;
  readonly user?: string;
  readonly passwordFile?: string;
  readonly open?: true;
}

const HELP = `
Each NAME is a folder (all names of the token's refDomain if none is given). What is written becomes a snapshot of the name. A password
is made at each start and printed once. /.snapshots/NAME/TIME/ has every snapshot, read only.

Examples:
  holdfast gateway webdav notes
  rclone sync ./notes :webdav:notes --webdav-url http://127.0.0.1:8430 --webdav-user holdfast --webdav-pass ...`;

export function registerGatewayCommand(program: Command): void {
  const gateway = program.command('gateway').description('open names to what other programs speak');
  const command = gateway
    .command('webdav')
    .description('names as folders over WebDAV')
    .argument('[names...]', 'only these', parseNames)
    .option('--listen <address>', 'where it listens', '127.0.0.1:8430')
    .option('--read-only', 'refuse writes')
    .option('--user <user>', 'the user of the password (default: holdfast)')
    .option('--password-file <file>', 'file that holds the password alone')
    .option('--open', 'no password, on an address of this machine');
  withConnection(command, HELP).action(serveWebdav);
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

/** A longer wait that the server asks for is told to the gateway's clients. */
const RETRY_AFTER_MS_MAX = 5_000;

/** A door is no command that somebody waits for: it says nothing of a wait. */
async function withGatewayClient(
  flags: ConnectionFlags,
  serve: (client: Client) => Promise<void>,
): Promise<void> {
  const { serverWatch } = await import('../doors/server-watch.ts');
  const retry = { retryAfterMsMax: RETRY_AFTER_MS_MAX };
  await withClient(flags, serve, { isJob: true, retry, around: (send) => serverWatch.over(send) });
}
