/** Commands of operators: where the deployment is, and one operation on it. */
import { type Command, Option } from 'commander';
import { CliError, UsageError } from './cli-error.ts';
import { readTextFile } from './files.ts';
import { interruption, sayWhenInterrupted } from './interruption.ts';
import { dataOption, jsonOption } from './options.ts';
import { saying } from './waits.ts';

type Server = typeof import('@holdfast/server');
type OperationName = import('@holdfast/server').OperationName;
type Where = import('@holdfast/server').OperatorWhere;
type Input<N extends OperationName> = import('@holdfast/server').OperatorInput<N>;
type Output<N extends OperationName> = import('@holdfast/server').OperatorOutput<N>;

export interface OperatorOptions {
  readonly data?: string;
  readonly metadata?: string;
  readonly content?: string;
  readonly operator?: string;
  readonly operatorTokenFile?: string;
  readonly json?: true;
}

export const OPERATED_HELP_AFTER = `
With --data the server that holds the folder does the work, or the command itself if no server runs. --metadata and --content
name the engines of servers that share them. --operator asks a server by the address that it prints as "operators:".`;

/** Whether a command on the Apps asks a server. With a place it changes the registry itself, which works beside servers. */
export function isOverApi({ operator, data, metadata }: OperatorOptions): boolean {
  const isPlaced = data !== undefined || metadata !== undefined;
  return operator !== undefined || (!isPlaced && Boolean(process.env.HOLDFAST_OPERATOR_URL));
}

/** Adds the options that say where the deployment is, and --json. */
export function withOperator(command: Command): Command {
  return withOperatorPlace(command).addOption(jsonOption());
}

/** Adds the options that say where the deployment is. */
export function withOperatorPlace(command: Command): Command {
  return withOperatorAddress(
    command
      .addOption(dataOption())
      .addOption(
        new Option(
          '--metadata <url>',
          'database of servers that share one, postgres://… (or HOLDFAST_METADATA)',
        ).conflicts('data'),
      )
      .addOption(new Option('--content <url>', 'bytes in S3, s3://… (or HOLDFAST_CONTENT)')),
  );
}

/** Adds the options of the operator API alone. */
export function withOperatorAddress(command: Command): Command {
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
 * Runs the operation where the options say. `whenInterrupted` completes "interrupted; …". Throws CliError with one line, and
 * UsageError for what was understood wrong.
 */
export async function runOperation<N extends OperationName>(
  options: OperatorOptions,
  name: N,
  input: Input<N>,
  whenInterrupted: string,
): Promise<Output<N>> {
  sayWhenInterrupted(whenInterrupted);
  const server = await import('@holdfast/server');
  return explaining(server, async () => {
    const where = await findWhere(server, options);
    return saying(`no answer yet from ${nameOf(server, where)}`, () =>
      server.runOperation(where, name, input, interruption),
    );
  });
}

async function findWhere(server: Server, options: OperatorOptions): Promise<Where> {
  const address = await findOperatorAddress(options);
  return address ?? { kind: 'place', place: server.parseOperatedPlace(options, process.env) };
}

/** The server that is asked over the operator API; undefined: none was named. A flag that names a place wins over the variable. */
async function findOperatorAddress(options: OperatorOptions): Promise<Where | undefined> {
  const isPlaced = [options.data, options.metadata, options.content].some((each) => each !== undefined);
  const given = options.operator ?? (isPlaced ? undefined : process.env.HOLDFAST_OPERATOR_URL || undefined);
  const tokenFile = options.operatorTokenFile;
  if (given === undefined) {
    if (tokenFile !== undefined) throw new UsageError('--operator-token-file needs --operator URL');
    return undefined;
  }
  const file = tokenFile ?? (process.env.HOLDFAST_OPERATOR_TOKEN_FILE || undefined);
  const token =
    file === undefined ? undefined : (await readTextFile(file, "the operators' token file")).trim();
  return { kind: 'address', address: { kind: 'url', url: parseAddress(given), token } };
}

/** The origin, and a path if a proxy adds one. The message quotes nothing: it may hold a password. */
function parseAddress(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    url.search === '' &&
    url.hash === '' &&
    url.username === '' &&
    url.password === '';
  if (isPlain) return url.href.replace(/\/+$/, '');
  throw new UsageError(
    "--operator is no plain http or https address; give a server's, such as http://127.0.0.1:8421",
  );
}

function nameOf(server: Server, where: Where): string {
  if (where.kind === 'place') return server.nameRows(where.place.rows);
  return where.address.kind === 'url' ? new URL(where.address.url).host : 'the server';
}

async function explaining<T>(server: Server, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof server.ConfigError) throw new UsageError(error.message);
    throw error instanceof server.ServeError ? new CliError(error.message) : error;
  }
}
