/** Turns the URL of `--metadata` into an address, as the tools of PostgreSQL understand it. Messages quote no value of it. */
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import {
  assertParameter,
  CHANNEL_BINDINGS,
  choose,
  hasControls,
  POSTGRES_TLS,
  type PostgresAddress,
  type PostgresHost,
  type PostgresTls,
  parseUrl,
} from './address.ts';

const EXAMPLE = 'postgres://USER:PASSWORD@HOST:5432/DATABASE';
const SCHEMES = ['postgres:', 'postgresql:'];
const PORT_DEFAULT = '5432';
/** A bound, because each host that does not answer delays every new connection. */
const HOSTS_MAX = 8;
const CONNECTIONS_MAX = 500;
const CONNECT_SECONDS_MAX = 3600;
/** Stands where the URL names no host: a URL with a user must have one. */
const NO_HOST = 'none.invalid';
/** The certificates of the runtime, where `sslrootcert` says so. */
const SYSTEM_ROOTS = 'system';

/** Each parameter of a URL, with the variable that replaces it if it is absent. */
const VARIABLES = {
  host: 'PGHOST',
  port: 'PGPORT',
  dbname: 'PGDATABASE',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  passfile: 'PGPASSFILE',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  channel_binding: 'PGCHANNELBINDING',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  application_name: 'PGAPPNAME',
  connections: undefined,
  target_session_attrs: undefined,
} as const;

type Parameter = keyof typeof VARIABLES;
type Environment = Readonly<Record<string, string | undefined>>;

interface Given {
  readonly flag: string;
  /** from the URL, else from `before` (before its `?`), else the variable, as PostgreSQL's own tools do; never empty */
  find(name: Parameter, before?: string): string | undefined;
}

/** Whatever the URL leaves out may come from the variables of PostgreSQL. Messages name `flag`. Throws ConfigError. */
export function parsePostgresUrl(text: string, env: Environment, flag = '--metadata'): PostgresAddress {
  const [url, ...others] = splitHosts(text).map((each) => parseUrl(flag, each, SCHEMES, EXAMPLE)) as [URL];
  const parameters = readParameters(flag, url.search);
  const given: Given = {
    flag,
    find: (name, before) => (parameters.get(name) ?? before) || variable(env, name),
  };
  const database = given.find('dbname', decode(flag, url.pathname.slice(1))) ?? '';
  const user = given.find('user', decode(flag, url.username)) ?? '';
  const password = given.find('password', decode(flag, url.password));
  const hosts = parseHosts([url, ...others], given, parameters);
  if (database === '' || database.includes('/') || hasControls(database)) {
    throw new ConfigError(`${flag} names no database; give ${EXAMPLE}`);
  }
  if (user === '' || hasControls(user) || hasControls(password ?? '')) {
    throw new ConfigError(`${flag} names no user; give ${EXAMPLE}, or the variable PGUSER`);
  }
  const attributes = given.find('target_session_attrs') ?? 'read-write';
  choose(flag, 'target_session_attrs', attributes, ['read-write', 'primary', 'any']);
  return {
    ...{ hosts, database, user, password },
    passFile: given.find('passfile') ?? (env.HOME ? join(env.HOME, '.pgpass') : undefined),
    ...parseTls(given),
    channelBinding: choose(
      flag,
      'channel_binding',
      given.find('channel_binding') ?? 'prefer',
      CHANNEL_BINDINGS,
    ),
    connectMs: parseConnectTimeout(given),
    connectionsMax: parseConnections(given),
    applicationName: given.find('application_name') ?? 'holdfast',
  };
}

const variable = (env: Environment, name: Parameter): string | undefined => {
  const its = VARIABLES[name];
  return (its && env[its]) || undefined;
};

