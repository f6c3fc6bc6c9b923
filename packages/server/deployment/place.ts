/** The location of a deployment, as given in flags, variables and files. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { DATA_DIR_DEFAULT, describeExposure, findExposure } from '@holdfast/protocol';
import { formatDatabase, type PostgresAddress, parseS3Url, type S3Address } from '../engine/address.ts';
import { parsePostgresUrl } from '../engine/postgres-url.ts';
import { codeOf } from '../error-code.ts';
import { ConfigError } from '../errors.ts';

interface FolderPlace {
  readonly kind: 'folder';
  readonly dataDir: string;
}

interface PostgresPlace {
  readonly kind: 'postgres';
  readonly address: PostgresAddress;
}

export interface S3Place {
  readonly kind: 's3';
  readonly address: S3Address;
}

export type RowsPlace = FolderPlace | PostgresPlace;

/** Bytes lie beside the rows in one folder, or in S3. Rows in PostgreSQL are for several servers, so their bytes are in S3. */
export type DeploymentPlace =
  | { readonly rows: FolderPlace; readonly bytes: FolderPlace | S3Place }
  | { readonly rows: PostgresPlace; readonly bytes: S3Place };

type Environment = Readonly<Record<string, string | undefined>>;

const DATABASE = /^postgres(?:ql)?:/;
const BUCKET = /^s3:/;
/** The comma between rows and bytes. An earlier comma belongs to a password or to the folder's name. */
const BEFORE_BUCKET = /,\s*(?=s3:)/;

/** The database URL of `HOLDFAST_METADATA`, or of the file that `HOLDFAST_METADATA_FILE` names. Throws ConfigError. */
export function readMetadataUrl(env: Environment): string | undefined {
  const url = env.HOLDFAST_METADATA || undefined;
  const path = env.HOLDFAST_METADATA_FILE || undefined;
  if (path === undefined) return url;
  if (url !== undefined) {
    throw new ConfigError('HOLDFAST_METADATA and HOLDFAST_METADATA_FILE are both set; leave one out');
  }
  return readUrlFile(path);
}

/** Far more than any URL has: a path such as /dev/zero would give bytes without an end. */
const URL_FILE_BYTES_MAX = 64 * 1024;

/** This thread waits for a pipe, and a signal waits with it. */
const PIPE_WAIT_MS = 8_000;

/** The contents of pipes: a pipe can be read once, and a configuration is read several times. */
const GIVEN_BY_PIPES = new Map<string, string>();

