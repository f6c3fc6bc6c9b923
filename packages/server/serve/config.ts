/** Turns flags and environment into one typed configuration at start. */
import {
  ACTIVE_UPLOADS_MAX_DEFAULT,
  CLOCK_SKEW_MS_MAX_DEFAULT,
  COMMIT_RECORDS_KEPT_MS_MIN,
  DATA_DIR_DEFAULT,
  DAY_MS,
  formatDuration,
  KEEP_REPLACED_MS_DEFAULT,
  LISTEN_DEFAULT,
  type ListenAddress,
  NODE_BYTES_MAX_DEFAULT,
  OPERATOR_LISTEN_DEV,
  parseDuration,
  parseListenAddress,
  parseSize,
  UPLOAD_TTL_MS_DEFAULT,
} from '@holdfast/protocol';
import type { AuditOptions } from '../audit/audit-log.ts';
import { isForeignOwnerAllowed } from '../deployment/folder-owner.ts';
import { parseSwitch } from '../deployment/parse-switch.ts';
import { type DeploymentPlace, parseServedPlace, readMetadataUrl } from '../deployment/place.ts';
import { isLoopbackHost, parseWebAddress } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';
import { TrustedProxies } from '../http/peer.ts';
import { LOG_LEVELS, type LogLevel } from '../log.ts';

/** Flags as typed on the command line; a flag wins over its variable (`--max-node-bytes` over `HOLDFAST_MAX_NODE_BYTES`). */
export interface ServeFlags extends AuditFlags, OperatorFlags, ShareFlags {
  readonly listen?: string | undefined;
  readonly data?: string | undefined;
  readonly publicUrl?: string | undefined;
  readonly metadata?: string | undefined;
  readonly content?: string | undefined;
  readonly maxNodeBytes?: string | undefined;
  readonly maxActiveUploads?: string | undefined;
  readonly uploadTtl?: string | undefined;
  readonly gcEvery?: string | undefined;
  readonly keepReplaced?: string | undefined;
  readonly commitRecordsKept?: string | undefined;
  readonly maxClockSkew?: string | undefined;
  readonly workers?: string | undefined;
  readonly idleTimeout?: string | undefined;
  readonly allowForeignOwner?: boolean | undefined;
  readonly dev?: boolean | undefined;
}

export interface ServeConfig extends ShareConfig {
  /** name or address, without brackets */
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
  /** if neither rows nor bytes are in it, it holds at most the key of the App of `--dev` and the generated operator token */
  readonly dataDir: string;
  readonly place: DeploymentPlace;
  /** whether the folder may belong to another user */
  readonly isForeignOwnerAllowed: boolean;
  /** origin (and path prefix) of upload URLs, no trailing slash; undefined: `http://` and the Host of the lease */
  readonly publicUrl: string | undefined;
  readonly nodeBytesMax: number;
  readonly activeUploadsMax: number;
  readonly uploadTtlMs: number;
  /** s a connection may rest between requests */
  readonly idleSeconds: number;
  /** how many server processes share the port */
  readonly workers: number;
  readonly isDev: boolean;
  /** ms between rounds of collection over all Spaces; undefined if only requests collect */
  readonly gcEveryMs: number | undefined;
  /** as of CoreSettings */
  readonly keepReplacedMs: number;
  readonly commitRecordsKeptMs: number | undefined;
  /** ms by which the clocks of rows, bytes and this server may differ; beyond, nothing is collected or swept */
  readonly clockSkewMsMax: number;
  /** undefined if there is no operator listener */
  readonly operators: OperatorListenConfig | undefined;
  readonly corsOrigins: '*' | readonly string[];
  /** undefined if there is no audit log */
  readonly audit: AuditOptions | undefined;
  readonly logLevel: LogLevel;
}

const YEAR_MS = 365 * DAY_MS;

type Environment = Readonly<Record<string, string | undefined>>;

