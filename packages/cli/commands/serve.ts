/** `holdfast serve`: runs the server. */
import { DATA_DIR_DEFAULT, LISTEN_DEFAULT } from '@holdfast/protocol';
import type { Command } from 'commander';
import { type Profile, readProfiles, writeProfiles } from '../connection/profiles.ts';
import { findClaims } from '../connection/token-claims.ts';
import { withForeignOwner } from '../options.ts';
import { findOwnProgram, nameOwnProgram, WORKER_ARGUMENT } from '../own-program.ts';
import { withServer } from '../server-door.ts';
import { printLine } from '../terminal/output.ts';
import { CLIENT_VARIABLES } from '../variables.ts';

type ServeFlags = import('@holdfast/server').ServeFlags;

const HELP_AFTER = `
Every flag can also be given as a variable, such as HOLDFAST_LISTEN or HOLDFAST_MAX_NODE_BYTES; the flag wins.
Further variables: HOLDFAST_LOG_LEVEL (info), HOLDFAST_CORS_ORIGINS (*, or origins joined by commas).
With --metadata and --content any number of servers share the two engines and need no data folder. S3 credentials come from
the usual AWS variables and files. A URL given as a flag can be seen in the list of processes: a password belongs in
HOLDFAST_METADATA, PGPASSWORD, or a file: HOLDFAST_METADATA_FILE names one with the whole URL, PGPASSFILE one with passwords.
Logs go to stderr as JSON lines. SIGTERM drains and ends the server; a second one ends it at once.`;

export function registerServeCommand(program: Command): void {
  withServeFlags(program.command('serve'))
    .description('serve the Space API from a data folder, or from PostgreSQL and S3')
    .addHelpText('after', HELP_AFTER)
    .action(runServe);
}

/** Also of `config check`. Values are judged by the server's own configuration, which also reads the variables: so no defaults here. */
export function withServeFlags(command: Command): Command {
  return withForeignOwner(command)
    .option('--listen <host:port>', `address to listen on; port 0 picks one (default: ${LISTEN_DEFAULT})`)
    .option('--data <dir>', `data folder, made if missing (default: ${DATA_DIR_DEFAULT})`)
    .option('--public-url <url>', 'address clients reach this server by, for upload URLs')
    .option('--metadata <url>', 'rows in PostgreSQL: postgres://USER:PASSWORD@HOST:5432/DATABASE')
    .option(
      '--content <url>',
      'bytes in S3: s3://BUCKET[/PREFIX]?region=REGION, with &endpoint=URL and &style=path or &style=virtual if needed',
    )
    .option('--max-node-bytes <size>', 'largest canonical node (default: 64MiB)')
    .option('--max-active-uploads <n>', 'active upload generations per Space (default: 1024)')
    .option('--upload-ttl <duration>', 'how long an upload URL is good for (default: 5m)')
    .option(
      '--gc-every <duration>',
      'collect in every Space automatically, spread over this time (default: off)',
    )
    .option(
      '--keep-replaced <duration>',
      'keep what packing, compaction and healing replaced, for rows that are restored to before (default: 24h with --content, else 0s)',
    )
    .option(
      '--commit-records-kept <duration>',
      'forget commits of root refs, and their request ids, that are older: a request that is sent again later counts as new (default: for ever)',
    )
    .option(
      '--max-clock-skew <duration>',
      'collect nothing while the clocks of database, object store and server differ by more (default: 2m)',
    )
    .option(
      '--min-free <size>',
      'free space to keep on the disk of the data folder: below it uploads are refused (default: 1GiB or 5 % of the disk)',
    )
    .option(
      '--idle-timeout <duration>',
      'how long a connection may rest between requests; behind a balancer longer than it keeps one, such as 75s (default: 55s)',
    )
    .option(
      '--trusted-proxy <cidr,…>',
      'proxies whose X-Forwarded-For and X-Forwarded-Proto are believed (default: none)',
    )
    .option('--workers <n>', 'server processes that share the port (default: 1)')
    .option(
      '--operator-listen <host:port>',
      'address for operators: probes, metrics, operator API, console (with --dev: 127.0.0.1:8421)',
    )
    .option('--operator-token-file <file>', 'bearer token of operators; needed if others reach that address')
    .option('--audit-log <file>', 'a JSON line for every change and refusal; - is stdout')
    .option('--audit-reads', 'write a line for reads and renewals of leases too')
    .option('--audit-required', 'refuse changes (503) while the audit log cannot be written')
    .option('--dev', 'also register the App "demo" and print a token for it');
}

async function runServe(flags: ServeFlags): Promise<void> {
  await withServer(async (server) => {
    const config = await server.parseServeConfig(flags, process.env);
    const program = {
      name: nameOwnProgram(),
      command: findOwnProgram(),
      workerCommand: [...findOwnProgram(), WORKER_ARGUMENT] as const,
      otherVariables: CLIENT_VARIABLES,
      keepAccess: keepDevProfile,
    };
    await server.serve(config, program, printLine);
  });
}

const NAME = 'dev';

/**
 * Keeps `access` as the profile `dev`. It becomes the default where there is none; a default of the person's stays, and so does a
 * profile of that name that another server's token is in.
 * @returns the words by which a command uses it; undefined if it is not kept: nothing but comfort is lost then
 */
function keepDevProfile(access: Profile & { readonly token: string }): string | undefined {
  try {
    const profiles = readProfiles();
    const former = profiles.byName.get(NAME);
    if (former !== undefined && issuerOf(former.token) !== issuerOf(access.token)) return undefined;
    const { url, app, space, token } = access;
    const isDefault = profiles.default === undefined || profiles.default === NAME;
    writeProfiles({
      default: isDefault ? NAME : profiles.default,
      byName: new Map(profiles.byName).set(NAME, { url, app, space, token }),
    });
    return isDefault ? '' : ` --profile ${NAME}`;
  } catch {
    // No home, a file that is not ours to write, a full disk: the variables that are printed do the same.
    return undefined;
  }
}

function issuerOf(token: string | undefined): unknown {
  return findClaims(token ?? '')?.iss;
}