/** A URL and a line break. The message names the file and quotes nothing of it. */
function readUrlFile(path: string): string {
  const given = GIVEN_BY_PIPES.get(path);
  if (given !== undefined) return given;
  let file: number | undefined;
  try {
    // Opening a pipe without a writer would block the process, signals included.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(file);
    const mode = findExposure(path, stats, process.getuid?.());
    if (mode !== undefined)
      throw new ConfigError(describeExposure('the file of HOLDFAST_METADATA_FILE', path, mode));
    const url = readBounded(file, path, stats.isFIFO()).trim();
    if (!stats.isFile() && url !== '') GIVEN_BY_PIPES.set(path, url);
    if (url !== '') return url;
    throw new ConfigError(`HOLDFAST_METADATA_FILE names ${path}, which is empty; put postgres://… in it`);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(
      `HOLDFAST_METADATA_FILE names ${path}, which cannot be read (${codeOf(error)}): check its path and rights`,
    );
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function readBounded(file: number, path: string, isPipe: boolean): string {
  const url = Buffer.alloc(URL_FILE_BYTES_MAX + 1);
  const until = performance.now() + PIPE_WAIT_MS;
  let length = 0;
  for (;;) {
    const read = readNow(file, url.subarray(length));
    length += read ?? 0;
    if (length > URL_FILE_BYTES_MAX) {
      throw new ConfigError(
        `HOLDFAST_METADATA_FILE names ${path}, which has more than ${URL_FILE_BYTES_MAX} bytes: check the path`,
      );
    }
    // A pipe reads as ended until its writer has opened it.
    if (read === 0 && (length > 0 || !isPipe)) return url.toString('utf8', 0, length);
    if (read !== undefined && read > 0) continue;
    if (performance.now() > until) {
      throw new ConfigError(
        `HOLDFAST_METADATA_FILE names ${path}, which gave nothing for ${PIPE_WAIT_MS} ms; put postgres://… in it`,
      );
    }
    Bun.sleepSync(20);
  }
}

/** undefined: there is nothing to read yet. */
function readNow(file: number, into: Uint8Array): number | undefined {
  try {
    return readSync(file, into);
  } catch (error) {
    if (codeOf(error) === 'EAGAIN') return undefined;
    throw error;
  }
}

/** `--data`, `--metadata` and `--content` of a server. Throws ConfigError. */
export function parseServedPlace(
  dataDir: string,
  metadata: string | undefined,
  content: string | undefined,
  env: Environment,
): DeploymentPlace {
  const bytes =
    content === undefined ? undefined : ({ kind: 's3', address: parseS3Url(content, env) } as const);
  if (metadata === undefined) {
    const rows = { kind: 'folder', dataDir } as const;
    return { rows, bytes: bytes ?? rows };
  }
  const rows = { kind: 'postgres', address: parsePostgresUrl(metadata, env) } as const;
  if (bytes !== undefined) return { rows, bytes };
  throw new ConfigError(
    '--metadata needs --content: rows in PostgreSQL are for several servers, and these cannot share bytes in one folder; give --content s3://BUCKET?endpoint=URL',
  );
}

/** `--data` and `--metadata` of a command for rows. A flag wins over a variable, a database over a folder. Throws ConfigError. */
export function parseRowsPlace(
  { data, metadata }: { readonly data?: string | undefined; readonly metadata?: string | undefined },
  env: Environment,
): RowsPlace {
  const url = metadata ?? (data === undefined ? readMetadataUrl(env) : undefined);
  if (url !== undefined) return { kind: 'postgres', address: parsePostgresUrl(url, env) };
  return { kind: 'folder', dataDir: data ?? (env.HOLDFAST_DATA || DATA_DIR_DEFAULT) };
}

/** `--data`, `--metadata`, `--content` of a command for rows and bytes. A flag wins, also a folder's over a database's variable. */
export function parseOperatedPlace(
  {
    data,
    metadata,
    content,
  }: {
    readonly data?: string | undefined;
    readonly metadata?: string | undefined;
    readonly content?: string | undefined;
  },
  env: Environment,
): DeploymentPlace {
  const isFolder = data !== undefined && metadata === undefined;
  return parseServedPlace(
    data ?? (env.HOLDFAST_DATA || DATA_DIR_DEFAULT),
    metadata ?? (isFolder ? undefined : readMetadataUrl(env)),
    content ?? (env.HOLDFAST_CONTENT || undefined),
    env,
  );
}

/** A copy's `--from` or `--to`: FOLDER, POSTGRES,S3 or FOLDER,S3. Messages quote nothing: it may hold a password. Throws ConfigError. */
export function parseDeploymentPlace(flag: string, text: string, env: Environment): DeploymentPlace {
  const parts = text.trim().split(BEFORE_BUCKET);
  const [first = '', second, ...more] = parts;
  if (first === '' || BUCKET.test(first) || more.length > 0) throw wrongPlace(flag);
  const bytes =
    second === undefined ? undefined : ({ kind: 's3', address: parseS3Url(second, env, flag) } as const);
  if (!DATABASE.test(first)) {
    const rows = { kind: 'folder', dataDir: first } as const;
    return { rows, bytes: bytes ?? rows };
  }
  if (bytes === undefined) throw wrongPlace(flag);
  return { rows: { kind: 'postgres', address: parsePostgresUrl(first, env, flag) }, bytes };
}

/** A bucket alone. Throws ConfigError. */
export function parseBucketPlace(text: string, env: Environment): S3Place {
  return { kind: 's3', address: parseS3Url(text, env) };
}

function wrongPlace(flag: string): ConfigError {
  return new ConfigError(
    `${flag} names no deployment; give a data folder (and ,s3://BUCKET if its bytes are there), or postgres://USER@HOST:5432/DATABASE,s3://BUCKET?endpoint=http://HOST:PORT`,
  );
}

/** The name of the place in messages, without user and password. */
export function nameRows(place: RowsPlace): string {
  if (place.kind === 'folder') return place.dataDir;
  return `database ${formatDatabase(place.address)}`;
}

export function nameBucket({ address }: S3Place): string {
  return `bucket ${address.bucket} (${address.endpoint ?? `AWS, ${address.region}`})`;
}