/** Throws ConfigError (wrong usage). */
export function parseServeConfig(flags: ServeFlags, env: Environment): ServeConfig {
  const read = (flag: string | undefined, variable: string): string | undefined =>
    flag ?? nonEmpty(env[variable]);
  const givenDataDir = read(flags.data, 'HOLDFAST_DATA');
  const dataDir = givenDataDir ?? DATA_DIR_DEFAULT;
  const listen = parseListen('--listen', read(flags.listen, 'HOLDFAST_LISTEN') ?? LISTEN_DEFAULT);
  const isDev = flags.dev ?? parseSwitch('HOLDFAST_DEV', env);
  if (isDev) assertLocal(listen.host);
  const publicUrl = read(flags.publicUrl, 'HOLDFAST_PUBLIC_URL');
  const place = parseServedPlace(
    dataDir,
    flags.metadata ?? readMetadataUrl(env),
    read(flags.content, 'HOLDFAST_CONTENT'),
    env,
  );
  return {
    ...listen,
    dataDir,
    place,
    isForeignOwnerAllowed: flags.allowForeignOwner ?? isForeignOwnerAllowed(env),
    publicUrl: publicUrl && parseWebAddress('--public-url', publicUrl, 'https://cas.example.org'),
    // The smallest node has a header and one character of content type. Above the maximum, integrity records would become too large.
    nodeBytesMax:
      parseBytes('--max-node-bytes', read(flags.maxNodeBytes, 'HOLDFAST_MAX_NODE_BYTES'), 25, 2 ** 34) ??
      NODE_BYTES_MAX_DEFAULT,
    activeUploadsMax:
      parseInteger(
        '--max-active-uploads',
        read(flags.maxActiveUploads, 'HOLDFAST_MAX_ACTIVE_UPLOADS'),
        1_000_000,
      ) ?? ACTIVE_UPLOADS_MAX_DEFAULT,
    uploadTtlMs:
      parseMs('--upload-ttl', read(flags.uploadTtl, 'HOLDFAST_UPLOAD_TTL'), 1, 7 * DAY_MS, '5m') ??
      UPLOAD_TTL_MS_DEFAULT,
    gcEveryMs: parseMs('--gc-every', read(flags.gcEvery, 'HOLDFAST_GC_EVERY'), 1000, YEAR_MS, '24h'),
    ...parseKeeping(
      read(flags.keepReplaced, 'HOLDFAST_KEEP_REPLACED'),
      read(flags.commitRecordsKept, 'HOLDFAST_COMMIT_RECORDS_KEPT'),
      place,
    ),
    // Stores date their responses to the second.
    clockSkewMsMax:
      parseMs('--max-clock-skew', read(flags.maxClockSkew, 'HOLDFAST_MAX_CLOCK_SKEW'), 5000, YEAR_MS, '2m') ??
      CLOCK_SKEW_MS_MAX_DEFAULT,
    ...parseShareFlags(
      read(flags.minFree, 'HOLDFAST_MIN_FREE'),
      read(flags.trustedProxy, 'HOLDFAST_TRUSTED_PROXY'),
    ),
    // The runtime's maximum is 255 s.
    idleSeconds: Math.ceil(
      (parseMs('--idle-timeout', read(flags.idleTimeout, 'HOLDFAST_IDLE_TIMEOUT'), 5000, 240_000, '75s') ??
        // The runtime also applies this to the head of a later request on a connection, and a head has 60 s (docs/api.md). Behind
        // a load balancer the value must exceed the balancer's own.
        55_000) / 1000,
    ),
    workers: parseInteger('--workers', read(flags.workers, 'HOLDFAST_WORKERS'), 64) ?? 1,
    isDev,
    operators: parseOperatorListen(
      read(flags.operatorListen, 'HOLDFAST_OPERATOR_LISTEN'),
      read(flags.operatorTokenFile, 'HOLDFAST_OPERATOR_TOKEN_FILE'),
      { isDev, hasFolder: isDev || place.rows.kind === 'folder' || givenDataDir !== undefined },
    ),
    corsOrigins: parseCorsOrigins(nonEmpty(env.HOLDFAST_CORS_ORIGINS)),
    audit: parseAudit(flags, env),
    logLevel: parseLogLevel(nonEmpty(env.HOLDFAST_LOG_LEVEL)),
  };
}

