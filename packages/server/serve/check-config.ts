/** `holdfast config check`: validates flags and variables like `serve`, and shows the effective settings. Creates nothing. */

import { createServer } from 'node:net';
import { formatDuration, HEALTH_PATH } from '@holdfast/protocol';
import { nameBucket, nameRows } from '../deployment/place.ts';
import { formatAuthority } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';
import { type EngineFindings, tryEngines, tryFolder } from '../inspect/try-engines.ts';
import { parseServeConfig, type ServeConfig, type ServeFlags } from './config.ts';
import { nameLocalUrl } from './local-address.ts';
import { loadGivenTokens } from './operator-tokens.ts';
import { checkTraces } from './traces.ts';
import { findUnknownVariables, listServeVariables } from './variables.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigProblem {
  /** usage: an invalid value or variable; engine: something unavailable now */
  readonly kind: 'usage' | 'engine';
  /** one line: the problem and its remedy */
  readonly message: string;
}

export type ShownSettings = Readonly<Record<string, string | number | boolean | null>>;

export interface ConfigReport {
  readonly ok: boolean;
  readonly problems: readonly ConfigProblem[];
  /** facts found online, in words */
  readonly found: readonly string[];
  /** the settings that `serve` would use, without secrets; null if the values are invalid */
  readonly settings: ShownSettings | null;
}

export interface ConfigCheck {
  readonly flags: ServeFlags;
  readonly env: Environment;
  /** variables that other commands read */
  readonly otherVariables: readonly string[];
  /** whether to check the engines too */
  readonly isOnline: boolean;
}

export async function checkConfig({
  flags,
  env,
  otherVariables,
  isOnline,
}: ConfigCheck): Promise<ConfigReport> {
  const wrong = [
    ...findWrongValues(flags, env),
    ...findUnknownVariables(env, [...listServeVariables(), ...otherVariables]).map(describeUnknown),
  ];
  const traces = await checkTraces(env);
  const problems: ConfigProblem[] = [...wrong, ...traces.problems].map((message) => ({
    kind: 'usage',
    message,
  }));
  const config = tryParse(flags, env);
  if (config instanceof ConfigError) return { ok: false, problems, found: traces.found, settings: null };
  const settings = describeSettings(config);
  problems.push(...(await findBadTokens(config)).map((message) => ({ kind: 'usage' as const, message })));
  const engines = isOnline ? await tryOnline(config) : tryFolder(config.place.rows);
  problems.push(...engines.problems.map((message) => ({ kind: 'engine' as const, message })));
  return { ok: problems.length === 0, problems, found: [...traces.found, ...engines.found], settings };
}

/** Checks the file of operator tokens like `serve`. */
async function findBadTokens(config: ServeConfig): Promise<readonly string[]> {
  try {
    await loadGivenTokens(config);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [error.message];
    throw error;
  }
}

type Findings = Pick<EngineFindings, 'problems' | 'found'>;

async function tryOnline(config: ServeConfig): Promise<Findings> {
  const engines = await tryEngines(config.place);
  const listening = await tryAddresses(config, engines.isServed);
  return {
    problems: [...engines.problems, ...listening.problems],
    found: [...engines.found, ...listening.found],
  };
}

function describeUnknown({
  name,
  meant,
}: {
  readonly name: string;
  readonly meant: string | undefined;
}): string {
  const advice = meant === undefined ? 'unset it, or see holdfast serve --help' : `was ${meant} meant?`;
  return `the variable ${name} is unknown, and nothing reads it: ${advice}`;
}

