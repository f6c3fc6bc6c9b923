/** Commands of operators: where the deployment is, and one operation on it. */
import { type Command, Option } from 'commander';
import { CliError, UsageError } from './cli-error.ts';
import { readSecretText } from './files.ts';
import { dataOption, jsonOption, metadataOption, withForeignOwner } from './options.ts';
import { nowAndThen, saying } from './progress/waits.ts';
import { type Server, withServer } from './server-door.ts';
import { interruption, sayWhenInterrupted } from './terminal/interruption.ts';

type OperationName = import('@holdfast/server').OperationName;
type PartOperationName = import('@holdfast/server').PartOperationName;
type Where = import('@holdfast/server').OperatorWhere;
type PartWhere = import('@holdfast/server').PartWhere;
type AddressWhere = Where & PartWhere;
type Input<N extends OperationName> = import('@holdfast/server').OperatorInput<N>;
type Output<N extends OperationName> = import('@holdfast/server').OperatorOutput<N>;

const TOKEN_FILE = "the operators' token file";

export interface OperatorOptions {
  readonly data?: string;
  readonly metadata?: string;
  readonly content?: string;
  readonly operator?: string;
  readonly operatorTokenFile?: string;
  readonly json?: true;
}

/** Options of a command that needs rows alone. */
export type PartOptions = Omit<OperatorOptions, 'content'>;

export const OPERATED_HELP_AFTER = `
With --data the server that holds the folder does the work, or the command itself if no server runs. --metadata and --content
name the engines of servers that share them. --operator asks a server by the address that it prints as "operators:".`;

/** Adds the options that say where the deployment is, and --json. */
export function withOperator(command: Command): Command {
  return withOperatorPlace(command).addOption(jsonOption());
}

export function withOperatorPlace(command: Command): Command {
  return withRowsPlace(command).addOption(
    new Option('--content <url>', 'bytes in S3, s3://… (or HOLDFAST_CONTENT)'),
  );
}

export function withRowsPlace(command: Command): Command {
  const placed = command.addOption(dataOption()).addOption(metadataOption().conflicts('data'));
  return withOperatorAddress(withForeignOwner(placed));
}

function withOperatorAddress(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--operator <url>',
        "a server's address for operators, such as http://127.0.0.1:8421 (or HOLDFAST_OPERATOR_URL)",
      ).conflicts(['data', 'metadata', 'content']),
    )
    .addOption(
      new Option(
        '--operator-token-file <file>',
        'the bearer token of operators (or HOLDFAST_OPERATOR_TOKEN_FILE)',
      ),
    );
}

/**
 * Runs the operation where the options say. `whenInterrupted` completes "interrupted; …". `onProgress` is given a line now and
 * then while the work lasts. Throws CliError with one line, and
 * UsageError for what was understood wrong.
 */
export async function runOperation<N extends OperationName>(
  options: OperatorOptions,
  name: N,
  input: Input<N>,
  whenInterrupted: string,
  onProgress?: (line: string) => void,
): Promise<Output<N>> {
  sayWhenInterrupted(whenInterrupted);
  return withServer(async (server) => {
    const where = (await findAddress(server, options)) ?? {
      ...{ kind: 'place' as const, place: server.parseOperatedPlace(options, process.env) },
    };
    return saying(`no answer yet from ${nameOf(server, where)}`, (progress) =>
      server.runOperation(where, name, input, {
        signal: interruption,
        onProgress:
          onProgress &&
          nowAndThen((line) => {
            // A call that reports progress does not hang.
            progress.count({ files: 1 });
            onProgress(line);
          }),
      }),
    );
  });
}

/** As `runOperation`, of an operation that needs the rows alone, or only a part of them. */
export async function runPartOperation<N extends PartOperationName>(
  options: PartOptions,
  name: N,
  input: Input<N>,
  whenInterrupted: string,
): Promise<Output<N>> {
  sayWhenInterrupted(whenInterrupted);
  return withServer(async (server) => {
    const where = await findPartWhere(server, options);
    return saying(`no answer yet from ${nameOf(server, where)}`, () =>
      server.runPartOperation(where, name, input, { signal: interruption }),
    );
  });
}

/** The name of the place that `runPartOperation` works on, for a message. */
export function namePart(options: PartOptions): Promise<string> {
  return withServer(async (server) => nameOf(server, await findPartWhere(server, options)));
}

async function findPartWhere(server: Server, options: PartOptions): Promise<PartWhere> {
  const address = await findAddress(server, options);
  return address ?? { kind: 'rows', place: server.parseRowsPlace(options, process.env) };
}

/** The server that is asked over the operator API; undefined: none was named. A flag that names a place wins over the variable. */
async function findAddress(server: Server, options: OperatorOptions): Promise<AddressWhere | undefined> {
  const isPlaced = [options.data, options.metadata, options.content].some((each) => each !== undefined);
  const given = options.operator ?? (isPlaced ? undefined : process.env.HOLDFAST_OPERATOR_URL || undefined);
  const tokenFile = options.operatorTokenFile;
  if (given === undefined) {
    if (tokenFile !== undefined) throw new UsageError('--operator-token-file needs --operator URL');
    return undefined;
  }
  const url = server.parseWebAddress('--operator', given, 'http://127.0.0.1:8421');
  const file = tokenFile ?? (process.env.HOLDFAST_OPERATOR_TOKEN_FILE || undefined);
  const token = file === undefined ? undefined : await readToken(file);
  return { kind: 'address', address: { kind: 'url', url, token } };
}

async function readToken(file: string): Promise<string> {
  const token = (await readSecretText(file, TOKEN_FILE)).trim();
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  // A line of the server's file has a name and rights beside its token, and is no token.
  throw new CliError(
    `${TOKEN_FILE} ${file} must hold one token alone: put your token into a file of its own`,
  );
}

function nameOf(server: Server, where: Where | PartWhere): string {
  if (where.kind === 'place') return server.nameRows(where.place.rows);
  if (where.kind === 'rows') return server.nameRows(where.place);
  return where.address.kind === 'url' ? new URL(where.address.url).host : 'the server';
}