type KeepingConfig = Pick<ServeConfig, 'keepReplacedMs' | 'commitRecordsKeptMs'>;

function parseKeeping(
  replaced: string | undefined,
  commits: string | undefined,
  { bytes }: DeploymentPlace,
): KeepingConfig {
  const commitsMs = [COMMIT_RECORDS_KEPT_MS_MIN, 100 * YEAR_MS] as const;
  return {
    keepReplacedMs:
      parseMs('--keep-replaced', replaced, 0, YEAR_MS, '24h') ?? KEEP_REPLACED_MS_DEFAULT[bytes.kind],
    commitRecordsKeptMs: parseMs('--commit-records-kept', commits, ...commitsMs, '90d'),
  };
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

/** The demo App's token is printed and permits everything, so only this machine may use it. */
function assertLocal(host: string): void {
  if (isLoopbackHost(host)) return;
  throw new ConfigError(
    `--dev serves the demo App, whose token is printed, so it listens on loopback alone and not on ${quote(host)}: leave --dev out and register an App with holdfast app add, or --listen on 127.0.0.1`,
  );
}

/** undefined if no value was given. `form`: the expected form, for the message. */
function parseWithin(
  name: string,
  text: string | undefined,
  [min, max]: readonly [number, number],
  parse: (text: string) => number,
  form: string,
): number | undefined {
  if (text === undefined) return undefined;
  let value = Number.NaN;
  try {
    value = parse(text);
  } catch {
    // Reported with the range.
  }
  if (value >= min && value <= max) return value;
  throw new ConfigError(`${name} ${quote(text)} must be ${form}`);
}

function parseInteger(name: string, text: string | undefined, max: number): number | undefined {
  const parse = (digits: string): number => (/^[0-9]{1,15}$/.test(digits) ? Number(digits) : Number.NaN);
  return parseWithin(name, text, [1, max], parse, `an integer from 1 to ${max}`);
}

function parseBytes(name: string, text: string | undefined, min: number, max: number): number | undefined {
  return parseWithin(name, text, [min, max], parseSize, `a size from ${min} to ${max} bytes, such as 64MiB`);
}

function parseMs(
  name: string,
  text: string | undefined,
  min: number,
  max: number,
  example: string,
): number | undefined {
  const form = `a duration from ${formatDuration(min)} to ${formatDuration(max)}, such as ${example}`;
  return parseWithin(name, text, [min, max], parseDuration, form);
}

function parseCorsOrigins(text: string | undefined): '*' | readonly string[] {
  if (text === undefined || text === '*') return '*';
  const origins = text.split(',').map((origin) => origin.trim());
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new ConfigError(
        `HOLDFAST_CORS_ORIGINS has ${quote(origin)}; give *, or origins such as https://app.example.org joined by commas`,
      );
    }
  }
  return origins;
}

function parseLogLevel(text: string | undefined): LogLevel {
  const level = LOG_LEVELS.find((known) => known === (text ?? 'info'));
  if (level !== undefined) return level;
  throw new ConfigError(`HOLDFAST_LOG_LEVEL ${quote(text ?? '')} must be one of ${LOG_LEVELS.join(', ')}`);
}

function quote(text: string): string {
  return JSON.stringify(text);
}

interface AuditFlags {
  readonly auditLog?: string | undefined;
  readonly auditReads?: boolean | undefined;
  readonly auditRequired?: boolean | undefined;
}