function tryParse(flags: ServeFlags, env: Environment): ServeConfig | ConfigError {
  try {
    return parseServeConfig(flags, env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

interface Given {
  readonly flags: ServeFlags;
  readonly env: Environment;
}

/** The parser stops at the first invalid value, so that is removed until it succeeds. What follows from a removal is no problem. */
function findWrongValues(flags: ServeFlags, env: Environment): readonly string[] {
  const messages: string[] = [];
  const leftOut: string[] = [];
  let given: Given = { flags, env };
  for (;;) {
    const stopped = tryParse(given.flags, given.env);
    if (!(stopped instanceof ConfigError)) return messages;
    const { message } = stopped;
    if (!leftOut.some((name) => message.includes(name))) messages.push(message);
    const next = findCulprit(given, message);
    if (next === undefined) return messages;
    leftOut.push(next.name);
    given = next.rest;
  }
}

/** The setting without which the parser reports something else. */
function findCulprit(
  { flags, env }: Given,
  message: string,
): { readonly name: string; readonly rest: Given } | undefined {
  const outcomes = [
    ...Object.keys(flags).map((key) => {
      const name = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      return { name, rest: { flags: { ...flags, [key]: undefined }, env } };
    }),
    ...listServeVariables().map((name) => {
      const flag = `--${name.slice('HOLDFAST_'.length).toLowerCase().replaceAll('_', '-')}`;
      return { name: flag, rest: { flags, env: { ...env, [name]: undefined } } };
    }),
  ].map((each) => ({ ...each, outcome: tryParse(each.rest.flags, each.rest.env) }));
  const isOther = (outcome: ServeConfig | ConfigError): boolean =>
    !(outcome instanceof ConfigError) || outcome.message !== message;
  return (
    outcomes.find(({ outcome }) => !(outcome instanceof ConfigError)) ??
    outcomes.find(({ outcome }) => isOther(outcome))
  );
}

/** One line per setting, by the name of its flag, without secrets. */
const SHOWN: { readonly [Key in keyof ServeConfig]: (config: ServeConfig) => ShownSettings } = {
  host: ({ host, port }) => ({ listen: formatAuthority(host, port) }),
  port: () => ({}),
  dataDir: ({ dataDir }) => ({ data: dataDir }),
  place: ({ place: { rows, bytes } }) => ({
    metadata: rows.kind === 'folder' ? 'SQLite in the data folder' : nameRows(rows),
    content: bytes.kind === 'folder' ? 'files in the data folder' : nameBucket(bytes),
  }),
  isForeignOwnerAllowed: ({ isForeignOwnerAllowed }) => ({ allowForeignOwner: isForeignOwnerAllowed }),
  publicUrl: ({ publicUrl }) => ({ publicUrl: publicUrl ?? null }),
  nodeBytesMax: ({ nodeBytesMax }) => ({ maxNodeBytes: nodeBytesMax }),
  activeUploadsMax: ({ activeUploadsMax }) => ({ maxActiveUploads: activeUploadsMax }),
  uploadTtlMs: ({ uploadTtlMs }) => ({ uploadTtlMs }),
  gcEveryMs: ({ gcEveryMs }) => ({ gcEveryMs: gcEveryMs ?? null }),
  keepReplacedMs: ({ keepReplacedMs }) => ({ keepReplacedMs }),
  commitRecordsKeptMs: ({ commitRecordsKeptMs }) => ({ commitRecordsKeptMs: commitRecordsKeptMs ?? null }),
  clockSkewMsMax: ({ clockSkewMsMax }) => ({ maxClockSkewMs: clockSkewMsMax }),
  minFreeBytes: ({ minFreeBytes }) => ({ minFree: minFreeBytes ?? '1GiB or 5 % of the disk' }),
  idleSeconds: ({ idleSeconds }) => ({ idleTimeout: formatDuration(idleSeconds * 1000) }),
  trustedProxies: ({ trustedProxies }) => ({ trustedProxy: trustedProxies.join(',') || null }),
  workers: ({ workers }) => ({ workers }),
  isDev: ({ isDev }) => ({ dev: isDev }),
  operators: ({ operators }) => ({
    operatorListen: operators === undefined ? null : formatAuthority(operators.host, operators.port),
    operatorTokenFile: operators?.tokenFile ?? null,
  }),
  audit: ({ audit }) => ({
    auditLog: audit === undefined ? null : audit.target.kind === 'stdout' ? '-' : audit.target.path,
    auditReads: audit?.withReads ?? false,
    auditRequired: audit?.isRequired ?? false,
  }),
  corsOrigins: ({ corsOrigins }) => ({ corsOrigins: corsOrigins === '*' ? '*' : corsOrigins.join(',') }),
  logLevel: ({ logLevel }) => ({ logLevel }),
};

function describeSettings(config: ServeConfig): ShownSettings {
  return Object.assign({}, ...Object.values(SHOWN).map((describe) => describe(config)));
}

interface ListenFindings {
  readonly problems: readonly string[];
  readonly found: readonly string[];
}

/** Identifies a Holdfast server on either listener. */
const SIGNS = {
  '--listen': { path: HEALTH_PATH, answer: '{"status":"ok"}' },
  '--operator-listen': { path: '/livez', answer: 'ok' },
} as const;

/** `isServed`: a server already uses these engines, so it may hold the ports. */
async function tryAddresses(
  { host, port, operators }: ServeConfig,
  isServed: boolean,
): Promise<ListenFindings> {
  const own = await tryListen('--listen', { host, port }, isServed);
  // Without a flag, the operator listener takes another port.
  if (operators === undefined || operators.mayMove) return own;
  const others = await tryListen('--operator-listen', operators, isServed);
  return { problems: [...own.problems, ...others.problems], found: [...own.found, ...others.found] };
}

async function tryListen(
  flag: keyof typeof SIGNS,
  { host, port }: Pick<ServeConfig, 'host' | 'port'>,
  isServed: boolean,
): Promise<ListenFindings> {
  if (port === 0) return { problems: [], found: [`${flag}: the system will choose a free port`] };
  const where = formatAuthority(host, port);
  const code = await findListenError(host, port);
  if (code === undefined) return { problems: [], found: [`${flag}: ${where} is free`] };
  // If engines are shared, the running server may be on another machine, and the port another program's.
  if (code === 'EADDRINUSE' && isServed && (await isHoldfast(flag, host, port))) {
    return { problems: [], found: [`${flag}: ${where} is taken by a Holdfast server that runs`] };
  }
  return { problems: [`${flag} ${where}: ${adviseOn(code)}`], found: [] };
}

async function isHoldfast(flag: keyof typeof SIGNS, host: string, port: number): Promise<boolean> {
  const { path, answer } = SIGNS[flag];
  try {
    const response = await fetch(`${nameLocalUrl(host, port)}${path}`, {
      signal: AbortSignal.timeout(2_000),
      redirect: 'manual',
    });
    return (await response.text()).trim() === answer;
  } catch {
    return false;
  }
}

function adviseOn(code: string): string {
  if (code === 'EADDRINUSE') return 'the port is taken; stop what listens there, or choose another';
  if (code === 'EACCES') return 'this user may not listen on that port; choose one from 1024 on';
  return `cannot listen there (${code}); give an address of this machine`;
}

function findListenError(host: string, port: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const server = createServer();
  server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  return promise;
}