/** `h1:1,h2:2` is not a valid host of a URL, so this makes one URL for each host, alike in everything else. */
function splitHosts(text: string): string[] {
  const [, start = '', hosts = '', rest = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(text) ?? [];
  if (start === '') return [text];
  return hosts.split(',').map((host) => `${start}${hosts === '' ? NO_HOST : host}${rest}`);
}

function readParameters(flag: string, search: string): ReadonlyMap<string, string> {
  const known = Object.keys(VARIABLES);
  const parameters = new Map<string, string>();
  for (const part of search.slice(1).split('&')) {
    if (part === '') continue;
    // A plus is a plus, as PostgreSQL has it.
    const [name = '', value = ''] = part.split(/=(.*)/s).map((each) => decode(flag, each));
    assertParameter(flag, { name, value, isRepeated: parameters.has(name) }, known);
    parameters.set(name, value);
  }
  return parameters;
}

/** The hosts of the parameter `host`, else those before the path. Ports are those of `port`, else those before the path. */
function parseHosts(
  urls: readonly URL[],
  { flag, find }: Given,
  parameters: ReadonlyMap<string, string>,
): PostgresHost[] {
  const isNamed = !parameters.has('host') && urls[0]?.hostname !== NO_HOST;
  const names = isNamed
    ? urls.map(({ hostname, port }) => ({
        host: decode(flag, hostname).replace(/^\[(.*)\]$/, '$1'),
        port: parameters.has('port') ? '' : port,
      }))
    : (find('host') ?? '').split(',').map((host, index) => ({
        host,
        port: parameters.has('port') ? '' : (urls.length === 1 ? urls[0] : urls[index])?.port,
      }));
  if (names.length > HOSTS_MAX) {
    throw new ConfigError(`${flag} names more than ${HOSTS_MAX} hosts; leave some out`);
  }
  const ports = (find('port') ?? PORT_DEFAULT).split(',');
  return names.map(({ host, port }, index) => {
    const isFolder = host.startsWith('/');
    const isWrong = isFolder ? hasControls(host) || host.includes(',') : host === '' || /[\s,/]/.test(host);
    if (isWrong) {
      throw new ConfigError(
        `${flag} names no host; give ${EXAMPLE}, or the parameter host with a name or a folder of sockets`,
      );
    }
    return {
      host,
      port: parsePort(flag, port || (ports.length === 1 ? ports[0] : ports[index]) || PORT_DEFAULT),
    };
  });
}

function parsePort(flag: string, text: string): number {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new ConfigError(`the parameter port of ${flag} must be an integer from 1 to 65535`);
}

function parseTls({ flag, find }: Given): Pick<PostgresAddress, 'tls' | 'tlsRootFile' | 'tlsOwn'> {
  const roots = find('sslrootcert');
  const mode = find('sslmode') ?? (roots === SYSTEM_ROOTS ? 'verify-full' : 'prefer');
  // `allow` begins without encryption. `prefer` accepts the same servers and begins with encryption.
  const tls = mode === 'allow' ? 'prefer' : choose<PostgresTls>(flag, 'sslmode', mode, POSTGRES_TLS);
  const certificateFile = find('sslcert');
  const keyFile = find('sslkey');
  if ((certificateFile === undefined) !== (keyFile === undefined)) {
    const [has, lacks] = keyFile === undefined ? ['sslcert', 'sslkey'] : ['sslkey', 'sslcert'];
    throw new ConfigError(`${flag} has the parameter ${has} without ${lacks}; give both, or neither`);
  }
  const tlsRootFile = roots === SYSTEM_ROOTS ? undefined : roots;
  return {
    // As PostgreSQL has it: who names authorities wants them asked.
    tls: tls === 'require' && tlsRootFile !== undefined ? 'verify-ca' : tls,
    tlsRootFile,
    tlsOwn: certificateFile === undefined || keyFile === undefined ? undefined : { certificateFile, keyFile },
  };
}

function parseConnectTimeout({ flag, find }: Given): number | undefined {
  const text = find('connect_timeout');
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,4}$/.test(text) || Number(text) > CONNECT_SECONDS_MAX) {
    throw new ConfigError(
      `the parameter connect_timeout of ${flag} must be seconds, an integer from 0 to ${CONNECT_SECONDS_MAX}`,
    );
  }
  // PostgreSQL's own tools wait at least 2 s too.
  return Number(text) === 0 ? undefined : Math.max(Number(text), 2) * 1000;
}

function parseConnections({ flag, find }: Given): number {
  const text = find('connections');
  if (text === undefined) return 16;
  const count = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= CONNECTIONS_MAX) return count;
  throw new ConfigError(
    `the parameter connections of ${flag} must be an integer from 1 to ${CONNECTIONS_MAX}`,
  );
}

function decode(flag: string, part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ConfigError(`${flag} is not percent-encoded correctly; give ${EXAMPLE}`);
  }
}
