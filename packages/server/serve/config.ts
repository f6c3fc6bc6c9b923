/** Turns flags and environment into one typed configuration at start. */
import {
  ACTIVE_UPLOADS_MAX_DEFAULT,
  CLOCK_SKEW_MS_MAX_DEFAULT,
  DATA_DIR_DEFAULT,
  DAY_MS,
  formatDuration,
  KEEP_REPLACED_MS_DEFAULT,
  LISTEN_DEFAULT,
  NODE_BYTES_MAX_DEFAULT,
  parseDuration,
  parseSize,
  UPLOAD_TTL_MS_DEFAULT,
} from '@holdfast/protocol';
import type { AuditOptions } from '../audit/audit-log.ts';
import { isForeignOwnerAllowed } from '../deployment/folder-owner.ts';
import { type DeploymentPlace, parseServedPlace, readMetadataUrl } from '../deployment/place.ts';
import { isLoopbackHost, parseWebAddress } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';
import { LOG_LEVELS, type LogLevel } from '../log.ts';
import { type AuditFlags, parseAudit } from './audit-flags.ts';
import { type OperatorFlags, type OperatorListenConfig, parseOperatorListen } from './operator-flags.ts';
import { parseListen } from './parse-listen.ts';
import { parseShareFlags, type ShareConfig, type ShareFlags } from './share-flags.ts';

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
  const isDev = flags.dev ?? false;
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
    keepReplacedMs:
      parseMs('--keep-replaced', read(flags.keepReplaced, 'HOLDFAST_KEEP_REPLACED'), 0, YEAR_MS, '24h') ??
      KEEP_REPLACED_MS_DEFAULT[place.bytes.kind],
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