/** undefined if there is no audit log. Throws ConfigError. */
function parseAudit(flags: AuditFlags, env: Environment): AuditOptions | undefined {
  const path = flags.auditLog ?? (env.HOLDFAST_AUDIT_LOG || undefined);
  const withReads = flags.auditReads ?? parseSwitch('HOLDFAST_AUDIT_READS', env);
  const isRequired = flags.auditRequired ?? parseSwitch('HOLDFAST_AUDIT_REQUIRED', env);
  if (path === undefined) {
    if (!withReads && !isRequired) return undefined;
    const name = withReads ? '--audit-reads' : '--audit-required';
    throw new ConfigError(`${name} needs an audit log: give --audit-log FILE, or - for stdout`);
  }
  if (path === '') throw new ConfigError('--audit-log is empty: give a file, or - for stdout');
  const target = path === '-' ? ({ kind: 'stdout' } as const) : ({ kind: 'file', path } as const);
  return { target, withReads, isRequired };
}

interface OperatorFlags {
  readonly operatorListen?: string | undefined;
  readonly operatorTokenFile?: string | undefined;
}

interface OperatorListenConfig {
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
  /** whether to take any free port if this one is in use */
  readonly mayMove: boolean;
  /** undefined if the server generates a token in the data folder */
  readonly tokenFile: string | undefined;
}

/** undefined if there is no such listener. `hasFolder`: whether there is a data folder. Throws ConfigError. */
function parseOperatorListen(
  listen: string | undefined,
  tokenFile: string | undefined,
  { isDev, hasFolder }: { readonly isDev: boolean; readonly hasFolder: boolean },
): OperatorListenConfig | undefined {
  if (listen === undefined && !isDev) {
    if (tokenFile === undefined) return undefined;
    throw new ConfigError(
      '--operator-token-file needs --operator-listen HOST:PORT, the address that it guards',
    );
  }
  const address = parseListen('--operator-listen', listen ?? OPERATOR_LISTEN_DEV);
  if (tokenFile === undefined && !isLoopbackHost(address.host)) {
    throw new ConfigError(
      `--operator-listen ${JSON.stringify(listen)} can be reached from other machines: give --operator-token-file FILE with a token (umask 077; openssl rand -hex 32 > FILE), or listen on 127.0.0.1`,
    );
  }
  if (tokenFile === undefined && !hasFolder) {
    throw new ConfigError(
      '--operator-listen needs --operator-token-file FILE (umask 077; openssl rand -hex 32 > FILE): without a data folder there is no place for a token that the server makes',
    );
  }
  return { ...address, mayMove: listen === undefined, tokenFile };
}

interface ShareFlags {
  readonly minFree?: string | undefined;
  readonly trustedProxy?: string | undefined;
}

interface ShareConfig {
  /** kept free in the data folder; undefined: 1 GiB or 5 % of the disk, whichever is less */
  readonly minFreeBytes: number | undefined;
  /** addresses and ranges of proxies that say who the client is */
  readonly trustedProxies: readonly string[];
}

/** Throws ConfigError. */
function parseShareFlags(minFree: string | undefined, trustedProxy: string | undefined): ShareConfig {
  return { minFreeBytes: parseMinFree(minFree), trustedProxies: parseTrustedProxies(trustedProxy) };
}

function parseMinFree(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  try {
    const bytes = parseSize(text);
    if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes;
  } catch {
    // Said below, with the name of the flag.
  }
  throw new ConfigError(
    `--min-free ${JSON.stringify(text)} must be a size such as 10GiB; 0 keeps nothing free`,
  );
}

function parseTrustedProxies(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const ranges = text.split(',').map((range) => range.trim());
  try {
    void new TrustedProxies(ranges);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ConfigError(
      `--trusted-proxy has ${JSON.stringify(error.message)}; give addresses or ranges of proxies joined by commas, such as 10.0.0.0/8,::1`,
    );
  }
  return ranges;
}

/** `flag` is named in messages. Throws ConfigError. */
function parseListen(flag: string, text: string): ListenAddress {
  const address = parseListenAddress(text);
  if (address !== undefined) return address;
  throw new ConfigError(
    `${flag} ${JSON.stringify(text)} is not HOST:PORT; give one such as 127.0.0.1:8420, 0.0.0.0:8420 or [::1]:8420`,
  );
}
